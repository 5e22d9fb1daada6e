use std::sync::Arc;
use std::time::Duration;

use highwater_log::request::{CreateOutcome, End};
use highwater_streams::error::Problem;
use highwater_streams::fields::Lifetime;
use highwater_streams::live::Next;
use highwater_streams::offset::Place;
use highwater_streams::service::Create;

use crate::following::{Woken, event, follow, wait};
use crate::support::*;

const TTL: u64 = 100;

/// Whether a stream lives on through a use shortly before its end.
fn outlives(seed: u64, prepare: impl Fn(&Store), used: impl Fn(&Store)) -> bool {
    let store = Store::new(seed);
    store.put("a", &Create { lifetime: ttl(TTL), ..create(TEXT, "x") }).unwrap();
    prepare(&store);
    store.advance(TTL - 10);
    used(&store);
    while store.log.step() {}
    store.advance(TTL - 10);
    store.streams.head(&path("a")).is_ok()
}

/// Point 17.
#[test]
fn every_use_begins_a_sliding_life_anew_and_head_is_none() {
    let none = |_: &Store| {};
    assert!(!outlives(100, none, none));
    let head = |store: &Store| drop(store.streams.head(&path("a")));
    assert!(!outlives(101, none, head));
    assert!(outlives(102, none, |store| {
        store.post("a", &append(TEXT, "y")).unwrap();
    }));
    assert!(outlives(103, none, |store| {
        store.post("a", &close()).unwrap();
    }));
    let producer_close = |store: &Store| {
        store.post("a", &produced(close(), "p", 0, 0)).unwrap();
    };
    assert!(outlives(104, none, producer_close));
    assert!(outlives(105, producer_close, producer_close), "again");
    assert!(outlives(
        106,
        |store| drop(store.post("a", &close())),
        |store| {
            store.post("a", &close()).unwrap();
        }
    ));
    let produce = |store: &Store| {
        store.post("a", &produced(append(TEXT, "y"), "p", 0, 0)).unwrap();
    };
    assert!(outlives(107, produce, produce), "a duplicate");
    for place in [Place::Start, Place::Now] {
        assert!(outlives(108, none, |store| drop(store.get("a", place).unwrap())));
        assert!(outlives(109, none, |store| drop(follow(store, "a", place))));
    }
    for spelling in [TEXT, "Text/Plain"] {
        let again = Create { lifetime: ttl(TTL), ..create(spelling, "x") };
        assert!(outlives(113, none, |store| {
            assert_eq!(store.put("a", &again).unwrap().outcome, CreateOutcome::Existing);
        }));
    }
    let refused = |store: &Store| {
        assert_eq!(code(store.post("a", &append(JSON, "1"))), "CONTENT_TYPE_MISMATCH");
    };
    assert!(!outlives(114, none, refused), "what is refused is no use");
    let forked = |store: &Store| drop(store.put("f", &fork("a", None, 0)).unwrap());
    assert!(!outlives(115, none, forked), "the fork has a life of its own");
}

/// Point 17: somebody waits for what comes.
#[test]
fn a_sliding_life_goes_on_as_long_as_the_stream_is_followed_and_no_longer() {
    let store = Store::new(116);
    store.put("a", &Create { lifetime: ttl(TTL), ..create(TEXT, "x") }).unwrap();
    store.put("b", &Create { lifetime: ttl(TTL), ..create(TEXT, "x") }).unwrap();
    let fixed = Create { lifetime: until("2023-11-14T22:15:20Z"), ..create(TEXT, "x") };
    store.put("c", &fixed).unwrap();
    let wait_for = |seconds: u64| {
        for _ in 0..seconds {
            store.advance(1);
            store.streams.keep_followed();
        }
    };
    let followers = ["a", "c"].map(|name| follow(&store, name, Place::Now));
    wait_for(5 * TTL);
    assert!(store.streams.head(&path("a")).is_ok());
    assert_eq!(code(store.streams.head(&path("b"))), "STREAM_NOT_FOUND", "nobody followed it");
    assert_eq!(code(store.streams.head(&path("c"))), "STREAM_NOT_FOUND", "a fixed end");
    drop(followers);
    wait_for(TTL / 4);
    assert!(store.streams.head(&path("a")).is_ok());
    wait_for(TTL);
    assert_eq!(code(store.streams.head(&path("a"))), "STREAM_NOT_FOUND");
}

/// Points 17 and 30: whoever waits does not wait for a stream that has ended, however long the log
/// takes to note its end.
#[test]
fn a_fixed_end_ends_whoever_waits_for_what_comes() {
    let store = Store::new(119);
    let fixed = Create { lifetime: until("2023-11-14T22:15:20Z"), ..create(TEXT, "x") };
    store.put("a", &fixed).unwrap();
    store.put("f", &Create { lifetime: ttl(10 * TTL), ..fork("a", None, 0) }).unwrap();
    store.put("b", &fixed).unwrap();
    let woken: Vec<Arc<Woken>> = (0..3).map(|_| Arc::default()).collect();
    let mut followers = ["a", "b", "b"].map(|name| follow(&store, name, Place::Start));
    for follower in &mut followers[..2] {
        event(follower);
        assert_eq!(follower.try_next().unwrap(), Next::Wait);
    }
    assert!(followers[2].try_chunk().unwrap().is_some());
    assert_eq!(followers[2].try_chunk().unwrap(), None);
    for (follower, woken) in followers.iter_mut().zip(&woken) {
        assert!(!wait(follower, woken));
    }
    store.streams.keep_followed();
    assert!(!woken.iter().any(|woken| woken.take()), "its time is not over");
    store.clock.advance(Duration::from_secs(10 * TTL));
    store.streams.keep_followed();
    assert!(woken[0].take() && woken[1].take());
    assert_eq!(followers[0].try_next().unwrap(), Next::End, "a fork keeps it, but not for them");
    assert_eq!(followers[1].try_next().unwrap(), Next::End);
    assert!(woken[2].take());
    assert_eq!(followers[2].try_chunk(), Err(Problem::NotFound));
    drop(followers);
    assert_eq!(store.streams.followed(), 0);
}

/// Point 17: a log that takes nothing just when the life is half over is asked again.
#[test]
fn a_stream_that_is_followed_outlives_a_moment_in_which_the_log_is_full() {
    let store = Store::new(118);
    store.put("a", &Create { lifetime: ttl(TTL), ..create(TEXT, "x") }).unwrap();
    store.put("b", &create(TEXT, "")).unwrap();
    let _follower = follow(&store, "a", Place::Now);
    store.advance(TTL / 2 + 1);
    let body = "x".repeat(100);
    let staged = highwater_log::request::Append {
        name: "b",
        payload: body.as_bytes(),
        end: End::Open,
        content_type: None,
        producer: None,
        sequence: None,
    };
    let mut left = body.len();
    let mut tickets = Vec::new();
    while left > 0 {
        let payload = &body.as_bytes()[..left];
        match store.log.append(&highwater_log::request::Append { payload, ..staged }) {
            Ok(ticket) => tickets.push(ticket),
            Err(_) => left /= 2,
        }
    }
    store.streams.keep_followed();
    drop(tickets);
    for _ in 0..2 * TTL {
        store.advance(1);
        store.streams.keep_followed();
    }
    assert!(store.streams.head(&path("a")).is_ok());
}

/// Point 17: of a crash a stream that is followed is told at most half of its life too late.
#[test]
fn a_stream_that_is_followed_outlives_a_crash() {
    let store = Store::new(117);
    store.put("a", &Create { lifetime: ttl(TTL), ..create(TEXT, "x") }).unwrap();
    let follower = follow(&store, "a", Place::Now);
    for _ in 0..3 * TTL {
        store.advance(1);
        store.streams.keep_followed();
    }
    while store.log.step() {}
    drop(follower);
    let store = store.crash();
    store.advance(TTL / 3);
    assert!(store.streams.head(&path("a")).is_ok());
}

/// Point 17.
#[test]
fn a_fixed_end_never_moves() {
    let store = Store::new(110);
    // The simulated clock begins 2023-11-14T22:13:20Z.
    let request = Create { lifetime: until("2023-11-14T22:14:20Z"), ..create(TEXT, "x") };
    store.put("a", &request).unwrap();
    store.advance(50);
    store.post("a", &append(TEXT, "y")).unwrap();
    store.get("a", Place::Start).unwrap();
    store.advance(11);
    assert_eq!(code(store.get("a", Place::Start)), "STREAM_NOT_FOUND");
    assert_eq!(code(store.post("a", &append(TEXT, "y"))), "STREAM_NOT_FOUND");
    let store = store.crash();
    assert_eq!(code(store.streams.head(&path("a"))), "STREAM_NOT_FOUND");
}

/// Point 29: otherwise caches give what has ended, and keep readers from using what is read.
#[test]
fn what_is_read_may_be_kept_no_longer_than_the_stream_lives() {
    let store = Store::new(118);
    // The simulated clock begins 2023-11-14T22:13:20Z.
    let fixed = until("2023-11-14T22:14:20Z");
    for (name, lifetime) in [("a", Lifetime::Unsaid), ("b", ttl(TTL)), ("c", fixed)] {
        store.put(name, &Create { lifetime, ..create(TEXT, "x") }).unwrap();
    }
    store.advance(20);
    let kept = |name: &str| store.get(name, Place::Start).unwrap().kept_for;
    assert_eq!(kept("a"), None);
    assert_eq!(kept("b"), Some(Duration::from_secs(TTL / 2)), "this read began its life anew");
    assert_eq!(kept("c"), Some(Duration::from_secs(40)));
}

/// Point 11.
#[test]
fn an_expired_stream_can_be_made_anew_in_any_shape() {
    let store = Store::new(111);
    store.put("a", &Create { lifetime: ttl(5), ..create(TEXT, "old") }).unwrap();
    store.put("b", &Create { lifetime: ttl(0), ..create(TEXT, "old") }).unwrap();
    assert_eq!(code(store.get("b", Place::Start)), "STREAM_NOT_FOUND", "a life of 0 s");
    store.clock.advance(Duration::from_secs(6));
    assert_eq!(code(store.get("a", Place::Start)), "STREAM_NOT_FOUND");
    store.put("a", &create(JSON, "[1]")).unwrap();
    assert_eq!(store.all("a"), "[1]");
    store.advance(60);
    assert_eq!(store.all("a"), "[1]", "the old life does not end the new stream");
}

/// Point 17: a use survives a crash, as coarsely as the log keeps it.
#[test]
fn a_life_goes_on_over_a_restart() {
    let store = Store::new(112);
    store.put("a", &Create { lifetime: ttl(TTL), ..create(TEXT, "x") }).unwrap();
    store.advance(60);
    store.get("a", Place::Start).unwrap();
    while store.log.step() {}
    let store = store.crash();
    store.advance(60);
    assert!(store.streams.head(&path("a")).is_ok());
    store.advance(60);
    assert_eq!(code(store.streams.head(&path("a"))), "STREAM_NOT_FOUND");
}
