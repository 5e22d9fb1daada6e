//! The one-minute tour: which cases, and how many writes each gets of the time and bytes there are.
//!
//! A [`Draft`] says what will be tried, so that it can be announced before anything is written;
//! `pilots` tries each case briefly; the [`Tour`] is what the rounds then do.

mod pilots;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use highwater_report::case::{Barrier, Case, Every, FileState, IoMode, Sharing};
use highwater_report::data::{Group, GroupKind, PlannedCase, Settings, StopReason};
use highwater_stats::units;

use crate::error::ProbeError;
use crate::plan::{AtEnd, Extent, Plan, planned};
use crate::site::Site;
use crate::trial;
use pilots::Pilot;

/// Rounds that a tour aims at: enough for intervals, few enough for long ones.
const ROUNDS: u32 = 10;
/// Most rounds, however fast the disk: the bytes announced hold for all of them.
const MOST_ROUNDS: u32 = 20;
/// Fewest rounds, however slow the disk.
pub const FEWEST_ROUNDS: u32 = 4;
/// Shortest tour: below this the intervals say nothing.
pub const LEAST_SECONDS: f64 = 2.0;
/// Commits per case and round, at least and at most.
const COMMITS: (u64, u64) = (12, 20_000);
/// Commits of the pilot that finds how long a case takes, and most writes they may take.
const PILOT: (u64, u64) = (12, 1200);
/// Share of the time kept for what surrounds the rounds.
const SPARE_SHARE: f64 = 0.06;
const BLOCK: u64 = 4096;
/// Most bytes that one case of the tour writes in a round, and the fewest worth asking for.
const CASE_BYTES: (u64, u64) = (16 << 10, 32 << 20);

/// A tour before its cases were tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    plan: Plan,
    seconds: f64,
    max_bytes: u64,
}

/// A tour ready to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Tour {
    /// What it does, in as many rounds as its settings say at most.
    pub plan: Plan,
    /// When its rounds should end.
    pub deadline: Instant,
    /// Bytes that trying the cases wrote, set-up included.
    pub tried_bytes: u64,
    /// Cases that ended for good when they were tried: no round of them is run, and after a
    /// failure no round at all.
    pub stopped: BTreeMap<String, StopReason>,
}

/// Sections and cases of the tour.
struct Stops {
    groups: Vec<Group>,
    cases: Vec<(&'static str, Case)>,
}

/// Plans a tour of about `seconds`; nothing is written yet.
///
/// # Errors
/// When the time or the bytes allowed are too few, or nothing can run.
pub fn draft(site: &Site, seconds: f64, settings: &Settings) -> Result<Draft, ProbeError> {
    if !(LEAST_SECONDS..=86_400.0).contains(&seconds) {
        return Err(ProbeError::Settings(format!(
            "--seconds takes {LEAST_SECONDS} to 86400; {seconds} is outside"
        )));
    }
    let stops = stops(site);
    let plan = Plan {
        preset: "probe".to_owned(),
        question: "What does a durable write cost here, and which write path should be used?"
            .to_owned(),
        groups: stops.groups,
        cases: pilot_cases(&stops.cases, site),
        settings: Settings { rounds: 1, seconds: Some(seconds), ..settings.clone() },
    };
    let draft = Draft { plan, seconds, max_bytes: settings.max_bytes.unwrap_or(u64::MAX) };
    let least = draft.fitted(CASE_BYTES.0, site, Clone::clone);
    draft.allows(least.total_bytes().saturating_add(draft.bytes()))?;
    draft.plan.check(site)?;
    Ok(draft)
}

impl Draft {
    /// Cases that will be tried.
    pub fn cases(&self) -> usize {
        self.plan.runnable().count()
    }

    /// Bytes that trying them writes, set-up included.
    pub fn bytes(&self) -> u64 {
        self.plan.total_bytes()
    }

    /// Most bytes that trying and touring may write together, on however fast a disk.
    pub fn most_bytes(&self, site: &Site) -> u64 {
        let instant = Pilot { overhead: Duration::ZERO, per_write: Duration::ZERO };
        let timed = |case: &PlannedCase| sized(case, Some(&instant), Duration::MAX, site);
        let plan = self.fitted(CASE_BYTES.1, site, timed);
        let per_round = plan.total_bytes() / u64::from(plan.settings.rounds);
        let all = per_round.saturating_mul(u64::from(MOST_ROUNDS));
        all.saturating_add(self.bytes()).min(self.max_bytes)
    }

    /// Tries each case briefly, and gives the rest of the time and bytes to the rounds.
    ///
    /// A case that fails is in the tour's `stopped`: the run is to end with it.
    ///
    /// # Errors
    /// When the directory cannot be worked in, or the space does not suffice.
    pub fn try_out(self, site: &Site, stop: &AtomicBool) -> Result<Tour, ProbeError> {
        let begun = Instant::now();
        let deadline = begun + Duration::from_secs_f64(self.seconds * (1.0 - SPARE_SHARE));
        let tried = pilots::run(&self.plan, site, stop)?;
        let left = deadline.saturating_duration_since(Instant::now());
        let runnable = u32::try_from(self.cases().max(1)).unwrap_or(u32::MAX);
        let slice = left / ROUNDS / runnable;
        let timed = |case: &PlannedCase| sized(case, tried.pilots.get(&case.id), slice, site);
        // The slow cases leave bytes over for the fast ones, so one limit for all is looked for.
        let mut limit = CASE_BYTES.1;
        let mut plan = self.fitted(limit, site, timed);
        while limit > CASE_BYTES.0 && !self.within(&plan) {
            limit /= 2;
            plan = self.fitted(limit, site, timed);
        }
        let per_round = plan.total_bytes() / u64::from(plan.settings.rounds);
        let affordable = (self.max_bytes - self.bytes()) / per_round.max(1);
        let rounds = u32::try_from(affordable).unwrap_or(u32::MAX);
        plan.settings.rounds = rounds.clamp(FEWEST_ROUNDS, MOST_ROUNDS);
        plan.check(site)?;
        Ok(Tour { tried_bytes: self.bytes(), plan, deadline, stopped: tried.stopped })
    }

    /// Fewest rounds of the cases as `timed` sizes them, none beyond `limit` bytes.
    fn fitted(&self, limit: u64, site: &Site, timed: impl Fn(&PlannedCase) -> PlannedCase) -> Plan {
        let fit = |case: &PlannedCase| within_bytes(timed(case), limit, site);
        let cases = self.plan.cases.iter().map(fit).collect();
        let settings = Settings {
            rounds: FEWEST_ROUNDS,
            max_bytes: Some(self.max_bytes),
            ..self.plan.settings.clone()
        };
        Plan { cases, settings, ..self.plan.clone() }
    }

    /// Whether the rounds that a tour aims at fit the bytes allowed.
    fn within(&self, plan: &Plan) -> bool {
        let per_round = plan.total_bytes() / u64::from(plan.settings.rounds);
        let aimed = per_round.saturating_mul(u64::from(ROUNDS));
        aimed.saturating_add(self.bytes()) <= self.max_bytes
    }

    fn allows(&self, least: u64) -> Result<(), ProbeError> {
        if least <= self.max_bytes {
            return Ok(());
        }
        Err(ProbeError::TooLarge(format!(
            "the shortest tour writes {}, and --max-bytes allows {}: allow more, or measure single \
             paths with `highwater bench`",
            units::bytes_human(least),
            units::bytes_human(self.max_bytes)
        )))
    }
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
            planned(id, group, *case, &extent(case, pilot_commits(case)), site)
        })
        .collect()
}

fn pilot_commits(case: &Case) -> u64 {
    (PILOT.1 / per_commit(case)).clamp(2, PILOT.0)
}

fn per_commit(case: &Case) -> u64 {
    trial::Schedule::new(case, 0, u64::MAX).per_commit
}

/// Writes that make so many commits of a case, or one for each writer if that is more.
fn extent(case: &Case, commits: u64) -> Extent {
    let per_commit = per_commit(case);
    let iterations = commits.saturating_mul(per_commit).max(u64::from(case.writers) * 4);
    let warmup = (4 * per_commit).min(per_commit.max(16));
    Extent { iterations, warmup, capacity: None, at_end: AtEnd::Refuse }
}

/// Gives a case as many writes as fit its slice of time.
fn sized(case: &PlannedCase, pilot: Option<&Pilot>, slice: Duration, site: &Site) -> PlannedCase {
    let Some(pilot) = pilot else { return case.clone() };
    let time = slice.saturating_sub(pilot.overhead).as_nanos();
    let each = pilot.per_write.as_nanos().max(100).saturating_mul(per_commit(&case.case).into());
    let commits = u64::try_from(time / each).unwrap_or(COMMITS.1).clamp(COMMITS.0, COMMITS.1);
    planned(case.id.clone(), &case.group, case.case, &extent(&case.case, commits), site)
}

/// Takes writes from a case that would write more than `limit` bytes: large blocks would fill the
/// disk with what a minute can write. A commit is left of every case.
fn within_bytes(case: PlannedCase, limit: u64, site: &Site) -> PlannedCase {
    let per_commit = per_commit(&case.case);
    let most_writes = (limit / case.case.block).max(per_commit);
    if case.iterations <= most_writes {
        return case;
    }
    let fewer = extent(&case.case, (most_writes / per_commit).max(1));
    planned(case.id, &case.group, case.case, &fewer, site)
}

#[cfg(test)]
mod tests;
