//! Which writes a trial makes, and after which of them a barrier falls.

use std::time::{Duration, Instant};

use highwater_report::case::{Arrival, Barrier, Case, Every};

/// The writes of one timed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Number of the first record.
    pub first_record: u64,
    /// Writes to make.
    pub writes: u64,
    /// Writes per commit: one sample each.
    pub per_commit: u64,
    /// Whether a commit ends with a barrier call of its own.
    pub ends_with_barrier: bool,
    /// Time between intended starts; absent in a closed loop.
    pub interval: Option<Duration>,
}

impl Schedule {
    /// Lays out `writes` writes of a case, beginning with a record number.
    pub fn new(case: &Case, first_record: u64, writes: u64) -> Self {
        let interval = match case.arrival {
            Arrival::Closed => None,
            Arrival::Open { per_second } => Some(Duration::from_secs(1) / clamp_u32(per_second)),
        };
        Self {
            first_record,
            writes,
            per_commit: per_commit(case, writes),
            ends_with_barrier: has_barrier_call(case),
            interval,
        }
    }

    /// Whether the commit ends with the write of this index (0 is the first).
    #[inline]
    pub fn ends_commit(&self, index: u64) -> bool {
        (index + 1).is_multiple_of(self.per_commit) || index + 1 == self.writes
    }

    /// Commits in the whole loop.
    pub fn commits(&self) -> u64 {
        self.writes.div_ceil(self.per_commit)
    }

    /// When the write of this index is due.
    #[inline]
    pub fn due(&self, start: Instant, index: u64) -> Option<Instant> {
        let interval = self.interval?;
        let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).saturating_mul(index);
        Some(start + Duration::from_nanos(nanos))
    }
}

/// Writes per commit of a case whose loop makes `writes` writes.
pub fn per_commit(case: &Case, writes: u64) -> u64 {
    match case.every {
        Every::Writes(count) => count.max(1),
        Every::Bytes(bytes) => bytes.div_ceil(case.block).max(1),
        Every::End => writes.max(1),
        Every::Never => 1,
    }
}

/// Whether commits of this case end with a barrier call apart from the write.
pub fn has_barrier_call(case: &Case) -> bool {
    let separate =
        !case.barrier.is_part_of_write() && !matches!(case.barrier, Barrier::Uring | Barrier::None);
    separate && case.every != Every::Never
}

fn clamp_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(every: Every, block: u64, writes: u64) -> Schedule {
        Schedule::new(&Case { every, block, ..Case::DEFAULT }, 0, writes)
    }

    #[test]
    fn barriers_fall_after_the_asked_writes_and_the_rest_is_never_left_unsynced() {
        let ends = |schedule: Schedule| -> Vec<u64> {
            (0..schedule.writes).filter(|index| schedule.ends_commit(*index)).collect()
        };
        assert_eq!(ends(schedule(Every::Writes(1), 4096, 3)), [0, 1, 2]);
        assert_eq!(ends(schedule(Every::Writes(4), 4096, 10)), [3, 7, 9]);
        assert_eq!(ends(schedule(Every::Bytes(16384), 4096, 10)), [3, 7, 9]);
        assert_eq!(ends(schedule(Every::Bytes(10_000), 4096, 6)), [2, 5]);
        assert_eq!(ends(schedule(Every::End, 4096, 10)), [9]);
        assert_eq!(schedule(Every::Writes(4), 4096, 10).commits(), 3);
        assert!(!schedule(Every::Never, 4096, 10).ends_with_barrier);
    }

    #[test]
    fn an_open_loop_is_due_at_its_rate_from_the_start() {
        let case = Case { arrival: Arrival::Open { per_second: 2000 }, ..Case::DEFAULT };
        let schedule = Schedule::new(&case, 0, 10);
        let start = Instant::now();
        assert_eq!(schedule.due(start, 0), Some(start));
        assert_eq!(schedule.due(start, 4), Some(start + Duration::from_millis(2)));
    }
}
