//! Everything that continuous integration runs, in order, with one line of outcome for each step.
//!
//! A step that fails does not keep later ones from running. What cannot run here is named with its
//! reason and counted as skipped; the last line is `N passed, N failed`, `, N skipped` behind it
//! where something was.

mod cargo_test;
pub(crate) mod conformance;
mod loom;
mod smoke;
mod steps;
pub(crate) mod tools;
mod torture;

use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::report::{StepReport, Tally, Verdict};
use crate::workspace::Workspace;

/// One step, in the order they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Step {
    /// Find, or install, what the others need.
    Tools,
    /// Formatting.
    Fmt,
    /// Lints.
    Clippy,
    /// Sizes, headers, links, words, invariant numbers.
    Tidy,
    /// Who imports whom.
    Layers,
    /// The release binary.
    Build,
    /// Tests and doc tests.
    Test,
    /// What is built on request only: lints and tests.
    Features,
    /// Models of threads, in every order.
    Loom,
    /// Documentation, with its links.
    Docs,
    /// The instruments, small, end to end.
    Smoke,
    /// Each layer of the torture campaigns, small, with fixed and fresh seeds.
    Torture,
    /// The public suite for servers of the protocol, the reference server, and clients.
    Conformance,
    /// Report pages in a browser.
    Browser,
    /// Licences and sources of dependencies.
    Deny,
}

impl Step {
    /// What it is called on the command line and in the output.
    fn name(self) -> String {
        let value = self.to_possible_value().expect("no step is hidden");
        value.get_name().to_owned()
    }

    /// Steps whose results it uses.
    const fn needs(self) -> &'static [Self] {
        match self {
            Self::Smoke | Self::Torture | Self::Conformance => &[Self::Build],
            Self::Browser => &[Self::Build, Self::Smoke],
            _ => &[],
        }
    }
}

/// Lists the steps to run: those asked for and what they need, or all.
fn selected(only: &[Step]) -> Vec<Step> {
    let all = Step::value_variants().iter().copied();
    let is_wanted = |step: &Step| {
        only.is_empty() || only.iter().any(|asked| asked == step || asked.needs().contains(step))
    };
    all.filter(is_wanted).collect()
}

/// Runs the steps and prints the closing line; false means that something failed.
pub(crate) fn run(workspace: &Workspace, only: &[Step]) -> Result<bool> {
    let folder = workspace.target.join("ci");
    std::fs::create_dir_all(&folder).context("cannot create target/ci")?;
    let steps = selected(only);
    let mut reports: Vec<(Step, StepReport)> = Vec::new();
    for (step, number) in steps.iter().zip(1..) {
        println!("\n=== {} ({number} of {})", step.name(), steps.len());
        let started = Instant::now();
        let failed = reports.iter().find(|(done, report)| {
            step.needs().contains(done) && report.verdict == Verdict::Failed
        });
        let report = match failed {
            Some((needed, _)) => StepReport::not_run(format!("{} failed", needed.name())),
            None => steps::run(*step, workspace)
                .unwrap_or_else(|error| StepReport::failed(format!("{error:#}"))),
        };
        report.notes.iter().chain(&report.not_run).for_each(|note| println!("    {note}"));
        let seconds = started.elapsed().as_secs_f64();
        println!("--- {}: {} in {seconds:.1} s", step.name(), report.verdict);
        reports.push((*step, report));
    }
    Ok(close(&reports))
}

/// Prints what did not run, what failed, and the closing line.
fn close(reports: &[(Step, StepReport)]) -> bool {
    println!();
    let mut total = Tally::default();
    for (step, report) in reports {
        total = total.plus(report.tally);
        let reasons = report.not_run.iter();
        reasons.for_each(|reason| println!("NOT RUN: {}: {reason}", step.name()));
    }
    let failed = reports.iter().filter(|(_, report)| report.verdict == Verdict::Failed);
    failed.for_each(|(step, _)| println!("FAILED: {0} (cargo xtask ci --only {0})", step.name()));
    println!("{total}");
    total.failed == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_brings_what_it_needs_and_order_stays() {
        assert_eq!(selected(&[Step::Smoke, Step::Fmt]), [Step::Fmt, Step::Build, Step::Smoke]);
        assert_eq!(selected(&[]), Step::value_variants());
    }

    #[test]
    fn every_step_comes_after_what_it_needs() {
        for step in Step::value_variants() {
            assert!(step.needs().iter().all(|needed| needed < step), "{step:?}");
        }
    }

    #[test]
    fn a_run_with_a_failure_is_not_a_success_and_one_with_gaps_is() {
        let gap = (Step::Deny, StepReport::not_run("cargo-deny is not installed"));
        assert!(close(std::slice::from_ref(&gap)));
        assert!(!close(&[gap, (Step::Fmt, StepReport::failed("x"))]));
    }
}
