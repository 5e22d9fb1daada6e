//! A directory of a real file system, the real clock, and seeds from the system.
//!
//! Symbolic links are followed between components, so that a directory may lie on another device,
//! but never in the last one: no call opens, replaces or locks through a link.
//!
//! The root is the directory that was opened, not its name: one that is moved away, or hidden by a
//! mount, stays the root, and what is put in its place is another's and is left alone.

mod file;
mod system;

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use highwater_sys::fsinfo::{DeviceNumber, dio_align};
use highwater_sys::place::Place;
use highwater_sys::{SysError, dir, file as sys_file, fsinfo, process};

use crate::path::{LOCK_NAME, check, check_dir, is_component};
use crate::{
    Access, DIRECT_ALIGN, Disk, DiskError, DiskResult, Entry, ErrorKind, File, Lock, PathStr,
};
use file::RealFile;
pub use system::{SystemClock, SystemRng};

const PLAIN: sys_file::NewFile =
    sys_file::NewFile { cache: sys_file::Cache::Buffered, write_sync: sys_file::WriteSync::None };

/// A directory of a real file system, and what is below it.
#[derive(Debug)]
pub struct RealDisk {
    root: sys_file::File,
    devices: Mutex<BTreeMap<DeviceNumber, Arc<Device>>>,
    purpose: Purpose,
}

/// What files are opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Reading and writing.
    Write,
    /// Reading: works on what may not be written to, and makes no lock file.
    Read,
}

/// A file system that holds part of the tree.
#[derive(Debug)]
struct Device {
    /// Open from its first use on: an error of writeback is reported once to each descriptor that
    /// was open when it happened, and a new one may never hear of it.
    dir: sys_file::File,
    /// The first failure: it is final, also for callers that waited meanwhile.
    failure: Mutex<Option<DiskError>>,
}

impl RealDisk {
    /// Takes an existing directory as the root.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is none; others of open(2).
    pub fn open(root: &Path) -> DiskResult<Self> {
        Self::open_for(root, Purpose::Write)
    }

    /// Takes a directory as the root, and makes it, and those above it, where they are not there.
    /// Their names are durable then.
    ///
    /// # Errors
    /// As [`RealDisk::open`], mkdir(2) and fsync(2).
    pub fn open_or_make(root: &Path) -> DiskResult<Self> {
        let failed = |error| error_of("create_dir", "", error);
        let missing: Vec<&Path> = root.ancestors().take_while(|path| !path.exists()).collect();
        for path in missing.into_iter().rev().filter(|path| !path.as_os_str().is_empty()) {
            dir::create_new(path).map_err(failed)?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            dir::sync_entries(parent.unwrap_or(Path::new("."))).map_err(failed)?;
        }
        Self::open(root)
    }

    /// As [`RealDisk::open`], with files opened for reading only. For [`crate::ReadOnly`], which
    /// refuses the calls that need no open file.
    pub(crate) fn open_to_read(root: &Path) -> DiskResult<Self> {
        Self::open_for(root, Purpose::Read)
    }

    fn open_for(root: &Path, purpose: Purpose) -> DiskResult<Self> {
        let failed = |error| error_of("open", "", error);
        let opened = sys_file::File::open_read(root).map_err(failed)?;
        let disk = Self { root: opened, devices: Mutex::default(), purpose };
        disk.device("open", "")?;
        // Also fails early for a root that is a file.
        dir::entries(disk.at("")).map_err(failed)?;
        Ok(disk)
    }

    fn at<'a>(&'a self, path: &'a PathStr) -> Place<'a> {
        Place::below(&self.root, Path::new(path))
    }

    fn device(&self, operation: &'static str, path: &PathStr) -> DiskResult<Arc<Device>> {
        let at = self.at(path);
        let failed = |error| error_of(operation, path, error);
        let number = fsinfo::device_number(at).map_err(failed)?;
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = devices.get(&number) {
            return Ok(Arc::clone(device));
        }
        let dir = sys_file::File::open_read(at).map_err(failed)?;
        let device = Arc::new(Device { dir, failure: Mutex::default() });
        devices.insert(number, Arc::clone(&device));
        Ok(device)
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        check("create", path)?;
        let failed = |error| error_of("create", path, error);
        // Opened buffered first: an exclusive creation with O_DIRECT that is refused for O_DIRECT
        // may leave the file behind.
        let file = sys_file::File::create_new(self.at(path), PLAIN).map_err(failed)?;
        let access = settle_access(&file, access).map_err(failed)?;
        Ok(Arc::new(RealFile::new(file, path, access)))
    }

    fn open(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        check("open", path)?;
        let failed = |error| error_of("open", path, error);
        let file = match self.purpose {
            Purpose::Write => sys_file::File::reopen(self.at(path), PLAIN),
            Purpose::Read => sys_file::File::reopen_read(self.at(path)),
        };
        let file = file.map_err(failed)?;
        let access = settle_access(&file, access).map_err(failed)?;
        Ok(Arc::new(RealFile::new(file, path, access)))
    }

    fn create_dir(&self, path: &PathStr) -> DiskResult<()> {
        check("create_dir", path)?;
        dir::create_new(self.at(path)).map_err(|error| error_of("create_dir", path, error))
    }

    fn list(&self, path: &PathStr) -> DiskResult<Vec<Entry>> {
        check_dir("list", path)?;
        let found = dir::entries(self.at(path)).map_err(|error| error_of("list", path, error))?;
        let named = found.into_iter().filter_map(|(name, is_dir)| {
            let name = name.into_string().ok()?;
            let reserved = path.is_empty() && name == LOCK_NAME;
            (is_component(&name) && !reserved).then_some(Entry { name, is_dir })
        });
        let mut entries: Vec<Entry> = named.collect();
        entries.sort();
        Ok(entries)
    }

    fn rename(&self, from: &PathStr, to: &PathStr) -> DiskResult<()> {
        check("rename", from)?;
        check("rename", to)?;
        dir::rename_file(self.at(from), self.at(to))
            .map_err(|error| error_of("rename", from, error))
    }

    fn remove(&self, path: &PathStr) -> DiskResult<()> {
        check("remove", path)?;
        dir::remove_file(self.at(path)).map_err(|error| error_of("remove", path, error))
    }

    fn sync_dir(&self, path: &PathStr) -> DiskResult<()> {
        check_dir("sync_dir", path)?;
        dir::sync_entries(self.at(path)).map_err(|error| error_of("sync_dir", path, error))
    }

    fn sync_all(&self, path: &PathStr) -> DiskResult<()> {
        check_dir("sync_all", path)?;
        let device = self.device("sync_all", path)?;
        // Held during the barrier: the kernel tells of a failure once, and who waits must hear it.
        let mut failure = device.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = &*failure {
            return Err(first.clone());
        }
        let answer = device.dir.syncfs().map_err(|error| error_of("sync_all", path, error));
        if let Err(error) = &answer {
            *failure = Some(error.clone());
        }
        answer
    }

    fn lock(&self, path: &PathStr) -> DiskResult<Box<dyn Lock>> {
        check_dir("lock", path)?;
        let is_root = path.is_empty();
        let path = if is_root { LOCK_NAME } else { path };
        let place = self.at(path);
        let taken = match self.purpose {
            Purpose::Write if is_root => dir::DirLock::try_take_file(place),
            // For writing: without that, some network file systems lock nothing.
            Purpose::Write => sys_file::File::reopen(place, PLAIN).and_then(dir::DirLock::try_hold),
            Purpose::Read => dir::DirLock::try_take(place),
        };
        let taken = match taken.map_err(|error| error_of("lock", path, error)) {
            // Without the file nobody holds it: who takes the lock to write makes the file first.
            Err(error)
                if is_root
                    && self.purpose == Purpose::Read
                    && error.kind == ErrorKind::NotFound =>
            {
                return Ok(Box::new(RealLock { _held: None }));
            }
            taken => taken?,
        };
        match taken {
            Some(held) => Ok(Box::new(RealLock { _held: Some(held) })),
            None => Err(DiskError::new(
                "lock",
                path,
                ErrorKind::Locked,
                "another process holds it; it is released when that process ends",
            )),
        }
    }

    fn free_bytes(&self) -> DiskResult<u64> {
        fsinfo::free_bytes(&self.root).map_err(|error| error_of("free_bytes", "", error))
    }
}

#[derive(Debug)]
struct RealLock {
    _held: Option<dir::DirLock>,
}

impl Lock for RealLock {}

/// Turns the page cache off if that was asked for and is to be had.
fn settle_access(file: &sys_file::File, wanted: Access) -> Result<Access, SysError> {
    if wanted == Access::Buffered {
        return Ok(Access::Buffered);
    }
    let suits = |align: u32| align > 0 && DIRECT_ALIGN.is_multiple_of(u64::from(align));
    // Kernels before 6.1 do not tell; the flag alone decides then.
    if let Some(align) = dio_align(file)?
        && !(suits(align.memory) && suits(align.offset))
    {
        return Ok(Access::Buffered);
    }
    match file.set_direct() {
        Ok(()) => Ok(Access::Direct),
        Err(error) if error.is_unsupported() => Ok(Access::Buffered),
        Err(error) => Err(error),
    }
}

/// Files that this process may have open, and that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    /// At most.
    pub most: u64,
    /// Now, as far as the system tells.
    pub now: u64,
}

impl OpenFiles {
    /// Asks the system.
    pub fn of_this_process() -> Self {
        let now = process::open_files().unwrap_or(0);
        Self { most: process::open_file_limit(), now }
    }
}

/// Most that is copied to a socket at a time, bytes.
const SEND_BYTES: u64 = 64 << 10;

/// Sends bytes to a socket by way of a buffer.
pub(crate) fn send_copy(
    file: &(impl File + ?Sized),
    socket: BorrowedFd<'_>,
    offset: u64,
    len: u64,
) -> DiskResult<Option<u64>> {
    let mut bytes = vec![0; usize::try_from(len.min(SEND_BYTES)).expect("64 KiB fit usize")];
    file.read_at(&mut bytes, offset)?;
    match sys_file::write_some(socket, &bytes) {
        Ok(sent) => Ok(Some(u64::try_from(sent).expect("usize fits u64"))),
        Err(error) if error.is_not_now() => Ok(None),
        Err(error) => Err(error_of("send", "a socket", error)),
    }
}

/// Says what a failed system call means to the caller.
pub(crate) fn error_of(operation: &'static str, path: &PathStr, error: SysError) -> DiskError {
    use std::io::ErrorKind as Std;
    let kind = match std::io::Error::from(error).kind() {
        _ if error.is_full() => ErrorKind::Full,
        _ if error.is_out_of_files() => ErrorKind::TooManyFiles,
        _ if error.is_bad_path() => ErrorKind::BadPath,
        _ if error.is_hung_up() => ErrorKind::HungUp,
        Std::NotFound => ErrorKind::NotFound,
        Std::AlreadyExists => ErrorKind::Exists,
        Std::Unsupported => ErrorKind::Unsupported,
        Std::PermissionDenied | Std::ReadOnlyFilesystem => ErrorKind::Denied,
        _ => ErrorKind::Io,
    };
    DiskError::new(operation, path, kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_root_or_one_that_is_a_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let absent = RealDisk::open(&dir.path().join("absent")).unwrap_err();
        assert_eq!(absent.kind, ErrorKind::NotFound);
        std::fs::write(dir.path().join("file"), b"").unwrap();
        assert_eq!(RealDisk::open(&dir.path().join("file")).unwrap_err().kind, ErrorKind::Io);
    }

    #[test]
    fn no_call_goes_through_a_link_in_the_last_component() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("target"), b"kept").unwrap();
        std::fs::create_dir(dir.path().join("elsewhere")).unwrap();
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(dir.path().join(to), dir.path().join(name)).unwrap();
        };
        link("target", "link");
        link("absent", "dangling");
        link("elsewhere", "lane");
        let disk = RealDisk::open(dir.path()).unwrap();
        assert_eq!(disk.open("link", Access::Buffered).unwrap_err().kind, ErrorKind::BadPath);
        for name in ["link", "dangling"] {
            let refused = disk.create(name, Access::Buffered).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Exists);
        }
        // Between components it is followed: a lane may lie on another device.
        disk.create("lane/a", Access::Buffered).unwrap();
        assert!(disk.list("").unwrap().contains(&Entry { name: "lane".into(), is_dir: true }));
        assert_eq!(std::fs::read(dir.path().join("target")).unwrap(), b"kept");
    }

    #[test]
    fn a_root_that_is_moved_stays_the_root_and_what_takes_its_name_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (name, moved) = (dir.path().join("store"), dir.path().join("moved"));
        std::fs::create_dir(&name).unwrap();
        let disk = RealDisk::open(&name).unwrap();
        let held = disk.lock("").unwrap();
        disk.create_dir("lane").unwrap();
        disk.create("lane/a", Access::Buffered).unwrap().write_at(b"first", 0).unwrap();
        let renamed = std::process::Command::new("mv").args([&name, &moved]).status().unwrap();
        assert!(renamed.success());
        std::fs::create_dir(&name).unwrap();

        let another = RealDisk::open(&name).unwrap();
        let _held = another.lock("").unwrap();
        another.create_dir("lane").unwrap();
        another.create("lane/a", Access::Buffered).unwrap().write_at(b"other", 0).unwrap();
        let mut bytes = [0; 5];
        disk.open("lane/a", Access::Buffered).unwrap().read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"first");
        disk.create("lane/b", Access::Buffered).unwrap();
        disk.rename("lane/b", "lane/c").unwrap();
        disk.create("lane/d", Access::Buffered).unwrap();
        disk.remove("lane/d").unwrap();
        disk.create_dir("second").unwrap();
        for path in ["", "lane"] {
            disk.sync_dir(path).unwrap();
            disk.sync_all(path).unwrap();
        }
        assert!(disk.free_bytes().unwrap() > 0);
        let names = |disk: &RealDisk, path| -> Vec<String> {
            disk.list(path).unwrap().into_iter().map(|entry| entry.name).collect()
        };
        assert_eq!(
            (names(&disk, ""), names(&disk, "lane")),
            (vec!["lane".to_owned(), "second".to_owned()], vec!["a".to_owned(), "c".to_owned()],)
        );
        assert_eq!(
            (names(&another, ""), names(&another, "lane")),
            (vec!["lane".to_owned()], vec!["a".to_owned()],)
        );
        // The lock goes with the directory, whatever that is called.
        let refused = RealDisk::open(&moved).unwrap().lock("").unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Locked);
        drop(held);
        assert!(RealDisk::open(&moved).unwrap().lock("").is_ok());
    }

    #[test]
    fn names_no_call_can_use_and_the_lock_are_not_listed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["lost+found", "a b", "plain"] {
            std::fs::write(dir.path().join(name), b"").unwrap();
        }
        let disk = RealDisk::open(dir.path()).unwrap();
        let _held = disk.lock("").unwrap();
        assert_eq!(disk.list("").unwrap(), [Entry { name: "plain".into(), is_dir: false }]);
    }

    #[test]
    fn a_failed_sync_of_a_device_is_final() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(dir.path()).unwrap();
        disk.sync_all("").unwrap();
        let device = disk.device("sync_all", "").unwrap();
        let first = DiskError::new("sync_all", "", ErrorKind::Io, "syncfs: the device failed");
        *device.failure.lock().unwrap() = Some(first.clone());
        assert_eq!(disk.sync_all(""), Err(first));
    }
}
