//! What a server says to who runs it, and how it ends among clients of every kind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::environment::not_run;
use crate::program::{PROGRAM, highwater, temporary};
use crate::serve::{PATIENCE, Serving, serve, serve_by};

const STREAM: &str = "/v1/stream/hello";
/// Clients that wait for events, each with an open file here and there.
const READERS: usize = 1000;

fn tokens(token: &str) -> String {
    let hash = highwater_server::token_hash(token);
    format!("[[token]]\nname='a'\nsha256='{hash}'\nscopes=['read']\n")
}

/// Sends bytes on a connection of its own, which stays open.
fn send(server: &Serving, bytes: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes.as_bytes()).unwrap();
    stream
}

/// Reads until a text has come.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let (mut text, mut room) = (String::new(), [0; 4096]);
    while !text.contains(end) {
        let len = stream.read(&mut room).unwrap();
        assert!(len > 0, "it ended: {text}");
        text += std::str::from_utf8(&room[..len]).unwrap();
    }
    text
}

/// Reads what is left until the connection ends.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        other => drop(other.unwrap()),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[expect(clippy::disallowed_methods, reason = "no power is cut here")]
#[test]
fn a_broken_file_of_tokens_is_said_on_a_hang_up_and_leaves_the_tokens_that_are_in_force() {
    let folder = temporary();
    let path = folder.path().join("tokens.toml");
    // In one step: the server looks at it now and then by itself.
    let write = |text: &str| {
        let new = folder.path().join("tokens.new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &path).unwrap();
    };
    write(&tokens("first"));
    let auth = format!("--auth={}", path.display());
    let server = serve(folder.path(), &[&auth]);
    let status = |token: &str| {
        server.ask("GET", STREAM, &format!("Authorization: Bearer {token}\r\n"), "").0
    };
    for broken in ["[[token]]\nname = ", "[[token]]\nname='a'\nsha256='xyz'\nscopes=['read']\n"] {
        write(broken);
        server.signal("-HUP");
        let line = server.line_with("stays in force");
        assert!(line.contains("ERROR") && line.contains("tokens.toml"), "{line}");
        assert_eq!((status("first"), status("second")), (404, 401));
    }
    std::fs::remove_file(&path).unwrap();
    server.signal("-HUP");
    let line = server.line_with("stays in force");
    assert!(line.contains("tokens.toml"), "{line}");
    assert_eq!(status("first"), 404, "without its file, too");
    write(&tokens("second"));
    server.signal("-HUP");
    server.line_with("access files read");
    assert_eq!((status("first"), status("second")), (401, 404));
    assert_eq!(server.end("-TERM"), Some(0));
}

/// Somebody has to know of it, also where nobody writes.
#[test]
fn a_log_that_turns_read_only_is_said_once_and_is_a_metric_while_reads_go_on() {
    let folder = temporary();
    // Checkpoints begin with the second segment.
    let server =
        serve(folder.path(), &["--checkpoint-interval=1h", "--checkpoint-wal-bytes=17MiB"]);
    let metric = "log_read_only{lane=\"0\"} ";
    let is = |value: &str| {
        server.ask("GET", "/metrics", "", "").1.contains(&format!("{metric}{value}\n"))
    };
    assert_eq!(server.ask("PUT", STREAM, "", "kept").0, 201);
    assert!(is("0"));
    // The home is gone: bytes cannot move there.
    std::fs::remove_dir_all(folder.path().join("data/streams/0")).unwrap();
    let much = "x".repeat(7 << 20);
    assert_eq!(server.ask("PUT", "/v1/stream/much", "", &much).0, 201);
    while !is("1") {
        assert!(matches!(server.ask("POST", "/v1/stream/much", "", &much).0, 204 | 503));
    }
    let line = server.line_with("changes are refused");
    assert!(line.starts_with("highwater: ") && line.contains("streams/0"), "{line}");
    let (status, answer) = server.ask("POST", STREAM, "", "x");
    assert!(status == 503 && answer.contains("LOG_READ_ONLY"), "{answer}");
    assert_eq!(server.ask("GET", &format!("{STREAM}?offset=-1"), "", ""), (200, "kept".to_owned()));
    assert_eq!(server.end("-TERM"), Some(0));
}

#[test]
fn lines_for_machines_name_each_request_by_the_id_that_its_client_sees() {
    let folder = temporary();
    let server = serve(folder.path(), &["--log=debug", "--log-format=json"]);
    let object = |line: &str| -> Value { serde_json::from_str(line).unwrap() };
    let (status, body) = server.ask("GET", STREAM, "", "");
    assert_eq!(status, 404);
    let id = object(&body)["request_id"].as_str().unwrap().to_owned();
    let refused = object(&server.line_with("request refused"));
    assert_eq!(
        (&refused["id"], &refused["code"]),
        (&id.clone().into(), &"STREAM_NOT_FOUND".into())
    );
    assert_eq!((&refused["method"], &refused["path"]), (&"GET".into(), &STREAM.into()));
    assert!(refused["client"].is_string() && refused["timestamp"].is_string(), "{refused}");
    let answered = object(&server.line_with("answered"));
    assert_eq!((&answered["id"], &answered["status"]), (&id.into(), &404.into()));
    // A client's own id is in the header of the answer, and in the line.
    let asked = format!(
        "PUT {STREAM} HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\nX-Request-Id: of-mine\r\n\r\n"
    );
    let head = read_until(&mut send(&server, &asked), "\r\n\r\n").to_lowercase();
    assert!(head.starts_with("http/1.1 201") && head.contains("\r\nx-request-id: of-mine\r\n"));
    let line = object(&server.line_with("of-mine"));
    assert_eq!((&line["id"], &line["status"]), (&"of-mine".into(), &201.into()));
    // What a client names cannot make a line of its own, nor a field.
    let forged = "x\", \"level\":\"ERROR";
    let asked = format!("GET {STREAM} HTTP/1.1\r\nHost: t\r\nX-Request-Id: {forged}\r\n\r\n");
    read_until(&mut send(&server, &asked), "\r\n\r\n");
    let line = object(&server.line_with("level\\\":"));
    assert_eq!((&line["id"], &line["level"]), (&forged.into(), &"DEBUG".into()));
    assert_eq!(server.end("-TERM"), Some(0));
}

/// Has a server that acknowledged ahead of its barrier end, and holds what it left.
fn end_and_hold(server: Serving, folder: &std::path::Path, expected: &str) {
    assert_eq!(server.end("-TERM"), Some(0));
    let data = folder.join("data");
    let checked = highwater(&format!("check {}", data.display())).expect_code(0).stdout;
    assert!(checked.contains("clean"), "{checked}");
    let server = serve(folder, &[]);
    assert_eq!(server.ask("GET", STREAM, "", ""), (200, expected.to_owned()));
    assert_eq!(server.end("-TERM"), Some(0));
}

#[test]
fn a_server_with_a_thousand_live_readers_ends_each_between_events_and_commits_its_log() {
    let limit = highwater_sys::process::raise_open_file_limit();
    if limit < 3 * READERS as u64 {
        return not_run("a thousand live readers", &format!("{limit} files may be open"));
    }
    let folder = temporary();
    let server = serve(folder.path(), &["--durability=relaxed=1h", "--max-connections=2000"]);
    assert_eq!(server.ask("PUT", STREAM, "", "").0, 201);
    let asked = format!("GET {STREAM}?offset=-1&live=sse HTTP/1.1\r\nHost: t\r\n\r\n");
    let mut readers: Vec<TcpStream> = (0..READERS).map(|_| send(&server, &asked)).collect();
    for reader in &mut readers {
        read_until(reader, "upToDate\":true}\n\n");
    }
    assert_eq!(server.ask("POST", STREAM, "", "acknowledged").0, 204);
    // Some have it by then, some do not: it ends for all at the end of an event.
    end_and_hold(server, folder.path(), "acknowledged");
    for reader in &mut readers {
        let text = rest(reader);
        assert!(text.ends_with("0\r\n\r\n"), "{text:?}");
        let events = text.matches("event: data").count();
        assert_eq!(text.matches("data:acknowledged\n\n").count(), events, "{text:?}");
    }
}

#[test]
fn a_server_ends_in_time_and_commits_its_log_whoever_is_stuck() {
    let folder = temporary();
    let flags = ["--durability=relaxed=1h", "--shutdown-timeout=500ms"];
    let server = serve(folder.path(), &flags);
    assert_eq!(server.ask("PUT", STREAM, "", "").0, 201);
    assert_eq!(server.ask("PUT", "/v1/stream/long", "", "").0, 201);
    assert_eq!(server.ask("POST", "/v1/stream/long", "", &"x".repeat(4 << 20)).0, 204);
    assert_eq!(server.ask("POST", STREAM, "", "acknowledged").0, 204);
    let post = format!("POST {STREAM} HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n");
    let get = "GET /v1/stream/long?offset=-1 HTTP/1.1\r\nHost: t\r\n\r\n";
    let _silent = send(&server, "");
    let _half_a_head = send(&server, "GET /healthz HTTP/1.1\r\nHo");
    let half_a_body = send(&server, &format!("{post}Content-Length: 10\r\n\r\nhalf"));
    let _half_a_chunk =
        send(&server, &format!("{post}Transfer-Encoding: chunked\r\n\r\n10\r\nhalf"));
    // Asks again and again, and reads nothing.
    let mut deaf = send(&server, &get.repeat(8));
    let mut byte = [0];
    deaf.read_exact(&mut byte).unwrap();
    let _half_a_preface = send(&server, "PRI * HTTP/2.0\r\n\r\nSM");
    let mut of_http2 = send(&server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0");
    of_http2.read_exact(&mut byte).unwrap();
    end_and_hold(server, folder.path(), "acknowledged");
    drop(half_a_body);
}

/// How much of its program a server has in its memory, in KiB.
fn program_kib(server: &Serving) -> u64 {
    let smaps = std::fs::read_to_string(format!("/proc/{}/smaps", server.id())).unwrap();
    let mut kib = 0;
    let mut is_program = false;
    for line in smaps.lines() {
        if let Some(rest) = line.strip_prefix("Rss:").filter(|_| is_program) {
            kib += rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
        } else if line.contains('-') {
            is_program = line.ends_with("/highwater")
                && [" r-xp ", " r--p "].iter().any(|rights| line.contains(rights));
        }
    }
    kib
}

/// Who is told of the start reads nothing at first, so that it is over but for that.
#[test]
fn a_server_that_has_started_gives_back_what_of_its_program_only_the_start_has_used() {
    let folder = temporary();
    let path = folder.path().join("notify");
    let supervisor = UnixDatagram::bind(&path).unwrap();
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"X", &path).is_ok() {}
    let mut command = Command::new(PROGRAM);
    command.env("NOTIFY_SOCKET", &path);
    let server = serve_by(command, folder.path(), &[]);
    let before = program_kib(&server);
    assert!(before > 0, "its program is nowhere");
    let mut bytes = [0; 1024];
    while !bytes.starts_with(b"READY=1") {
        assert!(supervisor.recv(&mut bytes).unwrap() > 0);
    }
    let asked = Instant::now();
    while program_kib(&server) > before / 2 {
        assert!(asked.elapsed() < PATIENCE, "{} of {before} KiB", program_kib(&server));
        std::thread::yield_now();
    }
    assert_eq!(server.ask("PUT", STREAM, "", "").0, 201);
    assert_eq!(server.end("-TERM"), Some(0));
}

/// Starts a server that waits for its settings, which nobody writes yet, and signals it as soon as
/// it takes signals itself.
fn signalled_before_it_has_settings(folder: &std::path::Path, signals: &[&str]) -> Child {
    let settings = folder.join("settings.toml");
    assert!(Command::new("mkfifo").arg(&settings).status().unwrap().success());
    let mut server = Command::new(PROGRAM)
        .args(["serve", "--listen=127.0.0.1:0", "--data-dir"])
        .arg(folder.join("data"))
        .arg("--config")
        .arg(&settings)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let asked = Instant::now();
    while !takes_signals(server.id()) {
        if asked.elapsed() > PATIENCE {
            server.kill().unwrap();
            panic!("it takes no signals while it waits for its settings");
        }
        std::thread::yield_now();
    }
    for signal in signals {
        let id = server.id().to_string();
        assert!(Command::new("kill").args([*signal, id.as_str()]).status().unwrap().success());
    }
    server
}

/// Whether SIGTERM and SIGINT have handlers in a process.
fn takes_signals(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    [SIGTERM, SIGINT].iter().all(|signal| caught & (1 << (signal - 1)) != 0)
}

#[test]
fn a_signal_ends_in_order_a_server_that_is_only_starting_and_a_second_one_at_once() {
    let folder = temporary();
    let mut server = signalled_before_it_has_settings(folder.path(), &["-TERM"]);
    std::fs::write(folder.path().join("settings.toml"), "segment-bytes = \"16MiB\"\n").unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    server.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("highwater: stopping"), "{said}");
    highwater(&format!("check {}", folder.path().join("data").display())).expect_code(0);
    let folder = temporary();
    let mut server = signalled_before_it_has_settings(folder.path(), &["-TERM", "-INT"]);
    assert_eq!(server.wait().unwrap().code(), Some(130));
}
