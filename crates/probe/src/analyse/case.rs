//! One case's result: pooled samples, rates over measured time, evidence, shape.

use highwater_report::data::{PlannedCase, RoundRow, RunData, StopReason};
use highwater_report::results::{CaseResult, CaseStatus, Drift};
use highwater_stats::{ChangePointSettings, change_point, median, modes};

use super::{attribution, receipt};
use crate::runner::{rounds_of, samples_of, series_of};

/// Sums up one planned case.
pub fn result(data: &RunData, planned: &PlannedCase) -> CaseResult {
    let rows: Vec<&RoundRow> = rounds_of(data, &planned.id).collect();
    let (status, reason) = status(data, planned, !rows.is_empty());
    let (id, group) = (planned.id.clone(), planned.group.clone());
    let empty =
        CaseResult { status, reason, ..CaseResult::without_numbers(id, group, planned.case) };
    if status != CaseStatus::Measured {
        return empty;
    }
    let samples = samples_of(data, &planned.id);
    let totals = Totals::of(&rows);
    CaseResult {
        rounds: u32::try_from(rows.len()).unwrap_or(u32::MAX),
        commit: samples.and_then(|samples| samples.commit.summary()),
        write: samples.and_then(|samples| samples.write.summary()),
        barrier: samples.and_then(|samples| samples.barrier.summary()),
        round_p50_range_ns: range(rows.iter().map(|row| row.commit_p50_ns)),
        commits_per_second: totals.per_second(totals.commits),
        records_per_second: totals.per_second(totals.writes),
        mib_per_second: totals.per_second(totals.bytes / f64::from(1 << 20)),
        acks_per_barrier: (totals.barriers > 0.0).then(|| totals.writes / totals.barriers),
        records_at_risk: rows.iter().map(|row| row.records_at_risk).max(),
        trial_ms: rows.iter().map(|row| row.elapsed_ns as f64 / 1e6).collect(),
        dirty_ms: median_of(rows.iter().filter_map(|row| row.dirty_ns)).map(|ns| ns / 1e6),
        receipt: Some(receipt::judge(data, planned, &rows)),
        attribution: attribution::of(planned, &rows),
        modes: samples.map(|samples| modes(&samples.commit)).unwrap_or_default(),
        drift: drift(data, &planned.id),
        ..empty
    }
}

fn status(data: &RunData, planned: &PlannedCase, measured: bool) -> (CaseStatus, Option<String>) {
    if let Some(reason) = &planned.refused {
        return (CaseStatus::Refused, Some(reason.clone()));
    }
    let stopped = data.outcome.as_ref().and_then(|outcome| outcome.stopped.get(&planned.id));
    match stopped {
        Some(StopReason::Unsupported(reason)) => (CaseStatus::Unsupported, Some(reason.clone())),
        Some(StopReason::Failed(reason)) => (CaseStatus::Failed, Some(reason.clone())),
        Some(StopReason::NotRun(reason)) => (CaseStatus::NotRun, Some(reason.clone())),
        None if measured => (CaseStatus::Measured, None),
        None => (CaseStatus::NotRun, Some("the run ended before this case".to_owned())),
    }
}

/// Sums over the rounds of a case.
struct Totals {
    seconds: f64,
    commits: f64,
    writes: f64,
    bytes: f64,
    barriers: f64,
}

impl Totals {
    fn of(rows: &[&RoundRow]) -> Self {
        let sum =
            |value: fn(&RoundRow) -> u64| rows.iter().map(|row| value(row) as f64).sum::<f64>();
        Self {
            seconds: sum(|row| row.elapsed_ns) / 1e9,
            commits: sum(|row| row.commits),
            writes: sum(|row| row.writes),
            bytes: sum(|row| row.bytes),
            barriers: sum(|row| row.barriers),
        }
    }

    fn per_second(&self, amount: f64) -> Option<f64> {
        (self.seconds > 0.0).then(|| amount / self.seconds)
    }
}

fn range(values: impl Iterator<Item = u64> + Clone) -> Option<(u64, u64)> {
    Some((values.clone().min()?, values.max()?))
}

fn median_of(values: impl Iterator<Item = u64>) -> Option<f64> {
    let values: Vec<f64> = values.map(|value| value as f64).collect();
    median(&values)
}

/// Neighbouring slices resemble each other, so only a change that is both rare and large is told.
const DRIFT_ALPHA: f64 = 0.001;
const DRIFT_MIN_CHANGE: f64 = 0.25;

/// Looks for a lasting change of level over the slices of all rounds, in order of time.
fn drift(data: &RunData, id: &str) -> Option<Drift> {
    let slices: Vec<_> = series_of(data, id).collect();
    let levels: Vec<f64> = slices.iter().map(|slice| slice.p50_ns.max(1) as f64).collect();
    let settings = ChangePointSettings {
        alpha: DRIFT_ALPHA,
        min_change: DRIFT_MIN_CHANGE,
        ..ChangePointSettings::default()
    };
    let change = change_point(&levels, &settings)?;
    Some(Drift {
        at_ms: slices[change.index].at_ms,
        before_ns: change.before,
        after_ns: change.after,
        p_value: change.p_value,
    })
}
