//! I11: what subscriptions follow takes bounded memory, and nothing is lost by that.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Waker};

use highwater_streams::subscriptions::{Delivered, Page, Webhook};
use serde_json::{Value, json};

use crate::subscribing::*;
use crate::support::*;

/// Memory for links in these tests: for about ten cursors, and two that wait.
const BYTES: u64 = 3_300;

fn all() -> Value {
    json!({ "type": "webhook", "pattern": "**", "lease_ttl_ms": 600_000,
        "webhook": { "url": "https://worker.example/hook" } })
}

fn body(webhook: &Webhook) -> Value {
    serde_json::from_slice(&webhook.body).unwrap()
}

fn names(streams: &Value) -> Vec<String> {
    let streams = streams.as_array().unwrap();
    streams.iter().map(|stream| stream["path"].as_str().unwrap().to_owned()).collect()
}

/// A stream that matches and has nothing new takes no memory, however many there are.
#[test]
fn streams_that_have_nothing_to_tell_take_no_memory() {
    let subs = Subs::bounded(Store::new(330), 330, BYTES);
    for number in 0..30 {
        subs.put_stream(&format!("old/{number}"), "[]");
    }
    subs.put("s", &all()).unwrap();
    for number in 0..30 {
        subs.put_stream(&format!("new/{number}"), "[]");
    }
    assert!(subs.turn().is_empty());
    assert_eq!((subs.subs.sizes().kept, subs.subs.sizes().implied), (0, 0));
    assert_eq!(names(&subs.get("s")["streams"]).len(), 60, "they are followed all the same");
}

/// What has no room in memory waits in the log, and is told in later wakes.
#[test]
fn streams_that_find_no_room_are_looked_for_and_each_is_told_until_it_is_acknowledged() {
    let room = 720_000;
    let subs = Subs::bounded(Store::new(331), 331, room);
    for id in ["s", "t", "u"] {
        subs.put(id, &all()).unwrap();
    }
    let mut expected = BTreeMap::new();
    for number in 0..700 {
        let name = format!("new/{number:04}");
        subs.put_stream(&name, "[1]");
        expected.insert(name, offset(3));
        if number % 300 == 0 {
            // Its first wake begins when one is there.
            subs.turn_once();
        }
    }
    let mut told: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let (mut crashes, mut most) = (0, 0);
    let mut subs = subs.crash();
    subs.store.clock.advance(std::time::Duration::from_secs(90));
    loop {
        let webhooks = subs.turn();
        let Some(webhook) = webhooks.first() else { break };
        for webhook in &webhooks {
            let body = body(webhook);
            let told = told.entry(webhook.id.clone()).or_default();
            for stream in body["streams"].as_array().unwrap() {
                let text = |name: &str| stream[name].as_str().unwrap().to_owned();
                assert!(text("acked_offset") < text("tail_offset"), "{stream}");
                told.insert(text("path"), text("tail_offset"));
            }
            subs.run(subs.subs.delivered(webhook, Delivered::Done)).unwrap();
        }
        most = most.max(subs.subs.sizes().implied);
        if webhook.id == "s" && crashes < 3 {
            crashes += 1;
            subs = subs.crash();
            subs.store.clock.advance(std::time::Duration::from_secs(90));
        }
    }
    assert!(most <= room / 4 + 3 * 400, "{most} bytes wait");
    assert!(crashes == 3 && told.len() == 3 && told.values().all(|told| *told == expected));
    assert_eq!(subs.subs.sizes().implied, 0);
}

/// Without room for a cursor a wake is not done: it comes again, and nothing of it is lost.
#[test]
fn a_cursor_that_finds_no_room_is_refused_and_its_wake_comes_again() {
    let subs = Subs::bounded(Store::new(332), 332, BYTES);
    subs.put("s", &all()).unwrap();
    let mut done = 0;
    for number in 0..20 {
        subs.put_stream(&format!("new/{number:02}"), "[1]");
        let Some(webhook) = subs.turn().pop() else { break };
        if let Err(full) = subs.run(subs.subs.delivered(&webhook, Delivered::Done)) {
            assert_eq!(full.code(), "FULL");
            assert_eq!(subs.get("s")["status"], "failed");
            break;
        }
        done += 1;
    }
    assert!((5..20).contains(&done), "{done}");
    assert!(subs.subs.sizes().kept <= BYTES);
    // A worker is told, too.
    subs.store.clock.advance(std::time::Duration::from_secs(90));
    let webhook = subs.turn().pop().expect("it comes again");
    let told = body(&webhook);
    let stream = &told["streams"][0];
    assert_eq!(stream["path"], format!("new/{done:02}"));
    let report = json!({ "wake_id": told["wake_id"], "generation": told["generation"],
        "acks": [{ "stream": stream["path"], "offset": stream["tail_offset"] }] });
    let token = told["callback_token"].as_str();
    assert_eq!(refusal(subs.ack("s", token, &report)), "FULL");
    assert_eq!(subs.get("s")["streams"][done]["acked_offset"], offset(0));
    // What is there already goes on, and streams that are deleted give their room back: the last
    // of a wake's cursors may have taken more than there was.
    subs.post_stream("new/00", "2");
    subs.store.delete("new/01").unwrap();
    subs.store.delete("new/02").unwrap();
    assert_eq!(subs.ack("s", token, &report), Ok(false));
    assert_eq!(subs.get("s")["streams"][done - 2]["acked_offset"], offset(3));
    let again = json!({ "wake_id": told["wake_id"], "generation": told["generation"],
        "acks": [{ "stream": "new/00", "offset": offset(6) }], "done": true });
    assert_eq!(subs.ack("s", token, &again), Ok(false));
}

/// A wake that tells of more than there is room for takes exactly what there is, and of the rest it
/// comes again.
#[test]
fn a_webhook_that_is_done_takes_the_room_there_is_and_is_sent_again_for_the_rest() {
    // What waits has a quarter as much, so that a wake tells of six.
    let cursor = 320 + 6;
    let room = 24 * cursor;
    let subs = Subs::bounded(Store::new(337), 337, room);
    subs.put("s", &all()).unwrap();
    let mut number = 0;
    let mut tell = |streams: usize| {
        for _ in 0..streams {
            subs.put_stream(&format!("new/{number:02}"), "[1]");
            number += 1;
        }
        let webhook = subs.turn().pop().unwrap();
        assert_eq!(names(&body(&webhook)["streams"]).len(), streams);
        subs.run(subs.subs.delivered(&webhook, Delivered::Done))
    };
    for streams in [6, 6, 6, 3] {
        tell(streams).unwrap();
    }
    assert_eq!(subs.subs.sizes().kept, 21 * cursor);
    assert_eq!(tell(6).unwrap_err().code(), "FULL");
    assert_eq!(subs.subs.sizes().kept, room, "all of it, and no more");
    let subs = subs.crash();
    assert_eq!(subs.subs.sizes().kept, room, "what was taken is durable");
    subs.store.clock.advance(std::time::Duration::from_secs(90));
    let webhook = subs.turn().pop().expect("it comes again");
    let left = names(&body(&webhook)["streams"]);
    assert_eq!(left, ["new/24", "new/25", "new/26"], "what has a cursor is not told again");
}

/// Neither do reports take more than there is, whatever they name, nor is what they name forgotten.
#[test]
fn a_report_of_many_streams_takes_no_more_memory_than_there_is_and_all_are_told_later() {
    let subs = Subs::bounded(Store::new(336), 336, BYTES);
    subs.put("s", &all()).unwrap();
    let made: Vec<String> = (0..20).map(|number| format!("new/{number:02}")).collect();
    for name in &made {
        subs.put_stream(name, "[1]");
    }
    let webhook = subs.turn().pop().unwrap();
    let told = body(&webhook);
    let token = told["callback_token"].as_str();
    let report = |names: &[String], at: u64| {
        let acks: Vec<Value> =
            names.iter().map(|name| json!({ "stream": name, "offset": offset(at) })).collect();
        json!({ "wake_id": told["wake_id"], "generation": told["generation"], "acks": acks })
    };
    let waiting = subs.subs.sizes().implied;
    assert!(waiting <= BYTES / 4 + 400, "{waiting}");
    for at in [0, 3, 0] {
        let acked = subs.ack("s", token, &report(&made, at));
        if at > 0 {
            assert_eq!(refusal(acked), "FULL", "one byte is free, and all of it is not");
        } else {
            assert_eq!(acked, Ok(false));
        }
        assert_eq!((subs.subs.sizes().kept, subs.subs.sizes().implied), (0, waiting));
    }
    // A part of it that has room is taken.
    assert_eq!(subs.ack("s", token, &report(&made[10..15], 3)), Ok(false));
    assert!((1..=BYTES).contains(&subs.subs.sizes().kept));
    subs.run(subs.subs.delivered(&webhook, Delivered::Done)).unwrap();
    let mut left: Vec<String> = Vec::new();
    for _ in 0..20 {
        let Some(webhook) = subs.turn().pop() else { break };
        left.extend(names(&body(&webhook)["streams"]));
        if subs.run(subs.subs.delivered(&webhook, Delivered::Done)).is_err() {
            break;
        }
    }
    left.sort();
    assert!(left.len() > 1 && left.iter().all(|name| !made[10..15].contains(name)), "{left:?}");
}

/// Links at a tail, and such that were asked for by name, are refused where there is no room.
#[test]
fn a_subscription_whose_links_find_no_room_is_not_made() {
    let subs = Subs::bounded(Store::new(333), 333, BYTES);
    for number in 0..12 {
        subs.put_stream(&format!("old/{number}"), "[1]");
    }
    assert_eq!(refusal(subs.put("s", &all())), "FULL");
    assert_eq!(subs.subs.sizes().kept, 0, "nothing is left of it");
    assert!(subs.turn().is_empty() && subs.subs.is_empty());
    let some: Vec<String> = (0..12).map(|number| format!("named/{number}")).collect();
    let by_name = json!({ "type": "webhook", "streams": some,
        "webhook": { "url": "https://worker.example/hook" } });
    assert_eq!(refusal(subs.put("s", &by_name)), "FULL");
    subs.put("s", &hook()).unwrap();
    let more = json!({ "streams": some }).to_string();
    let refused = subs.run(subs.subs.add_streams("s", &named_in(more.as_bytes())));
    assert_eq!(refusal(refused), "FULL");
    assert_eq!(subs.subs.sizes().kept, 0);
    let one = json!({ "streams": ["named/0", "named/1"] }).to_string();
    subs.run(subs.subs.add_streams("s", &named_in(one.as_bytes()))).unwrap();
    subs.run(subs.subs.add_streams("s", &named_in(one.as_bytes()))).unwrap();
    assert!(subs.subs.sizes().kept > 0);
    subs.run(subs.subs.delete("s")).unwrap();
    assert_eq!(subs.subs.sizes().kept, 0, "its memory is given back");
}

/// All of what is followed is shown, in order, each once, a page at a time.
#[test]
fn what_is_followed_is_shown_page_by_page() {
    let subs = Subs::new(334);
    for number in 0..7 {
        subs.put_stream(&format!("events/{number}"), if number % 2 == 0 { "[1]" } else { "[]" });
        subs.put_stream(&format!("other/{number}"), "[1]");
    }
    let mut both = pull();
    both["streams"] = json!(["a/first", "events/3", "other/5", "z/last"]);
    both["wake_stream"] = json!("events/6");
    subs.put("s", &both).unwrap();
    let expected = [
        "a/first", "events/0", "events/1", "events/2", "events/3", "events/4", "events/5",
        "other/5", "z/last",
    ];
    assert_eq!(names(&subs.get("s")["streams"]), expected);
    assert_eq!(subs.get("s")["next_after"], Value::Null);
    for limit in 1..=10 {
        let (mut found, mut page) = (Vec::new(), Page { after: None, limit });
        loop {
            let body = subs.subs.get("s", ROOT, &page).unwrap();
            let streams = names(&body["streams"]);
            assert!(streams.len() <= limit);
            found.extend(streams);
            let Some(after) = body["next_after"].as_str() else { break };
            page.after = Some(after.to_owned());
        }
        assert_eq!(found, expected, "{limit} on a page");
    }
    let streams = subs.get("s")["streams"].clone();
    let at = |at: usize| (streams[at]["link_type"].clone(), streams[at]["acked_offset"].clone());
    assert_eq!(at(1), (json!("glob"), json!(offset(3))), "at its tail");
    assert_eq!(at(2), (json!("glob"), json!(offset(0))), "it had nothing");
    assert_eq!(at(4), (json!("explicit"), json!(offset(0))));
}

/// Nobody is told that there is nothing while what is pending is looked for.
#[test]
fn a_claim_is_put_off_while_what_is_pending_is_looked_for() {
    let subs = Subs::new(335);
    subs.put_stream("wake/pool", "[]");
    subs.put("p", &pull()).unwrap();
    subs.put_stream("events/a", "[1]");
    subs.turn();
    let subs = subs.crash_unsearched();
    let claim = || subs.run(subs.subs.claim("p", br#"{"worker":"one"}"#));
    assert_eq!(refusal(claim()), "BUSY");
    assert!(subs.subs.wants_search());
    subs.subs.search();
    assert!(!subs.subs.wants_search());
    assert_eq!(names(&claim().unwrap()["streams"]), ["events/a"]);
}

/// A client that goes away while what was noted is looked at takes none of it along.
#[test]
fn what_was_noted_is_looked_at_whoever_goes_away_meanwhile() {
    for polls in 1..6 {
        let subs = Subs::new(340 + polls);
        for id in ["s", "t", "u", "v"] {
            subs.put(id, &all()).unwrap();
        }
        let made: Vec<String> = (0..160).map(|number| format!("new/{number:03}")).collect();
        let (early, late) = made.split_at(80);
        let put = |names: &[String]| {
            for name in names {
                subs.put_stream(name, "[1]");
            }
        };
        put(early);
        {
            let mut context = Context::from_waker(Waker::noop());
            let mut claim = pin!(subs.subs.claim("s", br#"{"worker":"one"}"#));
            for poll in 0..polls {
                assert!(claim.as_mut().poll(&mut context).is_pending(), "it lets others go on");
                if poll == 0 {
                    // Of these it has not heard yet.
                    put(late);
                }
            }
        }
        let webhooks = subs.turn();
        assert_eq!(webhooks.len(), 4);
        for webhook in &webhooks {
            assert_eq!(names(&body(webhook)["streams"]), made, "after {polls} polls");
        }
    }
}
