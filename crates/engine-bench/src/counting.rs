//! A disk that counts what a log asks of it: commits apart from everything else.
//!
//! A frame is never written at the start of a segment: what is, prepares the segment (its zeros,
//! its header), up to the barrier behind it. Every other barrier of a segment ends a commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use highwater_disk::{Access, Disk, DiskResult, Entry, File, Lock, PathStr};
use highwater_sys::time::nanos;

use crate::subject::Counts;

/// Directory of the log's segments.
const SEGMENTS: &str = "wal/";

/// Counters that all files of a disk add to.
#[derive(Debug, Default)]
pub struct Counters {
    commits: AtomicU64,
    commit_bytes: AtomicU64,
    write_ns: AtomicU64,
    barrier_ns: AtomicU64,
    other_barriers: AtomicU64,
    other_bytes: AtomicU64,
}

/// A disk that counts.
#[derive(Debug)]
pub struct CountingDisk<D> {
    disk: D,
    counters: Arc<Counters>,
}

#[derive(Debug)]
struct CountingFile {
    file: Arc<dyn File>,
    counters: Arc<Counters>,
    is_segment: bool,
    is_prepared: AtomicBool,
}

impl Counters {
    /// Counts a write that belongs to a commit.
    pub fn commit_write(&self, bytes: usize, took: Duration) {
        add(&self.commit_bytes, u64::try_from(bytes).expect("usize fits u64"));
        add(&self.write_ns, nanos(took));
    }

    /// Counts a barrier that ends a commit.
    pub fn commit_barrier(&self, took: Duration) {
        add(&self.commits, 1);
        add(&self.barrier_ns, nanos(took));
    }

    /// Counts any other write.
    pub fn other_write(&self, bytes: usize) {
        add(&self.other_bytes, u64::try_from(bytes).expect("usize fits u64"));
    }

    /// Counts any other barrier.
    pub fn other_barrier(&self) {
        add(&self.other_barriers, 1);
    }

    /// Reads them.
    pub fn read(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            commits: read(&self.commits),
            commit_bytes: read(&self.commit_bytes),
            write_ns: read(&self.write_ns),
            barrier_ns: read(&self.barrier_ns),
            other_barriers: read(&self.other_barriers),
            other_bytes: read(&self.other_bytes),
        }
    }
}

impl<D: Disk> CountingDisk<D> {
    /// Counts what is asked of a disk.
    pub fn new(disk: D, counters: Arc<Counters>) -> Self {
        Self { disk, counters }
    }

    fn counted(&self, path: &PathStr, file: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(CountingFile {
            file,
            counters: Arc::clone(&self.counters),
            is_segment: path.starts_with(SEGMENTS),
            is_prepared: AtomicBool::new(true),
        })
    }
}

fn add(counter: &AtomicU64, value: u64) {
    counter.fetch_add(value, Ordering::Relaxed);
}

impl<D: Disk> Disk for CountingDisk<D> {
    fn create(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        Ok(self.counted(path, self.disk.create(path, access)?))
    }

    fn open(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        Ok(self.counted(path, self.disk.open(path, access)?))
    }

    fn create_dir(&self, path: &PathStr) -> DiskResult<()> {
        self.disk.create_dir(path)
    }

    fn list(&self, path: &PathStr) -> DiskResult<Vec<Entry>> {
        self.disk.list(path)
    }

    fn rename(&self, from: &PathStr, to: &PathStr) -> DiskResult<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &PathStr) -> DiskResult<()> {
        self.disk.remove(path)
    }

    fn sync_dir(&self, path: &PathStr) -> DiskResult<()> {
        self.counters.other_barrier();
        self.disk.sync_dir(path)
    }

    fn sync_all(&self, path: &PathStr) -> DiskResult<()> {
        self.counters.other_barrier();
        self.disk.sync_all(path)
    }

    fn lock(&self, path: &PathStr) -> DiskResult<Box<dyn Lock>> {
        self.disk.lock(path)
    }

    fn free_bytes(&self) -> DiskResult<u64> {
        self.disk.free_bytes()
    }
}

impl CountingFile {
    fn is_commit(&self) -> bool {
        self.is_segment && self.is_prepared.load(Ordering::Relaxed)
    }
}

impl File for CountingFile {
    fn access(&self) -> Access {
        self.file.access()
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        if self.is_segment && offset == 0 {
            self.is_prepared.store(false, Ordering::Relaxed);
        }
        if !self.is_commit() {
            self.counters.other_write(bytes.len());
            return self.file.write_at(bytes, offset);
        }
        let begun = Instant::now();
        let answer = self.file.write_at(bytes, offset);
        self.counters.commit_write(bytes.len(), begun.elapsed());
        answer
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()> {
        if !self.is_commit() || offset == 0 {
            self.counters.other_write(bytes.len());
            self.counters.other_barrier();
            return self.file.write_durable_at(bytes, offset);
        }
        let begun = Instant::now();
        let answer = self.file.write_durable_at(bytes, offset);
        // The write and its barrier cannot be told apart.
        self.counters.commit_write(bytes.len(), Duration::ZERO);
        self.counters.commit_barrier(begun.elapsed());
        answer
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> DiskResult<()> {
        self.file.read_at(bytes, offset)
    }

    fn sync_data(&self) -> DiskResult<()> {
        if !self.is_commit() {
            self.counters.other_barrier();
            let answer = self.file.sync_data();
            self.is_prepared.store(true, Ordering::Relaxed);
            return answer;
        }
        let begun = Instant::now();
        let answer = self.file.sync_data();
        self.counters.commit_barrier(begun.elapsed());
        answer
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

#[cfg(test)]
mod tests {
    use highwater_disk::real::RealDisk;

    use super::*;

    #[test]
    fn commits_are_told_from_the_preparation_of_segments_and_from_everything_else() {
        let dir = tempfile::tempdir().unwrap();
        let counters = Arc::new(Counters::default());
        let disk = CountingDisk::new(RealDisk::open(dir.path()).unwrap(), Arc::clone(&counters));
        disk.create_dir("wal").unwrap();
        let segment = disk.create("wal/0.seg", Access::Buffered).unwrap();
        for offset in [0, 4096, 8192] {
            segment.write_at(&[0; 4096], offset).unwrap();
        }
        segment.sync_data().unwrap();
        segment.write_at(&[1; 4096], 0).unwrap();
        segment.sync_data().unwrap();
        let prepared = Counts { other_barriers: 2, other_bytes: 4 * 4096, ..Counts::default() };
        assert_eq!(counters.read(), prepared);

        segment.write_at(&[2; 4096], 4096).unwrap();
        segment.write_at(&[2; 4096], 8192).unwrap();
        segment.sync_data().unwrap();
        let other = disk.create("other", Access::Buffered).unwrap();
        other.write_at(&[3; 100], 0).unwrap();
        other.sync_data().unwrap();
        disk.sync_all("").unwrap();
        let counts = counters.read().since(prepared);
        assert_eq!((counts.commits, counts.commit_bytes), (1, 8192));
        assert_eq!((counts.other_barriers, counts.other_bytes), (2, 100));
        // A write that is durable by itself is a commit too, but not at the start of a segment.
        let before = counters.read();
        segment.write_durable_at(&[4; 4096], 0).unwrap();
        segment.write_durable_at(&[4; 4096], 4096).unwrap();
        let counts = counters.read().since(before);
        assert_eq!((counts.commits, counts.commit_bytes), (1, 4096));
        assert_eq!((counts.other_barriers, counts.other_bytes), (1, 4096));
    }
}
