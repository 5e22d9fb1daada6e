//! `highwater bench`: named slices of the matrix, or products of its dimensions.

use anyhow::{Context, Result};
use highwater_engine_bench::session;
use highwater_probe::preset::Preset;
use highwater_probe::runner::Until;

use super::csv::NewCsv;
use super::measured::{self, Before, Ready};
use super::{Ending, bench_engine};
use crate::args::BenchArgs;
use crate::{output, stop};

/// Measures, prints, and leaves a run directory.
pub fn run(args: &BenchArgs, typed: Vec<String>) -> Result<Ending> {
    if args.preset == session::PRESET {
        return bench_engine::run(args, typed);
    }
    args.check_other_preset()?;
    let stop = stop::on_signal()?;
    let site = measured::open_site(&args.directory, &args.run)?;
    let preset = Preset::named(&args.preset).context("an unknown preset")?;
    let plan = preset.plan(&args.overrides(), &site)?;
    plan.check(&site)?;
    if !args.run.json {
        output::print(&output::machine(&site.machine))?;
    }
    let csv = args.csv.as_deref().map(NewCsv::create).transpose()?;
    let until = Until::Rounds(plan.settings.rounds);
    let ready =
        Ready { plan: &plan, site: &site, until, stop: &stop, typed, before: Before::default() };
    let ran = measured::run(ready, &args.run)?;
    if let Some(csv) = csv {
        csv.fill(&ran)?;
    }
    if args.run.json {
        output::print(&output::json(&ran.results)?)?;
    } else {
        let mut text = output::results(&ran.data, &ran.results);
        text.push_str(&output::warnings(&ran.results));
        output::print(&text)?;
    }
    Ok(measured::conclude(&ran))
}
