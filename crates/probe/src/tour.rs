//! The one-minute tour: which cases, and how many writes each gets of the time there is.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use highwater_report::case::{Barrier, Case, Every, FileState, IoMode, Sharing};
use highwater_report::data::{Group, GroupKind, PlannedCase, Settings};

use crate::error::{CaseError, ProbeError};
use crate::plan::{AtEnd, Extent, Plan, planned};
use crate::site::Site;
use crate::trial::{self, Surroundings};
use crate::work_dir::WorkDir;

/// Rounds that a tour aims at: enough for intervals, few enough for long ones.
const ROUNDS: u32 = 10;
/// Fewest rounds, however slow the disk.
pub const FEWEST_ROUNDS: u32 = 4;
/// Shortest tour: below this the intervals say nothing.
pub const LEAST_SECONDS: f64 = 2.0;
/// Commits per case and round, at least and at most.
const COMMITS: (u64, u64) = (12, 20_000);
/// Commits of the pilot that finds how long a case takes.
const PILOT_COMMITS: u64 = 12;
/// Share of the time kept for what surrounds the rounds.
const SPARE_SHARE: f64 = 0.06;
const BLOCK: u64 = 4096;

/// A tour ready to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Tour {
    /// What it does.
    pub plan: Plan,
    /// When its rounds should end.
    pub deadline: Instant,
}

/// Sections and cases of the tour.
struct Stops {
    groups: Vec<Group>,
    cases: Vec<(&'static str, Case)>,
}

/// Plans a tour of about `seconds`, running each case briefly to find how long it takes.
///
/// # Errors
/// When the time is too short, the directory cannot be worked in, or nothing can run.
pub fn plan(
    site: &Site,
    seconds: f64,
    settings: &Settings,
    stop: &AtomicBool,
) -> Result<Tour, ProbeError> {
    if !(LEAST_SECONDS..=86_400.0).contains(&seconds) {
        return Err(ProbeError::Settings(format!(
            "--seconds takes {LEAST_SECONDS} to 86400; {seconds} is outside"
        )));
    }
    let begun = Instant::now();
    let deadline = begun + Duration::from_secs_f64(seconds * (1.0 - SPARE_SHARE));
    let stops = stops(site);
    let mut plan = Plan {
        preset: "probe".to_owned(),
        question: "What does a durable write cost here, and which write path should be used?"
            .to_owned(),
        groups: stops.groups,
        cases: pilot_cases(&stops.cases, site),
        settings: Settings { rounds: ROUNDS, seconds: Some(seconds), ..settings.clone() },
    };
    plan.check(site)?;
    let pilots = run_pilots(&plan, site, stop)?;
    let left = deadline.saturating_duration_since(Instant::now());
    let runnable = u32::try_from(plan.runnable().count().max(1)).unwrap_or(u32::MAX);
    let slice = left / ROUNDS / runnable;
    plan.cases = plan
        .cases
        .iter()
        .zip(&pilots)
        .map(|(case, pilot)| sized(case, pilot.as_ref(), slice, site))
        .collect();
    plan.check(site)?;
    Ok(Tour { plan, deadline })
}

/// What a pilot found.
struct Pilot {
    /// Time outside the measured interval.
    overhead: Duration,
    /// Measured time per write.
    per_write: Duration,
}

fn stops(site: &Site) -> Stops {
    let io = if site.offset_align().is_some_and(|align| BLOCK.is_multiple_of(u64::from(align))) {
        IoMode::Direct
    } else {
        IoMode::Buffered
    };
    let best =
        Case { state: FileState::Initialised, io, barrier: Barrier::Fdatasync, ..Case::DEFAULT };
    let group =
        |id: &str, title: &str, kind| Group { id: id.to_owned(), title: title.to_owned(), kind };
    let mut cases: Vec<(&'static str, Case)> =
        path_cases().into_iter().map(|case| ("paths", case)).collect();
    for block in [4, 16, 64, 256, 1024].map(|kib: u64| kib << 10) {
        cases.push(("sizes", Case { block, ..best }));
    }
    // Through the page cache, where a batch is one transfer; a direct batch is one larger write,
    // which the sizes show.
    let batched = Case { io: IoMode::Buffered, ..best };
    for writes in [1, 10, 100, 1000] {
        cases.push(("batch", Case { every: Every::Writes(writes), ..batched }));
    }
    for writers in [1, 4, 16, 64] {
        cases.push(("writers", Case { writers, sharing: Sharing::Shared, ..best }));
    }
    Stops {
        groups: vec![
            group("paths", "What a durable commit costs", GroupKind::Paths),
            group("batch", "What batching buys", GroupKind::Batch),
            group("writers", "What concurrency buys", GroupKind::Writers),
            group("sizes", "What size costs", GroupKind::Sizes),
        ],
        cases,
    }
}

/// Every state, I/O mode and separate barrier, the fused and linked ones along the likely best
/// path, and the unsynced baseline.
fn path_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for state in FileState::ALL {
        for io in IoMode::ALL {
            for barrier in [Barrier::Fsync, Barrier::Fdatasync] {
                cases.push(Case { state: *state, io: *io, barrier, ..Case::DEFAULT });
            }
        }
    }
    let direct = Case { state: FileState::Initialised, io: IoMode::Direct, ..Case::DEFAULT };
    for barrier in [Barrier::ODsync, Barrier::RwfDsync, Barrier::Uring] {
        cases.push(Case { barrier, ..direct });
    }
    let barrier = Barrier::None;
    cases.push(Case { state: FileState::Initialised, barrier, ..Case::DEFAULT });
    cases
}

fn pilot_cases(cases: &[(&'static str, Case)], site: &Site) -> Vec<PlannedCase> {
    cases
        .iter()
        .enumerate()
        .map(|(index, (group, case))| {
            let id = format!("c{:03}", index + 1);
            planned(id, group, *case, &extent(case, PILOT_COMMITS), site)
        })
        .collect()
}

/// Writes that make so many commits of a case, or one for each writer if that is more.
fn extent(case: &Case, commits: u64) -> Extent {
    let per_commit = trial::Schedule::new(case, 0, u64::MAX).per_commit;
    let iterations = commits.saturating_mul(per_commit).max(u64::from(case.writers) * 4);
    let warmup = (4 * per_commit).min(per_commit.max(16));
    Extent { iterations, warmup, capacity: None, at_end: AtEnd::Refuse }
}

/// Runs each case once, briefly. A case that fails here is left to the run, which reports it.
fn run_pilots(
    plan: &Plan,
    site: &Site,
    stop: &AtomicBool,
) -> Result<Vec<Option<Pilot>>, ProbeError> {
    let mut work = WorkDir::create(&site.dir)?;
    let around = Surroundings {
        chain: &site.chain,
        stop,
        seed: plan.settings.seed,
        memory_align: site.memory_align(),
    };
    let mut pilots = Vec::new();
    for planned in &plan.cases {
        if planned.refused.is_some() {
            pilots.push(None);
            continue;
        }
        let began = Instant::now();
        let dir = work.case_dir()?;
        let measured = trial::run(planned, &dir, &around);
        drop(dir);
        match measured {
            Ok(measured) => {
                let inside = Duration::from_nanos(measured.trace.elapsed_ns);
                let writes = u32::try_from(planned.iterations).unwrap_or(u32::MAX).max(1);
                pilots.push(Some(Pilot {
                    overhead: began.elapsed().saturating_sub(inside),
                    per_write: inside / writes,
                }));
            }
            Err(CaseError::Interrupted) => break,
            Err(CaseError::Failed(_)) => {
                // The disk's word has lost its worth: the run will meet it and say so.
                pilots.push(None);
                break;
            }
            Err(CaseError::Unsupported(_)) => pilots.push(None),
        }
    }
    pilots.resize_with(plan.cases.len(), || None);
    work.close()?;
    Ok(pilots)
}

/// Gives a case as many writes as fit its slice of time.
fn sized(case: &PlannedCase, pilot: Option<&Pilot>, slice: Duration, site: &Site) -> PlannedCase {
    let Some(pilot) = pilot else { return case.clone() };
    let per_commit = trial::Schedule::new(&case.case, 0, u64::MAX).per_commit;
    let time = slice.saturating_sub(pilot.overhead).as_nanos();
    let each = pilot.per_write.as_nanos().max(100).saturating_mul(u128::from(per_commit));
    let commits = u64::try_from(time / each).unwrap_or(COMMITS.1).clamp(COMMITS.0, COMMITS.1);
    let mut fitting =
        planned(case.id.clone(), &case.group, case.case, &extent(&case.case, commits), site);
    // Large blocks would fill the disk with what a minute can write.
    let most_writes = (MOST_CASE_BYTES / case.case.block).max(per_commit);
    if fitting.iterations > most_writes {
        let fewer = extent(&case.case, (most_writes / per_commit).max(1));
        fitting = planned(case.id.clone(), &case.group, case.case, &fewer, site);
    }
    fitting
}

/// Most bytes that one case of the tour writes in a round.
const MOST_CASE_BYTES: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tour_has_every_path_a_baseline_and_fits_its_time() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let site = Site::open(dir.path()).unwrap();
        let settings = Settings { rounds: 1, seconds: None, seed: 1, max_bytes: None };
        let never = AtomicBool::new(false);
        let tour = plan(&site, 5.0, &settings, &never).unwrap();
        let paths: Vec<&PlannedCase> =
            tour.plan.cases.iter().filter(|planned| planned.group == "paths").collect();
        assert_eq!(paths.len(), 16);
        assert!(paths.iter().any(|planned| planned.case.barrier == Barrier::None));
        assert!(tour.plan.runnable().all(|planned| planned.iterations > 0));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        for seconds in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(plan(&site, seconds, &settings, &never).is_err());
        }
    }
}
