//! Which write path to use here, how much it gains, and what it rests on.
//!
//! Advice is given for runs that hold a section of write paths; it is refused, with the reason,
//! where barriers reach no medium. `path` chooses, `systems` says what the numbers mean for
//! well-known systems, `profile` writes the choice as settings.

mod path;
pub mod profile;
mod systems;

use highwater_report::case::{Barrier, FileState, IoMode};
use highwater_report::data::{GroupKind, RunData};
use highwater_report::results::{
    Advice, CaseResult, CaseStatus, Comparison, Headline, ReceiptVerdict, Results, WritePath,
};
use highwater_stats::units;

use crate::analyse::change;
use crate::analyse::compare::{Measure, Terms, pair};
use crate::machine::refusal;

/// Gives advice on a run; `None` for runs that measure no set of write paths to choose from.
pub fn give(data: &RunData, results: &Results) -> Option<Advice> {
    let group = data.manifest.groups.iter().find(|group| group.kind == GroupKind::Paths)?;
    let paths: Vec<&CaseResult> = results
        .cases
        .iter()
        .filter(|case| case.group == group.id && case.status == CaseStatus::Measured)
        .collect();
    let durable: Vec<&CaseResult> = paths.iter().copied().filter(|case| case.durable).collect();
    if durable.len() < 2 {
        return None;
    }
    let refused = refusals(data, &durable);
    if !refused.is_empty() {
        return Some(Advice {
            refused,
            path: None,
            headline: Vec::new(),
            gain: None,
            durability_cost: None,
            reasons: Vec::new(),
            systems: Vec::new(),
        });
    }
    let chosen = path::choose(data, &durable)?;
    let (gain, durability_cost) = compared(data, &paths, chosen);
    let knee = knee(results);
    let align_bytes = align(data, chosen);
    let commit = chosen.commit.as_ref()?;
    let path = WritePath {
        case_id: chosen.id.clone(),
        state: chosen.case.state,
        io: chosen.case.io,
        barrier: chosen.case.barrier,
        align_bytes,
        knee_records: knee,
        p50_ns: commit.p50_ns,
        p99_ns: commit.p99_ns,
    };
    Some(Advice {
        refused,
        headline: headline(chosen, gain.as_ref(), knee),
        reasons: path::reasons(data, &paths, chosen),
        systems: systems::all(data, &paths, results),
        path: Some(path),
        gain,
        durability_cost,
    })
}

/// M8: the reasons why no advice may be given.
fn refusals(data: &RunData, durable: &[&CaseResult]) -> Vec<String> {
    let mut reasons = refusal::reasons(&data.manifest.machine);
    let fastest = durable.iter().filter_map(|case| case.commit.as_ref()).map(|c| c.p50_ns).min();
    reasons.extend(fastest.and_then(refusal::too_fast));
    let absent = |case: &&CaseResult| {
        case.receipt.as_ref().is_some_and(|receipt| receipt.verdict == ReceiptVerdict::Absent)
    };
    if durable.iter().all(absent) {
        reasons.push(
            "no barrier of any path reached the device: nothing measured here was durable. Look \
             for `nobarrier`, or a hypervisor that drops flushes."
                .to_owned(),
        );
    }
    reasons
}

/// The chosen path against the common default, and against the same writes without any barrier.
fn compared(
    data: &RunData,
    paths: &[&CaseResult],
    chosen: &CaseResult,
) -> (Option<Comparison>, Option<Comparison>) {
    let terms = Terms::by(Measure::P50);
    let against = |baseline: Option<&&CaseResult>| {
        baseline
            .filter(|case| case.id != chosen.id)
            .and_then(|case| pair(data, &case.id, &chosen.id, &terms))
    };
    let default = paths.iter().find(|case| {
        let point = &case.case;
        point.state == FileState::Append
            && point.io == IoMode::Buffered
            && point.barrier == Barrier::Fsync
    });
    let unsynced = paths.iter().find(|case| case.case.barrier == Barrier::None);
    (against(default), against(unsynced))
}

/// Records per barrier where half of the fixed cost is gone.
fn knee(results: &Results) -> Option<f64> {
    let fit = results.fits.iter().find(|fit| fit.unit == "writes per barrier")?;
    fit.line.knee
}

fn align(data: &RunData, chosen: &CaseResult) -> u32 {
    let machine = &data.manifest.machine;
    let dio = machine.filesystem.dio_offset_align.unwrap_or(0);
    let physical = machine.leaf().and_then(|leaf| leaf.physical_block).unwrap_or(0);
    match chosen.case.io {
        IoMode::Direct => dio.max(physical).max(512),
        // A write smaller than a page makes the kernel read or rewrite the rest of it.
        IoMode::Buffered => 4096,
    }
}

fn headline(chosen: &CaseResult, gain: Option<&Comparison>, knee: Option<f64>) -> Vec<Headline> {
    let mut headline = Vec::new();
    if let Some(commit) = &chosen.commit {
        let spread = chosen.round_p50_range_ns.map_or_else(String::new, |(low, high)| {
            format!(", rounds {} to {}", units::duration_ns(low), units::duration_ns(high))
        });
        headline.push(Headline {
            value: units::duration_ns(commit.p50_ns),
            label: format!("a durable commit of {}", units::bytes_exact(chosen.case.block)),
            detail: format!(
                "median of {} commits, p99 {}{spread}",
                units::count(commit.n),
                units::duration_ns(commit.p99_ns)
            ),
        });
    }
    if let Some(gain) = gain {
        let ratio = &gain.ratio;
        headline.push(Headline {
            value: change(ratio.ratio),
            label: "than append + fsync, the common default".to_owned(),
            detail: format!(
                "ratio {:.3}, {:.0} % interval {:.3} to {:.3}, {} paired rounds",
                ratio.ratio,
                ratio.confidence * 100.0,
                ratio.low,
                ratio.high,
                ratio.pairs
            ),
        });
    }
    if let Some(knee) = knee {
        headline.push(Headline {
            value: format!("{} records", path::plain(knee)),
            label: "per barrier halve the cost that batching can save".to_owned(),
            detail: "the knee: fixed cost of a barrier / cost of one more record".to_owned(),
        });
    }
    headline
}
