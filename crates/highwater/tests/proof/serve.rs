//! The server as its user starts it: what it says, what signals do, what a kill leaves.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use highwater_server::token_hash;

use crate::environment::{not_run, tool};
use crate::program::{PROGRAM, highwater, temporary};
use crate::strace::usable;

/// How long a test waits for what has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A server that was started, and its address.
pub(crate) struct Serving {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    lines: Receiver<String>,
    address: String,
    said: String,
}

pub(crate) fn serve(folder: &Path, arguments: &[&str]) -> Serving {
    serve_by(Command::new(PROGRAM), folder, arguments)
}

fn serve_with(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Serving {
    let mut command = Command::new(PROGRAM);
    command.envs(variables.iter().copied());
    serve_by(command, folder, arguments)
}

/// Serves by a command that becomes the program.
pub(crate) fn serve_by(mut command: Command, folder: &Path, arguments: &[&str]) -> Serving {
    command.arg("serve").arg("--listen=127.0.0.1:0").arg("--data-dir").arg(folder.join("data"));
    if !arguments.iter().any(|argument| argument.starts_with("--segment-bytes=")) {
        command.arg("--segment-bytes=16MiB");
    }
    command.args(arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = lines_of(child.stderr.take().unwrap());
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    // Three lines of curl end what it says.
    while said.matches("curl").count() < 3 {
        assert!(out.read_line(&mut said).unwrap() > 0, "it ended: {said}");
    }
    let address = said.split("://").nth(1).unwrap().split(',').next().unwrap().to_owned();
    Serving { child, out, lines, address, said }
}

/// Reads the server's log, line by line, until it ends.
fn lines_of(log: std::process::ChildStderr) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(log).lines();
        while lines.next().is_some_and(|line| sender.send(line.unwrap()).is_ok()) {}
    });
    lines
}

impl Serving {
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let len = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\
             Content-Type: text/plain\r\nContent-Length: {len}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let status = text.split(' ').nth(1).unwrap().parse().unwrap();
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, body.to_owned())
    }

    /// What it said when it had started.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of its log that holds a text.
    pub(crate) fn line_with(&self, text: &str) -> String {
        let mut all = String::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if line.contains(text) {
                return line;
            }
            all += &line;
            all.push('\n');
        }
        panic!("no line with {text:?} in its log:\n{all}");
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    pub(crate) fn end(mut self, name: &str) -> Option<i32> {
        self.signal(name);
        let code = self.child.wait().unwrap().code();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        code
    }
}

impl Serving {
    /// Ends it in order, and gives what it has written to its log.
    pub(crate) fn end_and_read(mut self, name: &str) -> String {
        self.signal(name);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.lines.iter().map(|line| line + "\n").collect()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // One that has ended cannot be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

const STREAM: &str = "/v1/stream/hello";

#[test]
fn a_server_says_what_an_acknowledgement_means_and_ends_on_a_signal() {
    let folder = temporary();
    let server = serve(folder.path(), &[]);
    assert!(server.said.contains("durability=wal: an append is acknowledged when the disk"));
    assert!(server.said.contains("log written by direct fdatasync"), "{}", server.said);
    assert!(server.said.contains("live=sse"));
    assert_eq!(server.ask("PUT", STREAM, "", "").0, 201);
    assert_eq!(server.ask("POST", STREAM, "", "hi").0, 204);
    assert_eq!(server.end("-TERM"), Some(0));
    let data = folder.path().join("data");
    let checked = highwater(&format!("check {}", data.display())).expect_code(0).stdout;
    assert!(checked.contains("last commit vouched for"), "{checked}");
    let server = serve(folder.path(), &["--durability=relaxed=200ms"]);
    assert!(server.said.contains("stable about 200ms later"), "{}", server.said);
    assert_eq!(server.ask("GET", STREAM, "", ""), (200, "hi".to_owned()));
    assert_eq!(server.end("-INT"), Some(0));
}

#[test]
fn a_server_whose_last_commit_fails_says_so_and_ends_with_another_code() {
    if let Err(reason) = usable() {
        return not_run("a barrier that fails while a server stops", &reason);
    }
    let folder = temporary();
    let server = serve(folder.path(), &["--durability=relaxed=1h"]);
    assert_eq!(server.ask("PUT", STREAM, "", "").0, 201);
    assert_eq!(server.ask("POST", STREAM, "", "hi").0, 204);
    // From now on every barrier fails.
    let mut plants = Command::new(tool("strace").unwrap())
        .args(["-f", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO", "-p"])
        .arg(server.id().to_string())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let says = lines_of(plants.stderr.take().unwrap());
    assert!(says.recv_timeout(PATIENCE).unwrap().contains("attached"));
    assert_eq!(server.end("-TERM"), Some(1));
    assert!(plants.wait().unwrap().success());
    assert!(says.iter().any(|line| line.contains("INJECTED")), "no barrier was asked for");
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill() {
    let folder = temporary();
    let server = serve(folder.path(), &[]);
    assert_eq!(server.ask("PUT", STREAM, "", "").0, 201);
    let expected: String = (0..20).map(|number| number.to_string() + ",").collect();
    for number in 0..20 {
        let headers = format!("Producer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: {number}\r\n");
        assert_eq!(server.ask("POST", STREAM, &headers, &format!("{number},")).0, 200);
    }
    assert_eq!(server.end("-KILL"), None);
    let server = serve(folder.path(), &[]);
    let again = "Producer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: 19\r\n";
    assert_eq!(server.ask("POST", STREAM, again, "19,").0, 204);
    assert_eq!(server.ask("GET", STREAM, "", ""), (200, expected));
    server.end("-TERM");
}

#[test]
fn tokens_are_read_again_on_a_hang_up() {
    let folder = temporary();
    let path = folder.path().join("tokens.toml");
    let write = |token: &str| {
        let hash = token_hash(token);
        let text = format!("[[token]]\nname='a'\nsha256='{hash}'\nscopes=['read']\n");
        std::fs::write(&path, text).unwrap();
    };
    write("first");
    let auth = format!("--auth={}", path.display());
    let server = serve(folder.path(), &[&auth]);
    let status = |token: &str| {
        server.ask("GET", STREAM, &format!("Authorization: Bearer {token}\r\n"), "").0
    };
    assert_eq!((status("first"), status("second")), (404, 401));
    write("second");
    server.signal("-HUP");
    while status("second") != 404 {
        std::thread::yield_now();
    }
    assert_eq!(status("first"), 401);
    server.end("-TERM");
}

#[test]
fn who_started_the_server_is_told_when_it_is_ready_and_when_it_stops() {
    let folder = temporary();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let heard = || {
        let mut bytes = [0; 1024];
        let read = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..read].to_vec()).unwrap()
    };
    let server = serve_with(folder.path(), &[], &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    assert_eq!(heard(), format!("READY=1\nSTATUS=listening on {}\n", server.address()));
    assert_eq!(server.ask("PUT", STREAM, "", "").0, 201);
    assert_eq!(server.end("-TERM"), Some(0));
    assert!(heard().starts_with("STOPPING=1\n"));
    // A supervisor that has gone keeps no server from serving.
    drop(socket);
    let server = serve_with(folder.path(), &[], &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    assert_eq!(server.ask("GET", STREAM, "", "").0, 200);
    assert_eq!(server.end("-TERM"), Some(0));
}

#[test]
fn settings_are_printed_with_their_sources_and_those_that_cannot_be_meant_are_refused() {
    let folder = temporary();
    let serve = |arguments: &[&str], variable: Option<(&str, &str)>| {
        let mut command = Command::new(PROGRAM);
        command.current_dir(folder.path()).arg("serve").args(arguments).envs(variable);
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let arguments = ["--print-config", "--wal-lanes=3", "--wal-checkpoint-interval-ms=1500"];
    let (code, printed, _) = serve(&arguments, Some(("HIGHWATER_CHUNK_BYTES", "2MiB")));
    assert_eq!(code, Some(0));
    for line in [
        "wal-lanes = 3 # --wal-lanes",
        "checkpoint-interval = \"1500ms\" # --wal-checkpoint-interval-ms",
        "chunk-bytes = \"2MiB\" # HIGHWATER_CHUNK_BYTES",
        "long-poll-timeout = \"30s\" # default",
    ] {
        assert!(printed.contains(line), "{line} in\n{printed}");
    }
    std::fs::write(folder.path().join("printed.toml"), &printed).unwrap();
    assert_eq!(serve(&["--config=printed.toml", "--print-config"], None).0, Some(0));
    std::fs::write(folder.path().join("odd.toml"), "wal_lanes = 3\n").unwrap();
    for (arguments, words) in [
        (&["--config=odd.toml"][..], "did you mean \"wal-lanes\"?"),
        (&["--listen=0.0.0.0:0"], "--insecure-no-auth"),
        (&["--durability=strict"], "wal, memory, or relaxed=TIME"),
        (&["--durability=memory", "--cold-tier=s3://x"], "do not go together"),
        (&["--profile=none.toml"], "cannot read none.toml"),
        (&["--profile=none.toml", "--write-path=default"], "cannot read none.toml"),
        // Whatever was chosen, the default by its name, too.
        (&["--profile=none.toml", "--write-path=measured"], "leave one of them away"),
        (&["--profile=none.toml", "--write-path=direct-fdatasync"], "leave one of them away"),
    ] {
        let (code, _, said) = serve(arguments, None);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
    let chosen = Some(("HIGHWATER_WRITE_PATH", "direct-fdatasync"));
    let (code, _, said) = serve(&["--profile=none.toml"], chosen);
    assert!(code == Some(2) && said.contains("leave one of them away"), "{said}");
    let removed = ["--wal-fsync-parallel=8", "--print-config"];
    let (code, _, said) = serve(&removed, None);
    assert_eq!(code, Some(0));
    assert!(said.contains("wal-fsync-parallel does nothing"), "{said}");
}

#[test]
fn log_lines_for_machines_are_json_with_numbers_as_numbers() {
    let folder = temporary();
    let server = serve(folder.path(), &["--log=debug", "--log-format=json"]);
    assert_eq!(server.ask("PUT", STREAM, "X-Request-Id: mine\r\n", "").0, 201);
    let said = server.end_and_read("-TERM");
    let lines = said.lines().filter(|line| !line.starts_with("highwater: "));
    let lines: Vec<serde_json::Value> =
        lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let answered = lines.iter().find(|line| line["message"] == "answered").unwrap();
    assert_eq!((answered["id"].as_str(), answered["status"].as_u64()), (Some("mine"), Some(201)));
    assert!(answered["took_us"].is_u64(), "{answered}");
}

#[test]
fn a_configuration_file_leads_to_files_beside_it_from_wherever_the_server_is_started() {
    let folder = temporary();
    let beside = folder.path().join("etc");
    std::fs::create_dir(&beside).unwrap();
    let hash = token_hash("secret");
    let tokens = format!("[[token]]\nname='a'\nsha256='{hash}'\nscopes=['create']\n");
    std::fs::write(beside.join("tokens.toml"), tokens).unwrap();
    std::fs::write(beside.join("serve.toml"), "auth = \"tokens.toml\"\n").unwrap();
    let config = format!("--config={}", beside.join("serve.toml").display());
    let server = serve(folder.path(), &[&config]);
    assert_eq!(server.ask("PUT", STREAM, "Authorization: Bearer secret\r\n", "").0, 201);
    assert_eq!(server.ask("PUT", STREAM, "", "").0, 401);
    server.end("-TERM");
}

#[test]
fn why_a_token_was_not_accepted_is_said_in_the_log_and_the_token_is_not() {
    let folder = temporary();
    let path = folder.path().join("tokens.toml");
    std::fs::write(&path, "").unwrap();
    let server = serve(folder.path(), &[&format!("--auth={}", path.display())]);
    for _ in 0..20 {
        assert_eq!(server.ask("GET", STREAM, "Authorization: Bearer guessed\r\n", "").0, 401);
    }
    let said = server.end_and_read("-TERM");
    let lines = said.matches("a bearer token was not accepted").count();
    assert!((1..20).contains(&lines), "{lines} lines: {said}");
    assert!(
        said.contains("it is not in the file of tokens") && !said.contains("guessed"),
        "{said}"
    );
}
