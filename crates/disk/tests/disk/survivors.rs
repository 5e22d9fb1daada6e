//! Random workloads on one file against a naive model: what a crash may and may not do to bytes.

use highwater_disk::sim::{CrashMode, SimDisk};
use highwater_disk::{Access, Disk, File};
use proptest::prelude::*;

use crate::{content, durable_file, sim};

const SECTOR: usize = 512;
const MAX: usize = 8 * SECTOR;

#[derive(Debug, Clone)]
enum Step {
    Write { offset: usize, len: usize, byte: u8 },
    WriteDurable { offset: usize, len: usize, byte: u8 },
    Truncate { len: usize },
    Allocate { len: usize },
    Sync,
    SyncAll,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let write = (0..MAX, 1..3 * SECTOR, 1_u8..).prop_map(|(offset, len, byte)| Step::Write {
        offset,
        len,
        byte,
    });
    let write_durable = write.clone().prop_map(|step| match step {
        Step::Write { offset, len, byte } => Step::WriteDurable { offset, len, byte },
        other => other,
    });
    prop_oneof![
        6 => write,
        2 => write_durable,
        1 => (0..MAX).prop_map(|len| Step::Truncate { len }),
        1 => (0..MAX).prop_map(|len| Step::Allocate { len }),
        2 => Just(Step::Sync),
        1 => Just(Step::SyncAll),
        2 => Just(Step::Crash),
    ]
}

/// The file as all versions that it had since the last barrier, each whole.
struct Model {
    versions: Vec<Vec<u8>>,
}

impl Model {
    fn now(&self) -> &Vec<u8> {
        self.versions.last().expect("never empty")
    }

    fn change(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut next = self.now().clone();
        change(&mut next);
        self.versions.push(next);
    }

    /// The length and the sectors of a range are as they are now, whatever becomes of the others.
    fn settle_range(&mut self, offset: usize, len: usize) {
        let now = self.now().clone();
        let end = (offset + len).next_multiple_of(SECTOR).min(now.len());
        let range = offset / SECTOR * SECTOR..end;
        for version in &mut self.versions {
            version.resize(now.len(), 0);
            version[range.clone()].copy_from_slice(&now[range.clone()]);
        }
    }

    fn settle(&mut self, on: Vec<u8>) {
        self.versions = vec![on];
    }

    /// Each sector must be that of some version, perhaps cut off by a truncation; the length must
    /// lie among those it had.
    fn allows(&self, found: &[u8]) -> bool {
        let lens = || self.versions.iter().map(Vec::len);
        let len_allowed = (lens().min().unwrap()..=lens().max().unwrap()).contains(&found.len());
        let sectors = found.chunks(SECTOR).enumerate();
        len_allowed
            && sectors.into_iter().all(|(index, sector)| {
                self.versions.iter().any(|version| {
                    let old = version.get(index * SECTOR..).unwrap_or_default();
                    let same = sector.iter().zip(old).take_while(|(new, old)| new == old).count();
                    sector[same..].iter().all(|byte| *byte == 0)
                })
            })
    }
}

fn apply(step: &Step, file: &dyn File, model: &mut Model) {
    let wide = |n: usize| u64::try_from(n).unwrap();
    match *step {
        Step::Write { offset, len, byte } => {
            file.write_at(&vec![byte; len], wide(offset)).unwrap();
            model.change(|bytes| {
                bytes.resize(bytes.len().max(offset + len), 0);
                bytes[offset..offset + len].fill(byte);
            });
        }
        Step::WriteDurable { offset, len, byte } => {
            file.write_durable_at(&vec![byte; len], wide(offset)).unwrap();
            model.change(|bytes| {
                bytes.resize(bytes.len().max(offset + len), 0);
                bytes[offset..offset + len].fill(byte);
            });
            model.settle_range(offset, len);
        }
        Step::Truncate { len } => {
            file.truncate(wide(len)).unwrap();
            model.change(|bytes| bytes.resize(len, 0));
        }
        Step::Allocate { len } => {
            file.allocate(wide(len)).unwrap();
            model.change(|bytes| bytes.resize(bytes.len().max(len), 0));
        }
        Step::Sync => {
            file.sync_data().unwrap();
            model.settle(model.now().clone());
        }
        Step::SyncAll | Step::Crash => {}
    }
}

/// Runs the steps and gives the last disk; checks the model after each.
fn run(seed: u64, steps: &[Step]) -> SimDisk {
    let mut disk = sim(seed, CrashMode::Random);
    let mut file = durable_file(&disk, "a", b"start");
    let mut model = Model { versions: vec![b"start".to_vec()] };
    for step in steps {
        apply(step, &*file, &mut model);
        if let Step::SyncAll = step {
            disk.sync_all("").unwrap();
            model.settle(model.now().clone());
        }
        if let Step::Crash = step {
            let everything = content(&disk.crash_with(|_| true), "a").unwrap();
            assert_eq!(&everything, model.now());
            disk = disk.crash();
            assert!(file.len().is_err(), "a handle from before the crash is dead");
            file = disk.open("a", Access::Buffered).unwrap();
            let found = content(&disk, "a").unwrap();
            assert!(model.allows(&found), "seed {seed}: {found:?}");
            model.settle(found);
        }
        assert_eq!(&content(&disk, "a").unwrap(), model.now());
    }
    disk
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_was_synced_survives_and_the_rest_is_old_or_some_later_version(
        seed: u64,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        run(seed, &steps);
    }

    #[test]
    fn the_same_seed_gives_the_same_trace_and_the_same_survivors(
        seed: u64,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let (first, second) = (run(seed, &steps), run(seed, &steps));
        prop_assert_eq!(first.trace(), second.trace());
        prop_assert_eq!(first.crash().durable_hash(), second.crash().durable_hash());
    }
}

#[test]
fn different_seeds_reach_every_outcome_of_a_small_case_and_whole_frames() {
    let found = |seed| {
        let disk = sim(seed, CrashMode::Random);
        let file = durable_file(&disk, "a", &[0; 2 * 4096]);
        file.write_at(&[1; 4096], 0).unwrap();
        file.write_at(&[2; 4096], 4096).unwrap();
        let bytes = content(&disk.crash(), "a").unwrap();
        let whole = |frame: &[u8], byte: u8| frame.iter().all(|found| *found == byte);
        let states = |frame: &[u8], byte| match () {
            () if whole(frame, byte) => "whole",
            () if whole(frame, 0) => "lost",
            () => "torn",
        };
        (states(&bytes[..4096], 1), states(&bytes[4096..], 2))
    };
    let outcomes: std::collections::BTreeSet<_> = (0..400).map(found).collect();
    assert_eq!(outcomes.len(), 9, "{outcomes:?}");
}

#[test]
fn a_growth_may_survive_in_part() {
    let lens: std::collections::BTreeSet<usize> = (0..200)
        .map(|seed| {
            let disk = sim(seed, CrashMode::Random);
            durable_file(&disk, "a", &[1; 100]).write_at(&[2; 2000], 100).unwrap();
            content(&disk.crash(), "a").unwrap().len()
        })
        .collect();
    assert_eq!(lens, [100, 512, 1024, 1536, 2100].into());
}

#[test]
fn the_hash_of_what_is_durable_is_the_same_in_every_version() {
    let disk = sim(1, CrashMode::Random);
    disk.create_dir("d").unwrap();
    disk.sync_dir("").unwrap();
    let empty = disk.durable_hash();
    let file = durable_file(&disk, "d/a", b"abc");
    let hash = disk.durable_hash();
    assert_ne!(hash, empty);
    file.write_at(b"unsynced", 100).unwrap();
    assert_eq!(disk.durable_hash(), hash);
    assert_eq!(format!("{hash:016x}"), "60743e92d897b70a");
}
