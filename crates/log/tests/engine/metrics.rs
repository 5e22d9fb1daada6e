//! What a log says it has done is what reached the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use highwater_disk::sim::{SimDisk, SimOptions, SimRng, TraceMode};
use highwater_disk::{Clock, Rng};
use highwater_log::metrics::{CommitMetrics, LaneMetrics};
use highwater_log::{Driver, Log, Machine};

use super::support::{append, create, disk, open, small};

/// A clock that moves by a microsecond whenever it is read.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn wall(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }
}

fn open_ticking(disk: &SimDisk) -> Log {
    let machine = Machine {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(Ticking::default()),
        rng: Box::new(SimRng::new(7)) as Box<dyn Rng>,
    };
    Log::open(machine, &small(), Driver::Caller).unwrap()
}

fn metrics(log: &Log) -> LaneMetrics {
    log.metrics().remove(0)
}

#[test]
fn commits_are_counted_as_they_reach_the_disk() {
    let options = SimOptions { trace: TraceMode::Kept, ..SimOptions::seeded(1) };
    let disk = SimDisk::new(options);
    let log = open(&disk, &small()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    let (before, calls) = (metrics(&log).commits, disk.trace().len());
    for batch in [1, 5, 40] {
        let tickets: Vec<_> = (0..batch).map(|_| append(&log, "a", &[7; 700]).unwrap()).collect();
        assert!(metrics(&log).staged_bytes > 0);
        for ticket in tickets {
            ticket.wait().unwrap();
        }
    }
    let after = metrics(&log).commits;
    let calls = &disk.trace()[calls..];
    let of_segment = |call: &&String, name: &str| call.contains(name) && call.contains(".seg");
    let barriers = calls.iter().filter(|call| of_segment(call, "sync_data")).count();
    assert_eq!(after.barriers - before.barriers, u64::try_from(barriers).unwrap());
    assert_eq!(after.commits - before.commits, 3);
    assert_eq!(after.records - before.records, 46);
    assert_eq!(after.batch_records.max(), 40);
    // Frames of 16 KiB hold some twenty records of that size.
    assert_eq!(after.frames - before.frames, 4);
    assert_eq!((after.bytes - before.bytes) % 4096, 0);
    assert!(after.bytes - before.bytes > 46 * 700);
    assert_eq!(metrics(&log).staged_bytes, 0);
}

#[test]
fn every_phase_of_a_commit_is_timed_by_the_clock_that_the_log_was_given() {
    let run = || {
        let log = open_ticking(&disk(2));
        create(&log, "a").unwrap().wait().unwrap();
        for _ in 0..200 {
            append(&log, "a", b"x").unwrap().wait().unwrap();
        }
        metrics(&log).commits
    };
    let commits = run();
    // The epoch's start, the creation, the appends.
    assert_eq!(commits.commits, 202);
    for phase in [&commits.wait_ns, &commits.write_ns, &commits.barrier_ns, &commits.publish_ns] {
        assert_eq!(phase.count(), 202);
        assert!(phase.sum() >= 202 * 1000);
    }
    assert_eq!(commits.stage_ns.count(), 201_u64.div_ceil(CommitMetrics::STAGE_SAMPLE));
    assert_eq!(run(), commits, "the same calls give the same numbers");
}

#[test]
fn a_checkpoint_and_the_opening_after_it_are_counted() {
    let disk = disk(3);
    let log = open(&disk, &small()).unwrap();
    for name in ["a", "b", "c"] {
        create(&log, name).unwrap().wait().unwrap();
        append(&log, name, &[1; 5000]).unwrap().wait().unwrap();
    }
    for _ in 0..20 {
        append(&log, "a", &[1; 5000]).unwrap().wait().unwrap();
    }
    log.checkpoint().unwrap();
    let counted = metrics(&log).checkpoints;
    assert_eq!((counted.checkpoints, counted.failures), (1, 0));
    assert_eq!((counted.home_writes, counted.home_bytes), (3, 23 * 5000));
    assert!(counted.freed_segments > 0 && counted.table_bytes >= 4096);
    for phase in [&counted.absorb_ns, &counted.publish_ns, &counted.retire_ns] {
        assert_eq!(phase.count(), 1);
    }
    append(&log, "b", &[1; 100]).unwrap().wait().unwrap();
    drop(log);
    let recovery = metrics(&open(&disk, &small()).unwrap()).recovery;
    assert!(recovery.frames > 0 && recovery.frames <= recovery.records);
    assert!(recovery.bytes >= recovery.frames * 4096);
}

#[test]
fn a_failed_checkpoint_is_counted_as_one() {
    let disk = disk(4);
    let log = open(&disk, &small()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    append(&log, "a", b"x").unwrap().wait().unwrap();
    let fault = highwater_disk::sim::Fault::Eio;
    disk.fail_next(highwater_disk::sim::OperationKind::SyncAll, 1, fault);
    assert!(log.checkpoint().is_err());
    let counted = metrics(&log).checkpoints;
    assert_eq!((counted.checkpoints, counted.failures), (0, 1));
}
