//! A disk that reports what goes wrong on it, before the log hears of it: so whatever the log
//! acknowledges afterwards, it acknowledges in spite of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use highwater_disk::{Access, Disk, DiskError, DiskResult, Entry, ErrorKind, File, Lock, PathStr};

use super::lines::{Report, Reporter};

/// The disk.
#[derive(Debug, Clone)]
pub(super) struct Witness {
    inner: Arc<dyn Disk>,
    reporter: Reporter,
    /// Kind of failure, operation and place of what was told.
    told: Arc<Mutex<BTreeSet<[String; 3]>>>,
}

impl Witness {
    pub(super) fn new(inner: impl Disk + 'static, reporter: Reporter) -> Self {
        Self { inner: Arc::new(inner), reporter, told: Arc::default() }
    }

    /// Passes an answer on, and tells of it when it is a failure.
    fn told<T>(&self, answer: DiskResult<T>) -> DiskResult<T> {
        answer.inspect_err(|error| self.tell(error))
    }

    fn tell(&self, error: &DiskError) {
        // These are answers, not failures.
        use ErrorKind::{EndOfFile, Exists, NotFound, Unsupported};
        if [NotFound, Exists, EndOfFile, Unsupported].contains(&error.kind) {
            return;
        }
        let place = error.path.split('/').next().unwrap_or_default().to_owned();
        let kind = format!("{:?}", error.kind);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let operation = error.operation.to_owned();
        if told.insert([kind.clone(), operation.clone(), place.clone()]) {
            self.say(&Report::Trouble { kind, operation, place });
        }
    }

    fn say(&self, report: &Report) {
        // Where nobody listens, the workers notice and end.
        self.reporter.say(report).ok();
    }

    fn watched(&self, path: &PathStr, file: Arc<dyn File>, in_use: bool) -> Arc<dyn File> {
        let lane = path.strip_prefix("wal/").and_then(|rest| rest.split('/').next());
        let lane = lane.and_then(|lane| lane.parse().ok());
        let (in_use, has_frames) = (AtomicBool::new(in_use), AtomicBool::new(false));
        Arc::new(Watched { disk: self.clone(), file, lane, in_use, has_frames })
    }
}

impl Disk for Witness {
    fn create(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        Ok(self.watched(path, self.told(self.inner.create(path, access))?, false))
    }

    fn open(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        Ok(self.watched(path, self.told(self.inner.open(path, access))?, true))
    }

    fn create_dir(&self, path: &PathStr) -> DiskResult<()> {
        self.told(self.inner.create_dir(path))
    }

    fn list(&self, path: &PathStr) -> DiskResult<Vec<Entry>> {
        self.told(self.inner.list(path))
    }

    fn rename(&self, from: &PathStr, to: &PathStr) -> DiskResult<()> {
        self.told(self.inner.rename(from, to))
    }

    fn remove(&self, path: &PathStr) -> DiskResult<()> {
        self.told(self.inner.remove(path))
    }

    fn sync_dir(&self, path: &PathStr) -> DiskResult<()> {
        self.told(self.inner.sync_dir(path))
    }

    fn sync_all(&self, path: &PathStr) -> DiskResult<()> {
        self.told(self.inner.sync_all(path))
    }

    fn lock(&self, path: &PathStr) -> DiskResult<Box<dyn Lock>> {
        self.told(self.inner.lock(path))
    }

    fn free_bytes(&self) -> DiskResult<u64> {
        self.told(self.inner.free_bytes())
    }
}

/// An open file of it.
#[derive(Debug)]
struct Watched {
    disk: Witness,
    file: Arc<dyn File>,
    /// Of whose log it may be a segment.
    lane: Option<u16>,
    /// Whether it has been made durable once: before that it is part of no log.
    in_use: AtomicBool,
    /// Whether it has frames that no barrier has covered. A header that fails while a file is made
    /// ready ahead of need takes nothing with it that is in use.
    has_frames: AtomicBool,
}

impl Watched {
    /// Notes a write of frames: they are behind the header, in a file that is in use.
    fn note_frames(&self, offset: u64) {
        let is_of_frames = offset > 0 && self.in_use.load(Ordering::Acquire);
        self.has_frames.fetch_or(is_of_frames, Ordering::AcqRel);
    }

    /// After this, nothing that is asked of the lane is acknowledged (I10).
    fn fatal(&self, answer: DiskResult<()>) -> DiskResult<()> {
        if let (Err(_), Some(lane), true) =
            (&answer, self.lane, self.has_frames.load(Ordering::Acquire))
        {
            self.disk.say(&Report::LaneFailed { lane });
        }
        self.disk.told(answer)
    }
}

impl File for Watched {
    fn access(&self) -> Access {
        self.file.access()
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.note_frames(offset);
        self.fatal(self.file.write_at(bytes, offset))
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.note_frames(offset);
        self.fatal(self.file.write_durable_at(bytes, offset))
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> DiskResult<()> {
        self.disk.told(self.file.read_at(bytes, offset))
    }

    fn sync_data(&self) -> DiskResult<()> {
        let synced = self.fatal(self.file.sync_data());
        self.in_use.fetch_or(synced.is_ok(), Ordering::AcqRel);
        self.has_frames.fetch_and(synced.is_err(), Ordering::AcqRel);
        synced
    }

    fn allocate(&self, len: u64) -> DiskResult<()> {
        self.disk.told(self.file.allocate(len))
    }

    fn len(&self) -> DiskResult<u64> {
        self.disk.told(self.file.len())
    }

    fn truncate(&self, len: u64) -> DiskResult<()> {
        self.disk.told(self.file.truncate(len))
    }
}
