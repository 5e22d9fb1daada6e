//! What clients that mean harm cost a server in memory, as the kernel counts it.

#![expect(clippy::unwrap_used, clippy::format_collect, reason = "tests may")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use crate::program::{PROGRAM, temporary};
use crate::serve::{Serving, serve};

/// Clients that ask and never read.
const CLIENTS: usize = 100;

/// Megabytes that the server has used at most so far.
fn peak_mib(server: &Serving) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
}

/// A stream of so many MiB.
fn fill(server: &Serving, name: &str, mib: usize) {
    let path = format!("/v1/stream/{name}");
    assert_eq!(server.ask("PUT", &path, "", "").0, 201);
    let part = "x".repeat(4 << 20);
    for _ in 0..mib / 4 {
        assert_eq!(server.ask("POST", &path, "", &part).0, 204);
    }
}

#[test]
fn clients_that_never_read_cost_a_server_little_however_long_their_stream_is() {
    let folder = temporary();
    let server = serve(folder.path(), &["--threads=2", "--max-answers-bytes=32MiB"]);
    fill(&server, "long", 32);
    let before = peak_mib(&server);
    let connect = || TcpStream::connect(server.address()).unwrap();
    let mut deaf = Vec::new();
    for number in 0..CLIENTS {
        let live = if number % 2 == 0 { "&live=sse" } else { "" };
        let mut client = connect();
        write!(client, "GET /v1/stream/long?offset=-1{live} HTTP/1.1\r\nHost: t\r\n\r\n").unwrap();
        // It is being served once its head has come.
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        deaf.push(client);
    }
    let after = peak_mib(&server);
    // All that they asked for is so many times 32 MiB.
    assert!(after < before + 128, "{before} MiB before, {after} MiB after");
    assert_eq!(server.ask("GET", "/healthz", "", "").0, 200);
    drop(deaf);
    server.end("-TERM");
}

/// Requests that one client of HTTP/2 has under way.
const REQUESTS: u32 = 256;

/// Begins HTTP/2, letting nothing of any answer come, and sends so many requests at once: GET of
/// these paths in turn, with more headers as HPACK has them.
fn begin_http2(server: &Serving, paths: &[String], headers: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect(server.address()).unwrap();
    // An initial window of nothing.
    let settings = [&[0, 0, 6, 4, 0, 0, 0, 0, 0][..], &[0, 4, 0, 0, 0, 0]].concat();
    let mut sent = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..]].concat();
    for (number, path) in (0..REQUESTS).zip(paths.iter().cycle()) {
        let len = u8::try_from(path.len()).unwrap();
        let head = [b"\x82\x86\x41\x01t\x04", &[len][..], path.as_bytes(), headers].concat();
        sent.extend(&u32::try_from(head.len()).unwrap().to_be_bytes()[1..]);
        sent.extend([1, 5]);
        sent.extend((2 * number + 1).to_be_bytes());
        sent.extend(head);
    }
    client.write_all(&sent).unwrap();
    client
}

fn wait_for(server: &Serving, what: &str, is_there: impl Fn(&str) -> bool) {
    let started = std::time::Instant::now();
    loop {
        let metrics = server.ask("GET", "/metrics", "", "").1;
        if is_there(&metrics) {
            return;
        }
        assert!(started.elapsed().as_secs() < 60, "{what}: {metrics}");
    }
}

/// Clients of HTTP/2 say how much of each answer may come, and may have many.
#[test]
fn clients_that_let_nothing_of_their_answers_come_cost_a_server_little() {
    let folder = temporary();
    let flags = ["--threads=2", "--max-answers-bytes=32MiB", "--write-timeout=60s"];
    let server = serve(folder.path(), &flags);
    fill(&server, "long", 4);
    let before = peak_mib(&server);
    let queries = ["?offset=-1", "?offset=-1&live=sse", "?offset=-1&live=long-poll"];
    let paths = queries.map(|query| format!("/v1/stream/long{query}"));
    let deaf: Vec<TcpStream> = (0..20).map(|_| begin_http2(&server, &paths, b"")).collect();
    let all = "requests_total{operation=\"read\",status=\"2xx\"} 1720";
    wait_for(&server, "answers", |metrics| metrics.contains(all));
    let after = peak_mib(&server);
    // At least 64 KiB for each were 320 MiB.
    assert!(after < before + 128, "{before} MiB before, {after} MiB after");
    // Whoever reads what comes goes on, if in short chunks.
    assert_eq!(server.ask("GET", "/v1/stream/long?offset=-1", "", "").0, 200);
    assert_eq!(server.ask("GET", "/healthz", "", "").0, 200);
    drop(deaf);
    server.end("-TERM");
}

#[test]
fn clients_that_wait_with_long_heads_cost_a_server_little() {
    let folder = temporary();
    let flags = ["--threads=2", "--max-requests-bytes=8MiB", "--long-poll-timeout=60s"];
    let server = serve(folder.path(), &flags);
    fill(&server, "long", 4);
    let before = peak_mib(&server);
    // A literal header whose value has 8000 bytes, twice.
    let header = [&b"\x00\x01x\x7f\xc1\x3d"[..], &[b'v'; 8000]].concat();
    let paths = ["/v1/stream/long?offset=now&live=long-poll".to_owned()];
    let waiting: Vec<TcpStream> =
        (0..20).map(|_| begin_http2(&server, &paths, &header.repeat(2))).collect();
    // Those that found no room were told.
    wait_for(&server, "refusals", |metrics| {
        let told = metrics.split("limits_hit_total{limit=\"requests\"} ").nth(1).unwrap();
        told.lines().next().unwrap().parse::<u32>().unwrap() > 4500
    });
    let after = peak_mib(&server);
    // All of their heads have 80 MiB.
    assert!(after < before + 64, "{before} MiB before, {after} MiB after");
    // Other requests go on.
    assert_eq!(server.ask("POST", "/v1/stream/long", "", "x").0, 204);
    drop(waiting);
    server.end("-TERM");
}

/// Starts a server with so much for requests and has twenty clients of HTTP/2 ask at once for what
/// is to come; gives how many of them wait, and MiB that the server takes for all.
fn wait_at_once(most: &str) -> (u64, u64) {
    let folder = temporary();
    let most = format!("--max-requests-bytes={most}");
    let server = serve(folder.path(), &["--threads=2", &most, "--long-poll-timeout=60s"]);
    fill(&server, "long", 4);
    let before = peak_mib(&server);
    let paths = ["/v1/stream/long?offset=now&live=long-poll".to_owned()];
    let clients: Vec<TcpStream> = (0..20).map(|_| begin_http2(&server, &paths, b"")).collect();
    let count = |name: &str| -> u64 {
        let metrics = server.ask("GET", "/metrics", "", "").1;
        let found = metrics.split(name).nth(1).unwrap().lines().next().unwrap();
        found.trim().parse().unwrap()
    };
    let (waiting, refused) = ("\nhighwater_subscribers ", "_hit_total{limit=\"requests\"} ");
    wait_for(&server, "requests", |_| count(waiting) + count(refused) == 20 * u64::from(REQUESTS));
    let found = (count(waiting), peak_mib(&server) - before);
    drop(clients);
    server.end("-TERM");
    found
}

/// I11.
#[test]
fn what_is_counted_for_a_request_that_waits_is_what_it_takes() {
    // The first four of each connection are not counted.
    let (admitted, _) = wait_at_once("8MiB");
    let counted_kib = (8 << 10) / (admitted - 20 * 4);
    let (all, takes_mib) = wait_at_once("1GiB");
    assert_eq!(all, 20 * u64::from(REQUESTS));
    let takes_kib = (takes_mib << 10) / all;
    // A build that is not optimised takes up to twice as much.
    assert!(takes_kib < 2 * counted_kib, "{takes_kib} KiB where {counted_kib} KiB are counted");
    assert!(takes_kib > counted_kib / 2, "{takes_kib} KiB where {counted_kib} KiB are counted");
}

/// What readers hold on to is not missing elsewhere.
#[test]
fn clients_that_never_read_keep_no_writer_waiting() {
    let folder = temporary();
    let flags =
        ["--max-image-bytes=64MiB", "--checkpoint-wal-bytes=16MiB", "--max-wal-bytes=96MiB"];
    let server = serve(folder.path(), &flags);
    let mut deaf = Vec::new();
    for round in 0..6 {
        let name = format!("long-{round}");
        fill(&server, &name, 16);
        for number in 0..20 {
            let live = if number % 2 == 0 { "&live=sse" } else { "" };
            let mut client = TcpStream::connect(server.address()).unwrap();
            write!(client, "GET /v1/stream/{name}?offset=-1{live} HTTP/1.1\r\nHost: t\r\n\r\n")
                .unwrap();
            let mut byte = [0];
            client.read_exact(&mut byte).unwrap();
            deaf.push(client);
        }
    }
    assert_eq!(server.ask("POST", "/v1/stream/long-0", "", "more").0, 204);
    server.end("-TERM");
}

#[test]
fn bodies_that_are_announced_and_do_not_come_cost_a_server_nothing() {
    let folder = temporary();
    let server = serve(folder.path(), &["--max-bodies-bytes=64MiB"]);
    assert_eq!(server.ask("PUT", "/v1/stream/a", "", "").0, 201);
    let before = peak_mib(&server);
    let mut open = Vec::new();
    for _ in 0..500 {
        let mut client = TcpStream::connect(server.address()).unwrap();
        write!(
            client,
            "POST /v1/stream/a HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n\
             Content-Length: 8000000\r\n\r\nx"
        )
        .unwrap();
        open.push(client);
    }
    // They keep nobody from sending what does come.
    assert_eq!(server.ask("POST", "/v1/stream/a", "", &"x".repeat(4 << 20)).0, 204);
    let after = peak_mib(&server);
    assert!(after < before + 128, "{before} MiB before, {after} MiB after");
    server.end("-TERM");
}

#[test]
fn producers_without_number_cost_a_server_what_its_streams_remember() {
    let folder = temporary();
    let flags = ["--durability=memory", "--checkpoint-wal-bytes=16MiB", "--max-wal-bytes=64MiB"];
    let server = serve(folder.path(), &flags);
    assert_eq!(server.ask("PUT", "/v1/stream/a", "", "").0, 201);
    let mut client = BufReader::new(TcpStream::connect(server.address()).unwrap());
    let mut send = |from: u32, to: u32| {
        for batch in (from..to).step_by(100) {
            let requests: String = (batch..batch + 100)
                .map(|number| {
                    format!(
                        "POST /v1/stream/a HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n\
                         Producer-Id: {number:0200}\r\nProducer-Epoch: 0\r\nProducer-Seq: 0\r\n\
                         Content-Length: 1\r\n\r\nx"
                    )
                })
                .collect();
            client.get_mut().write_all(requests.as_bytes()).unwrap();
            let mut answers = 0;
            while answers < 100 {
                let mut line = String::new();
                client.read_line(&mut line).unwrap();
                assert!(!line.starts_with("HTTP") || line.contains("200"), "{line}");
                answers += usize::from(line == "\r\n");
            }
        }
    };
    send(0, 2000);
    let before = peak_mib(&server);
    send(2000, 30_000);
    let after = peak_mib(&server);
    // Their ids alone are 6 MB; with what an entry has around it, three times that.
    assert!(after < before + 48, "{before} MiB before, {after} MiB after");
    server.end("-TERM");
}

#[test]
fn a_log_that_nobody_reads_stops_no_request() {
    let folder = temporary();
    // Its standard error is a pipe, which is full after some hundred lines.
    let server = serve(folder.path(), &["--log=debug"]);
    let mut client = BufReader::new(TcpStream::connect(server.address()).unwrap());
    for _ in 0..50 {
        let requests = "GET /v1/stream/none HTTP/1.1\r\nHost: t\r\n\r\n".repeat(100);
        client.get_mut().write_all(requests.as_bytes()).unwrap();
        let mut answers = 0;
        while answers < 100 {
            let mut line = String::new();
            assert!(client.read_line(&mut line).unwrap() > 0, "the server hung up");
            answers += usize::from(line.contains("HTTP/1.1 404"));
        }
    }
    assert_eq!(server.end("-TERM"), Some(0), "nor does it keep the server from ending");
}

#[test]
fn a_server_that_nobody_listens_to_starts_serves_and_ends() {
    let folder = temporary();
    // Both are pipes that are full already.
    let full = || {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&vec![b'.'; 64 << 10]).unwrap();
        (reader, writer)
    };
    let ((_out, to_out), (_err, to_err)) = (full(), full());
    let port = free_port();
    let mut command = Command::new(PROGRAM);
    command.arg("serve").arg(format!("--listen=127.0.0.1:{port}"));
    command.arg("--data-dir").arg(folder.path().join("data"));
    // A warning has to be written before anything else.
    command.env("HIGHWATER_UNKNOWN", "1").stdout(to_out).stderr(to_err);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut answer = String::new();
    while !answer.starts_with("HTTP/1.1 404") {
        assert_eq!(child.try_wait().unwrap(), None, "it ended");
        let Ok(mut client) = TcpStream::connect(("127.0.0.1", port)) else {
            std::thread::yield_now();
            continue;
        };
        let request = "GET /v1/stream/none HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
        client.write_all(request.as_bytes()).unwrap();
        answer.clear();
        client.read_to_string(&mut answer).unwrap();
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A port that nobody had a moment ago.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
