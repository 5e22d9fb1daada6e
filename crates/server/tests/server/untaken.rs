//! Clients of HTTP/2 that let nothing of their answers come, or little: flow control is theirs, and
//! what they do not take is dropped.

use std::io::Read as _;
use std::time::{Duration, Instant};

use crate::abuse::frames::{self, frame};
use crate::support::{Client, PATIENCE, Running, start, stream};

const DATA: u8 = 0;
const RESET: u8 = 3;
const WINDOW: u8 = 8;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// Reason of a reset: the stream is no longer needed.
const CANCEL: u32 = 8;

/// Begins HTTP/2 with so many bytes of each answer let come.
fn begin(server: &Running, window: u32) -> Client {
    let mut client = server.client();
    let setting = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window.to_be_bytes()].concat();
    client.send([frames::PREFACE, &frame(frames::SETTINGS, 0, 0, &setting)].concat());
    client
}

/// Sends a request without content: of the static table of HPACK, `method` is GET with 2.
fn ask(client: &mut Client, number: u32, method: &[u8], target: &str) {
    let len = [u8::try_from(target.len()).unwrap()];
    let head = [method, b"\x86\x41\x01t\x04", &len, target.as_bytes()].concat();
    let flags = frames::END_HEADERS | frames::END_STREAM;
    client.send(frame(frames::HEADERS, flags, number, &head));
}

const GET: &[u8] = b"\x82";
/// A literal: name 2 of the static table, not indexed.
const HEAD: &[u8] = b"\x02\x04HEAD";

struct Frame {
    kind: u8,
    is_last: bool,
    stream: u32,
    payload: Vec<u8>,
}

fn next(client: &mut Client) -> Frame {
    let mut header = [0; 9];
    client.stream.read_exact(&mut header).unwrap();
    let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
    let mut payload = vec![0; usize::try_from(number(&header[..3])).unwrap()];
    client.stream.read_exact(&mut payload).unwrap();
    let is_last = matches!(header[3], DATA | frames::HEADERS) && header[4] & frames::END_STREAM > 0;
    Frame { kind: header[3], is_last, stream: number(&header[5..]), payload }
}

fn fill(server: &Running, bytes: usize) {
    server.make("a");
    assert_eq!(server.append("a", &"x".repeat(bytes)).status, 204);
}

/// I11.
#[test]
fn an_answer_of_which_nothing_is_taken_is_dropped_and_the_others_of_its_connection_go_on() {
    let server = start(&[("write-timeout", "500ms"), ("idle-timeout", "20s")]);
    fill(&server, 100_000);
    let paths = ["", "?offset=-1&live=long-poll", "?offset=-1&live=sse"];
    for (round, window) in [0, 1, 20_000].into_iter().enumerate() {
        let mut client = begin(&server, window);
        for (number, query) in (1..).step_by(2).zip(paths) {
            ask(&mut client, number, GET, &(stream("a") + query));
        }
        let mut reset = Vec::new();
        while reset.len() < paths.len() {
            let frame = next(&mut client);
            assert!(!frame.is_last, "all of an answer came");
            if frame.kind == RESET {
                assert_eq!(frame.payload, CANCEL.to_be_bytes());
                reset.push(frame.stream);
            }
        }
        reset.sort_unstable();
        assert_eq!(reset, [1, 3, 5], "window {window}");
        ask(&mut client, 7, HEAD, "/healthz");
        while !next(&mut client).is_last {}
        let metrics = server.metrics();
        let untaken = format!("limits_hit_total{{limit=\"untaken\"}} {}", 3 * (round + 1));
        assert!(metrics.contains(&untaken), "{metrics}");
        assert!(metrics.contains("limits_hit_total{limit=\"cut\"} 0"), "{metrics}");
        assert!(metrics.contains("highwater_subscribers 0"), "{metrics}");
    }
}

#[test]
fn an_answer_that_is_taken_slowly_comes_whole() {
    let server = start(&[("write-timeout", "2s")]);
    fill(&server, 70_000);
    let mut client = begin(&server, 8192);
    ask(&mut client, 1, GET, &stream("a"));
    let (mut taken, started) = (0, Instant::now());
    loop {
        let frame = next(&mut client);
        assert_ne!(frame.kind, RESET, "after {taken} bytes and {:?}", started.elapsed());
        taken += if frame.kind == DATA { frame.payload.len() } else { 0 };
        if frame.is_last {
            break;
        }
        if frame.kind == DATA && !frame.payload.is_empty() {
            rest(Duration::from_millis(400));
            let more = u32::try_from(frame.payload.len()).unwrap().to_be_bytes();
            client.send([frame_of(1, &more), frame_of(0, &more)].concat());
        }
    }
    assert_eq!(taken, 70_000);
    assert!(started.elapsed() < PATIENCE);
}

fn rest(time: Duration) {
    let (_keep, nothing) = std::sync::mpsc::channel::<()>();
    nothing.recv_timeout(time).unwrap_err();
}

fn frame_of(stream: u32, more: &[u8]) -> Vec<u8> {
    frame(WINDOW, 0, stream, more)
}
