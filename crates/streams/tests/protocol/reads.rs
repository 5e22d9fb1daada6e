use highwater_log::ids::Offset;
use highwater_streams::offset::Place;
use highwater_streams::service::Limits;

use crate::support::*;

/// Points 25 and 29.
#[test]
fn start_and_tail_have_names_and_what_comes_from_now_on_is_empty() {
    let store = Store::new(60);
    store.put("t", &create(TEXT, "abc")).unwrap();
    store.put("j", &create(JSON, "[1]")).unwrap();
    let chunk = store.get("t", Place::Start).unwrap();
    assert_eq!((text_of(&chunk).as_str(), chunk.next), ("abc", Offset(3)));
    assert!(chunk.is_up_to_date && !chunk.is_closed && chunk.etag.is_some());
    let now = store.get("t", Place::Now).unwrap();
    assert_eq!((text_of(&now).as_str(), now.next), ("", Offset(3)));
    assert!(now.is_up_to_date && now.etag.is_none());
    assert_eq!(text_of(&store.get("j", Place::Now).unwrap()), "[]");
    store.post("t", &close()).unwrap();
    assert!(store.get("t", Place::Now).unwrap().is_closed);
    assert_eq!(code(store.get("nothing", Place::Now)), "STREAM_NOT_FOUND");
}

/// Point 26.
#[test]
fn a_read_gives_one_chunk_and_says_up_to_date_and_closed_at_the_tail_only() {
    let store = Store::new(61);
    let line = "0123456789".repeat(7);
    store.put("a", &create(TEXT, "")).unwrap();
    for _ in 0..3 {
        store.post("a", &append(TEXT, &line)).unwrap();
    }
    store.post("a", &close()).unwrap();
    let check = |store: &Store| {
        let first = store.get("a", Place::Start).unwrap();
        assert_eq!((first.body.len(), first.next), (64, Offset(64)), "the limit, across appends");
        assert!(!first.is_up_to_date && !first.is_closed);
        let chunks = store.chunks("a");
        let lengths: Vec<usize> = chunks.iter().map(String::len).collect();
        assert_eq!(lengths, [64, 64, 64, 18]);
        assert_eq!(chunks.concat(), line.repeat(3));
        let last = store.get("a", Place::At(Offset(192))).unwrap();
        assert!(last.is_up_to_date && last.is_closed);
        let end = store.get("a", Place::At(Offset(210))).unwrap();
        assert!(end.body.is_empty() && end.is_closed && end.next == Offset(210));
    };
    check(&store);
    store.log.checkpoint().unwrap();
    check(&store);
    store.put("b", &create(TEXT, "")).unwrap();
    let store = store.crash();
    check(&store);
}

/// Point 27.
#[test]
fn beyond_the_tail_nothing_is_missing() {
    let store = Store::new(62);
    store.put("a", &create(TEXT, "abc")).unwrap();
    store.put("j", &create(JSON, "[1]")).unwrap();
    for (name, tail, body) in [("a", 3, ""), ("j", 3, "[]")] {
        let chunk = store.get(name, Place::At(Offset(u64::MAX))).unwrap();
        assert_eq!((text_of(&chunk).as_str(), chunk.next), (body, Offset(tail)));
        assert!(chunk.is_up_to_date);
    }
}

/// Points 28 and 29.
#[test]
fn a_tag_names_exactly_one_answer_and_the_same_range_is_the_same_bytes() {
    let store = Store::new(63);
    store.put("a", &create(TEXT, "abc")).unwrap();
    let tag = |place| store.get("a", place).unwrap().etag.unwrap().to_string();
    let first = tag(Place::Start);
    assert_eq!(tag(Place::At(Offset(0))), first, "the same answer");
    assert_ne!(tag(Place::At(Offset(1))), first);
    let before = store.get("a", Place::Start).unwrap();
    assert_eq!(store.get("a", Place::Start).unwrap(), before);
    store.post("a", &append(TEXT, "d")).unwrap();
    let second = tag(Place::Start);
    assert_ne!(second, first);
    store.post("a", &close()).unwrap();
    assert_ne!(tag(Place::Start), second, "an end is not hidden behind a tag");
    let at_end = tag(Place::At(Offset(4)));
    assert!(at_end.ends_with(":c\""), "{at_end}");
}

/// Point 28: a cache that is told that its answer is still good keeps its headers.
#[test]
fn two_answers_of_one_tag_say_the_same_of_where_they_end() {
    for (kind, parts) in [
        (TEXT, ["x".repeat(64), "y".to_owned()]),
        (BYTES, ["x".repeat(64), "y".to_owned()]),
        (JSON, [format!("\"{}\"", "x".repeat(40)), format!("\"{}\"", "y".repeat(40))]),
    ] {
        let store = Store::new(68);
        store.put("a", &create(kind, "")).unwrap();
        let mut answers = Vec::new();
        for part in &parts {
            store.post("a", &append(kind, part)).unwrap();
            answers.push(store.get("a", Place::Start).unwrap());
        }
        store.post("a", &close()).unwrap();
        answers.push(store.get("a", Place::Start).unwrap());
        let [whole, part, ..] = answers.as_slice() else { panic!("three answers") };
        assert_eq!((whole.next, &whole.body), (part.next, &part.body), "the same range");
        assert!(whole.is_up_to_date && !part.is_up_to_date);
        for (one, other) in answers.iter().flat_map(|one| answers.iter().map(move |o| (one, o))) {
            assert_eq!(one.etag == other.etag, one == other, "{one:?} {other:?}");
        }
    }
}

/// Point 26: whoever reads chunk by chunk gets whole characters.
#[test]
fn a_chunk_of_text_ends_with_a_whole_character() {
    let store = Store::new(64);
    let text = "€".repeat(50);
    store.put("t", &create(TEXT, &text)).unwrap();
    store.put("b", &create(BYTES, &text)).unwrap();
    let chunks = store.chunks("t");
    assert_eq!(chunks[0].len(), 63, "one less than the limit");
    assert_eq!(chunks.concat(), text);
    assert_eq!(store.get("b", Place::Start).unwrap().body.len(), 64, "bytes are bytes");
    let tiny = Store::with(65, Limits { chunk_bytes: 1, ..LIMITS }, 1);
    tiny.put("t", &create(TEXT, "€")).unwrap();
    let chunk = tiny.get("t", Place::Start).unwrap();
    assert_eq!(chunk.next, Offset(1), "a chunk is never empty before the tail");
}

/// Streams are listed in pages, and the server's own are not among them.
#[test]
fn streams_are_listed_by_prefix_in_pages() {
    let subs = crate::subscribing::Subs::new(67);
    for name in ["b/2", "a", "b/1", "b/3", "z"] {
        subs.put_stream(name, "[]");
    }
    let list = |prefix, after, limit| -> Vec<String> {
        let paths = subs.store.streams.list(prefix, after, limit);
        paths.iter().map(ToString::to_string).collect()
    };
    assert_eq!(list("", None, 2), ["a", "b/1"]);
    assert_eq!(list("", Some("b/1"), 9), ["b/2", "b/3", "z"]);
    assert_eq!(list("b/", None, 9), ["b/1", "b/2", "b/3"]);
    assert_eq!(list("__ds/", None, 9), Vec::<String>::new());
    assert_eq!(list("", None, 1), ["a"], "behind reserved names");
}

/// Point 39: what a reader keeps of one chunk leads exactly to the next.
#[test]
fn offsets_of_appends_and_chunks_are_one_order() {
    let store = Store::new(66);
    store.put("a", &create(TEXT, "")).unwrap();
    let mut last = store.streams.head(&path("a")).unwrap().tail;
    for body in ["a", "bc", "def"] {
        let tail = store.post("a", &append(TEXT, body)).unwrap().tail;
        assert!(tail > last);
        assert_eq!(text_of(&store.get("a", Place::At(last)).unwrap()), body);
        last = tail;
    }
}
