//! Sets the cases of one run against each other, by paired rounds.

use std::collections::BTreeMap;

use highwater_report::case::{Arrival, Barrier, Case, FileState, IoMode};
use highwater_report::data::{GroupKind, RoundRow, RunData};
use highwater_report::results::{CaseResult, CaseStatus, Comparison};
use highwater_stats::{BootstrapSettings, bootstrap_ratio, judge};

use crate::runner::rounds_of;

/// The smallest relative difference that matters, where the user names none.
pub const THRESHOLD: f64 = 0.03;

/// What two cases are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Median commit of a round.
    P50,
    /// Mean commit of a round.
    Mean,
    /// 99th percentile of a round.
    P99,
    /// Measured time per record: what throughput is made of.
    TimePerRecord,
}

impl Measure {
    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::P50 => "p50 of the commit",
            Self::Mean => "mean of the commit",
            Self::P99 => "p99 of the commit",
            Self::TimePerRecord => "time per record",
        }
    }

    pub(crate) fn of(self, row: &RoundRow) -> f64 {
        match self {
            Self::P50 => row.commit_p50_ns as f64,
            Self::Mean => row.commit_mean_ns,
            Self::P99 => row.commit_p99_ns as f64,
            Self::TimePerRecord => row.elapsed_ns as f64 / row.writes.max(1) as f64,
        }
    }
}

/// What to compare by, and what difference matters.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// The measure.
    pub measure: Measure,
    /// The smallest relative difference that matters, as in 0.03.
    pub threshold: f64,
    /// Seed of the resampling.
    pub bootstrap: BootstrapSettings,
}

impl Terms {
    /// Compares by a measure, with the usual threshold.
    pub fn by(measure: Measure) -> Self {
        Self { measure, threshold: THRESHOLD, bootstrap: BootstrapSettings::default() }
    }
}

/// Compares each case with its section's baseline.
pub fn within(data: &RunData, cases: &[CaseResult]) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for group in &data.manifest.groups {
        let members: Vec<&CaseResult> = cases
            .iter()
            .filter(|case| case.group == group.id && case.status == CaseStatus::Measured)
            .collect();
        for candidate in &members {
            let Some(baseline) = baseline_of(group.kind, &members, candidate) else { continue };
            if baseline.id != candidate.id {
                let terms = Terms::by(measure_for(group.kind, &candidate.case));
                comparisons.extend(pair(data, &baseline.id, &candidate.id, &terms));
            }
        }
    }
    comparisons
}

/// What tells cases of a section apart. In an open loop the time per record is the rate asked for,
/// whatever the disk does: there the latency tells.
fn measure_for(kind: GroupKind, case: &Case) -> Measure {
    match kind {
        GroupKind::Files => Measure::Mean,
        GroupKind::Batch | GroupKind::Interval | GroupKind::Writers
            if case.arrival == Arrival::Closed =>
        {
            Measure::TimePerRecord
        }
        _ => Measure::P50,
    }
}

/// Compares two cases; `None` with too few rounds in common.
pub fn pair(data: &RunData, baseline: &str, candidate: &str, terms: &Terms) -> Option<Comparison> {
    let by_round = |id| -> BTreeMap<u32, f64> {
        rounds_of(data, id).map(|row| (row.round, terms.measure.of(row))).collect()
    };
    let (before, after) = (by_round(baseline), by_round(candidate));
    let pairs: Vec<(f64, f64)> =
        before.iter().filter_map(|(round, value)| Some((*value, *after.get(round)?))).collect();
    let ratio = bootstrap_ratio(&pairs, &terms.bootstrap).ok()?;
    let verdict = judge(&ratio, terms.threshold);
    Some(Comparison {
        baseline: baseline.to_owned(),
        candidate: candidate.to_owned(),
        measure: terms.measure.as_str().to_owned(),
        ratio,
        verdict,
    })
}

/// The case that others of its section are held against: the common default (append + fsync) among
/// write paths, the first of its kind elsewhere. Both have the same arrival: a latency that counts
/// from when an operation was due is another quantity.
fn baseline_of<'c>(
    kind: GroupKind,
    members: &[&'c CaseResult],
    candidate: &CaseResult,
) -> Option<&'c CaseResult> {
    let first = |fits: &dyn Fn(&Case) -> bool| {
        let arrives = |case: &Case| case.arrival == candidate.case.arrival;
        members.iter().copied().find(|case| arrives(&case.case) && fits(&case.case))
    };
    let same = |wanted: Case| first(&|case| *case == wanted);
    match kind {
        GroupKind::Paths | GroupKind::Sizes => same(Case {
            state: FileState::Append,
            io: IoMode::Buffered,
            barrier: Barrier::Fsync,
            ..candidate.case
        })
        .or_else(|| first(&|_| true)),
        GroupKind::Files => {
            same(Case { barrier: Barrier::Fdatasync, writers: 1, ..candidate.case })
        }
        GroupKind::Writers => first(&|case| case.writers == 1),
        GroupKind::Batch | GroupKind::Interval => first(&|_| true),
    }
}
