use highwater_streams::subscriptions::{Delivered, Page, Refusal};
use serde_json::{Value, json};

use crate::subscribing::*;
use crate::support::*;

/// Point 48.
#[test]
fn a_subscription_is_made_confirmed_told_and_deleted() {
    let subs = Subs::new(300);
    let (body, is_new) = subs.put("s", &hook()).unwrap();
    assert!(is_new);
    assert_eq!((&body["id"], &body["subscription_id"]), (&json!("s"), &json!("s")));
    assert_eq!((&body["type"], &body["wake_stream"]), (&json!("webhook"), &Value::Null));
    assert_eq!((&body["lease_ttl_ms"], &body["status"]), (&json!(1000), &json!("active")));
    assert_eq!(body["created_at"], "2023-11-14T22:13:20.000Z");
    let signing = &body["webhook"]["signing"];
    assert_eq!(
        (&signing["alg"], &signing["jwks_url"]),
        (&json!("ed25519"), &json!(format!("{ROOT}/__ds/jwks.json")))
    );
    assert_eq!(signing["kid"], subs.subs.jwks()["keys"][0]["kid"]);
    assert!(!body.to_string().contains("secret"));
    assert!(!subs.put("s", &hook()).unwrap().1, "confirmed");
    let mut other = hook();
    other["description"] = json!("another");
    assert_eq!(refusal(subs.put("s", &other)), "SUBSCRIPTION_EXISTS");
    let mut unsafe_url = hook();
    unsafe_url["webhook"]["url"] = json!("http://10.0.0.1/hook");
    assert_eq!(refusal(subs.put("t", &unsafe_url)), "WEBHOOK_URL_REJECTED");
    let subs = subs.crash();
    assert_eq!(subs.get("s")["webhook"]["url"], "https://worker.example/hook");
    subs.run(subs.subs.delete("s")).unwrap();
    for subs in [&subs, &subs.crash_copy()] {
        assert_eq!(subs.subs.get("s", ROOT, &Page::default()), Err(Refusal::NotFound));
    }
    assert_eq!(refusal(subs.run(subs.subs.delete("s"))), "SUBSCRIPTION_NOT_FOUND");
}

/// Point 47: what subscriptions are kept in is no stream that a client can reach.
#[test]
fn reserved_streams_match_no_pattern_and_have_no_path() {
    let subs = Subs::new(301);
    let mut all = pull();
    all["pattern"] = json!("**");
    subs.put("s", &all).unwrap();
    subs.put_stream("events/a", "[1]");
    let names: Vec<String> = subs.store.log.list("__ds/", None, 99);
    assert_eq!(names.len(), 2, "keys and a journal: {names:?}");
    let body = subs.get("s");
    let paths: Vec<&Value> =
        body["streams"].as_array().unwrap().iter().map(|stream| &stream["path"]).collect();
    assert_eq!(paths, ["events/a"]);
}

/// Point 49.
#[test]
fn streams_that_are_there_are_linked_at_their_tail_and_later_ones_before_what_wakes() {
    let subs = Subs::new(302);
    subs.put_stream("events/old", "[1,2]");
    subs.put("s", &hook()).unwrap();
    assert_eq!(
        subs.get("s")["streams"],
        json!([
            { "path": "events/old", "link_type": "glob", "acked_offset": offset(7) }
        ])
    );
    assert!(subs.turn().is_empty(), "history is not replayed");
    subs.put_stream("events/new", "[1]");
    subs.put_stream("other/new", "[1]");
    let webhooks = subs.turn();
    assert_eq!(webhooks.len(), 1);
    let body: Value = serde_json::from_slice(&webhooks[0].body).unwrap();
    assert_eq!(
        body["streams"],
        json!([{
            "path": "events/new", "link_type": "glob", "acked_offset": offset(0),
            "tail_offset": offset(3), "has_pending": true
        }])
    );
}

/// Point 49.
#[test]
fn streams_are_added_and_removed_by_name_and_named_beats_matched() {
    let subs = Subs::new(303);
    subs.put_stream("events/a", "[1]");
    subs.put("s", &hook()).unwrap();
    let add = |names: Value| {
        let body = json!({ "streams": names }).to_string();
        subs.run(subs.subs.add_streams("s", &named_in(body.as_bytes()))).unwrap();
    };
    let remove = |name| subs.run(subs.subs.remove_stream("s", name)).unwrap();
    let link_types = || -> Vec<(String, String)> {
        let body = subs.get("s");
        let streams = body["streams"].as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        streams.iter().map(|s| (text(&s["path"]), text(&s["link_type"]))).collect()
    };
    let pair = |path: &str, kind: &str| (path.to_owned(), kind.to_owned());
    for _ in 0..2 {
        add(json!(["manual/b", "events/a"]));
        let expected = [pair("events/a", "explicit"), pair("manual/b", "explicit")];
        assert_eq!(link_types(), expected);
    }
    assert!(!subs.put("s", &hook()).unwrap().1, "it is the same subscription still");
    subs.put_stream("manual/b", "[1]");
    assert_eq!(subs.turn().len(), 1);
    for _ in 0..2 {
        remove("manual/b");
        remove("events/a");
        assert_eq!(link_types(), [pair("events/a", "glob")], "the pattern still matches");
    }
    let subs = subs.crash();
    assert_eq!(subs.get("s")["streams"].as_array().unwrap().len(), 1);
}

/// Points 50 and 52.
#[test]
fn a_webhook_is_signed_and_done_acknowledges_its_snapshot() {
    let subs = Subs::new(304);
    subs.put("s", &hook()).unwrap();
    subs.put_stream("events/a", "[1]");
    let webhook = subs.turn().pop().unwrap();
    assert_eq!(webhook.url, "https://worker.example/hook");
    let body: Value = serde_json::from_slice(&webhook.body).unwrap();
    assert_eq!((&body["generation"], &body["subscription_id"]), (&json!(1), &json!("s")));
    assert_eq!(body["callback_url"], format!("{ROOT}/__ds/subscriptions/s/callback"));
    subs.verify(&webhook);
    subs.post_stream("events/a", "2");
    assert!(subs.turn().is_empty(), "one wake at a time");
    subs.run(subs.subs.delivered(&webhook, Delivered::Done)).unwrap();
    assert_eq!(subs.get("s")["streams"][0]["acked_offset"], offset(3));
    let next = subs.turn().pop().unwrap();
    let next_body: Value = serde_json::from_slice(&next.body).unwrap();
    assert_eq!(next_body["generation"], 2);
    assert_ne!(next_body["wake_id"], body["wake_id"]);
    assert_eq!(next_body["streams"][0]["acked_offset"], offset(3));
    subs.run(subs.subs.delivered(&next, Delivered::Done)).unwrap();
    assert!(subs.turn().is_empty());
    assert_eq!(subs.subs.due_ms(), None, "at rest");
}

/// Point 52.
#[test]
fn a_callback_acknowledges_and_a_stale_or_foreign_one_is_turned_down() {
    let subs = Subs::new(305);
    subs.put("s", &hook()).unwrap();
    subs.put("t", &hook()).unwrap();
    subs.put_stream("events/a", "[1]");
    let mut webhooks = subs.turn();
    assert_eq!(webhooks.len(), 2);
    let other: Value = serde_json::from_slice(&webhooks.pop().unwrap().body).unwrap();
    let webhook = webhooks.pop().unwrap();
    let body: Value = serde_json::from_slice(&webhook.body).unwrap();
    subs.run(subs.subs.delivered(&webhook, Delivered::Accepted)).unwrap();
    let report = json!({ "wake_id": body["wake_id"], "generation": 1, "done": true,
        "acks": [{ "stream": "events/a", "offset": offset(3) }] });
    let token = body["callback_token"].as_str().unwrap();
    let foreign = other["callback_token"].as_str().unwrap();
    for token in [None, Some(""), Some("x.y.z"), Some(foreign)] {
        assert_eq!(subs.ack("s", token, &report), Err(Refusal::Unauthorized), "{token:?}");
    }
    for (name, value) in [("wake_id", json!("w_other")), ("generation", json!(2))] {
        let mut stale = report.clone();
        stale[name] = value;
        assert_eq!(subs.ack("s", Some(token), &stale), Err(Refusal::Fenced));
    }
    assert_eq!(subs.ack("s", Some(token), &report), Ok(false));
    assert_eq!(subs.ack("s", Some(token), &report), Err(Refusal::Fenced));
    assert_eq!(subs.get("s")["streams"][0]["acked_offset"], offset(3));
    assert_eq!(subs.get("t")["streams"][0]["acked_offset"], offset(0));
    subs.run(subs.subs.delete("s")).unwrap();
    assert_eq!(subs.ack("s", Some(token), &report), Err(Refusal::NotFound));
    subs.put("s", &hook()).unwrap();
    assert_eq!(subs.ack("s", Some(token), &report), Err(Refusal::Fenced), "of an earlier one");
}

/// Point 52.
#[test]
fn what_fails_is_tried_again_on_a_schedule_that_survives_a_restart() {
    let subs = Subs::new(306);
    subs.put("s", &hook()).unwrap();
    subs.put_stream("events/a", "[1]");
    let webhook = subs.turn().pop().unwrap();
    let wake_id = |webhook: &highwater_streams::subscriptions::Webhook| {
        serde_json::from_slice::<Value>(&webhook.body).unwrap()["wake_id"].clone()
    };
    subs.run(subs.subs.delivered(&webhook, Delivered::Failed)).unwrap();
    assert_eq!(subs.get("s")["status"], "failed");
    subs.turn();
    let due_ms = subs.subs.due_ms().unwrap();
    let subs = subs.crash();
    assert!(subs.turn().is_empty());
    assert_eq!(subs.subs.due_ms(), Some(due_ms));
    subs.store.clock.advance(std::time::Duration::from_millis(1300));
    let again = subs.turn().pop().unwrap();
    assert_eq!(wake_id(&again), wake_id(&webhook), "the same wake");
    assert_eq!(subs.get("s")["status"], "active");
    let subs = subs.crash();
    assert!(subs.turn().is_empty(), "it was on its way");
    subs.store.clock.advance(std::time::Duration::from_secs(60));
    let once_more = subs.turn().pop().unwrap();
    assert_eq!(wake_id(&once_more), wake_id(&webhook));
    subs.run(subs.subs.delivered(&once_more, Delivered::Done)).unwrap();
    assert!(subs.turn().is_empty());
}

/// Point 53.
#[test]
fn a_wake_is_written_claimed_acknowledged_and_released() {
    let subs = Subs::new(307);
    subs.put_stream("wake/pool", "[]");
    subs.put("p", &pull()).unwrap();
    let claim = |worker: &str| {
        let body = json!({ "worker": worker }).to_string();
        subs.run(subs.subs.claim("p", body.as_bytes()))
    };
    assert_eq!(claim("one"), Err(Refusal::NothingPending));
    subs.put_stream("events/a", "[1]");
    assert!(subs.turn().is_empty());
    let written = subs.messages("wake/pool");
    assert_eq!(written.len(), 1);
    assert_eq!(
        written[0],
        json!({ "type": "wake", "subscription_id": "p", "stream": "events/a",
        "generation": 1, "ts": 1_700_000_000_000_u64 })
    );
    let claimed = claim("one").unwrap();
    assert_eq!((&claimed["generation"], &claimed["lease_ttl_ms"]), (&json!(1), &json!(1000)));
    assert_eq!(claimed["streams"][0]["tail_offset"], offset(3));
    let busy = Refusal::AlreadyClaimed { holder: "one".to_owned(), generation: 1 };
    assert_eq!(claim("two"), Err(busy));
    let report = json!({ "wake_id": claimed["wake_id"], "generation": 1, "done": true,
        "acks": [{ "stream": "events/a", "offset": offset(3) }] });
    let token = claimed["token"].as_str().unwrap();
    assert_eq!(subs.ack("p", Some(token), &report), Ok(false));
    subs.post_stream("events/a", "2");
    let second = claim("one").unwrap();
    assert_eq!(second["generation"], 2, "claimed before its event was written");
    let release = json!({ "wake_id": second["wake_id"], "generation": 2 }).to_string();
    let token = second["token"].as_str();
    subs.run(subs.subs.release("p", token, release.as_bytes())).unwrap();
    let again = subs.run(subs.subs.release("p", token, release.as_bytes()));
    assert_eq!(again, Err(Refusal::Fenced));
    subs.turn();
    let written = subs.messages("wake/pool");
    assert_eq!(written.last().unwrap()["generation"], 3, "what is pending wakes again");
}

/// Points 53 and 54.
#[test]
fn leases_tokens_and_cursors_survive_a_restart_and_a_lease_that_runs_out_wakes_again() {
    let subs = Subs::new(308);
    subs.put_stream("wake/pool", "[]");
    subs.put("p", &pull()).unwrap();
    subs.put_stream("events/a", "[1,2]");
    subs.turn();
    let claimed = subs.run(subs.subs.claim("p", br#"{"worker":"one"}"#)).unwrap();
    let token = claimed["token"].as_str().unwrap().to_owned();
    let heartbeat = json!({ "wake_id": claimed["wake_id"], "generation": 1,
        "acks": [{ "stream": "events/a", "offset": offset(3) }] });
    let kid = subs.subs.jwks();
    let subs = subs.crash();
    assert_eq!(subs.subs.jwks(), kid, "keys survive");
    assert_eq!(subs.ack("p", Some(&token), &heartbeat), Ok(false));
    let subs = subs.crash();
    let busy = subs.run(subs.subs.claim("p", br#"{"worker":"two"}"#));
    assert!(matches!(busy, Err(Refusal::AlreadyClaimed { .. })));
    assert_eq!(subs.get("p")["streams"][0]["acked_offset"], offset(3));
    subs.store.clock.advance(std::time::Duration::from_secs(1));
    subs.turn();
    assert_eq!(subs.ack("p", Some(&token), &heartbeat), Err(Refusal::Fenced));
    let written = subs.messages("wake/pool");
    assert_eq!(written.last().unwrap()["generation"], 2);
}

/// Point 53.
#[test]
fn a_wake_stream_that_is_not_there_is_tried_again() {
    let subs = Subs::new(309);
    subs.put("p", &pull()).unwrap();
    subs.put_stream("events/a", "[1]");
    subs.turn();
    assert_eq!(subs.get("p")["status"], "failed");
    subs.put_stream("wake/pool", "[]");
    subs.store.clock.advance(std::time::Duration::from_secs(2));
    subs.turn();
    assert_eq!(subs.get("p")["status"], "active");
    assert!(subs.store.all("wake/pool").contains("\"generation\":1"));
}

/// Point 49: a stream that is made anew is another stream.
#[test]
fn a_stream_that_is_deleted_and_made_anew_wakes_from_its_start() {
    let subs = Subs::new(310);
    subs.put_stream("events/a", "[1,2,3,4]");
    subs.put("s", &hook()).unwrap();
    subs.store.delete("events/a").unwrap();
    assert_eq!(subs.get("s")["streams"], json!([]));
    subs.put_stream("events/a", "[9]");
    let webhook = subs.turn().pop().unwrap();
    let body: Value = serde_json::from_slice(&webhook.body).unwrap();
    assert_eq!(body["streams"][0]["acked_offset"], offset(0));
    subs.run(subs.subs.delivered(&webhook, Delivered::Done)).unwrap();
    let subs = subs.crash();
    assert_eq!(subs.get("s")["streams"][0]["acked_offset"], offset(3));
    assert!(subs.turn().is_empty());
}

/// Point 49: a fork that matches is followed from where it is its own.
#[test]
fn what_a_fork_inherits_wakes_nobody() {
    let subs = Subs::new(311);
    subs.put_stream("source", "[1,2]");
    subs.put("s", &hook()).unwrap();
    subs.store.put("events/f", &fork("source", None, 0)).unwrap();
    assert!(subs.turn().is_empty());
    subs.post_stream("events/f", "3");
    let body: Value = serde_json::from_slice(&subs.turn().pop().unwrap().body).unwrap();
    assert_eq!(body["streams"][0]["acked_offset"], offset(7));
}

/// Point 52: nobody has to wait for an append for it to wake.
#[test]
fn an_append_whose_client_went_away_wakes_all_the_same() {
    let subs = Subs::new(312);
    subs.put_stream("events/a", "[]");
    subs.put("s", &hook()).unwrap();
    {
        let (path, request) = (path("events/a"), append(JSON, "1"));
        let mut future = Box::pin(subs.store.streams.append(&path, &request));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
    }
    assert!(subs.turn().is_empty(), "it is not durable yet");
    while subs.store.log.step() {}
    let due_ms = subs.subs.due_ms().unwrap();
    subs.store.clock.set_wall(std::time::Duration::from_millis(due_ms));
    assert_eq!(subs.turn().len(), 1);
}

/// Point 52: who waits for a place has not begun.
#[test]
fn a_lease_begins_when_its_webhook_is_sent_however_long_it_waits_for_that() {
    let subs = Subs::new(336);
    subs.put("s", &hook()).unwrap();
    subs.put_stream("events/a", "[1]");
    let due = subs.turn_once();
    assert_eq!((due.len(), due[0].attempt), (1, 0));
    // Longer than its lease; what comes meanwhile is in it, and nothing is sent twice.
    for _ in 0..5 {
        subs.store.clock.advance(std::time::Duration::from_secs(1));
        subs.post_stream("events/a", "2");
        assert!(subs.turn().is_empty());
    }
    let webhook = subs.run(subs.subs.begin(&due[0])).unwrap().expect("it is due still");
    let body: Value = serde_json::from_slice(&webhook.body).unwrap();
    assert_eq!(
        (&body["generation"], &body["streams"][0]["tail_offset"]),
        (&json!(1), &json!(offset(18)))
    );
    assert_eq!(subs.run(subs.subs.begin(&due[0])), Ok(None), "it is under way");
    subs.store.clock.advance(std::time::Duration::from_millis(900));
    subs.run(subs.subs.delivered(&webhook, Delivered::Done)).unwrap();
    assert_eq!(subs.get("s")["streams"][0]["acked_offset"], offset(18));
    assert!(subs.turn().is_empty());
    assert_eq!(subs.run(subs.subs.begin(&due[0])), Ok(None), "nothing is pending");
    subs.post_stream("events/a", "3");
    assert_eq!(subs.turn().len(), 1);
}

/// Point 52: what is over while it waits for a place is not sent.
#[test]
fn a_webhook_that_waits_is_not_sent_for_a_subscription_that_is_gone_or_has_nothing() {
    let subs = Subs::new(337);
    subs.put("s", &hook()).unwrap();
    subs.put_stream("events/a", "[1]");
    let due = subs.turn_once();
    subs.store.delete("events/a").unwrap();
    assert_eq!(subs.run(subs.subs.begin(&due[0])), Ok(None), "its stream is gone");
    subs.put_stream("events/a", "[1]");
    let due = subs.turn_once();
    assert_eq!(due.len(), 1, "and due again with another one");
    subs.run(subs.subs.delete("s")).unwrap();
    assert_eq!(subs.run(subs.subs.begin(&due[0])), Ok(None));
    subs.put("s", &hook()).unwrap();
    subs.post_stream("events/a", "2");
    assert_eq!(subs.run(subs.subs.begin(&due[0])), Ok(None), "another one of its name");
    assert_eq!(subs.turn().len(), 1);
}

fn kids(subs: &Subs) -> Vec<Value> {
    let jwks = subs.subs.jwks();
    jwks["keys"].as_array().unwrap().iter().map(|key| key["kid"].clone()).collect()
}

/// Point 50: what was signed can be verified as long as a receiver takes it for new.
#[test]
fn another_key_signs_when_receivers_know_it_and_the_old_one_stays_as_long_as_it_may_be_needed() {
    let mut subs = Subs::new(338);
    let mut keeps = hook();
    keeps["lease_ttl_ms"] = json!(600_000);
    subs.put("s", &keeps).unwrap();
    let old = kids(&subs);
    let (told, is_new) = subs.run(subs.subs.rotate_keys(b"")).unwrap();
    assert!(is_new);
    assert_eq!(told["signs_from"], "2023-11-14T22:23:20.000Z", "ten minutes later");
    let both = [old[0].clone(), told["kid"].clone()];
    assert_eq!(subs.run(subs.subs.rotate_keys(b"{}")), Ok((told.clone(), false)), "it waits");
    for (seconds, signs, published) in
        [(0, 0, 2), (599, 0, 2), (1, 1, 2), (3599, 1, 2), (1, 1, 1), (10_000, 1, 1)]
    {
        subs.store.clock.advance(std::time::Duration::from_secs(seconds));
        subs = subs.crash();
        subs.put_stream(&format!("events/{seconds}-{published}-{signs}"), "[1]");
        let webhook = subs.turn().pop().expect("it is due");
        subs.verify(&webhook);
        let header = &webhook.headers[1].1;
        assert!(header.contains(both[signs].as_str().unwrap()), "{header}");
        assert_eq!(subs.get("s")["webhook"]["signing"]["kid"], both[signs]);
        assert_eq!(kids(&subs), both[2 - published..]);
        subs.run(subs.subs.delivered(&webhook, Delivered::Done)).unwrap();
    }
    assert_eq!(subs.run(subs.subs.rotate_keys(b"{")).unwrap_err().code(), "INVALID_REQUEST");
    assert!(subs.run(subs.subs.rotate_keys(b"")).unwrap().1, "and another one");
}

/// Point 50: a key that others know is good for nothing.
#[test]
fn a_compromised_key_is_withdrawn_at_once_with_the_tokens_of_its_time() {
    let subs = Subs::new(339);
    subs.put("s", &hook()).unwrap();
    subs.put_stream("events/a", "[1]");
    let webhook = subs.turn().pop().unwrap();
    let body: Value = serde_json::from_slice(&webhook.body).unwrap();
    subs.run(subs.subs.rotate_keys(b"")).unwrap();
    let old = kids(&subs);
    let (told, is_new) = subs.run(subs.subs.rotate_keys(br#"{"compromised":true}"#)).unwrap();
    assert!(is_new && !old.contains(&told["kid"]));
    subs.run(subs.subs.delivered(&webhook, Delivered::Failed)).unwrap();
    let mut subs = subs;
    for _ in 0..2 {
        assert_eq!(kids(&subs), [told["kid"].clone()]);
        let report = json!({ "wake_id": body["wake_id"], "generation": 1, "done": true });
        let token = body["callback_token"].as_str();
        assert_eq!(subs.ack("s", token, &report), Err(Refusal::Unauthorized));
        subs.store.clock.advance(std::time::Duration::from_secs(90));
        let again = subs.turn().pop().expect("its wake comes again");
        subs.verify(&again);
        assert!(again.headers[1].1.contains(told["kid"].as_str().unwrap()));
        subs = subs.crash();
    }
}
