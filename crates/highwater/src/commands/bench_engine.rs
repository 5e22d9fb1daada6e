//! `highwater bench --preset engine`: the log, driven in this process, beside a bare file.

use anyhow::Result;
use highwater_engine_bench::plan::Plan;
use highwater_engine_bench::results::results;
use highwater_engine_bench::session::{PRESET, Session, Title, json};
use highwater_engine_bench::{reload, table};
use highwater_report::run_dir::{RESULTS, RunDir};

use super::{Ending, measured};
use crate::args::{BenchArgs, ReportArgs};
use crate::progress::{EngineProgress, Show};
use crate::{output, stop};

/// Measures, prints, and leaves a run directory.
pub fn run(args: &BenchArgs, typed: Vec<String>) -> Result<Ending> {
    let stop = stop::on_signal()?;
    let wishes = args.wishes()?;
    let plan = Plan::new(&wishes, &args.choice())?;
    let site = measured::open_site(&args.directory, &args.run)?;
    let title = Title {
        name: args.run.name.clone().unwrap_or_else(|| PRESET.to_owned()),
        command: typed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let session = Session { plan: &plan, site: &site, stop: &stop, title, runs: &args.run.runs };
    session.check(args.run.max_bytes)?;
    if !args.run.json {
        output::print(&output::machine(&site.machine))?;
    }
    output::say(&session.announcement());
    let show = if args.run.quiet { Show::Nothing } else { Show::Progress };
    let mut progress = EngineProgress::new(show);
    let ended = session.run(&mut progress);
    progress.finish();
    let ended = ended?;
    if args.run.json {
        output::print(&json(&ended.results))?;
    } else {
        output::print(&table::tables(&ended.results))?;
    }
    output::say(&format!("\nkept in {}", ended.path.display()));
    if ended.has_failed {
        output::say("a case failed; the run ended there, and no figure of it is shown");
        return Ok(Ending::Failed);
    }
    if ended.results.was_interrupted {
        output::say("stopped early: what was measured until then is kept");
        return Ok(Ending::Interrupted);
    }
    Ok(Ending::Done)
}

/// Rebuilds what a kept run says, and prints it.
pub fn report(run_dir: &RunDir, args: &ReportArgs) -> Result<Ending> {
    let kept = reload::load(run_dir.path())?;
    let results = results(&kept.manifest, &kept.data);
    run_dir.replace_derived(RESULTS, json(&results).as_bytes())?;
    if args.json {
        output::print(&json(&results))?;
    } else {
        let mut text = output::machine(&results.manifest.machine);
        text.push_str(&table::tables(&results));
        output::print(&text)?;
    }
    output::say(&format!("rebuilt {}/{RESULTS}", run_dir.path().display()));
    Ok(Ending::Done)
}
