//! A simulated disk that lets a test do something at its calls.

use std::fmt;
use std::sync::Arc;

use highwater_disk::sim::{OperationKind, SimDisk};
use highwater_disk::{Access, Disk, DiskResult, Entry, File, Lock, PathStr};

/// When it is called: before a call has its effect, or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Before,
    After,
}

type Hook = dyn Fn(Moment, OperationKind, &str) + Send + Sync;

/// A disk whose calls that change something are told before and after.
#[derive(Clone)]
pub struct Hooked {
    inner: SimDisk,
    hook: Arc<Hook>,
}

struct HookedFile {
    inner: Arc<dyn File>,
    path: String,
    hook: Arc<Hook>,
}

impl Hooked {
    pub fn new(
        inner: &SimDisk,
        hook: impl Fn(Moment, OperationKind, &str) + Send + Sync + 'static,
    ) -> Self {
        Self { inner: inner.clone(), hook: Arc::new(hook) }
    }

    fn wrap(&self, path: &str, file: Arc<dyn File>) -> Arc<dyn File> {
        let (path, hook) = (path.to_owned(), Arc::clone(&self.hook));
        Arc::new(HookedFile { inner: file, path, hook })
    }

    fn around<T>(&self, kind: OperationKind, path: &str, call: impl FnOnce() -> T) -> T {
        around(&self.hook, kind, path, call)
    }
}

fn around<T>(hook: &Arc<Hook>, kind: OperationKind, path: &str, call: impl FnOnce() -> T) -> T {
    hook(Moment::Before, kind, path);
    let done = call();
    hook(Moment::After, kind, path);
    done
}

impl fmt::Debug for Hooked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}

impl Disk for Hooked {
    fn create(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        let create = || self.inner.create(path, access);
        Ok(self.wrap(path, self.around(OperationKind::Create, path, create)?))
    }
    fn open(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        Ok(self.wrap(path, self.inner.open(path, access)?))
    }
    fn create_dir(&self, path: &PathStr) -> DiskResult<()> {
        self.around(OperationKind::CreateDir, path, || self.inner.create_dir(path))
    }
    fn list(&self, path: &PathStr) -> DiskResult<Vec<Entry>> {
        self.inner.list(path)
    }
    fn rename(&self, from: &PathStr, to: &PathStr) -> DiskResult<()> {
        self.around(OperationKind::Rename, from, || self.inner.rename(from, to))
    }
    fn remove(&self, path: &PathStr) -> DiskResult<()> {
        self.around(OperationKind::Remove, path, || self.inner.remove(path))
    }
    fn sync_dir(&self, path: &PathStr) -> DiskResult<()> {
        self.around(OperationKind::SyncDir, path, || self.inner.sync_dir(path))
    }
    fn sync_all(&self, path: &PathStr) -> DiskResult<()> {
        self.around(OperationKind::SyncAll, path, || self.inner.sync_all(path))
    }
    fn lock(&self, path: &PathStr) -> DiskResult<Box<dyn Lock>> {
        self.inner.lock(path)
    }
    fn free_bytes(&self) -> DiskResult<u64> {
        self.inner.free_bytes()
    }
}

impl HookedFile {
    fn around<T>(&self, kind: OperationKind, call: impl FnOnce() -> T) -> T {
        around(&self.hook, kind, &self.path, call)
    }
}

impl File for HookedFile {
    fn access(&self) -> Access {
        self.inner.access()
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.around(OperationKind::WriteAt, || self.inner.write_at(bytes, offset))
    }
    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.around(OperationKind::WriteDurableAt, || self.inner.write_durable_at(bytes, offset))
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> DiskResult<()> {
        self.inner.read_at(bytes, offset)
    }
    fn sync_data(&self) -> DiskResult<()> {
        self.around(OperationKind::SyncData, || self.inner.sync_data())
    }
    fn allocate(&self, len: u64) -> DiskResult<()> {
        self.around(OperationKind::Allocate, || self.inner.allocate(len))
    }
    fn len(&self) -> DiskResult<u64> {
        self.inner.len()
    }
    fn truncate(&self, len: u64) -> DiskResult<()> {
        self.around(OperationKind::Truncate, || self.inner.truncate(len))
    }
}
