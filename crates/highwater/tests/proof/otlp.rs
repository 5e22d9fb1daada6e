//! Spans of requests, as a collector gets them: a listener on loopback stands for it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use crate::program::temporary;
use crate::serve::serve;

/// A trace and a span of a caller's, as `traceparent` has them.
const TRACE: [u8; 16] = [0xa1; 16];
const SPAN: [u8; 8] = [0xb2; 8];

/// Answers every request with success, and passes on its line and its body.
fn collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = channel();
    // It ends with the test's process, and waits for nobody.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream.unwrap());
                while let Some(request) = request(&mut stream) {
                    stream
                        .get_mut()
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                        .unwrap();
                    if sender.send(request).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, received)
}

fn request(stream: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut first, mut len) = (String::new(), 0);
    if stream.read_line(&mut first).unwrap() == 0 {
        return None;
    }
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            len = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; len];
    stream.read_exact(&mut body).unwrap();
    Some((first.trim_end().to_owned(), body))
}

fn has(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_collector_gets_a_span_of_each_request_with_method_route_and_status() {
    let folder = temporary();
    let (url, received) = collector();
    let server = serve(folder.path(), &[&format!("--otlp-endpoint={url}")]);
    let parent = format!("traceparent: 00-{}-{}-01\r\n", "a1".repeat(16), "b2".repeat(8));
    assert_eq!(server.ask("PUT", "/v1/stream/secret-name", &parent, "").0, 201);
    assert_eq!(server.ask("GET", "/v1/stream/nothing-there", "", "").0, 404);
    assert_eq!(server.ask("GET", "/healthz", "", "").0, 200);
    // What has not been sent by then is sent at the end.
    assert_eq!(server.end("-TERM"), Some(0));
    let requests: Vec<(String, Vec<u8>)> = received.try_iter().collect();
    assert!(!requests.is_empty());
    for (line, _) in &requests {
        assert_eq!(line, "POST /v1/traces HTTP/1.1");
    }
    let bodies: Vec<u8> = requests.into_iter().flat_map(|(_, body)| body).collect();
    for part in [
        "highwater",
        "PUT /v1/stream/{path}",
        "GET /v1/stream/{path}",
        "GET /healthz",
        "http.request.method",
        "http.route",
        "http.response.status_code",
    ] {
        assert!(has(&bodies, part.as_bytes()), "{part}: {}", String::from_utf8_lossy(&bodies));
    }
    assert!(has(&bodies, &TRACE) && has(&bodies, &SPAN), "the caller's span is the parent");
    assert!(!has(&bodies, b"secret-name") && !has(&bodies, b"nothing-there"));
}

#[test]
fn a_collector_that_is_not_there_stops_no_request_and_is_missed_aloud() {
    let folder = temporary();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let server = serve(folder.path(), &[&format!("--otlp-endpoint={url}")]);
    assert_eq!(server.ask("PUT", "/v1/stream/a", "", "").0, 201);
    let said = server.end_and_read("-TERM");
    assert!(said.contains("spans are not taken by the collector"), "{said}");
}
