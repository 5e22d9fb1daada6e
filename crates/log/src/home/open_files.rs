//! A bounded number of open files, the ones used last (I11).
//!
//! Some of them may be lent to readers who send from them: such a file stays open for as long as
//! they like, so only a share of all can be lent, and files in use by nobody else make room for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use highwater_disk::{DiskResult, File};

use crate::ids::StreamId;

/// Of all files that may be open, one in so many can be lent.
const LENT_SHARE: usize = 4;

/// Open files by stream.
#[derive(Debug)]
pub struct OpenFiles {
    /// Files kept open here.
    limit: usize,
    /// Files lent at once.
    may_lend: usize,
    lent: Arc<AtomicUsize>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    files: HashMap<StreamId, (Arc<dyn File>, u64)>,
    clock: u64,
}

/// A file that stays open until this is dropped.
#[derive(Debug)]
pub struct LentFile {
    file: Arc<dyn File>,
    lent: Arc<AtomicUsize>,
}

impl LentFile {
    /// Gives the file.
    pub fn file(&self) -> &dyn File {
        &*self.file
    }
}

impl Drop for LentFile {
    fn drop(&mut self) {
        self.lent.fetch_sub(1, Ordering::Relaxed);
    }
}

impl OpenFiles {
    /// Keeps at most `limit` files open, those included that are lent.
    pub fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        let may_lend = limit / LENT_SHARE;
        let (lent, inner) = (Arc::default(), Mutex::default());
        Self { limit: limit - may_lend, may_lend, lent, inner }
    }

    /// Gives a stream's file, opened if need be.
    ///
    /// # Errors
    /// What opening gives.
    pub fn get(
        &self,
        stream: StreamId,
        open: impl FnOnce() -> DiskResult<Arc<dyn File>>,
    ) -> DiskResult<Arc<dyn File>> {
        if let Some(file) = self.lock().find(stream) {
            return Ok(file);
        }
        // Without the lock: whoever has its file open waits for nobody's disk.
        let file = open()?;
        let mut inner = self.lock();
        if let Some(file) = inner.find(stream) {
            return Ok(file);
        }
        if inner.files.len() >= self.limit {
            inner.drop_half();
        }
        let now = inner.clock;
        inner.files.insert(stream, (Arc::clone(&file), now));
        assert!(inner.files.len() <= self.limit, "I11: open files stay in their bound");
        Ok(file)
    }

    /// Lends a stream's file; nothing when as many are lent as may be.
    ///
    /// # Errors
    /// What opening gives.
    pub fn lend(
        &self,
        stream: StreamId,
        open: impl FnOnce() -> DiskResult<Arc<dyn File>>,
    ) -> DiskResult<Option<LentFile>> {
        let more = |lent: usize| (lent < self.may_lend).then_some(lent + 1);
        if self.lent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return Ok(None);
        }
        let lent = Arc::clone(&self.lent);
        match self.get(stream, open) {
            Ok(file) => Ok(Some(LentFile { file, lent })),
            Err(error) => {
                lent.fetch_sub(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    /// Closes a stream's file.
    pub fn forget(&self, stream: StreamId) {
        self.lock().files.remove(&stream);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics with the open files' lock held")
    }
}

impl Inner {
    /// Gives a file that is open, and notes the use.
    fn find(&mut self, stream: StreamId) -> Option<Arc<dyn File>> {
        self.clock += 1;
        let (file, used) = self.files.get_mut(&stream)?;
        *used = self.clock;
        Some(Arc::clone(file))
    }

    /// Closes the half that was used longest ago: one pass for many files.
    fn drop_half(&mut self) {
        let mut uses: Vec<u64> = self.files.values().map(|(_, used)| *used).collect();
        uses.sort_unstable();
        let middle = uses[uses.len() / 2];
        self.files.retain(|_, (_, used)| *used > middle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_disk::sim::{SimDisk, SimOptions};
    use highwater_disk::{Access, Disk};

    #[test]
    fn no_more_files_than_the_limit_are_open_and_the_recent_ones_stay() {
        // I11
        let disk = SimDisk::new(SimOptions::seeded(1));
        let files = OpenFiles::new(8);
        let mut opened = 0;
        for round in 0..100_u64 {
            for stream in [round, 0] {
                let open = || {
                    opened += 1;
                    let path = format!("f{stream}-{round}");
                    disk.create(&path, Access::Buffered)
                };
                files.get(StreamId(stream), open).unwrap();
            }
            assert!(files.lock().files.len() <= 8);
        }
        assert_eq!(opened, 100, "stream 0 is always among the recent ones");
    }

    #[test]
    fn readers_who_hold_on_to_files_stay_within_the_limit_too() {
        // I11
        let disk = SimDisk::new(SimOptions::seeded(2));
        let files = OpenFiles::new(8);
        let open = |stream: u64| {
            let disk = disk.clone();
            move || disk.create(&format!("f{stream}"), Access::Buffered)
        };
        let mut held = Vec::new();
        for stream in 0..100 {
            held.extend(files.lend(StreamId(stream), open(stream)).unwrap());
            assert!(files.lock().files.len() + held.len() <= 8);
        }
        assert_eq!(held.len(), 2);
        held.pop();
        assert!(files.lend(StreamId(200), open(200)).unwrap().is_some());
        assert!(OpenFiles::new(1).lend(StreamId(1), open(300)).unwrap().is_none());
    }
}
