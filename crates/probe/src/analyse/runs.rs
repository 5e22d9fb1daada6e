//! Sets two runs side by side, case by case; refuses what is not comparable, and says why.

use std::collections::BTreeMap;

use highwater_report::case::{Arrival, FileState, Sharing};
use highwater_report::data::{PlannedCase, RunData};
use highwater_report::results::{CaseResult, CaseStatus, Comparison, ReceiptVerdict, Results};
use highwater_stats::{Verdict, bootstrap_ratio, judge, units};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::{Measure, Terms};
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
    let other = counterpart(candidate, case)
        .ok_or_else(|| format!("only in {}", baseline.data.manifest.name))?;
    usable(case)?;
    usable(other)?;
    let wraps = |side: Side<'_>, id: &str| planned(side, id).is_some_and(writes_again);
    if wraps(baseline, &case.id) != wraps(candidate, &other.id) {
        return Err("one run wrote its file again from the start, the other every place once; \
                    give both the same --iterations and --capacity"
            .to_owned());
    }
    if terms.measure == Measure::TimePerRecord && case.case.arrival != Arrival::Closed {
        return Err("an open loop keeps the rate asked for: compare its latency, as in \
                    --measure p50"
            .to_owned());
    }
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

/// The same case in another run. A probe measures some cases in two sections: the same section is
/// looked for first.
fn counterpart<'a>(side: Side<'a>, case: &CaseResult) -> Option<&'a CaseResult> {
    let same_case = |other: &&CaseResult| other.case == case.case;
    let others = &side.results.cases;
    let in_section = |other: &&CaseResult| other.group == case.group;
    others.iter().filter(same_case).find(in_section).or_else(|| others.iter().find(same_case))
}

fn planned<'a>(side: Side<'a>, id: &str) -> Option<&'a PlannedCase> {
    side.data.manifest.cases.iter().find(|planned| planned.id == id)
}

/// Whether the writes of a case came to the end of its file and began again: such writes change
/// blocks that the run itself has written.
fn writes_again(planned: &PlannedCase) -> bool {
    let case = &planned.case;
    let files = if case.writers > 1 && case.sharing == Sharing::Own { case.writers } else { 1 };
    let each = (planned.iterations / u64::from(files)).saturating_add(planned.warmup);
    case.state == FileState::Initialised
        && case.files == 1
        && each.saturating_mul(case.block) > planned.capacity
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
    .chain(extents(baseline, candidate))
    .collect()
}

/// How long cases ran, where that differs: a line for each kind of length.
fn extents(baseline: Side<'_>, candidate: Side<'_>) -> Vec<String> {
    let bytes = |planned: &PlannedCase| match planned.case.state {
        // Only the other states prepare a length.
        FileState::Append => None,
        _ => Some(units::bytes_exact(planned.capacity)),
    };
    [
        length(baseline, candidate, "writes per round", |planned| {
            Some(planned.iterations.to_string())
        }),
        length(baseline, candidate, "warm-up writes", |planned| Some(planned.warmup.to_string())),
        length(baseline, candidate, "prepared length", bytes),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn length(
    baseline: Side<'_>,
    candidate: Side<'_>,
    what: &str,
    of: impl Fn(&PlannedCase) -> Option<String>,
) -> Option<String> {
    let mut pairs: BTreeMap<(String, String), u64> = BTreeMap::new();
    for case in &baseline.results.cases {
        let found = || {
            let other = counterpart(candidate, case)?;
            Some((of(planned(baseline, &case.id)?)?, of(planned(candidate, &other.id)?)?))
        };
        if let Some(pair) = found().filter(|(a, b)| a != b) {
            *pairs.entry(pair).or_default() += 1;
        }
    }
    let total: u64 = pairs.values().sum();
    let ((a, b), most) = pairs.into_iter().max_by_key(|(_, count)| *count)?;
    let cases = |count| if count == 1 { "1 case".to_owned() } else { format!("{count} cases") };
    Some(if most == total {
        format!("{what}: {a} against {b}, in {}", cases(total))
    } else {
        format!("{what}: in {}, as in {a} against {b}", cases(total))
    })
}
