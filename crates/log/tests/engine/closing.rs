//! An orderly end leaves a witness: damage to the last commit is then told from a torn end.

use std::sync::Arc;
use std::time::Duration;

use highwater_disk::real::SystemClock;
use highwater_disk::sim::{Fault, OperationKind, SimClock, SimDisk, SimOptions, SimRng};
use highwater_disk::{Access, Disk, ReadOnly, Rng};
use highwater_log::check::{CheckReport, Verdict, check};
use highwater_log::error::{LogError, OpenError};
use highwater_log::options::{Durability, Options};
use highwater_log::{Driver, Log, Machine};

use super::support::{append, create, disk, open, open_at, read_all, small};

const SEGMENT: &str = "wal/0/0.seg";
const BLOCK: u64 = 4096;
const QUIET: Duration = Duration::from_secs(3);

/// A log with a stream and a last commit of its own; gives where that begins, in its segment.
fn filled(disk: &SimDisk, options: &Options) -> (Log, u64) {
    let log = open(disk, options).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    append(&log, "a", b"first").unwrap().wait().unwrap();
    let begin = end_of(disk);
    append(&log, "a", b"last").unwrap().wait().unwrap();
    assert_eq!(end_of(disk), begin + BLOCK);
    (log, begin)
}

/// Behind the last byte of a lane's first segment that is not zero, in whole blocks.
fn end_of(disk: &SimDisk) -> u64 {
    let file = disk.open(SEGMENT, Access::Buffered).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    u64::try_from(used).unwrap() / BLOCK * BLOCK + BLOCK
}

/// What the offline check says of a copy.
fn checked(disk: &SimDisk) -> CheckReport {
    let copy = ReadOnly::over(Arc::new(disk.fork()));
    check(&copy, &mut |_| ()).unwrap()
}

/// The store with one bit flipped.
fn flipped(disk: &SimDisk, byte: u64) -> SimDisk {
    let damaged = disk.fork();
    damaged.flip_bit(SEGMENT, byte, 3).unwrap();
    damaged
}

#[test]
fn damage_to_the_last_commit_of_a_closed_log_is_an_error() {
    // I6
    let disk = disk(1);
    let (log, begin) = filled(&disk, &small());
    log.close().unwrap();
    assert_eq!(end_of(&disk), begin + 2 * BLOCK, "the witness is one block");
    // Header, record, payload, and zeros behind them.
    for byte in (begin..begin + 200).chain([begin + BLOCK - 1]) {
        let refused = open(&flipped(&disk, byte), &small()).map(drop);
        assert!(matches!(refused, Err(OpenError::Damaged { .. })), "byte {byte}: {refused:?}");
    }
    // The witness itself is nothing that was acknowledged.
    for byte in begin + BLOCK..begin + BLOCK + 96 {
        let log = open(&flipped(&disk, byte), &small()).unwrap();
        assert_eq!(read_all(&log, "a").unwrap(), b"firstlast");
    }
}

#[test]
fn what_a_killed_process_wrote_last_has_no_witness_and_is_cut_off_when_it_is_damaged() {
    let disk = disk(2);
    let (log, begin) = filled(&disk, &small());
    drop(log);
    let log = open(&flipped(&disk, begin + 30), &small()).unwrap();
    assert_eq!(read_all(&log, "a").unwrap(), b"first");
}

#[test]
fn a_check_says_whether_anything_vouches_for_the_last_commit() {
    let disk = disk(3);
    let (log, begin) = filled(&disk, &small());
    let lane = |disk: &SimDisk| {
        let report = checked(disk);
        (report.verdict(), report.lanes[0].is_vouched)
    };
    assert_eq!(lane(&disk), (Verdict::Clean, false));
    log.close().unwrap();
    assert_eq!(lane(&disk), (Verdict::Clean, true));
    assert_eq!(lane(&flipped(&disk, begin + 30)).0, Verdict::Damaged);
}

#[test]
fn closing_commits_what_is_staged_and_says_when_it_could_not() {
    let disk = disk(4);
    let (log, _) = filled(&disk, &small());
    let staged = append(&log, "a", b"staged").unwrap();
    log.close().unwrap();
    staged.wait().unwrap();
    let log = open(&disk.crash(), &small()).unwrap();
    assert_eq!(read_all(&log, "a").unwrap(), b"firstlaststaged");

    let disk = SimDisk::new(SimOptions::seeded(4));
    let (log, _) = filled(&disk, &small());
    let lost = append(&log, "a", b"lost").unwrap();
    disk.fail_next(OperationKind::SyncData, 1, Fault::Eio);
    assert!(matches!(log.close(), Err(LogError::Poisoned(_))));
    assert!(matches!(lost.wait(), Err(LogError::Poisoned(_))));
}

#[test]
fn a_log_that_was_only_opened_and_closed_writes_no_witness() {
    let disk = disk(5);
    let (log, _) = filled(&disk, &small());
    log.close().unwrap();
    drop(log);
    let closed = end_of(&disk);
    for round in 1..4 {
        let log = open(&disk, &small()).unwrap();
        log.close().unwrap();
        log.close().unwrap();
        assert_eq!(end_of(&disk), closed + round * BLOCK, "the epoch's start, and nothing else");
    }
}

#[test]
fn without_barriers_only_the_end_is_vouched_for() {
    let options = Options { durability: Durability::Memory, witness_after: QUIET, ..small() };
    let disk = disk(6);
    let clock = SimClock::new();
    let log = open_at(&disk, &options, &clock).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    append(&log, "a", b"first").unwrap().wait().unwrap();
    let begin = end_of(&disk);
    clock.advance(2 * QUIET);
    assert!(!log.step(), "nobody can say that it is durable");
    append(&log, "a", b"last").unwrap().wait().unwrap();
    log.close().unwrap();
    drop(log);
    assert_eq!(end_of(&disk), begin + 2 * BLOCK);
    // Behind a barrier, whatever the mode: a power cut after an orderly end takes nothing.
    let disk = disk.crash_with(|_| false);
    assert!(checked(&disk).lanes[0].is_vouched);
    let refused = open(&flipped(&disk, begin + 30), &options).map(drop);
    assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{refused:?}");
    let log = open(&disk, &options).unwrap();
    assert_eq!(read_all(&log, "a").unwrap(), b"firstlast");
}

#[test]
fn a_closed_log_takes_nothing_more_and_can_be_read() {
    let disk = disk(9);
    let (log, _) = filled(&disk, &small());
    let early = append(&log, "a", b"early").unwrap();
    log.close().unwrap();
    early.wait().unwrap();
    let closed = end_of(&disk);
    for answer in [
        append(&log, "a", b"late").map(drop),
        create(&log, "b").map(drop),
        log.delete("a").map(drop),
        log.checkpoint().map(drop),
    ] {
        assert!(matches!(answer, Err(LogError::Closed)), "{answer:?}");
    }
    assert!(!log.step());
    assert_eq!(read_all(&log, "a").unwrap(), b"firstlastearly");
    assert_eq!((log.list("", None, 9).len(), log.info("a").is_some()), (1, true));
    assert_eq!(end_of(&disk), closed);
}

#[test]
fn a_witness_that_needs_another_segment_stands_at_its_beginning() {
    let disk = disk(10);
    let (log, _) = filled(&disk, &small());
    let mut content = b"firstlast".to_vec();
    // A block each, up to the last one of the segment.
    while end_of(&disk) < small().segment_bytes {
        append(&log, "a", &[7; 3000]).unwrap().wait().unwrap();
        content.extend([7; 3000]);
    }
    log.close().unwrap();
    drop(log);
    assert!(checked(&disk).lanes[0].is_vouched);
    let last = small().segment_bytes - BLOCK;
    let refused = open(&flipped(&disk, last + 10), &small()).map(drop);
    assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{refused:?}");
    assert_eq!(read_all(&open(&disk, &small()).unwrap(), "a").unwrap(), content);
}

#[test]
fn a_full_log_is_closed_without_a_witness() {
    let options = Options { max_wal_bytes: 3 * (64 << 10), ..small() };
    let options = Options { checkpoint_wal_bytes: 64 << 10, ..options };
    let disk = disk(7);
    let log = open(&disk, &options).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    let mut whole = 0;
    let refused = loop {
        match append(&log, "a", &[7; 3000]) {
            Ok(ticket) => whole += ticket.wait().map(|_| 3000).unwrap(),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, LogError::Busy(_)), "{refused}");
    log.close().unwrap();
    drop(log);
    assert_eq!(read_all(&open(&disk, &options).unwrap(), "a").unwrap().len(), whole);
}

#[test]
fn a_crash_at_any_step_of_closing_is_a_normal_start() {
    // I7
    for nth in 1..8 {
        for seed in 0..20 {
            let disk = SimDisk::new(SimOptions::seeded(seed));
            let (log, _) = filled(&disk, &small());
            disk.crash_after_operations(nth);
            let closed = log.close();
            let log = open(&disk.crash(), &small()).unwrap();
            assert_eq!(read_all(&log, "a").unwrap(), b"firstlast", "{nth}, {seed}: {closed:?}");
        }
    }
}

#[test]
fn a_quiet_lane_has_one_witness_and_no_more_until_there_is_another_commit() {
    let disk = disk(8);
    let clock = SimClock::new();
    let options = Options { witness_after: QUIET, lanes: 2, ..small() };
    let log = open_at(&disk, &options, &clock).unwrap();
    let written = || log.metrics().iter().map(|lane| lane.commits.records).sum::<u64>();
    create(&log, "a").unwrap().wait().unwrap();
    for payload in [b"one", b"two"] {
        append(&log, "a", payload).unwrap().wait().unwrap();
        let before = written();
        clock.advance(QUIET / 2);
        assert!(!log.step(), "it is not quiet for long enough");
        clock.advance(QUIET / 2);
        assert!(log.step());
        assert_eq!(written(), before + 1);
        for _ in 0..100 {
            clock.advance(10 * QUIET);
            assert!(!log.step(), "a witness needs none");
        }
        assert!(checked(&disk).lanes.iter().all(|lane| lane.is_vouched));
    }
    let closed = written();
    log.close().unwrap();
    assert_eq!(written(), closed, "the end has its witness already");
}

#[test]
fn a_lane_with_a_thread_has_its_witness_although_writers_commit_for_themselves() {
    let disk = disk(11);
    let machine = Machine {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SystemClock::new()),
        rng: Box::new(SimRng::new(7)) as Box<dyn Rng>,
    };
    let options = Options { witness_after: Duration::from_millis(2), ..small() };
    let log = Log::open(machine, &options, Driver::Threads).unwrap();
    let records = || log.metrics().remove(0).commits.records;
    create(&log, "a").unwrap().wait().unwrap();
    for payload in [b"one", b"two"] {
        append(&log, "a", payload).unwrap().wait().unwrap();
        while !checked(&disk).lanes[0].is_vouched {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
    let vouched = records();
    (0..8).for_each(|_| std::thread::park_timeout(Duration::from_millis(4)));
    // The one just seen on the disk may not have been counted by then.
    assert!(records() <= vouched + 1, "a witness needs none");
    append(&log, "a", b"end").unwrap().wait().unwrap();
    drop(log);
    assert!(checked(&disk).lanes[0].is_vouched, "a log that is dropped is closed");
    let log = open(&disk, &small()).unwrap();
    assert_eq!(read_all(&log, "a").unwrap(), b"onetwoend");
}

#[test]
fn nothing_vouches_for_what_a_failed_barrier_of_the_home_may_have_taken() {
    // I6, I10: without barriers of its own, the log may have lost it with the home's.
    let options = Options { durability: Durability::Memory, ..small() };
    let disk = disk(9);
    let log = open(&disk, &options).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    assert!(log.checkpoint().is_ok());
    append(&log, "a", b"moves home").unwrap().wait().unwrap();
    append(&log, "a", b", at risk").unwrap().wait().unwrap();
    disk.fail_next(OperationKind::SyncAll, 1, Fault::FailedBarrierDropsPages);
    assert!(log.checkpoint().is_err());
    let end = end_of(&disk);
    let closed = log.close();
    assert!(matches!(closed, Err(LogError::ReadOnly(_))), "{closed:?}");
    assert_eq!(end_of(&disk), end, "there is no witness");
    drop(log);
    let found = open(&disk.crash_with(|_| true), &options).unwrap();
    let read = read_all(&found, "a").unwrap();
    assert!(b"moves home, at risk".starts_with(&read), "{read:?}");
}
