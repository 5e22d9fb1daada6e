//! What has moved home is read by threads that may block, in every way of reading; and what was
//! acknowledged ahead of its barrier is found by whoever appended it.

use crate::support::{PATIENCE, Running, start, stream};

/// A server whose log moves home as soon as it can, with a stream that has.
fn with_a_stream_at_home(content_type: &str, body: &str) -> Running {
    let server = start(&[("checkpoint-interval", "50ms"), ("chunk-bytes", "64KiB")]);
    let made = server.ask("PUT", &stream("a"), &[("Content-Type", content_type)], "");
    assert_eq!(made.status, 201);
    let appended = server.ask("POST", &stream("a"), &[("Content-Type", content_type)], body);
    assert_eq!(appended.status, 204);
    let begun = std::time::Instant::now();
    let has_moved = |metrics: &str| {
        let home = metrics.lines().find(|line| line.starts_with("highwater_home_bytes_total"));
        home.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0) > 0
    };
    while !has_moved(&server.metrics()) {
        assert!(begun.elapsed() < PATIENCE, "a checkpoint comes");
        std::thread::yield_now();
    }
    server
}

/// Point 26.
#[test]
fn a_stream_at_home_is_read_in_chunks_from_start_to_end() {
    let body: String = (0..50_000).map(|number| format!("{number:05}\n")).collect();
    let server = with_a_stream_at_home("text/plain", &body);
    let (mut read, mut offset, mut chunks) = (String::new(), "-1".to_owned(), 0);
    loop {
        let answer = server.ask("GET", &format!("{}?offset={offset}", stream("a")), &[], "");
        assert_eq!(answer.status, 200);
        read += &answer.text();
        offset = answer.next_offset();
        chunks += 1;
        if answer.header("stream-up-to-date").is_some() {
            break;
        }
    }
    assert!(chunks >= 5, "{chunks}");
    assert!(read == body, "I1: every byte at its place");
}

/// Points 30, 35 and 41.
#[test]
fn live_readers_begin_at_home_and_go_on_at_the_tail() {
    let server = with_a_stream_at_home("application/json", r#"[{"at":"home"},2]"#);
    let target = format!("{}?offset=-1&live=long-poll", stream("a"));
    let polled = server.ask("GET", &target, &[], "");
    assert_eq!(
        (polled.status, polled.text().replace('\n', "")),
        (200, r#"[{"at":"home"}, 2]"#.into())
    );
    let inside = format!("{}?offset=0000000000000000_0000000000000003&live=sse", stream("a"));
    assert_eq!(server.ask("GET", &inside, &[], "").status, 400, "not between messages");
    let mut events = server.client();
    events.send(format!("GET {}?offset=-1&live=sse HTTP/1.1\r\nHost: test\r\n\r\n", stream("a")));
    assert_eq!(events.head().0, 200);
    let first = String::from_utf8(events.chunk().unwrap()).unwrap();
    assert!(first.starts_with("event: data\ndata:[{\"at\":\"home\"}, 2]\n\n"), "{first}");
    server.ask("POST", &stream("a"), &[("Content-Type", "application/json")], "3");
    let second = String::from_utf8(events.chunk().unwrap()).unwrap();
    assert!(second.starts_with("event: data\ndata:[3]\n\n"), "{second}");
}

/// Points 24 and 26.
#[test]
fn whoever_appends_reads_it_back_although_it_is_acknowledged_before_its_barrier() {
    let server = start(&[("durability", "relaxed=1h")]);
    server.make("a");
    assert_eq!(server.ask("HEAD", &stream("a"), &[], "").status, 200);
    for number in 0..20 {
        let next = server.append("a", &format!("{number};")).next_offset();
        let target = format!("{}?offset=-1", stream("a"));
        let read = server.ask("GET", &target, &[], "");
        assert_eq!(read.next_offset(), next);
        assert!(read.text().ends_with(&format!("{number};")));
        assert_eq!(server.ask("HEAD", &stream("a"), &[], "").next_offset(), next);
    }
    let mut events = server.client();
    events.send(format!("GET {}?offset=now&live=sse HTTP/1.1\r\nHost: test\r\n\r\n", stream("a")));
    events.head();
    events.chunk().unwrap();
    server.append("a", "live");
    let event = String::from_utf8(events.chunk().unwrap()).unwrap();
    assert!(event.starts_with("event: data\ndata:live\n\n"), "{event}");
    server.append("a", "at the end");
    drop(events);
    // Ends only because stopping commits at once.
    let folder = server.stop();
    let server = crate::support::start_in(folder, &[]);
    assert!(server.ask("GET", &stream("a"), &[], "").text().ends_with("at the end"));
}

/// Point 49, where acknowledgements run ahead of the barrier.
#[test]
fn a_subscription_begins_behind_what_was_acknowledged_before_it() {
    let server = start(&[("durability", "relaxed=1h"), ("wal-lanes", "3")]);
    let json = [("Content-Type", "application/json")];
    let put = |name: &str| server.ask("PUT", &stream(name), &json, "[1,2]").next_offset();
    let target = stream("__ds/subscriptions/s");
    let shown = || -> Vec<(String, String)> {
        let value = server.ask("GET", &target, &[], "").json();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let streams = value["streams"].as_array().unwrap().iter();
        streams.map(|link| (text(&link["path"]), text(&link["acked_offset"]))).collect()
    };
    let names = ["ev/1", "ev/2", "ev/3", "ev/4", "named", "x/added"];
    let mut expected: Vec<(String, String)> =
        names[..5].iter().map(|name| ((*name).to_owned(), put(name))).collect();
    let body = r#"{"type":"pull-wake","pattern":"ev/*","streams":["named"],"wake_stream":"w"}"#;
    assert_eq!(server.ask("PUT", &target, &[], body).status, 201);
    assert_eq!(shown(), expected);
    expected.push((names[5].to_owned(), put(names[5])));
    let body = r#"{"streams":["x/added"]}"#;
    assert_eq!(server.ask("POST", &(target.clone() + "/streams"), &[], body).status, 204);
    assert_eq!(shown(), expected);
    put("ev/5");
    expected.insert(4, ("ev/5".to_owned(), format!("{:016}_{:016}", 0, 0)));
    assert_eq!(shown(), expected, "one that was made later is followed from its start");
    put("ev/6");
    let list = server.ask("GET", &stream("__ds/streams?prefix=ev/"), &[], "").json();
    assert_eq!(list["streams"].as_array().unwrap().len(), 6, "lists have what was acknowledged");
}

/// Points 42 and 43.
#[test]
fn a_fork_begins_among_messages_at_home() {
    let server = with_a_stream_at_home("application/json", r#"[{"at":"home"},2,3]"#);
    let source = stream("a");
    let fork = |name: &str, offset: &str, sub_offset: &str, body: &str| {
        let headers = [
            ("Content-Type", "application/json"),
            ("Stream-Forked-From", source.as_str()),
            ("Stream-Fork-Offset", offset),
            ("Stream-Fork-Sub-Offset", sub_offset),
        ];
        server.ask("PUT", &stream(name), &headers, body).status
    };
    let first = "0000000000000000_0000000000000000";
    assert_eq!(fork("b", first, "2", r#"["own"]"#), 201);
    let read = server.ask("GET", &stream("b"), &[], "").text().replace('\n', "");
    assert_eq!(read, r#"[{"at":"home"}, 2, "own"]"#);
    assert_eq!(fork("b", first, "2", "[]"), 200, "the same again");
    assert_eq!(fork("c", first, "4", "[]"), 400);
    assert_eq!(fork("c", "0000000000000000_0000000000000003", "0", "[]"), 400, "inside");
}
