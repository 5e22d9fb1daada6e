//! Every way of writing keeps the same promise, and says why it was chosen.

use std::sync::Arc;
use std::time::Duration;

use highwater_disk::sim::{
    CrashMode, DirectIo, DurableWrites, Fault, OperationKind, SimDisk, SimOptions, SimRng,
    TraceMode,
};
use highwater_disk::{Access, Clock, Disk, Rng};
use highwater_log::error::{LogError, OpenError};
use highwater_log::options::{Options, WriteBarrier, WritePath, WritePathChoice};
use highwater_log::write_path::{Chosen, Reason};
use highwater_log::{Driver, Log, Machine};

use super::support::{append, create, open, read_all, small};

const DIRECT_DSYNC: WritePath = WritePath { access: Access::Direct, barrier: WriteBarrier::Dsync };

fn along(path: WritePath) -> Options {
    Options { write_path: WritePathChoice::Fixed(path), ..small() }
}

fn measured() -> Options {
    Options { write_path: WritePathChoice::Measured, ..small() }
}

fn every_path() -> impl Iterator<Item = WritePath> {
    [Access::Direct, Access::Buffered].into_iter().flat_map(|access| {
        [WriteBarrier::Fdatasync, WriteBarrier::Dsync].map(|barrier| WritePath { access, barrier })
    })
}

/// Time that passes with the calls that change the disk: each takes as long as the others.
#[derive(Debug)]
struct Calls(SimDisk);

impl Clock for Calls {
    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.0.operations() * 100)
    }

    fn wall(&self) -> Duration {
        Duration::from_secs(1_700_000_000)
    }
}

fn open_counting(disk: &SimDisk, options: &Options) -> Result<Log, OpenError> {
    let machine = Machine {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(Calls(disk.clone())),
        rng: Box::new(SimRng::new(7)) as Box<dyn Rng>,
    };
    Log::open(machine, options, Driver::Caller)
}

fn chosen(log: &Log) -> Chosen {
    log.write_paths().remove(0)
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_on_every_path_and_the_next_one_may_differ() {
    let lose_all = SimOptions { crash: CrashMode::LoseAllUnsynced, ..SimOptions::seeded(1) };
    for first in every_path() {
        for second in every_path() {
            let mut disk = SimDisk::new(lose_all);
            let mut whole = Vec::new();
            for path in [first, second, first] {
                let log = open(&disk, &along(path)).unwrap();
                assert_eq!(chosen(&log), Chosen { path, reason: Reason::Set });
                if whole.is_empty() {
                    create(&log, "a").unwrap().wait().unwrap();
                }
                for byte in 0..60 {
                    whole.extend([byte; 1000]);
                    append(&log, "a", &[byte; 1000]).unwrap().wait().unwrap();
                }
                drop(append(&log, "a", b"never acknowledged").unwrap());
                disk = disk.crash();
                let log = open(&disk, &along(path)).unwrap();
                assert_eq!(read_all(&log, "a").unwrap(), whole, "{first}, {second}");
                log.checkpoint().unwrap();
            }
        }
    }
}

#[test]
fn a_commit_is_one_call_where_writes_are_durable_and_two_where_they_are_not() {
    for (path, calls) in [
        (WritePath::DEFAULT, ["write_at", "sync_data"].as_slice()),
        (DIRECT_DSYNC, &["write_durable_at"]),
    ] {
        let options = SimOptions { trace: TraceMode::Kept, ..SimOptions::seeded(1) };
        let disk = SimDisk::new(options);
        let log = open(&disk, &along(path)).unwrap();
        create(&log, "a").unwrap().wait().unwrap();
        let before = disk.trace().len();
        append(&log, "a", b"x").unwrap().wait().unwrap();
        let trace = disk.trace();
        let found: Vec<&str> =
            trace[before..].iter().filter_map(|call| call.split(' ').nth(1)).collect();
        assert_eq!(found, calls, "{path}");
        let counted = log.metrics().remove(0).commits;
        assert_eq!(counted.barriers, counted.commits);
    }
}

#[test]
fn after_a_failed_durable_write_nothing_more_is_acknowledged() {
    // I10
    for fault in [Fault::Eio, Fault::FailedBarrierDropsPages, Fault::ShortWrite] {
        let disk = SimDisk::new(SimOptions::seeded(3));
        let log = open(&disk, &along(DIRECT_DSYNC)).unwrap();
        create(&log, "a").unwrap().wait().unwrap();
        append(&log, "a", b"kept").unwrap().wait().unwrap();
        disk.fail_next(OperationKind::WriteDurableAt, 1, fault);
        let lost = append(&log, "a", b"lost").unwrap();
        assert!(matches!(lost.wait(), Err(LogError::Poisoned(_))));
        assert!(matches!(append(&log, "a", b"more"), Err(LogError::Poisoned(_))));
        assert_eq!(read_all(&log, "a").unwrap(), b"kept");
    }
}

#[test]
fn direct_access_that_is_refused_is_given_up_and_that_is_said() {
    let refused = SimOptions { direct: DirectIo::Refused, ..SimOptions::seeded(4) };
    let log = open(&SimDisk::new(refused), &along(DIRECT_DSYNC)).unwrap();
    let path = WritePath { access: Access::Buffered, barrier: WriteBarrier::Dsync };
    assert_eq!(chosen(&log), Chosen { path, reason: Reason::DirectRefused });
}

#[test]
fn durable_writes_that_are_set_and_not_there_are_an_error_and_not_replaced() {
    let old = SimOptions { durable_writes: DurableWrites::Refused, ..SimOptions::seeded(5) };
    let refused = open(&SimDisk::new(old), &along(DIRECT_DSYNC)).unwrap_err().to_string();
    assert!(refused.contains("write_durable_at"), "{refused}");
}

#[test]
fn the_measurement_takes_durable_writes_where_they_cost_half() {
    let disk = SimDisk::new(SimOptions::seeded(6));
    let before = disk.operations();
    let log = open_counting(&disk, &measured()).unwrap();
    let Chosen { path, reason } = chosen(&log);
    assert_eq!(path, DIRECT_DSYNC);
    let Reason::DsyncFaster(gain) = reason else { panic!("{reason:?}") };
    assert_eq!(gain.fdatasync, gain.dsync * 2);
    assert!(disk.operations() - before < 400, "the measurement is bounded");
    assert!(disk.list("wal/0").unwrap().iter().all(|entry| entry.name != "scratch"));
    create(&log, "a").unwrap().wait().unwrap();
}

#[test]
fn the_measurement_keeps_to_fdatasync_where_nothing_speaks_against_it() {
    let chosen_on = |options: SimOptions| {
        let disk = SimDisk::new(options);
        let log = open(&disk, &measured()).unwrap();
        create(&log, "a").unwrap().wait().unwrap();
        chosen(&log)
    };
    let seeded = SimOptions::seeded(7);
    // A clock that stands still.
    let still = chosen_on(seeded);
    assert_eq!(still.path, WritePath::DEFAULT);
    assert!(matches!(still.reason, Reason::DsyncNotFaster(_)));
    let old = chosen_on(SimOptions { durable_writes: DurableWrites::Refused, ..seeded });
    assert_eq!(old, Chosen { path: WritePath::DEFAULT, reason: Reason::NoDsync });
    let full = chosen_on(SimOptions { capacity_bytes: 400 << 10, ..seeded });
    assert_eq!(full, Chosen { path: WritePath::DEFAULT, reason: Reason::NoRoom });
    let buffered = chosen_on(SimOptions { direct: DirectIo::Refused, ..seeded });
    assert_eq!(buffered.path.access, Access::Buffered);
}

#[test]
fn a_crash_anywhere_in_the_measurement_leaves_nothing_behind_for_long() {
    let whole = SimDisk::new(SimOptions::seeded(8));
    drop(open_counting(&whole, &measured()).unwrap());
    for nth in 1..whole.operations() {
        let disk = SimDisk::new(SimOptions::seeded(nth));
        disk.crash_after_operations(nth);
        assert!(open_counting(&disk, &measured()).is_err());
        let disk = disk.crash();
        let log = open(&disk, &small()).unwrap();
        let names = disk.list("wal/0").unwrap();
        assert!(names.iter().all(|entry| entry.name != "scratch"), "call {nth}: {names:?}");
        create(&log, "a").unwrap().wait().unwrap();
    }
}

#[test]
fn a_failing_disk_is_not_measured_to_the_end() {
    let disk = SimDisk::new(SimOptions::seeded(9));
    drop(open(&disk, &small()).unwrap());
    disk.fail_next(OperationKind::WriteDurableAt, 3, Fault::Eio);
    let refused = open_counting(&disk, &measured()).unwrap_err();
    assert!(matches!(refused, OpenError::Disk(_)), "{refused}");
}
