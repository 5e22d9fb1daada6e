//! A home that keeps one file per stream, spread over directories of which each may be a device of
//! its own. One `syncfs` per directory makes everything durable, or a barrier per file where that
//! is chosen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use highwater_disk::real::SystemClock;
use highwater_disk::{Access, Clock, Disk, DiskError, DiskResult, ErrorKind, File};

use super::checked::Checked;
use super::gather;
use super::layout::{SUM_BYTES, contiguous_end, position, sum_position};
use super::open_files::OpenFiles;
use super::regions::{self, Region};
use super::{Absorb, Extent, Home, Lent};
use crate::error::{LogError, LogResult};
use crate::ids::{Offset, StreamId};
use crate::lane::segment::to_u64;

/// Directory of the home.
pub(crate) const ROOT: &str = "streams";

/// How files are made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileBarrier {
    /// One `syncfs` per directory.
    Syncfs,
    /// One barrier per file, one after the other, and one for each directory that got a new name.
    Files,
}

/// The home.
#[derive(Debug)]
pub struct Files {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    stream_lanes: u16,
    barrier: FileBarrier,
    open: OpenFiles,
    checked: Checked,
    dirty: Mutex<Dirty>,
    /// Held while a barrier is under way; says why one failed.
    barriers: Mutex<Option<DiskError>>,
}

/// How a home of files is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesSettings {
    /// Directories.
    pub stream_lanes: u16,
    /// How files are made durable.
    pub barrier: FileBarrier,
    /// Files open at once.
    pub max_open_files: usize,
    /// How long bytes count as checked that are sent without a copy.
    pub recheck_after: Duration,
}

/// Bytes of a stream's file that are not what was absorbed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub path: String,
    /// Where in the file, bytes.
    pub offset: u64,
    /// How many, bytes.
    pub len: u64,
    pub what: String,
}

/// What the next barrier has to cover.
#[derive(Debug, Default)]
struct Dirty {
    files: BTreeSet<StreamId>,
    /// Directories with new names.
    dirs: BTreeSet<u16>,
}

impl Files {
    /// Opens the home of a store, its directories made if they are not there.
    ///
    /// # Errors
    /// The disk's.
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        settings: FilesSettings,
    ) -> DiskResult<Self> {
        let FilesSettings { stream_lanes, barrier, max_open_files, recheck_after } = settings;
        ensure_dir(&*disk, ROOT)?;
        for lane in 0..stream_lanes {
            ensure_dir(&*disk, &dir(lane))?;
            // A process that was killed may have left names that only the kernel has.
            disk.sync_dir(&dir(lane))?;
        }
        disk.sync_dir(ROOT)?;
        disk.sync_dir("")?;
        Ok(Self {
            disk,
            clock,
            stream_lanes,
            barrier,
            open: OpenFiles::new(max_open_files),
            checked: Checked::new(recheck_after),
            dirty: Mutex::default(),
            barriers: Mutex::default(),
        })
    }

    /// Takes a home as it is, and makes nothing.
    pub(crate) fn existing(disk: Arc<dyn Disk>, stream_lanes: u16) -> Self {
        Self {
            disk,
            clock: Arc::new(SystemClock::new()),
            stream_lanes,
            barrier: FileBarrier::Syncfs,
            open: OpenFiles::new(1),
            checked: Checked::new(Duration::ZERO),
            dirty: Mutex::default(),
            barriers: Mutex::default(),
        }
    }

    /// Checks all that it should have of a stream, which is something; gives what is wrong.
    ///
    /// # Errors
    /// The disk's, where it says nothing about the stream's bytes.
    pub(crate) fn verify(&self, extent: Extent) -> DiskResult<Vec<Fault>> {
        let path = self.path(extent.stream);
        let fault =
            |offset: u64, len: u64, what: String| Fault { path: path.clone(), offset, len, what };
        let needed = position(Offset(extent.end.0 - 1)) + 1;
        let file = match self.disk.open(&path, Access::Buffered) {
            Err(error) if error.kind == ErrorKind::NotFound => {
                return Ok(vec![fault(0, needed, "the file is missing".to_owned())]);
            }
            opened => opened?,
        };
        let mut faults = Vec::new();
        let len = file.len()?;
        if len < needed {
            let what = format!("the file ends at {len}, and should reach {needed}");
            faults.push(fault(len, needed - len, what));
        }
        for region in Region::all(extent, extent.start, extent.end) {
            let (at, region_len) = (position(region.start), to_u64(region.len()));
            if at + region_len > len {
                // What is cut off is told already.
                continue;
            }
            let mut bytes = vec![0; region.len()];
            match region.read(&*file, extent, &mut bytes, &path) {
                Ok(()) => {}
                Err(LogError::Damaged { source, .. }) => {
                    faults.push(fault(at, region_len, source.to_string()));
                }
                Err(LogError::Disk(error)) if error.kind == ErrorKind::Io => {
                    faults.push(fault(at, region_len, error.to_string()));
                }
                Err(LogError::Disk(error)) => return Err(error),
                Err(error) => faults.push(fault(at, region_len, error.to_string())),
            }
        }
        Ok(faults)
    }

    fn stream_lane(&self, stream: StreamId) -> u16 {
        let hash = crc32c::crc32c(&stream.0.to_le_bytes());
        u16::try_from(hash % u32::from(self.stream_lanes))
            .expect("smaller than the number of lanes")
    }

    pub(crate) fn path(&self, stream: StreamId) -> String {
        format!("{}/{:016x}", dir(self.stream_lane(stream)), stream.0)
    }

    /// Opens a stream's file, made if it is not there.
    fn file(&self, stream: StreamId) -> DiskResult<Arc<dyn File>> {
        self.open.get(stream, || {
            let path = self.path(stream);
            match self.disk.open(&path, Access::Buffered) {
                Err(error) if error.kind == ErrorKind::NotFound => {
                    self.dirty().dirs.insert(self.stream_lane(stream));
                    self.disk.create(&path, Access::Buffered)
                }
                opened => opened,
            }
        })
    }

    /// Opens a stream's file as it is.
    fn existing_file(&self, stream: StreamId) -> DiskResult<Arc<dyn File>> {
        self.open.get(stream, || self.disk.open(&self.path(stream), Access::Buffered))
    }

    fn make_durable(&self) -> DiskResult<()> {
        let mut dirty = std::mem::take(&mut *self.dirty());
        match self.barrier {
            FileBarrier::Syncfs => {
                (0..self.stream_lanes).try_for_each(|lane| self.disk.sync_all(&dir(lane)))
            }
            FileBarrier::Files => {
                let done = self.sync_each(&mut dirty);
                if done.is_err() {
                    // Nothing is forgotten where a file could not even be opened.
                    let mut later = self.dirty();
                    later.files.append(&mut dirty.files);
                    later.dirs.append(&mut dirty.dirs);
                }
                done
            }
        }
    }

    /// Makes one file after the other durable, and then their names.
    fn sync_each(&self, dirty: &mut Dirty) -> DiskResult<()> {
        while let Some(stream) = dirty.files.first().copied() {
            match self.existing_file(stream) {
                // The stream is gone, and its file was removed.
                Err(error) if error.kind == ErrorKind::NotFound => {}
                file => file?.sync_data()?,
            }
            dirty.files.remove(&stream);
        }
        while let Some(lane) = dirty.dirs.first().copied() {
            self.disk.sync_dir(&dir(lane))?;
            dirty.dirs.remove(&lane);
        }
        Ok(())
    }

    fn absorb_one(&self, absorb: &Absorb, buffer: &mut Vec<u8>) -> DiskResult<u32> {
        let file = self.file(absorb.stream)?;
        gather::write(&*file, absorb, buffer)?;
        let (full, unfinished) = gather::sums(absorb);
        for sums in full.chunk_by(|a, b| sum_position(b.0) == sum_position(a.0) + SUM_BYTES) {
            let bytes: Vec<u8> = sums.iter().flat_map(|(_, crc)| crc.to_le_bytes()).collect();
            file.write_at(&bytes, sum_position(sums[0].0))?;
        }
        self.dirty().files.insert(absorb.stream);
        Ok(unfinished)
    }

    fn dirty(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().expect("nobody panics with the home's lock held")
    }
}

impl Home for Files {
    fn absorb(&self, group: &[Absorb]) -> DiskResult<Vec<u32>> {
        let mut buffer = Vec::new();
        group.iter().map(|absorb| self.absorb_one(absorb, &mut buffer)).collect()
    }

    fn barrier(&self) -> DiskResult<()> {
        // R1: a barrier also covers what lanes absorbed that have not asked for it yet. So nobody
        // goes on before the one under way is done, or after one has failed.
        let mut barriers = self.barriers.lock().expect("nobody panics with this lock held");
        if let Some(error) = &*barriers {
            return Err(error.clone());
        }
        let done = self.make_durable();
        *barriers = done.clone().err().filter(DiskError::is_barrier);
        done
    }

    fn check(&self) -> DiskResult<()> {
        match self.barriers.try_lock() {
            Ok(barriers) => barriers.clone().map_or(Ok(()), Err),
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Poisoned(_)) => panic!("nobody panics with this lock held"),
        }
    }

    fn read(&self, extent: Extent, from: Offset, into: &mut [u8]) -> LogResult<()> {
        let to = Offset(from.0 + to_u64(into.len()));
        extent.assert_has(from, to);
        // The stream may be gone by now: nothing is made for a reader.
        let file = self.existing_file(extent.stream)?;
        regions::read(&*file, extent, from, into, &self.path(extent.stream))
    }

    fn lend(&self, extent: Extent, from: Offset, to: Offset) -> LogResult<Option<Lent>> {
        extent.assert_has(from, to);
        let stream = extent.stream;
        let open = || self.disk.open(&self.path(stream), Access::Buffered);
        let Some(file) = self.open.lend(stream, open)? else { return Ok(None) };
        let to = to.min(contiguous_end(from));
        let now = self.clock.monotonic();
        let mut bytes = Vec::new();
        for region in Region::all(extent, from, to) {
            if !self.checked.has(stream, region.number, region.end, now) {
                bytes.resize(region.len(), 0);
                region.read(file.file(), extent, &mut bytes, &self.path(stream))?;
                self.checked.note(stream, region.number, region.end, now);
            }
        }
        Ok(Some(Lent { file, position: position(from), len: to.0 - from.0 }))
    }

    fn remove(&self, stream: StreamId) -> DiskResult<()> {
        self.open.forget(stream);
        self.dirty().files.remove(&stream);
        match self.disk.remove(&self.path(stream)) {
            Err(error) if error.kind != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn streams(&self) -> DiskResult<Vec<StreamId>> {
        let mut streams = Vec::new();
        for lane in 0..self.stream_lanes {
            let entries = self.disk.list(&dir(lane))?;
            let number = |name: &str| u64::from_str_radix(name, 16).ok().map(StreamId);
            streams.extend(entries.iter().filter_map(|entry| number(&entry.name)));
        }
        Ok(streams)
    }
}

/// Directory of a lane of the home.
pub(crate) fn dir(lane: u16) -> String {
    format!("{ROOT}/{lane}")
}

fn ensure_dir(disk: &dyn Disk, path: &str) -> DiskResult<()> {
    match disk.create_dir(path) {
        Err(error) if error.kind != ErrorKind::Exists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
