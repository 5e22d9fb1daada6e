//! Subscriptions where something cannot be written, or two things happen at once.

use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use highwater_disk::sim::{Fault, OperationKind, PlannedFault, When};
use highwater_streams::error::Problem;
use highwater_streams::subscriptions::{Delivered, Due};
use serde_json::{Value, json};

use crate::subscribing::*;
use crate::support::*;

impl Subs {
    /// One round of whoever drives, on a log that does not commit.
    fn round(&self) -> Vec<Due> {
        if self.subs.has_stale() {
            self.subs.refresh().unwrap();
        }
        let (due, outcome) = first_poll(self.subs.turn()).expect("nothing was staged");
        outcome.unwrap();
        due
    }
}

/// A subscription whose webhook was answered when the log had no room to note it.
fn unwritten(seed: u64, answer: Delivered) -> Subs {
    unwritten_of(seed, answer, &hook())
}

fn unwritten_of(seed: u64, answer: Delivered, hook: &Value) -> Subs {
    let subs = Subs::new(seed);
    subs.put("s", hook).unwrap();
    subs.put_stream("events/a", "[1]");
    let webhook = subs.turn().pop().unwrap();
    subs.fill();
    let failed = first_poll(subs.subs.delivered(&webhook, answer));
    assert_eq!(refusal(failed.expect("there is no room")), "BUSY");
    subs
}

fn with_long_lease() -> Value {
    let mut hook = hook();
    hook["lease_ttl_ms"] = 30_000.into();
    hook
}

/// Nothing is tried again without a pause, neither here nor at a webhook's receiver.
#[test]
fn while_the_log_takes_nothing_webhooks_are_not_sent_again_without_a_pause() {
    let subs = unwritten(317, Delivered::Failed);
    for _ in 0..50 {
        assert!(subs.round().is_empty(), "it is sent again at once");
    }
    assert!(subs.subs.due_ms().is_some_and(|due_ms| due_ms > 0), "it is sent again later");
    assert!(!subs.subs.has_stale());
    // Its lease is over: a wake is to begin, and cannot be written.
    subs.store.clock.advance(Duration::from_secs(5));
    let attempts = (0..50).filter(|_| subs.round().is_empty() && subs.subs.has_stale()).count();
    assert_eq!(attempts, 1, "it is tried again at once");
    // With room it goes on, after a pause.
    subs.store.advance(5);
    assert!(subs.turn().is_empty(), "it has failed");
    subs.store.advance(5);
    let again: Value = serde_json::from_slice(&subs.turn().pop().unwrap().body).unwrap();
    assert_eq!(again["generation"], 2);
}

/// What comes to a stream meanwhile does not end the pause, and is not forgotten.
#[test]
fn an_append_does_not_wake_a_subscription_that_rests_and_is_seen_after_that() {
    let subs = unwritten_of(318, Delivered::Done, &with_long_lease());
    while subs.store.log.step() {}
    subs.put_stream("events/b", "[2]");
    assert!(subs.turn().is_empty(), "it is sent again at once");
    subs.store.advance(1);
    let again: Value = serde_json::from_slice(&subs.turn().pop().unwrap().body).unwrap();
    assert_eq!(again["streams"].as_array().unwrap().len(), 2, "{again}");
}

/// Point 52: nobody waits for the end of its lease.
#[test]
fn a_webhook_whose_outcome_could_not_be_noted_is_sent_again_after_a_pause_as_the_same_wake() {
    for answer in [Delivered::Done, Delivered::Accepted, Delivered::Failed] {
        let subs = unwritten_of(338, answer, &with_long_lease());
        while subs.store.log.step() {}
        assert!(subs.turn().is_empty(), "it is sent again at once");
        subs.store.advance(1);
        let again = subs.turn().pop().expect("it is sent again");
        let body: Value = serde_json::from_slice(&again.body).unwrap();
        assert_eq!(body["generation"], 1);
        assert!(subs.turn().is_empty(), "it is under way");
        subs.run(subs.subs.delivered(&again, Delivered::Done)).unwrap();
        subs.store.advance(60);
        assert!(subs.turn().is_empty(), "it is done");
    }
}

/// A full table stops no subscription that is there.
#[test]
fn a_journal_grows_on_as_long_as_there_is_no_room_for_another_stream() {
    let store = Store::with_options(319, LIMITS, |options| {
        options.max_streams = 4;
        options.unbounded_prefix = Some("__ds/");
    });
    let subs = Subs::over(store, 319);
    subs.put("s", &hook()).unwrap();
    subs.put_stream("events/a", "[]");
    subs.put_stream("other", "[]");
    let work = |numbers: Range<u64>| {
        for number in numbers {
            subs.post_stream("events/a", &number.to_string());
            let webhook = subs.turn().pop().expect("a webhook for each append");
            subs.run(subs.subs.delivered(&webhook, Delivered::Done)).unwrap();
        }
        let names = subs.store.log.list("__ds/subscriptions/", None, 9);
        let bytes = subs.store.log.info(&names[0]).unwrap().tail.0;
        (names, bytes)
    };
    let (names, bytes) = work(0..600);
    assert!(names[0].ends_with("/0000000000000000") && bytes > 70_000, "{names:?}, {bytes}");
    subs.store.delete("other").unwrap();
    let (names, bytes) = work(600..1200);
    assert!(!names[0].ends_with("/0000000000000000") && bytes < 70_000, "{names:?}, {bytes}");
    assert_eq!(names.len(), 1, "{names:?}");
    let before = subs.get("s");
    assert_eq!(subs.crash().get("s"), before);
}

/// What was to be read again is gone: its name may be another one's by now.
#[test]
fn a_subscription_made_anew_is_not_read_again_for_one_that_is_deleted() {
    let subs = unwritten(320, Delivered::Done);
    while subs.store.log.step() {}
    assert!(subs.subs.has_stale());
    subs.run(subs.subs.delete("s")).unwrap();
    assert!(!subs.subs.has_stale());
    assert!(subs.put("s", &hook()).unwrap().1);
    subs.post_stream("events/a", "2");
    assert_eq!(subs.turn().len(), 1);
    assert_eq!(subs.turn().len(), 0, "it is under way");
}

/// A worker is called to a wake once, and to none that is over.
#[test]
fn a_wake_that_is_over_before_its_event_is_written_is_not_announced() {
    let subs = Subs::new(321);
    subs.put_stream("wake/pool", "[]");
    subs.put("p", &pull()).unwrap();
    subs.put_stream("events/a", "[1]");
    {
        let mut context = Context::from_waker(Waker::noop());
        let mut turn = pin!(subs.subs.turn());
        assert!(turn.as_mut().poll(&mut context).is_pending());
        let claimed = subs.run(subs.subs.claim("p", br#"{"worker":"one"}"#)).unwrap();
        let report = json!({ "wake_id": claimed["wake_id"], "generation": 1 }).to_string();
        let token = claimed["token"].as_str();
        subs.run(subs.subs.release("p", token, report.as_bytes())).unwrap();
        let Poll::Ready(done) = turn.as_mut().poll(&mut context) else {
            panic!("it announces the next wake");
        };
        done.1.unwrap();
    }
    subs.turn();
    let generations: Vec<Value> =
        subs.messages("wake/pool").iter().map(|event| event["generation"].clone()).collect();
    assert_eq!(generations, [2]);
}

/// Each lane fails by itself: before it is written to here, and while that is waited for.
#[test]
fn a_lane_that_has_failed_stops_no_webhook_of_a_subscription_in_another_one() {
    for has_failed_before in [true, false] {
        let subs = Subs::over(Store::with(341, LIMITS, 2), 341);
        // Names tell lanes: of these `p1` and `f1` are in the first one.
        subs.put("p1", &pull()).unwrap();
        subs.put("w0", &hook()).unwrap();
        subs.put("w2", &hook()).unwrap();
        subs.put_stream("f1", "[]");
        subs.put_stream("events/a", "[1]");
        for kind in [OperationKind::SyncData, OperationKind::WriteDurableAt] {
            let (path_prefix, when) = ("wal/0".to_owned(), When::OneIn(1));
            subs.store.disk.plan(PlannedFault { kind, path_prefix, when, fault: Fault::Eio });
        }
        if has_failed_before {
            assert!(!subs.try_post("f1", "1"));
        }
        let (due, outcome) = subs.run(subs.subs.turn());
        assert!(matches!(outcome, Err(Problem::Failed(_))), "{outcome:?}");
        let ids: Vec<&str> = due.iter().map(|due| &*due.id).collect();
        assert_eq!(ids, ["w0", "w2"], "{has_failed_before}");
        for due in &due {
            let webhook = subs.run(subs.subs.begin(due)).unwrap().expect("it is sent");
            subs.run(subs.subs.delivered(&webhook, Delivered::Done)).unwrap();
        }
        // What was rung for is heard, and nothing is tried meanwhile.
        for _ in 0..3 {
            let (due, outcome) = subs.run(subs.subs.turn());
            assert!(due.is_empty() && outcome.is_ok(), "{outcome:?}");
        }
        assert!(subs.subs.due_ms().is_some_and(|due_ms| due_ms > 0), "others after a pause");
    }
}

/// Points 52 and 53: a machine whose clock was a year ahead when leases and pauses began.
#[test]
fn a_clock_that_is_set_back_keeps_no_webhook_and_no_worker_waiting_also_over_a_crash() {
    for has_crashed in [false, true] {
        let mut subs = Subs::new(14);
        let at = |subs: &Subs, second| subs.store.clock.set_wall(Duration::from_secs(second));
        at(&subs, 1_800_000_000);
        subs.put("failing", &hook()).unwrap();
        subs.put("pulled", &pull()).unwrap();
        subs.put_stream("wake/pool", "[]");
        subs.put_stream("events/a", "[1]");
        let sent = subs.turn();
        assert_eq!(sent.len(), 1);
        subs.run(subs.subs.delivered(&sent[0], Delivered::Failed)).unwrap();
        let claim = |subs: &Subs, worker: &str| {
            let body = json!({ "worker": worker }).to_string();
            subs.run(subs.subs.claim("pulled", body.as_bytes())).map(drop)
        };
        claim(&subs, "one").unwrap();
        assert!(subs.turn().is_empty(), "it is to be tried again, later");
        at(&subs, 1_768_000_000);
        if has_crashed {
            subs = subs.crash();
        }
        assert_eq!(subs.turn().len(), 1, "{has_crashed}");
        assert_eq!(claim(&subs, "other"), Ok(()), "{has_crashed}");
        assert_eq!(refusal(claim(&subs, "one")), "ALREADY_CLAIMED");
    }
}

#[test]
fn a_clock_that_is_set_back_keeps_no_other_key_from_being_made() {
    let subs = Subs::new(15);
    let at = |second| subs.store.clock.set_wall(Duration::from_secs(second));
    let rotate = || subs.run(subs.subs.rotate_keys(b"")).unwrap();
    at(1_800_000_000);
    let (first, is_new) = rotate();
    assert!(is_new && !rotate().1);
    at(1_768_000_000);
    let (second, is_new) = rotate();
    assert!(is_new && first["kid"] != second["kid"] && !rotate().1, "{second}");
    at(1_768_000_600);
    subs.put("s", &hook()).unwrap();
    subs.put_stream("events/a", "[1]");
    let webhook = subs.turn().pop().unwrap();
    subs.verify(&webhook);
    let signature = &webhook.headers.iter().find(|(name, _)| *name == "webhook-signature");
    assert!(signature.unwrap().1.contains(second["kid"].as_str().unwrap()), "{signature:?}");
}
