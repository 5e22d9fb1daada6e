//! Each layer of `highwater torture`, small: with a seed that is always the same, so that what held
//! once is seen to hold still, and with a fresh one, which is printed with the command.
//!
//! What a layer lacks here (root, strace, a file system) it says itself; that is a gap and no pass.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::report::{StepReport, Tally, Verdict};
use crate::workspace::{Workspace, remove_folder};

/// Seconds after which a command is taken for stuck.
const LIMIT: &str = "240";
/// Exit code of a layer that cannot run here.
const NOT_RUN: i32 = 4;

/// One command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Smoke {
    layer: &'static str,
    seed: Seed,
    /// Its size, and further settings.
    settings: &'static [&'static str],
    place: Place,
}

/// Where a seed comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seed {
    Fixed(u64),
    /// Below a bound.
    Fresh(u64),
}

/// Whether a layer needs a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Memory,
    Directory,
}

/// Bound of a fresh seed that can be typed again.
const ANY: u64 = 1_000_000_000;

/// First history of `small` that reaches across lanes.
const ACROSS_LANES: u64 = 1884;

const SMOKES: [Smoke; 15] = [
    in_memory("sim", Seed::Fixed(0), &["--seeds", "1500"]),
    in_memory("sim", Seed::Fresh(ANY), &["--seeds", "1000"]),
    in_memory("small", Seed::Fixed(0), &["--seeds", "40"]),
    in_memory("small", Seed::Fresh(1800), &["--seeds", "10"]),
    in_memory("small", Seed::Fixed(ACROSS_LANES), &["--seeds", "10"]),
    in_memory("flip", Seed::Fresh(ANY), &["--seeds", "1"]),
    in_memory("planted", Seed::Fixed(0), &["--seeds", "1500"]),
    on_disk("kill", Seed::Fixed(1), &["--cycles", "8"]),
    on_disk("kill", Seed::Fresh(ANY), &["--cycles", "8"]),
    on_disk("shutdown", Seed::Fixed(1), &["--cycles", "3", "--fs", "ext4"]),
    on_disk("shutdown", Seed::Fresh(ANY), &["--cycles", "3", "--fs", "xfs"]),
    on_disk("shutdown", Seed::Fresh(ANY), &["--cycles", "3", "--fs", "btrfs"]),
    on_disk("syscall", Seed::Fixed(1), &["--cycles", "8"]),
    on_disk("syscall", Seed::Fresh(ANY), &["--cycles", "8"]),
    on_disk("full", Seed::Fresh(ANY), &["--cycles", "3"]),
];

const fn in_memory(layer: &'static str, seed: Seed, settings: &'static [&'static str]) -> Smoke {
    Smoke { layer, seed, settings, place: Place::Memory }
}

const fn on_disk(layer: &'static str, seed: Seed, settings: &'static [&'static str]) -> Smoke {
    Smoke { layer, seed, settings, place: Place::Directory }
}

/// Runs every command.
pub(super) fn run(workspace: &Workspace) -> Result<StepReport> {
    let dir = workspace.target.join("ci/torture");
    remove_folder(&dir)?;
    std::fs::create_dir_all(&dir).context("cannot create a folder to torture in")?;
    let mut report = StepReport::passed();
    report.tally = Tally::default();
    for smoke in &SMOKES {
        let arguments = smoke.arguments(fresh(), &dir);
        println!("    highwater {}", arguments.join(" "));
        let mut command = Command::new("timeout");
        command.arg("--kill-after=10").arg(LIMIT).arg(workspace.target.join("release/highwater"));
        let ended = command.args(&arguments).output().context("cannot start the release binary")?;
        let said = String::from_utf8_lossy(&ended.stdout);
        let verdict = judge(ended.status.code(), &said);
        if let Verdict::Failed = verdict {
            println!("{said}{}", String::from_utf8_lossy(&ended.stderr));
            report.notes.push(format!("{}: {}", arguments.join(" "), ended.status));
        } else {
            println!("    {}", said.lines().next().unwrap_or_default());
        }
        if let Verdict::NotRun = verdict {
            report.not_run.push(format!("torture, {}", reason(smoke.layer, &said)));
        }
        report.tally = report.tally.plus(Tally::of(verdict));
    }
    if report.tally.failed > 0 {
        report.verdict = Verdict::Failed;
    }
    Ok(report)
}

impl Smoke {
    /// The words behind the binary's name.
    fn arguments(&self, fresh: u64, dir: &Path) -> Vec<String> {
        let seed = match self.seed {
            Seed::Fixed(seed) => seed,
            Seed::Fresh(bound) => fresh % bound,
        };
        let seed = seed.to_string();
        let mut arguments = vec!["torture", "--layer", self.layer, "--seed", &seed];
        arguments.extend(self.settings);
        let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        if self.place == Place::Directory {
            arguments.extend(["--dir".to_owned(), dir.display().to_string()]);
        }
        arguments
    }
}

/// What an exit code says; a layer that did nothing has not passed.
fn judge(code: Option<i32>, said: &str) -> Verdict {
    let did_nothing = said.lines().any(|line| line.contains(": 0 runs, "));
    match code {
        Some(0) if !did_nothing => Verdict::Passed,
        Some(NOT_RUN) => Verdict::NotRun,
        _ => Verdict::Failed,
    }
}

/// Why a layer did not run, in its own words.
fn reason(layer: &str, said: &str) -> String {
    let told = said.lines().find_map(|line| line.strip_prefix("NOT RUN: "));
    told.map_or_else(|| format!("{layer}: it does not say why"), ToOwned::to_owned)
}

/// A seed that nobody has chosen.
fn fresh() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_is_there_and_each_command_can_be_repeated() {
        let layers = ["sim", "small", "flip", "planted", "kill", "shutdown", "syscall", "full"];
        for layer in layers {
            assert!(SMOKES.iter().any(|smoke| smoke.layer == layer), "{layer}");
        }
        for smoke in SMOKES {
            let arguments = smoke.arguments(7, Path::new("d"));
            assert_eq!(arguments, smoke.arguments(7, Path::new("d")));
            assert!(arguments.windows(2).any(|two| two[0] == "--seed" && !two[1].is_empty()));
        }
    }

    #[test]
    fn what_did_not_run_and_what_did_nothing_are_no_passes() {
        assert_eq!(judge(Some(0), "sim: 10 runs, 0 failed"), Verdict::Passed);
        assert_eq!(judge(Some(0), "sim: 0 runs, 0 failed"), Verdict::Failed);
        assert_eq!(judge(Some(1), "sim: 10 runs, 1 failed"), Verdict::Failed);
        assert_eq!(judge(None, ""), Verdict::Failed);
        let said = "NOT RUN: full: not root\n";
        assert_eq!(judge(Some(4), said), Verdict::NotRun);
        assert_eq!(reason("full", said), "full: not root");
    }
}
