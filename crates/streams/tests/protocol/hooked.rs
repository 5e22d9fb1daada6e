//! A simulated disk on which something happens while a file of the home is read.

use std::fmt;
use std::sync::{Arc, Mutex};

use highwater_disk::sim::SimDisk;
use highwater_disk::{Access, Disk, DiskResult, Entry, File, Lock, PathStr};

type Deed = Box<dyn FnOnce() + Send>;

/// What happens at the next read of the home, once.
#[derive(Clone, Default)]
pub struct Meanwhile(Arc<Mutex<Option<Deed>>>);

impl Meanwhile {
    pub fn set(&self, deed: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(deed));
    }

    /// Whether it has happened.
    pub fn is_done(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }

    fn happen(&self) {
        // It may read itself: nobody holds the lock then.
        let deed = self.0.lock().unwrap().take();
        if let Some(deed) = deed {
            deed();
        }
    }
}

impl fmt::Debug for Meanwhile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Meanwhile")
    }
}

#[derive(Debug)]
pub struct Hooked {
    pub inner: SimDisk,
    pub meanwhile: Meanwhile,
}

#[derive(Debug)]
struct HookedFile {
    inner: Arc<dyn File>,
    meanwhile: Meanwhile,
}

impl Hooked {
    fn wrap(&self, path: &str, inner: Arc<dyn File>) -> Arc<dyn File> {
        if !path.starts_with("streams/") {
            return inner;
        }
        Arc::new(HookedFile { inner, meanwhile: self.meanwhile.clone() })
    }
}

impl Disk for Hooked {
    fn create(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        Ok(self.wrap(path, self.inner.create(path, access)?))
    }
    fn open(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        Ok(self.wrap(path, self.inner.open(path, access)?))
    }
    fn create_dir(&self, path: &PathStr) -> DiskResult<()> {
        self.inner.create_dir(path)
    }
    fn list(&self, path: &PathStr) -> DiskResult<Vec<Entry>> {
        self.inner.list(path)
    }
    fn rename(&self, from: &PathStr, to: &PathStr) -> DiskResult<()> {
        self.inner.rename(from, to)
    }
    fn remove(&self, path: &PathStr) -> DiskResult<()> {
        self.inner.remove(path)
    }
    fn sync_dir(&self, path: &PathStr) -> DiskResult<()> {
        self.inner.sync_dir(path)
    }
    fn sync_all(&self, path: &PathStr) -> DiskResult<()> {
        self.inner.sync_all(path)
    }
    fn lock(&self, path: &PathStr) -> DiskResult<Box<dyn Lock>> {
        self.inner.lock(path)
    }
    fn free_bytes(&self) -> DiskResult<u64> {
        self.inner.free_bytes()
    }
}

impl File for HookedFile {
    fn access(&self) -> Access {
        self.inner.access()
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.inner.write_at(bytes, offset)
    }
    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.inner.write_durable_at(bytes, offset)
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> DiskResult<()> {
        self.meanwhile.happen();
        self.inner.read_at(bytes, offset)
    }
    fn sync_data(&self) -> DiskResult<()> {
        self.inner.sync_data()
    }
    fn allocate(&self, len: u64) -> DiskResult<()> {
        self.inner.allocate(len)
    }
    fn len(&self) -> DiskResult<u64> {
        self.inner.len()
    }
    fn truncate(&self, len: u64) -> DiskResult<()> {
        self.inner.truncate(len)
    }
}
