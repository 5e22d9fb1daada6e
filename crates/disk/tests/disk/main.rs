//! What a disk promises: the contract on both disks, and the crashes and lies of the simulated one.

#![expect(clippy::unwrap_used, reason = "these are tests, their helpers included")]

mod conformance;
mod crash_points;
mod faults;
mod names;
mod survivors;
mod systematic;

use std::sync::Arc;

use highwater_disk::sim::{CrashMode, SimDisk, SimOptions, TraceMode};
use highwater_disk::{Access, Disk, ErrorKind, File};

/// A simulated disk that crashes in one way.
fn sim(seed: u64, crash: CrashMode) -> SimDisk {
    SimDisk::new(SimOptions { crash, trace: TraceMode::Kept, ..SimOptions::seeded(seed) })
}

/// A file made durable, name and bytes.
fn durable_file(disk: &dyn Disk, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = disk.create(path, Access::Buffered).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
    disk.sync_dir(dir).unwrap();
    file
}

/// A file's whole content, or `None` where there is no such file.
fn content(disk: &dyn Disk, path: &str) -> Option<Vec<u8>> {
    match disk.open(path, Access::Buffered) {
        Ok(file) => {
            let len = usize::try_from(file.len().unwrap()).unwrap();
            let mut bytes = vec![0xEE; len];
            file.read_at(&mut bytes, 0).unwrap();
            Some(bytes)
        }
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::NotFound, "{error}");
            None
        }
    }
}

fn kind<T: std::fmt::Debug>(result: highwater_disk::DiskResult<T>) -> ErrorKind {
    result.unwrap_err().kind
}
