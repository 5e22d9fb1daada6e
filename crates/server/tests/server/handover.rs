//! Live answers of HTTP/1 behind their heads: how they end, and what becomes of the connection.

use std::io::{BufRead as _, Read as _};
use std::net::Shutdown;
use std::time::Instant;

use crate::support::{Client, PATIENCE, Running, start, stream};

const TEXT: (&str, &str) = ("Content-Type", "text/plain");

/// A request for events, with more lines of its head, without its end.
fn live(name: &str, version: &str, more: &str) -> String {
    format!("GET {}?offset=-1&live=sse HTTP/{version}\r\nHost: t\r\n{more}\r\n", stream(name))
}

fn close(server: &Running, name: &str) {
    let closed = server.ask("POST", &stream(name), &[("Stream-Closed", "true")], "");
    assert_eq!(closed.status, 204);
}

/// Waits until nobody is counted as a live reader any more.
fn wait_for_nobody(server: &Running) {
    let started = Instant::now();
    while !server.metrics().contains("highwater_subscribers 0") {
        assert!(started.elapsed() < PATIENCE, "a reader is still counted");
        std::thread::yield_now();
    }
}

/// Reads a live answer up to its end.
fn events(client: &mut Client) -> String {
    let mut text = String::new();
    while let Some(chunk) = client.chunk() {
        text += std::str::from_utf8(&chunk).unwrap();
    }
    text
}

#[test]
fn a_connection_takes_requests_behind_a_live_answer_and_another_one() {
    let server = start(&[]);
    for name in ["a", "b"] {
        server.make(name);
        server.append(name, "x");
        close(&server, name);
    }
    let mut client = server.client();
    for name in ["a", "b"] {
        client.send(live(name, "1.1", ""));
        let (status, headers) = client.head();
        assert_eq!(status, 200);
        assert!(headers.iter().all(|(name, _)| name != "connection"), "{headers:?}");
        assert!(events(&mut client).contains("data:x\n"));
        assert_eq!(client.ask("GET", &stream(name), &[], "").text(), "x");
    }
}

#[test]
fn what_is_sent_ahead_of_the_end_of_a_live_answer_is_answered_behind_it() {
    let server = start(&[]);
    server.make("a");
    let next = |number: u32| {
        let headers = [("X-Request-Id", &*number.to_string())];
        crate::support::request("GET", "/healthz", &headers, "")
    };
    // With the request for events, behind it, and more than is read ahead.
    let mut client = server.client();
    client.send(live("a", "1.1", "") + &next(0));
    assert_eq!(client.head().0, 200);
    client.chunk();
    for number in 1..50 {
        client.send(next(number));
    }
    server.append("a", "x");
    close(&server, "a");
    assert!(events(&mut client).contains("data:x\n"));
    for number in 0..50 {
        let answer = client.answer("GET");
        assert_eq!(answer.header("x-request-id"), Some(&*number.to_string()), "{answer:?}");
    }
}

/// HTTP/1.0 has no chunks: its answers end with the connection.
#[test]
fn a_client_of_http_1_0_gets_bare_events_until_the_connection_ends() {
    let server = start(&[]);
    for (name, more) in [("a", ""), ("b", "Connection: keep-alive\r\n")] {
        server.make(name);
        let mut client = server.client();
        client.send(live(name, "1.0", more));
        let (status, headers) = client.head();
        assert_eq!(status, 200);
        assert!(headers.iter().all(|(name, _)| name != "transfer-encoding"), "{headers:?}");
        let mut first = String::new();
        while !first.ends_with("\n\n") {
            assert!(client.stream.read_line(&mut first).unwrap() > 0, "{first}");
        }
        assert!(first.starts_with("event: control\n"), "{first}");
        server.append(name, "y");
        close(&server, name);
        let text = String::from_utf8(client.rest()).unwrap();
        assert!(text.starts_with("event: data\ndata:y\n\nevent: control\n"), "{text}");
        assert!(text.ends_with("\"streamClosed\":true}\n\n"), "{text}");
    }
}

/// A body that nobody reads is never taken for a request.
#[test]
fn a_connection_ends_behind_a_live_answer_where_it_must() {
    let server = start(&[]);
    server.make("a");
    close(&server, "a");
    let smuggled = crate::support::request("POST", &stream("a"), &[TEXT], "smuggled");
    let len = format!("Content-Length: {}\r\n", smuggled.len());
    for (more, behind) in [
        (&*len, &*smuggled),
        ("Transfer-Encoding: chunked\r\n", &*smuggled),
        ("Connection: keep-alive, Close\r\n", &*smuggled),
    ] {
        let mut client = server.client();
        client.send(live("a", "1.1", more) + behind);
        let (status, headers) = client.head();
        assert_eq!(status, 200);
        let closes = headers.iter().any(|(name, value)| name == "connection" && value == "close");
        assert!(closes, "{more:?}: {headers:?}");
        assert!(events(&mut client).contains("streamClosed"));
        assert_eq!(client.rest(), b"", "{more:?}");
    }
}

#[test]
fn a_waiting_client_that_half_closes_or_resets_is_noticed_without_an_event() {
    let server = start(&[]);
    server.make("a");
    for is_reset in [false, true] {
        let mut client = server.client();
        client.send(live("a", "1.1", ""));
        client.head();
        assert!(server.metrics().contains("highwater_subscribers 1"));
        if is_reset {
            // What it has not read makes the end of its socket a reset.
            drop(client);
        } else {
            client.stream.get_ref().shutdown(Shutdown::Write).unwrap();
            wait_for_nobody(&server);
        }
        wait_for_nobody(&server);
    }
}

/// A live reader is a connection as all others as long as it lives.
#[test]
fn live_readers_are_counted_among_the_connections_of_their_address() {
    let server = start(&[("max-connections-per-address", "1")]);
    let mut client = server.client();
    assert_eq!(client.ask("PUT", &stream("a"), &[TEXT], "").status, 201);
    client.send(live("a", "1.1", ""));
    client.head();
    client.chunk();
    assert_eq!(server.client().rest(), b"");
    drop(client);
    let started = Instant::now();
    loop {
        let mut again = server.client();
        again.send("GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
        if matches!(again.stream.read(&mut [0]), Ok(1)) {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "the connection is still counted");
    }
}

/// An old connection is let go once its answer is over; the answer itself goes on.
#[test]
fn a_connection_that_grows_old_during_a_live_answer_ends_behind_it() {
    let server = start(&[("connection-age", "1s"), ("sse-lifetime", "1500ms")]);
    server.make("a");
    let mut client = server.client();
    client.send(live("a", "1.1", ""));
    client.head();
    let text = events(&mut client);
    assert!(text.ends_with("\n\n"), "{text}");
    assert_eq!(client.rest(), b"");
}

/// hyper may have to wait with the head, and who takes over waits with it.
#[test]
fn a_head_that_a_slow_client_does_not_take_yet_is_not_left_behind() {
    let server = start(&[("send-buffer-bytes", "8KiB")]);
    let mut clients: Vec<(usize, Client)> = Vec::new();
    for number in 0..64 {
        let (name, len) = (format!("s{number}"), 40_000 + 12_000 * number);
        server.make(&name);
        assert_eq!(server.append(&name, &"z".repeat(len)).status, 204);
        let mut client = server.client();
        let before = crate::support::request("GET", &stream(&name), &[], "");
        let now = format!("{}?offset=now&live=sse", stream(&name));
        client.send(before + &crate::support::request("GET", &now, &[], ""));
        clients.push((len, client));
    }
    // Those whose first answers fit the system's buffers are live readers by now or soon.
    for (len, client) in &mut clients {
        assert_eq!(client.answer("GET").body.len(), *len);
        let (status, headers) = client.head();
        assert_eq!((status, headers.len() > 3), (200, true), "{headers:?}");
        let first = String::from_utf8(client.chunk().unwrap()).unwrap();
        assert!(first.starts_with("event: control\n"), "{first}");
    }
}

#[test]
fn requests_ahead_of_live_answers_are_all_answered_however_many_are_read_at_once() {
    let server = start(&[]);
    server.make("a");
    close(&server, "a");
    for _ in 0..20 {
        let mut client = server.client();
        let pad = format!("X-Pad: {}\r\n", "p".repeat(8200));
        client.send(live("a", "1.1", &pad) + &live("a", "1.1", "").repeat(400));
        for number in 0..401 {
            let (status, _) = client.head();
            assert_eq!(status, 200, "{number}");
            assert!(events(&mut client).contains("streamClosed"), "{number}");
        }
    }
}

#[test]
fn a_server_that_stops_ends_a_live_answer_whichever_worker_has_it() {
    for _ in 0..12 {
        let server = start(&[("threads", "3"), ("shutdown-timeout", "2s")]);
        server.make("a");
        let mut client = server.client();
        client.send(live("a", "1.1", ""));
        client.head();
        client.chunk();
        server.stop();
        let rest = client.rest();
        assert!(rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
    }
}
