//! Crashes at every call of a workload.

use std::collections::BTreeSet;

use highwater_disk::sim::{CrashMode, CrashSide, SimDisk};
use highwater_disk::{Access, Disk, DiskResult, ErrorKind};

use crate::{content, durable_file, kind, sim};

const CALLS: u64 = 12;

/// Each kind of mutating call, with reads in between.
fn workload(disk: &SimDisk) -> DiskResult<()> {
    disk.create_dir("d")?;
    let file = disk.create("d/tmp", Access::Buffered)?;
    file.allocate(8192)?;
    file.write_at(&[1; 5000], 0)?;
    file.read_at(&mut [0; 100], 0)?;
    file.sync_data()?;
    disk.rename("d/tmp", "d/a")?;
    disk.list("d")?;
    disk.sync_dir("d")?;
    file.truncate(4096)?;
    file.write_at(&[2; 4096], 4096)?;
    disk.sync_all("")?;
    disk.remove("d/a")?;
    disk.sync_dir("d")
}

#[test]
fn every_mutating_call_is_a_crash_point_and_nothing_works_after_it() {
    let disk = sim(1, CrashMode::Random);
    workload(&disk).unwrap();
    assert_eq!(disk.operations(), CALLS);
    for nth in 1..=CALLS {
        let disk = sim(nth, CrashMode::Random);
        disk.crash_after_operations(nth);
        let error = workload(&disk).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Io);
        assert!(error.message.contains("crashed"), "{error}");
        assert!(disk.is_crashed());
        assert_eq!(disk.operations(), nth);
        assert_eq!(kind(disk.list("")), ErrorKind::Io);
        assert_eq!(kind(disk.lock("")), ErrorKind::Io);
        let after = disk.crash();
        after.list("").unwrap();
        assert_eq!(after.operations(), 0);
    }
    let disk = sim(1, CrashMode::Random);
    disk.crash_after_operations(0);
    assert_eq!(kind(disk.free_bytes()), ErrorKind::Io);
}

#[test]
fn the_same_seed_crashes_on_the_same_side_with_the_same_survivors() {
    for nth in 1..=CALLS {
        let crash = || {
            let disk = sim(nth, CrashMode::Random);
            disk.crash_after_operations(nth);
            workload(&disk).unwrap_err();
            let after = disk.crash();
            workload(&after).ok();
            let last = after.crash();
            (last.trace(), last.durable_hash(), disk.pending())
        };
        assert_eq!(crash(), crash());
    }
}

#[test]
fn different_seeds_crash_on_both_sides_with_different_survivors() {
    let survivors: BTreeSet<u64> = (0..100)
        .map(|seed| {
            let disk = sim(seed, CrashMode::Random);
            disk.crash_after_operations(5);
            workload(&disk).unwrap_err();
            disk.crash().durable_hash()
        })
        .collect();
    assert!(survivors.len() > 10, "{}", survivors.len());
}

#[test]
fn a_barrier_cut_short_did_nothing_or_everything() {
    let after = |side| {
        let disk = sim(1, CrashMode::LoseAllUnsynced);
        let file = disk.create("a", Access::Buffered).unwrap();
        disk.sync_dir("").unwrap();
        file.write_at(b"abc", 0).unwrap();
        disk.crash_at(1, side);
        assert_eq!(kind(file.sync_data()), ErrorKind::Io);
        content(&disk.crash(), "a").unwrap()
    };
    assert_eq!(after(CrashSide::Before), b"");
    assert_eq!(after(CrashSide::After), b"abc");
}

#[test]
fn a_durable_write_survives_every_crash_and_takes_no_other_write_with_it() {
    let disk = sim(1, CrashMode::LoseAllUnsynced);
    let file = durable_file(&disk, "a", &[1; 2048]);
    file.write_at(&[2; 2048], 0).unwrap();
    file.write_durable_at(&[3; 512], 512).unwrap();
    file.write_at(&[4; 512], 512).unwrap();
    let found = content(&disk.fork().crash(), "a").unwrap();
    assert_eq!((found[0], found[512], found[1024]), (1, 3, 1));
    // One that makes the file longer takes the length with it.
    file.write_durable_at(&[5; 100], 4000).unwrap();
    let found = content(&disk.crash(), "a").unwrap();
    assert_eq!((found.len(), found[512], found[2048], found[4000]), (4100, 3, 0, 5));
}

#[test]
fn a_durable_write_cut_short_leaves_any_part_of_its_sectors() {
    let mut survivors = BTreeSet::new();
    for seed in 0..200 {
        let disk = sim(seed, CrashMode::Random);
        let file = durable_file(&disk, "a", &[1; 1024]);
        disk.crash_at(1, CrashSide::Seeded);
        assert_eq!(kind(file.write_durable_at(&[2; 1024], 0)), ErrorKind::Io);
        let found = content(&disk.crash(), "a").unwrap();
        survivors.insert((found[0], found[512]));
    }
    assert_eq!(survivors, BTreeSet::from([(1, 1), (1, 2), (2, 1), (2, 2)]));
}

#[test]
fn a_dead_disk_crashes_again_from_the_same_state_and_a_fork_goes_on() {
    let disk = sim(1, CrashMode::Random);
    let file = disk.create("a", Access::Buffered).unwrap();
    file.write_at(&[1; 4096], 0).unwrap();
    let removed = durable_file(&disk, "b", b"");
    removed.write_at(&[2; 4096], 0).unwrap();
    disk.remove("b").unwrap();
    disk.sync_dir("").unwrap();
    let held = disk.lock("").unwrap();
    let fork = disk.fork();
    assert_eq!(fork.free_bytes().unwrap(), disk.free_bytes().unwrap() + 4096);
    let pending = disk.pending();
    for round in 0..20 {
        let after = disk.crash();
        assert_eq!(disk.pending(), pending, "round {round}");
        assert_eq!(after.pending_count(), 0);
        after.lock("").unwrap();
    }
    drop((file, removed, held));
    assert_eq!(disk.pending(), pending);
    fork.lock("").unwrap();
    let file = fork.open("a", Access::Buffered).unwrap();
    file.sync_data().unwrap();
    fork.sync_dir("").unwrap();
    assert_eq!(content(&fork.crash_with(|_| false), "a").unwrap(), [1; 4096]);
}

#[test]
fn each_life_draws_its_own_chances() {
    let disk = sim(1, CrashMode::Random);
    durable_file(&disk, "a", &[0; 4096]);
    let survivors: BTreeSet<Vec<u8>> = (0..20)
        .map(|_| {
            let life = disk.crash_with(|_| true);
            life.open("a", Access::Buffered).unwrap().write_at(&[1; 4096], 0).unwrap();
            content(&life.crash(), "a").unwrap()
        })
        .collect();
    assert!(survivors.len() > 3, "{}", survivors.len());
}

#[test]
fn each_call_leaves_a_line_that_tells_arguments_and_outcome() {
    let disk = sim(1, CrashMode::KeepAll);
    let file = disk.create("a", Access::Direct).unwrap();
    file.write_at(&[7; 4096], 8192).unwrap();
    disk.remove("b").unwrap_err();
    let after = disk.crash();
    assert_eq!(
        after.trace(),
        [
            "1 create a -> ok",
            "2 write_at a 8192+4096 #96b513127af1f325 -> ok",
            "3 remove b -> NotFound: no such file or directory",
            "crash kept 10 of 10 -> 602fbaad64318faf",
        ]
    );
}
