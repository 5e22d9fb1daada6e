//! Measures commits along both write paths, on an initialised file of its own in a lane's
//! directory.
//!
//! The file is written in place, a few MiB in all, and removed; what a crash leaves of it is
//! removed at the next opening.

use std::time::Duration;

use highwater_disk::{Access, AlignedBuf, Clock, Disk, DiskResult, ErrorKind, File};

use super::choose::{Pair, Samples, choose};
use super::{Reason, WriteBarrier};
use crate::format::BLOCK_BYTES;
use crate::ids::LaneId;
use crate::lane::segment::{self, to_u64, to_usize};

/// Name of the file.
pub(crate) const NAME: &str = "scratch";
/// Its length, bytes.
const FILE_BYTES: u64 = 1 << 20;
/// A large commit, bytes.
const LARGE_BYTES: u64 = 64 << 10;
/// Pairs of commits of each size, behind [`WARM_UP`] that are not counted.
const PAIRS: usize = 24;
const WARM_UP: usize = 2;
/// Longest time, about: a slow disk is given fewer pairs.
const LONGEST: Duration = Duration::from_millis(500);

/// The scratch file of a lane.
#[derive(Debug, Clone)]
pub(super) struct Scratch(String);

impl Scratch {
    pub fn of(lane: LaneId) -> Self {
        Self(format!("{}/{NAME}", segment::lane_dir(lane)))
    }

    /// Removes what a crash may have left.
    ///
    /// # Errors
    /// The disk's.
    pub fn remove(&self, disk: &dyn Disk) -> DiskResult<()> {
        match disk.remove(&self.0) {
            Err(error) if error.kind != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Measures, and says which barrier is better and why.
///
/// # Errors
/// The disk's, unless it is full: a disk that fails at this is not written to. The file is removed
/// as far as that is possible.
pub(super) fn measure(disk: &dyn Disk, clock: &dyn Clock, scratch: &Scratch) -> DiskResult<Reason> {
    let measured = disk
        .create(&scratch.0, Access::Direct)
        .and_then(|file| Measuring { file: &*file, clock, offset: 0 }.run());
    let removed = scratch.remove(disk);
    let reason = match measured {
        Err(error) if error.kind == ErrorKind::Full => Reason::NoRoom,
        measured => measured?,
    };
    removed?;
    Ok(reason)
}

struct Measuring<'a> {
    file: &'a dyn File,
    clock: &'a dyn Clock,
    /// Where the next commit goes.
    offset: u64,
}

impl Measuring<'_> {
    fn run(&mut self) -> DiskResult<Reason> {
        segment::fill(self.file, FILE_BYTES)?;
        let buffer = segment::zeroed(LARGE_BYTES);
        match self.file.write_durable_at(&buffer[..BLOCK_BYTES], 0) {
            Err(error) if error.kind == ErrorKind::Unsupported => return Ok(Reason::NoDsync),
            other => other?,
        }
        let begun = self.clock.monotonic();
        let mut samples = Samples::default();
        for round in 0..WARM_UP + PAIRS {
            let small = self.pair(&buffer, to_u64(BLOCK_BYTES), round)?;
            let large = self.pair(&buffer, LARGE_BYTES, round)?;
            if round >= WARM_UP {
                samples.small.push(small);
                samples.large.push(large);
            }
            if self.clock.monotonic().saturating_sub(begun) > LONGEST {
                break;
            }
        }
        Ok(choose(&samples))
    }

    /// One commit along each path; which comes first alternates.
    fn pair(&mut self, buffer: &AlignedBuf, len: u64, round: usize) -> DiskResult<Pair> {
        let bytes = &buffer[..to_usize(len)];
        if round.is_multiple_of(2) {
            let fdatasync = self.timed(bytes, WriteBarrier::Fdatasync)?;
            Ok(Pair { fdatasync, dsync: self.timed(bytes, WriteBarrier::Dsync)? })
        } else {
            let dsync = self.timed(bytes, WriteBarrier::Dsync)?;
            Ok(Pair { fdatasync: self.timed(bytes, WriteBarrier::Fdatasync)?, dsync })
        }
    }

    fn timed(&mut self, bytes: &[u8], barrier: WriteBarrier) -> DiskResult<Duration> {
        let len = to_u64(bytes.len());
        if self.offset + len > FILE_BYTES {
            self.offset = 0;
        }
        let at = self.offset;
        self.offset += len;
        let begun = self.clock.monotonic();
        match barrier {
            WriteBarrier::Fdatasync => {
                self.file.write_at(bytes, at)?;
                self.file.sync_data()?;
            }
            WriteBarrier::Dsync => self.file.write_durable_at(bytes, at)?,
        }
        Ok(self.clock.monotonic().saturating_sub(begun))
    }
}
