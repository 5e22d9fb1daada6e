//! The directory a run works in: made anew, removed at the end, and recognised when its owner died.
//!
//! Its name carries who made it: process id, start time, process namespace and boot. The owner also
//! holds a lock on it. A later run removes it only when the name says the owner is gone and the
//! lock is free, and then only files that carry names this module gives, and stores: directories
//! that a database under measurement has for itself.

use std::path::{Path, PathBuf};

use highwater_sys::dir::{self, DirLock};
use highwater_sys::process::{self, ProcessId};

use crate::error::ProbeError;

const PREFIX: &str = "highwater-work.";
const CASE_PREFIX: &str = "case-";
const FILE_PREFIX: &str = "hw-";
/// Directories of stores: databases of whatever kind, with files of their own naming.
const STORE_PREFIX: &str = "store-";

/// A run's working directory.
#[derive(Debug)]
pub struct WorkDir {
    path: PathBuf,
    lock: Option<DirLock>,
    next_case: u64,
}

/// What was found of runs that died.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Directories removed.
    pub removed: Vec<PathBuf>,
    /// Directories left, with the reason: they hold something that no run of ours made.
    pub kept: Vec<(PathBuf, String)>,
}

impl WorkDir {
    /// Makes the directory below `parent`.
    ///
    /// # Errors
    /// When `parent` is absent, not a directory, read-only, full, or not ours to write to.
    pub fn create(parent: &Path) -> Result<Self, ProbeError> {
        let path = parent.join(Owner::current().name());
        dir::create_new(&path).map_err(|error| ProbeError::work_dir(parent, &error))?;
        let mut work = Self { path, lock: None, next_case: 0 };
        work.lock = Some(claim(&work.path)?);
        Ok(work)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes an empty directory for one case.
    ///
    /// # Errors
    /// As mkdir(2).
    pub fn case_dir(&mut self) -> Result<CaseDir, ProbeError> {
        let path = self.path.join(format!("{CASE_PREFIX}{}", self.next_case));
        self.next_case += 1;
        dir::create_new(&path).map_err(|error| ProbeError::at(&path, &error))?;
        Ok(CaseDir { path })
    }

    /// Makes an empty directory for a store, which names its files itself.
    ///
    /// # Errors
    /// As mkdir(2).
    pub fn store_dir(&mut self) -> Result<StoreDir, ProbeError> {
        // ext4 without a journal uses no inode again for a minute or more after its file is gone,
        // and searches past all of those: files of a store beside one just removed cost 30 times
        // as much. A wish, and not everywhere known.
        dir::spread_new_directories(&self.path).ok();
        let path = self.path.join(format!("{STORE_PREFIX}{}", self.next_case));
        self.next_case += 1;
        dir::create_new(&path).map_err(|error| ProbeError::at(&path, &error))?;
        Ok(StoreDir { path })
    }

    /// Removes the directory.
    ///
    /// # Errors
    /// When something in it cannot be removed.
    pub fn close(mut self) -> Result<(), ProbeError> {
        self.lock = None;
        let path = std::mem::take(&mut self.path);
        match remove_ours(&path) {
            // Somebody else has removed it. A case that still needed it has failed and says so.
            Err(_) if !path.exists() => Ok(()),
            other => other.map_err(|reason| ProbeError::Leftover { path, reason }),
        }
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() && self.path.exists() {
            // Second line of defence after an error: what stays is removed by the next run.
            remove_ours(&self.path).ok();
        }
    }
}

/// One case's directory, removed when dropped.
#[derive(Debug)]
pub struct CaseDir {
    path: PathBuf,
}

impl CaseDir {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the n-th file.
    pub fn file(&self, index: u64) -> PathBuf {
        self.path.join(format!("{FILE_PREFIX}{index}"))
    }
}

impl Drop for CaseDir {
    fn drop(&mut self) {
        // Whatever stays is removed with the working directory, which reports failures.
        remove_case(&self.path).ok();
    }
}

/// A store's directory, removed with all that is in it when dropped.
#[derive(Debug)]
pub struct StoreDir {
    path: PathBuf,
}

impl StoreDir {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for StoreDir {
    fn drop(&mut self) {
        // Whatever stays is removed with the working directory, which reports failures.
        std::fs::remove_dir_all(&self.path).ok();
    }
}

/// Removes what runs that died left below `parent` (M7).
///
/// # Errors
/// When `parent` cannot be listed.
pub fn reap_dead(parent: &Path) -> Result<Reaped, ProbeError> {
    let listing = std::fs::read_dir(parent).map_err(|error| ProbeError::Directory {
        path: parent.to_owned(),
        reason: error.to_string(),
    })?;
    let mut reaped = Reaped::default();
    for entry in listing.flatten() {
        let path = entry.path();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let owner = entry.file_name().to_str().and_then(Owner::parse);
        let (true, Some(owner)) = (is_dir, owner) else { continue };
        if owner.may_be_alive() {
            continue;
        }
        // The lock is the second witness: a living run of another container still holds it.
        let Ok(Some(lock)) = DirLock::try_take(&path) else { continue };
        match remove_ours(&path) {
            Ok(()) => reaped.removed.push(path),
            Err(reason) => reaped.kept.push((path, reason)),
        }
        drop(lock);
    }
    Ok(reaped)
}

/// Takes the lock that shows other runs that the owner lives: without it one of them, in another
/// process namespace, would remove the directory.
fn claim(path: &Path) -> Result<DirLock, ProbeError> {
    let lock = DirLock::try_take(path).map_err(|error| ProbeError::at(path, &error))?;
    lock.ok_or_else(|| ProbeError::Directory {
        path: path.to_owned(),
        reason: "another process holds the lock on this new directory; run again".to_owned(),
    })
}

/// Who made a working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    process: ProcessId,
    namespace: u64,
    boot: String,
}

impl Owner {
    fn current() -> Self {
        Self { process: process::current(), namespace: process_namespace(), boot: boot_id() }
    }

    fn name(&self) -> String {
        let ProcessId { pid, start_ticks } = self.process;
        format!("{PREFIX}{pid}.{start_ticks}.{}.{}", self.namespace, self.boot)
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('.');
        let pid = parts.next()?.parse().ok()?;
        let start_ticks = parts.next()?.parse().ok()?;
        let namespace = parts.next()?.parse().ok()?;
        let boot = parts.next()?.to_owned();
        let whole = parts.next().is_none() && boot.len() == 8;
        whole.then_some(Self { process: ProcessId { pid, start_ticks }, namespace, boot })
    }

    /// Whether this boot and namespace show the process; of another one only the lock can tell.
    fn may_be_alive(&self) -> bool {
        self.boot == boot_id()
            && self.namespace == process_namespace()
            && process::is_alive(self.process)
    }
}

fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let short: String = text.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    format!("{short:0>8}")
}

fn process_namespace() -> u64 {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// Removes a working directory that holds nothing but what runs make.
fn remove_ours(path: &Path) -> Result<(), String> {
    for entry in list(path)? {
        let is_dir = entry.is_dir() && !entry.is_symlink();
        if is_dir && name_has(&entry, STORE_PREFIX) {
            std::fs::remove_dir_all(&entry)
                .map_err(|error| format!("{}: {error}", entry.display()))?;
            continue;
        }
        if !(is_dir && name_has(&entry, CASE_PREFIX)) {
            return Err(format!(
                "it holds {}, which no run made; remove it by hand",
                entry.display()
            ));
        }
        remove_case(&entry)?;
    }
    std::fs::remove_dir(path).map_err(|error| error.to_string())
}

fn remove_case(path: &Path) -> Result<(), String> {
    for entry in list(path)? {
        if !name_has(&entry, FILE_PREFIX) {
            return Err(format!(
                "it holds {}, which no run made; remove it by hand",
                entry.display()
            ));
        }
        std::fs::remove_file(&entry).map_err(|error| format!("{}: {error}", entry.display()))?;
    }
    std::fs::remove_dir(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn list(path: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|found| found.path())).collect();
    paths.map_err(|error| format!("{}: {error}", path.display()))
}

/// Whether the last component is the prefix and a number, as this module names things.
fn name_has(path: &Path, prefix: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let digits = name.and_then(|name| name.strip_prefix(prefix));
    digits.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dead_owner() -> Owner {
        let mut owner = Owner::current();
        owner.process.start_ticks += 1;
        owner
    }

    #[test]
    fn names_tell_the_owner_and_parse_back() {
        let owner = Owner::current();
        assert_eq!(Owner::parse(&owner.name()), Some(owner.clone()));
        for other in [
            "highwater-work.",
            "highwater-work.1.2.3",
            "work.1.2.3.01234567",
            "highwater-work.1.2.3.01234567.9",
        ] {
            assert_eq!(Owner::parse(other), None, "{other}");
        }
    }

    #[test]
    fn exactly_the_dead_runs_leftovers_are_removed() {
        // M7
        let parent = tempfile::tempdir().unwrap();
        let mut alive = WorkDir::create(parent.path()).unwrap();
        let case = alive.case_dir().unwrap();
        std::fs::write(case.file(0), b"x").unwrap();
        let dead = parent.path().join(dead_owner().name());
        std::fs::create_dir_all(dead.join("case-3")).unwrap();
        std::fs::write(dead.join("case-3/hw-17"), b"x").unwrap();
        let alike = parent.path().join("highwater-work.notes");
        std::fs::create_dir(&alike).unwrap();

        let reaped = reap_dead(parent.path()).unwrap();
        assert_eq!(reaped.removed, vec![dead.clone()]);
        assert!(!dead.exists() && alike.exists() && case.file(0).exists());
        drop(case);
        let path = alive.path().to_owned();
        alive.close().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_runs_directory_with_a_foreign_file_keeps_it_and_says_so() {
        for foreign in ["notes.txt", "case-0/notes.txt", "case-0/hw-"] {
            let parent = tempfile::tempdir().unwrap();
            let dead = parent.path().join(dead_owner().name());
            std::fs::create_dir_all(dead.join("case-0")).unwrap();
            std::fs::write(dead.join(foreign), b"mine").unwrap();
            let reaped = reap_dead(parent.path()).unwrap();
            assert_eq!(reaped.removed, Vec::<PathBuf>::new());
            assert!(reaped.kept[0].1.contains("by hand"), "{reaped:?}");
            assert_eq!(std::fs::read(dead.join(foreign)).unwrap(), b"mine");
        }
    }

    #[test]
    fn a_store_is_removed_whole_when_dropped_and_when_its_run_died() {
        // M7
        let parent = tempfile::tempdir().unwrap();
        let mut work = WorkDir::create(parent.path()).unwrap();
        let store = work.store_dir().unwrap();
        std::fs::create_dir(store.path().join("wal")).unwrap();
        std::fs::write(store.path().join("wal/any name"), b"x").unwrap();
        let path = store.path().to_owned();
        drop(store);
        assert!(!path.exists());
        work.close().unwrap();

        let dead = parent.path().join(dead_owner().name());
        std::fs::create_dir_all(dead.join("store-3/wal")).unwrap();
        std::fs::write(dead.join("store-3/wal/any name"), b"x").unwrap();
        assert_eq!(reap_dead(parent.path()).unwrap().removed, vec![dead]);
    }

    #[test]
    fn a_new_directory_that_cannot_be_locked_is_not_worked_in() {
        let parent = tempfile::tempdir().unwrap();
        let held = DirLock::try_take(parent.path()).unwrap();
        let error = claim(parent.path()).unwrap_err().to_string();
        assert!(error.contains("holds the lock"), "{error}");
        drop(held);
        assert!(claim(parent.path()).is_ok());
    }

    #[test]
    fn a_directory_whose_lock_is_held_is_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join(dead_owner().name());
        std::fs::create_dir(&dead).unwrap();
        let held = DirLock::try_take(&dead).unwrap();
        assert_eq!(reap_dead(parent.path()).unwrap(), Reaped::default());
        drop(held);
        assert_eq!(reap_dead(parent.path()).unwrap().removed, vec![dead]);
    }
}
