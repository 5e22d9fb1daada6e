//! How a log goes on from one segment to the next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};

use highwater_disk::ReadOnly;
use highwater_disk::sim::{Fault, OperationKind, PlannedFault, SimClock, SimDisk, When};
use highwater_log::check::{Verdict, check};
use highwater_log::error::LogError;
use highwater_log::metrics::CommitMetrics;
use highwater_log::options::Options;
use highwater_log::{Driver, Log};

use crate::hooked::{Hooked, Moment};
use crate::support::*;

fn commits(log: &Log) -> CommitMetrics {
    log.metrics().remove(0).commits
}

/// Appends so much that a segment is full after about twenty times.
fn append_block(log: &Log) -> u64 {
    append(log, "s", &[7; 3000]).unwrap().wait().unwrap().tail.0
}

fn assert_clean(disk: &SimDisk, context: &str) {
    let report = check(&ReadOnly::over(Arc::new(disk.clone())), &mut |_| {}).unwrap();
    assert!(report.damage.is_empty(), "{context}: {:?}", report.damage);
    assert_ne!(report.verdict(), Verdict::Damaged, "{context}");
}

#[test]
fn an_append_that_fills_a_segment_goes_on_in_the_next_without_touching_the_disk() {
    let disk = disk(1);
    let log = open(&disk, &small()).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    let before = commits(&log).segments;
    for number in 0..400 {
        log.maintain();
        let operations = disk.operations();
        let ticket = append(&log, "s", &[7; 3000]).unwrap();
        assert_eq!(disk.operations(), operations, "append {number}: its commit writes, not it");
        ticket.wait().unwrap();
        assert_eq!(disk.operations(), operations + 2, "append {number}: a write and a barrier");
    }
    let commits = commits(&log);
    assert!(commits.segments - before >= 18, "{commits:?}");
    assert_eq!(commits.segments_unready, 0);
}

#[test]
fn a_segment_that_was_not_ready_is_made_by_who_needs_it_and_that_is_counted() {
    let disk = disk(2);
    let log = open(&disk, &small()).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    for _ in 0..60 {
        append_block(&log);
    }
    let commits = commits(&log);
    assert!(commits.segments >= 2, "{commits:?}");
    assert_eq!(commits.segments_unready, commits.segments);
}

#[test]
fn a_header_made_durable_ahead_of_its_frames_is_found_by_no_opening_as_part_of_the_log() {
    // I1, I7: power is lost at each step of making the next segment ready, and then again.
    let prepared = |disk: &SimDisk| {
        let log = open(disk, &small()).unwrap();
        create(&log, "s").unwrap().wait().unwrap();
        let tail = (0..30).map(|_| append_block(&log)).last().unwrap();
        (log, tail)
    };
    let whole = disk(3);
    let (log, _) = prepared(&whole);
    let before = whole.operations();
    log.maintain();
    let steps = whole.operations() - before;
    assert!(steps > 4, "two files are made, and a header is written");
    drop(log);
    for nth in 1..=steps + 1 {
        let mut disk = disk(3);
        let (log, tail) = prepared(&disk);
        disk.crash_after_operations(nth);
        log.maintain();
        drop(log);
        for life in 0..3_u64 {
            disk = disk.crash();
            let context = format!("step {nth}, life {life}");
            assert_clean(&disk, &context);
            let log = open(&disk, &small()).unwrap_or_else(|e| panic!("{context}: {e}"));
            assert_eq!(
                read_all(&log, "s").unwrap().len() as u64,
                tail + life * 90_000,
                "{context}"
            );
            (0..30).for_each(|_| assert!(append_block(&log) > tail));
            log.maintain();
        }
    }
}

#[test]
fn whoever_needs_the_next_segment_while_it_is_made_ready_gets_that_one() {
    // I1: two files of one number and epoch could not be told apart.
    let sim = disk(4);
    let log: Arc<OnceLock<Weak<Log>>> = Arc::default();
    let (done, is_done) = mpsc::channel();
    let hook = {
        let (log, has_begun) = (Arc::clone(&log), AtomicBool::new(false));
        move |moment, kind, path: &str| {
            let Some(log) = log.get().and_then(Weak::upgrade) else { return };
            let is_making = std::thread::current().name() == Some("making");
            let is_barrier = (moment, kind) == (Moment::Before, OperationKind::SyncData);
            // Of a header: that of the file's zeros comes before its directory's.
            let is_header = is_making && is_barrier && log.metrics()[0].spare_segments == 1;
            if !is_header || !path.starts_with("wal") || has_begun.swap(true, Ordering::SeqCst) {
                return;
            }
            let (done, (filled, is_filled)) = (done.clone(), mpsc::channel());
            std::thread::spawn(move || {
                for number in 0..25 {
                    // A start of the epoch and a stream stand there as well, in a block each.
                    if number == 13 {
                        filled.send(()).unwrap();
                    }
                    append_block(&log);
                }
                done.send(()).unwrap();
            });
            is_filled.recv().unwrap();
        }
    };
    let disk = Arc::new(Hooked::new(&sim, hook));
    let machine = machine(disk, &SimClock::new(), 7);
    let opened = Arc::new(Log::open(machine, &small(), Driver::Caller).unwrap());
    create(&opened, "s").unwrap().wait().unwrap();
    log.set(Arc::downgrade(&opened)).unwrap();
    let maker = Arc::clone(&opened);
    let making = std::thread::Builder::new().name("making".to_owned());
    making.spawn(move || maker.maintain()).unwrap().join().unwrap();
    is_done.recv().unwrap();
    assert_eq!(commits(&opened).segments, 1, "it was needed while it was made ready");
    let last = append_block(&opened);
    drop(opened);
    let disk = sim.crash();
    assert_clean(&disk, "at last");
    let log = open(&disk, &small()).unwrap();
    assert_eq!(read_all(&log, "s").unwrap().len() as u64, last);
}

#[test]
fn a_header_that_cannot_be_made_durable_turns_the_lane_down_before_anybody_needs_it() {
    // I10
    for fault in [Fault::Eio, Fault::FailedBarrierDropsPages] {
        let disk = disk(5);
        let options = Options { max_wal_bytes: 8 * (64 << 10), ..small() };
        let log = open(&disk, &options).unwrap();
        create(&log, "s").unwrap().wait().unwrap();
        log.maintain();
        while commits(&log).segments == 0 {
            append_block(&log);
        }
        let tail = log.info("s").unwrap().tail.0;
        let path_prefix = "wal".to_owned();
        let (kind, when) = (OperationKind::SyncData, When::Nth(2));
        disk.plan(PlannedFault { kind, path_prefix, when, fault });
        log.maintain();
        let refused = append(&log, "s", b"x").unwrap_err();
        assert!(matches!(refused, LogError::Poisoned(_)), "{refused}");
        drop(log);
        let disk = disk.crash();
        assert_clean(&disk, "after the failure");
        let log = open(&disk, &options).unwrap();
        assert_eq!(read_all(&log, "s").unwrap().len() as u64, tail);
        append_block(&log);
    }
}
