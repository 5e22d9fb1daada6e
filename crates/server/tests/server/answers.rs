//! What the status and the headers of answers say: what a client without any library goes by.

use crate::support::{Answer, Running, start, stream};

const TEXT: (&str, &str) = ("Content-Type", "text/plain");

fn post(server: &Running, headers: &[(&str, &str)], body: &str) -> Answer {
    server.ask("POST", &stream("a"), headers, body)
}

fn produce(server: &Running, [id, epoch, sequence]: [&str; 3]) -> Answer {
    let producer = [("Producer-Id", id), ("Producer-Epoch", epoch), ("Producer-Seq", sequence)];
    post(server, &[&[TEXT][..], &producer].concat(), "x")
}

/// Points 3, 6, 7 and 10.
#[test]
fn a_create_is_201_with_all_that_was_made_and_the_same_again_200() {
    let server = start(&[]);
    let headers = [("Content-Type", "Text/PLAIN; charset=UTF-8"), ("Stream-Closed", "true")];
    let made = server.ask("PUT", &stream("a"), &headers, "xyz");
    let again = server.ask("PUT", &stream("a"), &headers, "xyz");
    assert_eq!((made.status, again.status), (201, 200));
    let tail = server.ask("HEAD", &stream("a"), &[], "").next_offset();
    for answer in [&made, &again] {
        assert_eq!(answer.header("content-type"), Some("Text/PLAIN; charset=UTF-8"));
        assert_eq!(answer.header("stream-closed"), Some("true"));
        assert_eq!(answer.next_offset(), tail);
    }
    let location = made.header("location").unwrap();
    assert!(location.starts_with("http://") && location.ends_with("/v1/stream/a"), "{location}");
    for (name, value) in [("Stream-TTL", "9"), ("Content-Type", "text/html")] {
        let other = server.ask("PUT", &stream("a"), &[headers[1], (name, value)], "");
        assert_eq!(other.status, 409, "{name}");
    }
    let open = server.ask("PUT", &stream("open"), &[TEXT], "");
    assert_eq!((open.status, open.header("stream-closed")), (201, None));
}

/// Points 12, 14, 15 and 16.
#[test]
fn an_append_is_204_with_the_tail_and_a_refused_one_says_where_the_stream_ended() {
    let server = start(&[]);
    server.make("a");
    let first = post(&server, &[TEXT, ("Stream-Seq", "b")], "x");
    assert_eq!((first.status, first.header("stream-closed")), (204, None));
    assert_eq!(first.header("producer-seq"), None);
    assert_eq!(first.next_offset(), server.ask("GET", &stream("a"), &[], "").next_offset());
    for headers in [[TEXT, ("Stream-Seq", "a")], [("Content-Type", "text/html"), ("X", "")]] {
        let refused = post(&server, &headers, "x");
        assert_eq!((refused.status, refused.header("stream-closed")), (409, None), "{headers:?}");
    }
    let closed = post(&server, &[("Stream-Closed", "TRUE")], "");
    assert_eq!((closed.status, closed.header("stream-closed")), (204, Some("true")));
    assert_eq!(closed.next_offset(), first.next_offset());
    let again = post(&server, &[("Stream-Closed", "true")], "");
    assert_eq!((again.status, again.header("stream-closed")), (204, Some("true")));
    for content_type in ["text/plain", "text/html"] {
        let late = post(&server, &[("Content-Type", content_type)], "x");
        assert_eq!((late.status, late.header("stream-closed")), (409, Some("true")));
        assert_eq!(late.next_offset(), first.next_offset(), "{content_type}");
    }
}

/// Points 19 and 20.
#[test]
fn a_producer_is_told_by_status_and_headers_where_it_stands() {
    let server = start(&[]);
    server.make("a");
    let told = |asked: [&str; 3]| {
        let answer = produce(&server, asked);
        let names = ["epoch", "seq", "expected-seq", "received-seq"];
        let headers = names.map(|name| {
            let value = answer.header(&format!("producer-{name}"));
            value.map_or(-1, |value| value.parse::<i64>().unwrap())
        });
        (answer.status, headers)
    };
    for (asked, status, headers) in [
        (["p", "0", "5"], 409, [-1, -1, 0, 5]),
        (["p", "0", "0"], 200, [0, 0, -1, -1]),
        (["p", "0", "1"], 200, [0, 1, -1, -1]),
        (["p", "0", "0"], 204, [0, 1, -1, -1]),
        (["p", "0", "4"], 409, [-1, -1, 2, 4]),
        (["p", "1", "1"], 400, [-1, -1, -1, -1]),
        (["p", "1", "0"], 200, [1, 0, -1, -1]),
        (["p", "0", "2"], 403, [1, -1, -1, -1]),
        (["", "0", "0"], 400, [-1, -1, -1, -1]),
        (["q", "0", "9007199254740992"], 400, [-1, -1, -1, -1]),
    ] {
        assert_eq!(told(asked), (status, headers), "{asked:?}");
    }
    let alone = post(&server, &[TEXT, ("Producer-Id", "p"), ("Producer-Seq", "1")], "x");
    assert_eq!(alone.status, 400);
    assert_eq!(server.ask("GET", &stream("a"), &[], "").text(), "xxx");
}

/// Point 24.
#[test]
fn head_is_never_kept_and_tells_what_the_stream_is() {
    let server = start(&[]);
    let until = "2099-01-01T00:00:00Z";
    for (name, field) in [("t", ("Stream-TTL", "100")), ("u", ("Stream-Expires-At", until))] {
        server.ask("PUT", &stream(name), &[TEXT, field, ("Stream-Closed", "true")], "xyz");
        let read = server.ask("GET", &stream(name), &[], "");
        let head = server.ask("HEAD", &stream(name), &[], "");
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/plain")));
        assert_eq!(head.header("cache-control"), Some("no-store"));
        assert_eq!(head.header(field.0), Some(field.1));
        assert_eq!(head.header("stream-closed"), Some("true"));
        assert_eq!(head.next_offset(), read.next_offset());
    }
    assert_eq!(server.ask("HEAD", &stream("none"), &[], "").status, 404);
}

/// Points 30 and 32.
#[test]
fn every_answer_of_a_poll_has_the_place_and_a_cursor_behind_the_one_that_was_brought() {
    let server = start(&[]);
    server.make("a");
    let tail = server.append("a", "x").next_offset();
    let far = 9_000_000_000_u64;
    for (place, status, body) in [("-1", 200, "x"), ("now", 204, ""), (tail.as_str(), 204, "")] {
        let target = format!("{}?offset={place}&live=long-poll&cursor={far}", stream("a"));
        let answer = server.ask("GET", &target, &[], "");
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{place}");
        assert_eq!(answer.header("stream-up-to-date"), Some("true"), "{place}");
        assert_eq!(answer.next_offset(), tail, "{place}");
        let cursor: u64 = answer.header("stream-cursor").unwrap().parse().unwrap();
        assert!(cursor > far, "{place}: {cursor}");
    }
    for live in ["long-poll", "sse"] {
        let placeless = server.ask("GET", &format!("{}?live={live}", stream("a")), &[], "");
        assert_eq!(placeless.status, 400, "{live}");
    }
}

/// Point 37.
#[test]
fn events_of_bytes_and_no_others_say_that_they_are_base64() {
    let server = start(&[]);
    for (content_type, body, coding, data) in [
        ("text/plain", "xy", None, "data:xy\n"),
        ("application/json", "[1]", None, "data:[1]\n"),
        ("application/octet-stream", "xy", Some("base64"), "data:eHk=\n"),
    ] {
        let headers = [("Content-Type", content_type), ("Stream-Closed", "true")];
        let path = stream(content_type);
        assert_eq!(server.ask("PUT", &path, &headers, body).status, 201);
        let events = server.ask("GET", &format!("{path}?offset=-1&live=sse"), &[], "");
        assert_eq!(events.header("content-type"), Some("text/event-stream"));
        assert_eq!(events.header("stream-sse-data-encoding"), coding, "{content_type}");
        assert!(events.text().contains(data), "{}", events.text());
    }
}

/// Points 11, 13, 44 and 46.
#[test]
fn a_source_that_is_kept_for_its_fork_is_410_and_no_answer_names_it() {
    let server = start(&[]);
    server.make("a");
    server.append("a", "x");
    let from = ("Stream-Forked-From", "/v1/stream/a");
    let made = server.ask("PUT", &stream("fork"), &[from], "");
    let again = server.ask("PUT", &stream("fork"), &[from], "");
    let (read, head) =
        (server.ask("GET", &stream("fork"), &[], ""), server.ask("HEAD", &stream("fork"), &[], ""));
    assert_eq!([made.status, again.status, read.status, head.status], [201, 200, 200, 200]);
    for answer in [made, again, read, head] {
        let names = answer.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
        assert_eq!(names.filter(|name| name.starts_with("stream-fork")).count(), 0);
    }
    assert_eq!(server.ask("DELETE", &stream("a"), &[], "").status, 204);
    for (method, status) in
        [("GET", 410), ("HEAD", 410), ("POST", 410), ("DELETE", 410), ("PUT", 409)]
    {
        assert_eq!(server.ask(method, &stream("a"), &[TEXT], "x").status, status, "{method}");
    }
    assert_eq!(server.ask("PUT", &stream("other"), &[from], "").status, 409);
    assert_eq!(server.ask("DELETE", &stream("fork"), &[], "").status, 204);
    assert_eq!(server.ask("GET", &stream("a"), &[], "").status, 404);
}
