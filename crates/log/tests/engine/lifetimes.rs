//! Forks, and streams whose time is over.

use std::time::Duration;

use highwater_disk::sim::{SimClock, SimDisk};
use highwater_log::Log;
use highwater_log::error::{LogError, Rejection};
use highwater_log::ids::Offset;
use highwater_log::options::Options;
use highwater_log::request::{Config, Create, CreateOutcome, End, Expiry, Fork};

use crate::support::*;

fn fork<'a>(name: &'a str, source: &'a str, offset: Option<u64>, config: &'a Config) -> Fork<'a> {
    let offset = offset.map(Offset);
    Fork { name, source, offset, source_id: None, config, payload: b"", end: End::Open }
}

fn rejected<T: std::fmt::Debug>(result: Result<T, LogError>) -> Rejection {
    match result {
        Err(LogError::Rejected(rejection)) => rejection,
        other => panic!("not rejected: {other:?}"),
    }
}

#[test]
fn a_fork_is_its_sources_prefix_and_goes_its_own_way_in_any_lane() {
    for lanes in [1, 3] {
        let disk = disk(31);
        let options = Options { lanes, ..small() };
        let log = open(&disk, &options).unwrap();
        create(&log, "source").unwrap().wait().unwrap();
        append(&log, "source", b"one two three").unwrap().wait().unwrap();
        let text = text();
        log.fork(&fork("a", "source", Some(7), &text)).unwrap().wait().unwrap();
        log.fork(&fork("b", "a", None, &text)).unwrap().wait().unwrap();
        append(&log, "a", b" A").unwrap().wait().unwrap();
        append(&log, "b", b" B").unwrap().wait().unwrap();
        append(&log, "source", b" four").unwrap().wait().unwrap();
        let check = |log: &Log| {
            assert_eq!(read_all(log, "source").unwrap(), b"one two three four");
            assert_eq!(read_all(log, "a").unwrap(), b"one two A");
            assert_eq!(read_all(log, "b").unwrap(), b"one two B");
            assert_eq!(log.info("a").unwrap().fork.unwrap().offset, Offset(7));
        };
        check(&log);
        log.checkpoint().unwrap();
        check(&log);
        drop(log);
        check(&open(&disk, &options).unwrap());
    }
}

#[test]
fn a_fork_of_one_stream_is_none_of_another_that_has_its_name() {
    let log = open(&disk(37), &small()).unwrap();
    create(&log, "source").unwrap().wait().unwrap();
    let meant = log.info("source").unwrap().id;
    let text = text();
    let of_it = |name| Fork { source_id: Some(meant), ..fork(name, "source", None, &text) };
    log.fork(&of_it("a")).unwrap().wait().unwrap();
    for name in ["a", "source"] {
        log.delete(name).unwrap().wait().unwrap();
        while log.step() {}
    }
    create(&log, "source").unwrap().wait().unwrap();
    assert_eq!(rejected(log.fork(&of_it("b"))), Rejection::NotFound);
    assert!(log.info("b").is_none(), "nothing is made");
    log.delete("source").unwrap().wait().unwrap();
    let gone = log.info("source").is_none();
    assert!(gone, "nor is the other one counted to have a fork");
}

#[test]
fn a_source_outlives_its_deletion_while_forks_read_it_and_goes_with_the_last() {
    // I8
    for lanes in [1, 3] {
        let disk = disk(32);
        let options = Options { lanes, ..small() };
        let log = open(&disk, &options).unwrap();
        let text = text();
        create(&log, "source").unwrap().wait().unwrap();
        append(&log, "source", b"shared").unwrap().wait().unwrap();
        log.fork(&fork("a", "source", None, &text)).unwrap().wait().unwrap();
        log.fork(&fork("b", "a", None, &text)).unwrap().wait().unwrap();
        log.delete("source").unwrap().wait().unwrap();
        let hidden = |log: &Log| {
            assert_eq!(rejected(log.read("source", Offset(0), 1)), Rejection::SoftDeleted);
            assert_eq!(rejected(append(log, "source", b"x")), Rejection::SoftDeleted);
            assert_eq!(rejected(create(log, "source")), Rejection::SoftDeleted);
            let again = log.fork(&fork("c", "source", None, &text));
            assert_eq!(rejected(again), Rejection::SourceDeleted);
            assert_eq!(read_all(log, "b").unwrap(), b"shared");
        };
        hidden(&log);
        log.checkpoint().unwrap();
        drop(log);
        let log = open(&disk, &options).unwrap();
        hidden(&log);
        log.delete("a").unwrap().wait().unwrap();
        assert_eq!(read_all(&log, "b").unwrap(), b"shared");
        log.delete("b").unwrap().wait().unwrap();
        while log.step() {}
        assert_eq!(rejected(log.read("source", Offset(0), 1)), Rejection::NotFound);
        assert_eq!(rejected(log.read("a", Offset(0), 1)), Rejection::NotFound);
        create(&log, "source").unwrap().wait().unwrap();
        assert_eq!(read_all(&log, "source").unwrap(), b"");
        log.checkpoint().unwrap();
        assert!(listed(&disk, "streams/0").is_empty());
    }
}

#[test]
fn the_same_fork_again_is_no_change_and_leaves_no_reference() {
    let disk = disk(33);
    let log = open(&disk, &small()).unwrap();
    let text = text();
    create(&log, "source").unwrap().wait().unwrap();
    append(&log, "source", b"abcdef").unwrap().wait().unwrap();
    log.fork(&fork("f", "source", Some(3), &text)).unwrap().wait().unwrap();
    for offset in [Some(3), None] {
        let again = log.fork(&fork("f", "source", offset, &text)).unwrap().wait().unwrap();
        assert_eq!(again.outcome, CreateOutcome::Existing);
    }
    assert_eq!(rejected(log.fork(&fork("f", "source", Some(2), &text))), Rejection::Exists);
    let beyond = log.fork(&fork("g", "source", Some(7), &text));
    assert!(matches!(rejected(beyond), Rejection::BeyondTail { .. }));
    assert_eq!(rejected(log.fork(&fork("g", "nothing", None, &text))), Rejection::NotFound);
    log.delete("f").unwrap().wait().unwrap();
    while log.step() {}
    log.delete("source").unwrap().wait().unwrap();
    assert_eq!(rejected(log.read("source", Offset(0), 1)), Rejection::NotFound);
}

fn timed(disk: &SimDisk, clock: &SimClock) -> Log {
    open_at(disk, &small(), clock).unwrap()
}

#[test]
fn a_stream_ends_when_its_time_is_over_and_its_name_is_free_again() {
    let (disk, clock) = (disk(34), SimClock::new());
    clock.set_wall(Duration::from_secs(1000));
    let log = timed(&disk, &clock);
    let with = |expiry| Config { expiry: Some(expiry), ..text() };
    let sliding = with(Expiry::Sliding { ttl_ms: 60_000 });
    let absolute = with(Expiry::Absolute { at_ms: 1_050_000 });
    for (name, config) in [("sliding", &sliding), ("absolute", &absolute)] {
        let request = Create { name, config, payload: b"x", end: End::Open };
        log.create(&request).unwrap().wait().unwrap();
    }
    clock.advance(Duration::from_secs(40));
    log.touch("sliding").unwrap();
    log.touch("absolute").unwrap();
    while log.step() {}
    clock.advance(Duration::from_secs(40));
    assert!(log.info("absolute").is_none(), "an absolute end does not move");
    assert!(log.info("sliding").is_some(), "a use begins a sliding expiry anew");
    drop(log);
    let log = timed(&disk, &clock);
    assert!(log.info("absolute").is_none());
    assert!(log.info("sliding").is_some(), "the use was logged");
    create(&log, "absolute").unwrap().wait().unwrap();
    assert_eq!(read_all(&log, "absolute").unwrap(), b"", "no old byte is visible");
    clock.advance(Duration::from_secs(100));
    while log.step() {}
    assert_eq!(rejected(append(&log, "sliding", b"y")), Rejection::NotFound);
    log.checkpoint().unwrap();
    assert_eq!(log.list("", None, 9), ["absolute"]);
    drop(log);
    assert_eq!(timed(&disk, &clock).list("", None, 9), ["absolute"]);
}

#[test]
fn a_fork_outlives_its_sources_expiry() {
    let (disk, clock) = (disk(35), SimClock::new());
    let log = timed(&disk, &clock);
    let config = Config { expiry: Some(Expiry::Sliding { ttl_ms: 10_000 }), ..text() };
    let request = Create { name: "source", config: &config, payload: b"kept", end: End::Open };
    log.create(&request).unwrap().wait().unwrap();
    let text = text();
    log.fork(&fork("fork", "source", None, &text)).unwrap().wait().unwrap();
    clock.advance(Duration::from_secs(60));
    while log.step() {}
    assert!(log.info("source").is_none());
    assert_eq!(read_all(&log, "fork").unwrap(), b"kept");
}
