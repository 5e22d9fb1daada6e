//! The timed loop of one writer on one file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use highwater_report::case::Case;
use highwater_sys::time::{self, nanos};
use highwater_sys::{SysError, SysResult};

use super::trace::run_delay_ns;
use super::{Schedule, Trace};
use crate::error::CaseError;

/// What a loop does to a file. A double without system calls shows what the loop itself costs.
pub trait Ops {
    /// Writes a record; `ends_commit` tells whether a barrier is due with or right after it.
    fn write(&mut self, record: u64, ends_commit: bool) -> SysResult<()>;
    /// Makes everything written durable.
    fn barrier(&mut self) -> SysResult<()>;
}

/// Runs a schedule, timing each write, each barrier and each commit into an empty trace with room
/// for it.
///
/// A closed loop's commit is timed from its first write's call, an open loop's from when that
/// write was due.
pub fn run<O: Ops>(
    ops: &mut O,
    schedule: &Schedule,
    stop: &AtomicBool,
    mut trace: Trace,
) -> Result<Trace, CaseError> {
    let room = trace.room();
    let delay_before = run_delay_ns();
    trace.started = Instant::now();
    let mut commit_began = None;
    for index in 0..schedule.writes {
        let ends_commit = schedule.ends_commit(index);
        let due = schedule.due(trace.started, index);
        if let Some(due) = due {
            time::sleep_until(due);
        }
        let began = Instant::now();
        let commit_start = *commit_began.get_or_insert(due.unwrap_or(began));
        ops.write(schedule.first_record + index, ends_commit)
            .map_err(|error| failed(schedule, index, error))?;
        let wrote = Instant::now();
        trace.write_ns.push(nanos(wrote - began));
        if !ends_commit {
            // A commit may be as long as the run.
            if stop.load(Ordering::Relaxed) {
                return Err(CaseError::Interrupted);
            }
            continue;
        }
        let mut ended = wrote;
        if schedule.ends_with_barrier {
            ops.barrier().map_err(|error| failed(schedule, index, error))?;
            ended = Instant::now();
            trace.barrier_ns.push(nanos(ended - wrote));
        }
        trace.commit(commit_start, ended);
        commit_began = None;
        if stop.load(Ordering::Relaxed) {
            return Err(CaseError::Interrupted);
        }
    }
    trace.elapsed_ns = nanos(trace.started.elapsed());
    assert_eq!(trace.room(), room, "M5: a timed loop does not allocate");
    trace.run_delay_ns = delay_between(delay_before, run_delay_ns());
    Ok(trace)
}

/// Sets what the case's promises make of a finished loop: barriers, acks and records at risk.
pub fn account(trace: &mut Trace, case: &Case, schedule: &Schedule) {
    let fused = case.barrier.is_part_of_write();
    let commits = u64::try_from(trace.commits.len()).unwrap_or(u64::MAX);
    let asks = case.every != highwater_report::case::Every::Never
        && case.barrier != highwater_report::case::Barrier::None;
    trace.barriers = match (asks, fused) {
        (false, _) => 0,
        (true, true) => schedule.writes,
        (true, false) => commits,
    };
    let per_barrier = if fused { 1 } else { schedule.per_commit.min(schedule.writes) };
    trace.acks_max = if asks { per_barrier } else { 0 };
    trace.at_risk = match (case.promises_durability(), per_barrier) {
        (false, _) => schedule.writes,
        (true, 1) => 0,
        (true, batch) => batch,
    };
}

/// Time without a CPU between two readings.
pub fn delay_between(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

/// Words a failure in the loop, which is final (M1). Refusal of the very first try means that the
/// path is not offered.
pub fn failed(schedule: &Schedule, index: u64, error: SysError) -> CaseError {
    if is_first_try(schedule, index, error) && error.is_unsupported() {
        return CaseError::Unsupported(error.to_string());
    }
    let record = schedule.first_record + index;
    CaseError::Failed(format!(
        "{error}, at record {record}: the case ended there, and no barrier was repeated"
    ))
}

/// Whether a call of this kind had not succeeded on the file before: plain writes are tried with
/// its first record, barriers and linked writes at the end of its first commit.
fn is_first_try(schedule: &Schedule, index: u64, error: SysError) -> bool {
    let is_plain_write = error.call.starts_with("pwrite");
    let first_end = schedule.per_commit.min(schedule.writes) - 1;
    schedule.first_record == 0 && (index == 0 || (index == first_end && !is_plain_write))
}

/// Measures the loop's own cost per operation, nanoseconds: everything but the system calls.
pub fn harness_cost_ns() -> f64 {
    struct Nothing;
    impl Ops for Nothing {
        #[inline]
        fn write(&mut self, record: u64, ends_commit: bool) -> SysResult<()> {
            std::hint::black_box((record, ends_commit));
            Ok(())
        }
        #[inline]
        fn barrier(&mut self) -> SysResult<()> {
            std::hint::black_box(());
            Ok(())
        }
    }
    const WRITES: u64 = 20_000;
    let schedule = Schedule::new(&Case::DEFAULT, 0, WRITES);
    let never = AtomicBool::new(false);
    let mut runs: Vec<f64> = (0..5)
        .filter_map(|_| run(&mut Nothing, &schedule, &never, Trace::for_schedule(&schedule)).ok())
        .map(|trace| trace.elapsed_ns as f64 / WRITES as f64)
        .collect();
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_report::case::{Barrier, Every};
    use highwater_sys::{Errno, SysError};

    /// Counts calls; fails the n-th barrier.
    #[derive(Default)]
    struct Counting {
        records: Vec<u64>,
        barriers: u64,
        fail_at: Option<u64>,
    }

    impl Ops for Counting {
        fn write(&mut self, record: u64, _: bool) -> SysResult<()> {
            self.records.push(record);
            Ok(())
        }
        fn barrier(&mut self) -> SysResult<()> {
            self.barriers += 1;
            if self.fail_at == Some(self.barriers) {
                return Err(SysError::new("fdatasync", SysError::SHORT));
            }
            Ok(())
        }
    }

    fn run_it(
        ops: &mut Counting,
        schedule: &Schedule,
        stop: &AtomicBool,
    ) -> Result<Trace, CaseError> {
        run(ops, schedule, stop, Trace::for_schedule(schedule))
    }

    #[test]
    fn each_write_and_barrier_is_timed_once_and_records_follow_each_other() {
        // M4, M5
        let case = Case { every: Every::Writes(4), ..Case::DEFAULT };
        let schedule = Schedule::new(&case, 100, 10);
        let mut ops = Counting::default();
        let mut trace = run_it(&mut ops, &schedule, &AtomicBool::new(false)).unwrap();
        account(&mut trace, &case, &schedule);
        assert_eq!(ops.records, (100..110).collect::<Vec<_>>());
        assert_eq!((trace.write_ns.len(), trace.barrier_ns.len(), trace.commits.len()), (10, 3, 3));
        assert_eq!((trace.barriers, trace.acks_max, trace.at_risk), (3, 4, 4));
    }

    #[test]
    fn a_failed_barrier_ends_the_loop_at_once() {
        // M1
        let schedule = Schedule::new(&Case::DEFAULT, 0, 10);
        let mut ops = Counting { fail_at: Some(3), ..Counting::default() };
        let error = run_it(&mut ops, &schedule, &AtomicBool::new(false)).unwrap_err();
        assert!(
            matches!(&error, CaseError::Failed(text) if text.contains("record 2")),
            "{error:?}"
        );
        assert_eq!((ops.records.len(), ops.barriers), (3, 3));
    }

    #[test]
    fn records_at_risk_tell_apart_waiting_batching_and_hoping() {
        let risk = |barrier, every| {
            let case = Case { barrier, every, ..Case::DEFAULT };
            let schedule = Schedule::new(&case, 0, 8);
            let mut trace =
                run_it(&mut Counting::default(), &schedule, &AtomicBool::new(false)).unwrap();
            account(&mut trace, &case, &schedule);
            (trace.barriers, trace.at_risk)
        };
        assert_eq!(risk(Barrier::Fdatasync, Every::Writes(1)), (8, 0));
        assert_eq!(risk(Barrier::ODsync, Every::Writes(1)), (8, 0));
        assert_eq!(risk(Barrier::Fdatasync, Every::Writes(4)), (2, 4));
        assert_eq!(risk(Barrier::None, Every::Writes(1)), (0, 8));
        assert_eq!(risk(Barrier::Fdatasync, Every::Never), (0, 8));
        assert_eq!(risk(Barrier::SyncFileRange, Every::Writes(1)), (8, 8));
    }

    #[test]
    fn asking_to_stop_ends_after_the_commit_under_way() {
        let schedule = Schedule::new(&Case::DEFAULT, 0, 10);
        let mut ops = Counting::default();
        let ended = run_it(&mut ops, &schedule, &AtomicBool::new(true));
        assert_eq!(ended.unwrap_err(), CaseError::Interrupted);
        assert_eq!(ops.barriers, 1);
    }

    #[test]
    fn asking_to_stop_ends_a_commit_as_long_as_the_run_too() {
        let case = Case { every: Every::End, ..Case::DEFAULT };
        let schedule = Schedule::new(&case, 0, 1_000_000);
        let mut ops = Counting::default();
        let ended = run_it(&mut ops, &schedule, &AtomicBool::new(true));
        assert_eq!(ended.unwrap_err(), CaseError::Interrupted);
        assert_eq!((ops.records.len(), ops.barriers), (1, 0));
    }

    #[test]
    fn refusal_of_the_first_try_of_each_kind_is_a_path_not_offered_and_later_a_failure() {
        let refusal = |call| SysError::new(call, SysError::SHORT);
        let unsupported = |call| SysError::new(call, Errno::OPNOTSUPP);
        let batch = Case { every: Every::Writes(4), ..Case::DEFAULT };
        let (warm, measured) = (Schedule::new(&batch, 0, 8), Schedule::new(&batch, 8, 8));
        for (schedule, index, call, first) in [
            (warm, 0, "pwrite", true),
            (warm, 3, "pwrite", false),
            (warm, 3, "io_uring write", true),
            (warm, 3, "sync_file_range", true),
            (warm, 7, "io_uring write", false),
            (measured, 0, "pwrite", false),
            (measured, 3, "io_uring write", false),
            // Fewer writes than a batch: the last one ends it.
            (Schedule::new(&batch, 0, 2), 1, "io_uring write", true),
        ] {
            let found = failed(&schedule, index, unsupported(call));
            assert_eq!(matches!(found, CaseError::Unsupported(_)), first, "{call} at {index}");
            assert!(matches!(failed(&schedule, index, refusal(call)), CaseError::Failed(_)));
        }
    }
}
