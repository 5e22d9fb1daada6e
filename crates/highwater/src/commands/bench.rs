//! `highwater bench`: named slices of the matrix, or products of its dimensions.

use std::path::Path;

use anyhow::{Context, Result, bail};
use highwater_probe::preset::Preset;
use highwater_probe::runner::Until;

use super::Ending;
use super::measured::{self, Ready};
use crate::args::BenchArgs;
use crate::{output, stop};

/// Measures, prints, and leaves a run directory.
pub fn run(args: &BenchArgs, typed: Vec<String>) -> Result<Ending> {
    let stop = stop::on_signal()?;
    if let Some(csv) = &args.csv {
        refuse_existing(csv)?;
    }
    let site = measured::open_site(&args.directory, &args.run)?;
    let preset = Preset::named(&args.preset).context("an unknown preset")?;
    let plan = preset.plan(&args.overrides(), &site)?;
    plan.check(&site)?;
    if !args.run.json {
        output::print(&output::machine(&site.machine))?;
    }
    let until = Until::Rounds(plan.settings.rounds);
    let ready = Ready { plan: &plan, site: &site, until, stop: &stop, typed };
    let ran = measured::run(ready, &args.run)?;
    if let Some(csv) = &args.csv {
        copy_new(&ran.run_dir.path().join("rounds.csv"), csv)?;
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

/// Refuses before an hour of measuring rather than after it.
fn refuse_existing(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        bail!("{} exists, and is not overwritten: name a new file for --csv", path.display());
    }
    Ok(())
}

fn copy_new(from: &Path, to: &Path) -> Result<()> {
    let rows = match std::fs::read(from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        read => read.with_context(|| format!("cannot read {}", from.display()))?,
    };
    let mut file = std::fs::File::create_new(to)
        .with_context(|| format!("cannot create {} for --csv", to.display()))?;
    std::io::Write::write_all(&mut file, &rows)
        .with_context(|| format!("cannot write {}", to.display()))
}
