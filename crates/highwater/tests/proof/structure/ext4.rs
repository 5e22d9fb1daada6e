//! What barriers cause on ext4 with its journal.

use highwater_report::case::{Barrier, Case, FileState};

use super::{BLOCK, Evidence, Gathered, data_only, evidence, on_the_file, quietest};
use crate::environment::not_run;
use crate::image::{EXT4, Image, Recipe};
use crate::program::Place;

static EXT4_EVIDENCE: Gathered = Gathered::new();

fn ext4(claim: &str) -> Option<&'static Evidence> {
    evidence(&EXT4_EVIDENCE, EXT4, claim)
}

fn initialised(case: &Case) -> bool {
    case.state == FileState::Initialised
}

#[test]
fn any_barrier_on_a_growing_or_allocated_file_flushes_twice_on_ext4() {
    let Some(evidence) = ext4("flushes of growing and allocated files") else { return };
    // The data before the journal's commit record, and the record itself.
    evidence.assert_flushes(2, |case| on_the_file(case) && !initialised(case));
}

#[test]
fn a_growing_file_writes_up_to_seven_blocks_per_barrier_on_ext4_and_an_allocated_one_four() {
    let Some(evidence) = ext4("KiB of growing and allocated files") else { return };
    let in_state = |state| move |case: &Case| on_the_file(case) && case.state == state;
    // Data, and in the journal: descriptor, inode, commit record; for new blocks also bitmap, group
    // descriptor and sometimes an extent block.
    evidence.assert_kib_between(20.0, 32.0, in_state(FileState::Append));
    evidence.assert_kib_between(16.0, 18.0, in_state(FileState::Allocated));
}

#[test]
fn ext4_journals_whole_blocks_so_one_kib_blocks_write_seven_to_ten_kib_per_barrier() {
    const SMALL_BLOCKS: Recipe = Recipe { mkfs: &["-q", "-b", "1024"], mib: 256, ..EXT4 };
    let image = match Image::new(SMALL_BLOCKS) {
        Ok(image) => image,
        Err(reason) => return not_run("ext4 with 1 KiB blocks", &reason),
    };
    let measured = Place::at(image.path()).measure(
        "bench --state append,allocated --io buffered,direct --barrier fsync,fdatasync,o_dsync \
         --iterations 30 --warmup 5 --rounds 3",
    );
    measured.expect_all_measured();
    for case in &measured.results.cases {
        let rows = measured.rounds_of(case);
        let sectors = quietest(&rows, |row| row.top_sectors).expect("a loop device counts");
        let kib = sectors as f64 / 2.0 / rows[0].barriers as f64;
        assert!((7.0..=10.5).contains(&kib), "{}: {kib} KiB per barrier", case.label);
        let flushes = quietest(&rows, |row| row.top_flushes);
        assert_eq!(flushes, Some(2 * rows[0].barriers), "{}", case.label);
    }
}

#[test]
fn an_initialised_file_pays_one_flush_and_four_kib_per_data_barrier_on_ext4() {
    let Some(evidence) = ext4("data barriers on initialised files") else { return };
    let which = |case: &Case| initialised(case) && data_only(case.barrier);
    evidence.assert_flushes(1, which);
    evidence.assert_kib_between(4.0, 4.0, which);
}

#[test]
fn fsync_of_an_initialised_file_pays_for_the_inode_when_its_timestamp_has_moved_on_ext4() {
    let Some(evidence) = ext4("fsync of initialised files") else { return };
    let which =
        |case: &Case| initialised(case) && matches!(case.barrier, Barrier::Fsync | Barrier::OSync);
    // At least the flush for the data; a journal commit on top in some barriers, in all at most.
    evidence.assert_flushes_between(1.0, 2.0, which);
    evidence.assert_kib_between(4.0, 16.0, which);
}

#[test]
fn syncfs_flushes_at_least_once_per_call_on_ext4() {
    let Some(evidence) = ext4("syncfs") else { return };
    evidence.assert_flushes_between(1.0, 6.0, |case| case.barrier == Barrier::Syncfs);
    evidence.assert_issued(|case| case.barrier == Barrier::Syncfs);
}

#[test]
fn what_is_not_durable_asks_ext4_for_no_flush() {
    let Some(evidence) = ext4("no barrier and sync_file_range") else { return };
    evidence.assert_nothing_asked();
}

#[test]
fn written_blocks_lose_the_unwritten_flag_and_stay_where_they_are_on_ext4() {
    let Some(evidence) = ext4("extents") else { return };
    evidence.assert_unwritten_bytes();
    evidence.assert_first_block_unmoved(true, FileState::Allocated);
    evidence.assert_first_block_unmoved(true, FileState::Initialised);
}

#[test]
fn only_an_appended_file_moves_its_end_on_ext4() {
    let Some(evidence) = ext4("ends of files") else { return };
    evidence.assert_ends_of_file();
}

#[test]
fn every_record_is_read_back_on_ext4() {
    let Some(evidence) = ext4("readback") else { return };
    evidence.assert_readback();
}

#[test]
fn receipts_on_ext4_say_issued_for_the_loop_device_and_the_disk_below_it() {
    let claim = "devices in receipts on ext4";
    let Some(evidence) = ext4(claim) else { return };
    evidence.assert_issued(on_the_file);
    evidence.assert_devices(claim);
}

#[test]
fn an_appended_file_never_wraps_whatever_capacity_says() {
    let place = Place::new();
    let measured = place.measure(
        "bench --preset commit --state append,initialised --barrier fdatasync --block 4K \
         --iterations 20 --warmup 3 --rounds 2 --capacity 16K",
    );
    measured.expect_all_measured();
    for row in &measured.rounds {
        let appends = measured
            .results
            .cases
            .iter()
            .any(|case| case.id == row.case_id && case.case.state == FileState::Append);
        let (before, after) = if appends { (3 * BLOCK, 23 * BLOCK) } else { (16384, 16384) };
        assert_eq!((row.eof_before, row.eof_after), (before, after), "{row:?}");
        assert_eq!(row.readback_records, if appends { 23 } else { 4 });
    }
}
