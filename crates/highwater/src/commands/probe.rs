//! `highwater probe`: the tour with a verdict.

use anyhow::Result;
use highwater_probe::runner::Until;
use highwater_probe::tour::{self, FEWEST_ROUNDS};
use highwater_report::data::Settings;
use highwater_stats::units;

use super::Ending;
use super::measured::{self, Before, Ready};
use crate::args::ProbeArgs;
use crate::{output, stop};

/// Measures, prints, and leaves a run directory.
pub fn run(args: &ProbeArgs, typed: Vec<String>) -> Result<Ending> {
    let stop = stop::on_signal()?;
    let site = measured::open_site(&args.directory, &args.run)?;
    if !args.run.json {
        output::print(&output::machine(&site.machine))?;
    }
    let settings = Settings {
        rounds: 0,
        seconds: Some(args.seconds),
        seed: args.run.seed,
        max_bytes: Some(args.run.max_bytes),
    };
    let draft = tour::draft(&site, args.seconds, &settings)?;
    output::say(&format!(
        "{} write paths; trying each briefly writes {} below {}, and the whole tour {} at most",
        draft.cases(),
        units::bytes_human(draft.bytes()),
        site.dir.display(),
        units::bytes_human(draft.most_bytes(&site)),
    ));
    let tour = draft.try_out(&site, &stop)?;
    let until = Until::Deadline {
        at: tour.deadline,
        at_least: FEWEST_ROUNDS,
        at_most: tour.plan.settings.rounds,
    };
    let before = Before { bytes: tour.tried_bytes, stopped: tour.stopped };
    let ready = Ready { plan: &tour.plan, site: &site, until, stop: &stop, typed, before };
    let ran = measured::run(ready, &args.run)?;
    if args.run.json {
        output::print(&output::json(&ran.results)?)?;
    } else {
        let mut text = output::glance(&ran.data, &ran.results);
        text.push_str(&output::warnings(&ran.results));
        if let Some(advice) = &ran.results.advice {
            text.push_str(&output::advice(advice, &ran.results));
        }
        output::print(&text)?;
    }
    Ok(measured::conclude(&ran))
}
