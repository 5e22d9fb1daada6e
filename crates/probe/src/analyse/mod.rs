//! From a run's data to what it says: pure functions, so that a stored run gives the same answer.
//!
//! `case` sums up each case, `receipt` judges the evidence, `attribution` splits a mean commit,
//! `compare` sets cases (and runs) against each other. `advice` is a module of its own.

pub mod attribution;
pub mod case;
pub mod compare;
pub mod receipt;
pub mod runs;
mod warnings;

use highwater_report::case::{Case, Every};
use highwater_report::data::{GroupKind, RoundRow, RunData};
use highwater_report::results::{CaseResult, CaseStatus, Fit, Results};
use highwater_stats::{fit_line, units};

use crate::advice;
use crate::runner::rounds_of;

/// Derives everything from a run's data, and from nothing else (M10).
pub fn results(data: &RunData) -> Results {
    let manifest = &data.manifest;
    let cases: Vec<CaseResult> =
        manifest.cases.iter().map(|planned| case::result(data, planned)).collect();
    let comparisons = compare::within(data, &cases);
    let fits = fits(data, &cases);
    let warnings = warnings::of(data, &cases);
    let mut results = Results {
        schema_version: manifest.schema_version,
        method_version: manifest.method_version,
        name: manifest.name.clone(),
        preset: manifest.preset.clone(),
        started: manifest.started.clone(),
        interrupted: data.outcome.as_ref().is_none_or(|outcome| outcome.interrupted),
        machine: manifest.machine.clone(),
        cases,
        comparisons,
        fits,
        advice: None,
        warnings,
    };
    results.advice = advice::give(data, &results);
    results
}

/// Unit of the fits over batch sizes.
pub(crate) const BATCH_UNIT: &str = "writes per barrier";

/// Fits time per commit over batch sizes and block sizes: a line per case that differs in nothing
/// else.
fn fits(data: &RunData, cases: &[CaseResult]) -> Vec<Fit> {
    let mut fits = Vec::new();
    for group in &data.manifest.groups {
        let unit = match group.kind {
            GroupKind::Batch => BATCH_UNIT,
            GroupKind::Sizes => "KiB per write",
            _ => continue,
        };
        let members: Vec<(String, &CaseResult)> = cases
            .iter()
            .filter(|case| case.group == group.id && case.status == CaseStatus::Measured)
            .filter_map(|case| Some((line_of(group.kind, &case.case)?, case)))
            .collect();
        for (index, (line_name, _)) in members.iter().enumerate() {
            if members[..index].iter().any(|(earlier, _)| earlier == line_name) {
                continue;
            }
            let points: Vec<(f64, f64)> = members
                .iter()
                .filter(|(name, _)| name == line_name)
                .flat_map(|(_, case)| points_of(data, case, group.kind))
                .collect();
            if let Ok(line) = fit_line(&points) {
                let (group, label) = (group.id.clone(), line_name.clone());
                fits.push(Fit { group, label, unit: unit.to_owned(), line });
            }
        }
    }
    fits
}

/// Names the line that a case is a point of: the whole case without the dimension fitted over.
/// `None` for what has no place on such a line: batches without barriers.
pub(crate) fn line_of(kind: GroupKind, case: &Case) -> Option<String> {
    if kind == GroupKind::Batch {
        let is_batch = case.promises_durability();
        return is_batch.then(|| Case { every: Every::Writes(1), ..*case }.to_string());
    }
    let size = format!(" {}", units::bytes_exact(case.block));
    Some(case.to_string().replacen(&size, "", 1))
}

/// A point per round: units per commit, and the mean commit in us.
fn points_of(data: &RunData, case: &CaseResult, kind: GroupKind) -> Vec<(f64, f64)> {
    let per_round = |row: &RoundRow| {
        let units = match kind {
            GroupKind::Batch => row.writes as f64 / row.commits.max(1) as f64,
            _ => case.case.block as f64 / 1024.0,
        };
        (units, row.commit_mean_ns / 1e3)
    };
    rounds_of(data, &case.id).map(per_round).collect()
}

/// Words a ratio's change, as in `48 % less` or `3.2x`.
pub(crate) fn change(ratio: f64) -> String {
    if ratio >= 2.0 {
        format!("{ratio:.1}x")
    } else if ratio >= 1.0 {
        format!("{:.0} % more", (ratio - 1.0) * 100.0)
    } else {
        format!("{:.0} % less", (1.0 - ratio) * 100.0)
    }
}

#[cfg(test)]
mod tests;
