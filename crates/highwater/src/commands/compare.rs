//! `highwater compare`: two runs side by side.

use std::path::Path;

use anyhow::{Context, Result, bail};
use highwater_engine_bench::reload;
use highwater_probe::analyse;
use highwater_probe::analyse::compare::Terms;
use highwater_probe::analyse::runs::{RunComparison, Side, compare};
use highwater_report::data::RunData;
use highwater_report::grid::{Cell, Table};
use highwater_report::run_dir::RunDir;
use highwater_stats::{Verdict, units};

use super::Ending;
use crate::args::CompareArgs;
use crate::output;

/// Compares, prints, and ends with 1 when something is slower.
pub fn run(args: &CompareArgs) -> Result<Ending> {
    if !(0.0..100.0).contains(&args.threshold) {
        bail!("--threshold takes 0 to 100 percent; {} is outside", args.threshold);
    }
    let terms = Terms { threshold: args.threshold / 100.0, ..Terms::by(args.measure.into()) };
    let (baseline, candidate) = (load(&args.baseline)?, load(&args.candidate)?);
    let (old, new) = (analyse::results(&baseline), analyse::results(&candidate));
    let found = compare(
        Side { data: &baseline, results: &old },
        Side { data: &candidate, results: &new },
        &terms,
    )?;
    if args.json {
        output::print(&(serde_json::to_string_pretty(&found)? + "\n"))?;
    } else {
        output::print(&text(&found, &terms))?;
    }
    Ok(if found.has_slower() { Ending::Failed } else { Ending::Done })
}

fn load(path: &Path) -> Result<RunData> {
    if reload::is_ours(path) {
        bail!(
            "{} is a run of the preset engine, whose subjects are compared within the run; \
             `highwater report` shows them",
            path.display()
        );
    }
    RunDir::open(path)
        .and_then(|run| run.load())
        .with_context(|| format!("cannot read the run {}", path.display()))
}

fn text(found: &RunComparison, terms: &Terms) -> String {
    let mut table = Table::new(&[
        ("case", ""),
        ("baseline", ""),
        ("candidate", ""),
        ("ratio", ""),
        ("95 % interval", ""),
        ("rounds", ""),
        ("answer", ""),
    ])
    .with_words_in(&[0, 6]);
    for case in &found.cases {
        let ratio = &case.comparison.ratio;
        table.row(vec![
            Cell::new(case.label.clone()),
            Cell::new(units::duration_ns(case.baseline_ns)),
            Cell::new(units::duration_ns(case.candidate_ns)),
            Cell::new(format!("{:.3}", ratio.ratio)),
            Cell::new(format!("{:.3} to {:.3}", ratio.low, ratio.high)),
            Cell::new(ratio.pairs.to_string()),
            Cell::new(answer(case.comparison.verdict)),
        ]);
    }
    for reason in &found.left_out {
        table.note(format!("left out: {reason}"));
    }
    for difference in &found.differences {
        table.note(format!("differs: {difference}"));
    }
    format!(
        "{} against {} by {}; differences below {:.1} % do not matter\n{}",
        found.candidate,
        found.baseline,
        terms.measure.as_str(),
        terms.threshold * 100.0,
        table.to_text()
    )
}

fn answer(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "SLOWER",
        Verdict::NoDifference => "no difference",
        Verdict::Inconclusive => "not settled: more rounds",
    }
}
