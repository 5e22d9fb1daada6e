//! Splits a mean commit into parts that counters vouch for, and what is left.
//!
//! Counters are per device, not per commit: the parts are means over the measured interval. One
//! flush and one write of the data's size belong to the commit; what the device did beyond that is
//! the journal's. Only single-writer cases with one barrier per write are split: elsewhere
//! device time overlaps.

use highwater_report::case::{Arrival, Barrier, Every, IoMode};
use highwater_report::data::{PlannedCase, RoundRow};
use highwater_report::results::Attribution;

/// Splits the mean commit of a case, where that can be done.
pub fn of(planned: &PlannedCase, rows: &[&RoundRow]) -> Option<Attribution> {
    let case = &planned.case;
    let simple = case.writers == 1
        && case.files == 1
        && case.every == Every::Writes(1)
        && case.arrival == Arrival::Closed
        && case.promises_durability();
    let commits: f64 = rows.iter().map(|row| row.commits as f64).sum();
    if !simple || commits == 0.0 {
        return None;
    }
    let per_commit = |value: &dyn Fn(&RoundRow) -> Option<f64>| -> Option<f64> {
        let total: Option<f64> = rows.iter().map(|row| value(row)).sum();
        Some(total? / commits)
    };
    let means = Means {
        commit_us: per_commit(&|row| Some(row.commit_mean_ns / 1e3 * row.commits as f64))?,
        write_call_us: per_commit(&|row| Some(row.write_mean_ns / 1e3 * row.commits as f64))?,
        run_queue_us: per_commit(&|row| Some(row.run_delay_ns.unwrap_or(0) as f64 / 1e3))?,
        // The request that carries a flush is counted as a write, too, and its time holds the
        // flush's (blk_account_io_done in the kernel's block/blk-mq.c).
        device_write_us: per_commit(&|row| {
            Some(row.leaf_write_ms?.saturating_sub(row.leaf_flush_ms?) as f64 * 1e3)
        })?,
        device_flush_us: per_commit(&|row| Some(row.leaf_flush_ms? as f64 * 1e3))?,
        flushes: per_commit(&|row| Some(row.leaf_flushes? as f64))?,
        kib: per_commit(&|row| Some(row.leaf_sectors? as f64 / 2.0))?,
    };
    let waits_in_write = case.io == IoMode::Direct || case.barrier.is_part_of_write();
    let fused = case.barrier.is_part_of_write() || case.barrier == Barrier::Uring;
    let write_call = match (fused, waits_in_write) {
        (true, _) => WriteCall::IsTheCommit,
        (false, true) => WriteCall::HoldsTheDeviceWrite,
        (false, false) => WriteCall::Copies,
    };
    Some(means.split(case.block as f64 / 1024.0, write_call))
}

/// What the time of the write call holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteCall {
    /// Copying into the page cache.
    Copies,
    /// The device's write, too.
    HoldsTheDeviceWrite,
    /// Everything: the barrier is part of it.
    IsTheCommit,
}

/// Means per commit.
struct Means {
    commit_us: f64,
    write_call_us: f64,
    run_queue_us: f64,
    device_write_us: f64,
    device_flush_us: f64,
    flushes: f64,
    kib: f64,
}

impl Means {
    /// Splits the commit so that the parts add up to it.
    fn split(&self, block_kib: f64, write_call: WriteCall) -> Attribution {
        let share = |own: f64, all: f64| if all > own { own / all } else { 1.0 };
        let device_write_us = self.device_write_us * share(block_kib, self.kib);
        let device_flush_us = self.device_flush_us * share(1.0, self.flushes);
        let journal_us =
            self.device_write_us + self.device_flush_us - device_write_us - device_flush_us;
        let write_call_us = match write_call {
            WriteCall::Copies => self.write_call_us,
            WriteCall::HoldsTheDeviceWrite => (self.write_call_us - device_write_us).max(0.0),
            WriteCall::IsTheCommit => 0.0,
        };
        let parts =
            [write_call_us, device_write_us, device_flush_us, journal_us, self.run_queue_us];
        let explained: f64 = parts.iter().sum();
        // Device counters tick in ms and include what overlaps: they may say more than was waited.
        let scale = if explained > self.commit_us { self.commit_us / explained } else { 1.0 };
        let [write_call_us, device_write_us, device_flush_us, journal_us, run_queue_us] =
            parts.map(|part| part * scale);
        let unexplained_us = (self.commit_us - explained).max(0.0);
        Attribution {
            write_call_us,
            device_write_us,
            device_flush_us,
            journal_us,
            run_queue_us,
            unexplained_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(parts: &Attribution) -> f64 {
        parts.write_call_us
            + parts.device_write_us
            + parts.device_flush_us
            + parts.journal_us
            + parts.run_queue_us
            + parts.unexplained_us
    }

    #[test]
    fn a_journal_commit_shows_as_what_goes_beyond_one_write_and_one_flush() {
        let means = Means {
            commit_us: 400.0,
            write_call_us: 5.0,
            run_queue_us: 0.0,
            device_write_us: 100.0,
            device_flush_us: 200.0,
            flushes: 2.0,
            kib: 8.0,
        };
        let parts = means.split(4.0, WriteCall::Copies);
        assert!((parts.device_write_us - 50.0).abs() < 1e-9);
        assert!((parts.device_flush_us - 100.0).abs() < 1e-9);
        assert!((parts.journal_us - 150.0).abs() < 1e-9);
        assert!((parts.unexplained_us - 95.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn the_parts_are_never_negative_and_add_up_to_the_mean(
            values in prop::array::uniform7(0.0..1000.0_f64), kind in 0..3_u8,
        ) {
            let [
                commit_us, write_call_us, run_queue_us, device_write_us, device_flush_us, flushes,
                kib,
            ] = values;
            let means = Means {
                commit_us, write_call_us, run_queue_us, device_write_us, device_flush_us, flushes,
                kib,
            };
            let call = [WriteCall::Copies, WriteCall::HoldsTheDeviceWrite, WriteCall::IsTheCommit];
            let parts = means.split(4.0, call[usize::from(kind)]);
            prop_assert!((sum(&parts) - commit_us).abs() < 1e-6);
            prop_assert!(parts.journal_us >= -1e-9 && parts.unexplained_us >= 0.0);
        }
    }
}
