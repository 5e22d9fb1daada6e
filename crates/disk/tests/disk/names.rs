//! Random workloads on names against a naive model: what a crash may and may not do to names.

use std::collections::{BTreeMap, BTreeSet};

use highwater_disk::sim::{CrashMode, NameSurvival, SimDisk, SimOptions};
use highwater_disk::{Access, Disk};
use proptest::prelude::*;

use crate::content;

const PATHS: [&str; 6] = ["a", "b", "d/a", "d/b", "e/a", "e/b"];
const DIRS: [&str; 3] = ["", "d", "e"];

#[derive(Debug, Clone)]
enum Step {
    Create(usize),
    Rename(usize, usize),
    Remove(usize),
    SyncDir(usize),
    SyncAll,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    let path = 0..PATHS.len();
    prop_oneof![
        4 => path.clone().prop_map(Step::Create),
        4 => (path.clone(), path.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => path.prop_map(Step::Remove),
        4 => (0..DIRS.len()).prop_map(Step::SyncDir),
        1 => Just(Step::SyncAll),
        2 => Just(Step::Crash),
    ]
}

/// For each path, the files (by number) it stood for since its name was last made durable.
struct Model {
    history: BTreeMap<&'static str, Vec<Option<u64>>>,
    /// Renames across directories, with the directories still to be synced.
    open_renames: Vec<(BTreeSet<&'static str>, [&'static str; 2])>,
}

impl Model {
    fn new() -> Self {
        let history = PATHS.iter().map(|path| (*path, vec![None])).collect();
        Self { history, open_renames: Vec::new() }
    }

    fn now(&self, path: &str) -> Option<u64> {
        *self.history[path].last().expect("never empty")
    }

    fn set(&mut self, path: &'static str, file: Option<u64>) {
        self.history.get_mut(path).expect("a known path").push(file);
    }

    fn sync_dir(&mut self, dir: &str) {
        for (unsynced, _) in &mut self.open_renames {
            unsynced.remove(dir);
        }
        // A path is settled by a sync of its directory unless a rename that needs another sync
        // touched it; then it may be settled or not.
        self.open_renames.retain(|(unsynced, _)| !unsynced.is_empty());
        let open: BTreeSet<&str> = self.open_renames.iter().flat_map(|(_, paths)| *paths).collect();
        for path in PATHS {
            if dir_of(path) == dir && !open.contains(path) {
                let now = self.now(path);
                self.history.insert(path, vec![now]);
            }
        }
    }

    fn settle(&mut self, disk: &SimDisk) {
        self.open_renames.clear();
        for path in PATHS {
            self.history.insert(path, vec![number(disk, path)]);
        }
    }
}

fn dir_of(path: &'static str) -> &'static str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// The number that a file carries as its content.
fn number(disk: &SimDisk, path: &str) -> Option<u64> {
    content(disk, path).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

fn apply(step: &Step, disk: &SimDisk, model: &mut Model, next: &mut u64) {
    match *step {
        Step::Create(path) => {
            let path = PATHS[path];
            let created = disk.create(path, Access::Buffered);
            assert_eq!(created.is_ok(), model.now(path).is_none());
            if let Ok(file) = created {
                *next += 1;
                file.write_at(&next.to_le_bytes(), 0).unwrap();
                file.sync_data().unwrap();
                model.set(path, Some(*next));
            }
        }
        Step::Rename(from, to) => {
            let (from, to) = (PATHS[from], PATHS[to]);
            let file = model.now(from);
            assert_eq!(disk.rename(from, to).is_ok(), file.is_some());
            if file.is_some() && from != to {
                model.set(from, None);
                model.set(to, file);
                let dirs: BTreeSet<&str> = [dir_of(from), dir_of(to)].into();
                if dirs.len() > 1 {
                    model.open_renames.push((dirs, [from, to]));
                }
            }
        }
        Step::Remove(path) => {
            let path = PATHS[path];
            assert_eq!(disk.remove(path).is_ok(), model.now(path).is_some());
            if model.now(path).is_some() {
                model.set(path, None);
            }
        }
        Step::SyncDir(dir) => {
            disk.sync_dir(DIRS[dir]).unwrap();
            model.sync_dir(DIRS[dir]);
        }
        Step::SyncAll => {
            disk.sync_all("d").unwrap();
            for dir in DIRS {
                model.sync_dir(dir);
            }
        }
        Step::Crash => {}
    }
}

fn run(options: SimOptions, steps: &[Step]) {
    let mut disk = SimDisk::new(options);
    disk.create_dir("d").unwrap();
    disk.create_dir("e").unwrap();
    disk.sync_dir("").unwrap();
    let (mut model, mut next) = (Model::new(), 0);
    for step in steps {
        apply(step, &disk, &mut model, &mut next);
        if let Step::Crash = step {
            let before = disk.pending();
            let all_kept = disk.crash_with(|_| true);
            for path in PATHS {
                assert_eq!(number(&all_kept, path), model.now(path), "{path}: {before:?}");
            }
            disk = disk.crash();
            let mut seen = BTreeSet::new();
            for path in PATHS {
                let found = number(&disk, path);
                let allowed = &model.history[path];
                assert!(allowed.contains(&found), "{path}: {found:?} {allowed:?} {before:?}");
                assert!(found.is_none_or(|file| seen.insert(file)), "two names: {before:?}");
            }
            model.settle(&disk);
        }
        for path in PATHS {
            assert_eq!(number(&disk, path), model.now(path));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn synced_names_survive_and_unsynced_ones_are_old_or_some_later_state(
        seed: u64,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        for names in [NameSurvival::Subset, NameSurvival::Prefix] {
            run(SimOptions { names, ..SimOptions::seeded(seed) }, &steps);
        }
    }
}

#[test]
fn a_removal_synced_in_its_directory_is_not_undone_by_a_rename_half_synced() {
    for seed in 0..50 {
        let disk = crate::sim(seed, CrashMode::Random);
        disk.create_dir("d").unwrap();
        crate::durable_file(&disk, "a", b"abc");
        disk.rename("a", "d/a").unwrap();
        disk.remove("d/a").unwrap();
        disk.sync_dir("d").unwrap();
        disk.sync_dir("").unwrap();
        let after = disk.crash();
        assert_eq!((content(&after, "a"), content(&after, "d/a")), (None, None));
    }
}

#[test]
fn a_journal_keeps_names_in_order() {
    for seed in 0..100 {
        let names = NameSurvival::Prefix;
        let disk = SimDisk::new(SimOptions { names, ..SimOptions::seeded(seed) });
        for path in PATHS.iter().filter(|path| !path.contains('/')).chain(&["c", "f"]) {
            disk.create(path, Access::Buffered).unwrap();
        }
        let left: Vec<String> =
            disk.crash().list("").unwrap().into_iter().map(|entry| entry.name).collect();
        assert!(
            ["a", "b", "c", "f"].starts_with(&left.iter().map(String::as_str).collect::<Vec<_>>())
        );
    }
}
