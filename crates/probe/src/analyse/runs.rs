//! Sets two runs side by side, case by case; refuses what is not comparable, and says why.

use highwater_report::data::RunData;
use highwater_report::results::{CaseResult, CaseStatus, Comparison, ReceiptVerdict, Results};
use highwater_stats::{Verdict, bootstrap_ratio, judge};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::Terms;
use crate::runner::rounds_of;

/// Two runs compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunComparison {
    /// Name of the first run: the baseline.
    pub baseline: String,
    /// Name of the second.
    pub candidate: String,
    /// Cases that both runs measured, in the baseline's order.
    pub cases: Vec<ComparedCase>,
    /// Cases left out, each with the reason.
    pub left_out: Vec<String>,
    /// What differs between the two machines or methods of asking, for people to weigh.
    pub differences: Vec<String>,
}

/// One case in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedCase {
    /// In words.
    pub label: String,
    /// Baseline's value of the measure, median over rounds, ns.
    pub baseline_ns: f64,
    /// Candidate's value, ns.
    pub candidate_ns: f64,
    /// Ratio, interval and answer.
    pub comparison: Comparison,
}

/// Why two runs cannot be compared at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("these runs cannot be compared: {0}")]
pub struct NotComparable(pub String);

impl RunComparison {
    /// Whether any case of the candidate is slower.
    pub fn has_slower(&self) -> bool {
        self.cases.iter().any(|case| case.comparison.verdict == Verdict::Slower)
    }
}

/// One run with its results.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// Its data.
    pub data: &'a RunData,
    /// What they say.
    pub results: &'a Results,
}

/// Compares a candidate run with a baseline run.
///
/// The two were measured at different times: rounds are paired by their number only, and whatever
/// changed between the runs is part of the difference.
///
/// # Errors
/// When the methods differ, or no case was measured in both often enough.
pub fn compare(
    baseline: Side<'_>,
    candidate: Side<'_>,
    terms: &Terms,
) -> Result<RunComparison, NotComparable> {
    let (a, b) = (&baseline.data.manifest, &candidate.data.manifest);
    if a.method_version != b.method_version {
        return Err(NotComparable(format!(
            "they were measured by method {} and method {}; measure one of them again",
            a.method_version, b.method_version
        )));
    }
    let mut compared = Vec::new();
    let mut left_out = Vec::new();
    for case in &baseline.results.cases {
        match compare_case(baseline, candidate, case, terms) {
            Ok(found) => compared.push(found),
            Err(reason) => left_out.push(format!("{}: {reason}", case.label)),
        }
    }
    for case in &candidate.results.cases {
        if !baseline.results.cases.iter().any(|known| known.case == case.case) {
            left_out.push(format!("{}: only in {}", case.label, b.name));
        }
    }
    if compared.is_empty() {
        let why = if left_out.is_empty() {
            "neither holds a case".to_owned()
        } else {
            left_out.join("; ")
        };
        return Err(NotComparable(format!("no case was measured in both: {why}")));
    }
    Ok(RunComparison {
        baseline: a.name.clone(),
        candidate: b.name.clone(),
        cases: compared,
        left_out,
        differences: differences(baseline, candidate),
    })
}

fn compare_case(
    baseline: Side<'_>,
    candidate: Side<'_>,
    case: &CaseResult,
    terms: &Terms,
) -> Result<ComparedCase, String> {
    // A probe measures some cases in two sections: the same section is looked for first.
    let same_case = |other: &&CaseResult| other.case == case.case;
    let others = &candidate.results.cases;
    let other = others
        .iter()
        .filter(same_case)
        .find(|other| other.group == case.group)
        .or_else(|| others.iter().find(same_case))
        .ok_or_else(|| format!("only in {}", baseline.data.manifest.name))?;
    usable(case)?;
    usable(other)?;
    let values = |side: Side<'_>, id: &str| -> Vec<f64> {
        rounds_of(side.data, id).map(|row| terms.measure.of(row)).collect()
    };
    let (before, after) = (values(baseline, &case.id), values(candidate, &other.id));
    let pairs: Vec<(f64, f64)> = before.iter().copied().zip(after.iter().copied()).collect();
    let ratio = bootstrap_ratio(&pairs, &terms.bootstrap).map_err(|error| error.to_string())?;
    let verdict = judge(&ratio, terms.threshold);
    let median = |values: &[f64]| highwater_stats::median(values).unwrap_or(0.0);
    Ok(ComparedCase {
        label: case.label.clone(),
        baseline_ns: median(&before),
        candidate_ns: median(&after),
        comparison: Comparison {
            baseline: case.id.clone(),
            candidate: other.id.clone(),
            measure: terms.measure.as_str().to_owned(),
            ratio,
            verdict,
        },
    })
}

fn usable(case: &CaseResult) -> Result<(), String> {
    if case.status != CaseStatus::Measured {
        return Err(case.reason.clone().unwrap_or_else(|| "not measured".to_owned()));
    }
    match case.receipt.as_ref().map(|receipt| receipt.verdict) {
        Some(ReceiptVerdict::Absent) => Err("its barriers reached no device".to_owned()),
        _ => Ok(()),
    }
}

fn differences(baseline: Side<'_>, candidate: Side<'_>) -> Vec<String> {
    let (a, b) = (&baseline.data.manifest, &candidate.data.manifest);
    let devices = |run: &RunData| {
        let devices = &run.manifest.machine.devices;
        devices.iter().map(|device| device.name.clone()).collect::<Vec<_>>().join(" on ")
    };
    let (ma, mb) = (&a.machine, &b.machine);
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    [
        ("kernel", ma.kernel.clone(), mb.kernel.clone()),
        ("CPU", text(&ma.cpu), text(&mb.cpu)),
        ("file system", ma.filesystem.kind.clone(), mb.filesystem.kind.clone()),
        ("mount options", ma.filesystem.options.join(","), mb.filesystem.options.join(",")),
        ("journal", text(&ma.filesystem.journal), text(&mb.filesystem.journal)),
        ("devices", devices(baseline.data), devices(candidate.data)),
        ("program", a.highwater_version.clone(), b.highwater_version.clone()),
    ]
    .into_iter()
    .filter(|(_, a, b)| a != b)
    .map(|(what, a, b)| format!("{what}: {a} against {b}"))
    .collect()
}
