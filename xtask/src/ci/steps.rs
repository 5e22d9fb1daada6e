//! What each step does: mostly one command each.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{Step, cargo_test, conformance, loom, smoke, tools, torture};
use crate::report::{StepReport, Verdict};
use crate::workspace::{Workspace, remove_folder};
use crate::{browser, layers, tidy};

/// Runs one step.
pub(super) fn run(step: Step, workspace: &Workspace) -> Result<StepReport> {
    let cargo = |arguments: &[&str]| succeeds(&mut workspace.cargo(arguments));
    match step {
        Step::Tools => tools::ensure(),
        Step::Fmt => cargo(&["fmt", "--all", "--check"]),
        Step::Clippy => {
            cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
        }
        Step::Tidy => Ok(StepReport::from_findings(tidy::check(workspace)?.findings)),
        Step::Layers => Ok(StepReport::from_findings(layers::check(&workspace.metadata))),
        Step::Build => cargo(&["build", "--release", "--locked", "--package", "highwater"]),
        Step::Test => cargo_test::run(workspace),
        Step::Features => features(workspace),
        Step::Loom => loom::run(workspace),
        Step::Docs => {
            let mut command = workspace.cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
            succeeds(command.env("RUSTDOCFLAGS", "-D warnings"))
        }
        Step::Smoke => smoke::run(workspace),
        Step::Torture => torture::run(workspace),
        Step::Conformance => conformance::run(workspace),
        Step::Browser => check_pages(workspace),
        Step::Deny => deny(workspace),
    }
}

/// Lints and tests what the default build leaves out: spans for a collector.
fn features(workspace: &Workspace) -> Result<StepReport> {
    let lints = "clippy -p highwater-server -p highwater --features highwater/otlp --all-targets \
                 --locked -- -D warnings";
    let of_server = "test -p highwater-server --features otlp --lib --locked -- trace";
    let of_program = "test -p highwater --features otlp --test proof --locked -- otlp";
    for command in [lints, of_server, of_program] {
        let words: Vec<&str> = command.split_whitespace().collect();
        let report = succeeds(&mut workspace.cargo(&words))?;
        if report.verdict == Verdict::Failed {
            return Ok(report);
        }
    }
    Ok(StepReport::passed())
}

/// Runs a command whose exit code is the verdict; what it prints goes to the terminal.
pub(super) fn succeeds(command: &mut Command) -> Result<StepReport> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if status.success() {
        return Ok(StepReport::passed());
    }
    Ok(StepReport::failed(format!("{command:?}: {status}")))
}

/// Writes the sample reports, and checks them and those of the smoke runs in a browser.
fn check_pages(workspace: &Workspace) -> Result<StepReport> {
    if browser::find_program().is_none() {
        return Ok(StepReport::not_run("report pages in a browser: chromium is not installed"));
    }
    let samples = workspace.target.join("ci/sample-reports");
    remove_folder(&samples)?;
    std::fs::create_dir_all(&samples).context("cannot create the folder of sample reports")?;
    let mut command = workspace.cargo(&["run", "--quiet", "--locked"]);
    command.args(["--package", "highwater-report", "--example", "sample_report", "--"]);
    let written = succeeds(command.arg(&samples))?;
    if written.verdict == Verdict::Failed {
        return Ok(written);
    }
    let mut pages = Vec::new();
    for folder in [samples, smoke::runs_folder(workspace)] {
        let found = html_files(&folder)?;
        if found.is_empty() {
            let place = workspace.shown(&folder);
            return Ok(StepReport::failed(format!("{place}: no page was written there")));
        }
        pages.extend(found);
    }
    browser::check(workspace, &pages)
}

/// Lists HTML files in a folder and those below it, by name.
fn html_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = std::fs::read_dir(folder);
    for entry in entries.with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry.context("folder entry")?.path();
        if path.is_dir() {
            found.extend(html_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "html") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Checks licences and sources where cargo-deny is there. Advisories need a database from the
/// network, so they are checked by hand (CONTRIBUTING.md).
fn deny(workspace: &Workspace) -> Result<StepReport> {
    if tools::find("cargo-deny").is_none() {
        let reason = "licences and sources of dependencies: cargo-deny is not installed";
        return Ok(StepReport::not_run(reason));
    }
    succeeds(&mut workspace.cargo(&["deny", "check", "licenses", "bans", "sources"]))
}
