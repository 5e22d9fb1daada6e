//! A run from its announcement to the files it leaves.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use highwater_probe::error::ProbeError;
use highwater_probe::site::Site;
use highwater_probe::timestamp;
use highwater_report::run_dir::{OUTCOME, RESULTS, RunDir, check_name};
use highwater_stats::units;
use serde::Serialize;

use crate::data::{Manifest, Outcome, SCHEMA_VERSION, Stopped};
use crate::measure::Around;
use crate::plan::Plan;
use crate::results::{Results, results};
use crate::runner::{self, Data, Key, Observer};

/// Name of the preset.
pub const PRESET: &str = "engine";

/// What a run is called, and how it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    /// Name of the run.
    pub name: String,
    /// The command as typed.
    pub command: Vec<String>,
    /// Version of the program.
    pub version: String,
}

/// A run that can begin.
pub struct Session<'a> {
    /// What it does.
    pub plan: &'a Plan,
    /// Where.
    pub site: &'a Site,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// What it is called.
    pub title: Title,
    /// Where run directories are kept.
    pub runs: &'a Path,
}

/// A run that has ended.
#[derive(Debug)]
pub struct Ended {
    /// What it says.
    pub results: Results,
    /// Whether something failed: there is no number of it, and the run ended there.
    pub has_failed: bool,
    /// Its directory.
    pub path: PathBuf,
}

impl Session<'_> {
    /// Checks that there is room, and that no more is written than allowed.
    ///
    /// # Errors
    /// [`ProbeError::TooLarge`] that says what to change; a name that cannot be used.
    pub fn check(&self, max_bytes: u64) -> Result<(), ProbeError> {
        check_name(&self.title.name)?;
        let (peak, total) = (self.plan.peak_bytes(), self.plan.total_bytes());
        let free = self.site.machine.filesystem.free_bytes;
        if total > max_bytes {
            return Err(ProbeError::TooLarge(format!(
                "the run may write {}, more than the {} allowed: allow more with --max-bytes, or \
                 shorten it with --seconds, --rounds, --streams or --only",
                units::bytes_human(total),
                units::bytes_human(max_bytes)
            )));
        }
        if peak > free {
            return Err(ProbeError::TooLarge(format!(
                "one measurement may need {} at once, and {} are free below {}: free some space, \
                 or shorten it with --seconds or --streams",
                units::bytes_human(peak),
                units::bytes_human(free),
                self.site.dir.display()
            )));
        }
        Ok(())
    }

    /// Says what will be written.
    pub fn announcement(&self) -> String {
        format!(
            "{} measurements in {} rounds; writes at most {} below {} ({} at once, {} free)",
            self.plan.measurements(),
            self.plan.rounds,
            units::bytes_human(self.plan.total_bytes()),
            self.site.dir.display(),
            units::bytes_human(self.plan.peak_bytes()),
            units::bytes_human(self.site.machine.filesystem.free_bytes),
        )
    }

    /// Runs, and leaves a run directory.
    ///
    /// # Errors
    /// When the run directory cannot be written, or the working directory not be made or removed.
    pub fn run(&self, observer: &mut dyn Observer) -> Result<Ended, ProbeError> {
        let started = timestamp();
        let date = started.get(..10).unwrap_or_default();
        let mut run_dir = RunDir::create(self.runs, &self.title.name, date)?;
        let manifest = self.manifest(started);
        let limits = self.plan.limits;
        let around = Around { chain: &self.site.chain, stop: self.stop, limits };
        let data = runner::run(self.plan, &manifest, &around, &mut run_dir, observer)?;
        for (key, latency) in &data.latency {
            run_dir.write_derived(&samples_name(key), &latency.to_bytes())?;
        }
        run_dir.write_derived(OUTCOME, pretty(&outcome(&data)).as_bytes())?;
        let results = results(&manifest, &data);
        run_dir.write_derived(RESULTS, json(&results).as_bytes())?;
        Ok(Ended { results, has_failed: data.has_failed, path: run_dir.path().to_owned() })
    }

    fn manifest(&self, started: String) -> Manifest {
        Manifest {
            schema_version: SCHEMA_VERSION,
            highwater_version: self.title.version.clone(),
            name: self.title.name.clone(),
            preset: PRESET.to_owned(),
            started,
            command: self.title.command.clone(),
            directory: self.site.dir.display().to_string(),
            machine: self.site.machine.clone(),
            rounds: self.plan.rounds,
            seconds: self.plan.limits.measured.as_secs_f64(),
            seed: self.plan.limits.seed,
            most_case_bytes: self.plan.limits.most_bytes,
            baseline: self.plan.baseline.to_owned(),
            cases: runner::planned(self.plan),
            scenes: runner::planned_scenes(self.plan),
            most_bytes: self.plan.total_bytes(),
        }
    }
}

/// Name of the file of a subject's latencies in a case.
pub(crate) fn samples_name((case_id, subject): &Key) -> String {
    format!("{case_id}.{subject}.hdr")
}

fn outcome(data: &Data) -> Outcome {
    let stopped = data.stopped.iter().map(|((id, subject), reason)| Stopped {
        id: id.clone(),
        subject: subject.clone(),
        reason: reason.clone(),
    });
    Outcome {
        ended: timestamp(),
        interrupted: data.was_interrupted,
        has_failed: data.has_failed,
        stopped: stopped.collect(),
        loop_cost_ns: data.loop_cost_ns,
    }
}

/// Results as JSON for machines.
pub fn json(results: &Results) -> String {
    pretty(results)
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("keys are strings, so it is JSON") + "\n"
}
