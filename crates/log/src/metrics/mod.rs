//! What a lane has done since it was opened, as plain numbers: counters, gauges, and how long each
//! phase of a commit and of a checkpoint took.
//!
//! Everything is recorded under the lane's lock, which whoever records holds anyway. Time comes
//! from the [`Clock`] that the log was opened with. Counters only grow; names end in their unit, so
//! that an exporter can hand them on as they are.

mod histogram;

use std::time::Duration;

use highwater_disk::Clock;

pub use histogram::Histogram;

use crate::ids::LaneId;

/// A lane's numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneMetrics {
    /// The lane.
    pub lane: LaneId,
    /// Streams that have a name.
    pub streams: u64,
    /// Memory that streams take, about, bytes: what `Options::max_table_bytes` bounds.
    pub table_bytes: u64,
    /// Producers forgotten since the opening, because their stream had `Options::max_producers`:
    /// whatever such a one sends again is taken for new.
    pub producers_forgotten: u64,
    /// Bytes that streams hold, staged ones included: what `Options::max_total_bytes` bounds.
    pub content_bytes: u64,
    /// Ends of streams that are known ahead; those of streams that are gone are among them.
    pub expiries: u64,
    /// Watches under way.
    pub watches: u64,
    /// Bytes staged that no commit has taken.
    pub staged_bytes: u64,
    /// Segments in use.
    pub segments: u64,
    /// Segment files ready for use.
    pub spare_segments: u64,
    /// What commits did.
    pub commits: CommitMetrics,
    /// What checkpoints did.
    pub checkpoints: CheckpointMetrics,
    /// What the opening did.
    pub recovery: RecoveryMetrics,
}

/// What the commits of a lane did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitMetrics {
    /// Records staged.
    pub staged: u64,
    /// Commits that became durable.
    pub commits: u64,
    /// Frames in them.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes written for them, headers and padding included.
    pub bytes: u64,
    /// Barriers waited for.
    pub barriers: u64,
    /// Segments begun since the lane was opened.
    pub segments: u64,
    /// Of those, the ones that were not ready when they were needed: appends waited for the disk,
    /// with the lane's lock held.
    pub segments_unready: u64,
    /// Records of each commit: what one barrier acknowledged.
    pub batch_records: Histogram,
    /// Time spent waiting for the lane's lock by those who did not get it at once, ns.
    pub lock_ns: Histogram,
    /// Putting a record into the image and the table, with the lane's lock held, ns: of one record
    /// in [`CommitMetrics::STAGE_SAMPLE`].
    pub stage_ns: Histogram,
    /// From a batch's first record to the commit that takes the batch, ns.
    pub wait_ns: Histogram,
    /// Writing a batch, ns; empty where a write is durable by itself.
    pub write_ns: Histogram,
    /// Making it durable, ns; with the write where that is one call.
    pub barrier_ns: Histogram,
    /// Making it visible, with the lane's lock held, ns.
    pub publish_ns: Histogram,
    /// Waking those who waited for it, ns.
    pub wake_ns: Histogram,
}

impl CommitMetrics {
    /// Of so many records, one is timed while it is staged.
    pub const STAGE_SAMPLE: u64 = 64;
}

/// What the checkpoints of a lane did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointMetrics {
    /// Checkpoints done.
    pub checkpoints: u64,
    /// Checkpoints that failed.
    pub failures: u64,
    /// Runs of a stream's bytes handed to the home.
    pub home_writes: u64,
    /// Bytes handed to the home.
    pub home_bytes: u64,
    /// Bytes of table snapshots written.
    pub table_bytes: u64,
    /// Segments given back.
    pub freed_segments: u64,
    /// Handing bytes to the home, ns.
    pub absorb_ns: Histogram,
    /// The home's barrier, ns.
    pub barrier_ns: Histogram,
    /// Copying and encoding the table, ns.
    pub snapshot_ns: Histogram,
    /// Making table and manifest durable, and waiting for the log to be as far, ns.
    pub publish_ns: Histogram,
    /// Giving segments and space back, ns.
    pub retire_ns: Histogram,
}

/// What opening a lane did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecoveryMetrics {
    /// Loading the table.
    pub table: Duration,
    /// Finding the segments and reading their headers.
    pub find: Duration,
    /// Reading and replaying the log, and judging its end.
    pub replay: Duration,
    /// Beginning the epoch.
    pub epoch: Duration,
    /// Frames replayed.
    pub frames: u64,
    /// Records replayed.
    pub records: u64,
    /// Bytes of the frames replayed.
    pub bytes: u64,
}

/// Tells the time between steps.
pub(crate) struct Laps<'a> {
    clock: &'a dyn Clock,
    last: Duration,
}

impl<'a> Laps<'a> {
    /// Begins.
    pub fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, last: clock.monotonic() }
    }

    /// Time since the step before.
    pub fn lap(&mut self) -> Duration {
        let begun = std::mem::replace(&mut self.last, self.clock.monotonic());
        self.last.saturating_sub(begun)
    }
}

/// A duration in nanoseconds, as histograms count them.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
