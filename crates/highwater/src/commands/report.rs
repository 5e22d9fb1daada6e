//! `highwater report`: everything derived from a run, rebuilt from its data alone.

use anyhow::{Context, Result};
use highwater_engine_bench::reload;
use highwater_probe::analyse;
use highwater_report::run_dir::RunDir;

use super::{Ending, bench_engine, measured};
use crate::args::ReportArgs;
use crate::output;

/// Rebuilds the derived files and prints what they say.
pub fn run(args: &ReportArgs) -> Result<Ending> {
    let run_dir = RunDir::open(&args.run)?;
    if reload::is_ours(&args.run) {
        return bench_engine::report(&run_dir, args);
    }
    let data = run_dir.load().with_context(|| format!("cannot read {}", args.run.display()))?;
    let results = analyse::results(&data);
    measured::write_derived(&run_dir, &data, &results)?;
    if args.json {
        output::print(&output::json(&results)?)?;
    } else {
        let mut text = output::machine(&data.manifest.machine);
        text.push_str(&output::results(&data, &results));
        text.push_str(&output::warnings(&results));
        if let Some(advice) = &results.advice {
            text.push_str(&output::advice(advice, &results));
        }
        output::print(&text)?;
    }
    output::say(&format!("rebuilt {}/report.html", run_dir.path().display()));
    Ok(Ending::Done)
}
