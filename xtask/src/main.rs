//! The project's own commands: what continuous integration runs, and each part of it alone.
//!
//! Start at `ci` (the steps and their order); `tidy`, `layers` and `browser` are the checks that
//! no other tool makes, `accuracy` and `distance` are measurements run by hand. `workspace` knows
//! where things lie. Nothing here is shipped.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to people")]

mod accuracy;
mod browser;
mod ci;
mod distance;
mod layers;
mod report;
mod tidy;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::accuracy::Extent;
use crate::report::StepReport;
use crate::workspace::Workspace;

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every check, as continuous integration does; ends with `N passed, N failed`.
    Ci {
        /// Run only these steps and what they need.
        #[arg(long, value_delimiter = ',', value_name = "STEP")]
        only: Vec<ci::Step>,
    },
    /// Check sizes, headers, links, words, invariant numbers and what must not be committed.
    Tidy {
        /// Also list source files that have outgrown the comfortable size.
        #[arg(long)]
        verbose: bool,
    },
    /// Check who imports whom, and which crates may use which outside libraries.
    Layers,
    /// Load report pages in headless Chromium and look at how they come out.
    Browser {
        /// Pages to load.
        #[arg(required = true, value_name = "PAGE.html")]
        pages: Vec<PathBuf>,
    },
    /// Run the public suite in every mode of the server: durability, lanes, checkpoint barrier.
    Conformance {
        /// Only modes whose flags hold this, as in `durability=memory`.
        #[arg(long, default_value = "")]
        only: String,
        /// Program to test, instead of a release build.
        #[arg(long, value_name = "PROGRAM")]
        binary: Option<PathBuf>,
    },
    /// Measure how far apart two processors are, again and again: what a cache line takes there and
    /// back, beside whatever else is measured.
    Distance {
        /// The two.
        #[arg(long, value_name = "ONE,OTHER", value_parser = distance::pair, default_value = "0,1")]
        processors: [u32; 2],
        /// How often, one behind the other.
        #[arg(long, default_value_t = 10)]
        readings: u32,
    },
    /// Measure the same commits with fio and with highwater, interleaved, and compare.
    Accuracy {
        /// Directory to measure in.
        directory: PathBuf,
        /// Pairs of runs per case.
        #[arg(long, default_value_t = 7)]
        pairs: u32,
        /// Commits per run.
        #[arg(long, default_value_t = 4000)]
        commits: u32,
        /// Only cases whose name holds this, as in `fdatasync`.
        #[arg(long, default_value = "")]
        only: String,
    },
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command; false means that a check failed.
fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let workspace = Workspace::find()?;
    let report = match &arguments.command {
        Command::Ci { only } => return ci::run(&workspace, only),
        Command::Tidy { verbose } => {
            let outcome = tidy::check(&workspace)?;
            if *verbose {
                outcome.long_files.iter().for_each(|line| println!("{line}"));
            }
            StepReport::from_findings(outcome.findings)
        }
        Command::Layers => StepReport::from_findings(layers::check(&workspace.metadata)),
        Command::Browser { pages } => browser::check(&workspace, pages)?,
        Command::Conformance { only, binary } => {
            ci::conformance::modes::run(&workspace, &built(&workspace, binary.as_deref())?, only)?
        }
        Command::Distance { processors, readings } => {
            distance::print(*processors, *readings)?;
            return Ok(true);
        }
        Command::Accuracy { directory, pairs, commits, only } => accuracy::check(
            &workspace,
            directory,
            &Extent { pairs: *pairs, commits: *commits, only },
        )?,
    };
    report.notes.iter().for_each(|note| println!("{note}"));
    println!("{}", report.verdict);
    Ok(report.verdict == report::Verdict::Passed)
}

/// Gives the program to test: one that is there, or a release build.
fn built(workspace: &Workspace, given: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(program) = given {
        return Ok(std::path::absolute(program)?);
    }
    let status =
        workspace.cargo(&["build", "--release", "--locked", "-p", "highwater"]).status()?;
    anyhow::ensure!(status.success(), "the program cannot be built: {status}");
    Ok(workspace.target.join("release/highwater"))
}
