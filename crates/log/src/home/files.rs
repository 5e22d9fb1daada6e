//! A home that keeps one file per stream, spread over directories of which each may be a device of
//! its own. One `syncfs` per directory makes everything durable, or a barrier per file where that
//! is chosen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use highwater_disk::{Access, Disk, DiskError, DiskResult, ErrorKind, File};

use super::layout::{REGION_BYTES, position, region_of, region_start, sum_position};
use super::open_files::OpenFiles;
use super::{Absorb, Extent, Home};
use crate::error::{LogError, LogResult};
use crate::format::{FormatError, Structure};
use crate::ids::{Offset, StreamId};
use crate::lane::segment::{to_u64, to_usize};

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
    stream_lanes: u16,
    barrier: FileBarrier,
    open: OpenFiles,
    dirty: Mutex<Dirty>,
    /// Held while a barrier is under way; says why one failed.
    barriers: Mutex<Option<DiskError>>,
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
        stream_lanes: u16,
        barrier: FileBarrier,
        max_open_files: usize,
    ) -> DiskResult<Self> {
        ensure_dir(&*disk, ROOT)?;
        for lane in 0..stream_lanes {
            ensure_dir(&*disk, &dir(lane))?;
            // A process that was killed may have left names that only the kernel has.
            disk.sync_dir(&dir(lane))?;
        }
        disk.sync_dir(ROOT)?;
        disk.sync_dir("")?;
        let open = OpenFiles::new(max_open_files);
        let (dirty, barriers) = (Mutex::default(), Mutex::default());
        Ok(Self { disk, stream_lanes, barrier, open, dirty, barriers })
    }

    /// Takes a home as it is, and makes nothing.
    pub(crate) fn existing(disk: Arc<dyn Disk>, stream_lanes: u16) -> Self {
        let (barrier, open) = (FileBarrier::Syncfs, OpenFiles::new(1));
        let (dirty, barriers) = (Mutex::default(), Mutex::default());
        Self { disk, stream_lanes, barrier, open, dirty, barriers }
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
        for region in region_of(extent.start)..=region_of(Offset(extent.end.0 - 1)) {
            let start = region_start(region).max(extent.start);
            let region_len = extent.end.min(region_start(region + 1)).0 - start.0;
            let at = position(start);
            if at + region_len > len {
                // What is cut off is told already.
                continue;
            }
            match self.region(&*file, extent, region) {
                Ok(_) => {}
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
        let dirty = std::mem::take(&mut *self.dirty());
        match self.barrier {
            FileBarrier::Syncfs => {
                (0..self.stream_lanes).try_for_each(|lane| self.disk.sync_all(&dir(lane)))
            }
            FileBarrier::Files => {
                for stream in dirty.files {
                    match self.existing_file(stream) {
                        // The stream is gone, and its file was removed.
                        Err(error) if error.kind == ErrorKind::NotFound => {}
                        file => file?.sync_data()?,
                    }
                }
                dirty.dirs.into_iter().try_for_each(|lane| self.disk.sync_dir(&dir(lane)))
            }
        }
    }

    fn absorb_one(&self, absorb: &Absorb) -> DiskResult<u32> {
        let file = self.file(absorb.stream)?;
        let mut crc = absorb.region_crc;
        let mut at = absorb.from;
        let mut rest = &absorb.bytes[..];
        while !rest.is_empty() {
            let left = REGION_BYTES - at.0 % REGION_BYTES;
            let (part, behind) = rest.split_at(rest.len().min(to_usize(left)));
            file.write_at(part, position(at))?;
            crc = crc32c::crc32c_append(crc, part);
            if to_u64(part.len()) == left {
                file.write_at(&crc.to_le_bytes(), sum_position(region_of(at)))?;
                crc = 0;
            }
            at = Offset(at.0 + to_u64(part.len()));
            rest = behind;
        }
        self.dirty().files.insert(absorb.stream);
        Ok(crc)
    }

    /// Reads a region as far as the home has it, checked.
    fn region(&self, file: &dyn File, extent: Extent, region: u64) -> LogResult<Vec<u8>> {
        // A fork's first region begins where the fork does.
        let start = region_start(region).max(extent.start);
        let region_end = region_start(region + 1);
        let end = extent.end.min(region_end);
        let mut bytes = vec![0; to_usize(end.0 - start.0)];
        file.read_at(&mut bytes, position(start))?;
        let stored = if end == region_end {
            let mut sum = [0; 4];
            file.read_at(&mut sum, sum_position(region))?;
            u32::from_le_bytes(sum)
        } else {
            extent.region_crc
        };
        let computed = crc32c::crc32c(&bytes);
        if stored != computed {
            let place = format!("{} at {start}", self.path(extent.stream));
            let structure = Structure::Record;
            let source = FormatError::WrongCrc { structure, stored, computed };
            return Err(LogError::Damaged { place, source });
        }
        Ok(bytes)
    }

    fn dirty(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().expect("nobody panics with the home's lock held")
    }
}

impl Home for Files {
    fn absorb(&self, group: &[Absorb]) -> DiskResult<Vec<u32>> {
        group.iter().map(|absorb| self.absorb_one(absorb)).collect()
    }

    fn barrier(&self) -> DiskResult<()> {
        // R1: a barrier also covers what lanes absorbed that have not asked for it yet. So nobody
        // goes on before the one under way is done, or after one has failed.
        let mut barriers = self.barriers.lock().expect("nobody panics with this lock held");
        if let Some(error) = &*barriers {
            return Err(error.clone());
        }
        let done = self.make_durable();
        *barriers = done.clone().err();
        done
    }

    fn read(&self, extent: Extent, from: Offset, to: Offset) -> LogResult<Arc<[u8]>> {
        assert!(
            extent.start <= from && from < to && to <= extent.end,
            "a home is asked for what it has"
        );
        // The stream may be gone by now: nothing is made for a reader.
        let file = self.existing_file(extent.stream)?;
        let mut bytes = Vec::with_capacity(to_usize(to.0 - from.0));
        for region in region_of(from)..=region_of(Offset(to.0 - 1)) {
            let start = region_start(region).max(extent.start).0;
            let read = self.region(&*file, extent, region)?;
            let first = to_usize(from.0.saturating_sub(start));
            let last = read.len().min(to_usize(to.0 - start));
            bytes.extend_from_slice(&read[first..last]);
        }
        Ok(bytes.into())
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
mod tests {
    use super::*;
    use highwater_disk::sim::{Fault, OperationKind, SimDisk, SimOptions};
    use proptest::prelude::*;

    fn home(disk: &SimDisk, barrier: FileBarrier) -> Files {
        Files::open(Arc::new(disk.clone()), 3, barrier, 4).unwrap()
    }

    /// Absorbs pieces one after the other, and gives what the home has.
    fn fill(home: &Files, stream: StreamId, pieces: &[usize]) -> (Extent, Vec<u8>) {
        fill_from(home, stream, Offset(0), pieces)
    }

    fn fill_from(
        home: &Files,
        stream: StreamId,
        start: Offset,
        pieces: &[usize],
    ) -> (Extent, Vec<u8>) {
        let mut whole: Vec<u8> = Vec::new();
        let mut crc = 0;
        for (number, len) in pieces.iter().enumerate() {
            let bytes: Vec<u8> =
                (0..*len).map(|at| u8::try_from((at * 7 + number) % 251).unwrap()).collect();
            let from = Offset(start.0 + to_u64(whole.len()));
            let absorb = Absorb { stream, from, bytes: bytes.clone(), region_crc: crc };
            crc = home.absorb(&[absorb]).unwrap()[0];
            whole.extend(bytes);
        }
        let end = Offset(start.0 + to_u64(whole.len()));
        (Extent { stream, start, end, region_crc: crc }, whole)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_range_reads_back_as_it_was_absorbed_in_whatever_pieces(
            pieces in prop::collection::vec(1..90_000_usize, 1..6),
            a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(),
            start in 0..200_000_u64,
        ) {
            let home = home(&SimDisk::new(SimOptions::seeded(3)), FileBarrier::Syncfs);
            let (extent, whole) = fill_from(&home, StreamId(9), Offset(start), &pieces);
            let (a, b) = (a.index(whole.len()), b.index(whole.len()));
            let (from, to) = (a.min(b), a.max(b) + 1);
            let at = |index| Offset(start + to_u64(index));
            let read = home.read(extent, at(from), at(to)).unwrap();
            prop_assert_eq!(&read[..], &whole[from..to]);
        }
    }

    #[test]
    fn what_a_barrier_covered_survives_a_crash_whichever_barrier_it_is() {
        for barrier in [FileBarrier::Syncfs, FileBarrier::Files] {
            for seed in 0..20 {
                let disk = SimDisk::new(SimOptions::seeded(seed));
                let home_before = home(&disk, barrier);
                let filled: Vec<_> = (1..8)
                    .map(|id| fill(&home_before, StreamId(id), &[70_000, 3, 9_000]))
                    .collect();
                home_before.barrier().unwrap();
                let after = home(&disk.crash(), barrier);
                for (extent, whole) in filled {
                    let read = after.read(extent, Offset(0), extent.end).unwrap();
                    assert_eq!(&read[..], &whole[..], "{barrier:?}, seed {seed}");
                }
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_an_error_and_never_wrong_bytes() {
        // I6
        let disk = SimDisk::new(SimOptions::seeded(5));
        let files = home(&disk, FileBarrier::Syncfs);
        let (extent, _) = fill(&files, StreamId(2), &[150_000]);
        files.barrier().unwrap();
        let path = files.path(StreamId(2));
        for at in [4096, 4096 + 70_000, 4096 + 149_999, sum_position(1)] {
            let damaged = disk.fork();
            damaged.flip_bit(&path, at, 1).unwrap();
            let read = home(&damaged, FileBarrier::Syncfs).read(extent, Offset(0), extent.end);
            assert!(matches!(read, Err(LogError::Damaged { .. })), "byte {at}");
        }
    }

    #[test]
    fn a_failed_barrier_is_final_for_everything_that_was_absorbed() {
        // R1: the lane that asks next has lost bytes too.
        for barrier in [FileBarrier::Syncfs, FileBarrier::Files] {
            let disk = SimDisk::new(SimOptions::seeded(7));
            let files = home(&disk, barrier);
            fill(&files, StreamId(1), &[10]);
            let kind = match barrier {
                FileBarrier::Syncfs => OperationKind::SyncAll,
                FileBarrier::Files => OperationKind::SyncData,
            };
            disk.fail_next(kind, 1, Fault::FailedBarrierDropsPages);
            assert!(files.barrier().is_err());
            fill(&files, StreamId(2), &[10]);
            assert!(files.barrier().is_err(), "{barrier:?}");
        }
    }

    #[test]
    fn a_reader_of_a_removed_stream_gets_an_error_and_leaves_nothing_behind() {
        // I11
        let disk = SimDisk::new(SimOptions::seeded(8));
        let files = home(&disk, FileBarrier::Files);
        let (extent, _) = fill(&files, StreamId(4), &[10]);
        files.remove(StreamId(4)).unwrap();
        assert!(files.read(extent, extent.start, extent.end).is_err());
        files.barrier().unwrap();
        assert!(files.streams().unwrap().is_empty());
    }

    #[test]
    fn a_removed_stream_is_gone_and_its_file_is_closed() {
        let disk = SimDisk::new(SimOptions::seeded(6));
        let files = home(&disk, FileBarrier::Syncfs);
        fill(&files, StreamId(4), &[10]);
        fill(&files, StreamId(5), &[10]);
        files.remove(StreamId(4)).unwrap();
        files.remove(StreamId(4)).unwrap();
        assert_eq!(files.streams().unwrap(), [StreamId(5)]);
    }
}
