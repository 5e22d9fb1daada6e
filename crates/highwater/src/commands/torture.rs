//! `highwater torture`: campaigns that try to break the log.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use highwater_disk::Rng;
use highwater_disk::real::SystemRng;
use highwater_torture::kill::{self, Program};
use highwater_torture::sim::{self, Keep};
use highwater_torture::{Layer, Verdict, flip, planted, small};
use indicatif::ProgressBar;

use super::Ending;
use crate::args::TortureArgs;
use crate::output;

/// Lines shown of what led to a failure.
const STORY_LINES: usize = 40;
/// Seeds of `sim` unless told otherwise.
const SEEDS: u64 = 1000;
/// Seeds within which `planted` has to catch each bug, unless told otherwise.
const SEEDS_PER_BUG: u64 = 500;
/// Lives of `kill` unless told otherwise.
const CYCLES: u64 = 100;
/// The hidden word that `kill` starts.
const CHILD: &str = "torture-child";

/// Runs a layer, prints what it found, and tells by the exit code.
pub fn run(args: &TortureArgs) -> Result<Ending> {
    if args.cycles.is_some() != (args.layer == Layer::Kill) && args.cycles.or(args.seeds).is_some()
    {
        bail!("--cycles goes with --layer kill, --seeds with the others");
    }
    let fresh = matches!(args.layer, Layer::Sim | Layer::Kill);
    let seed = args.seed.unwrap_or_else(|| if fresh { fresh_seed() } else { 0 });
    output::say(&format!("layer {}, seed {seed}", args.layer.name()));
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    let progress = |done: u64| bar.set_message(format!("{done} runs"));
    let verdict = match args.layer {
        Layer::Sim => sim::run(seed, args.seeds.unwrap_or(SEEDS), progress),
        Layer::Small => {
            let most = args.seeds.unwrap_or(u64::MAX);
            small::run(seed, most, small::Bounds::default(), progress)
        }
        Layer::Flip => flip::run(seed, args.seeds.unwrap_or(1), 1, progress),
        Layer::Planted => planted::run(seed, args.seeds.unwrap_or(SEEDS_PER_BUG), progress),
        Layer::Kill => {
            let dir = args.dir.as_deref().context("kill needs --dir")?;
            killed(dir, (seed, args.cycles.unwrap_or(CYCLES)), progress)?
        }
    };
    bar.finish_and_clear();
    if args.layer == Layer::Sim && args.seeds == Some(1) && !verdict.held() {
        story(seed);
    }
    let text = if args.json {
        serde_json::to_string_pretty(&verdict)? + "\n"
    } else {
        verdict.to_string()
    };
    output::print(&text)?;
    Ok(if verdict.held() { Ending::Done } else { Ending::Failed })
}

/// What `kill` kills.
pub fn child() -> Result<Ending> {
    let mut input = std::io::stdin().lock();
    match kill::child::run(&mut input, &mut std::io::stdout()) {
        Ok(()) => Ok(Ending::Done),
        Err(why) => bail!("{why}"),
    }
}

/// Kills this program in a directory of its own; what failed is kept.
fn killed(dir: &Path, (seed, cycles): (u64, u64), progress: impl FnMut(u64)) -> Result<Verdict> {
    let own: PathBuf = dir.join(format!("highwater-kill-{seed}"));
    std::fs::create_dir(&own).with_context(|| format!("cannot create {}", own.display()))?;
    let path = std::env::current_exe().context("cannot find this program")?;
    let program = Program { path, arguments: vec![CHILD.to_owned()] };
    let verdict = kill::run(&program, &own, (seed, cycles), progress)?;
    if verdict.held() {
        let removed = std::fs::remove_dir_all(&own);
        removed.with_context(|| format!("cannot remove {}", own.display()))?;
    }
    Ok(verdict)
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
