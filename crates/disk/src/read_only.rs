//! A disk that is only read: whatever would change bytes, lengths, names or what is durable is
//! refused with [`ErrorKind::Denied`].
//!
//! The lock is still taken, so that nobody writes meanwhile; on a real directory without one it is
//! not made. Reading may move times of access, as any reading does.

use std::path::Path;
use std::sync::Arc;

use crate::real::RealDisk;
use crate::{Access, Disk, DiskError, DiskResult, Entry, ErrorKind, File, Lock, PathStr};

/// A disk that is only read.
#[derive(Debug, Clone)]
pub struct ReadOnly {
    disk: Arc<dyn Disk>,
}

impl ReadOnly {
    /// Takes a directory of a real file system, which may be one that cannot be written to.
    ///
    /// # Errors
    /// As [`RealDisk::open`].
    pub fn open(root: &Path) -> DiskResult<Self> {
        Ok(Self::over(Arc::new(RealDisk::open_to_read(root)?)))
    }

    /// Lets a disk be read through this, and nothing else.
    pub fn over(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }
}

fn denied<T>(operation: &'static str, path: &str) -> DiskResult<T> {
    Err(DiskError::new(operation, path, ErrorKind::Denied, "the disk is open for reading only"))
}

impl Disk for ReadOnly {
    fn create(&self, path: &PathStr, _access: Access) -> DiskResult<Arc<dyn File>> {
        denied("create", path)
    }

    fn open(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        let file = self.disk.open(path, access)?;
        Ok(Arc::new(ReadOnlyFile { file, path: path.to_owned() }))
    }

    fn create_dir(&self, path: &PathStr) -> DiskResult<()> {
        denied("create_dir", path)
    }

    fn list(&self, path: &PathStr) -> DiskResult<Vec<Entry>> {
        self.disk.list(path)
    }

    fn rename(&self, from: &PathStr, _to: &PathStr) -> DiskResult<()> {
        denied("rename", from)
    }

    fn remove(&self, path: &PathStr) -> DiskResult<()> {
        denied("remove", path)
    }

    fn sync_dir(&self, path: &PathStr) -> DiskResult<()> {
        denied("sync_dir", path)
    }

    fn sync_all(&self, path: &PathStr) -> DiskResult<()> {
        denied("sync_all", path)
    }

    fn lock(&self, path: &PathStr) -> DiskResult<Box<dyn Lock>> {
        self.disk.lock(path)
    }

    fn free_bytes(&self) -> DiskResult<u64> {
        self.disk.free_bytes()
    }
}

#[derive(Debug)]
struct ReadOnlyFile {
    file: Arc<dyn File>,
    path: String,
}

impl File for ReadOnlyFile {
    fn access(&self) -> Access {
        self.file.access()
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> DiskResult<()> {
        denied("write_at", &self.path)
    }

    fn write_durable_at(&self, _bytes: &[u8], _offset: u64) -> DiskResult<()> {
        denied("write_durable_at", &self.path)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> DiskResult<()> {
        self.file.read_at(bytes, offset)
    }

    fn sync_data(&self) -> DiskResult<()> {
        denied("sync_data", &self.path)
    }

    fn allocate(&self, _len: u64) -> DiskResult<()> {
        denied("allocate", &self.path)
    }

    fn len(&self) -> DiskResult<u64> {
        self.file.len()
    }

    fn truncate(&self, _len: u64) -> DiskResult<()> {
        denied("truncate", &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimDisk, SimOptions};

    fn assert_only_read(disk: &ReadOnly, writer: &dyn Disk) {
        let file = disk.open("dir/a", Access::Buffered).unwrap();
        let mut bytes = [0; 4];
        file.read_at(&mut bytes, 0).unwrap();
        assert_eq!((&bytes, file.len().unwrap()), (b"kept", 4));
        let refused = [
            disk.create("b", Access::Buffered).map(drop),
            disk.create_dir("d"),
            disk.rename("dir/a", "b"),
            disk.remove("dir/a"),
            disk.sync_dir(""),
            disk.sync_all(""),
            file.write_at(b"x", 0),
            file.write_durable_at(b"x", 0),
            file.sync_data(),
            file.allocate(9),
            file.truncate(0),
        ];
        for answer in refused {
            assert_eq!(answer.unwrap_err().kind, ErrorKind::Denied);
        }
        assert_eq!(writer.list("dir").unwrap().len(), 1);
        assert_eq!(disk.list("").unwrap().len(), 1);
    }

    fn fill(disk: &dyn Disk) {
        disk.create_dir("dir").unwrap();
        disk.create("dir/a", Access::Buffered).unwrap().write_at(b"kept", 0).unwrap();
    }

    #[test]
    fn reading_passes_and_everything_else_is_refused() {
        let sim = SimDisk::new(SimOptions::seeded(1));
        fill(&sim);
        let operations = sim.operations();
        assert_only_read(&ReadOnly::over(Arc::new(sim.clone())), &sim);
        assert_eq!(sim.operations(), operations);
        let dir = tempfile::tempdir().unwrap();
        let real = RealDisk::open(dir.path()).unwrap();
        fill(&real);
        assert_only_read(&ReadOnly::open(dir.path()).unwrap(), &real);
    }

    #[test]
    fn the_lock_is_respected_and_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let reader = ReadOnly::open(dir.path()).unwrap();
        drop(reader.lock("").unwrap());
        assert!(!dir.path().join("LOCK").exists());
        let writer = RealDisk::open(dir.path()).unwrap();
        let held = writer.lock("").unwrap();
        assert_eq!(reader.lock("").unwrap_err().kind, ErrorKind::Locked);
        drop(held);
        let held = reader.lock("").unwrap();
        assert_eq!(writer.lock("").unwrap_err().kind, ErrorKind::Locked);
        drop(held);
        writer.lock("").unwrap();
    }

    #[test]
    fn files_that_may_not_be_written_to_can_be_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, b"kept").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
        let reader = ReadOnly::open(dir.path()).unwrap();
        let mut bytes = [0; 4];
        reader.open("a", Access::Buffered).unwrap().read_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"kept");
    }
}
