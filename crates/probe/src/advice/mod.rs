//! Which write path to use here, how much it gains, and what it rests on.
//!
//! Advice is given for runs that hold a section of write paths; it is refused, with the reason,
//! where barriers reach no medium or rounds are too few. Only cases that differ in nothing but file
//! state, I/O mode and barrier are set against each other. `path` chooses, `systems` says what the
//! numbers mean for well-known systems, `profile` writes the choice as settings.

mod path;
pub mod profile;
mod systems;

use highwater_report::case::{Barrier, Case, FileState, IoMode, Sharing};
use highwater_report::data::{GroupKind, RunData};
use highwater_report::results::{
    Advice, CaseResult, CaseStatus, Comparison, Headline, ReceiptVerdict, Results, WritePath,
};
use highwater_stats::{Verdict, units};

use crate::analyse::compare::{Measure, Terms, pair};
use crate::analyse::{BATCH_UNIT, change, line_of};
use crate::machine::refusal;

/// Fewest rounds that advice rests on: fewer give no interval.
const FEWEST_ROUNDS: u32 = 3;

/// Gives advice on a run; `None` for runs that measure no set of write paths to choose from.
pub fn give(data: &RunData, results: &Results) -> Option<Advice> {
    let group = data.manifest.groups.iter().find(|group| group.kind == GroupKind::Paths)?;
    let measured: Vec<&CaseResult> = results
        .cases
        .iter()
        .filter(|case| case.group == group.id && case.status == CaseStatus::Measured)
        .collect();
    let paths = comparable(&measured)?;
    let durable: Vec<&CaseResult> = paths.iter().copied().filter(|case| case.durable).collect();
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
    let knee = Knee::of(results, chosen);
    let align_bytes = align(data, chosen);
    let commit = chosen.commit.as_ref()?;
    let path = WritePath {
        case_id: chosen.id.clone(),
        state: chosen.case.state,
        io: chosen.case.io,
        barrier: chosen.case.barrier,
        align_bytes,
        knee_records: knee.as_ref().map(|knee| knee.records),
        p50_ns: commit.p50_ns,
        p99_ns: commit.p99_ns,
    };
    Some(Advice {
        refused,
        headline: headline(chosen, gain.as_ref(), knee.as_ref()),
        reasons: path::reasons(data, &paths, chosen),
        systems: systems::all(data, &paths, results),
        path: Some(path),
        gain,
        durability_cost,
    })
}

/// The paths to choose among: of cases equal in everything else, the set with the most durable
/// paths; among as large ones that of the common default's block. `None` where no set is larger, or
/// none holds two paths.
fn comparable<'c>(measured: &[&'c CaseResult]) -> Option<Vec<&'c CaseResult>> {
    let mut sets: Vec<(Case, Vec<&CaseResult>)> = Vec::new();
    for case in measured {
        let key = without_path(&case.case);
        match sets.iter_mut().find(|(known, _)| *known == key) {
            Some((_, set)) => set.push(case),
            None => sets.push((key, vec![case])),
        }
    }
    let rank = |(key, set): &(Case, Vec<&CaseResult>)| {
        (set.iter().filter(|case| case.durable).count(), *key == Case::DEFAULT)
    };
    let best = sets.iter().map(rank).max().filter(|(durable, _)| *durable >= 2)?;
    let mut winners = sets.into_iter().filter(|set| rank(set) == best);
    let (_, paths) = winners.next()?;
    winners.next().is_none().then_some(paths)
}

/// A case without its write path: what must be equal for two paths to be set against each other.
fn without_path(case: &Case) -> Case {
    let Case { state, io, barrier, .. } = Case::DEFAULT;
    // Without several writers nobody shares.
    let sharing = if case.writers > 1 { case.sharing } else { Sharing::Own };
    Case { state, io, barrier, sharing, ..*case }
}

/// M8: the reasons why no advice may be given.
fn refusals(data: &RunData, durable: &[&CaseResult]) -> Vec<String> {
    let mut reasons = refusal::reasons(&data.manifest.machine);
    let fastest = durable.iter().filter_map(|case| case.commit.as_ref()).map(|c| c.p50_ns).min();
    reasons.extend(fastest.and_then(refusal::too_fast));
    let rounds = durable.iter().map(|case| case.rounds).min().unwrap_or(0);
    if rounds < FEWEST_ROUNDS {
        reasons.push(format!(
            "too few rounds: some path was measured in {rounds}, and advice rests on \
             {FEWEST_ROUNDS} at least. Let the run go on to its end, or give it more rounds."
        ));
    }
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
    // Along the same path where that was measured: else the ratio holds the path's effect as well.
    let unsynced =
        paths.iter().filter(|case| case.case.barrier == Barrier::None).min_by_key(|case| {
            let (own, other) = (&chosen.case, &case.case);
            (own.state != other.state, own.io != other.io)
        });
    (against(default), against(unsynced))
}

/// Where batching has given half of what it can.
pub(crate) struct Knee {
    /// Records per barrier.
    pub records: f64,
    /// Path that the batches were measured along.
    pub label: String,
}

impl Knee {
    /// Finds the knee along a case's own path, or else along the one that was measured.
    pub fn of(results: &Results, case: &CaseResult) -> Option<Self> {
        let own = line_of(GroupKind::Batch, &case.case);
        results
            .fits
            .iter()
            .filter(|fit| fit.unit == BATCH_UNIT)
            .filter_map(|fit| Some(Self { records: fit.line.knee?, label: fit.label.clone() }))
            .min_by_key(|knee| Some(&knee.label) != own.as_ref())
    }
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

fn headline(chosen: &CaseResult, gain: Option<&Comparison>, knee: Option<&Knee>) -> Vec<Headline> {
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
        let (value, label) = match gain.verdict {
            Verdict::Faster | Verdict::Slower => {
                (change(ratio.ratio), "than append + fsync, the common default")
            }
            Verdict::NoDifference => {
                ("no difference".to_owned(), "to append + fsync, the common default")
            }
            Verdict::Inconclusive => {
                ("not settled".to_owned(), "against append + fsync, the common default")
            }
        };
        headline.push(Headline {
            value,
            label: label.to_owned(),
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
            value: format!("{} records", path::plain(knee.records)),
            label: "per barrier halve the cost that batching can save".to_owned(),
            detail: format!(
                "the knee: fixed cost of a barrier / cost of one more record, measured with {}",
                knee.label
            ),
        });
    }
    headline
}
