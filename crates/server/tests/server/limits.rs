//! Clients that send too much, too slowly, or nothing; and what they get.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::support::{Client, Http2, PATIENCE, Running, request, start, stream};

const TEXT: (&str, &str) = ("Content-Type", "text/plain");

/// Point 13.
#[test]
fn a_body_over_the_limit_is_413_and_the_client_hears_of_it_while_it_sends() {
    let server = start(&[("max-body-bytes", "64KiB")]);
    server.make("a");
    let big = "x".repeat(4 << 20);
    let refused = server.ask("POST", &stream("a"), &[TEXT], &big);
    assert_eq!((refused.status, refused.json()["code"].as_str()), (413, Some("BODY_TOO_LARGE")));
    let mut chunked = server.client();
    chunked.send("POST /v1/stream/a HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n");
    chunked.send("Transfer-Encoding: chunked\r\n\r\n");
    for _ in 0..40 {
        chunked.send(format!("1000\r\n{}\r\n", "y".repeat(0x1000)));
    }
    chunked.send("0\r\n\r\n");
    assert_eq!(chunked.answer("POST").status, 413);
    assert_eq!(server.append("a", &"z".repeat(64 << 10)).status, 204, "the limit itself fits");
    assert_eq!(server.ask("GET", &stream("a"), &[], "").body.len(), 64 << 10);
}

#[test]
fn a_client_that_asks_before_sending_is_told_at_once() {
    let server = start(&[("max-body-bytes", "64KiB")]);
    server.make("a");
    let mut client = server.client();
    client.send(
        "POST /v1/stream/a HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n\
         Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.answer("POST").status, 413);
    let mut small = server.client();
    small.send(
        "POST /v1/stream/a HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n\
         Content-Length: 2\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(small.head().0, 100);
    small.send("hi");
    assert_eq!(small.answer("POST").status, 204);
}

#[test]
fn a_body_that_does_not_come_in_time_is_408_and_nothing_is_appended() {
    let server = start(&[("body-timeout", "200ms")]);
    server.make("a");
    let mut client = server.client();
    client.send(
        "POST /v1/stream/a HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n\
         Content-Length: 10\r\n\r\nabc",
    );
    let answer = client.answer("POST");
    assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
    assert_eq!(client.rest(), b"");
    assert_eq!(server.ask("GET", &stream("a"), &[], "").text(), "");
    assert!(server.metrics().contains("limits_hit_total{limit=\"body-time\"} 1"));
}

/// A lying Content-Length.
#[test]
fn a_body_that_is_cut_off_is_not_appended() {
    let server = start(&[]);
    server.make("a");
    let mut client = server.client();
    client.send(
        "POST /v1/stream/a HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n\
         Content-Length: 10\r\n\r\nabc",
    );
    client.stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    client.rest();
    assert_eq!(server.ask("GET", &stream("a"), &[], "").text(), "");
}

/// Slowloris.
#[test]
fn a_head_that_does_not_end_is_cut_however_its_bytes_drip() {
    let server = start(&[("head-timeout", "500ms")]);
    let mut client = server.client();
    client.send("GET /v1/stream/a HTTP/1.1\r\n");
    let started = Instant::now();
    loop {
        client.stream.get_ref().set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut byte = [0];
        match client.stream.read(&mut byte) {
            Ok(0) => break,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Ok(_) => {}
            Err(_) => assert!(started.elapsed() < PATIENCE, "the connection is still there"),
        }
        if client.stream.get_mut().write_all(b"X").is_err() {
            break;
        }
    }
    assert!(server.metrics().contains("limits_hit_total{limit=\"cut\"} 1"));
}

#[test]
fn a_silent_connection_is_closed() {
    let server = start(&[("idle-timeout", "300ms")]);
    let mut silent = server.client();
    assert_eq!(silent.rest(), b"");
    let mut used = server.client();
    assert_eq!(used.ask("GET", "/healthz", &[], "").status, 200);
    assert_eq!(used.rest(), b"");
}

#[test]
fn a_head_that_is_too_large_is_431() {
    let server = start(&[("max-head-bytes", "8KiB")]);
    let mut many = server.client();
    let headers: String = (0..500).map(|n| format!("X-{n}: {}\r\n", "v".repeat(50))).collect();
    many.send(format!("GET /healthz HTTP/1.1\r\nHost: t\r\n{headers}\r\n"));
    assert_eq!(many.head().0, 431);
    let mut long = server.client();
    long.send(format!("GET /{} HTTP/1.1\r\nHost: t\r\n\r\n", "x".repeat(100_000)));
    assert!(matches!(long.head().0, 414 | 431));
    drop((many, long));
    let started = Instant::now();
    while !server.metrics().contains("limits_hit_total{limit=\"head\"} 2") {
        assert!(started.elapsed() < PATIENCE, "{}", server.metrics());
    }
}

/// Request smuggling.
#[test]
fn framing_that_can_be_read_in_two_ways_is_refused_or_ends_the_connection() {
    let server = start(&[]);
    server.make("a");
    for head in [
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: 3, 4\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding : chunked\r\n",
    ] {
        let mut client = server.client();
        client.send(format!(
            "POST /v1/stream/a HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n{head}\r\n\
             abcGET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"
        ));
        let text = String::from_utf8(client.rest()).unwrap();
        assert!(text.starts_with("HTTP/1.1 400"), "{head:?}: {text}");
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "{head:?}: {text}");
    }
    assert_eq!(server.ask("GET", &stream("a"), &[], "").text(), "");
}

/// Who is in front may have decided by one of them, and answers name the other.
#[test]
fn a_request_that_names_two_hosts_is_refused() {
    let server = start(&[]);
    for hosts in ["Host: a\r\nHost: b", "host: a\r\nHost: a"] {
        let mut client = server.client();
        client.send(format!(
            "PUT /v1/stream/a HTTP/1.1\r\n{hosts}\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n"
        ));
        let text = String::from_utf8(client.rest()).unwrap();
        assert!(text.starts_with("HTTP/1.1 400") && text.contains("BAD_FIELD"), "{text}");
    }
    assert_eq!(server.ask("HEAD", &stream("a"), &[], "").status, 404);
}

#[test]
fn a_client_that_never_reads_is_cut_and_costs_no_more_than_what_is_on_its_way() {
    let server = start(&[("write-timeout", "500ms"), ("send-buffer-bytes", "64KiB")]);
    server.make("a");
    let mut client = server.client();
    for _ in 0..16 {
        assert_eq!(client.ask("POST", &stream("a"), &[TEXT], &"x".repeat(1 << 20)).status, 204);
    }
    let mut deaf = Client::connect(server.address);
    deaf.send(format!("GET {}?offset=-1&live=sse HTTP/1.1\r\nHost: t\r\n\r\n", stream("a")));
    let started = Instant::now();
    while !server.metrics().contains("limits_hit_total{limit=\"cut\"} 1") {
        assert!(started.elapsed() < PATIENCE, "the deaf client is still served");
        std::thread::yield_now();
    }
    while !server.metrics().contains("highwater_subscribers 0") {
        assert!(started.elapsed() < PATIENCE, "what the deaf client held is not freed");
        std::thread::yield_now();
    }
    let in_the_system = deaf.rest().len();
    assert!(in_the_system < 1 << 20, "{in_the_system} bytes waited for it outside of the server");
}

#[test]
fn connections_are_bounded_and_those_of_one_address_too() {
    let server = start(&[("max-connections-per-address", "2")]);
    let (mut one, mut two) = (server.client(), server.client());
    assert_eq!(one.ask("GET", "/healthz", &[], "").status, 200);
    assert_eq!(two.ask("GET", "/healthz", &[], "").status, 200);
    assert_eq!(server.client().rest(), b"");
    drop(one);
    let started = Instant::now();
    loop {
        let mut again = server.client();
        again.send("GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
        let mut byte = [0];
        if matches!(again.stream.read(&mut byte), Ok(1)) {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "a closed connection is still counted");
    }
}

/// Takes all connections that there may be.
fn fill(server: &Running, connections: usize) -> Vec<Client> {
    let mut full: Vec<Client> = Vec::new();
    while full.len() < connections {
        let mut client = server.client();
        client.send("GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
        // One that came while another ended, has to go.
        if client.answer("GET").header("connection") != Some("close") {
            full.push(client);
        }
    }
    full
}

/// A crowd that comes back to a full server is just when it is asked whether it lives.
#[test]
fn each_of_a_crowd_at_a_full_server_gets_an_answer_and_so_do_operators_among_them() {
    let server = start(&[("max-connections", "5")]);
    let full = fill(&server, 5);
    let mut crowd: Vec<Client> = (0..150).map(|_| server.client()).collect();
    let path = |number: usize| if number.is_multiple_of(10) { "/healthz" } else { "/v1/stream/a" };
    for (number, client) in crowd.iter_mut().enumerate() {
        client.send(request("GET", path(number), &[], ""));
    }
    for (number, mut client) in crowd.into_iter().enumerate() {
        let expected = if path(number) == "/healthz" { 200 } else { 503 };
        assert_eq!(client.answer("GET").status, expected, "{number}");
    }
    drop(full);
}

/// I11: beyond the limit, operators are heard and others are told; who says nothing keeps nobody
/// out.
#[test]
fn a_server_with_as_many_connections_as_there_may_be_says_so_and_answers_its_operators() {
    let server = start(&[("max-connections", "5")]);
    server.make("a");
    let mut full = fill(&server, 5);
    let silent: Vec<Client> = (0..200).map(|_| server.client()).collect();
    for path in ["/healthz", "/readyz", "/metrics"] {
        let mut client = server.client();
        let answer = client.ask("GET", path, &[], "");
        assert_eq!((answer.status, answer.header("connection")), (200, Some("close")), "{path}");
        assert_eq!(client.rest(), b"", "one answer is all");
    }
    let refused = server.append("a", "x");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(refused.header("connection"), Some("close"));
    let metrics = server.metrics();
    assert!(!metrics.contains("limits_hit_total{limit=\"connections\"} 0"), "{metrics}");
    assert!(metrics.contains("limits_hit_total{limit=\"requests\"} 0"), "{metrics}");
    assert_eq!(full[0].ask("GET", &stream("a"), &[], "").status, 200, "the others go on");
    drop((full, silent));
    let started = Instant::now();
    while server.append("a", "x").status != 204 {
        assert!(started.elapsed() < PATIENCE, "there is room again");
    }
}

/// I11.
#[tokio::test]
async fn over_http2_too_a_full_server_says_so_and_answers_its_operators() {
    let server = start(&[("max-connections", "2")]);
    server.make("a");
    let full = fill(&server, 2);
    for (path, status) in
        [("/healthz", 200), ("/readyz", 200), ("/metrics", 200), (&*stream("a"), 503)]
    {
        let mut client = Http2::connect(server.address).await;
        let answer = client.ask("GET", path, &[], "").await;
        let again = if status == 503 { Some("1") } else { None };
        assert_eq!((answer.status, answer.header("retry-after")), (status, again), "{path}");
        assert_eq!(answer.header("connection"), None, "HTTP/2 has frames for that");
        client.ended().await;
    }
    let mut append = Http2::connect(server.address).await;
    assert_eq!(append.ask("POST", &stream("a"), &[TEXT], "x").await.status, 503);
    drop(full);
    let started = Instant::now();
    while Http2::connect(server.address).await.ask("GET", &stream("a"), &[], "").await.status != 200
    {
        assert!(started.elapsed() < PATIENCE, "there is room again");
    }
    assert_eq!(
        server.ask("GET", &stream("a"), &[], "").text(),
        "",
        "what was refused is not there"
    );
}

#[test]
fn what_is_full_is_507_and_what_is_there_can_be_read_and_deleted() {
    let server = start(&[("max-streams", "3"), ("max-stream-bytes", "10")]);
    server.make("a");
    server.make("b");
    let full = server.ask("PUT", &stream("c"), &[TEXT], "");
    assert_eq!((full.status, full.header("retry-after")), (507, None));
    let json = [("Content-Type", "application/json")];
    let body = r#"{"type":"pull-wake","streams":["a"],"wake_stream":"w"}"#;
    let full = server.ask("PUT", &stream("__ds/subscriptions/s"), &json, body);
    assert_eq!(full.status, 507, "a subscription is a stream of the server's own");
    assert_eq!(server.append("a", "12345678").status, 204);
    let full = server.append("a", "901");
    assert_eq!((full.status, full.json()["code"].as_str()), (507, Some("FULL")));
    let full = server.ask("PUT", &stream("c"), &[TEXT], "12345678901");
    assert_eq!(full.status, 507, "first content is content");
    assert_eq!(server.append("a", "90").status, 204, "up to the limit");
    let close = server.ask("POST", &stream("a"), &[("Stream-Closed", "true")], "");
    assert_eq!(close.status, 204);
    assert_eq!(server.ask("GET", &stream("a"), &[], "").text(), "1234567890");
    assert_eq!(server.ask("DELETE", &stream("a"), &[], "").status, 204);
    assert!(server.metrics().contains("limits_hit_total{limit=\"full\"} 4"));
}

#[test]
fn all_streams_together_are_bounded_and_a_delete_makes_room_at_once() {
    // The server keeps keys of its own.
    let server = start(&[("max-total-bytes", "4KiB")]);
    server.make("a");
    server.make("b");
    let producer = [TEXT, ("Producer-Id", "p"), ("Producer-Epoch", "0"), ("Producer-Seq", "0")];
    let body = "x".repeat(3000);
    assert_eq!(server.ask("POST", &stream("a"), &producer, &body).status, 200);
    assert_eq!(server.append("b", &"x".repeat(1100)).status, 507);
    let again = server.ask("POST", &stream("a"), &producer, &body);
    assert_eq!(again.status, 204, "what is there already takes no room");
    let metrics = server.metrics();
    assert!(metrics.contains("highwater_log_content_bytes{lane=\"0\"} 3"), "{metrics}");
    assert_eq!(server.ask("DELETE", &stream("a"), &[], "").status, 204);
    assert_eq!(server.append("b", &"x".repeat(1100)).status, 204);
}

#[test]
fn what_is_known_of_a_stream_is_bounded_and_so_is_that_of_all_streams() {
    let server = start(&[
        ("max-name-bytes", "40"),
        ("max-metadata-bytes", "100"),
        ("max-table-bytes", "64KiB"),
    ]);
    assert_eq!(server.ask("PUT", &stream(&"n".repeat(41)), &[TEXT], "").status, 414);
    let long = format!("text/plain; note={}", "x".repeat(100));
    let refused = server.ask("PUT", &stream("a"), &[("Content-Type", &long)], "");
    assert_eq!((refused.status, refused.json()["code"].as_str()), (413, Some("TOO_LARGE")));
    let metrics = server.metrics();
    for limit in ["name", "metadata"] {
        let hit = format!("limits_hit_total{{limit=\"{limit}\"}} 1");
        assert!(metrics.contains(&hit), "{metrics}");
    }
    let mut client = server.client();
    let made = (0..2000).take_while(|number| {
        let answer = client.ask("PUT", &stream(&format!("s{number}")), &[TEXT], "");
        assert!(matches!(answer.status, 201 | 507), "{answer:?}");
        answer.status == 201
    });
    let made = made.count();
    assert!((50..1000).contains(&made), "{made}");
    assert_eq!(server.ask("DELETE", &stream("s0"), &[], "").status, 204);
    server.make("again");
}
