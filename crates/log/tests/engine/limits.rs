//! What a log does when bytes cannot move home, and when it or the disk is full: nothing that was
//! acknowledged is at risk, what can go on goes on, and a lack of space passes by itself.

use std::sync::Arc;
use std::time::Duration;

use highwater_disk::sim::{
    Fault, OperationKind, PlannedFault, SimClock, SimDisk, SimOptions, When,
};
use highwater_disk::{Access, Disk};
use highwater_log::error::{LogError, LogResult};
use highwater_log::ids::Offset;
use highwater_log::lane::waiters::Waiter;
use highwater_log::options::{FileBarrier, Options};
use highwater_log::{Driver, Log};

use crate::support::*;

fn fail(disk: &SimDisk, kind: OperationKind, path_prefix: &str, fault: Fault) {
    let path_prefix = path_prefix.to_owned();
    disk.plan(PlannedFault { kind, path_prefix, when: When::Nth(1), fault });
}

/// Whether there is no room until somebody makes some.
fn is_full<T>(answer: LogResult<T>) -> bool {
    answer.is_err_and(|error| matches!(error, LogError::Full(_)))
}

/// Whether there is no room until the next checkpoint is done.
fn is_busy<T>(answer: LogResult<T>) -> bool {
    answer.is_err_and(|error| matches!(error, LogError::Busy(_)))
}

/// Appends to a stream until the log is full.
fn fill(log: &Log, name: &str) -> u64 {
    let mut len = log.info(name).unwrap().tail.0;
    while let Ok(ticket) = append(log, name, &[7; 3000]) {
        len = ticket.wait().unwrap().tail.0;
    }
    len
}

/// A disk of so many KiB.
fn of_kib(kib: u64, seed: u64) -> SimDisk {
    SimDisk::new(SimOptions { capacity_bytes: kib << 10, ..SimOptions::seeded(seed) })
}

/// Takes all space that a disk has left, but for so much.
fn take_space(disk: &SimDisk, left: u64) {
    let free = disk.free_bytes().unwrap().saturating_sub(left);
    disk.create("ballast", Access::Buffered).unwrap().allocate(free).unwrap();
}

#[test]
fn a_failed_barrier_of_the_segments_names_ends_the_lane() {
    // I10: another new file's name may be lost with it, whose own barrier succeeds later.
    for fault in [Fault::FailedBarrierDropsPages, Fault::Enospc] {
        let disk = disk(90);
        let log = open(&disk, &small()).unwrap();
        create(&log, "a").unwrap().wait().unwrap();
        fail(&disk, OperationKind::SyncDir, "wal/0", fault);
        log.maintain();
        assert!(matches!(append(&log, "a", b"x"), Err(LogError::Poisoned(_))));
        let log = open(&disk.crash(), &small()).unwrap();
        append(&log, "a", b"x").unwrap().wait().unwrap();
    }
}

#[test]
fn when_bytes_cannot_move_home_the_lane_is_read_only_and_keeps_its_word() {
    // R1, I10: what is staged rests on the log's own barrier.
    for (kind, place, fault) in [
        (OperationKind::WriteAt, "streams", Fault::Eio),
        (OperationKind::Create, "streams", Fault::Eio),
        (OperationKind::SyncAll, "streams", Fault::FailedBarrierDropsPages),
        (OperationKind::SyncAll, "streams", Fault::Enospc),
        (OperationKind::WriteAt, "tables", Fault::Eio),
        (OperationKind::SyncData, "tables", Fault::FailedBarrierDropsPages),
        (OperationKind::SyncDir, "manifest", Fault::Eio),
        (OperationKind::SyncData, "super", Fault::FailedBarrierDropsPages),
    ] {
        let what = format!("{kind:?} of {place}: {fault:?}");
        let disk = disk(71);
        let log = open(&disk, &small()).unwrap();
        create(&log, "s").unwrap().wait().unwrap();
        for _ in 0..40 {
            append(&log, "s", &[7; 3000]).unwrap().wait().unwrap();
        }
        fail(&disk, kind, place, fault);
        let staged = append(&log, "s", b"staged").unwrap();
        let refused = log.checkpoint().unwrap_err();
        assert!(!matches!(refused, LogError::ReadOnly(_)), "{what}: it names the cause: {refused}");
        assert_eq!(staged.wait().unwrap().tail, Offset(40 * 3000 + 6), "{what}");
        for answer in [
            append(&log, "s", b"no").map(drop),
            create(&log, "t").map(drop),
            log.delete("s").map(drop),
            log.checkpoint().map(drop),
        ] {
            assert!(matches!(answer, Err(LogError::ReadOnly(_))), "{what}: {answer:?}");
        }
        assert!(log.usage()[0].read_only.is_some());
        assert_eq!(read_all(&log, "s").unwrap().len(), 40 * 3000 + 6, "{what}");
        assert_eq!((log.list("", None, 9).len(), log.info("s").is_some()), (1, true), "{what}");
        let waiter = Waiter::Thread(std::thread::current());
        let watch = log.watch("s", Offset(40 * 3000 + 6), waiter).unwrap();
        assert!(watch.is_some(), "{what}");
        drop(log);
        let log = open(&disk.crash(), &small()).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(read_all(&log, "s").unwrap().len(), 40 * 3000 + 6, "{what}");
        append(&log, "s", b"on").unwrap().wait().unwrap();
    }
}

#[test]
fn a_failed_barrier_of_the_home_is_heard_of_by_every_lane() {
    // R1: it should have covered what the other lanes absorbed, too.
    for barrier in [FileBarrier::Syncfs, FileBarrier::Files] {
        let disk = disk(72);
        let options = Options { lanes: 3, file_barrier: barrier, ..small() };
        let log = open(&disk, &options).unwrap();
        for name in ["a", "b", "c", "d", "e", "f"] {
            create(&log, name).unwrap().wait().unwrap();
            append(&log, name, b"kept").unwrap().wait().unwrap();
        }
        let kind = match barrier {
            FileBarrier::Syncfs => OperationKind::SyncAll,
            FileBarrier::Files => OperationKind::SyncData,
        };
        fail(&disk, kind, "streams", Fault::FailedBarrierDropsPages);
        assert!(log.checkpoint().is_err());
        assert!(log.usage().iter().all(|lane| lane.read_only.is_some()), "{barrier:?}");
        drop(log);
        let log = open(&disk.crash(), &options).unwrap();
        for name in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(read_all(&log, name).unwrap(), b"kept", "{barrier:?} {name}");
        }
    }
}

#[test]
fn a_home_without_space_refuses_nothing_until_the_log_is_full_and_recovers_by_itself() {
    let (disk, clock) = (of_kib(4000, 73), SimClock::new());
    let options = Options { max_wal_bytes: 6 * (64 << 10), ..small() };
    let log = open_at(&disk, &options, &clock).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    // The log has all its files; what is left is not enough for the bytes to move.
    for _ in 0..5 {
        fill(&log, "s");
        clock.advance(Duration::from_secs(60));
        log.maintain();
    }
    take_space(&disk, 40 << 10);
    let full_at = fill(&log, "s");
    assert!(is_busy(append(&log, "s", b"more")), "no checkpoint has failed yet");
    for _ in 0..4 {
        clock.advance(Duration::from_secs(60));
        log.maintain();
        assert_eq!(log.usage()[0].read_only, None);
        assert!(is_full(append(&log, "s", b"more")), "nothing could move");
    }
    assert_eq!(read_all(&log, "s").unwrap().len(), usize::try_from(full_at).unwrap());
    disk.remove("ballast").unwrap();
    clock.advance(Duration::from_secs(60));
    log.maintain();
    append(&log, "s", b"more").unwrap().wait().unwrap();
    drop(log);
    let log = open_at(&disk.crash(), &options, &clock).unwrap();
    assert_eq!(log.info("s").unwrap().tail, Offset(full_at + 4));
}

#[test]
fn a_lack_of_open_files_takes_no_lane_down_and_is_over_by_itself() {
    // I10 is about barriers: one whose directory could not be opened has not begun.
    use FileBarrier::{Files, Syncfs};
    for (kind, place, file_barrier) in [
        (OperationKind::Create, "wal", Syncfs),
        (OperationKind::SyncDir, "wal", Syncfs),
        (OperationKind::Create, "streams", Syncfs),
        (OperationKind::Open, "streams", Syncfs),
        (OperationKind::SyncAll, "streams", Syncfs),
        (OperationKind::SyncDir, "streams", Files),
        (OperationKind::Create, "tables", Syncfs),
        (OperationKind::SyncDir, "tables", Syncfs),
        (OperationKind::List, "tables", Syncfs),
        (OperationKind::Create, "manifest", Syncfs),
        (OperationKind::SyncDir, "manifest", Syncfs),
        (OperationKind::Open, "super", Syncfs),
    ] {
        let context = format!("{kind:?} {place}");
        let (disk, clock) = (disk(75), SimClock::new());
        let options = Options { max_wal_bytes: 6 * (64 << 10), file_barrier, ..small() };
        let log = open_at(&disk, &options, &clock).unwrap();
        create(&log, "s").unwrap().wait().unwrap();
        let (path_prefix, fault) = (place.to_owned(), Fault::Emfile);
        disk.plan(PlannedFault { kind, path_prefix, when: When::OneIn(1), fault });
        for _ in 0..4 {
            fill(&log, "s");
            clock.advance(Duration::from_secs(60));
            log.maintain();
            let usage = log.usage().remove(0);
            assert_eq!((usage.poisoned, usage.read_only), (None, None), "{context}");
        }
        let refused = append(&log, "s", &[7; 3000]).unwrap_err();
        assert!(refused.is_lack_of_room(), "{context}: {refused}");
        let full_at = log.info("s").unwrap().tail;
        disk.clear_faults();
        clock.advance(Duration::from_secs(60));
        log.maintain();
        append(&log, "s", b"more").unwrap().wait().unwrap();
        drop(log);
        let log = open_at(&disk.crash(), &options, &clock).unwrap();
        assert_eq!(log.info("s").unwrap().tail, Offset(full_at.0 + 4), "{context}");
        let read = read_all(&log, "s").unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(read.len() as u64, full_at.0 + 4, "{context}");
    }
}

#[test]
fn tables_that_find_no_space_are_not_left_behind() {
    // I11: each try would leave less for the next.
    let disk = of_kib(1200, 74);
    let options = Options { max_wal_bytes: 6 * (64 << 10), ..small() };
    let log = open(&disk, &options).unwrap();
    for number in 0..60 {
        create(&log, &format!("{}/{number}", "n".repeat(600))).unwrap().wait().unwrap();
    }
    log.checkpoint().unwrap();
    create(&log, "one more").unwrap().wait().unwrap();
    take_space(&disk, 4 << 10);
    for _ in 0..5 {
        assert!(log.checkpoint().is_err());
        assert_eq!(listed(&disk, "tables").len(), 1);
    }
    disk.remove("ballast").unwrap();
    log.checkpoint().unwrap();
}

#[test]
fn a_log_that_is_full_takes_deletes_until_a_checkpoint_has_made_room() {
    // I5
    let disk = disk(75);
    let options = Options { max_wal_bytes: 4 * (64 << 10), ..small() };
    let log = open(&disk, &options).unwrap();
    for name in ["s", "a", "b", "c"] {
        create(&log, name).unwrap().wait().unwrap();
    }
    fill(&log, "s");
    for name in ["a", "b"] {
        assert!(is_busy(append(&log, "c", b"no")));
        assert!(is_busy(create(&log, "d")));
        log.delete(name).unwrap().wait().unwrap();
    }
    assert!(log.usage()[0].wal_bytes <= options.max_wal_bytes, "deletes have a bound, too");
    drop(log);
    let log = open(&disk.crash(), &options).unwrap();
    assert_eq!(log.list("", None, 9), ["c", "s"]);
    assert!(is_busy(append(&log, "c", b"no")));
    log.delete("c").unwrap().wait().unwrap();
    log.maintain();
    append(&log, "s", b"more").unwrap().wait().unwrap();
    assert_eq!(log.list("", None, 9), ["s"]);
}

#[test]
fn a_disk_that_is_full_takes_deletes_which_make_room_and_appends_go_on_by_themselves() {
    // I1, I5
    for seed in 80..100 {
        let (disk, clock) = (of_kib(900, seed), SimClock::new());
        let options = Options { max_wal_bytes: 8 * (64 << 10), ..small() };
        let log = open_at(&disk, &options, &clock).unwrap();
        for name in ["fat", "kept"] {
            create(&log, name).unwrap().wait().unwrap();
        }
        append(&log, "kept", b"kept").unwrap().wait().unwrap();
        // Until neither the log nor the home can grow.
        let mut len = 0;
        for _ in 0..20 {
            log.maintain();
            clock.advance(Duration::from_secs(20));
            len = fill(&log, "fat");
        }
        let free = disk.free_bytes().unwrap();
        if free > 0 {
            take_space(&disk, 0);
        }
        assert!(is_full(append(&log, "kept", b"no")));
        assert_eq!(read_all(&log, "fat").unwrap().len(), usize::try_from(len).unwrap());
        log.delete("fat").unwrap().wait().unwrap();
        if seed % 2 == 0 {
            drop(log);
            let disk = disk.crash();
            let log = open_at(&disk, &options, &clock).unwrap();
            goes_on(&log, &clock);
        } else {
            goes_on(&log, &clock);
        }
    }
}

/// The fat stream's space is given back, and nobody has to ask for it.
fn goes_on(log: &Log, clock: &SimClock) {
    assert_eq!(log.list("", None, 9), ["kept"]);
    clock.advance(Duration::from_secs(20));
    log.maintain();
    append(log, "kept", b" and more").unwrap().wait().unwrap();
    assert_eq!(read_all(log, "kept").unwrap(), b"kept and more");
    for _ in 0..20 {
        append(log, "kept", &[1; 8000]).unwrap().wait().unwrap();
        log.maintain();
    }
}

#[test]
fn growth_never_takes_the_last_file_of_a_full_disk() {
    // I11
    let disk = of_kib(600, 76);
    let log = open(&disk, &small()).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    log.maintain();
    take_space(&disk, 0);
    fill(&log, "s");
    for number in 0..10 {
        let usage = log.usage().swap_remove(0);
        assert!(usage.relief_bytes > 40 << 10, "delete {number}: {usage:?}");
        assert!(is_full(append(&log, "s", &[1; 4000])));
    }
    log.delete("s").unwrap().wait().unwrap();
}

#[test]
fn images_of_all_lanes_stay_in_their_bound_whatever_readers_hold_on_to() {
    // I11
    let disk = disk(77);
    let segment = 64 << 10;
    let options = Options { lanes: 2, max_image_bytes: 6 * segment, ..small() };
    let log = open(&disk, &options).unwrap();
    for name in ["a", "b", "c", "d"] {
        create(&log, name).unwrap().wait().unwrap();
    }
    let image_bytes = || log.usage().iter().map(|lane| lane.image_bytes).sum::<u64>();
    let mut held = Vec::new();
    for round in 0..200_u64 {
        for name in ["a", "b", "c", "d"] {
            match append(&log, name, &[1; 3000]) {
                Ok(ticket) => drop(ticket.wait().unwrap()),
                Err(LogError::Busy(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(image_bytes() <= options.max_image_bytes, "round {round}");
        let tail = log.info("a").unwrap().tail;
        held.push(log.read("a", Offset(tail.0 - 1), 1).unwrap());
        log.maintain();
    }
    log.delete("d").unwrap().wait().unwrap();
    held.clear();
    log.maintain();
    for name in ["a", "b", "c"] {
        append(&log, name, &[1; 3000]).unwrap().wait().unwrap();
    }
}

#[test]
fn whoever_writes_faster_than_bytes_move_home_is_slowed_down_and_not_refused() {
    let options = Options {
        lanes: 2,
        max_wal_bytes: 8 * (64 << 10),
        checkpoint_wal_bytes: 2 * (64 << 10),
        ..small()
    };
    let machine = machine(Arc::new(disk(78)), &SimClock::new(), 7);
    let log = Log::open(machine, &options, Driver::Threads).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4_u8 {
            let log = &log;
            scope.spawn(move || {
                let name = format!("s{writer}");
                create(log, &name).unwrap().wait().unwrap();
                for number in 0..300 {
                    let ticket = append(log, &name, &[writer; 6000]);
                    let ticket = ticket.unwrap_or_else(|e| panic!("{name} {number}: {e}"));
                    ticket.wait().unwrap();
                }
            });
        }
    });
    for writer in 0..4_u8 {
        assert_eq!(read_all(&log, &format!("s{writer}")).unwrap(), vec![writer; 300 * 6000]);
    }
}
