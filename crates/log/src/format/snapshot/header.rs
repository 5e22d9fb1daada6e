//! The first block of a snapshot file: which part of which table it holds, and as of when.

use crate::format::StoreId;
use crate::format::block::{BLOCK_BYTES, Block, BlockKind, FIELDS_AT};
use crate::format::bytes::{array_at, check_zero, put, u16_at, u32_at, u64_at};
use crate::format::error::{FormatError, Structure};
use crate::ids::{LaneId, Lsn};

const PARTITION_AT: usize = FIELDS_AT;
const STORE_ID_AT: usize = PARTITION_AT + 4;
const NUMBER_AT: usize = STORE_ID_AT + StoreId::LEN;
const STAMP_AT: usize = NUMBER_AT + 8;
const LANE_AT: usize = STAMP_AT + 8;
const KIND_AT: usize = LANE_AT + 2;
const ZERO_AT: usize = KIND_AT + 1;
const CRC_AT: usize = ZERO_AT + 1;
const _: () = assert!(CRC_AT + 4 == 56, "a snapshot's header has 56 bytes");

const KIND: BlockKind = BlockKind {
    structure: Structure::SnapshotHeader,
    magic: *b"HWTABL\0\x01",
    version: 1,
    crc_at: CRC_AT,
};

/// How much of its partition a snapshot file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SnapshotKind {
    /// Every stream.
    Base,
    /// Streams that changed since the partition's file before.
    Delta,
}

impl SnapshotKind {
    /// Its number on disk.
    pub(in crate::format) const fn number(self) -> u8 {
        match self {
            Self::Base => 1,
            Self::Delta => 2,
        }
    }

    /// Finds the kind of a number.
    pub(in crate::format) fn from_number(
        number: u8,
        structure: Structure,
    ) -> Result<Self, FormatError> {
        match number {
            1 => Ok(Self::Base),
            2 => Ok(Self::Delta),
            other => {
                let (field, stored) = ("kind of snapshot", u64::from(other));
                Err(FormatError::UnknownValue { structure, field, stored })
            }
        }
    }
}

/// Which part of which table a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The store.
    pub store_id: StoreId,
    /// Its own number.
    pub number: u64,
    /// The lane whose streams it holds.
    pub lane: LaneId,
    /// Which part of them.
    pub partition: u32,
    /// How much of that part.
    pub kind: SnapshotKind,
    /// Replay applies records from here on.
    pub stamp: Lsn,
}

impl SnapshotHeader {
    /// Length, bytes.
    pub const LEN: usize = BLOCK_BYTES;

    /// Encodes it. What is returned with it is its checksum.
    pub(super) fn encode_with_crc(&self) -> (Block, u32) {
        let mut block = KIND.start();
        put(&mut block, PARTITION_AT, &self.partition.to_le_bytes());
        put(&mut block, STORE_ID_AT, &self.store_id.0);
        put(&mut block, NUMBER_AT, &self.number.to_le_bytes());
        put(&mut block, STAMP_AT, &self.stamp.0.to_le_bytes());
        put(&mut block, LANE_AT, &self.lane.0.to_le_bytes());
        put(&mut block, KIND_AT, &[self.kind.number()]);
        let crc = KIND.seal(&mut block);
        (block, crc)
    }

    /// Encodes it.
    pub fn encode(&self) -> Block {
        self.encode_with_crc().0
    }

    /// Decodes exactly one block, and returns its checksum too.
    pub(super) fn decode_with_crc(bytes: &[u8]) -> Result<(Self, u32), FormatError> {
        let structure = Structure::SnapshotHeader;
        let crc = KIND.check(bytes)?;
        check_zero(&bytes[ZERO_AT..CRC_AT], structure, "padding")?;
        let header = Self {
            store_id: StoreId(array_at(bytes, STORE_ID_AT)),
            number: u64_at(bytes, NUMBER_AT),
            lane: LaneId(u16_at(bytes, LANE_AT)),
            partition: u32_at(bytes, PARTITION_AT),
            kind: SnapshotKind::from_number(bytes[KIND_AT], structure)?,
            stamp: Lsn(u64_at(bytes, STAMP_AT)),
        };
        Ok((header, crc))
    }

    /// Decodes exactly one block.
    ///
    /// # Errors
    /// When the bytes are not one that this release has written.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        Self::decode_with_crc(bytes).map(|(header, _)| header)
    }
}
