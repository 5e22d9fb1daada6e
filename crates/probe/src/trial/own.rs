//! Many writers, each with a file and barriers of its own.

use std::sync::Barrier as StartLine;
use std::time::{Duration, Instant};

use highwater_report::data::PlannedCase;
use highwater_sys::file::File;

use super::group::Open;
use super::readback::{self, Expected};
use super::trace::to_usize;
use super::{
    FileShape, Measured, Pattern, Schedule, Surroundings, Trace, Witness, prepare, slots_of,
};
use crate::error::CaseError;
use crate::work_dir::CaseDir;

/// Runs a case with a file per writer; the writes are split evenly, the remainder left out.
pub fn run(
    planned: &PlannedCase,
    dir: &CaseDir,
    around: &Surroundings<'_>,
) -> Result<Measured, CaseError> {
    let case = &planned.case;
    let writers = u64::from(case.writers);
    let mut files = Vec::new();
    for index in 0..writers {
        files.push(prepare::file(&dir.file(index), case, planned.capacity)?);
    }
    let setup_barriers = writers * prepare::BARRIERS_PER_FILE + prepare::settle(dir.path())?;
    let pattern = Pattern { seed: around.seed, block: to_usize(case.block) };
    let slots = slots_of(planned);
    let each = (planned.iterations / writers).max(1);
    let open = |file| Open { file, case, pattern, slots, memory_align: around.memory_align };
    let warmup = Schedule { interval: None, ..Schedule::new(case, 0, planned.warmup) };
    let mut warmup_barriers = 0;
    for file in &files {
        warmup_barriers += open(file).run_alone(&warmup, around.stop)?.barriers;
    }
    let first = files.first().expect("at least one writer");
    let first_offset = planned.warmup % slots * case.block;
    let before = FileShape::of(first, first_offset)?;
    let mut schedule = Schedule::new(case, planned.warmup, each);
    // Each writer takes its share of the total rate.
    schedule.interval = schedule.interval.map(|interval| interval * case.writers);
    let witness = Witness::begin(around.chain);
    let trace = run_side_by_side(&files, &open, &schedule, around)?;
    let (counters, others) = witness.end();
    let after = FileShape::of(first, first_offset)?;
    let expected = Expected { pattern, records: planned.warmup + each, slots };
    let mut readback_records = 0;
    for index in 0..writers {
        readback_records += readback::check(&dir.file(index), &expected)?;
    }
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

fn run_side_by_side<'a>(
    files: &'a [File],
    open: &(impl Fn(&'a File) -> Open<'a> + Sync),
    schedule: &Schedule,
    around: &Surroundings<'_>,
) -> Result<Trace, CaseError> {
    let line = StartLine::new(files.len() + 1);
    let step =
        schedule.interval.unwrap_or(Duration::ZERO) / u32::try_from(files.len()).unwrap_or(1);
    let (started, results) = std::thread::scope(|scope| {
        let handles: Vec<_> = files
            .iter()
            .zip(0_u32..)
            .map(|(file, index)| {
                let line = &line;
                scope.spawn(move || {
                    line.wait();
                    // Open loops are staggered, so that arrivals are even over all writers.
                    highwater_sys::time::sleep_until(Instant::now() + step * index);
                    open(file).run_alone(schedule, around.stop)
                })
            })
            .collect();
        line.wait();
        let started = Instant::now();
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| handle.join();
        let results: Vec<_> = handles
            .into_iter()
            .map(|handle| join(handle).expect("a writer does not panic"))
            .collect();
        (started, results)
    });
    let ended = Instant::now();
    let parts = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Trace::join(started, ended, parts))
}
