//! The contract of the traits, asked of the real disk and of the simulated one.

use highwater_disk::real::RealDisk;
use highwater_disk::sim::{DirectIo, SimDisk, SimOptions};
use highwater_disk::{Access, AlignedBuf, Disk, Entry, ErrorKind};

use crate::{content, durable_file, kind};

/// Runs a test on a disk of each kind: a file system on a device, a temporary one, and simulated
/// disks with and without direct access.
fn on_each(test: impl Fn(&dyn Disk)) {
    let on_device = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    test(&RealDisk::open(on_device.path()).unwrap());
    let temporary = tempfile::tempdir().unwrap();
    test(&RealDisk::open(temporary.path()).unwrap());
    for direct in [DirectIo::Supported, DirectIo::Refused] {
        test(&SimDisk::new(SimOptions { direct, ..SimOptions::seeded(1) }));
    }
}

#[test]
fn a_file_is_created_once_and_opened_only_if_it_is_there() {
    on_each(|disk| {
        assert_eq!(kind(disk.open("a", Access::Buffered)), ErrorKind::NotFound);
        for (path, access) in [("a", Access::Buffered), ("b", Access::Direct)] {
            let file = disk.create(path, access).unwrap();
            assert!(file.is_empty().unwrap());
            let again = disk.create(path, access).unwrap_err();
            assert_eq!((again.operation, again.kind), ("create", ErrorKind::Exists));
            assert_eq!(again.path, path);
            assert_eq!(disk.open(path, access).unwrap().access(), file.access());
        }
        assert_eq!(kind(disk.create("absent/a", Access::Buffered)), ErrorKind::NotFound);
        assert_eq!(kind(disk.create("a/b", Access::Buffered)), ErrorKind::Io);
    });
}

#[test]
fn written_bytes_are_read_back_and_holes_are_zeros() {
    on_each(|disk| {
        let file = disk.create("a", Access::Buffered).unwrap();
        let bytes: Vec<u8> = (0..3000_u32).map(|n| n.to_le_bytes()[0]).collect();
        file.write_at(&bytes, 700).unwrap();
        file.write_at(b"overwritten", 1020).unwrap();
        file.write_at(&[], 1 << 20).unwrap();
        assert_eq!(file.len().unwrap(), 3700);
        let found = content(disk, "a").unwrap();
        assert!(found[..700].iter().all(|byte| *byte == 0));
        assert_eq!(&found[700..1020], &bytes[..320]);
        assert_eq!(&found[1020..1031], b"overwritten");
        assert_eq!(&found[1031..], &bytes[331..]);
        let other = disk.open("a", Access::Buffered).unwrap();
        other.write_at(&[9], 0).unwrap();
        let mut first = [0];
        file.read_at(&mut first, 0).unwrap();
        assert_eq!(first, [9]);
    });
}

#[test]
fn bytes_are_sent_as_they_are_read_and_a_socket_that_is_full_or_gone_says_so() {
    use std::io::Read as _;
    use std::os::fd::AsFd as _;
    on_each(|disk| {
        let file = disk.create("a", Access::Buffered).unwrap();
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        file.write_at(&bytes, 0).unwrap();
        let (here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let (mut sent, mut got) = (0, Vec::new());
        while sent < 150_000 {
            if let Some(more) = file.send(here.as_fd(), 1000 + sent, 150_000 - sent).unwrap() {
                assert!(more > 0);
                sent += more;
            } else {
                let mut some = [0; 4096];
                let len = there.read(&mut some).unwrap();
                got.extend_from_slice(&some[..len]);
            }
        }
        drop(here.shutdown(std::net::Shutdown::Write));
        there.read_to_end(&mut got).unwrap();
        assert_eq!(got, bytes[1000..151_000]);
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(kind(file.send(here.as_fd(), 200_000, 1)), ErrorKind::EndOfFile);
        drop(there);
        assert_eq!(kind(file.send(here.as_fd(), 0, 10)), ErrorKind::HungUp);
    });
}

#[test]
fn a_durable_write_is_read_back_through_either_access() {
    on_each(|disk| {
        for (path, access) in [("a", Access::Buffered), ("b", Access::Direct)] {
            let file = disk.create(path, access).unwrap();
            file.allocate(16384).unwrap();
            let mut bytes = AlignedBuf::zeroed(8192, 4096);
            bytes.fill(6);
            file.write_durable_at(&bytes, 4096).unwrap();
            file.write_durable_at(&[], 0).unwrap();
            let found = content(disk, path).unwrap();
            assert_eq!((found.len(), found[4095], found[4096]), (16384, 0, 6));
            assert_eq!((found[12287], found[12288]), (6, 0));
            if file.access() == Access::Direct {
                let refused = file.write_durable_at(&bytes[..100], 0);
                assert_eq!(kind(refused), ErrorKind::Misaligned);
            }
        }
    });
}

#[test]
fn a_read_beyond_the_end_is_an_error() {
    on_each(|disk| {
        let file = durable_file(disk, "a", b"abc");
        file.read_at(&mut [0; 3], 0).unwrap();
        assert_eq!(kind(file.read_at(&mut [0; 4], 0)), ErrorKind::EndOfFile);
        assert_eq!(kind(file.read_at(&mut [0; 1], 3)), ErrorKind::EndOfFile);
        file.read_at(&mut [], 100).unwrap();
    });
}

#[test]
fn direct_access_wants_alignment_and_says_when_it_was_not_to_be_had() {
    on_each(|disk| {
        let file = disk.create("a", Access::Direct).unwrap();
        let mut bytes = AlignedBuf::zeroed(8192, 4096);
        bytes.fill(5);
        file.write_at(&bytes, 4096).unwrap();
        file.sync_data().unwrap();
        let misaligned = [
            file.write_at(&bytes, 512),
            file.write_at(&bytes[..100], 0),
            file.read_at(&mut bytes[..4096], 100),
            file.read_at(&mut bytes[..4000], 0),
        ];
        for result in misaligned {
            match file.access() {
                Access::Direct => assert_eq!(kind(result), ErrorKind::Misaligned),
                Access::Buffered => result.unwrap(),
            }
        }
        let mut found = AlignedBuf::zeroed(4096, 4096);
        file.read_at(&mut found, 8192).unwrap();
        assert!(found.iter().all(|byte| *byte == 5));
        assert_eq!(content(disk, "a").unwrap()[10_000], 5);
    });
}

#[test]
fn a_rename_replaces_and_leaves_the_old_name_empty() {
    on_each(|disk| {
        disk.create_dir("d").unwrap();
        durable_file(disk, "a", b"new");
        let replaced = durable_file(disk, "d/b", b"old");
        disk.rename("a", "d/b").unwrap();
        assert_eq!(content(disk, "a"), None);
        assert_eq!(content(disk, "d/b").unwrap(), b"new");
        disk.rename("d/b", "d/b").unwrap();
        let mut bytes = [0; 3];
        replaced.read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"old");
        assert_eq!(kind(disk.rename("absent", "c")), ErrorKind::NotFound);
        assert_eq!(kind(disk.rename("d/b", "absent/c")), ErrorKind::NotFound);
        assert_eq!(kind(disk.rename("d", "e")), ErrorKind::Io);
        assert_eq!(kind(disk.rename("d/b", "d")), ErrorKind::Io);
    });
}

#[test]
fn a_removed_file_stays_usable_while_it_is_open() {
    on_each(|disk| {
        let file = durable_file(disk, "a", b"abc");
        disk.remove("a").unwrap();
        assert_eq!(kind(disk.remove("a")), ErrorKind::NotFound);
        disk.sync_dir("").unwrap();
        file.write_at(b"d", 3).unwrap();
        file.sync_data().unwrap();
        let mut bytes = [0; 4];
        file.read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"abcd");
        durable_file(disk, "a", b"another");
        assert_eq!(file.len().unwrap(), 4);
    });
}

#[test]
fn a_directory_lists_its_own_entries_sorted() {
    on_each(|disk| {
        let entry = |name: &str, is_dir| Entry { name: name.to_owned(), is_dir };
        assert_eq!(disk.list("").unwrap(), []);
        disk.create_dir("d").unwrap();
        assert_eq!(kind(disk.create_dir("d")), ErrorKind::Exists);
        assert_eq!(kind(disk.create_dir("absent/d")), ErrorKind::NotFound);
        disk.create_dir("d/inner").unwrap();
        for path in ["z", "d/9", "d/10", "d-x", "d/inner/deep", "B"] {
            disk.create(path, Access::Buffered).unwrap();
        }
        let _held = disk.lock("").unwrap();
        let root = [entry("B", false), entry("d", true), entry("d-x", false), entry("z", false)];
        assert_eq!(disk.list("").unwrap(), root);
        let inner = [entry("10", false), entry("9", false), entry("inner", true)];
        assert_eq!(disk.list("d").unwrap(), inner);
        assert_eq!(kind(disk.list("absent")), ErrorKind::NotFound);
        assert_eq!(kind(disk.list("z")), ErrorKind::Io);
        assert_eq!(kind(disk.open("d", Access::Buffered)), ErrorKind::Io);
        assert_eq!(kind(disk.remove("d")), ErrorKind::Io);
    });
}

#[test]
fn the_lock_has_one_holder_and_is_free_again_after_it() {
    on_each(|disk| {
        let held = disk.lock("").unwrap();
        assert_eq!(kind(disk.lock("")), ErrorKind::Locked);
        drop(held);
        drop(disk.lock("").unwrap());
        disk.lock("").unwrap();
    });
}

#[test]
fn a_file_that_is_there_has_a_lock_of_its_own() {
    on_each(|disk| {
        disk.create_dir("d").unwrap();
        durable_file(disk, "d/a", b"kept");
        durable_file(disk, "d/b", b"");
        let held = (disk.lock("").unwrap(), disk.lock("d/a").unwrap());
        assert_eq!(kind(disk.lock("d/a")), ErrorKind::Locked);
        disk.lock("d/b").unwrap();
        assert_eq!(content(disk, "d/a").unwrap(), b"kept");
        drop(held);
        disk.lock("d/a").unwrap();
        assert_eq!(kind(disk.lock("d/absent")), ErrorKind::NotFound);
        let names: Vec<String> =
            disk.list("d").unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["a", "b"], "a lock that finds nothing makes nothing");
    });
}

#[test]
fn truncation_cuts_and_a_later_growth_shows_zeros() {
    on_each(|disk| {
        let file = durable_file(disk, "a", &[7; 2000]);
        file.truncate(600).unwrap();
        assert_eq!(file.len().unwrap(), 600);
        file.write_at(&[1], 1500).unwrap();
        let found = content(disk, "a").unwrap();
        assert_eq!(found.len(), 1501);
        assert!(found[..600].iter().all(|byte| *byte == 7));
        assert!(found[600..1500].iter().all(|byte| *byte == 0));
        file.truncate(3000).unwrap();
        assert_eq!(content(disk, "a").unwrap()[1501..], [0; 1499]);
    });
}

#[test]
fn allocation_grows_with_zeros_and_never_shrinks() {
    on_each(|disk| {
        let file = durable_file(disk, "a", b"abc");
        file.allocate(0).unwrap();
        file.allocate(10_000).unwrap();
        assert_eq!(file.len().unwrap(), 10_000);
        let found = content(disk, "a").unwrap();
        assert_eq!(&found[..3], b"abc");
        assert!(found[3..].iter().all(|byte| *byte == 0));
        file.allocate(5000).unwrap();
        assert_eq!(file.len().unwrap(), 10_000);
        assert!(disk.free_bytes().unwrap() > 0);
    });
}

#[test]
fn every_barrier_succeeds_on_a_sound_disk() {
    on_each(|disk| {
        disk.create_dir("d").unwrap();
        durable_file(disk, "d/a", b"abc");
        disk.sync_dir("").unwrap();
        disk.sync_all("d").unwrap();
        disk.sync_all("").unwrap();
        assert_eq!(kind(disk.sync_dir("absent")), ErrorKind::NotFound);
        assert_eq!(kind(disk.sync_all("absent")), ErrorKind::NotFound);
    });
}

#[test]
fn badly_formed_paths_are_refused_by_every_call() {
    on_each(|disk| {
        durable_file(disk, "a", b"abc");
        let bad =
            ["..", ".", "/a", "a/", "d//a", "../a", "d/../a", "d\\a", "a\0", "a b", "é", "LOCK"];
        for path in bad {
            let answers = [
                disk.create(path, Access::Buffered).map(drop),
                disk.open(path, Access::Direct).map(drop),
                disk.create_dir(path),
                disk.list(path).map(drop),
                disk.rename(path, "b"),
                disk.rename("a", path),
                disk.remove(path),
                disk.sync_dir(path),
                disk.sync_all(path),
            ];
            for answer in answers {
                assert_eq!(kind(answer), ErrorKind::BadPath, "{path:?}");
            }
        }
        for answer in [
            disk.create("", Access::Buffered).map(drop),
            disk.create_dir(""),
            disk.remove(""),
            disk.rename("a", ""),
        ] {
            assert_eq!(kind(answer), ErrorKind::BadPath);
        }
    });
}
