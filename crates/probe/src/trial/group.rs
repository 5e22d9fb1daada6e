//! One file, one or many writers. Many writers commit as leader and followers: whoever finds no
//! barrier under way leads one for all records written by then; the others wait for it or for the
//! next.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier as StartLine, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Instant;

use highwater_report::case::Case;
use highwater_report::data::PlannedCase;
use highwater_sys::file::File;
use highwater_sys::time::{self, nanos};
use highwater_sys::{SysError, SysResult};

use super::readback::{self, Expected};
use super::single::{self, Ops};
use super::target::Target;
use super::trace::{Commit, run_delay_ns, to_usize, touched};
use super::{
    FileShape, Measured, Pattern, Schedule, Surroundings, Trace, Witness, prepare, slots_of,
};
use crate::error::CaseError;
use crate::work_dir::CaseDir;

/// Runs a case on one file.
pub fn run_one_file(
    planned: &PlannedCase,
    dir: &CaseDir,
    around: &Surroundings<'_>,
) -> Result<Measured, CaseError> {
    let case = &planned.case;
    let path = dir.file(0);
    let file = prepare::file(&path, case, planned.capacity)?;
    let setup_barriers = prepare::BARRIERS_PER_FILE + prepare::settle(dir.path())?;
    let pattern = Pattern { seed: around.seed, block: to_usize(case.block) };
    let slots = slots_of(planned);
    let open = Open { file: &file, case, pattern, slots, memory_align: around.memory_align };
    let warmup = Schedule { interval: None, ..Schedule::new(case, 0, planned.warmup) };
    let warm = open.run_alone(&warmup, around.stop)?;
    let first = planned.warmup % slots * case.block;
    let before = FileShape::of(&file, first)?;
    let schedule = Schedule::new(case, planned.warmup, planned.iterations);
    let witness = Witness::begin(around.chain);
    let trace = if case.writers > 1 {
        open.run_together(&schedule, around.stop)?
    } else {
        open.run_alone(&schedule, around.stop)?
    };
    let (counters, others) = witness.end();
    let after = FileShape::of(&file, first)?;
    let records = planned.warmup + planned.iterations;
    let readback_records = readback::check(&path, &Expected { pattern, records, slots })?;
    Ok(Measured {
        trace,
        counters,
        others,
        before,
        after,
        setup_barriers,
        warmup_barriers: warm.barriers,
        readback_records,
    })
}

/// An open file and how records go into it.
pub(super) struct Open<'a> {
    pub file: &'a File,
    pub case: &'a Case,
    pub pattern: Pattern,
    pub slots: u64,
    pub memory_align: u32,
}

impl Open<'_> {
    fn target(&self) -> Result<Target<'_>, CaseError> {
        let buffer = self.pattern.buffer(self.memory_align);
        Target::new(self.file, self.case, buffer, self.slots)
            .map_err(|error| CaseError::in_setup(&error))
    }

    /// Runs a schedule in this thread.
    pub fn run_alone(&self, schedule: &Schedule, stop: &AtomicBool) -> Result<Trace, CaseError> {
        if schedule.interval.is_some() {
            precise_timers()?;
        }
        let mut target = self.target()?;
        let mut trace = single::run(&mut target, schedule, stop)?;
        single::account(&mut trace, self.case, schedule);
        Ok(trace)
    }

    /// Runs a schedule with the case's number of writers, who share it record by record.
    fn run_together(&self, schedule: &Schedule, stop: &AtomicBool) -> Result<Trace, CaseError> {
        let writers = to_usize(u64::from(self.case.writers));
        let mut targets = Vec::with_capacity(writers);
        for _ in 0..writers {
            targets.push(self.target()?);
        }
        let shared = Shared {
            schedule,
            slots: (0..schedule.writes).map(|_| Slot::default()).collect(),
            group: GroupCommit::for_barriers(if schedule.ends_with_barrier {
                schedule.writes
            } else {
                0
            }),
            next: AtomicU64::new(0),
            line: StartLine::new(writers),
            begun: OnceLock::new(),
            stop,
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let writers: Vec<_> = targets
                .into_iter()
                .map(|target| scope.spawn(|| shared.write_until_done(target)))
                .collect();
            writers
                .into_iter()
                .map(|writer| writer.join().expect("a writer does not panic"))
                .collect()
        });
        let ended = Instant::now();
        let delays = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut trace = shared.into_trace(ended, delays.into_iter().sum());
        if schedule.ends_with_barrier {
            trace.at_risk = if self.case.promises_durability() { 0 } else { schedule.writes };
        } else {
            single::account(&mut trace, self.case, schedule);
        }
        Ok(trace)
    }
}

/// Where the writer of a record leaves its times, ns. One for each record, whoever writes it, so
/// that the room needed does not grow with the number of writers.
#[derive(Default)]
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
    line: StartLine,
    /// When the first writer began: the start that all of them count from.
    begun: OnceLock<Instant>,
    stop: &'a AtomicBool,
}

impl Shared<'_> {
    /// Takes record after record until all are written; gives the time without a CPU, where known.
    /// A writer that fails stops the others.
    fn write_until_done(&self, mut target: Target<'_>) -> Result<Option<u64>, CaseError> {
        let timers = if self.schedule.interval.is_some() { precise_timers() } else { Ok(()) };
        self.line.wait();
        timers?;
        let delay_before = run_delay_ns();
        let start = *self.begun.get_or_init(Instant::now);
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = self.slots.get(to_usize(index)) else { break };
            if self.stop.load(Ordering::Relaxed) {
                return Err(CaseError::Interrupted);
            }
            if let Err(error) = self.commit_one(&mut target, slot, start, index) {
                self.group.fail(error);
                return Err(single::failed(self.schedule, index, error));
            }
        }
        Ok(single::delay_between(delay_before, run_delay_ns()))
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

    fn into_trace(self, ended: Instant, run_delay_ns: Option<u64>) -> Trace {
        let mut trace = Trace::with_room(0, 0, 0);
        trace.started = *self.begun.get().expect("the writers have begun");
        trace.elapsed_ns = nanos(ended.saturating_duration_since(trace.started));
        trace.write_ns =
            self.slots.iter().map(|slot| slot.write_ns.load(Ordering::Relaxed)).collect();
        let commit = |slot: &Slot| Commit {
            at_ns: slot.at_ns.load(Ordering::Relaxed),
            took_ns: slot.took_ns.load(Ordering::Relaxed),
        };
        trace.commits = self.slots.iter().map(commit).collect();
        trace.commits.sort_by_key(|commit| commit.at_ns);
        let state = self.group.into_state();
        trace.barriers = u64::try_from(state.barrier_ns.len()).expect("usize fits u64");
        trace.barrier_ns = state.barrier_ns;
        trace.acks_max = state.acks_max;
        trace.run_delay_ns = run_delay_ns;
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

    fn into_state(self) -> GroupState {
        self.state.into_inner().expect("no writer panics with the lock held")
    }

    fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().expect("no writer panics with the lock held")
    }
}

fn precise_timers() -> Result<(), CaseError> {
    time::request_precise_timers().map_err(|error| CaseError::in_setup(&error))
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
        let state = group.into_state();
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
