//! Long-poll and events.

use std::time::{Duration, Instant};

use crate::support::{PATIENCE, start, stream};

fn events_of(name: &str, offset: &str) -> String {
    format!("GET {}?offset={offset}&live=sse HTTP/1.1\r\nHost: test\r\n\r\n", stream(name))
}

/// Point 33.
#[test]
fn the_head_of_a_live_answer_comes_at_once_and_tells_proxies_not_to_wait() {
    let server = start(&[]);
    server.make("a");
    let mut client = server.client();
    client.send(events_of("a", "now"));
    let (status, headers) = client.head();
    assert_eq!(status, 200);
    let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    assert_eq!(header("content-type"), Some("text/event-stream"));
    assert_eq!(header("x-accel-buffering"), Some("no"));
    assert_eq!(header("cache-control"), Some("no-cache"));
    assert_eq!(header("content-length"), None);
    let first = String::from_utf8(client.chunk().unwrap()).unwrap();
    assert!(first.starts_with("event: control\ndata:{\"streamNextOffset\""), "{first}");
    server.append("a", "x");
    let second = String::from_utf8(client.chunk().unwrap()).unwrap();
    assert!(second.starts_with("event: data\ndata:x\n\nevent: control\n"), "{second}");
}

/// Point 33.
#[test]
fn a_silent_stream_gets_comments_and_an_old_connection_ends() {
    let server = start(&[("sse-keep-alive", "50ms"), ("sse-lifetime", "400ms")]);
    server.make("a");
    let mut client = server.client();
    client.send(events_of("a", "now"));
    client.head();
    let mut comments = 0;
    let mut last = Vec::new();
    while let Some(chunk) = client.chunk() {
        comments += usize::from(chunk.starts_with(b":"));
        last = chunk;
    }
    assert!(comments >= 2, "{comments}");
    assert!(last.ends_with(b"\n\n"), "it ends between events");
    assert_eq!(client.ask("GET", &stream("a"), &[], "").status, 200, "the connection goes on");
}

/// Points 17 and 30.
#[test]
fn a_fixed_end_ends_waiting_readers() {
    let server = start(&[("long-poll-timeout", "15s")]);
    let soon = jiff::Timestamp::now() + Duration::from_secs(2);
    let ends = [("Stream-Expires-At", soon.to_string())];
    let ends = ends.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(server.ask("PUT", &stream("a"), &ends, "").status, 201);
    let (mut poll, mut events) = (server.client(), server.client());
    let target = format!("{}?offset=now&live=long-poll", stream("a"));
    poll.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"));
    events.send(events_of("a", "now"));
    assert_eq!(events.head().0, 200);
    assert!(events.chunk().is_some());
    assert_eq!(poll.answer("GET").status, 404);
    assert_eq!(events.chunk(), None);
}

/// Points 30 and 38.
#[test]
fn a_close_or_delete_ends_waiting_readers() {
    let server = start(&[("long-poll-timeout", "20s")]);
    for (name, method, headers) in
        [("a", "POST", &[("Stream-Closed", "true")][..]), ("b", "DELETE", &[])]
    {
        server.make(name);
        let (mut poll, mut events) = (server.client(), server.client());
        let target = format!("{}?offset=now&live=long-poll", stream(name));
        poll.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"));
        events.send(events_of(name, "now"));
        events.head();
        events.chunk();
        let started = Instant::now();
        assert_eq!(server.ask(method, &stream(name), headers, "").status, 204);
        let polled = poll.answer("GET");
        if method == "POST" {
            assert_eq!((polled.status, polled.header("stream-closed")), (204, Some("true")));
            let last = String::from_utf8(events.chunk().unwrap()).unwrap();
            assert!(last.contains("\"streamClosed\":true"), "{last}");
        } else {
            assert_eq!(polled.status, 404);
        }
        assert_eq!(events.chunk(), None);
        assert!(started.elapsed() < PATIENCE, "nobody waited for the timeout");
    }
}

/// Point 30: who asks from now on hears at once that nothing will come, whatever way it asks.
#[test]
fn from_now_on_the_end_is_told_by_the_headers_of_every_kind_of_read() {
    let server = start(&[("long-poll-timeout", "20s")]);
    server.make("open");
    server.make("a");
    server.append("a", "xyz");
    let closed = server.ask("POST", &stream("a"), &[("Stream-Closed", "true")], "");
    let tail = closed.next_offset();
    for (live, status) in [("", 200), ("&live=long-poll", 204), ("&live=sse", 200)] {
        let answer = server.ask("GET", &format!("{}?offset=now{live}", stream("a")), &[], "");
        assert_eq!(answer.status, status, "{live}");
        assert_eq!(answer.header("stream-closed"), Some("true"), "{live}");
        assert_eq!(answer.header("stream-up-to-date"), Some("true"), "{live}");
        assert_eq!(answer.header("stream-next-offset"), Some(tail.as_str()), "{live}");
        if live == "&live=sse" {
            let end = "\",\"upToDate\":true,\"streamClosed\":true}\n\n";
            let control = "event: control\ndata:{\"streamNextOffset\":\"";
            assert_eq!(answer.text(), format!("{control}{tail}{end}"));
        }
    }
    // The head comes before what it would be about.
    for (name, offset) in [("open", "now"), ("a", "-1")] {
        let mut client = server.client();
        client.send(events_of(name, offset));
        let (_, headers) = client.head();
        assert!(headers.iter().all(|(name, _)| name != "stream-closed"), "{name} {headers:?}");
    }
}

/// Point 17: its readers wait longer than it lives without a use.
#[test]
fn a_stream_does_not_end_while_somebody_waits_for_what_comes() {
    let server = start(&[("long-poll-timeout", "5s")]);
    for name in ["events", "poll"] {
        let headers = [("Content-Type", "text/plain"), ("Stream-TTL", "3")];
        assert_eq!(server.ask("PUT", &stream(name), &headers, "").status, 201);
    }
    let mut events = server.client();
    events.send(events_of("events", "now"));
    events.head();
    events.chunk();
    let poll = format!("{}?offset=now&live=long-poll", stream("poll"));
    assert_eq!(
        server.ask("GET", &poll, &[], "").status,
        204,
        "nothing came, but the stream is there"
    );
    for name in ["events", "poll"] {
        assert_eq!(server.append(name, "late").status, 204, "{name}");
    }
    assert!(String::from_utf8(events.chunk().unwrap()).unwrap().contains("data:late\n"));
}

/// Fan-out: all readers get the same bytes.
#[test]
fn many_readers_of_one_stream_get_each_event_once_and_in_order() {
    let server = start(&[]);
    server.make("a");
    let mut clients: Vec<_> = (0..50).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send(events_of("a", "now"));
        client.head();
        client.chunk();
    }
    for number in 0..20 {
        assert_eq!(server.append("a", &format!("<{number}>")).status, 204);
    }
    server.ask("POST", &stream("a"), &[("Stream-Closed", "true")], "");
    let expected: String = (0..20).map(|number| format!("<{number}>")).collect();
    for client in &mut clients {
        let mut text = String::new();
        while let Some(chunk) = client.chunk() {
            text += std::str::from_utf8(&chunk).unwrap();
        }
        let data: String = text
            .lines()
            .filter_map(|line| line.strip_prefix("data:<"))
            .fold(String::new(), |all, line| all + "<" + line);
        assert_eq!(data, expected);
    }
}

#[test]
fn a_reader_that_goes_away_frees_what_it_held() {
    let server = start(&[]);
    server.make("a");
    let mut client = server.client();
    client.send(events_of("a", "now"));
    client.head();
    assert!(server.metrics().contains("highwater_subscribers 1"));
    drop(client);
    let started = Instant::now();
    while !server.metrics().contains("highwater_subscribers 0") {
        assert!(started.elapsed() < PATIENCE, "the reader is still counted");
        std::thread::yield_now();
    }
}
