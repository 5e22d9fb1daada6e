//! The first block of a segment: whose it is, and which part of the log it holds.

use super::StoreId;
use super::block::{BLOCK_BYTES, Block, BlockKind, FIELDS_AT};
use super::bytes::{Bounds, array_at, check_zero, len_u64, put, u16_at, u32_at, u64_at};
use super::error::{FormatError, Structure};
use crate::ids::{Epoch, LaneId, SegmentNo};

const EPOCH_AT: usize = FIELDS_AT;
const STORE_ID_AT: usize = EPOCH_AT + 4;
const SEGNO_AT: usize = STORE_ID_AT + StoreId::LEN;
const SEGMENT_BYTES_AT: usize = SEGNO_AT + 8;
const TIME_MS_AT: usize = SEGMENT_BYTES_AT + 8;
const LANE_AT: usize = TIME_MS_AT + 8;
const ZERO_AT: usize = LANE_AT + 2;
const CRC_AT: usize = ZERO_AT + 2;
const _: () = assert!(CRC_AT + 4 == 64, "the segment header has 64 bytes");

const KIND: BlockKind = BlockKind {
    structure: Structure::Segment,
    magic: *b"HWSEGM\0\x01",
    version: 1,
    crc_at: CRC_AT,
};

/// Smallest segment, bytes: its header and a frame of one block.
pub const MIN_SEGMENT_BYTES: u64 = 2 * 4096;
/// Largest segment, bytes: the length of a frame's body has 32 bits.
pub const MAX_SEGMENT_BYTES: u64 = 4 << 30;

/// Whose a segment is, and which part of the log it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The store.
    pub store_id: StoreId,
    /// The lane.
    pub lane: LaneId,
    /// The lane's epoch when the segment was activated.
    pub epoch: Epoch,
    /// Which part of the lane's log.
    pub segno: SegmentNo,
    /// Length of the segment with this header, bytes.
    pub segment_bytes: u64,
    /// When it was activated: milliseconds since 1970, UTC.
    pub time_ms: u64,
}

impl SegmentHeader {
    /// Length, bytes.
    pub const LEN: usize = BLOCK_BYTES;

    /// Encodes it.
    pub fn encode(&self) -> Block {
        let mut block = KIND.start();
        put(&mut block, EPOCH_AT, &self.epoch.0.to_le_bytes());
        put(&mut block, STORE_ID_AT, &self.store_id.0);
        put(&mut block, SEGNO_AT, &self.segno.0.to_le_bytes());
        put(&mut block, SEGMENT_BYTES_AT, &self.segment_bytes.to_le_bytes());
        put(&mut block, TIME_MS_AT, &self.time_ms.to_le_bytes());
        put(&mut block, LANE_AT, &self.lane.0.to_le_bytes());
        KIND.seal(&mut block);
        block
    }

    /// Decodes exactly one block.
    ///
    /// # Errors
    /// When the bytes are not one that this release has written.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        KIND.check(bytes)?;
        check_zero(&bytes[ZERO_AT..CRC_AT], Structure::Segment, "padding")?;
        let segment_bytes = u64_at(bytes, SEGMENT_BYTES_AT);
        check_segment_bytes(segment_bytes, Structure::Segment)?;
        Ok(Self {
            store_id: StoreId(array_at(bytes, STORE_ID_AT)),
            lane: LaneId(u16_at(bytes, LANE_AT)),
            epoch: Epoch(u32_at(bytes, EPOCH_AT)),
            segno: SegmentNo(u64_at(bytes, SEGNO_AT)),
            segment_bytes,
            time_ms: u64_at(bytes, TIME_MS_AT),
        })
    }
}

/// Checks a segment's length: whole blocks, within bounds.
pub(super) fn check_segment_bytes(bytes: u64, structure: Structure) -> Result<(), FormatError> {
    let field = "segment length";
    Bounds { structure, field, least: MIN_SEGMENT_BYTES, most: MAX_SEGMENT_BYTES }.check(bytes)?;
    let whole = bytes - bytes % len_u64(BLOCK_BYTES);
    if whole == bytes {
        return Ok(());
    }
    Err(FormatError::Disagrees { structure, field, stored: bytes, computed: whole })
}

#[cfg(test)]
#[path = "segment_tests.rs"]
mod tests;
