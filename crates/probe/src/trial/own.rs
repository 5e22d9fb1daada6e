//! Many writers, each with a file and barriers of its own.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use highwater_sys::time;

use super::few_files::{Open, ready_timers};
use super::{Schedule, Trace, gate, single};
use crate::error::CaseError;

/// Runs a schedule on each file, side by side. An open loop's rate is that of all together.
pub fn run(files: &[Open<'_>], schedule: &Schedule, stop: &AtomicBool) -> Result<Trace, CaseError> {
    let writers = u32::try_from(files.len()).expect("writers are counted by 32 bits");
    // Open loops are staggered, so that arrivals are even over all writers.
    let step = schedule.interval.unwrap_or(Duration::ZERO);
    let schedule = &Schedule { interval: schedule.interval.map(|gap| gap * writers), ..*schedule };
    let mut jobs = Vec::with_capacity(files.len());
    for (file, index) in files.iter().zip(0_u32..) {
        // All of set-up lies before the gate: no writer makes buffers while another is timed.
        let mut target = file.target()?;
        let room = Trace::for_schedule(schedule);
        jobs.push(move || {
            ready_timers(schedule.interval)?;
            Ok(move |opened: Instant| {
                time::sleep_until(opened + step * index);
                let mut trace = single::run(&mut target, schedule, stop, room)?;
                single::account(&mut trace, file.case, schedule);
                Ok(trace)
            })
        });
    }
    gate::together(jobs).map(Trace::join)
}
