//! One case in one round: prepare, warm up, measure, read back, remove.
//!
//! Walk: `few_files` and `many_files` (a case from start to end), `schedule` (which writes, where
//! barriers fall), `target` (a file and how it is written), `single`, `own` and `group` (the timed
//! loops, whose threads begin together at the `gate`), `trace` (what they record), `prepare` and
//! `readback` (before and after). Only the loops are timed, and nothing in them prints or
//! allocates.

mod few_files;
mod gate;
mod group;
mod many_files;
mod own;
mod prepare;
mod readback;
mod schedule;
mod single;
mod target;
mod trace;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use highwater_report::case::FileState;
use highwater_report::data::PlannedCase;
use highwater_sys::extent::{Extent, extents};
use highwater_sys::file::File;
use highwater_sys::time;

use crate::disk::chain::{Chain, ChainCounters, ChainReading};
use crate::disk::others::{OtherIo, OtherWrites};
use crate::error::CaseError;
use crate::work_dir::CaseDir;

pub use single::harness_cost_ns;
pub use trace::{Commit, Trace};

pub(crate) use schedule::Schedule;
pub(crate) use target::Pattern;

/// What a trial needs of its surroundings.
pub struct Surroundings<'a> {
    /// Devices whose counters make the receipt.
    pub chain: &'a Chain,
    /// Set when the user asks to stop.
    pub stop: &'a AtomicBool,
    /// Seed of the bytes written.
    pub seed: u64,
    /// Alignment of memory for direct I/O, bytes.
    pub memory_align: u32,
}

/// What one trial gave.
#[derive(Debug)]
pub struct Measured {
    /// The timed loop's record.
    pub trace: Trace,
    /// Device counters over the measured interval.
    pub counters: ChainCounters,
    /// What others wrote meanwhile, where that can be seen.
    pub others: Option<OtherWrites>,
    /// The file before the first measured write.
    pub before: FileShape,
    /// The file after the last.
    pub after: FileShape,
    /// Barriers asked for in set-up.
    pub setup_barriers: u64,
    /// Barriers asked for in warm-up.
    pub warmup_barriers: u64,
    /// Records read back and found right.
    pub readback_records: u64,
}

/// Length and extents of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileShape {
    /// End of file, bytes.
    pub eof: u64,
    /// Number of extents; absent where FIEMAP is refused.
    pub extents: Option<u64>,
    /// Bytes in unwritten extents.
    pub unwritten: Option<u64>,
    /// Physical position of the first block that measured writes go to, bytes; absent while it has
    /// none. Warm-up has moved the blocks before it where the file system copies on write.
    pub first_block: Option<u64>,
}

/// Runs one case once, in an empty directory of its own.
///
/// # Errors
/// [`CaseError::Unsupported`] when this path is not offered here, [`CaseError::Failed`] when a
/// write, a barrier or the readback fails, [`CaseError::Interrupted`] when asked to stop.
pub fn run(
    planned: &PlannedCase,
    dir: &CaseDir,
    around: &Surroundings<'_>,
) -> Result<Measured, CaseError> {
    if planned.case.files > 1 {
        many_files::run(planned, dir, around)
    } else {
        few_files::run(planned, dir, around)
    }
}

/// Records that go into one file of a case before the next would go to its start again. An appended
/// file has no such end: what `capacity` says is only how much the other states prepare.
fn slots_of(planned: &PlannedCase) -> u64 {
    match planned.case.state {
        FileState::Append => planned.warmup.saturating_add(planned.iterations).max(1),
        FileState::Allocated | FileState::Initialised => {
            (planned.capacity / planned.case.block).max(1)
        }
    }
}

impl FileShape {
    /// Looks at a file whose measured writes begin at offset `first`, without asking for anything
    /// to be synced.
    fn of(file: &File, first: u64) -> Result<Self, CaseError> {
        let eof = file.len().map_err(|error| CaseError::Failed(error.to_string()))?;
        let Ok(found) = extents(file) else { return Ok(Self { eof, ..Self::default() }) };
        let unwritten = found.iter().filter(|extent| extent.unwritten).map(|extent| extent.len);
        let holds =
            |extent: &&Extent| (extent.logical..extent.logical + extent.len).contains(&first);
        let placed = found.iter().find(holds).filter(|extent| !extent.unknown_location);
        Ok(Self {
            eof,
            extents: u64::try_from(found.len()).ok(),
            unwritten: Some(unwritten.sum()),
            first_block: placed.map(|extent| extent.physical + (first - extent.logical)),
        })
    }
}

/// What set-up and warm-up leave to the measured interval.
struct Ready {
    before: FileShape,
    setup_barriers: u64,
    warmup_barriers: u64,
}

impl Ready {
    /// Runs the timed loop between two looks at the devices, then looks at the file and reads it.
    fn measure(
        self,
        around: &Surroundings<'_>,
        timed: impl FnOnce(&AtomicBool) -> Result<Trace, CaseError>,
        shape: impl FnOnce() -> Result<FileShape, CaseError>,
        read_back: impl FnOnce() -> Result<u64, CaseError>,
    ) -> Result<Measured, CaseError> {
        let Self { before, setup_barriers, warmup_barriers } = self;
        let witness = Witness::begin(around.chain);
        let trace = timed(around.stop)?;
        let (counters, others) = witness.end();
        let after = shape()?;
        let readback_records = read_back()?;
        Ok(Measured {
            trace,
            counters,
            others,
            before,
            after,
            setup_barriers,
            warmup_barriers,
            readback_records,
        })
    }
}

/// M3: what is read around the timed loop, and nothing else: counters and other processes' writes
/// around the measured interval.
struct Witness<'a> {
    chain: &'a Chain,
    others: Option<OtherIo>,
    counters: ChainReading,
}

impl<'a> Witness<'a> {
    /// Waits until the devices are idle, then reads.
    fn begin(chain: &'a Chain) -> Self {
        drain(chain);
        let others = OtherIo::snapshot();
        Self { chain, others, counters: chain.read() }
    }

    /// Reads again and gives the differences.
    fn end(self) -> (ChainCounters, Option<OtherWrites>) {
        let counters = self.chain.read().since(&self.counters);
        let now = OtherIo::snapshot();
        let others = self.others.and_then(|before| Some(now?.since(&before)));
        (counters, others)
    }
}

/// Waits until no request is in flight on any device of the chain, a second at most: on a disk
/// that others keep busy the receipt will say `polluted`.
fn drain(chain: &Chain) {
    let deadline = Instant::now() + Duration::from_secs(1);
    while chain.in_flight() > 0 && Instant::now() < deadline {
        time::sleep(Duration::from_micros(200));
    }
}
