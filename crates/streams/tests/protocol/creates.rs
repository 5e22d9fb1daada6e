use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use highwater_log::ids::Offset;
use highwater_log::options::Durability;
use highwater_log::request::{CreateOutcome, End};
use highwater_streams::fields::Lifetime;
use highwater_streams::offset::Place;
use highwater_streams::service::{Append, Create};

use crate::subscribing::first_poll;
use crate::support::*;

/// Point 6.
#[test]
fn a_create_answers_with_type_tail_and_end() {
    let store = Store::new(1);
    let made = store.put("a", &create(TEXT, "first")).unwrap();
    assert_eq!(made.outcome, CreateOutcome::New);
    assert_eq!((made.content_type.as_given(), made.tail), (TEXT, Offset(5)));
    assert!(!made.is_closed);
    let made = store.put("b", &closed(create(TEXT, "all"))).unwrap();
    assert!(made.is_closed);
    assert!(store.get("b", Place::Start).unwrap().is_closed);
}

/// Point 7.
#[test]
fn the_same_again_is_no_change_and_anything_else_is_refused() {
    let store = Store::new(2);
    let with_ttl = |seconds| Create { lifetime: ttl(seconds), ..create(TEXT, "x") };
    store.put("a", &with_ttl(60)).unwrap();
    let again = store.put("a", &with_ttl(60)).unwrap();
    assert_eq!((again.outcome, again.tail), (CreateOutcome::Existing, Offset(1)));
    for other in [
        create(TEXT, "x"),
        with_ttl(61),
        closed(with_ttl(60)),
        Create { content_type: Some(typed(JSON)), body: b"1", ..with_ttl(60) },
        Create { lifetime: until("2090-01-01T00:00:00Z"), ..create(TEXT, "x") },
        Create { lifetime: ttl(60), ..fork("a", None, 0) },
    ] {
        assert_eq!(code(store.put("a", &other)), "STREAM_EXISTS", "{other:?}");
    }
    assert_eq!(store.all("a"), "x", "nothing was added");
    store.post("a", &close()).unwrap();
    assert_eq!(code(store.put("a", &with_ttl(60))), "STREAM_EXISTS", "closed later");
    let again = store.put("a", &closed(with_ttl(60))).unwrap();
    assert!(again.outcome == CreateOutcome::Existing && again.is_closed);
}

/// Points 3 and 7.
#[test]
fn spellings_of_one_configuration_are_the_same_and_the_first_one_comes_back() {
    let store = Store::new(3);
    let spelled = |content_type: &str, text: &str| Create {
        lifetime: until(text),
        ..create(content_type, "")
    };
    store.put("a", &spelled("Text/Plain; charset=utf-8", "2090-01-01T00:00:00Z")).unwrap();
    let again = store.put("a", &spelled("text/plain", "2090-01-01T01:00:00+01:00")).unwrap();
    assert_eq!(again.outcome, CreateOutcome::Existing);
    assert_eq!(again.content_type.as_given(), "Text/Plain; charset=utf-8");
    store.post("a", &append("TEXT/plain;charset=latin1", "x")).unwrap();
    let head = store.streams.head(&path("a")).unwrap();
    assert_eq!(head.content_type.as_given(), "Text/Plain; charset=utf-8");
    assert_eq!(head.lifetime, until("2090-01-01T00:00:00Z"), "as it was given");
    let store = store.crash();
    assert_eq!(store.streams.head(&path("a")).unwrap().lifetime, until("2090-01-01T00:00:00Z"));
}

/// Point 7.
#[test]
fn two_that_make_a_stream_at_once_in_different_spelling_agree() {
    let store = Store::new(4);
    let (one, other) = (create("text/plain", "x"), create("TEXT/PLAIN", "x"));
    let (path, other_path) = (path("a"), path("a"));
    let (first, second) = store.run(async {
        let mut first = Box::pin(store.streams.create(&path, &one));
        let mut second = Box::pin(store.streams.create(&other_path, &other));
        let mut early = None;
        let second = std::future::poll_fn(|context| {
            if early.is_none()
                && let std::task::Poll::Ready(made) = first.as_mut().poll(context)
            {
                early = Some(made);
            }
            second.as_mut().poll(context)
        })
        .await;
        let first = match early {
            Some(made) => made,
            None => first.await,
        };
        (first.unwrap(), second.unwrap())
    });
    assert_eq!((first.outcome, second.outcome), (CreateOutcome::New, CreateOutcome::Existing));
    assert_eq!(second.content_type.as_given(), "text/plain");
}

/// Point 8.
#[test]
fn without_a_type_a_stream_holds_bytes_and_an_empty_array_is_no_content() {
    let store = Store::new(5);
    let untyped = Create { content_type: None, ..create(TEXT, "\u{1}\u{2}") };
    let made = store.put("a", &untyped).unwrap();
    assert_eq!(made.content_type.as_given(), BYTES);
    for (name, body) in [("b", "[]"), ("c", ""), ("d", " [ ] ")] {
        let made = store.put(name, &create(JSON, body)).unwrap();
        assert_eq!(made.tail, Offset(0), "{body:?}");
        assert_eq!(store.all(name), "[]");
    }
    assert_eq!(code(store.put("e", &create(JSON, "{"))), "INVALID_JSON");
    assert_eq!(code(store.get("e", Place::Start)), "STREAM_NOT_FOUND");
}

/// Points 8 and 10: with the power cut at any moment, there is all of it or nothing.
#[test]
fn a_create_with_content_and_end_is_one_atomic_step() {
    for nth in 0..200 {
        let store = Store::new(6 + nth);
        store.disk.crash_after_operations(nth);
        let mut future = Box::pin(async {
            let request = closed(create(TEXT, "whole"));
            store.streams.create(&path("a"), &request).await
        });
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut acked = false;
        for _ in 0..3 {
            if let std::task::Poll::Ready(made) = future.as_mut().poll(&mut context) {
                acked = made.is_ok();
                break;
            }
            store.log.step();
        }
        drop(future);
        let is_over = !store.disk.is_crashed();
        let store = store.crash();
        match store.get("a", Place::Start) {
            Ok(chunk) => assert!(text_of(&chunk) == "whole" && chunk.is_closed),
            Err(_) => assert!(!acked, "acknowledged, and gone: seed {}", 6 + nth),
        }
        if is_over {
            assert!(acked, "nothing stood in its way");
            return;
        }
    }
    panic!("no run went through");
}

/// Point 10.
#[test]
fn a_stream_that_is_made_closed_takes_nothing() {
    let store = Store::new(7);
    store.put("a", &closed(create(TEXT, ""))).unwrap();
    assert_eq!(code(store.post("a", &append(TEXT, "x"))), "STREAM_CLOSED");
}

/// Point 11.
#[test]
fn a_deleted_stream_can_be_made_anew_in_any_shape_and_shows_no_old_byte() {
    let store = Store::new(8);
    store.put("a", &create(TEXT, "old")).unwrap();
    let old = store.get("a", Place::Start).unwrap().etag.unwrap();
    store.post("a", &produced(append(TEXT, "er"), "p", 3, 0)).unwrap();
    store.post("a", &Append { sequence: Some(b"z"), ..append(TEXT, "!") }).unwrap();
    store.delete("a").unwrap();
    assert_eq!(code(store.get("a", Place::Start)), "STREAM_NOT_FOUND");
    let made = store.put("a", &closed(create(JSON, "[1]"))).unwrap();
    assert_eq!(made.outcome, CreateOutcome::New);
    assert_eq!(store.all("a"), "[1]");
    let new = store.get("a", Place::Start).unwrap().etag.unwrap();
    assert!(!new.is_named_by(&old.to_string()));
    store.delete("a").unwrap();
    store.put("a", &create(TEXT, "")).unwrap();
    store.post("a", &produced(append(TEXT, "x"), "p", 0, 0)).unwrap();
    store.post("a", &Append { sequence: Some(b"a"), ..append(TEXT, "y") }).unwrap();
    let store = store.crash();
    assert_eq!(store.all("a"), "xy");
}

/// Point 24.
#[test]
fn deleting_is_durable_and_deleting_again_finds_nothing() {
    let store = Store::new(9);
    store.put("a", &create(TEXT, "x")).unwrap();
    store.delete("a").unwrap();
    let store = store.crash();
    assert_eq!(code(store.delete("a")), "STREAM_NOT_FOUND");
    assert_eq!(code(store.post("a", &append(TEXT, "x"))), "STREAM_NOT_FOUND");
    assert_eq!(code(store.streams.head(&path("a"))), "STREAM_NOT_FOUND");
}

/// Point 24.
#[test]
fn head_tells_type_tail_lifetime_and_end() {
    let store = Store::new(10);
    let request = Create { lifetime: ttl(90), ..create("text/html; charset=utf-8", "<p>") };
    store.put("a", &request).unwrap();
    let head = store.streams.head(&path("a")).unwrap();
    assert_eq!(head.content_type.as_given(), "text/html; charset=utf-8");
    assert_eq!((head.tail, head.lifetime, head.is_closed), (Offset(3), ttl(90), false));
    store.post("a", &close()).unwrap();
    assert!(store.streams.head(&path("a")).unwrap().is_closed);
    store.put("b", &create(TEXT, "")).unwrap();
    assert_eq!(store.streams.head(&path("b")).unwrap().lifetime, Lifetime::Unsaid);
    let end = Create { end: End::Close, ..create(TEXT, "") };
    store.put("c", &end).unwrap();
    assert!(store.streams.head(&path("c")).unwrap().is_closed);
}

/// Whoever waits for another's stream sleeps, also where that was acknowledged long before it is
/// committed.
#[test]
fn a_create_that_meets_another_which_nobody_sees_yet_waits_for_it_without_spinning() {
    let store = Store::with_options(411, LIMITS, |options| {
        options.durability = Durability::Relaxed { within: Duration::from_secs(10) };
    });
    store.put("source", &create(TEXT, "abc")).unwrap();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let (name, request) = (path("name"), fork("source", None, 0));
    let mut forked = pin!(store.streams.create(&name, &request));
    assert!(forked.as_mut().poll(&mut context).is_pending());
    while store.log.step() {}
    // Before it goes on, somebody else makes another stream of this name.
    let plain = create(TEXT, "x");
    assert!(first_poll(store.streams.create(&name, &plain)).is_some(), "it is acknowledged early");
    assert!(woken.0.swap(false, Ordering::SeqCst));
    assert!(forked.as_mut().poll(&mut context).is_pending());
    assert!(!woken.0.load(Ordering::SeqCst), "it spins");
    let outcome = store.run(forked);
    assert_eq!(code(outcome), "STREAM_EXISTS");
}

/// The same where nothing is acknowledged before it is durable, plain and forked.
#[test]
fn a_create_that_meets_one_under_way_sleeps_until_that_is_committed() {
    let store = Store::new(412);
    store.put("source", &create(TEXT, "abc")).unwrap();
    for (name, other) in [("plain", create(JSON, "[1]")), ("forked", fork("source", None, 0))] {
        let (name, first) = (path(name), create(TEXT, "x"));
        let mut made = pin!(store.streams.create(&name, &first));
        let mut met = pin!(store.streams.create(&name, &other));
        let mut poll = Polled::default();
        assert!(poll.once(made.as_mut()).is_none());
        assert!(poll.once(met.as_mut()).is_none());
        assert!(!poll.is_woken(), "it spins");
        store.log.step();
        assert!(poll.is_woken(), "nobody wakes it");
        assert_eq!(code(poll.once(met).expect("the other one is there")), "STREAM_EXISTS");
        assert!(poll.once(made).expect("it is durable").is_ok());
    }
}

/// I10.
#[test]
fn a_create_that_meets_one_under_way_fails_with_it_when_the_disk_does() {
    let store = Store::new(413);
    let (name, first, other) = (path("a"), create(TEXT, "x"), create(JSON, "[1]"));
    let mut made = pin!(store.streams.create(&name, &first));
    let mut poll = Polled::default();
    assert!(poll.once(made.as_mut()).is_none());
    store.disk.crash_after_operations(0);
    while store.log.step() {}
    let late = store.attempt(store.streams.create(&name, &other)).expect("it waits for ever");
    assert_eq!(code(late), code(poll.once(made).expect("it is told")));
}

/// Whether somebody was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls, and knows whether whatever was polled was woken.
#[derive(Default)]
struct Polled(Arc<Woken>);

impl Polled {
    fn once<F: Future>(&mut self, future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        self.0.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.0));
        match future.poll(&mut Context::from_waker(&waker)) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }

    fn is_woken(&self) -> bool {
        self.0.0.load(Ordering::SeqCst)
    }
}
