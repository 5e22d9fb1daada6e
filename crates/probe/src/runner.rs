//! Runs a plan: rounds in which every case comes once, in rotated order, until there are enough.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use highwater_report::data::{
    Manifest, Outcome, PlannedCase, RoundRow, RunData, SCHEMA_VERSION, Samples, SeriesRow,
    StopReason,
};
use highwater_report::run_dir::RunDir;
use highwater_sys::time::nanos;

use crate::METHOD_VERSION;
use crate::error::{CaseError, ProbeError};
use crate::machine::host;
use crate::plan::Plan;
use crate::record;
use crate::site::Site;
use crate::trial::{self, Surroundings};
use crate::work_dir::WorkDir;

/// When to stop starting rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// After this many.
    Rounds(u32),
    /// At this moment, but not before so many are complete, and not after so many.
    Deadline {
        /// The moment.
        at: Instant,
        /// Fewest rounds.
        at_least: u32,
        /// Most rounds: what the run may write is announced for so many.
        at_most: u32,
    },
}

impl Until {
    /// Whether a round of this number, from 0, is to start now.
    fn wants(self, round: u32, now: Instant) -> bool {
        match self {
            Self::Rounds(count) => round < count,
            Self::Deadline { at, at_least, at_most } => {
                round < at_least || (round < at_most && now < at)
            }
        }
    }
}

/// Where in the run it is: for progress.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The case.
    pub planned: &'a PlannedCase,
    /// Round, from 0.
    pub round: u32,
    /// Rounds planned, where that is known.
    pub rounds: Option<u32>,
    /// Position in the round, from 0.
    pub position: usize,
    /// Cases in the round.
    pub cases: usize,
}

/// Told what happens; never while anything is timed.
pub trait Observer {
    /// A case is about to be prepared.
    fn case_started(&mut self, step: &Step<'_>);
    /// A case gave a number.
    fn case_measured(&mut self, step: &Step<'_>, row: &RoundRow);
    /// A case ended without one, for good.
    fn case_stopped(&mut self, step: &Step<'_>, reason: &StopReason);
}

/// What the run is called and how it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    /// Name of the run.
    pub name: String,
    /// The command as typed.
    pub command: Vec<String>,
    /// Version of the program.
    pub version: String,
    /// Start, RFC 3339, UTC.
    pub started: String,
}

/// Lays down what is known before the first case.
pub fn manifest(title: &Title, plan: &Plan, site: &Site) -> Manifest {
    Manifest {
        schema_version: SCHEMA_VERSION,
        method_version: METHOD_VERSION,
        highwater_version: title.version.clone(),
        name: title.name.clone(),
        preset: plan.preset.clone(),
        question: plan.question.clone(),
        started: title.started.clone(),
        command: title.command.clone(),
        directory: site.dir.display().to_string(),
        settings: plan.settings.clone(),
        machine: site.machine.clone(),
        groups: plan.groups.clone(),
        cases: plan.cases.clone(),
        planned_bytes: plan.total_bytes(),
    }
}

/// A run under way.
pub struct Runner<'a> {
    site: &'a Site,
    stop: &'a AtomicBool,
    run_dir: &'a mut RunDir,
    work: WorkDir,
    data: RunData,
    stopped: BTreeMap<String, StopReason>,
    begun: Instant,
    interrupted: bool,
}

impl<'a> Runner<'a> {
    /// Makes the working directory and writes the manifest.
    ///
    /// # Errors
    /// When the directory cannot be made or the manifest not be written.
    pub fn new(
        manifest: Manifest,
        site: &'a Site,
        run_dir: &'a mut RunDir,
        stop: &'a AtomicBool,
    ) -> Result<Self, ProbeError> {
        let work = WorkDir::create(&site.dir)?;
        run_dir.write_manifest(&manifest)?;
        let data = RunData {
            manifest,
            outcome: None,
            rounds: Vec::new(),
            series: Vec::new(),
            samples: BTreeMap::new(),
        };
        Ok(Self {
            site,
            stop,
            run_dir,
            work,
            data,
            stopped: BTreeMap::new(),
            begun: Instant::now(),
            interrupted: false,
        })
    }

    /// Takes over cases that ended for good before the first round; after a failure there is none.
    #[must_use]
    pub fn with_stopped(mut self, stopped: BTreeMap<String, StopReason>) -> Self {
        self.stopped = stopped;
        self
    }

    /// Runs all rounds, removes the working directory, writes the data and gives it.
    ///
    /// A case that fails is a result; so is a run that the user stopped.
    ///
    /// # Errors
    /// When the run directory cannot be written, or the working directory not be removed.
    pub fn run(mut self, until: Until, observer: &mut dyn Observer) -> Result<RunData, ProbeError> {
        let mut round = 0;
        while self.wants_round(round, until) {
            let rounds = if let Until::Rounds(count) = until { Some(count) } else { None };
            self.round(round, rounds, observer)?;
            round += 1;
        }
        self.finish(record::timestamp())
    }

    fn wants_round(&self, round: u32, until: Until) -> bool {
        // Where no case is left, rounds would go by without doing anything.
        until.wants(round, Instant::now())
            && !self.interrupted
            && !self.has_failed()
            && self.live().next().is_some()
    }

    /// Cases that still give numbers.
    fn live(&self) -> impl Iterator<Item = &PlannedCase> {
        let is_live = |planned: &&PlannedCase| {
            planned.refused.is_none() && !self.stopped.contains_key(&planned.id)
        };
        self.data.manifest.cases.iter().filter(is_live)
    }

    /// After a failed write or barrier nothing more is measured: the disk's word is worthless now.
    fn has_failed(&self) -> bool {
        self.stopped.values().any(|reason| matches!(reason, StopReason::Failed(_)))
    }

    fn round(
        &mut self,
        round: u32,
        rounds: Option<u32>,
        observer: &mut dyn Observer,
    ) -> Result<(), ProbeError> {
        let live: Vec<PlannedCase> = self.live().cloned().collect();
        for (position, index) in order(live.len(), round).into_iter().enumerate() {
            let planned = &live[index];
            let step = Step { planned, round, rounds, position, cases: live.len() };
            observer.case_started(&step);
            self.one_case(&step, observer)?;
            if self.interrupted || self.has_failed() {
                break;
            }
        }
        Ok(())
    }

    fn one_case(&mut self, step: &Step<'_>, observer: &mut dyn Observer) -> Result<(), ProbeError> {
        if self.stop.load(Ordering::Relaxed) {
            self.interrupted = true;
            return Ok(());
        }
        let around = Surroundings {
            chain: &self.site.chain,
            stop: self.stop,
            seed: self.data.manifest.settings.seed,
            memory_align: self.site.memory_align(),
        };
        let measured = match self.work.case_dir() {
            Ok(dir) => trial::run(step.planned, &dir, &around),
            Err(error) => Err(CaseError::Failed(error.to_string())),
        };
        match measured {
            Ok(measured) => {
                let started_ms =
                    nanos(measured.trace.started.duration_since(self.begun)) / 1_000_000;
                let row = record::row(step, started_ms, &measured);
                self.run_dir.append_round(&row)?;
                observer.case_measured(step, &row);
                self.data.series.extend(record::series(&row, &measured.trace));
                let samples = self.data.samples.entry(row.case_id.clone()).or_default();
                record::pool(samples, &measured.trace);
                self.data.rounds.push(row);
            }
            Err(CaseError::Interrupted) => self.interrupted = true,
            Err(CaseError::Unsupported(reason)) => {
                self.stop_case(step, StopReason::Unsupported(reason), observer);
            }
            Err(CaseError::Failed(reason)) => {
                self.stop_case(step, StopReason::Failed(reason), observer);
            }
        }
        Ok(())
    }

    /// Ends a case for good, and drops what it had measured: no number of a failed case is shown.
    fn stop_case(&mut self, step: &Step<'_>, reason: StopReason, observer: &mut dyn Observer) {
        observer.case_stopped(step, &reason);
        let id = &step.planned.id;
        self.data.samples.remove(id);
        self.data.series.retain(|row| row.case_id != *id);
        self.data.rounds.retain(|row| row.case_id != *id);
        self.stopped.insert(id.clone(), reason);
    }

    fn finish(mut self, ended: String) -> Result<RunData, ProbeError> {
        self.note_unreached();
        let outcome = Outcome {
            ended,
            interrupted: self.interrupted,
            stopped: self.stopped,
            warnings: surroundings_warnings(),
            harness_cost_ns: Some(trial::harness_cost_ns()),
        };
        // The data is written before the working directory is removed: what was measured is kept
        // even when the disk has gone.
        self.run_dir.finish(&outcome, &self.data.series, &self.data.samples)?;
        self.data.outcome = Some(outcome);
        self.work.close()?;
        Ok(self.data)
    }

    fn note_unreached(&mut self) {
        let why = if self.interrupted {
            "the run was stopped before this case".to_owned()
        } else {
            let failed = self.stopped.iter().find(|(_, r)| matches!(r, StopReason::Failed(_)));
            let Some((id, _)) = failed else { return };
            format!("the run ended when {id} failed")
        };
        for planned in &self.data.manifest.cases {
            let reached = self.data.samples.contains_key(&planned.id);
            if !reached && planned.refused.is_none() && !self.stopped.contains_key(&planned.id) {
                self.stopped.insert(planned.id.clone(), StopReason::NotRun(why.clone()));
            }
        }
    }
}

/// The order of `count` cases in a round: rotated from round to round, and backwards in every other
/// pair of rounds, so that no case always comes early, or always after the same other.
fn order(count: usize, round: u32) -> Vec<usize> {
    if count == 0 {
        return Vec::new();
    }
    let round = usize::try_from(round).expect("u32 fits usize");
    // Steps of about a third of the circle: a case meets its beginning, middle and end soon.
    let shift = (round * (count / 3 + 1)) % count;
    let mut indexes: Vec<usize> = (0..count).map(|position| (position + shift) % count).collect();
    if (round / 2) % 2 == 1 {
        indexes.reverse();
    }
    indexes
}

fn surroundings_warnings() -> Vec<String> {
    const BUSY_PERCENT: f64 = 20.0;
    match host::cpu_pressure_percent() {
        Some(percent) if percent > BUSY_PERCENT => vec![format!(
            "some task waited for a CPU in {percent:.0} % of the last 10 s: 4 ms steps in the \
             times may be scheduler ticks, not the disk"
        )],
        _ => Vec::new(),
    }
}

/// Gives a case's samples; empty ones for a case without any.
pub fn samples_of<'d>(data: &'d RunData, id: &str) -> Option<&'d Samples> {
    data.samples.get(id)
}

/// Rows of one case.
pub fn rounds_of<'d>(data: &'d RunData, id: &'d str) -> impl Iterator<Item = &'d RoundRow> {
    data.rounds.iter().filter(move |row| row.case_id == id)
}

/// Slices of one case.
pub fn series_of<'d>(data: &'d RunData, id: &'d str) -> impl Iterator<Item = &'d SeriesRow> {
    data.series.iter().filter(move |row| row.case_id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_holds_every_case_once_and_no_case_keeps_its_place() {
        for count in [1, 2, 3, 9, 12, 30] {
            let mut places = vec![std::collections::BTreeSet::new(); count];
            for round in 0..8 {
                let order = order(count, round);
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert_eq!(sorted, (0..count).collect::<Vec<_>>());
                for (position, index) in order.iter().enumerate() {
                    places[*index].insert(position);
                }
            }
            assert!(places.iter().all(|seen| seen.len() >= count.min(3)), "{count}: {places:?}");
        }
        assert!(order(0, 5).is_empty());
    }

    #[test]
    fn a_deadline_starts_neither_too_few_nor_too_many_rounds() {
        let now = Instant::now();
        let hour = std::time::Duration::from_secs(3600);
        let rounds = |at| {
            let until = Until::Deadline { at, at_least: 4, at_most: 20 };
            (0..100).take_while(|round| until.wants(*round, now)).count()
        };
        assert_eq!((rounds(now), rounds(now + hour)), (4, 20));
    }

    /// Runs a plan of one case without an observer.
    fn run(stopped: Option<StopReason>, until: Until) -> RunData {
        struct Blind;
        impl Observer for Blind {
            fn case_started(&mut self, _: &Step<'_>) {}
            fn case_measured(&mut self, _: &Step<'_>, _: &RoundRow) {}
            fn case_stopped(&mut self, _: &Step<'_>, _: &StopReason) {}
        }
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let runs = tempfile::tempdir().unwrap();
        let site = Site::open(dir.path()).unwrap();
        let by = crate::preset::Overrides {
            iterations: Some(2),
            seed: 1,
            ..crate::preset::Overrides::default()
        };
        let plan = crate::preset::Preset::named("custom").unwrap().plan(&by, &site).unwrap();
        let title = Title {
            name: "t".to_owned(),
            command: Vec::new(),
            version: "0".to_owned(),
            started: record::timestamp(),
        };
        let manifest = manifest(&title, &plan, &site);
        let id = manifest.cases[0].id.clone();
        let mut run_dir = RunDir::create(runs.path(), "t", "2026-11-30").unwrap();
        let never = AtomicBool::new(false);
        let runner = Runner::new(manifest, &site, &mut run_dir, &never).unwrap();
        let stopped = stopped.map(|reason| (id, reason)).into_iter().collect();
        runner.with_stopped(stopped).run(until, &mut Blind).unwrap()
    }

    #[test]
    fn where_no_case_is_left_the_run_ends_before_its_deadline() {
        let at = Instant::now() + std::time::Duration::from_secs(86_400);
        let day = Until::Deadline { at, at_least: 4, at_most: u32::MAX };
        for reason in [
            StopReason::Unsupported("not here".to_owned()),
            StopReason::Failed("fdatasync: EIO".to_owned()),
        ] {
            let data = run(Some(reason.clone()), day);
            let outcome = data.outcome.unwrap();
            assert!(data.rounds.is_empty() && !outcome.interrupted);
            assert_eq!(outcome.stopped.into_values().collect::<Vec<_>>(), [reason]);
        }
        assert_eq!(run(None, Until::Rounds(3)).rounds.len(), 3);
    }
}
