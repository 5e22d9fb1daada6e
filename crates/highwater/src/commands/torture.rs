//! `highwater torture`: campaigns that try to break the log.

mod keep;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use highwater_disk::Rng;
use highwater_disk::real::SystemRng;
use highwater_torture::sim::{self, Keep};
use highwater_torture::{
    Campaign, CampaignError, Layer, Program, Verdict, flip, full, kill, planted, real, serve,
    shutdown, small, syscall,
};
use indicatif::ProgressBar;

use super::Ending;
use crate::args::TortureArgs;
use crate::{output, stop};

/// Lines shown of what led to a failure.
const STORY_LINES: usize = 40;
/// Seeds of `sim` unless told otherwise.
const SEEDS: u64 = 1000;
/// Seeds within which `planted` has to catch each bug, unless told otherwise.
const SEEDS_PER_BUG: u64 = 500;
/// Of layer `flip`: one store after an orderly end, and one that was opened again.
const STORES: u64 = 2;
/// Lives of a process unless told otherwise.
const CYCLES: u64 = 100;
/// The hidden word that starts what dies.
const CHILD: &str = "torture-child";
/// The word that starts a server.
const SERVER: &str = "serve";

/// Runs a layer, prints what it found, and tells by the exit code.
pub fn run(args: &TortureArgs) -> Result<Ending> {
    check(args)?;
    let seed = args.seed.unwrap_or_else(|| if is_fresh(args.layer) { fresh_seed() } else { 0 });
    output::say(&format!("layer {}, seed {seed}", args.layer.name()));
    let kept = keep::Kept::begin(args, seed)?;
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    let ran = campaign(args, seed, &|done| bar.set_message(format!("{done} runs")));
    bar.finish_and_clear();
    let (verdict, stopped) = ran?;
    if args.layer == Layer::Sim && args.seeds == Some(1) && !verdict.held() {
        story(seed);
    }
    let text = if args.json {
        serde_json::to_string_pretty(&verdict)? + "\n"
    } else {
        verdict.to_string()
    };
    output::print(&text)?;
    if let Some(kept) = kept {
        kept.end(&verdict, stopped)?;
    }
    Ok(match (&verdict.not_run, verdict.held()) {
        (Some(_), _) => Ending::NotRun,
        (None, false) => Ending::Failed,
        (None, true) if stopped => Ending::Interrupted,
        (None, true) => Ending::Done,
    })
}

/// What dies.
pub fn child() -> Result<Ending> {
    let mut input = std::io::stdin().lock();
    match real::child::run(&mut input, std::io::stdout()) {
        Ok(()) => Ok(Ending::Done),
        Err(why) => bail!("{why}"),
    }
}

/// Whether a layer starts processes on a real directory.
fn is_real(layer: Layer) -> bool {
    matches!(layer, Layer::Kill | Layer::Shutdown | Layer::Syscall | Layer::Full | Layer::Serve)
}

/// Whether a layer draws its seed where none is given.
fn is_fresh(layer: Layer) -> bool {
    layer == Layer::Sim || is_real(layer)
}

fn check(args: &TortureArgs) -> Result<()> {
    let misfit = if is_real(args.layer) { args.seeds } else { args.cycles };
    if misfit.is_some() {
        bail!(
            "--cycles goes with kill, shutdown, syscall, full and serve; --seeds with the others"
        );
    }
    Ok(())
}

/// Runs the layer; gives whether it was stopped early, too.
fn campaign(args: &TortureArgs, seed: u64, progress: &dyn Fn(u64)) -> Result<(Verdict, bool)> {
    let verdict = match args.layer {
        Layer::Sim => sim::run(seed, args.seeds.unwrap_or(SEEDS), progress),
        Layer::Small => {
            let most = args.seeds.unwrap_or(u64::MAX);
            small::run(seed, most, small::Bounds::default(), progress)
        }
        Layer::Flip => flip::run(seed, args.seeds.unwrap_or(STORES), 1, progress),
        Layer::Planted => planted::run(seed, args.seeds.unwrap_or(SEEDS_PER_BUG), progress),
        Layer::Kill | Layer::Shutdown | Layer::Syscall | Layer::Full | Layer::Serve => {
            return real(args, seed, progress);
        }
    };
    Ok((verdict, false))
}

/// Ends this program in many ways, in a directory of its own.
fn real(args: &TortureArgs, seed: u64, progress: &dyn Fn(u64)) -> Result<(Verdict, bool)> {
    let dir = args.dir.as_deref().unwrap_or(Path::new("."));
    let dir = dir.canonicalize().with_context(|| format!("cannot use {}", dir.display()))?;
    let path = std::env::current_exe().context("cannot find this program")?;
    let stop = stop::on_signal()?;
    let begins = if args.layer == Layer::Serve { SERVER } else { CHILD };
    let mut campaign = Campaign {
        program: &Program { path, arguments: vec![begins.to_owned()] },
        dir: &dir,
        seed,
        cycles: args.cycles.unwrap_or(CYCLES),
        planted: None,
        stop: &stop,
        progress: &mut |done| progress(done),
    };
    let ran = match args.layer {
        Layer::Shutdown => shutdown::run(&mut campaign, args.fs),
        Layer::Syscall => syscall::run(&mut campaign),
        Layer::Full => full::run(&mut campaign, args.fs),
        Layer::Serve => serve::run(&mut campaign),
        _ => kill::run(&mut campaign),
    };
    let verdict = match ran {
        Ok(verdict) => verdict,
        Err(CampaignError::NotRun(why)) => Verdict::not_run(args.layer, why),
        Err(error) => return Err(error.into()),
    };
    Ok((verdict, stop.load(Ordering::Relaxed)))
}

/// Says what led to a failed seed.
fn story(seed: u64) {
    let (actions, _) = sim::retell(seed, None, Keep::Trace);
    for line in &actions[actions.len().saturating_sub(STORY_LINES)..] {
        output::say(line);
    }
}

/// A seed short enough to be typed again.
fn fresh_seed() -> u64 {
    SystemRng::new().next_u64() % 1_000_000_000
}
