//! What a check says of sound stores, of crashed ones, and of each kind of damage; and that it
//! never writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater_disk::sim::{CrashSide, SimClock, SimDisk, SimOptions, SimRng, TraceMode};
use highwater_disk::{Access, Disk, ReadOnly, Rng};
use highwater_log::check::{CheckError, CheckReport, Reach, Seen, Verdict, check};
use highwater_log::format::Label;
use highwater_log::options::Options;
use highwater_log::request::{Append, End};
use highwater_log::{Driver, Log, Machine};

use crate::support::*;

fn checked(disk: &SimDisk) -> CheckReport {
    check(&ReadOnly::over(Arc::new(disk.clone())), &mut |_| {}).unwrap()
}

/// All files of a disk.
fn files(disk: &SimDisk, dir: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in disk.list(dir).unwrap() {
        let path = if dir.is_empty() { entry.name } else { format!("{dir}/{}", entry.name) };
        if entry.is_dir { found.extend(files(disk, &path)) } else { found.push(path) }
    }
    found
}

fn read_file(disk: &SimDisk, path: &str) -> Vec<u8> {
    let file = disk.open(path, Access::Buffered).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn copy_file(from: (&SimDisk, &str), to: (&SimDisk, &str)) {
    let bytes = read_file(from.0, from.1);
    to.0.create(to.1, Access::Buffered).unwrap().write_at(&bytes, 0).unwrap();
}

/// A store with everything in it: bytes in both homes, producers, a fork, ends and deletions.
fn filled(options: &Options, seed: u64) -> SimDisk {
    let disk = disk(seed);
    let machine = Machine {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(SimClock::new()),
        rng: Box::new(SimRng::new(seed)),
    };
    let log = Log::open(machine, options, Driver::Caller).unwrap();
    for name in ["fat", "thin", "made-by", "closed", "deleted", "source"] {
        create(&log, name).unwrap().wait().unwrap();
        append(&log, name, name.as_bytes()).unwrap().wait().unwrap();
    }
    for number in 0..20_u8 {
        append(&log, "fat", &[number; 8000]).unwrap().wait().unwrap();
    }
    for sequence in 0..3 {
        log.append(&produced("made-by", b"x", 1, sequence)).unwrap().wait().unwrap();
    }
    log.checkpoint().unwrap();
    log.append(&produced("made-by", b"y", 1, 3)).unwrap().wait().unwrap();
    log.append(&Append { end: End::Close, ..plain("closed", b"") }).unwrap().wait().unwrap();
    log.delete("deleted").unwrap().wait().unwrap();
    for number in 0..20_u8 {
        append(&log, "fat", &[number; 5000]).unwrap().wait().unwrap();
        append(&log, "thin", &[number; 10]).unwrap().wait().unwrap();
    }
    disk
}

#[test]
fn a_sound_store_is_clean_and_its_numbers_add_up() {
    for lanes in [1, 3] {
        let disk = filled(&Options { lanes, ..small() }, 31);
        let mut seen = (0, 0, 0);
        let read_only = ReadOnly::over(Arc::new(disk));
        let report = check(&read_only, &mut |thing| match thing {
            Seen::Segment { .. } => seen.0 += 1,
            Seen::Frame(_) => seen.1 += 1,
            Seen::Record { .. } => seen.2 += 1,
        });
        let report = report.unwrap();
        assert_eq!((report.verdict(), &report.damage[..]), (Verdict::Clean, &[][..]));
        assert_eq!(report.leftovers, []);
        assert_eq!(report.lanes.len(), usize::from(lanes));
        assert_eq!(seen.0, report.total(|lane| lane.segments));
        assert_eq!(seen.1, report.total(|lane| lane.frames));
        assert_eq!(seen.2, report.total(|lane| lane.records));
        assert_eq!(report.total(|lane| lane.streams), 5);
        assert!(report.total(|lane| lane.home_bytes) > 160_000);
        assert!(report.total(|lane| lane.log_bytes) > 100_000);
        assert_eq!(report.store.unwrap().lanes, lanes);
    }
}

#[test]
fn a_check_changes_nothing_whatever_it_finds() {
    let options = SimOptions { trace: TraceMode::Kept, ..SimOptions::seeded(32) };
    let disk = SimDisk::new(options);
    let log = open(&disk, &small()).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    for number in 0..30_u8 {
        append(&log, "s", &[number; 4000]).unwrap().wait().unwrap();
        if number == 12 {
            log.checkpoint().unwrap();
        }
    }
    drop(log);
    disk.create("wal/0/77.seg", Access::Buffered).unwrap();
    for damaged in ["", "super", "manifest/1", "tables/1", "wal/0/1.seg"] {
        let disk = disk.fork();
        if !damaged.is_empty() {
            disk.flip_bit(damaged, 40, 1).unwrap();
        }
        let (operations, lines) = (disk.operations(), disk.trace().len());
        checked(&disk);
        assert_eq!(disk.operations(), operations, "no mutating call");
        let trace = &disk.trace()[lines..];
        let reads = ["lock", "open", "list", "len", "read_at"];
        let is_read =
            |line: &String| line.split(' ').nth(1).is_some_and(|kind| reads.contains(&kind));
        assert!(trace.len() > 2 && trace.iter().all(is_read), "{trace:?}");
    }
}

#[test]
fn a_directory_without_a_store_and_one_that_is_in_use_are_refused() {
    let empty = ReadOnly::over(Arc::new(disk(33)));
    assert_eq!(check(&empty, &mut |_| {}), Err(CheckError::NoStore));
    let disk = disk(33);
    let log = open(&disk, &small()).unwrap();
    let read_only = ReadOnly::over(Arc::new(disk.clone()));
    assert_eq!(check(&read_only, &mut |_| {}), Err(CheckError::Locked));
    drop(log);
    assert_eq!(checked(&disk).verdict(), Verdict::Clean);
}

/// What a file's bytes are to a clean store.
#[derive(Default)]
struct Used {
    /// Ranges of segment files that hold frames of the log.
    frames: BTreeMap<String, Vec<(u64, u64)>>,
}

impl Used {
    fn of(disk: &SimDisk) -> Self {
        let mut used = Self::default();
        let mut current = String::new();
        let segment_bytes = small().segment_bytes;
        check(&ReadOnly::over(Arc::new(disk.clone())), &mut |thing| match thing {
            Seen::Segment { file, .. } => (*file).clone_into(&mut current),
            Seen::Frame(frame) => {
                let at = frame.lsn.0 % segment_bytes;
                let range = (at, at + frame.frame_len());
                used.frames.entry(current.clone()).or_default().push(range);
            }
            Seen::Record { .. } => {}
        })
        .unwrap();
        used
    }

    /// Whether a changed byte must be noticed.
    fn has(&self, path: &str, at: u64, home_end: u64) -> bool {
        if path.ends_with(Label::NAME) {
            return true;
        }
        if path.starts_with("wal/") {
            let within = |(start, end): &(u64, u64)| (*start..*end).contains(&at);
            return at < 4096 || self.frames.get(path).is_some_and(|f| f.iter().any(within));
        }
        // The home's first block holds the checksums of full regions, from its fifth byte on.
        let full_regions = home_end.saturating_sub(4096) / 65536;
        let is_home = path.starts_with("streams/");
        !is_home || (4096..home_end).contains(&at) || (4..4 + 4 * full_regions).contains(&at)
    }
}

#[test]
fn any_flipped_bit_is_found_where_it_is_and_what_nothing_uses_is_left_out() {
    // I6
    let disk = filled(&small(), 34);
    let used = Used::of(&disk);
    let mut rng = SimRng::new(34);
    let (mut torn, mut flips) = (0, 0);
    for path in files(&disk, "") {
        let len = disk.open(&path, Access::Buffered).unwrap().len().unwrap();
        let stride = if path.starts_with("streams/") { 9000 } else { 1500 };
        let mut at = rng.next_u64() % 64;
        while at < len {
            let flipped = disk.fork();
            flipped.flip_bit(&path, at, u8::try_from(rng.next_u64() % 8).unwrap()).unwrap();
            let report = checked(&flipped);
            let context = format!("byte {at} of {path}: {report:?}");
            flips += 1;
            let has = |offset: u64, len: u64| (offset..offset + len).contains(&at);
            match report.verdict() {
                Verdict::Clean => assert!(!used.has(&path, at, len), "{context}"),
                Verdict::Damaged => {
                    assert!(used.has(&path, at, len), "{context}");
                    let told = |d: &highwater_log::check::Damage| {
                        d.file == path && has(d.offset, d.len_bytes)
                    };
                    assert!(report.damage.iter().any(told), "{context}");
                }
                Verdict::TornTail => {
                    torn += 1;
                    let tail = report.lanes[0].torn.clone().unwrap();
                    assert!(tail.file == path && has(tail.offset, tail.len_bytes), "{context}");
                }
            }
            at += 1 + rng.next_u64() % stride;
        }
    }
    // Only of the very last frame nothing says that it was acknowledged.
    assert!(flips > 300 && torn < 10, "{torn} of {flips}");
}

#[test]
fn damage_in_the_middle_is_one_range_and_the_log_behind_it_is_still_read() {
    let disk = filled(&small(), 35);
    let whole = checked(&disk);
    let (path, ranges) = Used::of(&disk).frames.into_iter().next().unwrap();
    let (start, end) = ranges[ranges.len() / 2];
    disk.flip_bit(&path, start + 100, 0).unwrap();
    let report = checked(&disk);
    assert_eq!(report.damage.len(), 1, "{report:?}");
    let damage = &report.damage[0];
    assert_eq!((damage.offset, damage.len_bytes), (start, end - start));
    assert_eq!(damage.reach, Reach::Acknowledged);
    assert!(damage.what.contains("although the log was durable to"), "{}", damage.what);
    assert_eq!(report.lanes[0].frames, whole.lanes[0].frames - 1);
    assert_eq!(report.lanes[0].end, whole.lanes[0].end);
}

#[test]
fn missing_files_are_told_by_name() {
    let disk = filled(&small(), 36);
    let report = checked(&disk);
    let (first, last) = (report.lanes[0].replay_from, report.lanes[0].end);
    assert!(last.0 / small().segment_bytes >= first.0 / small().segment_bytes + 2);
    let frames = Used::of(&disk).frames;
    let mut gone: Vec<(String, &str)> =
        frames.keys().map(|path| (path.clone(), "no file holds segment")).collect();
    // The last one may hold nothing that anything else vouches for.
    let last_file = Used::of(&disk).frames.into_iter().max_by_key(|(path, _)| path.clone());
    gone.retain(|(path, _)| Some(path) != last_file.as_ref().map(|(path, _)| path));
    // Stream 4 is deleted: whether its file is still there says nothing.
    let labels = files(&disk, "").into_iter().filter(|path| path.ends_with(Label::NAME));
    gone.extend(labels.map(|path| (path, "no file `label`")));
    let is_kept = |path: &String| !path.ends_with('4') && !path.ends_with(Label::NAME);
    let home = files(&disk, "streams").into_iter().filter(is_kept);
    let home = home.map(|path| (path, "the file is missing"));
    gone.extend(home.collect::<Vec<_>>());
    gone.push(("tables/1".to_owned(), "tables/1"));
    gone.push(("manifest/1".to_owned(), "manifest/1"));
    gone.push(("super".to_owned(), "the file `super` is lost"));
    assert!(gone.len() > 8, "{gone:?}");
    for (path, words) in gone {
        let disk = disk.fork();
        disk.remove(&path).unwrap();
        let report = checked(&disk);
        assert_eq!(report.verdict(), Verdict::Damaged, "{path}");
        assert!(report.reaches_acknowledged(), "{path}");
        let told = report.damage.iter().any(|damage| damage.what.contains(words));
        assert!(told, "{path}: {report:?}");
    }
}

#[test]
fn foreign_and_doubled_segments_are_told_and_cost_nothing_by_themselves() {
    let disk = filled(&small(), 37);
    let other = filled(&small(), 38);
    let foreign = disk.fork();
    copy_file((&other, "wal/0/0.seg"), (&foreign, "wal/0/50.seg"));
    let report = checked(&foreign);
    assert_eq!((report.verdict(), report.damage.len()), (Verdict::Damaged, 1), "{report:?}");
    assert_eq!(report.damage[0].file, "wal/0/50.seg");
    assert!(report.damage[0].what.contains("not of this lane") && !report.reaches_acknowledged());
    let doubled = disk.fork();
    let path = Used::of(&disk).frames.into_keys().next().unwrap();
    copy_file((&disk, &path), (&doubled, "wal/0/50.seg"));
    let report = checked(&doubled);
    assert_eq!((report.verdict(), report.damage.len()), (Verdict::Damaged, 1), "{report:?}");
    assert!(report.damage[0].what.contains("already"), "{report:?}");
    // Another store's table, manifest and superblock slots do not pass either.
    for path in ["tables/1", "manifest/1"] {
        let mixed = disk.fork();
        mixed.remove(path).unwrap();
        copy_file((&other, path), (&mixed, path));
        assert!(checked(&mixed).reaches_acknowledged(), "{path}");
    }
}

#[test]
fn files_that_nothing_names_are_listed_and_change_no_verdict() {
    let disk = filled(&small(), 39);
    for path in ["super.new", "notes", "manifest/99", "tables/99", "wal/0/9.seg", "wal/0/x"] {
        disk.create(path, Access::Buffered).unwrap();
    }
    disk.create("streams/0/00000000000000ff", Access::Buffered).unwrap();
    let report = checked(&disk);
    assert_eq!(report.verdict(), Verdict::Clean, "{report:?}");
    assert_eq!(report.leftovers.len(), 7, "{report:?}");
}

#[test]
fn a_commit_of_which_a_sector_is_missing_is_a_torn_tail_with_its_place_and_length() {
    let disk = filled(&small(), 40);
    let log = open(&disk, &small()).unwrap();
    let ticket = append(&log, "thin", &[7; 4100]).unwrap();
    disk.crash_at(2, CrashSide::Before);
    drop(ticket);
    assert!(log.step() && disk.is_crashed(), "written, and no barrier");
    let whole = checked(&disk.crash_with(|_| true));
    assert_eq!(whole.verdict(), Verdict::Clean);
    let (frame_bytes, header, data) = (8192, 1, 9);
    for lost in 0..disk.pending_count() {
        let crashed = disk.crash_with(|index| index != lost);
        let report = checked(&crashed);
        let lane = &report.lanes[0];
        let context = format!("sector {lost}: {report:?}");
        assert_eq!(report.damage, [], "{context}");
        if lost < header {
            // Without its header nothing tells a commit from what stood there before.
            assert_eq!(report.verdict(), Verdict::Clean, "{context}");
            assert_eq!(lane.end.0, whole.lanes[0].end.0 - frame_bytes, "{context}");
        } else if lost < data {
            assert_eq!(report.verdict(), Verdict::TornTail, "{context}");
            let tail = lane.torn.as_ref().unwrap();
            assert_eq!((tail.offset, tail.len_bytes), (lane.end.0 % 65536, frame_bytes));
            assert!(tail.why.contains("checksum"), "{context}");
        } else {
            assert_eq!(lane.end, whole.lanes[0].end, "zeros that were zeros: {context}");
        }
    }
}

fn pick(rng: &mut SimRng, below: u64) -> u64 {
    rng.next_u64() % below
}

/// Appends, forks, ends and deletes at random until the disk dies.
fn work(log: &Log, rng: &mut SimRng) -> Option<()> {
    for step in 0..40_u64 {
        if pick(rng, 9) == 0 {
            log.checkpoint().ok()?;
        }
        let name = format!("s{}", pick(rng, 6));
        if log.info(&name).is_none() {
            create(log, &name).ok()?.wait().ok()?;
        }
        if pick(rng, 12) == 0 {
            log.delete(&name).ok()?.wait().ok()?;
            continue;
        }
        let tickets: Vec<_> = (0..=pick(rng, 3))
            .filter_map(|_| {
                let len = usize::try_from(pick(rng, 7000)).unwrap() + 1;
                let payload = vec![u8::try_from(step).unwrap(); len];
                append(log, &name, &payload).ok()
            })
            .collect();
        for ticket in tickets {
            ticket.wait().ok()?;
        }
    }
    Some(())
}

#[test]
fn a_crash_at_any_moment_is_never_taken_for_damage_and_a_torn_tail_goes_with_the_next_opening() {
    let (mut torn, mut clean) = (0, 0);
    for seed in 0..60 {
        let mut rng = SimRng::new(seed);
        let mut disk = disk(seed);
        for life in 0..4 {
            let context = format!("seed {seed}, life {life}");
            disk.crash_after_operations(1 + pick(&mut rng, 90));
            if let Ok(log) = open(&disk, &small()) {
                work(&log, &mut rng);
            }
            disk = disk.crash();
            let before = match check(&ReadOnly::over(Arc::new(disk.clone())), &mut |_| {}) {
                Err(CheckError::NoStore) => continue,
                report => report.unwrap(),
            };
            assert_eq!(before.damage, [], "{context}");
            match before.verdict() {
                Verdict::TornTail => torn += 1,
                _ => clean += 1,
            }
            let copy = disk.fork();
            drop(open(&copy, &small()).unwrap_or_else(|error| panic!("{context}: {error}")));
            let after = checked(&copy);
            assert_eq!(after.verdict(), Verdict::Clean, "{context}: {before:?} then {after:?}");
            assert_eq!(after.lanes[0].streams, before.lanes[0].streams, "{context}");
        }
    }
    assert!(torn > 1 && clean > 50, "{torn} torn, {clean} clean");
}
