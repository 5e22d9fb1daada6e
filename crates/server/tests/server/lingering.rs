//! The end of a connection whose client is still sending: it reads its answer all the same.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use crate::support::{Client, PATIENCE, Running, request, start, stream};
use crate::tls::{connect, start_with_certificate};

/// Bytes that the system does not keep for a server that does not read.
const MUCH: usize = 7 << 20;

/// A request with a body that its answer does not depend on.
fn with_body(method: &str, target: &str, more: &str) -> Vec<u8> {
    let head =
        format!("{method} {target} HTTP/1.1\r\nHost: t\r\n{more}Content-Length: {MUCH}\r\n\r\n");
    [head.into_bytes(), vec![b'x'; MUCH]].concat()
}

/// A server with a stream of some length that is closed.
fn server() -> Running {
    let server = start(&[]);
    server.make("a");
    let text = ("Content-Type", "text/plain");
    let body = "q".repeat(100_000);
    let headers = [text, ("Stream-Closed", "true")];
    assert_eq!(server.ask("POST", &stream("a"), &headers, &body).status, 204);
    server
}

/// Sends all of a request before it reads anything; gives everything up to the end, which is one in
/// order.
fn exchange(server: &Running, sent: &[u8]) -> String {
    let mut client = server.client();
    client.send(sent);
    let mut told = Vec::new();
    client.stream.read_to_end(&mut told).expect("the connection is reset");
    String::from_utf8(told).unwrap()
}

#[test]
fn whoever_sends_a_body_that_nobody_reads_gets_the_whole_answer() {
    let server = server();
    let target = stream("a");
    for (method, target, more, status) in [
        ("GET", &*target, "", "200"),
        ("GET", "/v1/stream/none", "", "404"),
        ("GET", "/healthz", "", "200"),
        ("PATCH", &*target, "", "405"),
        ("POST", &*target, "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", "415"),
        ("GET", &*format!("{target}?offset=-1&live=long-poll"), "", "200"),
    ] {
        let told = exchange(&server, &with_body(method, target, more));
        assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {target}: {told:.60}");
        let len = told.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
        let body = told.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(body.len().to_string(), len, "{method} {target}: some of it is missing");
    }
}

#[test]
fn a_live_answer_to_a_request_with_a_body_comes_whole() {
    let server = server();
    let target = format!("{}?offset=-1&live=sse", stream("a"));
    let told = exchange(&server, &with_body("GET", &target, ""));
    let (_, events) = told.split_once("\r\n\r\n").unwrap();
    assert_eq!(events.matches('q').count(), 100_000);
    assert!(told.ends_with("\r\n0\r\n\r\n"), "{}", &told[told.len() - 60..]);
}

#[test]
fn what_is_no_request_is_answered_before_the_end() {
    let server = server();
    for (head, statuses) in [
        (
            ["GET /healthz HTTP/1.1\r\nHost: t\r\nX: ", &"x".repeat(900_000), "\r\n\r\n"].concat(),
            "431",
        ),
        (["NO SUCH THING\r\n\r\n", &"x".repeat(900_000)].concat(), "400"),
    ] {
        let told = exchange(&server, head.as_bytes());
        assert!(told.starts_with(&format!("HTTP/1.1 {statuses} ")), "{told:.60}");
    }
}

#[tokio::test]
async fn over_tls_an_answer_comes_whole_as_well() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let (server, roots) = start_with_certificate();
    let mut client = connect(server.address, roots, "http/1.1").await.unwrap();
    client.write_all(&with_body("GET", "/healthz", "")).await.unwrap();
    client.flush().await.unwrap();
    let mut told = Vec::new();
    client.read_to_end(&mut told).await.expect("the connection is reset");
    assert!(told.starts_with(b"HTTP/1.1 200 ") && told.ends_with(b"ok\n"));
}

/// Frames of HTTP/2 that came, by kind.
fn kinds(mut told: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = told {
        kinds.push(*kind);
        let len = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        assert!(rest.len() >= len, "the last frame is cut off");
        told = &rest[len..];
    }
    assert!(told.is_empty(), "the last frame is cut off");
    kinds
}

#[test]
fn over_http2_whoever_goes_on_sending_reads_why_the_connection_ends() {
    use crate::abuse::frames::{END_HEADERS, END_STREAM, GET, HEADERS, PREFACE, SETTINGS, frame};
    const GO_AWAY: u8 = 7;
    let server = server();
    let begun = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let asked = frame(HEADERS, END_HEADERS | END_STREAM, 1, GET);
    // What belongs to a stream, and does not name one.
    let fault = frame(0, 0, 0, b"x");
    for before in [vec![], asked] {
        let mut client = server.client();
        client.send(&begun);
        client.send(&before);
        client.send([&fault[..], &vec![b'x'; 900_000]].concat());
        let mut told = Vec::new();
        client.stream.read_to_end(&mut told).expect("the connection is reset");
        assert!(kinds(&told).contains(&GO_AWAY), "{:?}", kinds(&told));
    }
}

/// I11: nobody is listened to for ever.
#[test]
fn a_client_that_never_ends_is_cut_after_as_much_as_a_body_may_have() {
    let server = server();
    let mut client = server.client();
    client.send("GET /healthz HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999\r\n\r\n");
    let (chunk, mut sent) = (vec![b'x'; 1 << 16], 0_usize);
    while client.stream.get_mut().write_all(&chunk).is_ok() {
        sent += chunk.len();
        assert!(sent < 64 << 20, "it is read on and on");
    }
}

/// I11: nor is somebody waited for who says nothing.
#[test]
fn a_client_that_neither_sends_nor_ends_is_left_alone_after_a_while() {
    let server = server();
    let mut silent = server.client();
    let answer = silent.ask("GET", "/healthz", &[("Connection", "close")], "");
    assert_eq!(answer.status, 200);
    let mut end = [0];
    assert_eq!(silent.stream.read(&mut end).unwrap(), 0, "the server's side ends at once");
    let started = Instant::now();
    while !server.metrics().contains("highwater_connections 1\n") {
        assert!(started.elapsed() < PATIENCE, "its place is taken still");
        std::thread::yield_now();
    }
}

#[test]
fn a_server_that_stops_waits_for_nobody_who_says_nothing() {
    // It would wait for an hour.
    let server = start(&[("shutdown-timeout", "1h")]);
    let silent: Vec<Client> = (0..3).map(|_| server.client()).collect();
    let busy = TcpStream::connect(server.address).unwrap();
    (&busy).write_all(request("GET", "/healthz", &[], "").as_bytes()).unwrap();
    // Who asks behind them is accepted behind them.
    assert_eq!(server.ask("GET", "/healthz", &[], "").status, 200);
    drop(server.stop());
    drop((silent, busy));
}
