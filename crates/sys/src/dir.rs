//! Directories: exclusive creation, durable entries, and the lock that says who is alive.

use std::path::Path;

use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;

use crate::error::{SysResult, named};
use crate::file::File;

/// Makes a directory that does not exist yet, for its owner alone.
///
/// # Errors
/// `EEXIST` when anything of that name exists; others of mkdir(2).
pub fn create_new(path: &Path) -> SysResult<()> {
    named("mkdir", rustix::fs::mkdir(path, Mode::RWXU))
}

/// Makes a directory's entries durable: files created or removed in it.
///
/// # Errors
/// As fsync(2).
pub fn sync_entries(path: &Path) -> SysResult<()> {
    File::open_read(path)?.fsync()
}

/// An exclusive lock on a directory, held until dropped or until the process dies.
#[derive(Debug)]
pub struct DirLock {
    _held: File,
}

impl DirLock {
    /// Takes the lock, or gives `None` while another open descriptor holds it.
    ///
    /// # Errors
    /// As open(2) and flock(2).
    pub fn try_take(path: &Path) -> SysResult<Option<Self>> {
        let dir = File::open_read(path)?;
        match rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _held: dir })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => named("flock", Err(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_once_and_locked_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("work");
        create_new(&path).unwrap();
        assert_eq!(create_new(&path).unwrap_err().errno, Errno::EXIST);
        sync_entries(dir.path()).unwrap();
        let held = DirLock::try_take(&path).unwrap();
        assert!(held.is_some());
        assert!(DirLock::try_take(&path).unwrap().is_none());
        drop(held);
        assert!(DirLock::try_take(&path).unwrap().is_some());
    }
}
