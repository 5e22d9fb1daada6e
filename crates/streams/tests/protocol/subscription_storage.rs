use highwater_streams::offset::{Place, Token};
use highwater_streams::subscriptions::{Delivered, Page};
use serde_json::{Value, json};

use crate::subscribing::*;
use crate::support::*;

/// Point 54: a journal stays short, however long its subscription works.
#[test]
fn a_journal_is_written_anew_before_it_grows_long() {
    let subs = Subs::new(313);
    subs.put_stream("events/a", "[]");
    subs.put("s", &hook()).unwrap();
    for number in 0..600_u64 {
        subs.post_stream("events/a", &number.to_string());
        let webhook = subs.turn().pop().unwrap();
        subs.run(subs.subs.delivered(&webhook, Delivered::Done)).unwrap();
    }
    let names = subs.store.log.list("__ds/subscriptions/", None, 99);
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(!names[0].ends_with("/0000000000000000"), "{names:?}");
    let bytes = subs.store.log.info(&names[0]).unwrap().tail.0;
    assert!(bytes < 70_000, "{bytes}");
    let before = subs.get("s");
    let subs = subs.crash();
    assert_eq!(subs.get("s"), before);
    assert!(subs.turn().is_empty());
}

/// Point 54: a crash while a journal is written anew leaves the old one, the new one, or both.
#[test]
fn a_journal_that_is_being_written_anew_survives_a_crash_at_any_moment() {
    let mut nth = 0;
    loop {
        let seed = 7000 + nth;
        let subs = Subs::new(seed);
        let root = |number: u64| format!("http://root-{number:03}/{}", "x".repeat(6000));
        let body = hook().to_string();
        let confirm = |number| {
            let root = root(number);
            let config = subs.subs.config(body.as_bytes()).unwrap();
            let put = subs.subs.put("s", config, &root);
            subs.store.attempt(put).is_some_and(|put| put.is_ok())
        };
        assert!((0..12).all(confirm));
        subs.store.disk.crash_after_operations(nth);
        let acked = (12..18).take_while(|number| confirm(*number)).last().unwrap_or(11);
        let is_over = !subs.store.disk.is_crashed();
        let subs = subs.crash();
        while subs.store.log.step() {}
        let names = subs.store.log.list("__ds/subscriptions/", None, 9);
        assert_eq!(names.len(), 1, "seed {seed}: {names:?}");
        subs.put_stream("events/a", "[1]");
        let body: Value = serde_json::from_slice(&subs.turn().pop().unwrap().body).unwrap();
        let found = body["callback_url"].as_str().unwrap();
        assert!(*found >= *root(acked), "seed {seed}: {acked} was confirmed");
        if is_over {
            assert!(!names[0].ends_with("/0000000000000000"), "{names:?}");
            return;
        }
        nth += 1;
    }
}

/// Point 54: with the power cut at any moment, what was told to anybody still holds.
#[test]
fn at_any_moment_of_a_crash_cursors_and_generations_hold_what_was_told() {
    let mut nth = 0;
    loop {
        let seed = 5000 + nth;
        let subs = Subs::new(seed);
        subs.put("s", &hook()).unwrap();
        subs.put_stream("events/a", "[]");
        subs.store.disk.crash_after_operations(nth);
        let (mut acked, mut generation, mut tail) = (0, 0, 0);
        for number in 0..4 {
            if !subs.try_post("events/a", &number.to_string()) {
                break;
            }
            tail += 3;
            let Some(webhooks) = subs.try_turn() else { break };
            let Some(webhook) = webhooks.into_iter().next() else { continue };
            let body: Value = serde_json::from_slice(&webhook.body).unwrap();
            generation = body["generation"].as_u64().unwrap();
            if !subs.try_delivered(&webhook, Delivered::Done) {
                break;
            }
            acked = tail;
        }
        let is_over = !subs.store.disk.is_crashed();
        let subs = subs.crash();
        let now = subs.get("s");
        let found = now["streams"][0]["acked_offset"].as_str().unwrap().to_owned();
        assert!(found >= offset(acked), "seed {seed}: a cursor went back");
        let read = subs.store.get("events/a", Place::Start).unwrap().next;
        assert!(found <= Token(read).to_string(), "seed {seed}: a cursor beyond the tail");
        subs.store.clock.advance(std::time::Duration::from_secs(120));
        subs.post_stream("events/a", "9");
        let webhook = subs.turn().pop().unwrap();
        let body: Value = serde_json::from_slice(&webhook.body).unwrap();
        assert!(body["generation"].as_u64().unwrap() >= generation, "seed {seed}");
        subs.run(subs.subs.delivered(&webhook, Delivered::Done)).unwrap();
        assert!(subs.turn().is_empty(), "seed {seed}");
        if is_over {
            assert!(acked == 12 && generation == 4);
            return;
        }
        nth += 1;
    }
}

/// I11: nobody tells when a stream's time is over, and links to such streams do not pile up.
#[test]
fn links_to_streams_whose_time_is_over_do_not_pile_up() {
    let subs = Subs::new(315);
    subs.put("s", &hook()).unwrap();
    for number in 0..1000 {
        let short = highwater_streams::service::Create { lifetime: ttl(1), ..create(JSON, "1") };
        subs.store.put(&format!("events/{number}"), &short).unwrap();
        subs.get("s");
        subs.store.advance(2);
        subs.subs.search();
        let bytes = subs.subs.sizes().implied;
        assert!(bytes < 200 * 350, "{bytes} bytes");
    }
    assert!(subs.turn().is_empty(), "nothing of them is pending");
}

/// What cannot be written has not happened.
#[test]
fn a_change_that_finds_no_room_changes_nothing() {
    let subs = Subs::new(316);
    subs.put_stream("wake/pool", "[]");
    subs.put("p", &pull()).unwrap();
    subs.put_stream("events/a", "[1]");
    subs.turn();
    let claimed = subs.run(subs.subs.claim("p", br#"{"worker":"one"}"#)).unwrap();
    let token = claimed["token"].as_str();
    let report = json!({ "wake_id": claimed["wake_id"], "generation": 1, "done": true,
        "acks": [{ "stream": "events/a", "offset": offset(3) }] });
    subs.fill();
    let body = report.to_string();
    let answer = first_poll(subs.subs.ack("p", token, body.as_bytes()));
    assert_eq!(refusal(answer.expect("there is no room")), "BUSY");
    assert!(subs.subs.has_stale());
    assert_eq!(
        refusal(subs.subs.get("p", ROOT, &Page::default())),
        "BUSY",
        "nobody is told what is not kept"
    );
    subs.subs.refresh().unwrap();
    assert_eq!(subs.get("p")["streams"][0]["acked_offset"], offset(0));
    assert!(!subs.subs.has_stale());
    while subs.store.log.step() {}
    assert_eq!(subs.ack("p", token, &report), Ok(false), "and then it is done after all");
}

/// I11: what clients can make is bounded.
#[test]
fn more_subscriptions_than_the_limit_are_refused() {
    let subs = Subs::new(314);
    for number in 0..4 {
        subs.put(&format!("s{number}"), &hook()).unwrap();
    }
    assert_eq!(refusal(subs.put("s4", &hook())), "FULL");
    subs.run(subs.subs.delete("s0")).unwrap();
    assert_eq!(refusal(subs.put("a/b", &hook())), "INVALID_REQUEST");
    assert!(subs.put("s0", &hook()).unwrap().1);
}

/// Point 54: what is longer than one record of the log and finds room for a part of it only has not
/// happened, and does not happen with what comes next.
#[test]
fn a_long_change_is_written_whole_or_not_at_all_wherever_room_ends() {
    let (mut all, mut none) = (0, 0);
    // Each try leaves a little less room.
    for filled in 0..24_usize {
        let seed = 321 + u64::try_from(filled).unwrap();
        let subs = Subs::over(tight(seed), seed);
        subs.put("s", &hook()).unwrap();
        subs.put_stream("filler", "[]");
        let body = format!("\"{}\"", "x".repeat(1000));
        let fill = append(JSON, &body);
        for _ in 0..filled {
            let filler = path("filler");
            assert!(first_poll(subs.store.streams.append(&filler, &fill)).is_none(), "no room");
        }
        let names = long_names();
        let added = first_poll(subs.subs.add_streams("s", &named_in(names.to_string().as_bytes())));
        let is_refused = added.is_some();
        if let Some(answer) = added {
            assert_eq!(refusal(answer), "BUSY");
            subs.subs.refresh().unwrap();
        }
        while subs.store.log.step() {}
        subs.subs.refresh().unwrap();
        let expected = if is_refused { 0 } else { LONG_NAMES };
        assert_eq!(links(&subs), expected, "with {filled} KiB before it");
        // A short one behind it, and a long one, count alone.
        subs.run(subs.subs.add_streams("s", &named_in(br#"{"streams":["b"]}"#))).unwrap();
        assert_eq!(links(&subs), expected + 1);
        let subs = subs.crash();
        assert_eq!(links(&subs), expected + 1, "after a restart, with {filled} KiB before it");
        if is_refused {
            subs.run(subs.subs.add_streams("s", &named_in(names.to_string().as_bytes()))).unwrap();
        }
        assert_eq!(links(&subs.crash()), LONG_NAMES + 1);
        if is_refused { none += 1 } else { all += 1 }
    }
    assert!(all > 0 && none > 0, "{all} were written and {none} not");
}

/// Point 54.
#[test]
fn a_long_change_that_a_crash_cuts_off_is_there_whole_or_not_at_all() {
    let mut found = [0, 0];
    for (nth, one) in (0..).flat_map(|nth| (0..60).map(move |one| (nth, one))) {
        let seed = 6000 + 100 * nth + one;
        let store = Store::with_options(seed, LIMITS, |options| options.frame_bytes = 4096);
        let subs = Subs::over(store, seed);
        subs.put("s", &hook()).unwrap();
        subs.store.disk.crash_after_operations(nth);
        let names = long_names().to_string();
        let added = subs.store.attempt(subs.subs.add_streams("s", &named_in(names.as_bytes())));
        let is_over = !subs.store.disk.is_crashed();
        let subs = subs.crash();
        let links_then = links(&subs);
        assert!(links_then == LONG_NAMES || links_then == 0, "seed {seed}: {links_then} links");
        assert!(links_then > 0 || !matches!(added, Some(Ok(()))), "seed {seed}: it was told");
        // A short one behind what is left of it counts alone.
        subs.run(subs.subs.add_streams("s", &named_in(br#"{"streams":["b"]}"#))).unwrap();
        assert_eq!(links(&subs.crash()), links_then + 1, "seed {seed}");
        found[usize::from(links_then > 0)] += 1;
        if is_over {
            assert!(found[0] > 0 && found[1] > 0);
            return;
        }
    }
}

/// Names of `long_names`, which together are longer than one record of a journal.
const LONG_NAMES: usize = 7;

fn long_names() -> Value {
    let names = (0..LONG_NAMES).map(|number| format!("named/{number}{}", "x".repeat(1500)));
    json!({ "streams": names.collect::<Vec<_>>() })
}

/// A store with room for little that is not committed.
fn tight(seed: u64) -> Store {
    Store::with_options(seed, LIMITS, |options| options.max_staged_bytes = 24 << 10)
}

fn links(subs: &Subs) -> usize {
    subs.get("s")["streams"].as_array().unwrap().len()
}
