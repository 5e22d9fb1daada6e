use highwater_log::ids::Offset;
use highwater_streams::offset::Place;
use highwater_streams::service::Limits;

use crate::support::*;

/// Point 40.
#[test]
fn a_read_is_one_array_across_appends() {
    let store = Store::new(80);
    store.put("a", &create(JSON, "{ \"a\" : 1 }")).unwrap();
    store.post("a", &append(JSON, "[2, [3]]")).unwrap();
    store.post("a", &append("application/json; charset=utf-8", "\"x\"")).unwrap();
    assert_eq!(store.all("a"), "[{\"a\":1},\n2, \n[3],\n\"x\"]");
    let store = store.crash();
    assert_eq!(store.all("a"), "[{\"a\":1},\n2, \n[3],\n\"x\"]");
}

/// Points 26 and 41.
#[test]
fn chunks_hold_whole_messages_and_a_long_one_is_never_torn() {
    for limit in [1, 5, 8, 64, 1000] {
        let limits = Limits { chunk_bytes: limit, ..LIMITS };
        let store = Store::with(81, limits, 1);
        store.put("a", &create(JSON, "")).unwrap();
        let long = format!("\"{}\"", "x,\\n".repeat(100));
        let messages: Vec<String> =
            (0..20).map(|n| if n % 7 == 3 { long.clone() } else { n.to_string() }).collect();
        for (n, message) in messages.iter().enumerate() {
            store.post("a", &append(JSON, message)).unwrap();
            if n == 10 {
                store.log.checkpoint().unwrap();
            }
        }
        let mut found = Vec::new();
        for chunk in store.chunks("a") {
            let values: Vec<serde_json::Value> = serde_json::from_str(&chunk).unwrap();
            assert!(!values.is_empty());
            found.extend(values.iter().map(ToString::to_string));
        }
        assert_eq!(found, messages, "limit {limit}");
    }
}

/// Point 41.
#[test]
fn a_made_up_offset_inside_a_message_is_refused() {
    let store = Store::new(82);
    let tail = store.put("a", &create(JSON, "[[1,2],{\"a\":\",\\n\"}]")).unwrap().tail;
    store.post("a", &append(JSON, "7")).unwrap();
    let boundaries = [0, 8, tail.0, tail.0 + 3];
    for at in 0..=tail.0 + 3 {
        let read = store.get("a", Place::At(Offset(at)));
        if boundaries.contains(&at) {
            read.unwrap();
        } else {
            assert_eq!(code(read), "OFFSET_INSIDE_MESSAGE", "{at}");
        }
    }
    store.log.checkpoint().unwrap();
    assert_eq!(text_of(&store.get("a", Place::At(Offset(8))).unwrap()), "[{\"a\":\",\\n\"},\n7]");
}
