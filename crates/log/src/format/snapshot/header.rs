//! The first block of a file `tables/<n>`: whose table its sections are of.

use crate::format::StoreId;
use crate::format::block::{BLOCK_BYTES, Block, BlockKind, FIELDS_AT};
use crate::format::bytes::{array_at, check_zero, put, u16_at, u64_at};
use crate::format::error::{FormatError, Structure};
use crate::ids::LaneId;

const LANE_AT: usize = FIELDS_AT;
const ZERO_AT: usize = LANE_AT + 2;
const STORE_ID_AT: usize = ZERO_AT + 2;
const NUMBER_AT: usize = STORE_ID_AT + StoreId::LEN;
const CRC_AT: usize = NUMBER_AT + 8;
const _: () = assert!(CRC_AT + 4 == 44, "a snapshot's header has 44 bytes");

const KIND: BlockKind = BlockKind {
    structure: Structure::SnapshotHeader,
    magic: *b"HWTABL\0\x01",
    version: 1,
    crc_at: CRC_AT,
};

/// Whose table the sections of a file are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The store.
    pub store_id: StoreId,
    /// The lane whose streams they hold.
    pub lane: LaneId,
    /// The file's own number.
    pub number: u64,
}

impl SnapshotHeader {
    /// Length, bytes.
    pub const LEN: usize = BLOCK_BYTES;

    /// Encodes it. What is returned with it is its checksum, from which those of sections go on.
    pub fn encode(&self) -> (Block, u32) {
        let mut block = KIND.start();
        put(&mut block, LANE_AT, &self.lane.0.to_le_bytes());
        put(&mut block, STORE_ID_AT, &self.store_id.0);
        put(&mut block, NUMBER_AT, &self.number.to_le_bytes());
        let crc = KIND.seal(&mut block);
        (block, crc)
    }

    /// Decodes exactly one block, and returns its checksum too.
    ///
    /// # Errors
    /// When the bytes are not one that this release has written.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u32), FormatError> {
        let crc = KIND.check(bytes)?;
        check_zero(&bytes[ZERO_AT..STORE_ID_AT], Structure::SnapshotHeader, "padding")?;
        let header = Self {
            store_id: StoreId(array_at(bytes, STORE_ID_AT)),
            lane: LaneId(u16_at(bytes, LANE_AT)),
            number: u64_at(bytes, NUMBER_AT),
        };
        Ok((header, crc))
    }
}
