//! Where the home's directories are, and that nothing is mistaken for them.

use highwater_disk::real::RealDisk;
use highwater_disk::sim::{CrashMode, SimDisk, SimOptions};
use highwater_disk::{Disk, ReadOnly};
use highwater_log::Log;
use highwater_log::check::{CheckError, check};
use highwater_log::error::{LogError, OpenError, Rejection};
use highwater_log::ids::Offset;
use highwater_log::lane::{HomeRange, Piece, Slice};
use highwater_log::options::{FileBarrier, Options};
use highwater_log::request::{End, Fork};

use crate::support::*;

const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// Appends to many streams, and moves all of it home.
fn move_home(log: &Log, payload: &[u8]) {
    for name in NAMES {
        create(log, name).unwrap().wait().unwrap();
        append(log, name, payload).unwrap().wait().unwrap();
    }
    log.checkpoint().unwrap();
}

#[test]
fn streams_are_spread_over_devices_and_each_device_has_its_own_barrier() {
    // R1: what no barrier has covered is lost in this crash.
    for barrier in [FileBarrier::Syncfs, FileBarrier::Files] {
        let crash = CrashMode::LoseAllUnsynced;
        let disk = SimDisk::new(SimOptions { crash, ..SimOptions::seeded(51) });
        disk.create_dir("streams").unwrap();
        for lane in 0..3 {
            let dir = format!("streams/{lane}");
            disk.create_dir(&dir).unwrap();
            disk.sync_dir("streams").unwrap();
            disk.mount(&dir);
        }
        disk.sync_dir("").unwrap();
        let options = Options { stream_lanes: 3, file_barrier: barrier, ..small() };
        let log = open(&disk, &options).unwrap();
        move_home(&log, &[7; 5000]);
        // Far enough for the segments to be used again, if they were free.
        for _ in 0..40 {
            append(&log, "a", &[8; 8000]).unwrap().wait().unwrap();
        }
        log.checkpoint().unwrap();
        let kept: Vec<_> = (0..3).map(|lane| listed(&disk, &format!("streams/{lane}"))).collect();
        assert!(kept.iter().all(|lane| !lane.is_empty()), "{kept:?}");
        assert_eq!(kept.iter().map(Vec::len).sum::<usize>(), NAMES.len());
        drop(log);
        let log = open(&disk.crash(), &options).unwrap();
        for name in &NAMES[1..] {
            assert_eq!(read_all(&log, name).unwrap(), [7; 5000], "{barrier:?} {name}");
        }
    }
}

#[test]
fn a_number_fixed_when_the_log_was_made_is_refused_with_the_value_to_set() {
    let disk = disk(52);
    let made = Options { lanes: 2, stream_lanes: 3, ..small() };
    drop(open(&disk, &made).unwrap());
    for (asked, words) in [
        (Options { lanes: 1, ..made.clone() }, "set lanes to 2"),
        (Options { stream_lanes: 4, ..made.clone() }, "set stream_lanes to 3"),
        (Options { segment_bytes: 128 << 10, ..made.clone() }, "set segment_bytes to 65536"),
    ] {
        let refused = open(&disk, &asked).unwrap_err();
        assert!(matches!(refused, OpenError::Mismatch { .. }), "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
        assert!(refused.to_string().contains("make a new log"), "it says how to move: {refused}");
    }
    assert!(open(&disk, &made).is_ok());
}

#[test]
fn directories_may_be_links_and_one_that_leads_elsewhere_is_refused_before_anything_is_changed() {
    let (store, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let link = |to: &str, name: &str| {
        let name = store.path().join(name);
        std::fs::remove_file(&name).ok();
        std::os::unix::fs::symlink(other.path().join(to), name).unwrap();
    };
    for dir in ["home", "log", "empty"] {
        std::fs::create_dir(other.path().join(dir)).unwrap();
    }
    for dir in ["streams", "wal"] {
        std::fs::create_dir(store.path().join(dir)).unwrap();
    }
    link("home", "streams/1");
    link("log", "wal/1");
    let options = Options { lanes: 2, stream_lanes: 2, ..small() };
    let disk = || std::sync::Arc::new(RealDisk::open(store.path()).unwrap());
    let log = open_on(disk(), &options).unwrap();
    move_home(&log, b"moved");
    append(&log, "a", b" on").unwrap().wait().unwrap();
    drop(log);
    let files = std::fs::read_dir(other.path().join("home")).unwrap().count();
    assert!(files > 1, "some streams' files are behind the link");
    // The device of a directory is not mounted; two links are mixed up.
    for (name, to, back) in [
        ("streams/1", "empty", "home"),
        ("wal/1", "empty", "log"),
        ("streams/1", "log", "home"),
        ("wal/1", "home", "log"),
    ] {
        link(to, name);
        let refused = open_on(disk(), &options).unwrap_err();
        assert!(matches!(&refused, OpenError::Elsewhere { dir, .. } if dir == name), "{refused}");
        assert_eq!(std::fs::read_dir(other.path().join("empty")).unwrap().count(), 0);
        link(back, name);
    }
    let log = open_on(disk(), &options).unwrap();
    assert_eq!(read_all(&log, "a").unwrap(), b"moved on");
    assert_eq!(read_all(&log, "l").unwrap(), b"moved");
}

/// Two logs that write to one directory take each other's acknowledged commits for torn tails.
#[test]
fn a_copy_whose_links_lead_to_the_directories_of_an_open_log_is_refused_and_not_checked_either() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (dir, shared) in [("streams/1", false), ("wal/0", false), ("streams/1", true)] {
        let (store, copy) = (at("store"), at("copy"));
        for of in [&store, &copy] {
            std::fs::create_dir_all(of.join(dir).parent().unwrap()).unwrap();
        }
        std::fs::create_dir(at("device")).unwrap();
        std::os::unix::fs::symlink(at("device"), store.join(dir)).unwrap();
        let options = Options { stream_lanes: 2, ..small() };
        let disk = |root: &std::path::Path| std::sync::Arc::new(RealDisk::open(root).unwrap());
        let log = open_on(disk(&store), &options).unwrap();
        create(&log, "a").unwrap().wait().unwrap();
        append(&log, "a", b"kept").unwrap().wait().unwrap();
        if shared {
            // Another log, which is yet to be made.
            std::os::unix::fs::symlink(at("device"), copy.join(dir)).unwrap();
        } else {
            let mut copied = std::process::Command::new("cp");
            copied.arg("-a").arg(store.join(".")).arg(&copy);
            assert!(copied.status().unwrap().success());
            let read = ReadOnly::open(&copy).unwrap();
            assert_eq!(check(&read, &mut |_| {}).unwrap_err(), CheckError::Locked, "{dir}");
        }
        let refused = open_on(disk(&copy), &options).unwrap_err();
        assert!(matches!(&refused, OpenError::InUse { dir: its } if its == dir), "{refused}");
        append(&log, "a", b" on").unwrap().wait().unwrap();
        drop(log);
        let log = open_on(disk(&store), &options).unwrap();
        assert_eq!(read_all(&log, "a").unwrap(), b"kept on");
        drop(log);
        for dir in ["store", "copy", "device"] {
            std::fs::remove_dir_all(at(dir)).unwrap();
        }
    }
}

#[test]
fn another_logs_directory_is_refused() {
    let (disk, other) = (disk(53), disk(54));
    let log = open(&disk, &small()).unwrap();
    move_home(&log, b"x");
    drop(log);
    drop(open_with_seed(&other, &small(), 8).unwrap());
    let label = "streams/0/label";
    let file = other.open(label, highwater_disk::Access::Buffered).unwrap();
    let mut bytes = vec![0; 4096];
    file.read_at(&mut bytes, 0).unwrap();
    disk.remove(label).unwrap();
    let refused = open(&disk, &small()).unwrap_err();
    assert!(refused.to_string().contains("no file `label`"), "{refused}");
    let file = disk.create(label, highwater_disk::Access::Buffered).unwrap();
    file.write_at(&bytes, 0).unwrap();
    let refused = open(&disk, &small()).unwrap_err();
    assert!(refused.to_string().contains("it is of store"), "{refused}");
}

#[test]
fn a_home_without_a_superblock_is_a_loss_and_no_new_log_begins_there() {
    let disk = disk(55);
    let log = open(&disk, &small()).unwrap();
    move_home(&log, b"x");
    drop(log);
    disk.remove("super").unwrap();
    for number in 0..9 {
        disk.remove(&format!("wal/0/{number}.seg")).ok();
    }
    let refused = open(&disk, &small()).unwrap_err();
    assert!(refused.to_string().contains("the file `super` is lost"), "{refused}");
}

/// The range of a home that a stream's bytes begin with.
fn at_home(log: &Log, name: &str, from: u64) -> HomeRange {
    match log.locate(name, Offset(from), u64::MAX).unwrap().pieces.remove(0) {
        Piece::Home(range) => range,
        Piece::Memory(_) => panic!("{name} at {from} is in memory"),
    }
}

fn read_range(mut range: HomeRange, buffer: usize) -> Vec<u8> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; buffer]);
    while !range.is_empty() {
        let len = range.read(&mut buffer).unwrap();
        assert!(len > 0);
        bytes.extend_from_slice(&buffer[..len]);
    }
    bytes
}

#[test]
fn bytes_at_home_are_found_without_being_read_and_read_later_in_pieces_of_any_size() {
    // I1, I8
    let disk = disk(56);
    let log = open(&disk, &small()).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    let content: Vec<u8> = (0..200_000_u32).map(|n| u8::try_from(n / 7 % 251).unwrap()).collect();
    for part in content.chunks(7000) {
        append(&log, "s", part).unwrap().wait().unwrap();
    }
    log.checkpoint().unwrap();
    append(&log, "s", b"more").unwrap().wait().unwrap();
    let config = text();
    let (offset, payload, end) = (Some(Offset(150_000)), &b"own"[..], End::Open);
    let fork =
        Fork { name: "f", source: "s", offset, source_id: None, config: &config, payload, end };
    log.fork(&fork).unwrap().wait().unwrap();
    for buffer in [1000, 64 << 10, 100_000, 1 << 20] {
        assert_eq!(read_range(at_home(&log, "s", 0), buffer), content, "{buffer}");
        assert_eq!(read_range(at_home(&log, "s", 70_001), buffer), content[70_001..]);
        assert_eq!(read_range(at_home(&log, "f", 100), buffer), content[100..150_000]);
    }
    let located = log.locate("s", Offset(200_000), 100).unwrap();
    assert_eq!((located.next, located.tail), (Offset(200_004), Offset(200_004)));
    assert!(matches!(&located.pieces[..], [Piece::Memory(slice)] if slice.bytes() == b"more"));
    assert_eq!(log.locate("f", Offset(150_000), 9).unwrap().load().unwrap().to_vec(), b"own");
    // A range outlives checkpoints, and not its stream.
    let (range, mut gone) = (at_home(&log, "s", 0), at_home(&log, "s", 0));
    log.checkpoint().unwrap();
    assert_eq!(read_range(range, 64 << 10), content);
    log.delete("f").unwrap().wait().unwrap();
    log.delete("s").unwrap().wait().unwrap();
    while log.step() {}
    log.checkpoint().unwrap();
    let error = gone.read(&mut [0; 100]).unwrap_err();
    assert_eq!(error, LogError::Rejected(Rejection::NotFound));
    assert_eq!(gone.lend(100).unwrap_err(), LogError::Rejected(Rejection::NotFound));
}

#[test]
fn ranges_hold_no_file_open_however_many_there_are() {
    // I11
    let dir = tempfile::tempdir().unwrap();
    let options = Options { max_open_files: 8, ..small() };
    let log = open_on(std::sync::Arc::new(RealDisk::open(dir.path()).unwrap()), &options).unwrap();
    for number in 0..40 {
        let name = format!("s{number}");
        create(&log, &name).unwrap().wait().unwrap();
        append(&log, &name, name.as_bytes()).unwrap().wait().unwrap();
    }
    log.checkpoint().unwrap();
    let open_files = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let paths = links.filter_map(|link| std::fs::read_link(link.path()).ok());
        let of_streams = paths.filter(|path| path.starts_with(dir.path().join("streams/0")));
        of_streams.filter(|path| !path.ends_with("label")).count()
    };
    let mut ranges: Vec<_> =
        (0..40).map(|number| at_home(&log, &format!("s{number}"), 0)).collect();
    let mut lent = Vec::new();
    for (range, number) in ranges.iter_mut().zip(0..) {
        if let Some(file) = range.lend(100).unwrap() {
            lent.push(file);
        } else {
            let mut bytes = [0; 9];
            let len = range.read(&mut bytes).unwrap();
            assert_eq!(bytes[..len], *format!("s{number}").as_bytes());
        }
        assert!(open_files() <= 8, "{} files", open_files());
    }
    assert_eq!(lent.len(), 2);
    assert!(ranges.iter().all(HomeRange::is_empty));
}

#[test]
fn readers_who_hold_on_to_too_many_images_get_copies() {
    // I11
    let segment = 64 << 10;
    let options = Options { max_image_bytes: 8 * segment, ..small() };
    let log = open(&disk(57), &options).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    let mut held = Vec::new();
    for number in 0..400_u32 {
        let payload = [u8::try_from(number % 256).unwrap(); 3000];
        let tail = append(&log, "s", &payload).unwrap().wait().unwrap().tail;
        let answer = log.read("s", Offset(tail.0 - 1), 1).unwrap();
        assert_eq!(answer.to_vec(), payload[..1]);
        held.push(answer);
        if number % 30 == 29 {
            log.checkpoint().unwrap();
        }
    }
    let copied = held.iter().filter(|one| matches!(one.slices[0], Slice::Copied(_))).count();
    assert!((200..400).contains(&copied), "{copied} copies");
    assert!(log.usage()[0].image_bytes <= options.max_image_bytes);
}
