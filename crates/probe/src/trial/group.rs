//! One file, one or many writers. Many writers commit as leader and followers: whoever finds no
//! barrier under way leads one for all records written by then; the others wait for it or for the
//! next.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use highwater_sys::time::{self, nanos};
use highwater_sys::{SysError, SysResult};

use super::few_files::{Open, ready_timers};
use super::gate;
use super::single::{self, Ops};
use super::target::Target;
use super::trace::{Commit, run_delay_ns, to_usize, touched};
use super::{Schedule, Trace};
use crate::error::CaseError;

/// Runs a schedule on one file with the case's number of writers, who share it record by record.
pub fn run(file: &Open<'_>, schedule: &Schedule, stop: &AtomicBool) -> Result<Trace, CaseError> {
    let shared = &Shared::new(schedule, stop);
    let mut jobs = Vec::new();
    for _ in 0..file.case.writers {
        let target = file.target()?;
        jobs.push(move || {
            ready_timers(schedule.interval)?;
            Ok(move |opened| shared.write_until_done(target, opened))
        });
    }
    let parts = gate::together(jobs)?;
    let mut trace = shared.trace(&parts);
    if schedule.ends_with_barrier {
        trace.at_risk = if file.case.promises_durability() { 0 } else { schedule.writes };
    } else {
        single::account(&mut trace, file.case, schedule);
    }
    Ok(trace)
}

/// Where the writer of a record leaves its times, ns. One for each record, whoever writes it, so
/// that the room needed does not grow with the number of writers.
struct Slot {
    at_ns: AtomicU64,
    took_ns: AtomicU64,
    write_ns: AtomicU64,
}

/// What the writers of one file share.
struct Shared<'a> {
    schedule: &'a Schedule,
    slots: Vec<Slot>,
    group: GroupCommit,
    next: AtomicU64,
    stop: &'a AtomicBool,
}

/// One writer's share of the measured interval.
struct Part {
    /// When the gate was opened: what the slots count from.
    opened: Instant,
    started: Instant,
    ended: Instant,
    /// Time without a CPU, ns, where known.
    run_delay_ns: Option<u64>,
}

impl<'a> Shared<'a> {
    fn new(schedule: &'a Schedule, stop: &'a AtomicBool) -> Self {
        // Really written: memory that is only promised would be mapped in the timed loop (M5).
        let zero = || AtomicU64::new(black_box(0));
        let slot = |_| Slot { at_ns: zero(), took_ns: zero(), write_ns: zero() };
        let barriers = if schedule.ends_with_barrier { schedule.writes } else { 0 };
        Self {
            schedule,
            slots: (0..schedule.writes).map(slot).collect(),
            group: GroupCommit::for_barriers(barriers),
            next: AtomicU64::new(0),
            stop,
        }
    }

    /// Takes record after record until all are written. A writer that fails stops the others.
    fn write_until_done(&self, mut target: Target<'_>, opened: Instant) -> Result<Part, CaseError> {
        let delay_before = run_delay_ns();
        let started = Instant::now();
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = self.slots.get(to_usize(index)) else { break };
            if self.stop.load(Ordering::Relaxed) {
                return Err(CaseError::Interrupted);
            }
            if let Err(error) = self.commit_one(&mut target, slot, opened, index) {
                self.group.fail(error);
                return Err(single::failed(self.schedule, index, error));
            }
        }
        let ended = Instant::now();
        let run_delay_ns = single::delay_between(delay_before, run_delay_ns());
        Ok(Part { opened, started, ended, run_delay_ns })
    }

    #[inline]
    fn commit_one(
        &self,
        target: &mut Target<'_>,
        slot: &Slot,
        start: Instant,
        index: u64,
    ) -> SysResult<()> {
        let due = self.schedule.due(start, index);
        if let Some(due) = due {
            time::sleep_until(due);
        }
        let began = Instant::now();
        target.write(self.schedule.first_record + index, true)?;
        let wrote = Instant::now();
        let mut ended = wrote;
        if self.schedule.ends_with_barrier {
            self.group.commit(|| target.barrier())?;
            ended = Instant::now();
        }
        // M5: times go to slots that are there already.
        let from = due.unwrap_or(began);
        slot.write_ns.store(nanos(wrote - began), Ordering::Relaxed);
        slot.at_ns.store(nanos(ended.saturating_duration_since(start)), Ordering::Relaxed);
        slot.took_ns.store(nanos(ended.saturating_duration_since(from)), Ordering::Relaxed);
        Ok(())
    }

    /// Puts together what the writers left, from the first one's start to the last one's end.
    fn trace(&self, parts: &[Part]) -> Trace {
        let mut trace = Trace::with_room(0, 0, 0);
        trace.started = parts.iter().map(|part| part.started).min().expect("at least one writer");
        let ended = parts.iter().map(|part| part.ended).max().expect("at least one writer");
        trace.elapsed_ns = nanos(ended.saturating_duration_since(trace.started));
        trace.run_delay_ns = parts.iter().map(|part| part.run_delay_ns).sum();
        trace.write_ns =
            self.slots.iter().map(|slot| slot.write_ns.load(Ordering::Relaxed)).collect();
        let lead_ns = nanos(trace.started.saturating_duration_since(parts[0].opened));
        let commit = |slot: &Slot| Commit {
            at_ns: slot.at_ns.load(Ordering::Relaxed).saturating_sub(lead_ns),
            took_ns: slot.took_ns.load(Ordering::Relaxed),
        };
        trace.commits = self.slots.iter().map(commit).collect();
        trace.commits.sort_by_key(|commit| commit.at_ns);
        let mut state = self.group.lock();
        trace.barriers = u64::try_from(state.barrier_ns.len()).expect("usize fits u64");
        trace.barrier_ns = std::mem::take(&mut state.barrier_ns);
        trace.acks_max = state.acks_max;
        trace
    }
}

/// Leader and followers: one barrier at a time, for everything written before it began (M9).
struct GroupCommit {
    state: Mutex<GroupState>,
    barrier_done: Condvar,
}

#[derive(Default)]
struct GroupState {
    /// Records written so far.
    written: u64,
    /// Records covered by a finished barrier.
    synced: u64,
    /// Whether a barrier is under way.
    led: bool,
    /// The first failure: final for everybody.
    failed: Option<SysError>,
    /// Time of each barrier, ns.
    barrier_ns: Vec<u64>,
    acks_max: u64,
}

impl GroupCommit {
    /// Reserves room for the times of so many barriers.
    fn for_barriers(count: u64) -> Self {
        let state = GroupState { barrier_ns: touched(to_usize(count), 0), ..GroupState::default() };
        Self { state: Mutex::new(state), barrier_done: Condvar::new() }
    }

    /// Returns when a barrier that began after this call has succeeded.
    fn commit(&self, barrier: impl FnOnce() -> SysResult<()>) -> SysResult<()> {
        let mut state = self.lock();
        state.written += 1;
        let mine = state.written;
        while state.led && state.synced < mine && state.failed.is_none() {
            state = self.barrier_done.wait(state).expect("no writer panics with the lock held");
        }
        if let Some(error) = state.failed {
            return Err(error);
        }
        if state.synced >= mine {
            return Ok(());
        }
        state.led = true;
        let covers = state.written;
        drop(state);
        let began = Instant::now();
        let answer = barrier();
        let took = nanos(began.elapsed());
        let mut state = self.lock();
        state.led = false;
        state.barrier_ns.push(took);
        match answer {
            Ok(()) => {
                // M9: no barrier covers a record written after it began.
                assert!(covers >= mine && covers <= state.written, "a barrier covers its leader");
                state.acks_max = state.acks_max.max(covers - state.synced);
                state.synced = covers;
            }
            Err(error) => state.failed = Some(error),
        }
        drop(state);
        self.barrier_done.notify_all();
        answer
    }

    /// Ends the group: a write failed.
    fn fail(&self, error: SysError) {
        self.lock().failed.get_or_insert(error);
        self.barrier_done.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().expect("no writer panics with the lock held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_covers_everything_written_before_it_and_nothing_is_acked_without_one() {
        // M9
        let group = GroupCommit::for_barriers(1600);
        let (barriers, acked) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let led = group.commit(|| {
                            barriers.fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                            Ok(())
                        });
                        led.unwrap();
                        acked.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let state = group.lock();
        assert_eq!((state.written, state.synced, acked.into_inner()), (1600, 1600, 1600));
        assert_eq!(state.barrier_ns.len() as u64, barriers.into_inner());
        assert_eq!(state.barrier_ns.capacity(), 1600);
        assert!((1..=8).contains(&state.acks_max));
    }

    #[test]
    fn a_failed_barrier_fails_every_later_commit_without_another_barrier() {
        let group = GroupCommit::for_barriers(1);
        let error = SysError::new("fdatasync", SysError::SHORT);
        assert_eq!(group.commit(|| Err(error)), Err(error));
        assert_eq!(group.commit(|| panic!("no barrier after a failed one")), Err(error));
    }
}
