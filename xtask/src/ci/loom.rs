//! Models of threads: tests whose names begin with `loom_`, compiled with `--cfg loom` into a
//! target directory of their own, since that changes what the crates are made of.

use std::process::Stdio;

use anyhow::{Context, Result};

use super::cargo_test;
use crate::report::{StepReport, Verdict};
use crate::workspace::Workspace;

/// Seconds after which models are taken for stuck; they need a few, and their making a minute.
const LIMIT: &str = "600";
/// Optimised a little: models are run through thousands of orders.
const OPTIMISED: &str = "1";
/// Packages that have models, with the bugs that have to be caught.
const WHAT: [&str; 7] = [
    "--package",
    "highwater-sys",
    "--package",
    "highwater-log",
    "--features",
    "highwater-log/planted",
    "--lib",
];

/// Runs the models, and those with a planted bug, which have to fail.
pub(super) fn run(workspace: &Workspace) -> Result<StepReport> {
    let mut command = std::process::Command::new("timeout");
    command.current_dir(&workspace.root).args(["--kill-after=10", LIMIT, "cargo", "test"]);
    command.args(["--locked", "--no-fail-fast"]).args(WHAT).arg("loom_");
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", workspace.target.join("loom"));
    command.env("CARGO_PROFILE_TEST_OPT_LEVEL", OPTIMISED);
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", OPTIMISED);
    let ended = command.stdout(Stdio::piped()).spawn().context("cannot start cargo test")?;
    let ended = ended.wait_with_output().context("cargo test did not end")?;
    let said = String::from_utf8_lossy(&ended.stdout);
    print!("{said}");
    let lines: Vec<String> = said.lines().map(ToOwned::to_owned).collect();
    let mut report = cargo_test::judge(&lines, ended.status.success(), &[]);
    if report.tally.passed == 0 {
        report.verdict = Verdict::Failed;
    }
    Ok(report)
}
