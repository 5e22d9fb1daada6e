//! Every subset of a few unsynced changes, against the outcomes written down by hand.

use std::collections::BTreeSet;

use highwater_disk::sim::{CrashMode, SimDisk};
use highwater_disk::{Access, Disk};

use crate::{content, durable_file, sim};

/// Crashes a disk in every possible way and gives all that a look at it then shows.
fn outcomes<T: Ord>(disk: &SimDisk, look: impl Fn(&SimDisk) -> T) -> BTreeSet<T> {
    let count = disk.pending_count();
    assert!(count <= 16, "{:?}", disk.pending());
    (0_u64..1 << count)
        .map(|bits| look(&disk.crash_with(|index| bits & (1 << index) != 0)))
        .collect()
}

fn fill(byte: u8) -> Vec<u8> {
    vec![byte; 512]
}

#[test]
fn a_new_file_is_absent_empty_or_any_mix_of_its_sectors() {
    let disk = sim(1, CrashMode::Random);
    let file = disk.create("a", Access::Buffered).unwrap();
    file.write_at(&[fill(1), fill(2)].concat(), 0).unwrap();
    assert_eq!(
        disk.pending(),
        [
            "create a",
            "file 1: sector 0 of call 2",
            "file 1: sector 1 of call 2",
            "file 1: length 0 to 1024 of call 2"
        ]
    );
    let mix = |first, second| Some([fill(first), fill(second)].concat());
    let expected = [None, Some(vec![]), mix(0, 0), mix(1, 0), mix(0, 2), mix(1, 2)];
    assert_eq!(outcomes(&disk, |disk| content(disk, "a")), expected.into());
}

#[test]
fn a_sector_written_twice_is_old_or_either_version() {
    let disk = sim(1, CrashMode::Random);
    let file = durable_file(&disk, "a", &fill(1));
    file.write_at(&fill(2), 0).unwrap();
    file.write_at(&fill(3), 0).unwrap();
    let found = outcomes(&disk, |disk| content(disk, "a").unwrap()[0]);
    assert_eq!(found, [1, 2, 3].into());
}

#[test]
fn synced_bytes_of_a_file_without_a_synced_name_may_vanish_with_it() {
    let disk = sim(1, CrashMode::Random);
    let file = disk.create("a", Access::Buffered).unwrap();
    file.write_at(b"abc", 0).unwrap();
    file.sync_data().unwrap();
    let found = outcomes(&disk, |disk| content(disk, "a"));
    assert_eq!(found, [None, Some(b"abc".to_vec())].into());
}

#[test]
fn a_file_in_a_directory_without_a_synced_name_may_vanish_with_it() {
    let disk = sim(1, CrashMode::Random);
    disk.create_dir("d").unwrap();
    durable_file(&disk, "d/a", b"abc");
    assert_eq!(disk.pending(), ["create_dir d"]);
    let found = outcomes(&disk, |disk| {
        let found = content(disk, "d/a");
        // Made again, the directory is empty: nothing lay in wait for its name.
        let is_new = disk.create_dir("d").is_ok();
        assert_eq!(content(disk, "d/a"), found);
        assert_eq!(is_new, found.is_none());
        found
    });
    assert_eq!(found, [None, Some(b"abc".to_vec())].into());
}

#[test]
fn a_rename_shows_the_old_or_the_new_file_and_never_none() {
    let disk = sim(1, CrashMode::Random);
    durable_file(&disk, "a", b"old");
    let file = disk.create("tmp", Access::Buffered).unwrap();
    file.write_at(b"new", 0).unwrap();
    file.sync_data().unwrap();
    disk.rename("tmp", "a").unwrap();
    let found = outcomes(&disk, |disk| (content(disk, "a").unwrap(), content(disk, "tmp")));
    let (old, new) = (b"old".to_vec(), b"new".to_vec());
    assert_eq!(found, [(new.clone(), None), (old.clone(), None), (old, Some(new))].into());
}

#[test]
fn a_rename_without_synced_bytes_may_show_an_empty_file() {
    let disk = sim(1, CrashMode::Random);
    durable_file(&disk, "a", b"old");
    disk.create("tmp", Access::Buffered).unwrap().write_at(b"new", 0).unwrap();
    disk.rename("tmp", "a").unwrap();
    let found = outcomes(&disk, |disk| content(disk, "a").unwrap());
    assert_eq!(found, [b"old".to_vec(), vec![], vec![0; 3], b"new".to_vec()].into());
}

#[test]
fn a_removal_of_a_renamed_file_never_removes_the_one_it_replaced() {
    let disk = sim(1, CrashMode::Random);
    durable_file(&disk, "a", b"old");
    durable_file(&disk, "tmp", b"new");
    disk.rename("tmp", "a").unwrap();
    disk.remove("a").unwrap();
    let found = outcomes(&disk, |disk| (content(disk, "a"), content(disk, "tmp")));
    let (old, new) = (Some(b"old".to_vec()), Some(b"new".to_vec()));
    assert_eq!(found, [(old, new.clone()), (new, None), (None, None)].into());
}

#[test]
fn a_removed_file_that_nothing_can_bring_back_leaves_nothing_to_decide() {
    let disk = sim(1, CrashMode::Random);
    let file = disk.create("a", Access::Buffered).unwrap();
    file.write_at(&fill(1), 0).unwrap();
    disk.remove("a").unwrap();
    drop(file);
    assert_eq!(disk.pending_count(), 4);
    disk.sync_dir("").unwrap();
    assert_eq!(disk.pending_count(), 0);
}

#[test]
fn an_unsynced_removal_may_be_undone_and_a_synced_one_never_is() {
    let disk = sim(1, CrashMode::Random);
    drop(durable_file(&disk, "a", b"abc"));
    disk.remove("a").unwrap();
    let found = outcomes(&disk.fork(), |disk| content(disk, "a"));
    assert_eq!(found, [None, Some(b"abc".to_vec())].into());
    disk.sync_dir("").unwrap();
    assert_eq!(outcomes(&disk, |disk| content(disk, "a")), [None].into());
}

#[test]
fn a_truncation_may_mix_with_the_writes_after_it() {
    let disk = sim(1, CrashMode::Random);
    let file = durable_file(&disk, "a", &[fill(1), fill(1)].concat());
    file.truncate(0).unwrap();
    file.write_at(&fill(2), 0).unwrap();
    let found = outcomes(&disk, |disk| content(disk, "a").unwrap());
    let expected = [
        [fill(1), fill(1)].concat(), // nothing kept
        [fill(2), fill(1)].concat(), // the write alone
        vec![],                      // the truncation alone, or with a write beyond its length
        fill(1),                     // the new length alone
        fill(2),                     // all
        fill(0),                     // both lengths without the write
    ];
    assert_eq!(found, expected.into());
}

#[test]
fn the_modes_are_the_corners_and_bits_choose_in_between() {
    let expect = |mode, expected: Option<&[u8]>| {
        let disk = sim(1, mode);
        disk.create("a", Access::Buffered).unwrap().write_at(b"abc", 0).unwrap();
        assert_eq!(content(&disk.crash(), "a").as_deref(), expected, "{mode:?}");
    };
    expect(CrashMode::LoseAllUnsynced, None);
    expect(CrashMode::KeepAll, Some(b"abc"));
    expect(CrashMode::Explicit(0b001), Some(b""));
    expect(CrashMode::Explicit(0b101), Some(b"\0\0\0"));
    expect(CrashMode::Explicit(0b110), None);
}
