//! What must hold for any bytes that a client sends: nothing panics, nothing is taken twice or
//! differently, nothing appended forges an event.
//!
//! As in `lib.rs`, one function for each thing; a file of its own, because these are of another
//! crate. `crates/streams/tests/protocol/corpus.rs` replays the kept inputs.

use std::time::Duration;

use highwater_streams::content::{ContentType, Kind};
use highwater_streams::cursor::Cursor;
use highwater_streams::etag::{ETag, Reach, StoreTag};
use highwater_streams::fields::{self, ForkFrom, Lifetime};
use highwater_streams::json::{self, Count, Counted};
use highwater_streams::offset::{Place, Token};
use highwater_streams::path::{Mount, Target as Resolved};
use highwater_streams::service::Body;
use highwater_streams::sse;
use highwater_streams::subscriptions::config::Config;
use highwater_streams::subscriptions::glob::Glob;
use highwater_streams::subscriptions::url_policy::{Endpoint, UrlPolicy};

/// Takes bytes and checks what comes of them.
pub type Target = fn(&[u8]);

/// Every function here, by the name of its folder in `corpus/`.
pub const TARGETS: [(&str, Target); 5] = [
    ("json", flatten),
    ("path", path),
    ("fields", texts),
    ("events", events),
    ("subscription", subscription),
];

/// Stores a JSON body: what is stored means what was sent, and is stored the same again.
pub fn flatten(data: &[u8]) {
    let mut stored = Vec::new();
    let taken = json::flatten(data, &mut stored);
    let theirs = serde_json::from_slice::<&serde_json::value::RawValue>(data);
    let Ok(count) = taken else {
        // They take deeper ones, or the same ones.
        assert!(theirs.is_err() || depth(data) > json::MOST_DEPTH, "another reader takes it");
        return;
    };
    if count > 0 {
        let whole = Counted::Whole(stored.len());
        assert_eq!(Count::new(count).piece(&stored), whole, "as many as were counted");
        let ends = Counted::AppendEnds(stored.len());
        assert_eq!(Count::new(count + 1).piece(&stored), ends, "and no more");
    }
    assert!(!stored.contains(&b'\r'));
    let mut array = b"[".to_vec();
    array.extend_from_slice(stored.strip_suffix(json::ENDING).unwrap_or_default());
    array.push(b']');
    let mut again = Vec::new();
    assert_eq!(json::flatten(&array, &mut again), Ok(count));
    assert_eq!(again, stored);
}

/// Resolves a target: a stream's own URL leads to it again.
pub fn path(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mount = Mount::new("/v1/stream").expect("a plain path");
    if let Ok(Resolved::Stream(path)) = mount.resolve(text) {
        assert!(path.segments().all(|segment| !matches!(segment, "" | "." | "..")));
        assert_ne!(path.segments().next(), Some("__ds"));
        assert_eq!(mount.stream(&mount.url_path(&path)), Ok(path));
    }
}

/// Reads a text as every field there is.
pub fn texts(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let some = Some(text);
    let mount = Mount::new("/v1/stream").expect("a plain path");
    if let Ok(Place::At(offset)) = Place::parse(text)
        && offset.0 != u64::MAX
    {
        assert_eq!(Token(offset).to_string(), text);
    }
    if let Ok(content_type) = ContentType::parse(text) {
        let again = ContentType::parse(content_type.as_given());
        assert_eq!(again.as_ref().map(ContentType::plain), Ok(content_type.plain()));
    }
    if let Ok(Lifetime::Ttl { seconds }) = Lifetime::parse(some, None) {
        assert_eq!(seconds.to_string(), text);
    }
    drop(Lifetime::parse(None, some));
    drop(fields::producer(some, some, some));
    drop(ForkFrom::parse(&mount, some, some, some));
    drop(Cursor::parse(text).map(|cursor| cursor.to_string()));
    fields::closes(some);
    let etag = ETag {
        store: StoreTag(7),
        stream: highwater_log::ids::StreamId::new(highwater_log::ids::LaneId(0), 1),
        start: highwater_log::ids::Offset(3),
        end: highwater_log::ids::Offset(9),
        reach: Reach::Tail,
    };
    // A list names it, if at all, by its own text or by the star.
    assert!(
        !etag.is_named_by(text) || text.contains(&etag.to_string()) || text.contains('*'),
        "another tag is taken for this one"
    );
    if let Ok(glob) = Glob::parse(text) {
        let again = Glob::parse(&glob.to_string()).expect("what is written can be read");
        assert_eq!(again.to_string(), glob.to_string());
        if let Ok(path) = highwater_streams::path::StreamPath::relative(text) {
            assert_eq!(glob.matches(&path), again.matches(&path));
        }
    }
    for policy in [UrlPolicy::Production, UrlPolicy::Development] {
        drop(Endpoint::parse(text, policy));
    }
}

/// Writes events: every line is the writer's own.
pub fn events(data: &[u8]) {
    let control =
        sse::Control { next: highwater_log::ids::Offset(1), is_up_to_date: true, is_closed: false };
    for kind in [Kind::Text, Kind::Bytes] {
        let mut out = Vec::new();
        sse::write_data(kind, &Body::from(bytes::Bytes::copy_from_slice(data)), &mut out);
        sse::write_control(&control, Cursor::at(Duration::ZERO), &mut out);
        let text = std::str::from_utf8(&out).expect("events are text");
        assert!(!text.contains('\r'));
        let mut names = Vec::new();
        for line in text.split('\n') {
            let known = ["event: data", "event: control", ""].contains(&line);
            assert!(known || line.starts_with("data:"), "{line}");
            names.extend(line.strip_prefix("event: "));
        }
        let expected: &[&str] = if data.is_empty() { &["control"] } else { &["data", "control"] };
        assert_eq!(names, expected);
    }
}

/// Reads the body of a subscription: what is taken is kept as it is.
pub fn subscription(data: &[u8]) {
    if let Ok(config) = Config::parse(data, UrlPolicy::Production) {
        let kept = serde_json::to_vec(&config).expect("it can be written");
        assert_eq!(serde_json::from_slice::<Config>(&kept).ok(), Some(config.clone()));
        assert_eq!(config.pattern.is_some(), config.glob().is_some());
    }
}

/// Levels of arrays and objects, at most, whatever they are.
fn depth(data: &[u8]) -> usize {
    data.iter().filter(|byte| matches!(byte, b'[' | b'{')).count()
}
