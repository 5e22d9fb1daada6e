//! Events as a live reader gets them (HTML standard, "Server-sent events").
//!
//! A data event is followed by its control event, in one piece. Nothing that a writer appends can
//! end a line without another one beginning with `data:`, so nobody can forge an event.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use highwater_log::ids::Offset;

use crate::content::Kind;
use crate::cursor::Cursor;
use crate::json;
use crate::offset::Token;
use crate::service::Body;

/// A comment: it means nothing, and shows those in between that the connection lives.
pub const KEEP_ALIVE: &[u8] = b":\n\n";

/// The comment as a chunk of HTTP/1.1 (RFC 9112, section 7.1).
pub const KEEP_ALIVE_CHUNK: &[u8] = b"3\r\n:\n\n\r\n";

/// What `stream-sse-data-encoding` says of a stream's events, where it says anything.
pub fn data_encoding(kind: Kind) -> Option<&'static str> {
    if kind == Kind::Bytes { Some("base64") } else { None }
}

/// Where a reader is behind an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Where to go on.
    pub next: Offset,
    /// Whether there is nothing more, as of now.
    pub is_up_to_date: bool,
    /// Whether there will never be anything more.
    pub is_closed: bool,
}

/// Writes an event with stored content; what is empty is no event.
pub fn write_data(kind: Kind, body: &Body, out: &mut Vec<u8>) {
    if body.is_empty() {
        return;
    }
    out.reserve(body.len() + body.len() / 2 + 64);
    out.extend_from_slice(b"event: data\n");
    match kind {
        Kind::Json => write_messages(body, out),
        Kind::Text => write_lines(&String::from_utf8_lossy(&body.to_bytes()), out),
        Kind::Bytes => write_base64(body, out),
    }
    out.push(b'\n');
}

/// Writes a control event. The cursor of a stream that is closed means nothing any more.
pub fn write_control(control: &Control, cursor: Cursor, out: &mut Vec<u8>) {
    let mut line =
        format!("event: control\ndata:{{\"streamNextOffset\":\"{}\"", Token(control.next));
    if !control.is_closed {
        write!(line, ",\"streamCursor\":\"{cursor}\"").expect("memory takes all text");
    }
    if control.is_up_to_date {
        line.push_str(",\"upToDate\":true");
    }
    if control.is_closed {
        line.push_str(",\"streamClosed\":true");
    }
    line.push_str("}\n\n");
    out.extend_from_slice(line.as_bytes());
}

/// One array on one line: stored messages have no line end but the one behind them.
fn write_messages(body: &Body, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data:[");
    for part in body.parts() {
        for run in part.split(|byte| *byte == b'\n') {
            out.extend_from_slice(run);
        }
    }
    if out.last() == Some(&b' ') {
        out.pop();
    }
    let comma = out.pop();
    assert_eq!(comma.as_ref(), json::ENDING.first(), "stored messages end with their ending");
    out.extend_from_slice(b"]\n");
}

/// One line for each line: CRLF, CR and LF end one.
fn write_lines(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    loop {
        let end = rest.find(['\r', '\n']);
        write_line(&rest[..end.unwrap_or(rest.len())], out);
        let Some(end) = end else { return };
        let len = if rest[end..].starts_with("\r\n") { 2 } else { 1 };
        rest = &rest[end + len..];
    }
}

fn write_line(line: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data:");
    if line.starts_with(' ') {
        // Readers take one space off.
        out.push(b' ');
    }
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

fn write_base64(body: &Body, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data:");
    out.extend_from_slice(STANDARD.encode(body.to_bytes()).as_bytes());
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    /// Reads events as a browser does: (type, data).
    fn events(bytes: &[u8]) -> Vec<(String, String)> {
        let text = std::str::from_utf8(bytes).unwrap().replace("\r\n", "\n").replace('\r', "\n");
        let (mut all, mut kind, mut data) = (Vec::new(), String::new(), Vec::new());
        for line in text.split('\n') {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "" if line.is_empty() && !data.is_empty() => {
                    all.push((std::mem::take(&mut kind), std::mem::take(&mut data).join("\n")));
                }
                "event" => value.clone_into(&mut kind),
                "data" => data.push(value.to_owned()),
                _ => {}
            }
        }
        all
    }

    fn written(kind: Kind, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_data(kind, &Body::from(Bytes::copy_from_slice(body)), &mut out);
        let control = Control { next: Offset(7), is_up_to_date: true, is_closed: false };
        write_control(&control, Cursor(9), &mut out);
        out
    }

    /// Point 34.
    #[test]
    fn events_are_written_as_clients_match_them() {
        let expected = "event: data\ndata:a\ndata:b\n\nevent: control\ndata:\
            {\"streamNextOffset\":\"0000000000000000_0000000000000007\",\"streamCursor\":\"9\",\
            \"upToDate\":true}\n\n";
        assert_eq!(String::from_utf8(written(Kind::Text, b"a\nb")).unwrap(), expected);
        let mut out = Vec::new();
        let control = Control { next: Offset(7), is_up_to_date: true, is_closed: true };
        write_control(&control, Cursor(9), &mut out);
        let expected = "event: control\ndata:{\"streamNextOffset\":\
            \"0000000000000000_0000000000000007\",\"upToDate\":true,\"streamClosed\":true}\n\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    /// Point 36.
    #[test]
    fn nothing_that_is_appended_forges_an_event_and_spaces_stay() {
        for (body, seen) in [
            ("x\r\n\r\nevent: control\r\ndata: {}\r\n\r\n", "x\n\nevent: control\ndata: {}\n\n"),
            ("x\n\nevent: data\ndata: y\n\n", "x\n\nevent: data\ndata: y\n\n"),
            ("x\r\revent: control\r\r", "x\n\nevent: control\n\n"),
            (" a\n  b\n:c\nid: 7", " a\n  b\n:c\nid: 7"),
            ("\n", "\n"),
            ("a\n\r", "a\n\n"),
        ] {
            let events = events(&written(Kind::Text, body.as_bytes()));
            assert_eq!(events.len(), 2, "{body:?}");
            assert_eq!(events[0], ("data".to_owned(), seen.to_owned()), "{body:?}");
        }
    }

    /// Points 35 and 37.
    #[test]
    fn other_content_is_base64_that_stands_alone() {
        for body in [&b"\0"[..], b"\0\x01", b"\xff\xfe\xfd", &[7; 1000]] {
            let events = events(&written(Kind::Bytes, body));
            assert_eq!(events[0].1.len() % 4, 0);
            assert_eq!(STANDARD.decode(&events[0].1).unwrap(), body);
        }
        assert_eq!(data_encoding(Kind::Bytes), Some("base64"));
        assert_eq!((data_encoding(Kind::Text), data_encoding(Kind::Json)), (None, None));
    }

    /// Point 35.
    #[test]
    fn messages_are_one_array_on_one_line() {
        let out = written(Kind::Json, b"{\"a\":\"x\\n\"},\n[1,2],\n");
        assert!(out.starts_with(b"event: data\ndata:[{\"a\":\"x\\n\"},[1,2]]\n\nevent: control\n"));
    }

    #[test]
    fn nothing_is_no_data_event() {
        for kind in [Kind::Json, Kind::Text, Kind::Bytes] {
            assert_eq!(events(&written(kind, b"")).len(), 1);
        }
    }

    proptest! {
        /// Point 36.
        #[test]
        fn any_text_arrives_as_one_event_with_its_lines(text in "[a:\\r\\n \u{2028}d-]{1,30}") {
            let events = events(&written(Kind::Text, text.as_bytes()));
            prop_assert_eq!(events.len(), 2);
            let lines = text.replace("\r\n", "\n").replace('\r', "\n");
            prop_assert_eq!(&events[0].1, &lines);
            prop_assert_eq!(&events[1].0, "control");
        }

        /// Point 36.
        #[test]
        fn any_bytes_of_a_text_stream_are_two_events(
            body in prop::collection::vec(any::<u8>(), 1..60)
        ) {
            prop_assert_eq!(events(&written(Kind::Text, &body)).len(), 2);
        }
    }
}
