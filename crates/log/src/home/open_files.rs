//! A bounded number of open files, the ones used last (I11).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use highwater_disk::{DiskResult, File};

use crate::ids::StreamId;

/// Open files by stream.
#[derive(Debug)]
pub struct OpenFiles {
    limit: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    files: HashMap<StreamId, (Arc<dyn File>, u64)>,
    clock: u64,
}

impl OpenFiles {
    /// Keeps at most `limit` files open.
    pub fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), inner: Mutex::default() }
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
}
