//! Claims about what a subscription is made of.

use super::*;
use crate::subscriptions::config::Delivery;

pub fn subscription(delivery: Delivery) -> Subscription {
    let config = Config {
        delivery,
        pattern: Some("events/*".to_owned()),
        streams: Vec::new(),
        lease_ttl_ms: 1000,
        description: None,
    };
    let created = Event::Created {
        id: "s".to_owned(),
        incarnation: 7,
        created_ms: 1,
        root: "http://here/v1/stream".to_owned(),
        config,
    };
    Subscription::replay(&[created, Event::Complete]).unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "it is given to what takes an option")]
pub fn seen(stream: u64, tail: u64) -> Option<Seen> {
    Some(Seen { stream: StreamId(stream), own_start: Offset(0), tail: Offset(tail) })
}

fn webhook() -> Subscription {
    subscription(Delivery::Webhook { url: "https://worker.example/".to_owned() })
}

/// Point 49.
#[test]
fn a_stream_that_comes_later_is_followed_from_its_own_start() {
    let mut subscription = webhook();
    subscription.observe("events/a", seen(1, 5), Room::Free);
    let fork = Seen { stream: StreamId(2), own_start: Offset(9), tail: Offset(9) };
    subscription.observe("events/f", Some(fork), Room::Free);
    assert_eq!(subscription.links["events/a"].acked, Offset(0));
    assert_eq!(subscription.pending.iter().map(|path| &**path).collect::<Vec<_>>(), ["events/a"]);
    subscription.observe("events/f", Some(Seen { tail: Offset(12), ..fork }), Room::Free);
    assert!(subscription.pending.contains("events/f"));
}

/// Point 49.
#[test]
fn a_stream_that_is_made_anew_is_followed_anew_and_a_gone_one_is_not() {
    let mut subscription = webhook();
    subscription.observe("events/a", seen(1, 50), Room::Free);
    let acked = Event::Acked { path: "events/a".to_owned(), stream: 1, acked: 50 };
    subscription.apply(&acked);
    assert!(subscription.pending.is_empty());
    subscription.observe("events/a", seen(2, 3), Room::Free);
    assert!(subscription.pending.contains("events/a"), "3 bytes of another stream");
    subscription.observe("events/a", None, Room::Free);
    assert!(subscription.links.is_empty() && subscription.pending.is_empty());
    let named =
        Event::Linked { path: "x".to_owned(), stream: None, acked: 0, explicit: true, glob: false };
    subscription.apply(&named);
    subscription.observe("x", seen(3, 9), Room::Free);
    subscription.observe("x", None, Room::Free);
    assert_eq!(subscription.links["x"].acked, Offset(0), "what was named stays named");
}

/// Point 54.
#[test]
fn a_snapshot_makes_the_same_subscription_and_a_torn_one_makes_none() {
    let mut subscription = webhook();
    subscription.observe("events/a", seen(1, 50), Room::Free);
    for event in [
        Event::Acked { path: "events/a".to_owned(), stream: 1, acked: 20 },
        Event::Linked { path: "x".to_owned(), stream: None, acked: 0, explicit: true, glob: false },
        Event::Wake {
            generation: 9,
            phase: Phase::Retrying { wake_id: "w".to_owned(), attempt: 3, next_ms: 77 },
        },
        Event::Root { root: "https://there".to_owned() },
    ] {
        subscription.apply(&event);
    }
    let events = subscription.snapshot();
    let lines: Vec<String> =
        events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    let read: Vec<Event> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut again = Subscription::replay(&read).unwrap();
    again.observe("events/a", seen(1, 50), Room::Free);
    assert_eq!(again, subscription);
    assert_eq!(Subscription::replay(&read[..read.len() - 1]), None);
    assert_eq!(Subscription::replay(&read[1..]), None);
    assert_eq!(Subscription::replay(&[]), None);
}

/// Point 54.
#[test]
fn what_happened_at_once_counts_whole_or_not_at_all() {
    let before = webhook();
    let acked = |path: &str| Event::Acked { path: path.to_owned(), stream: 1, acked: 5 };
    let paths = |events: &[Event]| {
        let all = [before.snapshot().as_slice(), events].concat();
        let subscription = Subscription::replay(&all).unwrap();
        subscription.links.into_keys().map(|path| path.to_string()).collect::<Vec<_>>()
    };
    let (begin, end) = (Event::Begin, Event::End);
    assert_eq!(paths(&[begin.clone(), acked("a"), acked("b"), end.clone()]), ["a", "b"]);
    assert!(paths(&[begin.clone(), acked("a"), acked("b")]).is_empty());
    let again = [begin.clone(), acked("a"), begin, acked("c"), end.clone(), acked("d")];
    assert_eq!(paths(&again), ["c", "d"], "the first was given up");
    assert_eq!(paths(&[end, acked("a")]), ["a"]);
}
