//! The public suite for servers of this protocol, the reference server beside this one, and what
//! others use as clients: run by Node.js against the release binary.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::cargo_test::{NOT_RUN_VARIABLE, read_notes};
use super::steps::succeeds;
use super::tools;
use crate::report::{StepReport, Tally, Verdict};
use crate::workspace::{Workspace, remove_folder};

/// Seconds after which it is taken for stuck; it needs about 60.
const LIMIT: &str = "600";

/// Installs the suite as its lock file has it, runs it, and counts its tests.
pub(super) fn run(workspace: &Workspace) -> Result<StepReport> {
    for program in ["node", "npm"] {
        if tools::find(program).is_none() {
            return Ok(StepReport::not_run(format!(
                "the public suite and clients: {program} is not installed"
            )));
        }
    }
    let folder = workspace.root.join("conformance");
    let installed = succeeds(Command::new("npm").current_dir(&folder).arg("ci"))?;
    if installed.verdict == Verdict::Failed {
        let reason =
            format!("the public suite and clients: npm ci failed ({})", installed.notes.join("; "));
        return Ok(StepReport::not_run(reason));
    }
    let results = workspace.target.join("ci/conformance");
    remove_folder(&results)?;
    std::fs::create_dir_all(&results).context("cannot create the folder of the results")?;
    let notes = results.join("not-run.txt");
    std::fs::write(&notes, "").context("cannot create the file for tests that cannot run")?;
    let results = results.join("results.json");
    let mut command = Command::new("timeout");
    command.current_dir(&folder).args(["--kill-after=10", LIMIT]);
    command.args(["node_modules/.bin/vitest", "run", "--reporter=dot", "--reporter=json"]);
    command.arg("--outputFile.json").arg(&results);
    command.env("CONFORMANCE_BINARY", workspace.target.join("release/highwater"));
    command.env(NOT_RUN_VARIABLE, &notes);
    let ended = succeeds(&mut command)?;
    let mut report = count(&results, &ended)?;
    report.not_run.extend(read_notes(&notes)?);
    Ok(report)
}

/// Counts the tests, and names those that failed.
fn count(results: &Path, ended: &StepReport) -> Result<StepReport> {
    let Ok(text) = std::fs::read_to_string(results) else {
        return Ok(StepReport::failed(format!("no results: {}", ended.notes.join("; "))));
    };
    let value: Value = serde_json::from_str(&text).context("the results are not JSON")?;
    Ok(read(&value, ended.verdict))
}

fn read(results: &Value, ended: Verdict) -> StepReport {
    let number = |key: &str| results[key].as_u64().unwrap_or(0);
    let (passed, failed) = (number("numPassedTests"), number("numFailedTests"));
    let is_whole = failed == 0 && passed > 0 && ended == Verdict::Passed;
    let verdict = if is_whole { Verdict::Passed } else { Verdict::Failed };
    let files = results["testResults"].as_array().into_iter().flatten();
    let tests = files.flat_map(|file| file["assertionResults"].as_array().into_iter().flatten());
    let names = tests.filter(|test| test["status"] == "failed").map(|test| &test["fullName"]);
    let mut report =
        StepReport::one(verdict, names.map(|name| format!("failed: {name}")).collect());
    report.notes.push(format!("suite, reference, clients: {passed} passed, {failed} failed"));
    if verdict == Verdict::Passed || failed > 0 {
        report.tally = Tally { passed, failed, skipped: number("numPendingTests") };
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_test_of_the_suite_counts_and_failures_are_named() {
        let mut results = json!({ "numPassedTests": 337, "numFailedTests": 1, "testResults": [
            { "assertionResults": [
                { "status": "passed", "fullName": "a" }, { "status": "failed", "fullName": "b" },
            ] },
        ] });
        let report = read(&results, Verdict::Failed);
        assert_eq!(
            (report.verdict, report.tally.passed, report.tally.failed),
            (Verdict::Failed, 337, 1)
        );
        assert!(report.notes[0].contains("\"b\""));
        results["numFailedTests"] = json!(0);
        assert_eq!(read(&results, Verdict::Passed).verdict, Verdict::Passed);
        assert_eq!(
            read(&results, Verdict::Failed).verdict,
            Verdict::Failed,
            "vitest itself failed"
        );
        assert_eq!(read(&json!({}), Verdict::Passed).verdict, Verdict::Failed, "no test ran");
    }
}
