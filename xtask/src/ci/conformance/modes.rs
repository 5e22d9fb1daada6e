//! The public suite in every mode that the server has: each durability, one lane and three, both
//! barriers of a checkpoint. Twelve servers one after another; too long for every change.

use std::path::Path;

use anyhow::{Result, bail};

use super::{Trial, install, vitest};
use crate::report::{StepReport, Tally, Verdict};
use crate::workspace::Workspace;

const DURABILITIES: [&str; 3] = ["wal", "relaxed=200ms", "memory"];
const LANES: [u8; 2] = [1, 3];
const BARRIERS: [&str; 2] = ["syncfs", "files"];

/// Flags of the server, one text for each mode.
fn modes() -> Vec<String> {
    let mut modes = Vec::new();
    for durability in DURABILITIES {
        for lanes in LANES {
            for barrier in BARRIERS {
                modes.push(format!(
                    "--durability={durability} --wal-lanes={lanes} --stream-lanes={lanes} \
                     --checkpoint-barrier={barrier}"
                ));
            }
        }
    }
    modes
}

/// Runs the suite in each mode whose flags hold a text; all of it must pass in each.
pub(crate) fn run(workspace: &Workspace, binary: &Path, only: &str) -> Result<StepReport> {
    if let Some(reason) = install(workspace)? {
        return Ok(StepReport::not_run(format!("the public suite: {reason}")));
    }
    let modes: Vec<String> = modes().into_iter().filter(|mode| mode.contains(only)).collect();
    if modes.is_empty() {
        bail!("no mode has {only:?} among its flags");
    }
    let mut reports = Vec::new();
    for (mode, number) in modes.iter().zip(1..) {
        let name = format!("mode-{number}");
        let trial = Trial { binary, filter: "suite", arguments: mode, name: &name };
        reports.push((mode, vitest(workspace, &trial)?));
    }
    Ok(summary(&reports))
}

/// Adds up what was found: a line for each mode, and what failed below it.
fn summary(reports: &[(&String, StepReport)]) -> StepReport {
    let mut notes = Vec::new();
    let mut tally = Tally::default();
    for (mode, report) in reports {
        notes.push(format!("{}: {mode}", report.verdict));
        notes.extend(report.notes.iter().map(|note| format!("    {note}")));
        tally = tally.plus(report.tally);
    }
    let is_whole = reports.iter().all(|(_, report)| report.verdict == Verdict::Passed);
    let verdict = if is_whole { Verdict::Passed } else { Verdict::Failed };
    notes.push(tally.to_string());
    StepReport { verdict, tally, notes, not_run: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_values_has_its_mode() {
        let modes = modes();
        assert_eq!(modes.len(), 12);
        for durability in DURABILITIES {
            for lanes in LANES {
                let of_lanes = format!("--wal-lanes={lanes} --stream-lanes={lanes} ");
                let both = modes.iter().filter(|mode| {
                    mode.contains(&format!("={durability} ")) && mode.contains(&of_lanes)
                });
                assert_eq!(both.count(), BARRIERS.len());
            }
        }
    }

    #[test]
    fn one_mode_that_fails_is_a_failure() {
        let mode = String::from("--durability=wal");
        let good = StepReport::passed();
        assert_eq!(summary(&[(&mode, good.clone())]).verdict, Verdict::Passed);
        let reports = [(&mode, good), (&mode, StepReport::failed("x"))];
        let both = summary(&reports);
        assert_eq!((both.verdict, both.tally.failed), (Verdict::Failed, 1));
        assert!(both.notes.iter().any(|note| note.starts_with("FAILED: --durability=wal")));
    }
}
