//! Faults that are reported, faults that are not, and a disk that fills up.

use highwater_disk::sim::{
    CrashMode, Fault, OperationKind, PlannedFault, SimClock, SimDisk, SimOptions, SimRng, When,
};
use highwater_disk::{Access, Clock, Disk, ErrorKind, Rng};
use std::time::Duration;

use crate::{content, durable_file, kind, sim};

#[test]
fn a_scripted_fault_strikes_the_nth_call_of_its_kind_once() {
    let disk = sim(1, CrashMode::LoseAllUnsynced);
    disk.fail_next(OperationKind::Create, 2, Fault::Eio);
    disk.fail_next(OperationKind::ReadAt, 1, Fault::Eio);
    let file = durable_file(&disk, "a", b"abc");
    assert_eq!(kind(disk.create("b", Access::Buffered)), ErrorKind::Io);
    disk.create("b", Access::Buffered).unwrap();
    assert_eq!(kind(file.read_at(&mut [0], 0)), ErrorKind::Io);
    file.read_at(&mut [0], 0).unwrap();
}

#[test]
fn a_fault_can_be_bound_to_paths_and_to_chance() {
    let failures = |seed| -> Vec<usize> {
        let disk = sim(seed, CrashMode::Random);
        disk.create_dir("wal").unwrap();
        disk.plan(PlannedFault {
            kind: OperationKind::WriteAt,
            path_prefix: "wal/".to_owned(),
            when: When::OneIn(10),
            fault: Fault::Enospc,
        });
        let (log, other) = (durable_file(&disk, "wal/a", b""), durable_file(&disk, "a", b""));
        let failed = |n: &usize| {
            other.write_at(&[1], 0).unwrap();
            log.write_at(&[1], u64::try_from(*n).unwrap()).is_err()
        };
        let struck = (0..200).filter(failed).collect();
        disk.clear_faults();
        assert!((0..200).all(|_| log.write_at(&[1], 0).is_ok()));
        struck
    };
    assert_eq!(failures(7), failures(7));
    assert_ne!(failures(7), failures(8));
    assert!((5..50).contains(&failures(7).len()), "{:?}", failures(7));
}

#[test]
#[should_panic(expected = "cannot strike")]
fn a_fault_that_makes_no_sense_for_a_call_is_refused() {
    sim(1, CrashMode::Random).fail_next(OperationKind::SyncData, 1, Fault::LostWrite);
}

#[test]
fn a_failed_write_leaves_a_prefix_of_its_bytes() {
    for (fault, expected) in [(Fault::Eio, ErrorKind::Io), (Fault::ShortWrite, ErrorKind::Full)] {
        let mut parts = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let disk = sim(seed, CrashMode::Random);
            let file = durable_file(&disk, "a", &[1; 4]);
            disk.fail_next(OperationKind::WriteAt, 1, fault.clone());
            assert_eq!(kind(file.write_at(&[2; 4], 0)), expected);
            let found = content(&disk, "a").unwrap();
            let part = found.iter().take_while(|byte| **byte == 2).count();
            assert!(found[part..].iter().all(|byte| *byte == 1));
            parts.insert(part);
        }
        let most = if fault == Fault::Eio { 4 } else { 3 };
        assert_eq!(parts, (0..=most).collect());
    }
}

#[test]
fn a_failed_barrier_loses_pages_although_reads_show_them_and_later_barriers_succeed() {
    let disk = sim(1, CrashMode::KeepAll);
    let file = durable_file(&disk, "a", &[1; 1024]);
    file.write_at(&[2; 1024], 0).unwrap();
    disk.fail_next(OperationKind::SyncData, 1, Fault::FailedBarrierDropsPages);
    assert_eq!(kind(file.sync_data()), ErrorKind::Io);
    assert_eq!(content(&disk, "a").unwrap(), [2; 1024]);
    file.sync_data().unwrap();
    disk.sync_all("").unwrap();
    assert_eq!(content(&disk.fork().crash(), "a").unwrap(), [1; 1024]);
    // Written again, a sector becomes durable, the whole of it; the other stays lost.
    file.write_at(&[3], 0).unwrap();
    file.sync_data().unwrap();
    let found = content(&disk.crash(), "a").unwrap();
    assert_eq!((found[0], found[511], found[512]), (3, 2, 1));
}

#[test]
fn a_failed_barrier_can_leave_a_length_without_its_bytes() {
    let disk = sim(1, CrashMode::LoseAllUnsynced);
    let file = durable_file(&disk, "a", b"");
    file.write_at(&[2; 600], 0).unwrap();
    disk.fail_next(OperationKind::SyncData, 1, Fault::FailedBarrierDropsPages);
    assert_eq!(kind(file.sync_data()), ErrorKind::Io);
    file.sync_data().unwrap();
    assert_eq!(content(&disk.crash(), "a").unwrap(), [0; 600]);
}

#[test]
fn a_barrier_that_fails_otherwise_leaves_everything_unsynced() {
    let disk = sim(1, CrashMode::LoseAllUnsynced);
    let file = durable_file(&disk, "a", b"old");
    file.write_at(b"new", 0).unwrap();
    disk.fail_next(OperationKind::SyncData, 1, Fault::Eio);
    assert_eq!(kind(file.sync_data()), ErrorKind::Io);
    assert_eq!(content(&disk.fork().crash(), "a").unwrap(), b"old");
    assert_eq!(content(&disk.crash_with(|_| true), "a").unwrap(), b"new");
}

#[test]
fn a_failed_sync_of_names_or_of_everything_can_lose_names_too() {
    for barrier in [OperationKind::SyncDir, OperationKind::SyncAll] {
        let disk = sim(1, CrashMode::KeepAll);
        durable_file(&disk, "a", b"abc");
        disk.rename("a", "b").unwrap();
        disk.fail_next(barrier, 1, Fault::FailedBarrierDropsPages);
        let answer = match barrier {
            OperationKind::SyncDir => disk.sync_dir(""),
            _ => disk.sync_all(""),
        };
        assert_eq!(kind(answer), ErrorKind::Io);
        disk.sync_dir("").unwrap();
        assert_eq!(content(&disk, "b").unwrap(), b"abc");
        let after = disk.crash();
        assert_eq!((content(&after, "a").unwrap(), content(&after, "b")), (b"abc".to_vec(), None));
    }
}

#[test]
fn a_failed_durable_write_is_shown_by_reads_and_may_never_become_durable() {
    let after = |fault: Fault| {
        let disk = sim(1, CrashMode::KeepAll);
        let file = durable_file(&disk, "a", &[1; 1024]);
        disk.fail_next(OperationKind::WriteDurableAt, 1, fault);
        let answer = file.write_durable_at(&[2; 1024], 0);
        let shown = content(&disk, "a").unwrap();
        // A later barrier succeeds without it.
        file.sync_data().unwrap();
        (answer.map_err(|error| error.kind), shown[0], content(&disk.crash(), "a").unwrap()[0])
    };
    assert_eq!(after(Fault::FailedBarrierDropsPages), (Err(ErrorKind::Io), 2, 1));
    assert_eq!(after(Fault::LostWrite), (Ok(()), 2, 1));
    assert_eq!(after(Fault::Enospc), (Err(ErrorKind::Full), 1, 1));
    let (answer, shown, durable) = after(Fault::Eio);
    assert_eq!((answer, shown), (Err(ErrorKind::Io), durable));
}

#[test]
fn a_lost_write_is_acknowledged_and_gone_after_a_crash() {
    let disk = sim(1, CrashMode::KeepAll);
    let file = durable_file(&disk, "a", &[1; 512]);
    disk.fail_next(OperationKind::WriteAt, 1, Fault::LostWrite);
    file.write_at(&[2; 512], 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(content(&disk, "a").unwrap(), [2; 512]);
    assert_eq!(content(&disk.crash(), "a").unwrap(), [1; 512]);
}

#[test]
fn a_misdirected_write_lands_elsewhere_and_not_beyond_the_end() {
    let disk = sim(1, CrashMode::KeepAll);
    durable_file(&disk, "b", &[1; 1000]);
    let file = durable_file(&disk, "a", &[1; 100]);
    let fault = Fault::MisdirectedWrite { path: "b".to_owned(), offset: 900 };
    disk.fail_next(OperationKind::WriteAt, 1, fault);
    file.write_at(&[2; 200], 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_all("").unwrap();
    let after = disk.crash();
    assert_eq!(content(&after, "a").unwrap(), [[1; 100], [0; 100]].concat());
    assert_eq!(content(&after, "b").unwrap(), [vec![1; 900], vec![2; 100]].concat());
}

#[test]
fn a_flipped_bit_is_there_at_once_and_after_a_crash() {
    let disk = sim(1, CrashMode::LoseAllUnsynced);
    durable_file(&disk, "a", &[0; 600]);
    disk.flip_bit("a", 599, 7).unwrap();
    assert_eq!(content(&disk, "a").unwrap()[599], 0x80);
    assert_eq!(content(&disk.crash(), "a").unwrap()[599], 0x80);
    assert_eq!(kind(sim(1, CrashMode::Random).flip_bit("a", 0, 0)), ErrorKind::NotFound);
}

#[test]
fn a_full_disk_refuses_growth_and_takes_overwrites() {
    let disk = SimDisk::new(SimOptions { capacity_bytes: 16384, ..SimOptions::seeded(1) });
    let file = disk.create("a", Access::Buffered).unwrap();
    file.allocate(12288).unwrap();
    assert_eq!(disk.free_bytes().unwrap(), 4096);
    let other = disk.create("b", Access::Buffered).unwrap();
    assert_eq!(kind(other.allocate(4097)), ErrorKind::Full);
    assert_eq!(other.len().unwrap(), 0);
    other.write_at(&[1], 10_000).unwrap();
    assert_eq!(disk.free_bytes().unwrap(), 0);
    assert_eq!(kind(other.write_at(&[1], 0)), ErrorKind::Full);
    file.write_at(&[2; 12288], 0).unwrap();
    other.write_at(&[2; 4096], 8192).unwrap();
    file.truncate(4096).unwrap();
    assert_eq!(disk.free_bytes().unwrap(), 8192);
    other.write_at(&[1; 8192], 0).unwrap();
    // The space of a removed file comes back with its last handle.
    disk.remove("a").unwrap();
    assert_eq!(disk.free_bytes().unwrap(), 0);
    drop(file);
    assert_eq!(disk.free_bytes().unwrap(), 4096);
    let after = disk.crash_with(|_| true);
    assert_eq!(after.free_bytes().unwrap(), 4096);
}

#[test]
fn a_sync_of_one_device_leaves_the_others_unsynced() {
    let disk = sim(1, CrashMode::LoseAllUnsynced);
    for dir in ["one", "two"] {
        disk.create_dir(dir).unwrap();
    }
    disk.sync_all("").unwrap();
    disk.mount("two");
    for path in ["a", "one/a", "two/a"] {
        disk.create(path, Access::Buffered).unwrap().write_at(b"abc", 0).unwrap();
    }
    assert_eq!(kind(disk.rename("one/a", "two/b")), ErrorKind::Io);
    let synced = |dir: &str| {
        let fork = disk.fork();
        fork.sync_all(dir).unwrap();
        let after = fork.crash();
        ["a", "one/a", "two/a"]
            .map(|path| content(&after, path).is_some_and(|found| found == b"abc"))
    };
    assert_eq!(synced("one"), [true, true, false]);
    assert_eq!(synced("two"), [false, false, true]);
    disk.fail_next(OperationKind::SyncAll, 1, Fault::FailedBarrierDropsPages);
    assert_eq!(kind(disk.sync_all("two")), ErrorKind::Io);
    disk.sync_all("two").unwrap();
    disk.sync_all("").unwrap();
    let after = disk.crash();
    assert_eq!(content(&after, "one/a").unwrap(), b"abc");
    assert_eq!(content(&after, "two/a"), None);
}

#[test]
fn virtual_time_moves_only_when_told_and_its_numbers_are_those_of_the_seed() {
    let clock = SimClock::new();
    let same = clock.clone();
    let start = clock.wall();
    clock.advance(Duration::from_secs(5));
    assert_eq!(same.monotonic(), Duration::from_secs(5));
    assert_eq!(same.wall(), start + Duration::from_secs(5));
    clock.set_wall(Duration::ZERO);
    assert_eq!((same.wall(), same.monotonic()), (Duration::ZERO, Duration::from_secs(5)));
    assert_eq!(SimRng::new(3).next_u64(), SimRng::new(3).next_u64());
    assert_ne!(SimRng::new(3).next_u64(), SimRng::new(4).next_u64());
}
