//! What barriers cause on XFS.

use highwater_report::case::{Barrier, Case, FileState};
use highwater_report::results::ReceiptVerdict;

use super::{Evidence, Gathered, data_only, evidence, on_the_file, receipt};
use crate::image::XFS;

static XFS_EVIDENCE: Gathered = Gathered::new();

fn xfs(claim: &str) -> Option<&'static Evidence> {
    evidence(&XFS_EVIDENCE, XFS, claim)
}

fn initialised(case: &Case) -> bool {
    case.state == FileState::Initialised
}

#[test]
fn any_barrier_on_a_growing_or_allocated_file_flushes_twice_on_xfs() {
    let Some(evidence) = xfs("flushes of growing and allocated files") else { return };
    evidence.assert_flushes(2, |case| case.promises_durability() && !initialised(case));
}

#[test]
fn the_log_of_xfs_adds_about_one_kib_per_barrier_to_growing_and_allocated_files() {
    let Some(evidence) = xfs("KiB of growing and allocated files") else { return };
    let which = |case: &Case| case.promises_durability() && !initialised(case);
    evidence.assert_kib_between(4.5, 6.5, which);
}

#[test]
fn an_initialised_file_pays_one_flush_and_four_kib_per_data_barrier_on_xfs() {
    let Some(evidence) = xfs("data barriers on initialised files") else { return };
    let which = |case: &Case| initialised(case) && data_only(case.barrier);
    evidence.assert_flushes(1, which);
    evidence.assert_kib_between(4.0, 4.0, which);
}

#[test]
fn fsync_of_an_initialised_file_pays_for_the_inode_when_its_timestamp_has_moved_on_xfs() {
    let Some(evidence) = xfs("fsync of initialised files") else { return };
    let which =
        |case: &Case| initialised(case) && matches!(case.barrier, Barrier::Fsync | Barrier::OSync);
    evidence.assert_flushes_between(1.0, 2.0, which);
    evidence.assert_kib_between(4.0, 5.5, which);
}

/// syncfs on XFS forces the log, and the device is flushed with it; overwrites put nothing into the
/// log but a timestamp now and then, so most calls send no flush at all. The receipt must say so.
#[test]
fn a_syncfs_that_flushes_nothing_is_called_absent_on_xfs() {
    let Some(evidence) = xfs("syncfs after overwrites") else { return };
    let overwrites = |case: &Case| initialised(case) && case.barrier == Barrier::Syncfs;
    evidence.assert_flushes_between(0.0, 2.0, overwrites);
    evidence.assert_each(overwrites, |case, _| {
        let receipt = receipt(case);
        let flushes = receipt.top.as_ref().map_or(0.0, |top| top.flushes);
        let absent = receipt.verdict == ReceiptVerdict::Absent;
        (absent != (flushes < 0.9)).then(|| format!("{flushes:.3} flushes: {:?}", receipt.verdict))
    });
    evidence.assert_issued(|case| case.barrier == Barrier::Syncfs && !initialised(case));
}

#[test]
fn what_is_not_durable_asks_xfs_for_no_flush() {
    let Some(evidence) = xfs("no barrier and sync_file_range") else { return };
    evidence.assert_nothing_asked();
}

#[test]
fn written_blocks_lose_the_unwritten_flag_and_stay_where_they_are_on_xfs() {
    let Some(evidence) = xfs("extents") else { return };
    evidence.assert_unwritten_bytes();
    evidence.assert_first_block_unmoved(true, FileState::Allocated);
    evidence.assert_first_block_unmoved(true, FileState::Initialised);
}

#[test]
fn only_an_appended_file_moves_its_end_on_xfs() {
    let Some(evidence) = xfs("ends of files") else { return };
    evidence.assert_ends_of_file();
}

#[test]
fn every_record_is_read_back_on_xfs() {
    let Some(evidence) = xfs("readback") else { return };
    evidence.assert_readback();
}

#[test]
fn receipts_on_xfs_say_issued_for_the_loop_device_and_the_disk_below_it() {
    let claim = "devices in receipts on XFS";
    let Some(evidence) = xfs(claim) else { return };
    evidence.assert_issued(on_the_file);
    evidence.assert_devices(claim);
}
