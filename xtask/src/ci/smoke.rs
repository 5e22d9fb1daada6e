//! The instruments, small, end to end: the release binary measures a folder below `target`.
//!
//! Times are not judged: a shared machine has none worth judging. What is judged is that every
//! command ends well and that its run left results.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::steps::succeeds;
use crate::report::{StepReport, Verdict};
use crate::workspace::{Workspace, remove_folder};

/// One command of the binary on a folder to measure.
struct Smoke {
    /// Name of the run that it leaves.
    name: &'static str,
    /// The word and its settings; where it measures and what it leaves are added.
    arguments: &'static [&'static str],
}

const SMOKES: [Smoke; 2] = [
    Smoke {
        name: "commit",
        arguments: &["bench", "--preset", "commit", "--iterations", "50", "--rounds", "3"],
    },
    Smoke { name: "probe", arguments: &["probe", "--seconds", "5"] },
];

/// Seconds after which a command is taken for stuck.
const LIMIT: &str = "180";

/// Where the smoke runs are kept.
pub(super) fn runs_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("ci/smoke/runs")
}

/// Runs every command.
pub(super) fn run(workspace: &Workspace) -> Result<StepReport> {
    let runs = runs_folder(workspace);
    let measured = workspace.target.join("ci/smoke/measured");
    for folder in [&runs, &measured] {
        remove_folder(folder)?;
        std::fs::create_dir_all(folder).context("cannot create a folder for the smoke runs")?;
    }
    let mut findings = Vec::new();
    for smoke in &SMOKES {
        let mut command = Command::new("timeout");
        command.arg("--kill-after=10").arg(LIMIT).arg(workspace.target.join("release/highwater"));
        command.args(smoke.arguments).arg("--quiet").args(["--name", smoke.name]);
        command.arg("--runs").arg(&runs).arg(&measured);
        println!("    highwater {}", smoke.arguments.join(" "));
        let report = succeeds(&mut command)?;
        if report.verdict == Verdict::Failed {
            findings.extend(report.notes);
        } else if !left_a_run(&runs, smoke.name)? {
            findings.push(format!("{}: the run left no results", smoke.name));
        }
    }
    if std::fs::read_dir(&measured)?.next().is_some() {
        findings.push(format!("{}: something was left behind", workspace.shown(&measured)));
    }
    Ok(StepReport::from_findings(findings))
}

/// Whether a run directory `<date>-<name>` holds results and a report.
fn left_a_run(runs: &Path, name: &str) -> Result<bool> {
    let suffix = format!("-{name}");
    for entry in std::fs::read_dir(runs)? {
        let path = entry?.path();
        let is_named = path.to_string_lossy().ends_with(&suffix);
        if is_named && path.join("results.json").is_file() && path.join("report.html").is_file() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_counts_only_with_its_results_and_its_report() {
        let runs = std::env::temp_dir().join(format!("highwater-smoke-{}", std::process::id()));
        let run = runs.join("2026-11-30-probe");
        std::fs::create_dir_all(&run).unwrap();
        assert!(!left_a_run(&runs, "probe").unwrap());
        std::fs::write(run.join("results.json"), "{}").unwrap();
        std::fs::write(run.join("report.html"), "").unwrap();
        assert!(left_a_run(&runs, "probe").unwrap());
        assert!(!left_a_run(&runs, "commit").unwrap());
        std::fs::remove_dir_all(&runs).unwrap();
    }
}
