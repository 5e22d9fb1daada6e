//! Chooses the write path: the fastest whose barriers arrived, or a simpler one that is not shown
//! to be slower.

use highwater_report::case::{Barrier, Case, FileState, IoMode};
use highwater_report::data::RunData;
use highwater_report::results::{CaseResult, ReceiptVerdict};
use highwater_stats::{Verdict, geometric_mean};

use crate::analyse::change;
use crate::analyse::compare::{Measure, THRESHOLD, Terms, pair};
use crate::runner::rounds_of;

/// A simpler path may look slower than the fastest by less than this share, as long as that is not
/// proven. More than [`THRESHOLD`], since the fastest of a dozen equal paths is the luckiest one:
/// where rounds scatter, every other path looks a few per cent slower than it.
const UNPROVEN: f64 = 0.10;

/// Chooses among measured durable paths.
pub fn choose<'c>(data: &RunData, durable: &[&'c CaseResult]) -> Option<&'c CaseResult> {
    let trusted: Vec<&CaseResult> = durable.iter().copied().filter(|case| arrived(case)).collect();
    let fastest =
        trusted.iter().copied().min_by(|a, b| level(data, a).total_cmp(&level(data, b)))?;
    // A simpler path that is no slower is the better advice.
    let as_fast = trusted
        .iter()
        .copied()
        .filter(|case| case.id != fastest.id && no_slower(data, fastest, case));
    Some(as_fast.chain([fastest]).min_by_key(|case| complexity(case)).unwrap_or(fastest))
}

/// Whether nothing shows that barriers of the case went missing.
pub fn arrived(case: &CaseResult) -> bool {
    case.receipt.as_ref().is_none_or(|receipt| receipt.verdict != ReceiptVerdict::Absent)
}

fn level(data: &RunData, case: &CaseResult) -> f64 {
    let medians: Vec<f64> = rounds_of(data, &case.id).map(|row| row.commit_p50_ns as f64).collect();
    geometric_mean(&medians).unwrap_or(f64::INFINITY)
}

/// Whether a path is as fast as the fastest, or at least neither proven slower nor much slower.
fn no_slower(data: &RunData, fastest: &CaseResult, other: &CaseResult) -> bool {
    let Some(found) = pair(data, &fastest.id, &other.id, &Terms::by(Measure::P50)) else {
        return false;
    };
    let is_unproven = found.ratio.low <= 1.0 && found.ratio.ratio <= 1.0 + UNPROVEN;
    found.verdict == Verdict::NoDifference || is_unproven
}

/// How much a path asks of whoever uses it; only the order matters.
fn complexity(case: &CaseResult) -> u32 {
    let barrier = match case.case.barrier {
        Barrier::Fdatasync => 0,
        Barrier::Fsync => 1,
        Barrier::ODsync => 2,
        Barrier::OSync => 3,
        Barrier::RwfDsync => 4,
        Barrier::Uring => 8,
        Barrier::Syncfs | Barrier::SyncFileRange | Barrier::None => 16,
    };
    let io = match case.case.io {
        IoMode::Buffered => 0,
        IoMode::Direct => 5,
    };
    let state = match case.case.state {
        FileState::Append => 0,
        FileState::Allocated => 6,
        FileState::Initialised => 7,
    };
    barrier + io + state
}

/// Sentences that say, for each choice made, what it gains and how sure that is.
pub fn reasons(data: &RunData, paths: &[&CaseResult], chosen: &CaseResult) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut against = |other: Case, what: &str, instead: &str| {
        let Some(other) = paths.iter().find(|case| case.case == other && case.id != chosen.id)
        else {
            return;
        };
        let Some(found) = pair(data, &other.id, &chosen.id, &Terms::by(Measure::P50)) else {
            return;
        };
        let ratio = &found.ratio;
        let answer = match found.verdict {
            Verdict::NoDifference => {
                format!("makes no difference of {:.0} % or more", THRESHOLD * 100.0)
            }
            Verdict::Inconclusive => "may matter; the rounds do not say".to_owned(),
            Verdict::Faster | Verdict::Slower => format!("takes {}", change(ratio.ratio)),
        };
        sentences.push(format!(
            "{what} instead of {instead} {answer} (ratio {:.3}, {:.0} % interval {:.3} to {:.3}, \
             {} rounds).",
            ratio.ratio,
            ratio.confidence * 100.0,
            ratio.low,
            ratio.high,
            ratio.pairs
        ));
    };
    let point = chosen.case;
    for state in FileState::ALL.iter().copied().filter(|state| *state != point.state) {
        against(
            Case { state, ..point },
            &format!("An {} file", point.state),
            &format!("an {state} file"),
        );
    }
    for io in IoMode::ALL.iter().copied().filter(|io| *io != point.io) {
        against(
            Case { io, ..point },
            &format!("{} I/O", capital(point.io.as_str())),
            &format!("{io} I/O"),
        );
    }
    for barrier in Barrier::ALL.iter().copied().filter(|barrier| *barrier != point.barrier) {
        if barrier.promises_durability() {
            against(
                Case { barrier, ..point },
                &format!("`{}`", point.barrier),
                &format!("`{barrier}`"),
            );
        }
    }
    sentences
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A number with as many digits as it deserves.
pub fn plain(value: f64) -> String {
    if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}
