//! What happens to a subscription while it is being read again: its lock is not held then, and what
//! is read may be nobody's by the time that it has been read. The disk is where it happens: reading
//! stops there until it is done, in one thread, so that each order comes every time.

use std::sync::Arc;

use highwater_streams::subscriptions::Delivered;
use serde_json::{Value, json};

use crate::hooked::Meanwhile;
use crate::subscribing::*;
use crate::support::*;

const MISSING: &str = "SUBSCRIPTION_NOT_FOUND";

/// A subscription that has to be read again, from the home, and what can be set to happen then.
fn stale(seed: u64) -> (Arc<Subs>, Meanwhile) {
    let (store, meanwhile) = Store::with_meanwhile(seed);
    let subs = Arc::new(Subs::over(store, seed));
    subs.put("s", &hook()).unwrap();
    subs.put_stream("events/a", "[1]");
    let webhook = subs.turn().pop().unwrap();
    subs.store.log.checkpoint().unwrap();
    subs.fill();
    let failed = first_poll(subs.subs.delivered(&webhook, Delivered::Done));
    assert_eq!(refusal(failed.expect("there is no room")), "BUSY");
    while subs.store.log.step() {}
    subs.store.log.checkpoint().unwrap();
    assert!(subs.subs.has_stale());
    (subs, meanwhile)
}

/// Reads it again while something happens.
fn refresh_while(
    subs: &Arc<Subs>,
    meanwhile: &Meanwhile,
    deed: impl FnOnce(&Subs) + Send + 'static,
) {
    let inside = Arc::clone(subs);
    meanwhile.set(move || deed(&inside));
    subs.subs.refresh().unwrap();
    assert!(meanwhile.is_done(), "it is read from the home");
}

/// Lets a lease end, and the pause after that.
fn let_the_lease_end(subs: &Subs) {
    subs.store.advance(2);
    assert!(subs.turn().is_empty(), "a receiver that hangs is not called at once");
    subs.store.advance(2);
}

fn body_of(subs: &Subs) -> Value {
    serde_json::from_slice(&subs.turn().pop().expect("a webhook").body).unwrap()
}

#[test]
fn what_is_read_again_undisturbed_is_as_it_was_kept() {
    let (subs, meanwhile) = stale(330);
    refresh_while(&subs, &meanwhile, |_| ());
    assert!(!subs.subs.has_stale());
    let_the_lease_end(&subs);
    assert_eq!(body_of(&subs)["streams"][0]["path"], "events/a", "nobody noted that it was done");
}

#[test]
fn a_subscription_that_is_deleted_while_it_is_read_again_stays_deleted() {
    let (subs, meanwhile) = stale(331);
    refresh_while(&subs, &meanwhile, |subs| subs.run(subs.subs.delete("s")).unwrap());
    let gone = |subs: &Subs| refusal(subs.run(subs.subs.delete("s"))) == MISSING;
    assert!(gone(&subs) && !subs.subs.has_stale());
    subs.post_stream("events/a", "2");
    // What filled the log is looked for, for a while.
    for _ in 0..15 {
        assert!(subs.turn().is_empty());
        subs.store.advance(60);
    }
    assert_eq!(subs.subs.due_ms(), None, "nothing is left to do for it");
    let names = subs.store.log.list("__ds/subscriptions/", None, 9);
    assert!(names.is_empty(), "{names:?}");
    assert!(gone(&subs.crash_copy()));
}

#[test]
fn one_of_its_name_that_is_made_while_it_is_read_again_is_not_touched_by_what_is_read() {
    let (subs, meanwhile) = stale(332);
    let other = json!({ "type": "webhook", "pattern": "others/*", "lease_ttl_ms": 5000,
        "webhook": { "url": "https://worker.example/other" } });
    let config = other.clone();
    refresh_while(&subs, &meanwhile, move |subs| {
        subs.run(subs.subs.delete("s")).unwrap();
        assert!(subs.put("s", &config).unwrap().1, "it is a new one");
    });
    assert!(!subs.subs.has_stale());
    assert_eq!(subs.get("s")["pattern"], "others/*");
    assert!(!subs.put("s", &other).unwrap().1, "the same again is no change");
    subs.post_stream("events/a", "2");
    assert!(subs.turn().is_empty(), "it follows nothing of the old one");
    subs.put_stream("others/b", "[1]");
    let webhook = subs.turn().pop().expect("a webhook");
    let body: Value = serde_json::from_slice(&webhook.body).unwrap();
    assert_eq!((&body["generation"], &body["streams"][0]["path"]), (&json!(1), &json!("others/b")));
    subs.run(subs.subs.delivered(&webhook, Delivered::Done)).unwrap();
    let before = subs.get("s");
    assert_eq!(subs.crash_copy().get("s"), before);
}

/// When the new one is to do something is its own matter: nobody else would have it do that.
#[test]
fn one_that_is_made_while_it_is_read_again_wakes_at_once_whatever_the_old_one_waits_for() {
    let (subs, meanwhile) = stale(337);
    let elsewhere = json!({ "type": "pull-wake", "pattern": "elsewhere", "wake_stream": "w" });
    subs.put("other", &elsewhere).unwrap();
    refresh_while(&subs, &meanwhile, |subs| {
        subs.run(subs.subs.delete("s")).unwrap();
        subs.put("s", &hook()).unwrap();
        subs.post_stream("events/a", "2");
        // A look at what has come, and no more: whoever drives is reading.
        let claimed = subs.run(subs.subs.claim("other", br#"{"worker":"one"}"#));
        assert_eq!(refusal(claimed), "NOTHING_PENDING");
    });
    assert_eq!(body_of(&subs)["generation"], 1);
}

#[test]
fn a_deletion_that_is_under_way_while_it_is_read_again_goes_through() {
    let (subs, meanwhile) = stale(333);
    refresh_while(&subs, &meanwhile, |subs| {
        // Whoever asked for it goes away; it is staged.
        assert!(first_poll(subs.subs.delete("s")).is_none());
    });
    while subs.store.log.step() {}
    let names = subs.store.log.list("__ds/subscriptions/", None, 9);
    assert!(names.is_empty(), "{names:?}");
    assert!(subs.turn().is_empty(), "what is deleted wakes nobody");
}

#[test]
fn a_stream_that_is_made_and_looked_at_while_it_is_read_again_wakes_it() {
    let (subs, meanwhile) = stale(334);
    refresh_while(&subs, &meanwhile, |subs| {
        subs.put_stream("events/b", "[2]");
        assert!(subs.turn_once().is_empty(), "it is busy");
    });
    assert!(!subs.subs.has_stale());
    let_the_lease_end(&subs);
    let body = body_of(&subs);
    assert_eq!(body["streams"].as_array().unwrap().len(), 2, "{body}");
}

#[test]
fn a_stream_that_is_deleted_while_it_is_read_again_is_pending_no_more() {
    let (subs, meanwhile) = stale(335);
    subs.put_stream("events/b", "[2]");
    refresh_while(&subs, &meanwhile, |subs| {
        subs.store.delete("events/a").unwrap();
        subs.turn_once();
    });
    let_the_lease_end(&subs);
    let body = body_of(&subs);
    assert_eq!(body["streams"].as_array().unwrap().len(), 1, "{body}");
    assert_eq!(body["streams"][0]["path"], "events/b");
}

/// Two who drive at once, which no server has: neither reads what the other has taken.
#[test]
fn two_who_read_again_at_once_come_to_the_same() {
    let (subs, meanwhile) = stale(336);
    refresh_while(&subs, &meanwhile, |subs| {
        subs.subs.refresh().unwrap();
        let changed = subs.run(subs.subs.add_streams("s", &named_in(br#"{"streams":["x"]}"#)));
        assert_eq!(refusal(changed), "BUSY", "nothing is as it is kept yet");
    });
    assert!(!subs.subs.has_stale());
    let_the_lease_end(&subs);
    assert_eq!(body_of(&subs)["generation"], 2);
}
