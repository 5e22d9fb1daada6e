//! What `probe` and `bench` share: the place, the run directory, the rounds, what stays and shows.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use highwater_probe::advice::profile::Profile;
use highwater_probe::plan::Plan;
use highwater_probe::runner::{Runner, Title, Until, manifest};
use highwater_probe::site::Site;
use highwater_probe::{analyse, timestamp};
use highwater_report::data::{RunData, StopReason};
use highwater_report::html::report_html;
use highwater_report::results::Results;
use highwater_report::run_dir::{RunDir, check_name};
use highwater_stats::units;

use super::Ending;
use crate::args::RunArgs;
use crate::output;
use crate::progress::{Progress, Show};

/// Looks at the directory, and says what was found of runs that died.
pub fn open_site(directory: &Path, run: &RunArgs) -> Result<Site> {
    if let Some(name) = &run.name {
        check_name(name)?;
    }
    let site = Site::open(directory)?;
    for path in &site.reaped.removed {
        output::say(&format!("removed what a run that died had left: {}", path.display()));
    }
    for (path, reason) in &site.reaped.kept {
        output::say(&format!("left alone {}: {reason}", path.display()));
    }
    if cfg!(debug_assertions) {
        output::say("this build is not optimised: the harness itself costs more. Use --release.");
    }
    Ok(site)
}

/// A run ready to start.
pub struct Ready<'a> {
    /// What it does.
    pub plan: &'a Plan,
    /// Where.
    pub site: &'a Site,
    /// For how long.
    pub until: Until,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// The command as typed.
    pub typed: Vec<String>,
    /// What was done to plan it.
    pub before: Before,
}

/// What was written and found before the first round.
#[derive(Debug, Default)]
pub struct Before {
    /// Bytes written, set-up included.
    pub bytes: u64,
    /// Cases that ended for good.
    pub stopped: BTreeMap<String, StopReason>,
}

/// A run that has ended.
pub struct Ran {
    /// Its data.
    pub data: RunData,
    /// What they say.
    pub results: Results,
    /// Where they are kept.
    pub run_dir: RunDir,
}

/// Says what will be written, runs, and leaves the run directory complete.
pub fn run(ready: Ready<'_>, args: &RunArgs) -> Result<Ran> {
    let name = args.name.clone().unwrap_or_else(|| ready.plan.preset.clone());
    let started = timestamp();
    std::fs::create_dir_all(&args.runs)
        .with_context(|| format!("cannot make {} for run directories", args.runs.display()))?;
    let date = started.get(..10).unwrap_or_default();
    let mut run_dir = RunDir::create(&args.runs, &name, date)?;
    announce(&ready, &run_dir);
    let title = Title {
        name,
        command: ready.typed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started,
    };
    let mut manifest = manifest(&title, ready.plan, ready.site);
    manifest.planned_bytes = manifest.planned_bytes.saturating_add(ready.before.bytes);
    let deadline = if let Until::Deadline { at, .. } = ready.until { Some(at) } else { None };
    let show = if args.quiet { Show::Nothing } else { Show::Progress };
    let mut progress = Progress::new(show, deadline);
    let runner = Runner::new(manifest, ready.site, &mut run_dir, ready.stop)?;
    let data = runner.with_stopped(ready.before.stopped).run(ready.until, &mut progress);
    progress.finish();
    let data = data?;
    let results = analyse::results(&data);
    write_derived(&run_dir, &data, &results)?;
    Ok(Ran { data, results, run_dir })
}

/// Writes what is derived from a run's data, anew if it is there.
pub fn write_derived(run_dir: &RunDir, data: &RunData, results: &Results) -> Result<()> {
    run_dir.replace_derived("results.json", output::json(results)?.as_bytes())?;
    run_dir.replace_derived("report.html", report_html(data, results).as_bytes())?;
    if let Some(profile) = Profile::of(data, results) {
        run_dir.replace_derived("profile.toml", profile.to_toml().as_bytes())?;
    }
    Ok(())
}

/// Says how the run ended, and where it is kept.
pub fn conclude(ran: &Ran) -> Ending {
    let path = ran.run_dir.path().display();
    output::say(&format!("\nkept in {path}; the report is {path}/report.html"));
    let outcome = ran.data.outcome.as_ref();
    let failed = outcome.and_then(|outcome| {
        let is_failed =
            |(_, reason): &(&String, &StopReason)| matches!(reason, StopReason::Failed(_));
        outcome.stopped.iter().find(is_failed)
    });
    if let Some((id, reason)) = failed {
        let case = ran.results.cases.iter().find(|case| case.id == *id);
        let label = case.map_or(id.as_str(), |case| &case.label);
        let why = if let StopReason::Failed(why) = reason { why } else { "" };
        output::say(&format!(
            "a case failed: {label}: {why}\nrows of its earlier rounds stay in rounds.csv; no \
             result and no other file holds a figure of it"
        ));
        Ending::Failed
    } else if outcome.is_some_and(|outcome| outcome.interrupted) {
        output::say("stopped early: what was measured until then is kept");
        Ending::Interrupted
    } else {
        Ending::Done
    }
}

fn announce(ready: &Ready<'_>, run_dir: &RunDir) {
    let (plan, site) = (ready.plan, ready.site);
    let refused = plan.cases.len() - plan.runnable().count();
    let refused = if refused > 0 { format!(", {refused} refused") } else { String::new() };
    output::say(&format!(
        "{} cases{refused}, up to {} rounds; writes up to {} below {} ({} at once, {} free); run \
         directory {}",
        plan.runnable().count(),
        plan.settings.rounds,
        units::bytes_human(plan.total_bytes()),
        site.dir.display(),
        units::bytes_human(plan.peak_bytes()),
        units::bytes_human(site.machine.filesystem.free_bytes),
        run_dir.path().display()
    ));
}
