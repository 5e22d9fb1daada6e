//! Many small files made dirty, then made durable as one batch: file by file in one thread, file by
//! file in several, or with one syncfs.
//!
//! A file is open only while it is written or synced, as a server with more files than descriptors
//! has to do; opening is part of the measured time of the file-by-file methods.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use highwater_report::case::{Barrier, Case, FileState};
use highwater_report::data::PlannedCase;
use highwater_sys::SysResult;
use highwater_sys::file::{Cache, File, NewFile, WriteSync};
use highwater_sys::time::nanos;

use super::readback::{self, Expected};
use super::single::delay_between;
use super::trace::{run_delay_ns, to_usize};
use super::{FileShape, Measured, Pattern, Ready, Surroundings, Trace, gate, prepare};
use crate::error::CaseError;
use crate::work_dir::CaseDir;

const PLAIN: NewFile = NewFile { cache: Cache::Buffered, write_sync: WriteSync::None };

/// Runs a case over many files.
pub fn run(
    planned: &PlannedCase,
    dir: &CaseDir,
    around: &Surroundings<'_>,
) -> Result<Measured, CaseError> {
    let case = &planned.case;
    let files = u64::from(case.files);
    for index in 0..files {
        create(&dir.file(index), case).map_err(|error| CaseError::in_setup(&error))?;
        if around.stop.load(Ordering::Relaxed) {
            return Err(CaseError::Interrupted);
        }
    }
    let setup_barriers = prepare::settle(dir.path())?;
    let pattern = Pattern { seed: around.seed, block: to_usize(case.block) };
    let shape = || shape(&dir.file(0));
    let ready = Ready { before: shape()?, setup_barriers, warmup_barriers: 0 };
    let dirty_ns = make_dirty(dir, case, pattern, around)?;
    let timed = |stop: &AtomicBool| {
        let mut trace = make_durable(dir, case, stop)?;
        trace.dirty_ns = Some(dirty_ns);
        trace.acks_max = files;
        trace.at_risk = if case.promises_durability() { 0 } else { files };
        Ok(trace)
    };
    let read_back = || {
        let expected = Expected { pattern, records: 1, slots: 1 };
        let mut records = 0;
        for index in 0..files {
            records += readback::check(&dir.file(index), &expected, around.stop)?;
        }
        Ok(records)
    };
    ready.measure(around, timed, shape, read_back)
}

/// Creates one file in its state; `settle` makes them all durable together.
fn create(path: &Path, case: &Case) -> SysResult<()> {
    let file = File::create_new(path, PLAIN)?;
    match case.state {
        FileState::Append => Ok(()),
        FileState::Allocated => file.allocate(case.block),
        FileState::Initialised => file.write_at(&vec![0; to_usize(case.block)], 0),
    }
}

fn shape(path: &Path) -> Result<FileShape, CaseError> {
    let file = File::open_read(path).map_err(|error| CaseError::Failed(error.to_string()))?;
    FileShape::of(&file, 0)
}

/// Writes one record to each file; gives the time this took, ns.
fn make_dirty(
    dir: &CaseDir,
    case: &Case,
    pattern: Pattern,
    around: &Surroundings<'_>,
) -> Result<u64, CaseError> {
    let mut record = pattern.buffer(512);
    Pattern::stamp(&mut record, 0);
    let started = Instant::now();
    for index in 0..u64::from(case.files) {
        let wrote =
            File::reopen(&dir.file(index), PLAIN).and_then(|file| file.write_at(&record, 0));
        wrote.map_err(|error| CaseError::Failed(format!("{error}, at file {index}")))?;
        if around.stop.load(Ordering::Relaxed) {
            return Err(CaseError::Interrupted);
        }
    }
    Ok(nanos(started.elapsed()))
}

/// Makes all files durable: one commit.
fn make_durable(dir: &CaseDir, case: &Case, stop: &AtomicBool) -> Result<Trace, CaseError> {
    if case.barrier == Barrier::Syncfs {
        return sync_at_once(dir);
    }
    let threads = case.writers.max(1);
    let share = case.files.div_ceil(threads);
    let jobs: Vec<_> = (0..threads)
        .map(|thread| {
            let first = (thread * share).min(case.files);
            let range = first..(first + share).min(case.files);
            let room = Trace::with_room(0, 0, range.len());
            move || {
                Ok(move |opened| {
                    let room = Trace { started: opened, ..room };
                    sync_range(dir, case.barrier, range, room, stop)
                })
            }
        })
        .collect();
    let mut trace = Trace::join(gate::together(jobs)?);
    let (started, took) = (trace.started, Duration::from_nanos(trace.elapsed_ns));
    trace.commits.clear();
    trace.commit(started, started + took);
    Ok(trace)
}

fn sync_at_once(dir: &CaseDir) -> Result<Trace, CaseError> {
    let mut trace = Trace::with_room(0, 1, 1);
    let delay_before = run_delay_ns();
    trace.started = Instant::now();
    let synced = File::open_read(dir.path()).and_then(|root| root.syncfs());
    synced.map_err(|error| CaseError::Failed(error.to_string()))?;
    let ended = Instant::now();
    trace.barrier_ns.push(nanos(ended - trace.started));
    trace.barriers = 1;
    trace.commit(trace.started, ended);
    trace.elapsed_ns = nanos(ended - trace.started);
    trace.run_delay_ns = delay_between(delay_before, run_delay_ns());
    Ok(trace)
}

/// Syncs some of the files, one after the other; the trace says when all threads began.
fn sync_range(
    dir: &CaseDir,
    barrier: Barrier,
    range: std::ops::Range<u32>,
    mut trace: Trace,
    stop: &AtomicBool,
) -> Result<Trace, CaseError> {
    let delay_before = run_delay_ns();
    for index in range {
        let began = Instant::now();
        let synced =
            File::reopen(&dir.file(u64::from(index)), PLAIN).and_then(|file| match barrier {
                Barrier::Fsync => file.fsync(),
                _ => file.fdatasync(),
            });
        synced.map_err(|error| CaseError::Failed(format!("{error}, at file {index}")))?;
        trace.barrier_ns.push(nanos(began.elapsed()));
        trace.barriers += 1;
        if stop.load(Ordering::Relaxed) {
            return Err(CaseError::Interrupted);
        }
    }
    trace.elapsed_ns = nanos(trace.started.elapsed());
    trace.run_delay_ns = delay_between(delay_before, run_delay_ns());
    Ok(trace)
}
