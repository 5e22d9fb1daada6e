//! Clients that mean harm: what they send is refused, and costs no more than its bounds.

use std::io::{BufRead as _, Read as _, Write as _};

use highwater_server::settings::Settings;
use proptest::prelude::*;

use crate::support::{Client, Running, start, stream};

const TEXT: (&str, &str) = ("Content-Type", "text/plain");
/// What no client of this test may get a server to read.
const FAR_TOO_MUCH: usize = 64 << 20;

/// Writes the same bytes until the server has enough; gives how many it took.
fn pour(client: &mut Client, bytes: &[u8]) -> usize {
    let mut poured = 0;
    while poured < FAR_TOO_MUCH {
        match client.stream.get_mut().write(bytes) {
            Ok(len) => poured += len,
            Err(_) => break,
        }
    }
    poured
}

fn lives(server: &Running) {
    assert_eq!(server.ask("GET", "/healthz", &[], "").status, 200);
}

#[test]
fn headers_chunk_extensions_and_trailers_without_an_end_are_cut_off() {
    let server = start(&[]);
    server.make("a");
    let chunked = "POST /v1/stream/a HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n\
                   Transfer-Encoding: chunked\r\n\r\n";
    let endless: [(&str, String, &[u8]); 5] = [
        ("headers", "GET /healthz HTTP/1.1\r\nHost: t\r\n".to_owned(), b"X-Y: z\r\n"),
        ("a header", "GET /healthz HTTP/1.1\r\nHost: t\r\nX: ".to_owned(), &[b'x'; 1000]),
        ("a target", "GET /".to_owned(), &[b'x'; 1000]),
        ("an extension", format!("{chunked}1;x="), &[b'x'; 1000]),
        ("trailers", format!("{chunked}1\r\na\r\n0\r\n"), b"X-Y: z\r\n"),
    ];
    for (what, begin, more) in endless {
        let mut client = server.client();
        client.send(begin);
        let poured = pour(&mut client, more);
        assert!(poured < FAR_TOO_MUCH, "{what} without an end are read on and on");
    }
    lives(&server);
    assert_eq!(server.ask("GET", &stream("a"), &[], "").text(), "");
}

#[test]
fn a_length_that_cannot_be_meant_is_refused_before_anything_is_kept() {
    let server = start(&[]);
    server.make("a");
    for (len, statuses) in [
        ("18446744073709551615", &[400, 413, 431][..]),
        ("18446744073709551616", &[400, 413, 431]),
        ("9223372036854775807", &[413]),
        ("-1", &[400]),
        ("0x10", &[400]),
        ("1e3", &[400]),
        ("", &[400]),
    ] {
        let mut client = server.client();
        client.send(format!(
            "POST /v1/stream/a HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n\
             Content-Length: {len}\r\n\r\nabc"
        ));
        let status = client.head().0;
        assert!(statuses.contains(&status), "{len:?}: {status}");
    }
    for size in ["ffffffffffffffff", "10000000000000000", "-1", "1_0", " 1"] {
        let mut client = server.client();
        client.send(format!(
            "POST /v1/stream/a HTTP/1.1\r\nHost: t\r\nContent-Type: text/plain\r\n\
             Transfer-Encoding: chunked\r\n\r\n{size}\r\nabc\r\n0\r\n\r\n"
        ));
        client.stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
        let text = String::from_utf8_lossy(&client.rest()).into_owned();
        assert!(!text.starts_with("HTTP/1.1 2"), "{size:?}: {text}");
    }
    assert_eq!(server.ask("GET", &stream("a"), &[], "").text(), "");
}

#[test]
fn odd_targets_are_answered_and_none_is_an_error_of_the_server() {
    let server = start(&[]);
    server.make("a");
    let long = format!("/v1/stream/{}", "x".repeat(5000));
    let deep = format!("/v1/stream/{}", "a/".repeat(1500));
    let up = format!("/v1/stream/{}etc/passwd", "../".repeat(50));
    let many = format!("/v1/stream/a?{}", "offset=-1&".repeat(3000));
    let cursor = format!("/v1/stream/a?offset=-1&cursor={}", "9".repeat(4000));
    for target in [
        "/v1/stream",
        "/v1/stream/",
        "/v1/stream//",
        "/v1/stream/%00",
        "/v1/stream/%",
        "/v1/stream/%zz",
        "/v1/stream/%ff%fe",
        "/v1/stream/%c0%ae%c0%ae/x",
        "/v1/stream/%2e%2e/%2e%2e/healthz",
        "/v1/stream/..;/x",
        "/v1/stream/a%0d%0aX-Evil:%201",
        "/v1/stream/a%09b",
        "/v1/stream/__ds",
        "/v1/stream/%5f%5fds/streams/x",
        "/v1/stream/a\\b",
        "/v1/stream/a?offset=%00",
        "/v1/stream/a?offset=-1&live=sse%0d%0aevent:%20x",
        "/v1/stream/a?%ff=%ff",
        "//v1/stream/a",
        "http://[::1/v1/stream/a",
        "*",
        &long,
        &deep,
        &up,
        &many,
        &cursor,
    ] {
        for method in ["GET", "HEAD", "DELETE", "CONNECT", "PUT"] {
            let mut client = server.client();
            let path = if method == "PUT" {
                target.replace("stream/a", "stream/z")
            } else {
                target.into()
            };
            client
                .send(format!("{method} {path} HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n"));
            let (status, headers) = client.head();
            assert!(status < 500, "{method} {target}: {status}");
            assert!(headers.iter().all(|(name, _)| name != "x-evil"), "{method} {target}");
        }
    }
    lives(&server);
}

#[test]
fn what_a_client_names_comes_back_as_data_and_never_as_a_header_or_an_event() {
    let server = start(&[]);
    let path = stream("a%0d%0aX-Evil:%201%0d%0a%0d%0aevent:%20x");
    let made = server.ask("PUT", &path, &[TEXT], "");
    assert!(matches!(made.status, 201 | 400), "{made:?}");
    assert_eq!(made.header("x-evil"), None);
    if let Some(location) = made.header("location") {
        assert!(location.contains("%0D%0A") || location.contains("%0d%0a"), "{location}");
    }
    for value in ["text/plain\u{b}", "text/plain\u{7f}", "text/plain; a=\u{1}"] {
        let head = format!("PUT /v1/stream/b HTTP/1.1\r\nHost: t\r\nContent-Type: {value}\r\n");
        let mut client = server.client();
        client.send(format!("{head}Content-Length: 0\r\n\r\n"));
        assert_eq!(client.head().0, 400, "{value:?}");
    }
    // A folded header, a bare CR, a bare LF: none of them begins a header of its own.
    for fold in ["\r\n X-Evil: 1", "\rX-Evil: 1", "\nX-Evil: 1"] {
        let mut client = server.client();
        client.send(format!(
            "GET /v1/stream/none HTTP/1.1\r\nHost: t\r\nX-Request-Id: id{fold}\r\n\r\n"
        ));
        let text = String::from_utf8_lossy(client.stream.fill_buf().unwrap()).into_owned();
        assert!(!text.to_ascii_lowercase().contains("\nx-evil"), "{fold:?}: {text}");
    }
    server.make("c");
    let forged = "x\n\nevent: control\ndata: {\"streamClosed\":true}\n\n: \r\rid: 7\r\nretry: 1";
    assert_eq!(server.append("c", forged).status, 204);
    server.ask("POST", &stream("c"), &[("Stream-Closed", "true")], "");
    let mut reader = server.client();
    let target = format!("{}?offset=-1&live=sse", stream("c"));
    let events = reader.ask("GET", &target, &[], "").text();
    assert_eq!(events.matches("\nevent: control\n").count(), 1, "{events}");
    let own = |line: &&str| ["id:", "retry:", ": "].iter().any(|begin| line.starts_with(begin));
    assert_eq!(events.lines().find(own), None, "{events}");
}

#[test]
fn json_that_is_deep_or_broken_is_refused_and_nothing_is_kept_of_it() {
    let server = start(&[]);
    let json = ("Content-Type", "application/json");
    server.ask("PUT", &stream("j"), &[json], "");
    for body in ["[".repeat(4 << 20), "{\"a\":".repeat(500_000), "[[],".repeat(1 << 20)] {
        let refused = server.ask("POST", &stream("j"), &[json], &body);
        assert_eq!((refused.status, refused.json()["code"].as_str()), (400, Some("INVALID_JSON")));
    }
    assert_eq!(server.ask("GET", &stream("j"), &[], "").text(), "[]");
}

/// Each producer is remembered until others push it out: a stream's memory of them is bounded.
#[test]
fn many_producers_of_a_stream_push_each_other_out() {
    let server = start(&[("max-producers", "8")]);
    server.make("a");
    let mut client = server.client();
    let mut ask = |producer: usize, seq: &str| {
        let id = format!("{producer}-{}", "x".repeat(100));
        let headers = [TEXT, ("Producer-Id", &id), ("Producer-Epoch", "0"), ("Producer-Seq", seq)];
        client.ask("POST", &stream("a"), &headers, "x").status
    };
    for producer in 0..500 {
        assert_eq!(ask(producer, "0"), 200);
    }
    assert_eq!(ask(499, "1"), 200, "the last ones are known");
    assert_eq!(ask(3, "1"), 409, "the first are not");
    assert_eq!(ask(3, "0"), 200, "and begin anew");
    let long = "x".repeat(60_000);
    let headers = [TEXT, ("Producer-Id", &*long), ("Producer-Epoch", "0"), ("Producer-Seq", "0")];
    let refused = server.ask("POST", &stream("a"), &headers, "x");
    assert!(matches!(refused.status, 400 | 431), "{refused:?}");
}

/// Frames of HTTP/2, one by one.
pub mod frames {
    pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    pub const HEADERS: u8 = 1;
    pub const RESET: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const CONTINUATION: u8 = 9;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    /// GET of `http://t/healthz`, as HPACK has it.
    pub const GET: &[u8] = b"\x82\x86\x41\x01t\x04\x08/healthz";

    pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut bytes = vec![len[1], len[2], len[3], kind, flags];
        bytes.extend_from_slice(&stream.to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }
}

/// Begins HTTP/2, writes what is made for each number, and gives how many were written before the
/// server had enough.
fn flood(server: &Running, most: u32, mut make: impl FnMut(u32) -> Vec<u8>) -> u32 {
    let mut client = server.client();
    client.send([frames::PREFACE, &frames::frame(frames::SETTINGS, 0, 0, &[])].concat());
    let mut reader = client.stream.get_ref().try_clone().unwrap();
    // Answers are read, so that only what is asked too much of is a reason to stop.
    let drain = std::thread::spawn(move || {
        let mut room = vec![0; 1 << 16];
        while reader.read(&mut room).is_ok_and(|len| len > 0) {}
    });
    let mut written = 0;
    while written < most && client.stream.get_mut().write_all(&make(written)).is_ok() {
        written += 1;
    }
    if written < most {
        drain.join().unwrap();
    } else {
        client.stream.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
        drain.join().unwrap();
    }
    written
}

#[test]
fn requests_that_are_taken_back_at_once_end_the_connection() {
    use frames::*;
    let server = start(&[]);
    let flags = END_HEADERS | END_STREAM;
    let written = flood(&server, 200_000, |number| {
        let stream = 2 * number + 1;
        let asked = frame(HEADERS, flags, stream, GET);
        [asked, frame(RESET, 0, stream, &8_u32.to_be_bytes())].concat()
    });
    assert!(written < 200_000, "requests are taken back for ever");
    lives(&server);
}

#[test]
fn a_head_of_http2_without_an_end_ends_the_connection() {
    use frames::*;
    let server = start(&[]);
    let header = [&b"\x00\x03x-y\x7f\x81\x7f"[..], &[b'z'; 256]].concat();
    let written = flood(&server, 20_000, |number| match number {
        0 => frame(HEADERS, END_STREAM, 1, GET),
        _ => frame(CONTINUATION, 0, 1, &header.repeat(40)),
    });
    assert!(written < 20_000, "a head is read on and on");
    lives(&server);
}

#[test]
fn pings_and_settings_without_end_are_answered_within_bounds_or_end_the_connection() {
    use frames::*;
    let server = start(&[]);
    for (kind, payload) in [(PING, &[7; 8][..]), (SETTINGS, &[])] {
        flood(&server, 50_000, |_| frame(kind, 0, 0, payload));
        lives(&server);
    }
}

/// More streams at once than are allowed are refused; those that are allowed are answered.
#[test]
fn requests_at_once_on_a_connection_are_bounded() {
    let most = Settings::default().max_h2_streams;
    assert!(most <= 256, "{most}");
    let server = start(&[("max-h2-streams", "4"), ("long-poll-timeout", "20s")]);
    server.make("a");
    let mut client = server.client();
    client.send([frames::PREFACE, &frames::frame(frames::SETTINGS, 0, 0, &[])].concat());
    // GET /v1/stream/a?offset=now&live=long-poll
    let target = b"/v1/stream/a?offset=now&live=long-poll";
    let len = [u8::try_from(target.len()).unwrap()];
    let head = [&b"\x82\x86\x41\x01t\x04"[..], &len, target].concat();
    let flags = frames::END_HEADERS | frames::END_STREAM;
    for stream in (1..=15).step_by(2) {
        client.send(frames::frame(frames::HEADERS, flags, stream, &head));
    }
    let mut refused = 0;
    while refused < 4 {
        let mut header = [0; 9];
        client.stream.read_exact(&mut header).unwrap();
        let len = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; usize::try_from(len).unwrap()];
        client.stream.read_exact(&mut payload).unwrap();
        // REFUSED_STREAM, or PROTOCOL_ERROR before the client has seen the bound.
        refused += usize::from(header[3] == frames::RESET);
    }
    lives(&server);
}

/// Headers whose values this server reads itself, and not a library alone.
const READ_HERE: [&str; 20] = [
    "Accept-Encoding",
    "Authorization",
    "Content-Encoding",
    "Content-Type",
    "Expect",
    "If-None-Match",
    "Origin",
    "Producer-Epoch",
    "Producer-Id",
    "Producer-Seq",
    "Stream-Closed",
    "Stream-Expires-At",
    "Stream-Fork-Offset",
    "Stream-Fork-Sub-Offset",
    "Stream-Forked-From",
    "Stream-Seq",
    "Stream-TTL",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Request-Id",
];

/// Values that mean something somewhere.
const NEAR: [&str; 17] = [
    "gzip;q=0.5, *;q=0",
    "Bearer a.b.c",
    "Bearer eyJhbGciOiJub25lIn0.e30.",
    "W/\"a\", \"b\"",
    "*",
    "application/json; charset=\"a\\\"b\"",
    "true",
    "9007199254740991",
    "-1",
    "1e3",
    "2030-01-01T00:00:00Z",
    "2030-02-30T25:61:61.999999999999Z",
    "/v1/stream/a?b#c",
    "0000000000000000_0000000000000001",
    "1.2.3.4, [::1]:80, unknown",
    "https",
    "",
];

/// Text that is nearly what is meant, or nothing of the kind.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(&NEAR[..]).prop_map(str::to_owned),
        "[ -~]{0,40}",
        (
            prop::sample::select(&NEAR[..]),
            "[ -~\\t\u{80}-\u{ff}]{0,6}",
            any::<prop::sample::Index>()
        )
            .prop_map(|(near, more, at)| {
                let mut text = near.to_owned();
                text.insert_str(at.index(near.len() + 1), &more);
                text
            }),
    ]
}

#[test]
fn whatever_headers_and_queries_say_is_never_an_error_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
    let hs256 = secret.display().to_string();
    let proxy = ("trusted-proxies", "127.0.0.1");
    let servers =
        [start(&[proxy, ("gzip-from-bytes", "1")]), start(&[proxy, ("auth-hs256", &hs256)])];
    servers[0].make("a");
    servers[0].append("a", "content");
    let headers = prop::collection::vec((prop::sample::select(&READ_HERE[..]), value()), 0..4);
    let query = "[a-z=&%+0-9_,.\"-]{0,30}";
    let methods = prop::sample::select(&["GET", "PUT", "POST", "HEAD", "DELETE"][..]);
    let which = 0..servers.len();
    let config =
        ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(method in methods, headers in headers, query in query, which in which)| {
        let path = if method == "GET" { "/v1/stream/a" } else { "/v1/stream/z" };
        let mut head = format!("{method} {path}?{query} HTTP/1.1\r\nHost: t\r\n").into_bytes();
        for (name, value) in &headers {
            head.extend(format!("{name}: ").bytes());
            // As one byte each: what is no ASCII is what older clients send.
            head.extend(value.chars().map(|char| u8::try_from(u32::from(char)).unwrap_or(b'?')));
            head.extend(b"\r\n");
        }
        let mut client = servers[which].client();
        client.send([&head[..], b"Content-Length: 1\r\nConnection: close\r\n\r\nx"].concat());
        let mut status = client.head().0;
        if status == 100 {
            status = client.head().0;
        }
        prop_assert!(status < 500, "{}", status);
    });
    servers.iter().for_each(lives);
}
