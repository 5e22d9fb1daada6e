//! What the next frame of a lane must be, and why another is not it.

use super::FrameHeader;
use crate::ids::{Epoch, LaneId, Lsn};

/// What the next frame of a lane must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameContext {
    /// First 8 bytes of the store's id.
    pub store_tag: u64,
    /// The lane.
    pub lane: LaneId,
    /// Epoch of the frame before: a frame's is never smaller.
    pub epoch_at_least: Epoch,
    /// Where the frame was read.
    pub expected_lsn: Lsn,
    /// [`FrameHeader::header_crc`] of the frame before, 0 for the first of a lane; absent when it
    /// is not known.
    pub prev_crc: Option<u32>,
}

impl FrameContext {
    /// Judges a frame whose own checksums are right.
    ///
    /// # Errors
    /// The first reason why it is not the next frame.
    pub fn judge(&self, header: &FrameHeader) -> Result<(), FrameRejection> {
        if header.lsn != self.expected_lsn {
            let (stored, expected) = (header.lsn, self.expected_lsn);
            return Err(FrameRejection::WrongPlace { stored, expected });
        }
        if header.store_tag != self.store_tag {
            let (stored, expected) = (header.store_tag, self.store_tag);
            return Err(FrameRejection::ForeignStore { stored, expected });
        }
        if header.lane != self.lane {
            let (stored, expected) = (header.lane, self.lane);
            return Err(FrameRejection::ForeignLane { stored, expected });
        }
        if header.epoch < self.epoch_at_least {
            let (stored, at_least) = (header.epoch, self.epoch_at_least);
            return Err(FrameRejection::OldEpoch { stored, at_least });
        }
        match self.prev_crc {
            Some(expected) if expected != header.prev_crc => {
                Err(FrameRejection::BrokenChain { stored: header.prev_crc, expected })
            }
            _ => Ok(()),
        }
    }

    /// Returns what the frame behind this one must be.
    #[must_use]
    pub fn after(&self, header: &FrameHeader) -> Self {
        Self {
            epoch_at_least: header.epoch,
            expected_lsn: header.end(),
            prev_crc: Some(header.header_crc()),
            ..*self
        }
    }
}

/// Why a frame with right checksums is not the next one of its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameRejection {
    /// Stale, from an earlier use of the segment, or misdirected.
    #[error("frame of lsn {stored} at lsn {expected}")]
    WrongPlace {
        /// The frame's own position.
        stored: Lsn,
        /// Where it was read.
        expected: Lsn,
    },
    /// Another store's.
    #[error("frame of store {stored:#018x} in store {expected:#018x}")]
    ForeignStore {
        /// The frame's.
        stored: u64,
        /// This store's.
        expected: u64,
    },
    /// Another lane's.
    #[error("frame of lane {stored} in lane {expected}")]
    ForeignLane {
        /// The frame's.
        stored: LaneId,
        /// This lane's.
        expected: LaneId,
    },
    /// Written before the lane was opened last, never acknowledged.
    #[error("frame of epoch {stored} behind one of epoch {at_least}")]
    OldEpoch {
        /// The frame's.
        stored: Epoch,
        /// Of the frame before.
        at_least: Epoch,
    },
    /// Not the successor of the frame before.
    #[error("frame follows one with checksum {stored:#010x}, but {expected:#010x} is before it")]
    BrokenChain {
        /// What the frame says of the one before.
        stored: u32,
        /// Checksum of the one before.
        expected: u32,
    },
}
