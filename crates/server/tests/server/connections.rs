//! HTTP/2 without TLS, pipelining, and how a server ends.

use std::time::Instant;

use http_body_util::BodyExt as _;

use crate::support::{Http2, PATIENCE, start, start_in, stream};

const TEXT: (&str, &str) = ("Content-Type", "text/plain");

#[tokio::test]
async fn http2_is_spoken_with_whoever_begins_with_it() {
    let server = start(&[]);
    let mut client = Http2::connect(server.address).await;
    assert_eq!(client.ask("PUT", &stream("a"), &[TEXT], "one").await.status, 201);
    assert_eq!(client.ask("POST", &stream("a"), &[TEXT], "two").await.status, 204);
    let read = client.ask("GET", &stream("a"), &[], "").await;
    assert_eq!((read.status, read.text().as_str()), (200, "onetwo"));
    let none = client.ask("HEAD", &stream("none"), &[], "").await;
    assert_eq!((none.status, none.text().as_str()), (404, ""));
}

/// More than the six connections that browsers open to one host.
#[tokio::test]
async fn one_http2_connection_carries_many_live_readers() {
    let server = start(&[]);
    server.make("a");
    let mut client = Http2::connect(server.address).await;
    let mut bodies = Vec::new();
    for _ in 0..20 {
        let target = stream("a") + "?offset=now&live=sse";
        let response = client.send("GET", &target, &[], "").await;
        assert_eq!(response.status(), 200);
        bodies.push(response.into_body());
    }
    assert_eq!(client.ask("POST", &stream("a"), &[TEXT], "x").await.status, 204);
    for body in &mut bodies {
        let mut text = String::new();
        while !text.contains("data:x\n") {
            let frame = body.frame().await.unwrap().unwrap();
            text += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
        }
    }
}

/// I11: what comes of bodies that nobody reads takes no memory, and so no room of the connection's.
#[tokio::test]
async fn bodies_of_requests_that_wait_keep_nothing_from_the_others_of_their_connection() {
    let server = start(&[("long-poll-timeout", "20s"), ("shutdown-timeout", "1s")]);
    server.make("a");
    let mut client = Http2::connect(server.address).await;
    let target = stream("a") + "?offset=now&live=long-poll";
    let polls: Vec<_> = (0..6)
        .map(|_| {
            let (mut client, target) = (client.clone(), target.clone());
            let body = "x".repeat(1 << 20);
            tokio::spawn(async move { client.ask("GET", &target, &[TEXT], &body).await })
        })
        .collect();
    while !server.metrics().contains("highwater_subscribers 6") {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.ask("POST", &stream("a"), &[TEXT], "news").await.status, 204);
    for poll in polls {
        let told = poll.await.unwrap();
        assert_eq!((told.status, told.text().as_str()), (200, "news"), "the append came first");
    }
}

/// I11.
#[tokio::test]
async fn requests_of_http2_and_their_heads_are_bounded_all_together() {
    let changes = [
        ("max-requests-bytes", "256KiB"),
        ("long-poll-timeout", "20s"),
        ("shutdown-timeout", "1s"),
    ];
    let server = start(&changes);
    server.make("a");
    let target = stream("a") + "?offset=now&live=long-poll";
    // Four requests of a connection are free, and there is room for twenty more, or for two heads.
    for (requests, header, admitted) in [(40, 10, 24), (4, 50_000, 2)] {
        let client = Http2::connect(server.address).await;
        let polls: Vec<_> = (0..requests)
            .map(|_| {
                let (mut client, target) = (client.clone(), target.clone());
                let header = "v".repeat(header);
                tokio::spawn(async move {
                    client.send("GET", &target, &[("x-much", &header)], "").await
                })
            })
            .collect();
        let all = [
            format!("highwater_subscribers {admitted}\n"),
            format!("limit=\"requests\"}} {}\n", if requests == 40 { 16 } else { 18 }),
        ];
        while !all.iter().all(|line| server.metrics().contains(line)) {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.append("a", "news").status, 204);
        let mut refused = 0;
        for poll in polls {
            let response = poll.await.unwrap();
            refused += usize::from(response.status() == 503);
            let is_told = response.headers().contains_key("retry-after");
            assert_eq!(is_told, response.status() == 503, "{response:?}");
        }
        assert_eq!(refused, requests - admitted);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = start(&[]);
    server.make("a");
    let mut client = server.client();
    let mut sent = String::new();
    for number in 0..10 {
        sent += &crate::support::request(
            "POST",
            &stream("a"),
            &[("Content-Type", "text/plain")],
            &format!("<{number}>"),
        );
    }
    client.send(sent + &crate::support::request("GET", &stream("a"), &[], ""));
    for _ in 0..10 {
        assert_eq!(client.answer("POST").status, 204);
    }
    let expected: String = (0..10).map(|number| format!("<{number}>")).collect();
    assert_eq!(client.answer("GET").text(), expected);
}

#[test]
fn a_server_that_stops_ends_live_readers_between_events_and_keeps_what_it_acknowledged() {
    let server = start(&[]);
    server.make("a");
    let changes = [("long-poll-timeout", "20s"), ("durability", "relaxed=10s")];
    let server = start_in(server.stop(), &changes);
    let (mut events, mut poll, mut idle) = (server.client(), server.client(), server.client());
    events.send(format!("GET {}?offset=-1&live=sse HTTP/1.1\r\nHost: t\r\n\r\n", stream("a")));
    events.head();
    events.chunk();
    let target = format!("{}?offset=now&live=long-poll", stream("a"));
    poll.send(format!("GET {target} HTTP/1.1\r\nHost: t\r\n\r\n"));
    assert_eq!(idle.ask("GET", "/healthz", &[], "").status, 200);
    assert_eq!(server.append("a", "acknowledged").status, 204);
    let started = Instant::now();
    let folder = server.stop();
    assert!(started.elapsed() < PATIENCE, "the bound of stopping");
    let mut text = String::new();
    while let Some(chunk) = events.chunk() {
        text += std::str::from_utf8(&chunk).unwrap();
    }
    assert!(text.is_empty() || text.ends_with("\n\n"), "{text}");
    assert!(matches!(poll.answer("GET").status, 200 | 204));
    assert_eq!(idle.rest(), b"");
    let server = start_in(folder, &[]);
    assert_eq!(server.ask("GET", &stream("a"), &[], "").text(), "acknowledged");
}

#[test]
fn runtimes_that_share_connections_serve_as_well() {
    let server = start(&[("runtime", "shared")]);
    server.make("a");
    assert_eq!(server.append("a", "x").status, 204);
    assert_eq!(server.ask("GET", &stream("a"), &[], "").text(), "x");
    server.stop();
}
