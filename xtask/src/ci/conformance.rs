//! The public suite for servers of this protocol, the reference server beside this one, and what
//! others use as clients: run by Node.js against the release binary. `modes` runs the suite in
//! every mode of the server.

pub(crate) mod modes;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::cargo_test::{NOT_RUN_VARIABLE, read_notes};
use super::steps::succeeds;
use super::tools;
use crate::report::{StepReport, Tally, Verdict};
use crate::workspace::{Workspace, remove_folder};

/// Seconds after which it is taken for stuck; it needs about 100.
const LIMIT: &str = "600";

/// Tests of the public suite in the version of the lock file, those of subscriptions among them.
/// One less means that a part of it was not asked.
const SUITE_TESTS: usize = 338;

/// What `suite.test.mjs` calls the public suite.
const SUITE_NAME: &str = "the public suite";

/// What is run, of what program, with which flags.
struct Trial<'a> {
    binary: &'a Path,
    /// Names of test files hold this; all, if it is empty.
    filter: &'a str,
    /// Flags of the server, separated by spaces.
    arguments: &'a str,
    /// Below it lie its results.
    name: &'a str,
}

/// Installs the suite as its lock file has it, runs it and all else, and counts the tests.
pub(super) fn run(workspace: &Workspace) -> Result<StepReport> {
    if let Some(reason) = install(workspace)? {
        return Ok(StepReport::not_run(format!("the public suite and clients: {reason}")));
    }
    let binary = workspace.target.join("release/highwater");
    vitest(workspace, &Trial { binary: &binary, filter: "", arguments: "", name: "all" })
}

/// Installs what the lock file has; says why that is not possible.
fn install(workspace: &Workspace) -> Result<Option<String>> {
    for program in ["node", "npm"] {
        if tools::find(program).is_none() {
            return Ok(Some(format!("{program} is not installed")));
        }
    }
    let installed = succeeds(Command::new("npm").current_dir(folder(workspace)).arg("ci"))?;
    let is_there = installed.verdict != Verdict::Failed;
    Ok((!is_there).then(|| format!("npm ci failed ({})", installed.notes.join("; "))))
}

fn folder(workspace: &Workspace) -> PathBuf {
    workspace.root.join("conformance")
}

/// Runs tests, and counts them.
fn vitest(workspace: &Workspace, trial: &Trial<'_>) -> Result<StepReport> {
    let results = workspace.target.join("ci/conformance").join(trial.name);
    remove_folder(&results)?;
    std::fs::create_dir_all(&results).context("cannot create the folder of the results")?;
    let notes = results.join("not-run.txt");
    std::fs::write(&notes, "").context("cannot create the file for tests that cannot run")?;
    let results = results.join("results.json");
    let mut command = Command::new("timeout");
    command.current_dir(folder(workspace)).args(["--kill-after=10", LIMIT]);
    command.args(["node_modules/.bin/vitest", "run"]);
    command.args(Some(trial.filter).filter(|filter| !filter.is_empty()));
    command.args(["--reporter=dot", "--reporter=json", "--outputFile.json"]).arg(&results);
    command.env("CONFORMANCE_BINARY", trial.binary).env("CONFORMANCE_ARGS", trial.arguments);
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
    let files = results["testResults"].as_array().into_iter().flatten();
    let tests: Vec<&Value> =
        files.flat_map(|file| file["assertionResults"].as_array().into_iter().flatten()).collect();
    let (of_suite, names) = (passed_of_suite(&tests), names_of_failed(&tests));
    let is_whole = failed == 0 && of_suite == SUITE_TESTS && ended == Verdict::Passed;
    let verdict = if is_whole { Verdict::Passed } else { Verdict::Failed };
    let mut report = StepReport::one(verdict, names);
    report.notes.push(format!("the public suite: {of_suite} of {SUITE_TESTS} passed"));
    report.notes.push(format!("all tests together: {passed} passed, {failed} failed"));
    if verdict == Verdict::Passed || failed > 0 {
        report.tally = Tally { passed, failed, skipped: number("numPendingTests") };
    }
    report
}

fn passed_of_suite(tests: &[&Value]) -> usize {
    let passed = tests.iter().filter(|test| test["status"] == "passed");
    passed.filter(|test| test["ancestorTitles"][0] == SUITE_NAME).count()
}

fn names_of_failed(tests: &[&Value]) -> Vec<String> {
    let failed = tests.iter().filter(|test| test["status"] == "failed");
    failed.map(|test| format!("failed: {}", test["fullName"])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Results of a run in which tests of the suite passed, and others did what they did.
    fn results(of_suite: usize, others: &[&str]) -> Value {
        let suite = json!({ "status": "passed", "fullName": "a", "ancestorTitles": [SUITE_NAME] });
        let others = others.iter().map(
            |status| json!({ "status": status, "fullName": "b", "ancestorTitles": ["clients"] }),
        );
        let tests: Vec<Value> = std::iter::repeat_n(suite, of_suite).chain(others).collect();
        let with = |status: &str| tests.iter().filter(|test| test["status"] == *status).count();
        json!({
            "numPassedTests": with("passed"), "numFailedTests": with("failed"),
            "testResults": [{ "assertionResults": tests }],
        })
    }

    #[test]
    fn each_test_counts_and_failures_are_named() {
        let report = read(&results(SUITE_TESTS, &["passed", "failed"]), Verdict::Failed);
        let tally = report.tally;
        assert_eq!((report.verdict, tally.passed, tally.failed), (Verdict::Failed, 339, 1));
        assert!(report.notes[0].contains("\"b\""));
    }

    #[test]
    fn only_the_whole_suite_passes() {
        let verdict = |results: &Value, ended| read(results, ended).verdict;
        let whole = results(SUITE_TESTS, &["passed"]);
        assert_eq!(verdict(&whole, Verdict::Passed), Verdict::Passed);
        assert_eq!(verdict(&whole, Verdict::Failed), Verdict::Failed, "vitest itself failed");
        assert_eq!(verdict(&json!({}), Verdict::Passed), Verdict::Failed, "no test ran");
        let fewer = results(SUITE_TESTS - 6, &["passed"; 20]);
        assert_eq!(verdict(&fewer, Verdict::Passed), Verdict::Failed, "without subscriptions");
        assert_eq!(verdict(&results(SUITE_TESTS + 1, &[]), Verdict::Passed), Verdict::Failed);
    }
}
