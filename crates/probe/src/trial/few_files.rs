//! One file, or a file for each writer: prepared, warmed up, written by the loop its case asks for.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use highwater_report::case::{Case, Sharing};
use highwater_report::data::PlannedCase;
use highwater_sys::file::File;
use highwater_sys::time;

use super::readback::{self, Expected};
use super::single;
use super::target::Target;
use super::trace::to_usize;
use super::{
    FileShape, Measured, Pattern, Ready, Schedule, Surroundings, Trace, group, own, prepare,
    slots_of,
};
use crate::error::CaseError;
use crate::work_dir::CaseDir;

/// Runs a case on one file, or on a file per writer, over which the writes are split evenly.
pub fn run(
    planned: &PlannedCase,
    dir: &CaseDir,
    around: &Surroundings<'_>,
) -> Result<Measured, CaseError> {
    let case = &planned.case;
    let is_own = case.writers > 1 && case.sharing == Sharing::Own;
    let count = if is_own { u64::from(case.writers) } else { 1 };
    let mut files = Vec::new();
    for index in 0..count {
        files.push(prepare::file(&dir.file(index), case, planned.capacity, around.stop)?);
    }
    let setup_barriers = count * prepare::BARRIERS_PER_FILE + prepare::settle(dir.path())?;
    let pattern = Pattern { seed: around.seed, block: to_usize(case.block) };
    let slots = slots_of(planned);
    let open = |file| Open { file, case, pattern, slots, memory_align: around.memory_align };
    let opened: Vec<Open<'_>> = files.iter().map(open).collect();
    let warmup = Schedule { interval: None, ..Schedule::new(case, 0, planned.warmup) };
    let mut warmup_barriers = 0;
    for file in &opened {
        warmup_barriers += file.run_alone(&warmup, around.stop)?.barriers;
    }
    let each = (planned.iterations / count).max(1);
    let schedule = Schedule::new(case, planned.warmup, each);
    let first_offset = planned.warmup % slots * case.block;
    let shape = || FileShape::of(&files[0], first_offset);
    let ready = Ready { before: shape()?, setup_barriers, warmup_barriers };
    let timed = |stop: &AtomicBool| match &opened[..] {
        [alone] if case.writers == 1 => alone.run_alone(&schedule, stop),
        [shared] => group::run(shared, &schedule, stop),
        all => own::run(all, &schedule, stop),
    };
    let read_back = || {
        let expected = Expected { pattern, records: planned.warmup + each, slots };
        let mut records = 0;
        for index in 0..count {
            records += readback::check(&dir.file(index), &expected, around.stop)?;
        }
        Ok(records)
    };
    ready.measure(around, timed, shape, read_back)
}

/// An open file and how records go into it.
pub struct Open<'a> {
    /// The file.
    pub file: &'a File,
    /// How it is written.
    pub case: &'a Case,
    /// The bytes.
    pub pattern: Pattern,
    /// Records that it holds.
    pub slots: u64,
    /// Alignment of memory, bytes.
    pub memory_align: u32,
}

impl<'a> Open<'a> {
    /// Makes one writer's way into the file: its buffer filled, its ring set up.
    pub fn target(&self) -> Result<Target<'a>, CaseError> {
        let buffer = self.pattern.buffer(self.memory_align);
        Target::new(self.file, self.case, buffer, self.slots)
            .map_err(|error| CaseError::in_setup(&error))
    }

    /// Runs a schedule in this thread.
    pub fn run_alone(&self, schedule: &Schedule, stop: &AtomicBool) -> Result<Trace, CaseError> {
        ready_timers(schedule.interval)?;
        let room = Trace::for_schedule(schedule);
        let mut trace = single::run(&mut self.target()?, schedule, stop, room)?;
        single::account(&mut trace, self.case, schedule);
        Ok(trace)
    }
}

/// Asks for precise timers in this thread where its loop sleeps between writes.
pub fn ready_timers(interval: Option<Duration>) -> Result<(), CaseError> {
    match interval {
        Some(_) => time::request_precise_timers().map_err(|error| CaseError::in_setup(&error)),
        None => Ok(()),
    }
}
