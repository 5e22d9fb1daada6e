//! What a log does about leftovers: of failed barriers, of crashes in a checkpoint, of damage that
//! looks like an end.

use highwater_disk::sim::{
    CrashMode, Fault, OperationKind, PlannedFault, SimDisk, SimOptions, When,
};
use highwater_disk::{Disk, DiskResult};
use highwater_log::Log;
use highwater_log::error::{LogError, OpenError, Rejection};
use highwater_log::options::{FileBarrier, Options};
use highwater_log::request::{Append, AppendOutcome, Producer};

use crate::support::*;

fn fail(disk: &SimDisk, kind: OperationKind, path_prefix: &str, fault: Fault) {
    let path_prefix = path_prefix.to_owned();
    disk.plan(PlannedFault { kind, path_prefix, when: When::Nth(1), fault });
}

/// Appends blocks of 3000 bytes, each its own frame of one block.
fn fill(log: &Log, name: &str, blocks: u8) {
    for number in 0..blocks {
        append(log, name, &[number; 3000]).unwrap().wait().unwrap();
    }
}

#[test]
fn after_a_failed_barrier_of_the_home_no_segment_is_used_again() {
    // R1
    for (barrier, kind) in [
        (FileBarrier::Files, OperationKind::Open),
        (FileBarrier::Files, OperationKind::SyncData),
        (FileBarrier::Syncfs, OperationKind::SyncAll),
    ] {
        for fault in [Fault::Eio, Fault::Enospc, Fault::FailedBarrierDropsPages] {
            let is_possible = match kind {
                OperationKind::Open => fault == Fault::Eio,
                _ => true,
            };
            if !is_possible {
                continue;
            }
            let disk = disk(31);
            let options = Options { file_barrier: barrier, max_open_files: 1, ..small() };
            let log = open(&disk, &options).unwrap();
            for name in ["s", "t"] {
                create(&log, name).unwrap().wait().unwrap();
            }
            log.checkpoint().unwrap();
            fill(&log, "s", 40);
            fill(&log, "t", 1);
            fail(&disk, kind, "streams/0", fault.clone());
            assert!(log.checkpoint().is_err(), "{barrier:?} {kind:?} {fault:?}");
            disk.clear_faults();
            log.checkpoint().ok();
            assert_eq!(read_all(&log, "s").unwrap().len(), 40 * 3000);
            drop(log);
            let log = open(&disk.crash(), &options).unwrap();
            assert_eq!(read_all(&log, "s").unwrap().len(), 40 * 3000, "{kind:?} {fault:?}");
        }
    }
}

#[test]
fn after_a_failed_write_of_the_superblock_nothing_it_may_name_is_removed() {
    // R1, I7
    for seed in 0..40 {
        let disk = disk(seed);
        let log = open(&disk, &small()).unwrap();
        create(&log, "s").unwrap().wait().unwrap();
        fill(&log, "s", 40);
        fail(&disk, OperationKind::SyncData, "super", Fault::Eio);
        assert!(log.checkpoint().is_err());
        log.checkpoint().ok();
        drop(log);
        let log = open(&disk.crash(), &small()).unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert_eq!(read_all(&log, "s").unwrap().len(), 40 * 3000);
    }
}

#[test]
fn what_a_failed_barrier_left_in_the_page_cache_is_durable_before_readers_see_it() {
    // I2: the process starts again, the machine does not; only then the power fails.
    let disk = disk(32);
    let log = open(&disk, &small()).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    append(&log, "s", b"kept").unwrap().wait().unwrap();
    fail(&disk, OperationKind::SyncData, "wal/0", Fault::FailedBarrierDropsPages);
    assert!(append(&log, "s", b", shown").unwrap().wait().is_err());
    drop(log);
    let log = open(&disk, &small()).unwrap();
    let seen = read_all(&log, "s").unwrap();
    append(&log, "s", b", more").unwrap().wait().unwrap();
    drop(log);
    let log = open(&disk.crash(), &small()).unwrap();
    assert_eq!(read_all(&log, "s").unwrap(), [&seen[..], b", more"].concat());
}

#[test]
fn a_process_that_starts_again_makes_durable_what_the_one_before_could_not() {
    // R1, I1: names and headers that only the kernel has, until the power fails.
    for nth in 1..12 {
        for fault in [Fault::Eio, Fault::FailedBarrierDropsPages] {
            let options =
                SimOptions { crash: CrashMode::LoseAllUnsynced, ..SimOptions::seeded(37) };
            let disk = SimDisk::new(options);
            let files = Options { file_barrier: FileBarrier::Files, ..small() };
            let write = || -> Result<(), Box<dyn std::error::Error>> {
                let log = open(&disk, &files)?;
                create(&log, "s")?.wait()?;
                append(&log, "s", &[7; 3000])?.wait()?;
                log.checkpoint()?;
                Ok(())
            };
            disk.fail_next(OperationKind::SyncData, nth, fault.clone());
            write().ok();
            disk.clear_faults();
            let log = open(&disk, &files).unwrap();
            create(&log, "s").unwrap().wait().unwrap();
            append(&log, "s", &[8; 3000]).unwrap().wait().unwrap();
            log.checkpoint().unwrap();
            let seen = read_all(&log, "s").unwrap();
            drop(log);
            let log = open(&disk.crash(), &files);
            let log = log.unwrap_or_else(|error| panic!("barrier {nth}, {fault:?}: {error}"));
            assert_eq!(read_all(&log, "s").unwrap(), seen, "barrier {nth}, {fault:?}");
        }
    }
}

#[test]
fn segments_given_back_are_used_again_after_a_restart() {
    // I11
    let disk = disk(33);
    let mut most = 0;
    for life in 0..6 {
        let log = open(&disk, &small()).unwrap();
        create(&log, "s").unwrap().wait().unwrap();
        fill(&log, "s", 60);
        log.checkpoint().unwrap();
        drop(log);
        let now = listed(&disk, "wal/0").len();
        assert!(life == 0 || now <= most, "life {life}: {now} files after {most}");
        most = most.max(now + usize::from(life == 0));
    }
}

#[test]
fn the_bytes_of_a_deleted_stream_are_given_back_whenever_the_crash_comes() {
    // I5, I11
    for (nth, fills) in (1..60).flat_map(|nth| [(nth, 0), (nth, 40)]) {
        let disk = disk(34);
        let log = open(&disk, &small()).unwrap();
        for name in ["s", "t"] {
            create(&log, name).unwrap().wait().unwrap();
            append(&log, name, &[1; 2000]).unwrap().wait().unwrap();
        }
        log.checkpoint().unwrap();
        log.delete("t").unwrap().wait().unwrap();
        fill(&log, "s", fills);
        disk.crash_after_operations(nth);
        log.checkpoint().ok();
        drop(log);
        let disk = disk.crash();
        let log = open(&disk, &small()).unwrap();
        log.checkpoint().unwrap();
        assert_eq!(listed(&disk, "streams/0").len(), 1, "crash at call {nth}, {fills} appends");
        assert!(read_all(&log, "s").unwrap().starts_with(&[1; 2000]));
    }
}

#[test]
fn the_producer_unused_for_longest_is_forgotten_first_also_after_a_restart() {
    // I4
    let options = Options { max_producers: 3, ..small() };
    let disk = disk(35);
    let from = |id, sequence| Append {
        producer: Some(Producer { id, epoch: 1, sequence }),
        ..plain("s", b"x")
    };
    let log = open(&disk, &options).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    for (id, sequence) in [("z", 0), ("a", 0), ("m", 0), ("z", 1)] {
        log.append(&from(id, sequence)).unwrap().wait().unwrap();
    }
    log.checkpoint().unwrap();
    drop(log);
    let log = open(&disk, &options).unwrap();
    log.append(&from("new", 0)).unwrap().wait().unwrap();
    for id in ["z", "m"] {
        let again = log.append(&from(id, 0)).unwrap().wait().unwrap();
        assert!(matches!(again.outcome, AppendOutcome::Duplicate { .. }), "{id}");
    }
    let gap = log.append(&from("a", 1)).unwrap_err();
    assert!(matches!(gap, LogError::Rejected(Rejection::ProducerGap { expected: 0, .. })));
}

/// A log over several segments, each full to its last block, closed and opened once more.
fn full_segments() -> (SimDisk, Vec<u8>) {
    let disk = disk(36);
    let log = open(&disk, &small()).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    fill(&log, "s", 50);
    let content = read_all(&log, "s").unwrap();
    drop(log);
    drop(open(&disk, &small()).unwrap());
    (disk, content)
}

fn judge(disk: &SimDisk, content: &[u8], what: &str) {
    match open(disk, &small()) {
        Err(OpenError::Damaged { .. } | OpenError::Format { .. }) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(log) => assert_eq!(read_all(&log, "s").unwrap(), content, "{what}"),
    }
}

#[test]
fn damage_at_the_border_of_segments_is_not_taken_for_the_end_of_the_log() {
    // I6
    let (clean, content) = full_segments();
    for file in 0..3 {
        let path = format!("wal/0/{file}.seg");
        for byte in [0, 16, 32, 60, 4096, 4096 + 8, 4096 + 40, 4096 + 200] {
            let disk = clean.fork();
            disk.flip_bit(&path, byte, 2).unwrap();
            judge(&disk, &content, &format!("byte {byte} of {path}"));
        }
    }
}

#[test]
fn a_segment_that_cannot_be_read_is_no_end_of_the_log() {
    // I6
    let (clean, content) = full_segments();
    for nth in 1..5 {
        let disk = clean.fork();
        let path_prefix = "wal/0/1.seg".to_owned();
        let (kind, when) = (OperationKind::ReadAt, When::Nth(nth));
        disk.plan(PlannedFault { kind, path_prefix, when, fault: Fault::Eio });
        match open(&disk, &small()) {
            Err(OpenError::Disk(_)) => {}
            Err(error) => panic!("read {nth}: {error}"),
            Ok(log) => assert_eq!(read_all(&log, "s").unwrap(), content, "read {nth}"),
        }
    }
}

#[test]
fn a_segment_cut_short_or_gone_is_damage_and_stays_as_it_is() -> DiskResult<()> {
    // I6
    let (clean, content) = full_segments();
    for file in 0..3 {
        let path = format!("wal/0/{file}.seg");
        let disk = clean.fork();
        let opened = disk.open(&path, highwater_disk::Access::Buffered)?;
        opened.truncate(20_000)?;
        judge(&disk, &content, &format!("{path} cut"));
        assert_eq!(opened.len()?, 20_000, "nothing was changed");
        let disk = clean.fork();
        disk.remove(&path)?;
        judge(&disk, &content, &format!("{path} gone"));
    }
    Ok(())
}
