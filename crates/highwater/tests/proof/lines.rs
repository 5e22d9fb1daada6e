//! What clients, and receivers of webhooks, can have a server write to its log.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

use crate::program::temporary;
use crate::serve::{PATIENCE, Serving, serve};

/// As many connections as the system lets everybody have.
const FEW: &str = "--max-connections=300";
/// How often each of them is done.
const OFTEN: usize = 200;

fn wait(server: &Serving, line: &str) {
    let started = Instant::now();
    loop {
        let metrics = server.ask("GET", "/metrics", "", "").1;
        if metrics.contains(line) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{line}: {metrics}");
    }
}

/// Begins to follow a stream's events; it is followed once the head has come.
fn follow(server: &Serving, path: &str) -> TcpStream {
    let mut client = TcpStream::connect(server.address()).unwrap();
    write!(client, "GET {path}?offset=now&live=sse HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
    client.read_exact(&mut [0]).unwrap();
    client
}

/// Answers pings of HTTP/2 that were never sent.
fn answer_pings(server: &Serving) {
    let mut client = TcpStream::connect(server.address()).unwrap();
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let answer = [&[0, 0, 8, 6, 1, 0, 0, 0, 0][..], &[7; 8]].concat();
    client.write_all(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..]].concat()).unwrap();
    client.write_all(&answer.repeat(OFTEN)).unwrap();
    // A ping of its own: when its answer has come, all before it has been read.
    client.write_all(&[&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], b"the last"].concat()).unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"the last") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        read.push(byte[0]);
    }
}

/// I11.
#[test]
fn what_clients_do_to_themselves_is_no_line_of_the_log() {
    let folder = temporary();
    let server = serve(folder.path(), &["--max-stream-bytes=10", "--max-body-bytes=1KiB", FEW]);
    let path = "/v1/stream/a";
    assert_eq!(server.ask("PUT", path, "", "1234567890").0, 201);
    let readers: Vec<TcpStream> = (0..OFTEN).map(|_| follow(&server, path)).collect();
    for _ in 0..OFTEN {
        assert_eq!(server.ask("POST", path, "", "x").0, 507, "the stream is full");
        assert_eq!(server.ask("POST", path, "", &"x".repeat(1025)).0, 413);
        assert_eq!(server.ask("GET", "/v1/stream/none", "", "").0, 404);
        assert_eq!(server.ask("GET", "/v1/stream/a?offset=odd", "", "").0, 400);
    }
    assert_eq!(server.ask("DELETE", path, "", "").0, 204);
    wait(&server, "highwater_subscribers 0\n");
    answer_pings(&server);
    drop(readers);
    let log = server.end_and_read("-TERM");
    let trouble: Vec<&str> =
        log.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR ")).collect();
    assert!(trouble.is_empty(), "{} lines, the first: {}", trouble.len(), trouble[0]);
}

/// I11.
#[test]
fn what_the_server_cannot_do_is_a_line_a_second_at_most_however_often_it_is_asked() {
    let folder = temporary();
    let tokens = folder.path().join("tokens.toml");
    let hash = highwater_server::token_hash("all");
    let entry =
        format!("[[token]]\nname='all'\nsha256='{hash}'\nscopes=['admin','read','append']\n");
    std::fs::write(&tokens, entry).unwrap();
    let auth = format!("--auth={}", tokens.display());
    // There is room for a few streams beside those of the server itself, and nobody takes webhooks.
    let flags = [&*auth, "--max-streams=60", "--webhook-localhost=true", FEW];
    let server = serve(folder.path(), &flags);
    let started = Instant::now();
    let known = "Authorization: Bearer all\r\n";
    assert_eq!(server.ask("PUT", "/v1/stream/a", known, "").0, 201);
    let webhook = r#"{"type":"webhook","streams":["a"],"webhook":{"url":"http://127.0.0.1:9/"}}"#;
    for number in 0..50 {
        let path = format!("/v1/stream/__ds/subscriptions/s{number}");
        let (status, body) = server.ask("PUT", &path, known, webhook);
        assert_eq!(status, 201, "{body}");
    }
    assert_eq!(server.ask("POST", "/v1/stream/a", known, "x").0, 204);
    let mut refused = 0;
    for number in 0..OFTEN {
        let (status, _) = server.ask("PUT", &format!("/v1/stream/b{number}"), known, "");
        refused += usize::from(status == 507);
        let guess = format!("Authorization: Bearer {number}\r\n");
        assert_eq!(server.ask("GET", "/v1/stream/a", &guess, "").0, 401);
    }
    assert!(refused > OFTEN / 2, "{refused}");
    let started_to_fail = "highwater_webhooks_failed_total ";
    let failed = |metrics: &str| {
        let count = metrics.split(started_to_fail).nth(1).unwrap().lines().next().unwrap();
        count.parse::<usize>().unwrap()
    };
    while failed(&server.ask("GET", "/metrics", known, "").1) < 50 {
        assert!(started.elapsed() < PATIENCE, "not all webhooks have failed");
    }
    let log = server.end_and_read("-TERM");
    let most = started.elapsed().as_secs() + 2;
    for what in ["request failed", "a bearer token was not accepted", "webhook failed"] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(what)).collect();
        let count = u64::try_from(lines.len()).unwrap();
        assert!((1..=most).contains(&count), "{count} lines: {what}");
        assert!(lines[0].contains("left_out=0"), "{}", lines[0]);
    }
}
