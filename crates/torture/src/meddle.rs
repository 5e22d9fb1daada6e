//! A disk around another that watches what the log does with it, and on request skips barriers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use highwater_disk::{Access, Disk, DiskResult, Entry, File, Lock, PathStr};

const HOME: &str = "streams/";
const LOG: &str = "wal/";

/// Which barriers are only pretended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Barriers {
    /// None.
    Honest,
    /// Those of the log's segments.
    LogSkipped,
    /// Those of the home.
    HomeSkipped,
}

/// The disk.
#[derive(Debug, Clone)]
pub(crate) struct Meddler {
    inner: Arc<dyn Disk>,
    barriers: Barriers,
    seen: Arc<Seen>,
}

/// What was seen in one life.
#[derive(Debug, Default)]
struct Seen {
    failed_lanes: Mutex<BTreeSet<u16>>,
    home_files: AtomicUsize,
    most_home_files: AtomicUsize,
}

impl Meddler {
    /// Stands around a disk.
    pub(crate) fn new(inner: impl Disk + 'static, barriers: Barriers) -> Self {
        Self { inner: Arc::new(inner), barriers, seen: Arc::default() }
    }

    /// Whether a barrier of a lane's segments has failed.
    pub(crate) fn barrier_failed(&self, lane: u16) -> bool {
        self.failed_lanes().contains(&lane)
    }

    /// Most files of the home that were open at once.
    pub(crate) fn most_home_files(&self) -> usize {
        self.seen.most_home_files.load(Ordering::Relaxed)
    }

    fn failed_lanes(&self) -> std::sync::MutexGuard<'_, BTreeSet<u16>> {
        self.seen.failed_lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watched(&self, path: &PathStr, file: Arc<dyn File>, age: Age) -> Arc<dyn File> {
        if path.starts_with(HOME) {
            let open = self.seen.home_files.fetch_add(1, Ordering::Relaxed) + 1;
            self.seen.most_home_files.fetch_max(open, Ordering::Relaxed);
        }
        let in_use = AtomicBool::new(age == Age::Old);
        Arc::new(Watched { disk: self.clone(), path: path.to_owned(), file, in_use })
    }

    fn skips(&self, path: &PathStr) -> bool {
        match self.barriers {
            Barriers::Honest => false,
            Barriers::LogSkipped => path.starts_with(LOG),
            Barriers::HomeSkipped => path.starts_with(HOME),
        }
    }
}

impl Disk for Meddler {
    fn create(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        Ok(self.watched(path, self.inner.create(path, access)?, Age::New))
    }

    fn open(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        Ok(self.watched(path, self.inner.open(path, access)?, Age::Old))
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
        if self.skips(path) { Ok(()) } else { self.inner.sync_all(path) }
    }

    fn lock(&self) -> DiskResult<Box<dyn Lock>> {
        self.inner.lock()
    }

    fn free_bytes(&self) -> DiskResult<u64> {
        self.inner.free_bytes()
    }
}

/// Whether a file was made just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    New,
    Old,
}

/// An open file of it.
#[derive(Debug)]
struct Watched {
    disk: Meddler,
    path: String,
    file: Arc<dyn File>,
    /// Whether it has been made durable once: before that it is part of no log.
    in_use: AtomicBool,
}

impl Watched {
    /// Notes how a barrier ended: whether its file is in use, or its lane has failed.
    fn note_barrier(&self, answer: &DiskResult<()>) {
        let lane = self.path.strip_prefix(LOG).and_then(|rest| rest.split('/').next());
        let was_in_use = self.in_use.fetch_or(answer.is_ok(), Ordering::Relaxed);
        if let (Err(_), true, Some(Ok(lane))) = (answer, was_in_use, lane.map(str::parse)) {
            self.disk.failed_lanes().insert(lane);
        }
    }
}

impl File for Watched {
    fn access(&self) -> Access {
        self.file.access()
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.file.write_at(bytes, offset)
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        if self.disk.skips(&self.path) {
            return self.file.write_at(bytes, offset);
        }
        let written = self.file.write_durable_at(bytes, offset);
        self.note_barrier(&written);
        written
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> DiskResult<()> {
        self.file.read_at(bytes, offset)
    }

    fn sync_data(&self) -> DiskResult<()> {
        if self.disk.skips(&self.path) {
            return Ok(());
        }
        let synced = self.file.sync_data();
        self.note_barrier(&synced);
        synced
    }

    fn allocate(&self, len: u64) -> DiskResult<()> {
        self.file.allocate(len)
    }

    fn len(&self) -> DiskResult<u64> {
        self.file.len()
    }

    fn truncate(&self, len: u64) -> DiskResult<()> {
        self.file.truncate(len)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.path.starts_with(HOME) {
            self.disk.seen.home_files.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
