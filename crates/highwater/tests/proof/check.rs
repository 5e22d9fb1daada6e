//! `highwater check` on stores in real directories: what it says, what its exit code is, and that
//! it leaves every byte and every time of change as it was.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
use highwater_log::options::Options;
use highwater_log::request::{Append, Config, Create, End};
use highwater_log::{Driver, Log, Machine};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Answer, entries, highwater, temporary};

fn open(dir: &Path) -> Log {
    let machine = Machine {
        disk: Arc::new(RealDisk::open(dir).expect("the directory is there")),
        clock: Arc::new(SystemClock::new()),
        rng: Box::new(SystemRng::new()),
    };
    let options = Options {
        segment_bytes: 64 << 10,
        max_payload_bytes: 8 << 10,
        frame_bytes: 16 << 10,
        ..Options::default()
    };
    Log::open(machine, &options, Driver::Caller).expect("the log opens")
}

fn append(log: &Log, payload: &[u8]) {
    let append = Append {
        name: "a \"name\"",
        payload,
        end: End::Open,
        content_type: None,
        producer: None,
        sequence: None,
    };
    log.append(&append).expect("it is taken").wait().expect("it is durable");
}

/// A store with bytes at home and in its log.
fn store() -> TempDir {
    let dir = temporary();
    let log = open(dir.path());
    let config = Config::default();
    let create = Create { name: "a \"name\"", config: &config, payload: b"", end: End::Open };
    log.create(&create).expect("it is taken").wait().expect("it is durable");
    for number in 0..12 {
        append(&log, &[number; 8000]);
    }
    log.checkpoint().expect("bytes move home");
    for number in 0..4 {
        append(&log, &[number; 5000]);
    }
    dir
}

fn check(dir: &Path, words: &str) -> Answer {
    highwater(&format!("check {} {words}", dir.display()))
}

/// Every path below a directory, with its bytes and its times of change.
fn state(dir: &Path) -> BTreeMap<PathBuf, (Option<Vec<u8>>, SystemTime, i64)> {
    use std::os::unix::fs::MetadataExt as _;
    let mut found = BTreeMap::new();
    for path in entries(dir).into_iter().chain([dir.to_owned()]) {
        let meta = path.metadata().expect("it is there");
        let bytes = meta.is_file().then(|| std::fs::read(&path).expect("it can be read"));
        let modified = meta.modified().expect("files have a time");
        found.insert(path.clone(), (bytes, modified, meta.ctime_nsec()));
        if meta.is_dir() && path != dir {
            found.extend(state(&path));
        }
    }
    found
}

fn flip(path: &Path, at: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).expect("it opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it is that long");
    file.write_all_at(&[byte[0] ^ 4], at).expect("it can be written");
}

fn json(answer: &Answer) -> Value {
    serde_json::from_str(&answer.stdout).expect("JSON")
}

#[test]
fn a_sound_store_ends_with_zero_and_nothing_is_touched() {
    let store = store();
    let before = state(store.path());
    let text = check(store.path(), "").expect_code(0).stdout;
    assert!(text.contains("1 streams") && text.ends_with("clean\n"), "{text}");
    let report = json(&check(store.path(), "--json").expect_code(0));
    assert_eq!(report["verdict"], "clean");
    assert_eq!(report["lanes"][0]["home_bytes"], 96_000);
    let dump = check(store.path(), "--dump").expect_code(0).stdout;
    let lines = |word: &str| dump.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!(report["lanes"][0]["frames"], lines("frame "));
    assert_eq!(report["lanes"][0]["records"], lines("record "));
    assert!(dump.contains(" append stream 0 offset 96000 payload 5000 "), "{dump}");
    assert_eq!(state(store.path()), before);
    check(store.path(), "--dump --json").expect_error(&["--dump", "--json"]);
}

#[test]
fn damage_ends_with_one_and_names_the_range() {
    let store = store();
    let home = store.path().join("streams/0/0000000000000000");
    flip(&home, 4096 + 70_000);
    let before = state(store.path());
    let text = check(store.path(), "").expect_code(1).stdout;
    for words in ["DAMAGED     streams/0/0000000000000000 at 69632", "checksum", "restore the file"]
    {
        assert!(text.contains(words), "{words:?} is not in: {text}");
    }
    let report = json(&check(store.path(), "--json").expect_code(1));
    assert_eq!(report["damage"][0]["reaches_acknowledged"], true);
    assert_eq!(state(store.path()), before);
}

#[test]
fn a_torn_tail_ends_with_three_and_is_gone_after_the_next_opening() {
    let store = store();
    let report = json(&check(store.path(), "--json").expect_code(0));
    let dump = check(store.path(), "--dump").expect_code(0).stdout;
    // The last frame again, with a byte of its records changed: nothing says that it was durable.
    let file = dump.lines().rfind(|line| line.starts_with("segment ")).expect("a segment");
    let file = store.path().join(file.rsplit(' ').next().expect("its file"));
    let frame = dump.lines().rfind(|line| line.starts_with("frame ")).expect("a frame");
    let lsn: u64 = frame.split(' ').nth(1).and_then(|lsn| lsn.parse().ok()).expect("its LSN");
    flip(&file, lsn % 65536 + 200);
    let text = check(store.path(), "").expect_code(3).stdout;
    assert!(text.contains("torn tail") && text.contains("cuts it off"), "{text}");
    let torn = json(&check(store.path(), "--json").expect_code(3));
    assert_eq!(torn["lanes"][0]["end_lsn"], lsn);
    assert_eq!(torn["lanes"][0]["torn_tail"]["offset"], lsn % 65536);
    assert_eq!(report["lanes"][0]["torn_tail"], Value::Null);
    drop(open(store.path()));
    check(store.path(), "").expect_code(0);
}

#[test]
fn an_orderly_end_is_told_and_damage_to_its_last_commit_ends_with_one() {
    let store = store();
    let text = check(store.path(), "").expect_code(0).stdout;
    assert!(text.contains("last commit not vouched for"), "{text}");
    let report = json(&check(store.path(), "--json").expect_code(0));
    assert_eq!(report["lanes"][0]["is_vouched"], false);
    let log = open(store.path());
    append(&log, b"last");
    log.close().expect("nothing fails");
    drop(log);
    let text = check(store.path(), "").expect_code(0).stdout;
    assert!(text.contains("last commit vouched for"), "{text}");
    let report = json(&check(store.path(), "--json").expect_code(0));
    assert_eq!(report["lanes"][0]["is_vouched"], true);
    let dump = check(store.path(), "--dump").expect_code(0).stdout;
    let records: Vec<&str> = dump.lines().filter(|line| line.starts_with("record ")).collect();
    let [.., last, witness] = &records[..] else { panic!("{dump}") };
    assert!(last.contains(" append ") && witness.contains(" witness "), "{dump}");
    let file = dump.lines().rfind(|line| line.starts_with("segment ")).expect("a segment");
    let file = store.path().join(file.rsplit(' ').next().expect("its file"));
    let at: u64 = last.split(' ').nth(1).and_then(|lsn| lsn.parse().ok()).expect("its LSN");
    flip(&file, at % 65536 + 40);
    let report = json(&check(store.path(), "--json").expect_code(1));
    assert_eq!(report["damage"][0]["reaches_acknowledged"], true);
}

#[test]
fn no_store_one_in_use_and_a_missing_directory_are_errors() {
    let store = store();
    let log = open(store.path());
    check(store.path(), "").expect_error(&["running log", "stop"]);
    drop(log);
    let empty = temporary();
    check(empty.path(), "").expect_error(&["no store here"]);
    assert_eq!(entries(empty.path()), Vec::<PathBuf>::new(), "no lock is made");
    check(&empty.path().join("absent"), "").expect_error(&["absent"]);
}
