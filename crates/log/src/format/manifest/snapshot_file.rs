//! A snapshot file, as a manifest names it.

use crate::format::bytes::{check_zero, put, u16_at, u32_at, u64_at};
use crate::format::error::{FormatError, Structure};
use crate::format::snapshot::SnapshotKind;
use crate::ids::{LaneId, Lsn};

const NUMBER_AT: usize = 0;
const STAMP_AT: usize = NUMBER_AT + 8;
const LEN_AT: usize = STAMP_AT + 8;
const PARTITION_AT: usize = LEN_AT + 8;
const CRC_AT: usize = PARTITION_AT + 4;
const LANE_AT: usize = CRC_AT + 4;
const KIND_AT: usize = LANE_AT + 2;
const ZERO_AT: usize = KIND_AT + 1;
const LEN: usize = ZERO_AT + 5;
const _: () = assert!(LEN == 40, "a snapshot's description has 40 bytes");

/// A file `tables/<n>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotFile {
    /// Its number.
    pub number: u64,
    /// The lane whose streams it holds.
    pub lane: LaneId,
    /// Which part of them.
    pub partition: u32,
    /// Whether it holds the whole part.
    pub kind: SnapshotKind,
    /// Replay applies records from here on.
    pub stamp: Lsn,
    /// Length, bytes.
    pub len: u64,
    /// Checksum of its content ([`crate::format::snapshot::SnapshotSummary::crc`]).
    pub crc: u32,
}

impl SnapshotFile {
    /// Length, bytes.
    pub const LEN: usize = LEN;

    pub(super) fn encode_into(&self, out: &mut [u8]) {
        put(out, NUMBER_AT, &self.number.to_le_bytes());
        put(out, STAMP_AT, &self.stamp.0.to_le_bytes());
        put(out, LEN_AT, &self.len.to_le_bytes());
        put(out, PARTITION_AT, &self.partition.to_le_bytes());
        put(out, CRC_AT, &self.crc.to_le_bytes());
        put(out, LANE_AT, &self.lane.0.to_le_bytes());
        put(out, KIND_AT, &[self.kind.number()]);
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let structure = Structure::Manifest;
        check_zero(&bytes[ZERO_AT..], structure, "padding")?;
        Ok(Self {
            number: u64_at(bytes, NUMBER_AT),
            lane: LaneId(u16_at(bytes, LANE_AT)),
            partition: u32_at(bytes, PARTITION_AT),
            kind: SnapshotKind::from_number(bytes[KIND_AT], structure)?,
            stamp: Lsn(u64_at(bytes, STAMP_AT)),
            len: u64_at(bytes, LEN_AT),
            crc: u32_at(bytes, CRC_AT),
        })
    }
}
