//! What a client can still see of a server that stops.

use std::io::Read as _;

use crate::support::{Client, start};

const HEADERS: u8 = 1;
const DATA: u8 = 0;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const ACKNOWLEDGED: u8 = 1;
/// The end of a request's head, which is all of it.
const WHOLE: u8 = 1 | 4;
/// GET of `http://t/readyz`, as HPACK has it.
const READYZ: &[u8] = b"\x82\x86\x41\x01t\x04\x07/readyz";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![len[1], len[2], len[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Reads frames until one of a kind has come that answers none of this client's; gives its payload.
fn frame_of(client: &mut Client, kind: u8) -> Vec<u8> {
    loop {
        let mut head = [0; 9];
        client.stream.read_exact(&mut head).unwrap();
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(len).unwrap()];
        client.stream.read_exact(&mut payload).unwrap();
        let answers = matches!(kind, SETTINGS | PING) && head[4] & ACKNOWLEDGED != 0;
        if head[3] == kind && !answers {
            return payload;
        }
    }
}

/// A load balancer that holds a connection over HTTP/2 hears of it: the server says that it goes,
/// and until the client has understood that, it answers.
#[test]
fn a_server_that_stops_is_not_ready_and_says_so_to_whoever_still_can_ask() {
    let server = start(&[("shutdown-timeout", "10s")]);
    let mut client = server.client();
    client.send([&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[])].concat());
    client.send(frame(HEADERS, WHOLE, 1, READYZ));
    assert_eq!(frame_of(&mut client, DATA), b"ready\n");
    let stopping = std::thread::spawn(move || server.stop());
    frame_of(&mut client, GO_AWAY);
    client.send(frame(HEADERS, WHOLE, 3, READYZ));
    // The ping that follows asks whether the client has understood; no answer has been given yet.
    let ping = frame_of(&mut client, PING);
    assert_eq!(frame_of(&mut client, DATA), b"stopping\n");
    client.send(frame(PING, ACKNOWLEDGED, 0, &ping));
    drop(client.rest());
    stopping.join().unwrap();
}

/// It would wait for an hour: whoever neither reads nor answers never says that it has understood.
#[test]
fn a_server_that_stops_waits_for_no_client_of_http2_that_says_nothing() {
    let begun = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[])].concat();
    let server = start(&[("shutdown-timeout", "1h")]);
    let mut silent: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut silent {
        client.send(&begun);
    }
    silent[0].send(frame(HEADERS, WHOLE, 1, READYZ));
    assert_eq!(frame_of(&mut silent[0], DATA), b"ready\n");
    drop(server.stop());
    // It was told, and reads that when it reads on.
    frame_of(&mut silent[0], GO_AWAY);
}

/// What is under way is waited for, however long ago the server was asked to stop.
#[test]
fn a_server_that_stops_answers_the_append_that_comes_slowly_over_http2() {
    let server = start(&[("shutdown-timeout", "1h")]);
    server.make("a");
    let mut client = server.client();
    client.send([&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[])].concat());
    // POST, `content-type: text/plain`.
    let append = b"\x83\x86\x41\x01t\x04\x0c/v1/stream/a\x0f\x10\x0atext/plain";
    client.send(frame(HEADERS, 4, 1, &append[..]));
    client.send(frame(DATA, 0, 1, b"begun "));
    frame_of(&mut client, SETTINGS);
    let stopping = std::thread::spawn(move || server.stop());
    frame_of(&mut client, GO_AWAY);
    // Longer than those are waited for that say nothing.
    let (_keep, nothing) = std::sync::mpsc::channel::<()>();
    nothing.recv_timeout(std::time::Duration::from_millis(1500)).unwrap_err();
    client.send(frame(DATA, 1, 1, b"and ended"));
    let head = frame_of(&mut client, HEADERS);
    assert_eq!(head[0], 0x89, "the index of the status 204 in the static table of HPACK");
    let server = crate::support::start_in(stopping.join().unwrap(), &[]);
    let kept = server.ask("GET", &crate::support::stream("a"), &[], "");
    assert_eq!(kept.text(), "begun and ended");
}
