//! The same target means the same over both versions of HTTP, whatever bytes are in it.

use std::io::Read as _;

use crate::abuse::frames::{self, frame};
use crate::support::{Running, start};

const GO_AWAY: u8 = 7;

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// Its status.
    Answered(u16),
    /// It is no request: 400 from the HTTP library, a reset, or the end of the connection.
    Refused,
}

/// A stream whose name has some bytes in it.
fn target(odd: &[u8]) -> Vec<u8> {
    [b"/v1/stream/x", odd, b"y"].concat()
}

fn over_http1(server: &Running, target: &[u8]) -> Outcome {
    let mut client = server.client();
    client.send([b"PUT ", target, b" HTTP/1.1\r\nHost: t\r\n"].concat());
    client.send("Content-Type: text/plain\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    match client.answer("PUT") {
        answer if answer.status == 400 && answer.body.is_empty() => Outcome::Refused,
        answer => Outcome::Answered(answer.status),
    }
}

fn over_http2(server: &Running, target: &[u8]) -> Outcome {
    let mut client = server.client();
    client.send([frames::PREFACE, &frame(frames::SETTINGS, 0, 0, &[])].concat());
    let len = [u8::try_from(target.len()).unwrap()];
    // Names by their number in the static table of HPACK: method, scheme (http), authority, path,
    // content-type.
    let head = [b"\x02\x03PUT\x86\x01\x01t\x04", &len[..], target, b"\x0f\x10\x0atext/plain"];
    let flags = frames::END_HEADERS | frames::END_STREAM;
    client.send(frame(frames::HEADERS, flags, 1, &head.concat()));
    let mut is_told = false;
    loop {
        let mut header = [0; 9];
        if client.stream.read_exact(&mut header).is_err() {
            assert!(is_told, "the connection ends without a word");
            return Outcome::Refused;
        }
        let len = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; usize::try_from(len).unwrap()];
        client.stream.read_exact(&mut payload).unwrap();
        match header[3] {
            frames::HEADERS => return Outcome::Answered(status(&payload)),
            frames::RESET => return Outcome::Refused,
            // Why is behind the last stream.
            GO_AWAY => is_told = payload[4..8] != [0; 4],
            _ => {}
        }
    }
}

/// Reads the first field of an answer's head: its status.
fn status(head: &[u8]) -> u16 {
    const KNOWN: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    if head[0] & 0x80 > 0 {
        return KNOWN[usize::from(head[0] & 0x7f) - 8];
    }
    assert_eq!(head[0], 0x48, "a literal of name 8");
    assert_eq!(head[1] & 0x80, 0x80, "in the code of RFC 7541, appendix B");
    let bytes = &head[2..2 + usize::from(head[1] & 0x7f)];
    let bits = bytes.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let (mut left, mut status) = (8 * bytes.len(), 0);
    // 0, 1, 2 have five bits and are 0, 1, 2; 3 to 9 have six, from 25 on.
    while status < 100 {
        let next = |len: usize| bits >> (left - len) & ((1 << len) - 1);
        let (digit, len) = if next(5) < 3 { (next(5), 5) } else { (next(6) - 22, 6) };
        (status, left) = (10 * status + u16::try_from(digit).unwrap(), left - len);
    }
    status
}

#[test]
fn a_target_with_any_byte_in_it_has_the_same_outcome_over_both_versions() {
    let servers = [start(&[]), start(&[])];
    let mut differ = Vec::new();
    let bytes = (0..=255).map(|byte| vec![byte]);
    let more = ["é", "\u{10ffff}", "%", "%4", "%zz", "%00", "%2f", "%5c", "%2e%2e", "/../", "//"];
    for odd in bytes.chain(more.map(|text| text.as_bytes().to_vec())) {
        let target = target(&odd);
        let outcomes = [over_http1(&servers[0], &target), over_http2(&servers[1], &target)];
        if outcomes[0] != outcomes[1] {
            differ.push((String::from_utf8_lossy(&odd).into_owned(), odd, outcomes));
        }
    }
    assert!(differ.is_empty(), "{differ:?}");
    // The same streams were made, by the same names.
    let [first, second] = servers
        .map(|server| server.ask("GET", "/v1/stream/__ds/streams?limit=1000", &[], "").text());
    assert_eq!(first, second);
    assert!(first.contains("xay") && first.contains("x~y"), "{first}");
}
