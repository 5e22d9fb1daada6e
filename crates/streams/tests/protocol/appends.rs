use highwater_log::ids::Offset;
use highwater_log::request::End;
use highwater_streams::offset::Place;
use highwater_streams::service::{Append, Create, Taken};

use crate::support::*;

/// Point 12.
#[test]
fn an_append_answers_with_the_tail_behind_it_and_a_close_with_the_end() {
    let store = Store::new(20);
    store.put("a", &create(TEXT, "")).unwrap();
    let appended = store.post("a", &append(TEXT, "one")).unwrap();
    assert_eq!((appended.tail, appended.taken), (Offset(3), Taken::Now));
    assert!(!appended.is_closed && appended.producer.is_none());
    let appended = store.post("a", &closing(append(TEXT, "two"))).unwrap();
    assert!(appended.is_closed);
    assert_eq!(appended.tail, Offset(6));
    assert_eq!(store.all("a"), "onetwo");
}

/// Point 13.
#[test]
fn what_cannot_be_appended_is_refused_and_changes_nothing() {
    let store = Store::new(21);
    store.put("t", &create(TEXT, "x")).unwrap();
    store.put("j", &create(JSON, "[1]")).unwrap();
    let untyped = Append { content_type: None, ..append(TEXT, "x") };
    let large = "x".repeat(9000);
    for (name, request, expected) in [
        ("t", append(TEXT, ""), "EMPTY_BODY"),
        ("t", untyped, "CONTENT_TYPE_REQUIRED"),
        ("t", append(TEXT, &large), "TOO_LARGE"),
        ("j", append(JSON, "{"), "INVALID_JSON"),
        ("j", append(JSON, "[]"), "EMPTY_ARRAY"),
        ("j", closing(append(JSON, "[]")), "EMPTY_ARRAY"),
        ("nothing", append(TEXT, "x"), "STREAM_NOT_FOUND"),
        ("nothing", append(JSON, "{"), "STREAM_NOT_FOUND"),
        ("nothing", close(), "STREAM_NOT_FOUND"),
    ] {
        assert_eq!(code(store.post(name, &request)), expected, "{name} {request:?}");
    }
    assert_eq!((store.all("t"), store.all("j")), ("x".to_owned(), "[1]".to_owned()));
    assert!(!store.streams.head(&path("j")).unwrap().is_closed);
    store.put("f", &fork("t", None, 0)).unwrap();
    store.delete("t").unwrap();
    assert_eq!(code(store.post("t", &append(TEXT, "x"))), "STREAM_GONE");
    assert_eq!(code(store.post("t", &append(JSON, "{"))), "STREAM_GONE");
}

/// Point 14.
#[test]
fn closed_comes_before_type_and_type_before_sequence() {
    let store = Store::new(22);
    store.put("a", &create(TEXT, "")).unwrap();
    let sequenced = |sequence, request| Append { sequence: Some(sequence), ..request };
    store.post("a", &sequenced(b"m", append(TEXT, "x"))).unwrap();
    let all_wrong = sequenced(b"a", append(JSON, "1"));
    assert_eq!(code(store.post("a", &all_wrong)), "CONTENT_TYPE_MISMATCH");
    assert_eq!(code(store.post("a", &sequenced(b"a", append(TEXT, "y")))), "SEQUENCE_REGRESSION");
    assert_eq!(code(store.post("a", &append(JSON, "{"))), "CONTENT_TYPE_MISMATCH", "before JSON");
    store.post("a", &close()).unwrap();
    for request in [all_wrong, append(JSON, "{"), append(TEXT, "z")] {
        let problem = store.post("a", &request).unwrap_err();
        assert_eq!(problem, highwater_streams::error::Problem::Closed { tail: Offset(1) });
    }
}

/// Point 14.
#[test]
fn a_duplicate_is_known_before_its_sequence_is_looked_at() {
    let store = Store::new(23);
    store.put("a", &create(TEXT, "")).unwrap();
    let request = Append { sequence: Some(b"m"), ..produced(append(TEXT, "x"), "p", 0, 0) };
    store.post("a", &request).unwrap();
    assert_eq!(store.post("a", &request).unwrap().taken, Taken::Before);
    assert_eq!(store.all("a"), "x");
}

/// Point 15.
#[test]
fn sequences_rise_byte_by_byte_in_one_order_for_the_whole_stream() {
    let store = Store::new(24);
    store.put("a", &create(TEXT, "")).unwrap();
    let post = |sequence: &str| {
        store.post("a", &Append { sequence: Some(sequence.as_bytes()), ..append(TEXT, "x") })
    };
    post("09").unwrap();
    post("10").unwrap();
    for (sequence, is_taken) in [
        ("10", false),
        ("1", false),
        ("2", true),
        ("10", false),
        ("A", true),
        ("a", true),
        ("B", false),
    ] {
        let posted = post(sequence);
        assert_eq!(posted.is_ok(), is_taken, "{sequence}");
    }
    let other = produced(append(TEXT, "x"), "p", 0, 0);
    let behind = Append { sequence: Some(b"B"), ..other.clone() };
    assert_eq!(code(store.post("a", &behind)), "SEQUENCE_REGRESSION", "of any writer");
    let taken = store.post("a", &other).unwrap();
    assert_eq!(taken.taken, Taken::Now, "what was refused has moved no producer");
    let store = store.crash();
    let stale = Append { sequence: Some(b"a"), ..append(TEXT, "x") };
    assert_eq!(code(store.post("a", &stale)), "SEQUENCE_REGRESSION");
}

/// Point 16.
#[test]
fn a_close_looks_at_no_type_and_is_idempotent_while_content_is_refused() {
    let store = Store::new(25);
    store.put("a", &create(TEXT, "x")).unwrap();
    let mistyped = Append { content_type: Some(typed(JSON)), ..close() };
    for _ in 0..2 {
        let closed = store.post("a", &mistyped).unwrap();
        assert!(closed.is_closed);
        assert_eq!(closed.tail, Offset(1));
    }
    assert_eq!(code(store.post("a", &closing(append(TEXT, "y")))), "STREAM_CLOSED");
    let store = store.crash();
    assert!(store.get("a", Place::Start).unwrap().is_closed, "an end is durable");
    assert_eq!(code(store.post("a", &append(TEXT, "y"))), "STREAM_CLOSED");
}

/// Point 16.
#[test]
fn only_the_producer_that_closed_a_stream_may_close_it_again() {
    let store = Store::new(26);
    store.put("a", &create(TEXT, "")).unwrap();
    let closing = |id, sequence, body| produced(closing(append(TEXT, body)), id, 0, sequence);
    let first = store.post("a", &closing("p", 0, "A")).unwrap();
    assert_eq!((first.taken, first.is_closed, first.producer), (Taken::Now, true, Some((0, 0))));
    let store = store.crash();
    let again = store.post("a", &closing("p", 0, "B")).unwrap();
    assert_eq!((again.taken, again.is_closed, again.producer), (Taken::Before, true, Some((0, 0))));
    for (id, sequence) in [("q", 0), ("p", 1)] {
        assert_eq!(code(store.post("a", &closing(id, sequence, "C"))), "STREAM_CLOSED");
    }
    assert_eq!(store.all("a"), "A");
    store.put("b", &create(TEXT, "")).unwrap();
    let only = produced(close(), "p", 0, 0);
    assert_eq!(store.post("b", &only).unwrap().taken, Taken::Now);
    assert_eq!(store.post("b", &only).unwrap().taken, Taken::Before);
}

/// Point 13: what is stored of JSON can be longer than the body; the limit is the log's.
#[test]
fn the_limit_is_on_what_is_stored() {
    let store = Store::new(27);
    store.put("a", &create(JSON, "")).unwrap();
    let numbers = vec!["1"; 3000].join(",");
    let body = format!("[{numbers}]");
    assert!(body.len() < 8 << 10);
    assert_eq!(code(store.post("a", &append(JSON, &body))), "TOO_LARGE");
    let request = Create { ..create(JSON, &body) };
    assert_eq!(code(store.put("b", &request)), "TOO_LARGE");
}

/// Point 4.
#[test]
fn what_waits_for_the_disk_makes_an_append_busy_and_what_is_full_stays_so() {
    let store = Store::with_options(138, LIMITS, |options| options.max_stream_bytes = 300 << 10);
    store.put("a", &create(TEXT, "")).unwrap();
    let body = "x".repeat(8 << 10);
    let request = append(TEXT, &body);
    let staged = highwater_log::request::Append {
        name: "a",
        payload: body.as_bytes(),
        end: End::Open,
        content_type: None,
        producer: None,
        sequence: None,
    };
    let tickets: Vec<_> = std::iter::from_fn(|| store.log.append(&staged).ok()).collect();
    let refused = store.attempt(store.streams.append(&path("a"), &request)).unwrap();
    assert_eq!(code(refused), "BUSY");
    drop(tickets);
    while store.log.step() {}
    store.post("a", &request).expect("it has passed by itself");
    while store.post("a", &request).is_ok() {}
    assert_eq!(code(store.post("a", &request)), "FULL");
}
