//! Directories: their entries, how they become durable, and the lock that says who is alive.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, IFlags, Mode};
use rustix::io::Errno;

use crate::error::{SysResult, named};
use crate::file::File;
use crate::place::Place;

/// Makes a directory that does not exist yet, for its owner alone.
///
/// # Errors
/// `EEXIST` when anything of that name exists; others of mkdir(2).
pub fn create_new<'a>(place: impl Into<Place<'a>>) -> SysResult<()> {
    let place = place.into();
    named("mkdir", rustix::fs::mkdirat(place.dir, place.path, Mode::RWXU))
}

/// Asks the file system to place each new directory in this one far from the others, as it does
/// below its root (`FS_TOPDIR_FL`, chattr(1) `T`).
///
/// # Errors
/// `EOPNOTSUPP` where the file system has no such wish; others of `ioctl_iflags(2)`.
pub fn spread_new_directories(path: &Path) -> SysResult<()> {
    let dir = File::open_read(path)?;
    let flags = named("ioctl(FS_IOC_GETFLAGS)", rustix::fs::ioctl_getflags(&dir))?;
    let flags = flags | IFlags::TOPDIR;
    named("ioctl(FS_IOC_SETFLAGS)", rustix::fs::ioctl_setflags(&dir, flags))
}

/// Makes a directory's entries durable: files created or removed in it.
///
/// # Errors
/// As fsync(2).
pub fn sync_entries<'a>(place: impl Into<Place<'a>>) -> SysResult<()> {
    File::open_read(place)?.fsync()
}

/// Gives a file another name, replacing a file of that name in one step.
///
/// # Errors
/// As rename(2); `EISDIR` when `from` is a directory.
pub fn rename_file<'a>(from: impl Into<Place<'a>>, to: impl Into<Place<'a>>) -> SysResult<()> {
    let (from, to) = (from.into(), to.into());
    let stat = rustix::fs::statat(from.dir, from.path, AtFlags::SYMLINK_NOFOLLOW);
    let stat = named("lstat", stat)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return named("rename", Err(Errno::ISDIR));
    }
    named("rename", rustix::fs::renameat(from.dir, from.path, to.dir, to.path))
}

/// Removes a file's name.
///
/// # Errors
/// As unlink(2).
pub fn remove_file<'a>(place: impl Into<Place<'a>>) -> SysResult<()> {
    let place = place.into();
    named("unlink", rustix::fs::unlinkat(place.dir, place.path, AtFlags::empty()))
}

/// Lists the entries of a directory, in no order: each name, and whether it is a directory or a
/// link to one.
///
/// # Errors
/// As open(2) and getdents64(2).
pub fn entries<'a>(place: impl Into<Place<'a>>) -> SysResult<Vec<(OsString, bool)>> {
    let open = File::open_read(place)?;
    let mut found = Vec::new();
    for entry in named("getdents64", Dir::read_from(&open))? {
        let entry = named("getdents64", entry)?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        // What a link leads to counts, and not every file system says what an entry is.
        let is_dir = match entry.file_type() {
            FileType::Symlink | FileType::Unknown => {
                let target = rustix::fs::statat(&open, name, AtFlags::empty());
                target.is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::Directory)
            }
            known => known == FileType::Directory,
        };
        found.push((OsStr::from_bytes(name.to_bytes()).to_owned(), is_dir));
    }
    Ok(found)
}

/// An exclusive lock on a directory or file, held until dropped or until the process dies.
#[derive(Debug)]
pub struct DirLock {
    held: File,
}

impl DirLock {
    /// Takes the lock, or gives `None` while another open descriptor holds it.
    ///
    /// # Errors
    /// As open(2) and flock(2).
    pub fn try_take<'a>(place: impl Into<Place<'a>>) -> SysResult<Option<Self>> {
        Self::try_hold(File::open_read(place)?)
    }

    /// As [`DirLock::try_take`], on a file that is made if it is missing. Follows no link.
    ///
    /// # Errors
    /// As open(2) and flock(2).
    pub fn try_take_file<'a>(place: impl Into<Place<'a>>) -> SysResult<Option<Self>> {
        Self::try_hold(File::open_or_create(place)?)
    }

    /// As [`DirLock::try_take`], on a file that is open.
    ///
    /// # Errors
    /// As flock(2).
    pub fn try_hold(file: File) -> SysResult<Option<Self>> {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { held: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => named("flock", Err(errno)),
        }
    }
}

impl Drop for DirLock {
    /// Gives the lock up at once: a program that is being started meanwhile has a copy of the
    /// descriptor for a moment, and closing this one alone would leave it locked.
    fn drop(&mut self) {
        // Where it cannot be given up so, closing does it.
        rustix::fs::flock(&self.held, FlockOperation::Unlock).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_spread_where_the_file_system_can() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        match spread_new_directories(dir.path()) {
            Ok(()) => {
                let open = File::open_read(dir.path()).unwrap();
                assert!(rustix::fs::ioctl_getflags(&open).unwrap().contains(IFlags::TOPDIR));
            }
            Err(error) => assert!(error.is_unsupported(), "{error}"),
        }
        create_new(&dir.path().join("below")).unwrap();
        assert_eq!(spread_new_directories(&dir.path().join("none")).unwrap_err().call, "open");
    }

    #[test]
    fn a_lock_is_given_up_although_a_copy_of_its_descriptor_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let held = DirLock::try_take(dir.path()).unwrap().unwrap();
        // As a program has that is forked and has not begun yet.
        let copy = rustix::io::dup(&held.held).unwrap();
        drop(held);
        assert!(DirLock::try_take(dir.path()).unwrap().is_some());
        drop(copy);
    }

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

    #[test]
    fn a_lock_file_is_made_and_held_once_and_a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let held = DirLock::try_take_file(&path).unwrap();
        assert!(held.is_some());
        assert!(DirLock::try_take_file(&path).unwrap().is_none());
        drop(held);
        assert!(DirLock::try_take_file(&path).unwrap().is_some());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(DirLock::try_take_file(&link).unwrap_err().is_bad_path());
    }

    #[test]
    fn files_are_listed_renamed_and_removed_and_directories_are_not_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        create_new(&at("dir")).unwrap();
        std::fs::write(at("a"), b"a").unwrap();
        std::os::unix::fs::symlink(at("dir"), at("link")).unwrap();
        rename_file(&at("a"), &at("b")).unwrap();
        assert_eq!(rename_file(&at("dir"), &at("c")).unwrap_err().errno, Errno::ISDIR);
        let mut found = entries(dir.path()).unwrap();
        found.sort();
        assert_eq!(found, [("b".into(), false), ("dir".into(), true), ("link".into(), true)]);
        remove_file(&at("b")).unwrap();
        assert_eq!(remove_file(&at("b")).unwrap_err().errno, Errno::NOENT);
        assert_eq!(entries(&at("b")).unwrap_err().errno, Errno::NOENT);
    }
}
