//! From a timed loop's record to the rows a run keeps.

use highwater_report::data::{RoundRow, Samples, SeriesRow};
use highwater_stats::LatencyHistogram;

use crate::runner::Step;
use crate::trial::{Measured, Trace};

/// Slices of time per case and round.
const SLICES: u64 = 40;

/// Makes the row of one case in one round.
pub fn row(step: &Step<'_>, started_ms: u64, measured: &Measured) -> RoundRow {
    let trace = &measured.trace;
    let case = &step.planned.case;
    let mut pooled = Samples::default();
    pool(&mut pooled, trace);
    let writes = if case.files > 1 { u64::from(case.files) } else { count(trace.write_ns.len()) };
    let mut row = RoundRow {
        case_id: step.planned.id.clone(),
        round: step.round,
        position: u32::try_from(step.position).unwrap_or(u32::MAX),
        started_ms,
        elapsed_ns: trace.elapsed_ns,
        writes,
        barriers: trace.barriers,
        bytes: writes.saturating_mul(case.block),
        commits: pooled.commit.len(),
        commit_mean_ns: pooled.commit.mean(),
        commit_p50_ns: pooled.commit.quantile(0.5),
        commit_p90_ns: pooled.commit.quantile(0.9),
        commit_p99_ns: pooled.commit.quantile(0.99),
        commit_p999_ns: pooled.commit.quantile(0.999),
        commit_max_ns: pooled.commit.max(),
        write_mean_ns: pooled.write.mean(),
        barrier_mean_ns: (!pooled.barrier.is_empty()).then(|| pooled.barrier.mean()),
        acks_per_barrier_max: trace.acks_max,
        records_at_risk: trace.at_risk,
        dirty_ns: trace.dirty_ns,
        setup_barriers: measured.setup_barriers,
        warmup_barriers: measured.warmup_barriers,
        readback_records: measured.readback_records,
        other_bytes: measured.others.as_ref().map(|others| others.bytes),
        other_process: measured.others.as_ref().and_then(|others| others.most.clone()),
        run_delay_ns: trace.run_delay_ns,
        ..RoundRow::default()
    };
    add_file_shapes(&mut row, measured);
    add_counters(&mut row, measured);
    row
}

fn add_file_shapes(row: &mut RoundRow, measured: &Measured) {
    let (before, after) = (measured.before, measured.after);
    row.eof_before = before.eof;
    row.eof_after = after.eof;
    row.extents_before = before.extents;
    row.extents_after = after.extents;
    row.unwritten_before = before.unwritten;
    row.unwritten_after = after.unwritten;
    row.first_block_before = before.first_block;
    row.first_block_after = after.first_block;
}

fn add_counters(row: &mut RoundRow, measured: &Measured) {
    if let Some(top) = measured.counters.top {
        row.top_flushes = top.flushes;
        row.top_flush_ms = top.flush_ms;
        row.top_writes = Some(top.writes);
        row.top_write_ms = Some(top.write_ms);
        row.top_sectors = Some(top.sectors);
        row.top_reads = Some(top.reads);
        row.top_queue_ms = Some(top.queue_ms);
    }
    if let Some(leaf) = measured.counters.leaf {
        row.leaf_flushes = leaf.flushes;
        row.leaf_flush_ms = leaf.flush_ms;
        row.leaf_writes = Some(leaf.writes);
        row.leaf_write_ms = Some(leaf.write_ms);
        row.leaf_sectors = Some(leaf.sectors);
        row.leaf_reads = Some(leaf.reads);
        row.leaf_queue_ms = Some(leaf.queue_ms);
    }
}

/// Adds a loop's samples to a case's.
pub fn pool(samples: &mut Samples, trace: &Trace) {
    for commit in &trace.commits {
        samples.commit.record(commit.took_ns);
    }
    for write in &trace.write_ns {
        samples.write.record(*write);
    }
    for barrier in &trace.barrier_ns {
        samples.barrier.record(*barrier);
    }
}

/// Cuts a loop's commits into slices of equal time; empty slices are left out.
pub fn series(row: &RoundRow, trace: &Trace) -> Vec<SeriesRow> {
    let width = (trace.elapsed_ns / SLICES).max(1);
    let slice_of = |at_ns: u64| (at_ns / width).min(SLICES - 1);
    trace
        .commits
        .chunk_by(|a, b| slice_of(a.at_ns) == slice_of(b.at_ns))
        .map(|slice| {
            let mut histogram = LatencyHistogram::default();
            for commit in slice {
                histogram.record(commit.took_ns);
            }
            SeriesRow {
                case_id: row.case_id.clone(),
                round: row.round,
                at_ms: row.started_ms as f64 + (slice_of(slice[0].at_ns) * width) as f64 / 1e6,
                commits: histogram.len(),
                p50_ns: histogram.quantile(0.5),
                max_ns: histogram.max(),
            }
        })
        .collect()
}

/// Now, as RFC 3339 in UTC to the second, as in `2026-11-30T08:33:25Z`.
pub fn timestamp() -> String {
    let seconds = i64::try_from(highwater_sys::time::wall_clock().as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX).to_string()
}

fn count(len: usize) -> u64 {
    u64::try_from(len).expect("usize fits u64")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Commit;

    #[test]
    fn slices_hold_every_commit_once_in_order() {
        let mut trace = Trace::with_room(0, 0, 0);
        trace.elapsed_ns = 1_000_000;
        trace.commits = (1..=1000).map(|n| Commit { at_ns: n * 1000, took_ns: 900 + n }).collect();
        let row = RoundRow { started_ms: 5, ..RoundRow::default() };
        let slices = series(&row, &trace);
        assert!(slices.len() as u64 <= SLICES);
        assert_eq!(slices.iter().map(|slice| slice.commits).sum::<u64>(), 1000);
        assert!(slices.windows(2).all(|pair| pair[0].at_ms < pair[1].at_ms));
        assert!(slices[0].at_ms >= 5.0);
    }
}
