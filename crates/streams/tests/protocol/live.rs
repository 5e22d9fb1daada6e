use std::sync::Arc;

use highwater_disk::sim::{Fault, OperationKind};
use highwater_log::ids::Offset;
use highwater_streams::cursor::Cursor;
use highwater_streams::error::Problem;
use highwater_streams::live::{Follower, Next};
use highwater_streams::offset::{Place, Token};

use crate::following::*;
use crate::support::*;

/// Point 38.
#[test]
fn an_empty_stream_begins_with_a_control_event_that_has_the_offset_of_a_read() {
    let store = Store::new(200);
    store.put("a", &create(TEXT, "")).unwrap();
    store.put("b", &create(TEXT, "abc")).unwrap();
    for (name, place) in [("a", Place::Start), ("a", Place::Now), ("b", Place::Now)] {
        let mut follower = follow(&store, name, place);
        let event = event(&mut follower);
        let read = store.get(name, Place::Now).unwrap();
        assert_eq!((event.control.next, data(&event)), (read.next, String::new()));
        assert!(event.control.is_up_to_date && !event.control.is_closed);
        assert_eq!(follower.try_next().unwrap(), Next::Wait);
    }
}

/// Points 35 and 38.
#[test]
fn what_is_there_comes_first_then_what_is_appended_and_the_end_comes_last() {
    let store = Store::new(201);
    store.put("a", &create(TEXT, &"0123456789".repeat(10))).unwrap();
    let mut follower = follow(&store, "a", Place::Start);
    let first = event(&mut follower);
    assert!(!first.control.is_up_to_date, "one chunk of two");
    let second = event(&mut follower);
    assert!(second.control.is_up_to_date);
    assert_eq!(data(&first) + &data(&second), "0123456789".repeat(10));
    assert_eq!(follower.try_next().unwrap(), Next::Wait);
    store.post("a", &append(TEXT, "live")).unwrap();
    assert_eq!(data(&event(&mut follower)), "live");
    store.post("a", &closing(append(TEXT, "last"))).unwrap();
    let last = event(&mut follower);
    assert_eq!(data(&last), "last");
    assert!(last.control.is_closed && last.control.next == Offset(108));
    assert_eq!(follower.try_next().unwrap(), Next::End);
    let mut late = follow(&store, "a", Place::Now);
    let only = event(&mut late);
    assert!(only.control.is_closed && only.control.is_up_to_date && data(&only).is_empty());
    assert_eq!(late.try_next().unwrap(), Next::End);
}

/// Points 24 and 30.
#[test]
fn a_delete_or_close_wakes_who_waits_and_ends_them() {
    let store = Store::new(202);
    for name in ["a", "b", "c"] {
        store.put(name, &create(JSON, "[1]")).unwrap();
    }
    store.put("fork", &fork("b", None, 0)).unwrap();
    let woken: Vec<Arc<Woken>> = (0..3).map(|_| Arc::default()).collect();
    let mut followers: Vec<Follower> =
        ["a", "b", "c"].iter().map(|name| follow(&store, name, Place::Now)).collect();
    for (follower, woken) in followers.iter_mut().zip(&woken) {
        event(follower);
        assert_eq!(follower.try_next().unwrap(), Next::Wait);
        assert!(!wait(follower, woken));
    }
    store.delete("a").unwrap();
    store.delete("b").unwrap();
    store.post("c", &close()).unwrap();
    assert!(woken.iter().all(|woken| woken.take()));
    assert_eq!(followers[0].try_next().unwrap(), Next::End);
    assert_eq!(followers[1].try_next().unwrap(), Next::End, "hidden is gone, for readers");
    assert!(event(&mut followers[2]).control.is_closed);
    store.put("a", &create(JSON, "[2]")).unwrap();
    assert_eq!(followers[0].try_next().unwrap(), Next::End, "another stream of this name");
    drop(followers);
    assert_eq!(store.streams.followed(), 0);
}

/// Point 30.
#[test]
fn a_poll_gives_what_is_there_waits_for_what_comes_and_ends_at_once_at_the_end() {
    let store = Store::new(203);
    store.put("a", &create(JSON, "[1]")).unwrap();
    let mut ready = follow(&store, "a", Place::Start);
    assert_eq!(text_of(&ready.try_chunk().unwrap().unwrap()), "[1]");
    let woken = Arc::new(Woken::default());
    let mut poll = follow(&store, "a", Place::Now);
    assert_eq!(poll.try_chunk().unwrap(), None);
    assert!(!wait(&mut poll, &woken));
    store.post("a", &append(JSON, "[2,3]")).unwrap();
    assert!(woken.take());
    let chunk = poll.try_chunk().unwrap().unwrap();
    assert_eq!(text_of(&chunk), "[2, \n3]");
    assert!(chunk.is_up_to_date && !chunk.is_closed);
    assert_eq!(poll.try_chunk().unwrap(), None);
    assert!(!wait(&mut poll, &woken));
    store.post("a", &close()).unwrap();
    assert!(woken.take());
    let chunk = poll.try_chunk().unwrap().unwrap();
    assert!(chunk.is_closed && text_of(&chunk) == "[]");
    let mut late = follow(&store, "a", Place::Now);
    assert!(late.try_chunk().unwrap().unwrap().is_closed);
    let mut gone = follow(&store, "a", Place::Now);
    store.delete("a").unwrap();
    assert_eq!(gone.try_chunk(), Err(Problem::NotFound));
}

/// Point 31.
#[test]
fn a_poll_that_gave_nothing_stands_where_its_client_is() {
    let store = Store::new(204);
    store.put("a", &create(TEXT, "abc")).unwrap();
    let mut poll = follow(&store, "a", Place::At(Offset(3)));
    assert_eq!(poll.try_chunk().unwrap(), None);
    store.post("a", &append(TEXT, "def")).unwrap();
    assert_eq!(poll.position(), Offset(3), "although the tail has moved");
    let beyond = follow(&store, "a", Place::At(Offset(u64::MAX)));
    assert_eq!(beyond.position(), Offset(6));
}

/// Point 32.
#[test]
fn a_cursor_from_the_future_is_answered_by_a_later_one_in_every_event() {
    let store = Store::new(205);
    store.put("a", &create(TEXT, "x")).unwrap();
    // Simulated time stands before the cursors' epoch.
    let current = store.streams.cursor(None);
    assert_eq!(current, Cursor(0));
    let mut ahead = store.streams.follow(&path("a"), Place::Start, Some(Cursor(77))).unwrap();
    let mut plain = follow(&store, "a", Place::Start);
    let own = ahead.cursor();
    assert!(own > Cursor(77));
    for _ in 0..2 {
        let text = String::from_utf8(event(&mut ahead).bytes().to_vec()).unwrap();
        assert!(text.contains(&format!("\"streamCursor\":\"{own}\"")), "{text}");
        let text = String::from_utf8(event(&mut plain).bytes().to_vec()).unwrap();
        assert!(text.contains("\"streamCursor\":\"0\""), "{text}");
        assert_eq!(ahead.try_next().unwrap(), Next::Wait);
        assert_eq!(plain.try_next().unwrap(), Next::Wait);
        store.post("a", &append(TEXT, "y")).unwrap();
    }
}

/// Point 36: CR and LF in two appends, or in two events, are one line end still.
#[test]
fn line_ends_are_what_they_are_wherever_appends_and_events_end() {
    let store = Store::new(209);
    let text = "a\r\nb\r\r\n\nc\r";
    let lines = "a\nb\n\n\nc\n";
    let all_of = |follower: &mut Follower| {
        let mut got = String::new();
        while let Next::Event(event) = follower.try_next().unwrap() {
            got += &data(&event);
        }
        got
    };
    for cut in 0..text.len() {
        let name = format!("t{cut}");
        store.put(&name, &create(TEXT, &text[..cut])).unwrap();
        let mut follower = follow(&store, &name, Place::Start);
        let mut got = all_of(&mut follower);
        store.post(&name, &append(TEXT, &text[cut..])).unwrap();
        got += &all_of(&mut follower);
        assert_eq!((got.as_str(), follower.position()), ("a\nb\n\n\nc", Offset(9)), "{cut}");
        store.post(&name, &close()).unwrap();
        got += &all_of(&mut follower);
        assert_eq!(got, lines, "{cut}");
    }
    for before in 60..66 {
        let (name, text) = (format!("c{before}"), "x".repeat(before) + "\r\ny");
        store.put(&name, &create(TEXT, &text)).unwrap();
        let mut follower = follow(&store, &name, Place::Start);
        assert_eq!(all_of(&mut follower), "x".repeat(before) + "\ny", "{before}");
    }
}

/// Point 37.
#[test]
fn a_character_split_over_appends_arrives_whole() {
    let store = Store::new(206);
    store.put("a", &create(TEXT, "")).unwrap();
    let euro = "€".as_bytes();
    let post = |bytes: &[u8]| {
        let request = highwater_streams::service::Append { body: bytes, ..append(TEXT, "") };
        store.post("a", &request).unwrap();
    };
    let mut follower = follow(&store, "a", Place::Start);
    event(&mut follower);
    assert_eq!(follower.try_next().unwrap(), Next::Wait);
    let woken = Arc::new(Woken::default());
    assert!(!wait(&mut follower, &woken));
    post(&[b"5 ", &euro[..1]].concat());
    let part = event(&mut follower);
    assert_eq!((data(&part).as_str(), part.control.next), ("5 ", Offset(2)));
    assert!(part.control.is_up_to_date, "all that can be given");
    post(&euro[1..2]);
    assert_eq!(follower.try_next().unwrap(), Next::Wait);
    woken.take();
    assert!(!wait(&mut follower, &woken));
    post(&[&euro[2..], &euro[..2]].concat());
    assert!(woken.take(), "who waits for a byte is woken by it");
    let whole = event(&mut follower);
    assert_eq!((data(&whole).as_str(), whole.control.next), ("€", Offset(5)));
    let again = event(&mut follow(&store, "a", Place::At(part.control.next)));
    assert_eq!(data(&again), "€", "the offset leads back to the whole character");
    assert_eq!(follower.try_next().unwrap(), Next::Wait);
    store.post("a", &close()).unwrap();
    let last = event(&mut follower);
    assert_eq!((data(&last).as_str(), last.control.next), ("\u{fffd}", Offset(7)));
    assert!(last.control.is_closed);
}

/// Point 41.
#[test]
fn nobody_follows_from_inside_a_message() {
    let store = Store::new(207);
    store.put("a", &create(JSON, "[12,34]")).unwrap();
    let from = |at| store.streams.follow(&path("a"), Place::At(Offset(at)), None);
    assert_eq!(from(1).unwrap_err(), Problem::InsideMessage);
    assert_eq!(data(&event(&mut from(5).unwrap())), "[34]");
    assert_eq!(code(store.streams.follow(&path("b"), Place::Now, None)), "STREAM_NOT_FOUND");
}

/// Point 45.
#[test]
fn a_fork_gives_its_inheritance_at_once_and_is_not_woken_by_its_source() {
    let store = Store::new(208);
    store.put("s", &create(TEXT, "inherited")).unwrap();
    store.put("f", &fork("s", None, 0)).unwrap();
    let mut follower = follow(&store, "f", Place::Start);
    assert_eq!(data(&event(&mut follower)), "inherited");
    assert_eq!(follower.try_next().unwrap(), Next::Wait);
    let woken = Arc::new(Woken::default());
    assert!(!wait(&mut follower, &woken));
    store.post("s", &append(TEXT, "more")).unwrap();
    store.post("s", &close()).unwrap();
    store.delete("s").unwrap();
    assert!(!woken.take());
    store.post("f", &append(TEXT, "own")).unwrap();
    assert!(woken.take());
    assert_eq!(data(&event(&mut follower)), "own");
}

/// I10: whoever waits on a log that fails is told, and what was durable is still given.
#[test]
fn a_log_that_fails_ends_who_waits_on_it() {
    let store = Store::new(214);
    store.put("a", &create(JSON, "[1]")).unwrap();
    let mut followers: Vec<Follower> = (0..3).map(|_| follow(&store, "a", Place::Now)).collect();
    let woken: Vec<Arc<Woken>> = (0..3).map(|_| Arc::default()).collect();
    let mut poll = follow(&store, "a", Place::Now);
    assert_eq!(poll.try_chunk().unwrap(), None);
    for (follower, woken) in followers.iter_mut().zip(&woken) {
        event(follower);
        assert_eq!(follower.try_next().unwrap(), Next::Wait);
        assert!(!wait(follower, woken));
    }
    store.disk.fail_next(OperationKind::SyncData, 1, Fault::FailedBarrierDropsPages);
    assert_eq!(code(store.post("a", &append(JSON, "2"))), "LOG_FAILED");
    assert!(woken.iter().any(|woken| woken.take()));
    let fails = |follower: &mut Follower| code(follower.try_next());
    assert_eq!(fails(&mut followers[0]), "LOG_FAILED");
    assert!(woken[1].take() && woken[2].take());
    assert_eq!(fails(&mut followers[1]), "LOG_FAILED");
    assert_eq!(code(poll.try_chunk()), "LOG_FAILED");
    let mut late = follow(&store, "a", Place::Start);
    assert_eq!(data(&event(&mut late)), "[1]");
    assert_eq!(code(late.try_next()), "LOG_FAILED");
}

/// Point 39: an event names its offset as an answer's header does.
#[test]
fn events_name_offsets_as_tokens() {
    let store = Store::new(212);
    store.put("a", &create(TEXT, "x")).unwrap();
    let event = event(&mut follow(&store, "a", Place::Start));
    let text = String::from_utf8(event.bytes().to_vec()).unwrap();
    assert!(text.contains(&format!("\"streamNextOffset\":\"{}\"", Token(Offset(1)))));
}
