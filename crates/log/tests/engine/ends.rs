//! How streams end when the log is full, fails, or loses power meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Wake;
use std::time::Duration;

use highwater_disk::sim::{CrashMode, Fault, OperationKind, SimClock, SimDisk, SimOptions};
use highwater_log::error::{LogError, Rejection};
use highwater_log::ids::Offset;
use highwater_log::lane::Watch;
use highwater_log::lane::waiters::Waiter;
use highwater_log::options::{Durability, Options};
use highwater_log::request::{Config, Create, End, Expiry, Fork};
use highwater_log::{Driver, Log};

use crate::hooked::{Hooked, Moment};
use crate::support::*;

#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Bell {
    fn has_rung(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Waits for a stream to go on behind its tail.
fn watch(log: &Log, name: &str) -> (Arc<Bell>, Watch) {
    let bell = Arc::new(Bell::default());
    let seen = log.info(name).unwrap().tail;
    let watch = log.watch(name, seen, Waiter::Task(Arc::clone(&bell).into())).unwrap();
    (bell, watch.expect("nothing has come yet"))
}

fn fork(log: &Log, name: &str, source: &str) {
    let config = text();
    let (offset, payload, end) = (None, &b""[..], End::Open);
    let request = Fork { name, source, offset, source_id: None, config: &config, payload, end };
    log.fork(&request).unwrap().wait().unwrap();
}

fn create_with(log: &Log, name: &str, expiry: Expiry) {
    let config = Config { expiry: Some(expiry), ..text() };
    let request = Create { name, config: &config, payload: b"kept", end: End::Open };
    log.create(&request).unwrap().wait().unwrap();
}

/// A log so small that a few commits fill it.
fn tiny() -> Options {
    Options { max_wal_bytes: 3 * (64 << 10), checkpoint_wal_bytes: 3 * (64 << 10), ..small() }
}

/// Fills the log with appends, and then with deletes until just so many more commits of deletes
/// fit.
fn fill(log: &Log, room: u64) {
    create(log, "filler").unwrap().wait().unwrap();
    let gone = |number: u32| format!("gone/{number}");
    for number in 0..40 {
        drop(create(log, &gone(number)).unwrap());
    }
    while log.step() {}
    while append(log, "filler", b"x").is_ok_and(|ticket| ticket.wait().is_ok()) {}
    let is_full = || {
        let usage = log.usage().swap_remove(0);
        usage.wal_bytes == tiny().max_wal_bytes && usage.relief_bytes == room * 4096
    };
    for number in 0.. {
        if is_full() {
            break;
        }
        log.delete(&gone(number)).unwrap().wait().unwrap();
    }
}

fn state(log: &Log, name: &str) -> Rejection {
    match log.read(name, Offset(0), 1) {
        Err(LogError::Rejected(rejection)) => rejection,
        other => panic!("{name} is there: {other:?}"),
    }
}

#[test]
fn a_hidden_source_whose_last_fork_goes_when_the_log_is_full_ends_when_there_is_room_again() {
    // I8: the fork is counted out once, however often its source's end is tried.
    let disk = disk(61);
    let log = open(&disk, &tiny()).unwrap();
    create(&log, "source").unwrap().wait().unwrap();
    fork(&log, "fork", "source");
    log.delete("source").unwrap().wait().unwrap();
    fill(&log, 1);
    log.delete("fork").unwrap().wait().unwrap();
    assert!(matches!(append(&log, "filler", b"x"), Err(LogError::Busy(_))));
    for _ in 0..3 {
        log.step();
        assert_eq!(state(&log, "source"), Rejection::SoftDeleted);
    }
    log.checkpoint().unwrap();
    while log.step() {}
    assert_eq!(state(&log, "source"), Rejection::NotFound);
    create(&log, "source").unwrap().wait().unwrap();
}

#[test]
fn a_full_log_with_a_source_to_end_can_be_opened() {
    // I7
    let disk = disk(62);
    let log = open(&disk, &tiny()).unwrap();
    create(&log, "source").unwrap().wait().unwrap();
    fork(&log, "fork", "source");
    log.delete("source").unwrap().wait().unwrap();
    fill(&log, 1);
    log.delete("fork").unwrap().wait().unwrap();
    drop(log);
    let log = open(&disk, &tiny()).unwrap();
    assert_eq!(state(&log, "source"), Rejection::SoftDeleted);
    log.checkpoint().unwrap();
    while log.step() {}
    assert_eq!(state(&log, "source"), Rejection::NotFound);
}

#[test]
fn a_stream_whose_time_is_over_when_the_log_is_full_ends_when_there_is_room_again() {
    let (disk, clock) = (disk(63), SimClock::new());
    let log = open_at(&disk, &tiny(), &clock).unwrap();
    create_with(&log, "short", Expiry::Sliding { ttl_ms: 10_000 });
    fill(&log, 0);
    let (bell, _watch) = watch(&log, "short");
    clock.advance(Duration::from_secs(20));
    log.step();
    assert_eq!(state(&log, "short"), Rejection::NotFound);
    assert!(!bell.has_rung(), "nothing could be logged");
    log.checkpoint().unwrap();
    while log.step() {}
    assert!(bell.has_rung());
    log.checkpoint().unwrap();
    log.checkpoint().unwrap();
    let kept = listed(&disk, "streams/0").len();
    assert_eq!(kept, 1, "only the filler's bytes are kept");
}

#[test]
fn whoever_watches_a_stream_is_woken_when_a_request_finds_that_its_time_is_over() {
    // I2: the name, and the slot, are another stream's by then.
    let (disk, clock) = (disk(64), SimClock::new());
    let log = open_at(&disk, &small(), &clock).unwrap();
    create_with(&log, "short", Expiry::Sliding { ttl_ms: 10_000 });
    let (bell, _watch) = watch(&log, "short");
    clock.advance(Duration::from_secs(20));
    create(&log, "short").unwrap().wait().unwrap();
    assert!(bell.has_rung());
}

#[test]
fn an_end_that_a_refused_request_has_found_is_committed_without_anybody_who_waits_for_it() {
    let clock = SimClock::new();
    let options = Options { witness_after: Duration::from_secs(3600), ..small() };
    let machine = machine(Arc::new(disk(72)), &clock, 72);
    let log = Log::open(machine, &options, Driver::Threads).unwrap();
    create_with(&log, "short", Expiry::Sliding { ttl_ms: 10_000 });
    let commits = || log.metrics().remove(0).commits.commits;
    let before = commits();
    clock.advance(Duration::from_secs(20));
    let refused = append(&log, "short", b"late").unwrap_err();
    assert!(matches!(refused, LogError::Rejected(Rejection::NotFound)), "{refused:?}");
    while commits() == before {
        std::thread::yield_now();
    }
}

#[test]
fn nobody_waits_for_a_lane_that_has_failed() {
    // I10
    let disk = disk(65);
    let log = open(&disk, &small()).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    let (bell, _watch) = watch(&log, "s");
    disk.fail_next(OperationKind::SyncData, 1, Fault::Eio);
    assert!(append(&log, "s", b"lost").unwrap().wait().is_err());
    assert!(bell.has_rung());
    let again = log.watch("s", Offset(0), Waiter::Task(Arc::new(Bell::default()).into()));
    assert!(matches!(again, Err(LogError::Poisoned(_))), "{again:?}");
}

#[test]
fn a_use_that_a_failed_lane_cannot_log_is_refused() {
    // I10
    let (disk, clock) = (disk(66), SimClock::new());
    let log = open_at(&disk, &small(), &clock).unwrap();
    create_with(&log, "s", Expiry::Sliding { ttl_ms: 10_000 });
    disk.fail_next(OperationKind::SyncData, 1, Fault::Eio);
    assert!(append(&log, "s", b"lost").unwrap().wait().is_err());
    clock.advance(Duration::from_secs(5));
    assert!(matches!(log.touch("s"), Err(LogError::Poisoned(_))));
    clock.advance(Duration::from_secs(60));
    let before = disk.operations();
    log.step();
    assert_eq!(disk.operations(), before, "nothing is written any more");
}

#[test]
fn a_stream_whose_time_was_over_does_not_come_back_because_its_last_append_was_committed_late() {
    // I2
    let (disk, clock) = (disk(67), SimClock::new());
    let log = open_at(&disk, &small(), &clock).unwrap();
    create_with(&log, "s", Expiry::Sliding { ttl_ms: 10_000 });
    let ticket = append(&log, "s", b"more").unwrap();
    clock.advance(Duration::from_secs(9));
    ticket.wait().unwrap();
    clock.advance(Duration::from_secs(2));
    assert!(log.info("s").is_none());
    drop(log);
    let log = open_at(&disk.crash(), &small(), &clock).unwrap();
    assert!(log.info("s").is_none());
}

#[test]
fn a_hidden_source_stays_hidden_when_its_time_is_over() {
    let (disk, clock) = (disk(68), SimClock::new());
    let log = open_at(&disk, &small(), &clock).unwrap();
    create_with(&log, "source", Expiry::Sliding { ttl_ms: 10_000 });
    fork(&log, "fork", "source");
    clock.advance(Duration::from_secs(20));
    assert_eq!(state(&log, "source"), Rejection::SoftDeleted);
    while log.step() {}
    assert_eq!(state(&log, "source"), Rejection::SoftDeleted);
    drop(log);
    let log = open_at(&disk, &small(), &clock).unwrap();
    assert_eq!(state(&log, "source"), Rejection::SoftDeleted);
    assert_eq!(read_all(&log, "fork").unwrap(), b"kept");
}

/// Two names that are in different lanes of two.
const LANES_APART: [&str; 2] = ["source", "fork"];

fn without_barriers(seed: u64) -> (SimDisk, Options) {
    let options = SimOptions { crash: CrashMode::Random, ..SimOptions::seeded(seed) };
    (SimDisk::new(options), Options { lanes: 2, durability: Durability::Memory, ..small() })
}

#[test]
fn a_fork_without_barriers_never_outlives_what_it_reads_in_another_lane() {
    // I8
    let [source, name] = LANES_APART;
    for seed in 0..60 {
        let (disk, options) = without_barriers(seed);
        let log = open(&disk, &options).unwrap();
        create(&log, source).unwrap().wait().unwrap();
        append(&log, source, b"shared").unwrap().wait().unwrap();
        fork(&log, name, source);
        let log = open(&disk.crash(), &options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        if log.info(name).is_some() {
            assert_eq!(read_all(&log, name).unwrap(), b"shared", "seed {seed}");
        }
    }
}

#[test]
fn a_source_without_barriers_is_there_whenever_its_deleted_fork_comes_back() {
    // I8
    let [source, name] = LANES_APART;
    for seed in 0..60 {
        let (disk, options) = without_barriers(seed);
        let log = open(&disk, &options).unwrap();
        create(&log, source).unwrap().wait().unwrap();
        append(&log, source, b"shared").unwrap().wait().unwrap();
        fork(&log, name, source);
        log.delete(source).unwrap().wait().unwrap();
        log.checkpoint().unwrap();
        log.delete(name).unwrap().wait().unwrap();
        while log.step() {}
        assert_eq!(state(&log, source), Rejection::NotFound);
        let log = open(&disk.crash(), &options).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        if log.info(name).is_some() {
            assert_eq!(read_all(&log, name).unwrap(), b"shared", "seed {seed}");
        }
    }
}

#[test]
fn a_delete_amid_a_checkpoints_barrier_loses_its_bytes_only_behind_a_barrier_of_its_own() {
    // I1, I5: no barrier of the log covers the second delete when the home could be rid of its
    // bytes.
    let sim = SimDisk::new(SimOptions::seeded(63));
    let log: Arc<OnceLock<Weak<Log>>> = Arc::default();
    let is_armed = Arc::new(AtomicBool::new(false));
    let lost = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let (sim, log, is_armed) = (sim.clone(), Arc::clone(&log), Arc::clone(&is_armed));
        let lost = Arc::clone(&lost);
        move |moment, kind, path: &str| {
            let is_barrier = kind == OperationKind::SyncData && path.starts_with("wal");
            if (moment, is_barrier) == (Moment::After, true)
                && is_armed.swap(false, Ordering::SeqCst)
            {
                let log = log.get().and_then(Weak::upgrade).unwrap();
                log.delete("late").unwrap().wait().unwrap();
            }
            if (moment, kind) == (Moment::After, OperationKind::Remove)
                && path.starts_with("streams")
            {
                lost.lock().unwrap().push(sim.fork());
            }
        }
    };
    let options = Options { durability: Durability::Memory, ..small() };
    let disk = Arc::new(Hooked::new(&sim, hook));
    let machine = machine(disk, &SimClock::new(), 7);
    let opened = Arc::new(Log::open(machine, &options, Driver::Caller).unwrap());
    log.set(Arc::downgrade(&opened)).unwrap();
    for name in ["early", "late"] {
        create(&opened, name).unwrap().wait().unwrap();
        append(&opened, name, &[7; 5000]).unwrap().wait().unwrap();
    }
    opened.checkpoint().unwrap();
    opened.delete("early").unwrap().wait().unwrap();
    is_armed.store(true, Ordering::SeqCst);
    opened.checkpoint().unwrap();
    assert!(!is_armed.load(Ordering::SeqCst), "a barrier of the log came first");
    assert_eq!(opened.list("", None, 9), [""; 0]);
    let moments = std::mem::take(&mut *lost.lock().unwrap());
    assert!(moments.len() >= 2, "both are gone from the home in the end");
    for moment in moments {
        // Names survive, what no barrier of a file has covered does not.
        let is_name: Vec<bool> =
            moment.pending().iter().map(|change| !change.starts_with("file ")).collect();
        let log = open(&moment.crash_with(|change| is_name[change]), &options).unwrap();
        for name in log.list("", None, 9) {
            assert_eq!(read_all(&log, &name).unwrap(), [7; 5000], "{name}");
        }
    }
}
