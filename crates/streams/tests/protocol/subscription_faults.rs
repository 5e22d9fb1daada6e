//! Subscriptions where something cannot be written, or two things happen at once.

use std::ops::Range;

use highwater_streams::subscriptions::Delivered;

use crate::subscribing::*;
use crate::support::*;

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
