//! Runs every test and counts them.
//!
//! A test that cannot run here returns early, after it has told why: on standard error, and as one
//! line `NOT RUN: <what>: <reason>` appended to the file that `HIGHWATER_NOT_RUN_FILE` names. Cargo
//! counts it as passed; here it counts as skipped.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::report::{StepReport, Tally, Verdict};
use crate::workspace::Workspace;

/// Names the file in which tests note that they could not run.
pub(super) const NOT_RUN_VARIABLE: &str = "HIGHWATER_NOT_RUN_FILE";

/// Seconds after which tests are taken for stuck.
const LIMIT: &str = "2400";

/// What every note begins with.
const NOT_RUN_MARK: &str = "NOT RUN: ";

/// Runs the tests of the workspace, doc tests too.
pub(super) fn run(workspace: &Workspace) -> Result<StepReport> {
    let notes = workspace.target.join("ci/not-run.txt");
    std::fs::write(&notes, "").context("cannot create the file for tests that cannot run")?;
    let mut command = limited(workspace);
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    command.env(NOT_RUN_VARIABLE, &notes).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo test")?;
    let out = child.stdout.take().context("no pipe from cargo test")?;
    let mut lines = Vec::new();
    for line in BufReader::new(out).lines() {
        let line = line.context("cargo test printed no UTF-8")?;
        println!("{line}");
        lines.push(line);
    }
    let success = child.wait().context("cargo test did not end")?.success();
    Ok(judge(&lines, success, &read_notes(&notes)?))
}

/// Prepares cargo; where nobody watches, with a limit, so that a test that hangs is still reported.
/// At a terminal there is none: `timeout` would take the key that interrupts away from the tests.
fn limited(workspace: &Workspace) -> Command {
    if std::env::var_os("CI").is_none() {
        return workspace.cargo(&[]);
    }
    let mut command = Command::new("timeout");
    command.current_dir(&workspace.root).args(["--kill-after=10", LIMIT, "cargo"]);
    command
}

/// Reads what tests noted.
pub(super) fn read_notes(file: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(file).context("cannot read the tests' notes")?;
    let notes = text.lines().map(|line| line.strip_prefix(NOT_RUN_MARK).unwrap_or(line));
    Ok(notes.filter(|note| !note.trim().is_empty()).map(ToOwned::to_owned).collect())
}

/// Adds up what cargo printed.
pub(super) fn judge(lines: &[String], success: bool, notes: &[String]) -> StepReport {
    let counted =
        lines.iter().filter_map(|line| parse_result(line)).fold(Tally::default(), Tally::plus);
    let mut report = StepReport::passed();
    report.tally = counted;
    report.not_run.extend(notes.iter().cloned());
    report.not_run.extend(lines.iter().filter_map(|line| ignored_test(line)));
    let silent = u64::try_from(notes.len()).expect("a count of lines fits").min(counted.passed);
    report.tally.passed -= silent;
    report.tally.skipped += silent;
    let cause = if !success && counted.failed == 0 {
        Some("cargo test failed, but no test did: see above")
    } else if counted.passed == 0 {
        Some("no test ran")
    } else {
        None
    };
    if let Some(cause) = cause {
        report.notes.push(cause.to_owned());
        report.tally.failed += 1;
    }
    if report.tally.failed > 0 {
        report.verdict = Verdict::Failed;
    }
    report.notes.push(format!("tests: {}", report.tally));
    report
}

/// Reads `test result: ok. 5 passed; 0 failed; 1 ignored; ...`.
fn parse_result(line: &str) -> Option<Tally> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let count = |what: &str| {
        let found = counts.split("; ").find_map(|part| part.strip_suffix(what));
        found.and_then(|number| number.trim().parse().ok())
    };
    Some(Tally { passed: count("passed")?, failed: count("failed")?, skipped: count("ignored")? })
}

/// Reads `test name ... ignored` or `test name ... ignored, reason`.
fn ignored_test(line: &str) -> Option<String> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let reason = outcome.strip_prefix("ignored")?;
    let reason = reason.strip_prefix(", ").unwrap_or("ignored, without a reason");
    Some(format!("{name}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(ToOwned::to_owned).collect()
    }

    const OUTPUT: &str = "running 3 tests
test a ... ok
test b ... ignored, needs a disk of its own
test c ... FAILED
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 1.30s
";

    #[test]
    fn counts_of_all_test_programs_add_up() {
        let report = judge(&lines(OUTPUT), false, &[]);
        assert_eq!(report.tally, Tally { passed: 13, failed: 1, skipped: 1 });
        assert_eq!(report.verdict, Verdict::Failed);
        assert_eq!(report.not_run, ["b: needs a disk of its own"]);
    }

    #[test]
    fn a_test_that_could_not_run_counts_as_skipped() {
        let text = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        let report = judge(&lines(text), true, &["xfs: not root".to_owned()]);
        assert_eq!(report.tally, Tally { passed: 2, failed: 0, skipped: 1 });
        assert_eq!(report.verdict, Verdict::Passed);
    }

    #[test]
    fn no_test_and_a_failed_build_are_failures() {
        assert_eq!(judge(&[], true, &[]).verdict, Verdict::Failed);
        let passed = lines("test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured");
        let report = judge(&passed, false, &[]);
        assert_eq!((report.verdict, report.tally.failed), (Verdict::Failed, 1));
    }

    #[test]
    fn other_lines_are_no_results() {
        for line in ["test result", "test result: ok. many passed", "running 3 tests", ""] {
            assert_eq!(parse_result(line), None, "{line}");
        }
    }
}
