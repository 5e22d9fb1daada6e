use highwater_log::ids::Offset;
use highwater_log::request::{CreateOutcome, End};
use highwater_streams::fields::Lifetime;
use highwater_streams::offset::Place;
use highwater_streams::service::{Append, Create, Limits, Taken};

use crate::support::*;

/// Point 42.
#[test]
fn a_fork_begins_as_a_prefix_of_its_source_and_inherits_its_type() {
    let store = Store::new(120);
    store.put("s", &create("Text/Plain", "first")).unwrap();
    store.post("s", &append(TEXT, "second")).unwrap();
    for (name, offset, expected) in
        [("f", None, "firstsecond"), ("g", Some(5), "first"), ("h", Some(0), "")]
    {
        let made = store.put(name, &fork("s", offset, 0)).unwrap();
        assert_eq!(made.content_type.as_given(), "Text/Plain");
        assert_eq!(made.tail, Offset(expected.len() as u64));
        assert_eq!(store.all(name), expected);
    }
    let body = Create { body: b"own", ..fork("s", Some(5), 0) };
    store.put("i", &body).unwrap();
    store.post("i", &append(TEXT, "!")).unwrap();
    store.post("s", &append(TEXT, "third")).unwrap();
    assert_eq!(store.all("i"), "firstown!");
    let store = store.crash();
    assert_eq!((store.all("i"), store.all("f")), ("firstown!".into(), "firstsecond".into()));
}

/// Point 42.
#[test]
fn forks_that_cannot_be_are_refused_and_hold_no_reference() {
    let store = Store::new(121);
    store.put("s", &create(TEXT, "abc")).unwrap();
    store.put("taken", &create(TEXT, "")).unwrap();
    let mistyped = Create { content_type: Some(typed(JSON)), ..fork("s", None, 0) };
    for (name, request, expected) in [
        ("f", fork("nothing", None, 0), "FORK_SOURCE_NOT_FOUND"),
        ("f", fork("s", Some(4), 0), "FORK_BEYOND_TAIL"),
        ("f", fork("s", Some(u64::MAX), 0), "FORK_BEYOND_TAIL"),
        ("f", mistyped, "CONTENT_TYPE_MISMATCH"),
        ("taken", fork("s", None, 0), "STREAM_EXISTS"),
    ] {
        assert_eq!(code(store.put(name, &request)), expected, "{request:?}");
    }
    store.delete("s").unwrap();
    assert_eq!(code(store.get("s", Place::Start)), "STREAM_NOT_FOUND", "not kept for a fork");
}

/// Point 42.
#[test]
fn the_same_fork_again_is_no_change_even_when_its_source_is_gone() {
    let store = Store::new(122);
    store.put("s", &create(TEXT, "hello")).unwrap();
    for (name, request) in [("f", fork("s", None, 0)), ("g", fork("s", Some(1), 2))] {
        store.put(name, &request).unwrap();
    }
    store.post("s", &append(TEXT, " more")).unwrap();
    let check = |store: &Store| {
        for (name, request) in [
            ("f", fork("s", None, 0)),
            ("g", fork("s", Some(1), 2)),
            ("f", Create { content_type: Some(typed(TEXT)), ..fork("s", None, 0) }),
        ] {
            let again = store.put(name, &request).unwrap();
            assert_eq!(again.outcome, CreateOutcome::Existing, "{request:?}");
        }
        for (name, request) in [
            ("g", fork("s", Some(1), 3)),
            ("g", fork("s", Some(2), 2)),
            ("g", fork("t", Some(1), 2)),
            ("g", create(TEXT, "")),
            ("f", closed(fork("s", None, 0))),
            ("f", Create { lifetime: ttl(9), ..fork("s", None, 0) }),
        ] {
            assert_eq!(code(store.put(name, &request)), "STREAM_EXISTS", "{request:?}");
        }
    };
    check(&store);
    store.delete("s").unwrap();
    check(&store);
    check(&store.crash());
}

/// Point 43.
#[test]
fn a_sub_offset_counts_bytes_or_messages_behind_the_offset() {
    let store = Store::new(123);
    store.put("t", &create(TEXT, "first")).unwrap();
    store.post("t", &append(TEXT, "second")).unwrap();
    store.put("j", &create(JSON, r#"[{"a":1},[2,3],"x",{"d":4}]"#)).unwrap();
    let first = 10;
    for (name, request, expected) in [
        ("t0", fork("t", Some(0), 3), "fir"),
        ("t1", fork("t", Some(5), 3), "firstsec"),
        ("t2", fork("t", Some(5), 6), "firstsecond"),
        ("t3", Create { body: b"XY", ..fork("t", Some(0), 3) }, "firXY"),
        ("j0", fork("j", Some(0), 2), "[{\"a\":1}, \n[2,3]]"),
        ("j1", fork("j", Some(first), 1), "[{\"a\":1}, \n[2,3]]"),
        ("j2", fork("j", Some(0), 4), "[{\"a\":1}, \n[2,3], \n\"x\", \n{\"d\":4}]"),
        ("j3", Create { body: b"[7]", ..fork("j", Some(0), 1) }, "[{\"a\":1}, \n7]"),
    ] {
        let made = store.put(name, &request).unwrap();
        assert_eq!(store.chunks(name).last().unwrap().is_empty(), expected.is_empty());
        assert_eq!(text_of(&store.get(name, Place::Start).unwrap()), expected, "{name}");
        let end = store.get(name, Place::At(made.tail)).unwrap();
        assert!(end.is_up_to_date && end.next == made.tail);
    }
    for (source, offset, sub, expected) in [
        ("t", 0, 6, "FORK_BEYOND_APPEND"),
        ("t", 0, u64::MAX, "FORK_BEYOND_APPEND"),
        ("t", 3, 3, "FORK_BEYOND_APPEND"),
        ("t", 5, 7, "FORK_BEYOND_TAIL"),
        ("j", 0, 5, "FORK_BEYOND_TAIL"),
        ("j", first, 4, "FORK_BEYOND_TAIL"),
    ] {
        let refused = code(store.put("x", &fork(source, Some(offset), sub)));
        assert_eq!(refused, expected, "{source} {offset} {sub}");
    }
    assert_eq!(code(store.put("x", &fork("j", Some(3), 0))), "OFFSET_INSIDE_MESSAGE");
    assert_eq!(code(store.put("x", &fork("j", Some(3), 1))), "OFFSET_INSIDE_MESSAGE");
    store.put("e", &create(TEXT, "")).unwrap();
    assert_eq!(code(store.put("x", &fork("e", Some(0), 1))), "FORK_BEYOND_TAIL");
}

/// Point 43: of bytes at home only the nearest end behind them is known, and that no append is
/// longer than the limit.
#[test]
fn a_sub_offset_in_bytes_reaches_to_the_end_of_the_append_as_far_as_that_is_known() {
    let store = Store::new(124);
    store.put("t", &create(TEXT, "first")).unwrap();
    store.post("t", &append(TEXT, "second")).unwrap();
    let long = "x".repeat(8 << 10);
    store.put("l", &create(TEXT, &long)).unwrap();
    store.post("l", &append(TEXT, &long)).unwrap();
    let refused = |source, sub| code(store.put("x", &fork(source, Some(0), sub)));
    assert_eq!(refused("t", 6), "FORK_BEYOND_APPEND");
    store.log.checkpoint().unwrap();
    store.post("t", &append(TEXT, "third")).unwrap();
    store.put("t1", &fork("t", Some(0), 11)).unwrap();
    assert_eq!(store.all("t1"), "firstsecond");
    assert_eq!(refused("t", 12), "FORK_BEYOND_APPEND", "the log knows where it takes over");
    store.put("l1", &fork("l", Some(0), 8 << 10)).unwrap();
    assert_eq!(refused("l", (8 << 10) + 1), "FORK_BEYOND_APPEND", "no append is so long");
}

/// Point 43: wherever the messages are, and however many reads they take.
#[test]
fn a_sub_offset_in_messages_never_reaches_beyond_its_append() {
    let store = Store::new(133);
    let appends = [1_u64, 2000, 1, 3, 700];
    store.put("j", &create(JSON, "")).unwrap();
    for count in appends {
        let batch = format!("[{}]", ["1"].repeat(usize::try_from(count).unwrap()).join(","));
        store.post("j", &append(JSON, &batch)).unwrap();
    }
    let check = |state: &str| {
        let mut offset = 0;
        for (number, count) in (0..).zip(appends) {
            let name = format!("{state}{number}");
            let whole = store.put(&name, &fork("j", Some(offset), count)).unwrap();
            let beyond = code(store.put("x", &fork("j", Some(offset), count + 1)));
            let is_last = number + 1 == appends.len();
            let expected = if is_last { "FORK_BEYOND_TAIL" } else { "FORK_BEYOND_APPEND" };
            assert_eq!(beyond, expected, "{state} {number}");
            offset = whole.tail.0;
        }
        assert_eq!(store.streams.head(&path("j")).unwrap().tail.0, offset);
    };
    check("log");
    store.log.checkpoint().unwrap();
    check("home");
}

/// Who must not wait for a disk is told where one would have to.
#[test]
fn only_places_among_messages_that_have_moved_home_are_looked_for_on_the_disk() {
    let store = Store::new(132);
    store.put("t", &create(TEXT, "text")).unwrap();
    store.put("j", &create(JSON, "[1,2,3]")).unwrap();
    let is_cold = |source, offset| {
        let request = fork(source, offset, 1);
        store.streams.is_fork_cold(request.fork.as_ref().unwrap())
    };
    assert!(!is_cold("j", Some(0)), "it is in the log still");
    store.log.checkpoint().unwrap();
    assert!(is_cold("j", Some(0)) && is_cold("j", Some(3)));
    assert!(!is_cold("j", None) && !is_cold("t", Some(0)) && !is_cold("none", Some(0)));
}

/// Point 43: where a fork begins, an append of its own begins, too.
#[test]
fn a_sub_offset_of_a_fork_ends_with_what_it_inherits() {
    let store = Store::new(131);
    store.put("a", &create(TEXT, "abcdef")).unwrap();
    store.put("b", &fork("a", Some(0), 4)).unwrap();
    store.post("b", &append(TEXT, "XYZ")).unwrap();
    store.put("c", &fork("b", Some(0), 4)).unwrap();
    assert_eq!(store.all("c"), "abcd");
    assert_eq!(code(store.put("d", &fork("b", Some(0), 5))), "FORK_BEYOND_APPEND");
    store.put("d", &fork("b", Some(4), 3)).unwrap();
    assert_eq!(store.all("d"), "abcdXYZ");
}

/// Point 44.
#[test]
fn a_fork_starts_open_and_knows_no_producer_and_no_sequence() {
    let store = Store::new(125);
    store.put("s", &create(TEXT, "")).unwrap();
    let request = Append { sequence: Some(b"m"), ..produced(append(TEXT, "hello"), "p", 4, 0) };
    store.post("s", &request).unwrap();
    store.post("s", &close()).unwrap();
    store.put("f", &fork("s", Some(0), 3)).unwrap();
    assert!(!store.streams.head(&path("f")).unwrap().is_closed);
    let request = Append { sequence: Some(b"a"), ..produced(append(TEXT, "LO"), "p", 0, 0) };
    assert_eq!(store.post("f", &request).unwrap().taken, Taken::Now);
    assert_eq!(store.all("f"), "helLO");
    let done = Create { end: End::Close, ..fork("s", None, 0) };
    assert!(store.put("g", &done).unwrap().is_closed, "unless it is asked closed");
}

/// Point 44: the table of section 4.2.
#[test]
fn a_forks_life_is_its_own_or_else_its_sources() {
    let store = Store::new(126);
    let late = || until("2090-01-01T00:00:00Z");
    let later = || until("2095-01-01T00:00:00Z");
    let none = || Lifetime::Unsaid;
    for (number, (source, asked, expected)) in [
        (none(), none(), none()),
        (none(), ttl(7), ttl(7)),
        (none(), late(), late()),
        (ttl(5), none(), ttl(5)),
        (ttl(5), ttl(7), ttl(7)),
        (ttl(5), late(), late()),
        (late(), none(), late()),
        (late(), ttl(7), ttl(7)),
        (late(), later(), later()),
    ]
    .into_iter()
    .enumerate()
    {
        let (name, forked) = (format!("s{number}"), format!("f{number}"));
        store.put(&name, &Create { lifetime: source, ..create(TEXT, "x") }).unwrap();
        let request = Create { lifetime: asked, ..fork(&name, None, 0) };
        store.put(&forked, &request).unwrap();
        assert_eq!(store.streams.head(&path(&forked)).unwrap().lifetime, expected, "{number}");
        let again = store.put(&forked, &request).unwrap();
        assert_eq!(again.outcome, CreateOutcome::Existing, "{number}");
    }
}

/// Points 40 and 45.
#[test]
fn forks_of_forks_read_as_one_array_and_go_their_own_ways_in_any_lane() {
    for lanes in [1, 3] {
        let limits = Limits { chunk_bytes: 1 << 10, ..LIMITS };
        let store = Store::with(127, limits, lanes);
        store.put("a", &create(JSON, "[1,2]")).unwrap();
        store.put("b", &fork("a", Some(0), 1)).unwrap();
        store.post("b", &append(JSON, "\"b\"")).unwrap();
        store.put("c", &fork("b", None, 0)).unwrap();
        store.post("c", &append(JSON, "\"c\"")).unwrap();
        store.post("a", &append(JSON, "3")).unwrap();
        store.post("b", &append(JSON, "4")).unwrap();
        let check = |store: &Store| {
            assert_eq!(store.all("a"), "[1, \n2,\n3]");
            assert_eq!(store.all("b"), "[1, \n\"b\",\n4]");
            assert_eq!(store.all("c"), "[1, \n\"b\",\n\"c\"]");
            let inherited = store.get("c", Place::At(Offset(4))).unwrap();
            assert_eq!(text_of(&inherited), "[\"b\",\n\"c\"]");
        };
        check(&store);
        store.log.checkpoint().unwrap();
        check(&store);
        check(&store.crash());
    }
}

/// Point 46.
#[test]
fn a_source_with_forks_is_hidden_when_deleted_and_goes_with_the_last_of_them() {
    let store = Store::new(128);
    store.put("a", &create(TEXT, "shared")).unwrap();
    store.put("b", &fork("a", None, 0)).unwrap();
    store.put("c", &fork("b", None, 0)).unwrap();
    store.delete("a").unwrap();
    let hidden = |store: &Store, name: &str| {
        assert_eq!(code(store.get(name, Place::Start)), "STREAM_GONE");
        assert_eq!(code(store.streams.head(&path(name))), "STREAM_GONE");
        assert_eq!(code(store.post(name, &append(TEXT, "x"))), "STREAM_GONE");
        assert_eq!(code(store.post(name, &close())), "STREAM_GONE");
        assert_eq!(code(store.delete(name)), "STREAM_GONE");
        assert_eq!(code(store.put(name, &create(TEXT, ""))), "STREAM_NAME_TAKEN");
        assert_eq!(code(store.put("d", &fork(name, None, 0))), "FORK_SOURCE_GONE");
    };
    hidden(&store, "a");
    let store = store.crash();
    hidden(&store, "a");
    store.delete("b").unwrap();
    hidden(&store, "b");
    assert_eq!(store.all("c"), "shared");
    store.delete("c").unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(code(store.get(name, Place::Start)), "STREAM_NOT_FOUND");
        store.put(name, &create(JSON, "[1]")).unwrap();
        assert_eq!(store.all(name), "[1]");
    }
}

/// Point 46.
#[test]
fn a_fork_outlives_its_sources_expiry() {
    let store = Store::new(129);
    store.put("s", &Create { lifetime: ttl(5), ..create(TEXT, "kept") }).unwrap();
    store.put("f", &Create { lifetime: ttl(500), ..fork("s", None, 0) }).unwrap();
    store.advance(60);
    let gone = code(store.get("s", Place::Start));
    assert!(["STREAM_GONE", "STREAM_NOT_FOUND"].contains(&gone), "{gone}");
    assert_eq!(store.all("f"), "kept");
    assert_eq!(store.crash().all("f"), "kept");
}
