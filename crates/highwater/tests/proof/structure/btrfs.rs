//! What barriers cause on btrfs, which writes every block to a new place.

use highwater_report::case::{Barrier, FileState};

use super::{Evidence, Gathered, evidence, on_the_file};
use crate::image::BTRFS;

static BTRFS_EVIDENCE: Gathered = Gathered::new();

fn btrfs(claim: &str) -> Option<&'static Evidence> {
    evidence(&BTRFS_EVIDENCE, BTRFS, claim)
}

#[test]
fn every_barrier_flushes_twice_in_every_file_state_on_btrfs() {
    let Some(evidence) = btrfs("flushes") else { return };
    evidence.assert_flushes(2, on_the_file);
}

#[test]
fn every_barrier_writes_the_log_tree_twice_over_on_btrfs() {
    let Some(evidence) = btrfs("KiB") else { return };
    // Data 4 KiB, superblock 4 KiB, and two nodes of 16 KiB each in two copies: 72; a third node
    // while the log tree is new.
    evidence.assert_kib_between(70.0, 110.0, on_the_file);
}

#[test]
fn syncfs_commits_a_whole_transaction_on_btrfs() {
    let Some(evidence) = btrfs("syncfs") else { return };
    evidence.assert_flushes_between(2.0, 3.0, |case| case.barrier == Barrier::Syncfs);
    evidence.assert_kib_between(110.0, 400.0, |case| case.barrier == Barrier::Syncfs);
}

#[test]
fn what_is_not_durable_asks_btrfs_for_no_flush() {
    let Some(evidence) = btrfs("no barrier and sync_file_range") else { return };
    evidence.assert_nothing_asked();
}

#[test]
fn overwritten_blocks_move_and_reserved_ones_are_filled_in_place_on_btrfs() {
    let Some(evidence) = btrfs("extents") else { return };
    evidence.assert_unwritten_bytes();
    evidence.assert_first_block_unmoved(false, FileState::Initialised);
    evidence.assert_first_block_unmoved(true, FileState::Allocated);
}

#[test]
fn only_an_appended_file_moves_its_end_on_btrfs() {
    let Some(evidence) = btrfs("ends of files") else { return };
    evidence.assert_ends_of_file();
}

#[test]
fn every_record_is_read_back_on_btrfs() {
    let Some(evidence) = btrfs("readback") else { return };
    evidence.assert_readback();
}

#[test]
fn receipts_on_btrfs_say_issued_for_the_loop_device_and_the_disk_below_it() {
    let claim = "devices in receipts on btrfs";
    let Some(evidence) = btrfs(claim) else { return };
    evidence.assert_issued(on_the_file);
    evidence.assert_devices(claim);
}
