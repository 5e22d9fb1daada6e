//! What a log says when its device has acknowledged a write that is not there: that acknowledged
//! bytes are damaged, wherever anything proves it (I6).

use std::sync::Arc;

use highwater_disk::sim::{Fault, OperationKind, PlannedFault, SimDisk, When};
use highwater_disk::{Access, ReadOnly};
use highwater_log::check::{Verdict, check};
use highwater_log::error::OpenError;
use highwater_log::options::{Options, WriteBarrier, WritePath, WritePathChoice};

use crate::support::*;

/// Of one block, so that where each commit stands is known.
const PAYLOAD: [u8; 3000] = [7; 3000];

fn lie(disk: &SimDisk, kind: OperationKind, nth: u64, fault: Fault) {
    let (path_prefix, when) = ("wal/0".to_owned(), When::Nth(nth));
    disk.plan(PlannedFault { kind, path_prefix, when, fault });
}

/// The check and opening say that acknowledged bytes are damaged.
fn assert_refused(disk: &SimDisk, options: &Options) {
    let report = check(&ReadOnly::over(Arc::new(disk.fork())), &mut |_| {}).unwrap();
    assert_eq!(report.verdict(), Verdict::Damaged, "{report:?}");
    let refused = open(disk, options);
    assert!(matches!(refused, Err(OpenError::Damaged { .. })), "{refused:?}");
}

#[test]
fn a_commit_that_never_reached_the_device_is_damage_once_another_has_followed() {
    let disk = disk(1);
    let log = open(&disk, &small()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    lie(&disk, OperationKind::WriteAt, 1, Fault::LostWrite);
    for _ in 0..2 {
        append(&log, "a", &PAYLOAD).unwrap().wait().unwrap();
    }
    assert_refused(&disk.crash(), &small());
}

#[test]
fn a_commit_that_was_written_over_the_one_before_proves_by_itself_that_there_was_one() {
    // By whole blocks, or by sectors.
    for astray in [0, 512] {
        let disk = disk(2);
        let log = open(&disk, &small()).unwrap();
        create(&log, "a").unwrap().wait().unwrap();
        // A header, the epoch's start, the create; then one block for each append.
        let (path, offset) = ("wal/0/0.seg".to_owned(), 3 * 4096 + astray);
        lie(&disk, OperationKind::WriteAt, 2, Fault::MisdirectedWrite { path, offset });
        for _ in 0..2 {
            append(&log, "a", &PAYLOAD).unwrap().wait().unwrap();
        }
        assert_refused(&disk.crash(), &small());
    }
}

#[test]
fn a_header_that_never_reached_a_segment_used_again_is_damage() {
    let path = WritePath { access: Access::Direct, barrier: WriteBarrier::Dsync };
    let options = Options { write_path: WritePathChoice::Fixed(path), ..small() };
    let disk = disk(3);
    let log = open(&disk, &options).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    let commit = || append(&log, "a", &PAYLOAD).unwrap().wait().unwrap();
    log.maintain();
    // Through both files that are made ahead, and home, so that they are used again.
    for _ in 0..40 {
        commit();
    }
    assert!(log.checkpoint().unwrap());
    // Frames are durable writes; what is left are headers, since no file has to be made.
    lie(&disk, OperationKind::WriteAt, 1, Fault::LostWrite);
    // A few to the end of the segment, and most of the next: no later header tells.
    for _ in 0..14 {
        commit();
    }
    assert_refused(&disk.crash(), &options);
}

#[test]
fn a_superblock_that_landed_on_the_last_commit_is_damage_since_its_manifest_vouches_for_that() {
    let disk = disk(4);
    let log = open(&disk, &small()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    // A header, the epoch's start, the create; then the append.
    append(&log, "a", &PAYLOAD).unwrap().wait().unwrap();
    let (path, offset) = ("wal/0/0.seg".to_owned(), 3 * 4096);
    let fault = Fault::MisdirectedWrite { path, offset };
    let (path_prefix, when) = ("super".to_owned(), When::Nth(1));
    disk.plan(PlannedFault { kind: OperationKind::WriteAt, path_prefix, when, fault });
    log.checkpoint().unwrap();
    drop(log);
    assert_refused(&disk.crash_with(|_| true), &small());
}

#[test]
fn a_manifest_whose_superblock_was_never_written_vouches_and_takes_nothing() {
    let disk = disk(5);
    let log = open(&disk, &small()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    append(&log, "a", b"kept").unwrap().wait().unwrap();
    let (path_prefix, when) = ("super".to_owned(), When::Nth(1));
    let (kind, fault) = (OperationKind::WriteAt, Fault::LostWrite);
    disk.plan(PlannedFault { kind, path_prefix, when, fault });
    log.checkpoint().unwrap();
    drop(log);
    let log = open(&disk.crash(), &small()).unwrap();
    assert_eq!(read_all(&log, "a").unwrap(), b"kept");
}
