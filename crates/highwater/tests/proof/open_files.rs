//! A server that the system allows few open files: its log has those that it needs, whatever
//! clients open, and where there are too few for that it does not start.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use crate::program::{PROGRAM, temporary};
use crate::serve::serve_by;

/// The program, allowed so many open files.
fn allowed(files: u32) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {files} && exec \"$0\" \"$@\""), PROGRAM]);
    command
}

/// Settings of a log that rolls over its segments soon, and has few files of streams open.
const SMALL: [&str; 8] = [
    "--segment-bytes=2MiB",
    "--max-body-bytes=256KiB",
    "--max-wal-bytes=16MiB",
    "--checkpoint-wal-bytes=4MiB",
    "--max-open-files=16",
    "--webhook-deliveries=4",
    "--threads=1",
    "--log=warn",
];

/// Open files of a server: what it needs, and some connections.
const ALLOWED: u32 = 224;

/// A connection that goes on.
struct Kept(BufReader<TcpStream>);

impl Kept {
    fn ask(&mut self, method: &str, path: &str, body: &str) -> u16 {
        self.answer(method, path, body).0
    }

    fn answer(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let len = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n\
             Content-Length: {len}\r\n\r\n"
        );
        self.0.get_mut().write_all((head + body).as_bytes()).unwrap();
        let (mut status, mut len) = (None, 0);
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the server has gone");
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            status = status.or_else(|| line.split(' ').nth(1)?.parse().ok());
            if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                len = text.parse().unwrap();
            }
        }
        let mut body = vec![0; len];
        self.0.read_exact(&mut body).unwrap();
        (status.unwrap(), String::from_utf8(body).unwrap())
    }
}

#[test]
fn segments_roll_and_bytes_move_home_with_as_many_connections_as_the_system_allows() {
    // I11
    let folder = temporary();
    let server = serve_by(allowed(ALLOWED), folder.path(), &SMALL);
    let said = server.said();
    assert!(said.contains("connections at once, not 20000 (max-connections)"), "{said}");
    let mut writer = Kept(BufReader::new(TcpStream::connect(server.address()).unwrap()));
    assert_eq!(writer.ask("PUT", "/v1/stream/live", ""), 201);
    // A few beyond the bound are told that it is full, the others are closed.
    let clients: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut client = TcpStream::connect(server.address()).unwrap();
            let path = "/v1/stream/live?offset=now&live=sse";
            // One that is closed by then cannot be written to.
            write!(client, "GET {path} HTTP/1.1\r\nHost: t\r\n\r\n").ok();
            client
        })
        .collect();
    let body = "x".repeat(200_000);
    let streams: Vec<String> = (0..30).map(|number| format!("/v1/stream/s{number}")).collect();
    for path in &streams {
        assert_eq!(writer.ask("PUT", path, ""), 201);
    }
    let mut taken = 0;
    for path in streams.iter().cycle().take(300) {
        match writer.ask("POST", path, &body) {
            204 => taken += 1,
            // What waits for a checkpoint; never a failure.
            status => assert_eq!(status, 503),
        }
    }
    assert!(taken > 100, "{taken}");
    let (_, metrics) = writer.answer("GET", "/metrics", "");
    let most = said.split(" connections at once").next().unwrap().rsplit('\n').next().unwrap();
    for line in [format!("connections_limit {most}\n"), format!("open_files_limit {ALLOWED}\n")] {
        assert!(metrics.contains(&format!("highwater_{line}")), "{line} in {metrics}");
    }
    let name = "highwater_connections ";
    let open = metrics.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let (open, most): (u64, u64) = (open.parse().unwrap(), most.parse().unwrap());
    // As many may be open beyond the bound as were reckoned with, and one for each thread.
    assert!((most..=most + 64 + 1).contains(&open), "{open} are open, and {most} may be");
    drop(clients);
    assert_eq!(writer.ask("GET", "/readyz", ""), 200);
    let logged = server.end_and_read("-TERM");
    assert!(!logged.contains("Too many open files"), "{logged}");
}

#[test]
fn a_server_whose_log_does_not_fit_in_the_open_files_that_are_allowed_does_not_start() {
    let folder = temporary();
    let data = folder.path().join("data");
    let mut command = allowed(90);
    command.args(["serve", "--listen=127.0.0.1:0", "--data-dir"]).arg(&data);
    let output = command.args(SMALL).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in ["open files are needed", "ulimit -n", "max-open-files"] {
        assert!(said.contains(words), "{words} in {said}");
    }
    assert!(!data.exists(), "nothing is made by a server that does not start");
}
