//! A disk around another that watches what the log does with it, stops threads that are on a leash,
//! and on request skips barriers or loses bytes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use highwater_disk::sim::{OperationKind, SimDisk};
use highwater_disk::{Access, Disk, DiskResult, Entry, ErrorKind, File, Lock, PathStr};

use crate::pause::{self, Held};

const HOME: &str = "streams/";
const LOG: &str = "wal/";
const SEGMENT: &str = ".seg";
/// Bytes of a region of the home: what one checksum covers.
const REGION_BYTES: u64 = 64 << 10;

/// What the disk only pretends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pretence {
    /// Nothing.
    Nothing,
    /// Barriers of the log's segments.
    LogBarriers,
    /// Barriers of the home.
    HomeBarriers,
    /// The last byte of what fills a region of the home.
    HomeTails,
}

/// A crash near a call that is rare and delicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ambush {
    /// The call,
    pub(crate) kind: OperationKind,
    /// on a path that begins so.
    pub(crate) path: &'static str,
    /// At which of them, counted from one,
    pub(crate) nth: u64,
    /// and how many calls later; right behind it at 0.
    pub(crate) later: u64,
}

/// The disk.
#[derive(Debug, Clone)]
pub(crate) struct Meddler {
    inner: Arc<dyn Disk>,
    pretence: Pretence,
    seen: Arc<Seen>,
}

/// What was seen in one life.
#[derive(Debug, Default)]
struct Seen {
    /// Lanes of the log of which a barrier failed.
    failed_lanes: Mutex<BTreeSet<u16>>,
    /// Lanes of the log of which any call failed for good.
    broken_lanes: Mutex<BTreeSet<u16>>,
    /// Whether a call failed for good that moves bytes home, or makes tables durable.
    upkeep_failed: AtomicBool,
    /// Whether a read failed.
    read_failed: AtomicBool,
    /// Whether there was no space for something.
    was_full: AtomicBool,
    ambush: Mutex<Option<(Ambush, SimDisk)>>,
    home_files: AtomicUsize,
    most_home_files: AtomicUsize,
}

impl Meddler {
    /// Stands around a disk.
    pub(crate) fn new(inner: impl Disk + 'static, pretence: Pretence) -> Self {
        Self { inner: Arc::new(inner), pretence, seen: Arc::default() }
    }

    /// Has the machine crash near a call on this disk.
    pub(crate) fn lie_in_wait(&self, ambush: Ambush, sim: &SimDisk) {
        let mut waiting = self.seen.ambush.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting = Some((ambush, sim.clone()));
    }

    /// A call was made.
    fn passed(&self, kind: OperationKind, path: &PathStr) {
        let mut waiting = self.seen.ambush.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((ambush, sim)) = &mut *waiting else { return };
        if ambush.kind != kind || !path.starts_with(ambush.path) {
            return;
        }
        ambush.nth -= 1;
        if ambush.nth == 0 {
            sim.crash_after_operations(ambush.later);
            *waiting = None;
        }
    }

    /// Whether a barrier of a lane's segments has failed.
    pub(crate) fn barrier_failed(&self, lane: u16) -> bool {
        self.failed_lanes().contains(&lane)
    }

    /// Whether a call on a lane's segments has failed for good.
    pub(crate) fn log_failed(&self, lane: u16) -> bool {
        self.broken_lanes().contains(&lane)
    }

    fn broken_lanes(&self) -> std::sync::MutexGuard<'_, BTreeSet<u16>> {
        self.seen.broken_lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call on anything else has failed for good.
    pub(crate) fn upkeep_failed(&self) -> bool {
        self.seen.upkeep_failed.load(Ordering::Relaxed)
    }

    /// Whether any call has failed for good, a read perhaps.
    pub(crate) fn has_failed(&self) -> bool {
        let any_lane = || !self.broken_lanes().is_empty();
        self.upkeep_failed() || self.seen.read_failed.load(Ordering::Relaxed) || any_lane()
    }

    /// Whether there was no space for something.
    pub(crate) fn was_full(&self) -> bool {
        self.seen.was_full.load(Ordering::Relaxed)
    }

    /// Notes a failure, unless it passes or is none.
    fn told<T>(&self, path: &PathStr, answer: DiskResult<T>) -> DiskResult<T> {
        self.told_of(path, Growth::Needed, answer)
    }

    fn told_of<T>(&self, path: &PathStr, growth: Growth, answer: DiskResult<T>) -> DiskResult<T> {
        let Err(error) = &answer else { return answer };
        if error.kind == ErrorKind::Full {
            self.seen.was_full.store(true, Ordering::Relaxed);
        }
        let passes = match error.kind {
            ErrorKind::NotFound | ErrorKind::Exists | ErrorKind::Locked => true,
            // Where nothing has to grow, there is space.
            ErrorKind::Full => {
                !error.is_barrier() && (growth == Growth::Needed || !is_in_place(path))
            }
            _ => false,
        };
        if passes {
            return answer;
        }
        match lane_of(path) {
            Some(lane) => {
                self.broken_lanes().insert(lane);
            }
            None => self.seen.upkeep_failed.store(true, Ordering::Relaxed),
        }
        answer
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
        let (in_use, framed) = (AtomicBool::new(age == Age::Old), AtomicBool::new(false));
        Arc::new(Watched { disk: self.clone(), path: path.to_owned(), file, in_use, framed })
    }

    fn skips(&self, path: &PathStr) -> bool {
        match self.pretence {
            Pretence::Nothing | Pretence::HomeTails => false,
            Pretence::LogBarriers => path.starts_with(LOG),
            Pretence::HomeBarriers => path.starts_with(HOME),
        }
    }
}

impl Disk for Meddler {
    fn create(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        pause::at(path, held(path));
        let created = self.told(path, self.inner.create(path, access))?;
        self.passed(OperationKind::Create, path);
        Ok(self.watched(path, created, Age::New))
    }

    fn open(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        pause::at(path, held(path));
        let opened = self.told(path, self.inner.open(path, access))?;
        Ok(self.watched(path, opened, Age::Old))
    }

    fn create_dir(&self, path: &PathStr) -> DiskResult<()> {
        self.told(path, self.inner.create_dir(path))
    }

    fn list(&self, path: &PathStr) -> DiskResult<Vec<Entry>> {
        pause::at(path, held(path));
        self.told(path, self.inner.list(path))
    }

    fn rename(&self, from: &PathStr, to: &PathStr) -> DiskResult<()> {
        pause::at(from, held(from));
        self.told(from, self.inner.rename(from, to))
    }

    fn remove(&self, path: &PathStr) -> DiskResult<()> {
        pause::at(path, held(path));
        let removed = self.told(path, self.inner.remove(path));
        self.passed(OperationKind::Remove, path);
        removed
    }

    fn sync_dir(&self, path: &PathStr) -> DiskResult<()> {
        pause::at(path, held(path));
        let synced = self.told(path, self.inner.sync_dir(path));
        self.passed(OperationKind::SyncDir, path);
        synced
    }

    fn sync_all(&self, path: &PathStr) -> DiskResult<()> {
        pause::at(path, held(path));
        let skipped = self.skips(path);
        let synced = if skipped { Ok(()) } else { self.inner.sync_all(path) };
        self.passed(OperationKind::SyncAll, path);
        self.told(path, synced)
    }

    fn lock(&self, path: &PathStr) -> DiskResult<Box<dyn Lock>> {
        self.inner.lock(path)
    }

    fn free_bytes(&self) -> DiskResult<u64> {
        self.inner.free_bytes()
    }
}

/// The lane of the log that a path is of: a segment's, or that of the directory of them.
fn lane_of(path: &PathStr) -> Option<u16> {
    let inside = path.strip_prefix(LOG)?;
    let (lane, file) = inside.split_once('/').unwrap_or((inside, SEGMENT));
    file.ends_with(SEGMENT).then(|| lane.parse().ok())?
}

/// What may be held when a call on this path is made, but for frames and their barriers.
fn held(path: &PathStr) -> Held {
    // A lane's lock, while its next segment is prepared.
    if path.starts_with(LOG) { Held::Lock } else { Held::Nothing }
}

/// Whether a write may need space that the file does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    Needed,
    None,
}

/// Whether a file is only ever written where it has space, once it is made.
fn is_in_place(path: &PathStr) -> bool {
    path.starts_with(LOG) || path == "super"
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
    /// Whether what was written last were a segment's frames.
    framed: AtomicBool,
}

impl Watched {
    /// What may be held when frames are written, or their barrier asked for.
    fn held(&self) -> Held {
        let framed = self.framed.load(Ordering::Relaxed);
        if framed { Held::Nothing } else { held(&self.path) }
    }

    /// Stops before a write.
    fn pause(&self, offset: u64) {
        self.framed.store(self.path.starts_with(LOG) && offset > 0, Ordering::Relaxed);
        pause::at(&self.path, self.held());
    }

    /// Bytes of a write that are really written.
    fn kept(&self, bytes: &[u8], offset: u64) -> usize {
        let end = offset + u64::try_from(bytes.len()).expect("usize fits u64");
        // Regions begin behind a block.
        let is_lost = self.disk.pretence == Pretence::HomeTails
            && self.path.starts_with(HOME)
            && bytes.len() > 1
            && end > REGION_BYTES
            && end % REGION_BYTES == 4096;
        bytes.len() - usize::from(is_lost)
    }

    /// Notes how a barrier ended: whether its file is in use, or its lane has failed.
    fn note_barrier(&self, answer: &DiskResult<()>) {
        let was_in_use = self.in_use.fetch_or(answer.is_ok(), Ordering::Relaxed);
        if let (Err(_), true, Some(lane)) = (answer, was_in_use, lane_of(&self.path)) {
            self.disk.failed_lanes().insert(lane);
        }
    }
}

impl File for Watched {
    fn access(&self) -> Access {
        self.file.access()
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.pause(offset);
        let is_old = self.in_use.load(Ordering::Relaxed);
        let growth = if is_old { Growth::None } else { Growth::Needed };
        let kept = self.kept(bytes, offset);
        let written = self.file.write_at(&bytes[..kept], offset);
        self.disk.passed(OperationKind::WriteAt, &self.path);
        self.disk.told_of(&self.path, growth, written)
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        self.pause(offset);
        if self.disk.skips(&self.path) {
            return self.file.write_at(bytes, offset);
        }
        let written = self.file.write_durable_at(bytes, offset);
        let written = self.disk.told(&self.path, written);
        self.note_barrier(&written);
        // It is durable, and nobody has been told.
        pause::at(&self.path, self.held());
        written
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> DiskResult<()> {
        pause::at(&self.path, held(&self.path));
        let read = self.file.read_at(bytes, offset);
        self.disk.seen.read_failed.fetch_or(read.is_err(), Ordering::Relaxed);
        read
    }

    fn sync_data(&self) -> DiskResult<()> {
        pause::at(&self.path, self.held());
        if self.disk.skips(&self.path) {
            return Ok(());
        }
        let synced = self.disk.told(&self.path, self.file.sync_data());
        self.disk.passed(OperationKind::SyncData, &self.path);
        self.note_barrier(&synced);
        pause::at(&self.path, self.held());
        synced
    }

    fn allocate(&self, len: u64) -> DiskResult<()> {
        self.disk.told(&self.path, self.file.allocate(len))
    }

    fn len(&self) -> DiskResult<u64> {
        self.file.len()
    }

    fn truncate(&self, len: u64) -> DiskResult<()> {
        self.disk.told(&self.path, self.file.truncate(len))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if self.path.starts_with(HOME) {
            self.disk.seen.home_files.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
