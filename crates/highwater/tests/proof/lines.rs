//! What clients, and receivers of webhooks, can have a server write to its log.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{File, read_dir};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

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

/// Opens what streams have in their home, beside what the folder says of itself.
fn at_home(home: &Path) -> Vec<(File, Vec<u8>)> {
    let names = read_dir(home).unwrap().map(|entry| entry.unwrap().path());
    let streams = names.filter(|path| !path.ends_with("label"));
    let open = |path: std::path::PathBuf| {
        (File::options().write(true).open(&path).unwrap(), std::fs::read(&path).unwrap())
    };
    streams.map(open).collect()
}

/// A subscription is tried again about every second for as long as it cannot be read.
#[test]
fn trouble_with_a_subscription_is_said_when_it_begins_and_when_it_is_over_and_not_in_between() {
    let folder = temporary();
    let home = folder.path().join("data/streams/0");
    let hooks = "--webhook-localhost=true";
    let server = serve(folder.path(), &[hooks, FEW, "--checkpoint-interval=1s"]);
    assert_eq!(server.ask("PUT", "/v1/stream/a", "", "").0, 201);
    // Nobody takes webhooks there.
    let webhook = r#"{"type":"webhook","streams":["a"],"webhook":{"url":"http://127.0.0.1:9/"}}"#;
    let subscription = "/v1/stream/__ds/subscriptions/s";
    assert_eq!(server.ask("PUT", subscription, "", webhook).0, 201);
    assert_eq!(server.ask("POST", "/v1/stream/a", "", "x").0, 204);
    let started = Instant::now();
    // The keys, the stream, and what is kept of the subscription.
    while read_dir(&home).unwrap().count() < 1 + 3 {
        assert!(started.elapsed() < PATIENCE, "nothing comes home");
    }
    assert_eq!(server.end("-TERM"), Some(0));
    let flags = [hooks, FEW, "--checkpoint-interval=1h", "--checkpoint-wal-bytes=17MiB"];
    let server = serve(folder.path(), &flags);
    assert_eq!(server.ask("GET", subscription, "", "").0, 200);
    // What is kept of it cannot be read; and the log turns read-only, so that its next change
    // cannot be written, and it is to be read again.
    let kept = at_home(&home);
    for (file, _) in &kept {
        file.set_len(0).unwrap();
    }
    std::fs::remove_dir_all(&home).unwrap();
    let much = "x".repeat(7 << 20);
    assert_eq!(server.ask("PUT", "/v1/stream/much", "", &much).0, 201);
    while server.ask("POST", "/v1/stream/much", "", &much).0 != 503 {}
    let begins = server.line_with("cannot be read again");
    assert!(begins.contains(" ERROR ") && begins.contains("it is tried on"), "{begins}");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        let (status, answer) = server.ask("GET", subscription, "", "");
        assert!(status == 503 && answer.contains("could not be written"), "{status} {answer}");
        assert_eq!(server.ask("GET", "/v1/stream/much?offset=now", "", "").0, 200, "others go on");
    }
    for (file, bytes) in &kept {
        file.write_all_at(bytes, 0).unwrap();
    }
    let (mut between, mut line) = (String::new(), server.line_with(""));
    while !line.contains("subscriptions can be read again") {
        between += &line;
        line = server.line_with("");
    }
    assert!(!between.contains("cannot be read again"), "{between}");
    assert_eq!(server.end("-TERM"), Some(0));
}
