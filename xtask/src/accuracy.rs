//! The same commits measured with fio and with highwater, turn about.
//!
//! fio times the write and its fdatasync apart and reports no percentile of the whole, so both
//! tools are held to the same statistic: the median write plus the median barrier. For `O_DSYNC`
//! the write is the commit, and the medians are compared as they are. The whole period of a
//! commit, measured time / commits, is compared besides.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::report::StepReport;
use crate::workspace::{Workspace, remove_folder};

/// The median ratio has to lie within these.
const BOUNDS: std::ops::RangeInclusive<f64> = 0.97..=1.03;

/// What is compared.
struct Case {
    block: u32,
    io: &'static str,
    barrier: &'static str,
}

const CASES: [Case; 6] = [
    Case { block: 4096, io: "buffered", barrier: "fdatasync" },
    Case { block: 4096, io: "direct", barrier: "fdatasync" },
    Case { block: 16384, io: "buffered", barrier: "fdatasync" },
    Case { block: 16384, io: "direct", barrier: "fdatasync" },
    Case { block: 4096, io: "direct", barrier: "o_dsync" },
    Case { block: 16384, io: "direct", barrier: "o_dsync" },
];

/// What one run gave, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Commit {
    p50_ns: f64,
    period_ns: f64,
}

/// How much is measured.
pub struct Extent<'a> {
    /// Pairs of runs per case.
    pub pairs: u32,
    /// Commits per run.
    pub commits: u32,
    /// Only cases whose name holds this.
    pub only: &'a str,
}

/// Measures the cases; the figures are printed, and judged against the bounds.
pub fn check(workspace: &Workspace, directory: &Path, extent: &Extent<'_>) -> Result<StepReport> {
    let place = directory.join(format!("accuracy-{}", std::process::id()));
    fs::create_dir(&place).with_context(|| format!("cannot make {}", place.display()))?;
    let binary = workspace.target.join("release/highwater");
    let bench = Bench { binary, place, commits: extent.commits };
    let judged = bench.all(extent);
    remove_folder(&bench.place)?;
    judged
}

struct Bench {
    binary: PathBuf,
    place: PathBuf,
    commits: u32,
}

impl Bench {
    fn all(&self, extent: &Extent<'_>) -> Result<StepReport> {
        let mut findings = Vec::new();
        println!(
            "case                         highwater p50  fio p50  ratio (spread)        period"
        );
        for case in &CASES {
            let name = format!("{} {} {} B", case.io, case.barrier, case.block);
            if !name.contains(extent.only) {
                continue;
            }
            let mut measured = Vec::new();
            for pair in 0..extent.pairs {
                // Turn about, and who goes first changes, so that drift falls on both alike.
                measured.push(if pair % 2 == 0 {
                    let ours = self.highwater(case)?;
                    (ours, self.fio(case)?)
                } else {
                    let theirs = self.fio(case)?;
                    (self.highwater(case)?, theirs)
                });
            }
            let ratio = print_row(&name, &measured);
            if !BOUNDS.contains(&ratio) {
                findings.push(format!("{name}: the median ratio {ratio:.3} is outside {BOUNDS:?}"));
            }
        }
        Ok(StepReport::from_findings(findings))
    }

    fn highwater(&self, case: &Case) -> Result<Commit> {
        let mut command = Command::new(&self.binary);
        command.args(["bench", "--state", "initialised", "--rounds", "1", "--json", "--quiet"]);
        // fio has no warm-up of a number of writes: neither tool gets one.
        command.args(["--warmup", "0"]);
        command.args(["--io", case.io, "--barrier", case.barrier]);
        command.args(["--block", &case.block.to_string()]);
        command.args(["--iterations", &self.commits.to_string()]);
        command.arg("--runs").arg(self.place.join("runs")).arg(&self.place);
        let results = output_json(&mut command)?;
        let result = &results["cases"][0];
        let fused = case.barrier != "fdatasync";
        let barrier = if fused { 0.0 } else { number(&result["barrier"]["p50_ns"])? };
        Ok(Commit {
            p50_ns: number(&result["write"]["p50_ns"])? + barrier,
            period_ns: 1e9 / number(&result["commits_per_second"])?,
        })
    }

    /// A file of the same length, really written and synced by fio itself before it measures.
    fn fio(&self, case: &Case) -> Result<Commit> {
        let file = self.place.join("fio");
        let base = || {
            let mut command = Command::new("fio");
            command.args(["--name=accuracy", "--rw=write", "--ioengine=psync", "--overwrite=1"]);
            command.args(["--output-format=json", &format!("--bs={}", case.block)]);
            command.arg(format!("--size={}", u64::from(case.block) * u64::from(self.commits)));
            command.arg(format!("--filename={}", file.display()));
            command
        };
        output_json(base().arg("--create_only=1"))?;
        let mut measured = base();
        measured.arg(if case.io == "direct" { "--direct=1" } else { "--direct=0" });
        let fused = case.barrier != "fdatasync";
        measured.arg(if fused { "--sync=dsync" } else { "--fdatasync=1" });
        let results = output_json(&mut measured)?;
        fs::remove_file(&file).context("cannot remove fio's file")?;
        let job = &results["jobs"][0];
        let median = |part: &Value| number(&part["percentile"]["50.000000"]);
        let barrier = if fused { 0.0 } else { median(&job["sync"]["lat_ns"])? };
        Ok(Commit {
            p50_ns: median(&job["write"]["clat_ns"])? + barrier,
            period_ns: number(&job["write"]["runtime"])? * 1e6 / f64::from(self.commits),
        })
    }
}

/// Prints a case's figures and gives the median of the paired ratios of p50.
fn print_row(name: &str, pairs: &[(Commit, Commit)]) -> f64 {
    let over = |value: fn(&(Commit, Commit)) -> f64| sorted(pairs.iter().map(value).collect());
    let ratios = over(|(ours, theirs)| ours.p50_ns / theirs.p50_ns);
    let periods = over(|(ours, theirs)| ours.period_ns / theirs.period_ns);
    let (ours, theirs) = (over(|pair| pair.0.p50_ns), over(|pair| pair.1.p50_ns));
    println!(
        "{name:<28} {:>10.1} us {:>5.1} us  {:.3} ({:.3} - {:.3})  {:.3}",
        median(&ours) / 1e3,
        median(&theirs) / 1e3,
        median(&ratios),
        ratios[0],
        ratios[ratios.len() - 1],
        median(&periods)
    );
    median(&ratios)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// Runs a command and reads the JSON it prints; fio prints warnings before it.
fn output_json(command: &mut Command) -> Result<Value> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!(
            "{program} ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let start = text.find('{').with_context(|| format!("{program} printed no JSON"))?;
    serde_json::from_str(&text[start..]).with_context(|| format!("{program} printed bad JSON"))
}

fn number(value: &Value) -> Result<f64> {
    value.as_f64().context("a number is missing from the output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert!((median(&sorted(vec![3.0, 1.0, 2.0])) - 2.0).abs() < 1e-12);
        assert!((median(&sorted(vec![4.0, 1.0, 2.0, 3.0])) - 2.5).abs() < 1e-12);
    }
}
