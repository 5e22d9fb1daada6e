//! What a check finds, and what it concludes from it.

use crate::format::StoreId;
use crate::ids::{Epoch, LaneId, Lsn};

/// What a check concludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is as it was written.
    Clean,
    /// A crash cut the log's end off in the middle of a commit that nothing says was acknowledged.
    TornTail,
    /// Bytes are not what was written, or are missing.
    Damaged,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// The store; absent when its root cannot be read.
    pub store: Option<StoreRoot>,
    /// Its lanes, as far as they could be looked at.
    pub lanes: Vec<LaneReport>,
    /// What is not as it was written; empty for a sound store.
    pub damage: Vec<Damage>,
    /// Files that no part of the store uses.
    pub leftovers: Vec<Leftover>,
}

/// The root of a store, from its superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreRoot {
    /// Its id.
    pub store_id: StoreId,
    /// Generation of the superblock.
    pub generation: u64,
    /// Number of the manifest; 0 before the first checkpoint.
    pub manifest: u64,
    /// Lanes of the log.
    pub lanes: u16,
    /// Length of a segment, bytes.
    pub segment_bytes: u64,
}

/// What was found of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaneReport {
    /// The lane.
    pub lane: LaneId,
    /// Epoch of its last frame.
    pub epoch: Epoch,
    /// Where its replay starts.
    pub replay_from: Lsn,
    /// Where its log ends: everything before is found again by the next opening.
    pub end: Lsn,
    /// Segments that hold its log.
    pub segments: u64,
    /// Segment files that wait to be used.
    pub spares: u64,
    /// Good frames.
    pub frames: u64,
    /// Records in them.
    pub records: u64,
    /// Streams of its table, replayed.
    pub streams: u64,
    /// Bytes of the frames.
    pub log_bytes: u64,
    /// Bytes of its streams in their home.
    pub home_bytes: u64,
    /// Whether something behind the last commit says that it was durable, as after an orderly end
    /// or a quiet time. Otherwise damage to a last commit cannot be told from a torn end.
    pub is_vouched: bool,
    /// Its unfinished end.
    pub torn: Option<TornTail>,
}

/// The unfinished end of a lane's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The segment's file.
    pub file: String,
    /// Where in it, bytes.
    pub offset: u64,
    /// How many, bytes.
    pub len_bytes: u64,
    /// Why no frame can be read there.
    pub why: String,
}

/// Bytes that are not what was written, or are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// Where in it, bytes.
    pub offset: u64,
    /// How many, bytes.
    pub len_bytes: u64,
    /// What is wrong.
    pub what: String,
    /// What it costs.
    pub reach: Reach,
    /// What to do.
    pub advice: &'static str,
}

/// What a damage costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Something that was acknowledged cannot be read, or can no longer be relied on.
    Acknowledged,
    /// Nothing that was acknowledged.
    Nothing,
}

/// A file that no part of the store uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// The file.
    pub file: String,
    /// What it is, and what becomes of it.
    pub what: &'static str,
}

impl CheckReport {
    /// Concludes.
    pub fn verdict(&self) -> Verdict {
        if !self.damage.is_empty() {
            Verdict::Damaged
        } else if self.lanes.iter().any(|lane| lane.torn.is_some()) {
            Verdict::TornTail
        } else {
            Verdict::Clean
        }
    }

    /// Whether any damage reaches something that was acknowledged.
    pub fn reaches_acknowledged(&self) -> bool {
        self.damage.iter().any(|damage| damage.reach == Reach::Acknowledged)
    }

    /// Adds a number of all lanes up.
    pub fn total(&self, of: impl Fn(&LaneReport) -> u64) -> u64 {
        self.lanes.iter().map(of).sum()
    }
}

/// Advice for damage to what an opening needs.
pub(super) const RESTORE: &str = "restore the store from a copy; opening it as it is would refuse, \
                                  or go on without what is damaged";

impl Damage {
    /// Notes damage that reaches what was acknowledged.
    pub(super) fn serious(file: &str, (offset, len_bytes): (u64, u64), what: String) -> Self {
        let (file, reach, advice) = (file.to_owned(), Reach::Acknowledged, RESTORE);
        Self { file, offset, len_bytes, what, reach, advice }
    }
}
