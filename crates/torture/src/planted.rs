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
    /// The last byte of what fills a region of the home is not written.
    HomeTailLost,
    /// A source is deleted although forks read it.
    SourceForgotten,
    /// A source counts a fork out before its deletion is durable.
    ReleasedEarly,
    /// A source that nobody forks any more stays hidden.
    UnreadForgotten,
    /// What a fork reads of another lane is not put behind a barrier.
    ForkUnsynced,
    /// A hidden stream that is read from the table can be seen.
    HiddenReturns,
    /// Replay passes over uses.
    UsesForgotten,
    /// An opening counts as a use.
    ExpiryBeginsAnew,
    /// Watchers of a stream that ends are not woken.
    WatchersForgotten,
    /// What becomes durable is noted of whichever stream has the slot by then.
    SlotMistaken,
    /// A table counts before the records are durable that it holds.
    TableAhead,
    /// The home forgets streams whose end may not be durable.
    DeadTooEarly,
    /// Nothing vouches for the last commit of a log that is closed.
    WitnessForgotten,
}

impl Planted {
    /// Every one.
    pub const ALL: [Self; 21] = [
        Self::BarrierSkipped,
        Self::HomeBarrierSkipped,
        Self::AckBeforeBarrier,
        Self::StaleFramesTaken,
        Self::RecycledEarly,
        Self::HomeFailureIgnored,
        Self::EvidenceIgnored,
        Self::ProducersForgotten,
        Self::HomeTailLost,
        Self::SourceForgotten,
        Self::ReleasedEarly,
        Self::UnreadForgotten,
        Self::ForkUnsynced,
        Self::HiddenReturns,
        Self::UsesForgotten,
        Self::ExpiryBeginsAnew,
        Self::WatchersForgotten,
        Self::SlotMistaken,
        Self::TableAhead,
        Self::DeadTooEarly,
        Self::WitnessForgotten,
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
            Self::HomeTailLost => "the tail of a home's region is lost",
            Self::SourceForgotten => "a source goes before its forks",
            Self::ReleasedEarly => "a source is let go before its fork's end is durable",
            Self::UnreadForgotten => "a source without forks is kept",
            Self::ForkUnsynced => "what a fork reads of another lane has no barrier",
            Self::HiddenReturns => "a hidden stream returns",
            Self::UsesForgotten => "uses are not replayed",
            Self::ExpiryBeginsAnew => "an opening counts as a use",
            Self::WatchersForgotten => "watchers of what ends are not woken",
            Self::SlotMistaken => "a slot is taken for the stream that it had",
            Self::TableAhead => "a table is ahead of the log",
            Self::DeadTooEarly => "a home forgets what may come back",
            Self::WitnessForgotten => "an orderly end has no witness",
        }
    }

    pub(crate) const fn pretence(self) -> Pretence {
        match self {
            Self::BarrierSkipped => Pretence::LogBarriers,
            Self::HomeBarrierSkipped => Pretence::HomeBarriers,
            Self::HomeTailLost => Pretence::HomeTails,
            _ => Pretence::Nothing,
        }
    }

    pub(crate) const fn in_the_log(self) -> Option<in_log::Planted> {
        match self {
            Self::BarrierSkipped | Self::HomeBarrierSkipped | Self::HomeTailLost => None,
            Self::AckBeforeBarrier => Some(in_log::Planted::AckBeforeBarrier),
            Self::StaleFramesTaken => Some(in_log::Planted::StaleFramesTaken),
            Self::RecycledEarly => Some(in_log::Planted::RecycledEarly),
            Self::HomeFailureIgnored => Some(in_log::Planted::HomeFailureIgnored),
            Self::EvidenceIgnored => Some(in_log::Planted::EvidenceIgnored),
            Self::ProducersForgotten => Some(in_log::Planted::ProducersForgotten),
            Self::SourceForgotten => Some(in_log::Planted::SourceForgotten),
            Self::ReleasedEarly => Some(in_log::Planted::ReleasedEarly),
            Self::UnreadForgotten => Some(in_log::Planted::UnreadForgotten),
            Self::ForkUnsynced => Some(in_log::Planted::ForkUnsynced),
            Self::HiddenReturns => Some(in_log::Planted::HiddenReturns),
            Self::UsesForgotten => Some(in_log::Planted::UsesForgotten),
            Self::ExpiryBeginsAnew => Some(in_log::Planted::ExpiryBeginsAnew),
            Self::WatchersForgotten => Some(in_log::Planted::WatchersForgotten),
            Self::SlotMistaken => Some(in_log::Planted::SlotMistaken),
            Self::TableAhead => Some(in_log::Planted::TableAhead),
            Self::DeadTooEarly => Some(in_log::Planted::DeadTooEarly),
            Self::WitnessForgotten => Some(in_log::Planted::WitnessForgotten),
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
