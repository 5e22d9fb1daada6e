//! Bugs that have to be caught: a layer that lets one of them pass has no teeth.
//!
//! Some are planted from outside, by a disk that only pretends a barrier; the others by the log
//! itself, which has hooks for them behind its feature `planted`.

use highwater_log::planted as in_log;
use serde::{Deserialize, Serialize};

use crate::meddle::Pretence;
use crate::sim::{self, Keep};
use crate::verdict::{Layer, Verdict};

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Planted {
    /// The log's segments are never synced.
    BarrierSkipped,
    /// The home's files are never synced.
    HomeBarrierSkipped,
    /// Readers and writers are told before the barrier.
    AckBeforeBarrier,
    /// Frames of an older epoch, and frames that do not follow the one before, are taken in.
    StaleFramesTaken,
    /// Segments are used again although no manifest names the table that replaces them.
    RecycledEarly,
    /// A failed barrier of the home counts as one that succeeded.
    HomeFailureIgnored,
    /// Proof that acknowledged bytes are damaged is not looked for.
    EvidenceIgnored,
    /// Producers are not restored from the table.
    ProducersForgotten,
}

impl Planted {
    /// Every one.
    pub const ALL: [Self; 8] = [
        Self::BarrierSkipped,
        Self::HomeBarrierSkipped,
        Self::AckBeforeBarrier,
        Self::StaleFramesTaken,
        Self::RecycledEarly,
        Self::HomeFailureIgnored,
        Self::EvidenceIgnored,
        Self::ProducersForgotten,
    ];

    /// What it is, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BarrierSkipped => "the log's barrier is skipped",
            Self::HomeBarrierSkipped => "the home's barrier is skipped",
            Self::AckBeforeBarrier => "acknowledged before the barrier",
            Self::StaleFramesTaken => "neither chain nor epoch is checked",
            Self::RecycledEarly => "segments are used again too early",
            Self::HomeFailureIgnored => "a failed barrier of the home is ignored",
            Self::EvidenceIgnored => "evidence of damage is ignored",
            Self::ProducersForgotten => "producers are not restored",
        }
    }

    pub(crate) const fn pretence(self) -> Pretence {
        match self {
            Self::BarrierSkipped => Pretence::LogBarriers,
            Self::HomeBarrierSkipped => Pretence::HomeBarriers,
            _ => Pretence::Nothing,
        }
    }

    pub(crate) const fn in_the_log(self) -> Option<in_log::Planted> {
        match self {
            Self::BarrierSkipped | Self::HomeBarrierSkipped => None,
            Self::AckBeforeBarrier => Some(in_log::Planted::AckBeforeBarrier),
            Self::StaleFramesTaken => Some(in_log::Planted::StaleFramesTaken),
            Self::RecycledEarly => Some(in_log::Planted::RecycledEarly),
            Self::HomeFailureIgnored => Some(in_log::Planted::HomeFailureIgnored),
            Self::EvidenceIgnored => Some(in_log::Planted::EvidenceIgnored),
            Self::ProducersForgotten => Some(in_log::Planted::ProducersForgotten),
        }
    }
}

/// Plants each bug and runs seeds until one is caught; fails for each that is not within `seeds`.
pub fn run(first: u64, seeds: u64, mut progress: impl FnMut(u64)) -> Verdict {
    let mut verdict = Verdict::new(Layer::Planted);
    for planted in Planted::ALL {
        let caught = (first..first.saturating_add(seeds)).zip(1..).find(|(seed, _)| {
            verdict.runs += 1;
            progress(verdict.runs);
            sim::history(*seed, Some(planted), Keep::Counts).is_err()
        });
        if let Some((_, needed)) = caught {
            verdict.count(planted.name(), needed);
        } else {
            let what = format!("not caught in {seeds} seeds: {}", planted.name());
            verdict.fail(what, &format!("--seeds {seeds} --seed {first}"));
        }
    }
    verdict
}
