//! A section of a table's snapshot, as a manifest names it.

use crate::format::bytes::{Bounds, check_zero, len_u64, put, u16_at, u32_at, u64_at};
use crate::format::error::{FormatError, Structure};
use crate::format::snapshot::section::MAX_SECTION_LEN;
use crate::format::snapshot::{SectionHeader, SectionKind, SnapshotHeader};
use crate::ids::{LaneId, Lsn, StreamId};

const NUMBER_AT: usize = 0;
const POSITION_AT: usize = NUMBER_AT + 8;
const FIRST_AT: usize = POSITION_AT + 8;
const STAMP_AT: usize = FIRST_AT + 8;
const LEN_AT: usize = STAMP_AT + 8;
const CRC_AT: usize = LEN_AT + 4;
const ENTRIES_AT: usize = CRC_AT + 4;
const LANE_AT: usize = ENTRIES_AT + 4;
const KIND_AT: usize = LANE_AT + 2;
const ZERO_AT: usize = KIND_AT + 1;
const LEN: usize = ZERO_AT + 1;
const _: () = assert!(LEN == 48, "a section's description has 48 bytes");

/// A section of a file `tables/<n>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// The file's number.
    pub number: u64,
    /// Where it begins in the file.
    pub position: u64,
    /// The lane whose streams it holds.
    pub lane: LaneId,
    /// Smallest number within the lane of a stream of its partition. The largest is the one before
    /// the next partition's first.
    pub first: u64,
    /// Whether it holds the whole partition.
    pub kind: SectionKind,
    /// Replay applies records from here on.
    pub stamp: Lsn,
    /// Streams in it.
    pub entries: u32,
    /// Length, bytes.
    pub len: u32,
    /// Its checksum.
    pub crc: u32,
}

impl Section {
    /// Length of the description, bytes.
    pub const LEN: usize = LEN;

    /// What sections are sorted by.
    pub(super) const fn key(&self) -> (LaneId, u64, u64) {
        (self.lane, self.first, self.number)
    }

    /// Whether a section's header is the one that this describes.
    pub fn is_of(&self, header: &SectionHeader) -> bool {
        let SectionHeader { first, stamp, kind, entries, body_len } = *header;
        let len = u64::from(body_len) + len_u64(SectionHeader::LEN);
        (self.first, self.stamp, self.kind, self.entries) == (first, stamp, kind, entries)
            && u64::from(self.len) == len
    }

    pub(super) fn encode_into(&self, out: &mut [u8]) {
        put(out, NUMBER_AT, &self.number.to_le_bytes());
        put(out, POSITION_AT, &self.position.to_le_bytes());
        put(out, FIRST_AT, &self.first.to_le_bytes());
        put(out, STAMP_AT, &self.stamp.0.to_le_bytes());
        put(out, LEN_AT, &self.len.to_le_bytes());
        put(out, CRC_AT, &self.crc.to_le_bytes());
        put(out, ENTRIES_AT, &self.entries.to_le_bytes());
        put(out, LANE_AT, &self.lane.0.to_le_bytes());
        put(out, KIND_AT, &[self.kind.number()]);
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let structure = Structure::Manifest;
        check_zero(&bytes[ZERO_AT..], structure, "padding")?;
        Ok(Self {
            number: u64_at(bytes, NUMBER_AT),
            position: u64_at(bytes, POSITION_AT),
            lane: LaneId(u16_at(bytes, LANE_AT)),
            first: u64_at(bytes, FIRST_AT),
            kind: SectionKind::from_number(bytes[KIND_AT], structure)?,
            stamp: Lsn(u64_at(bytes, STAMP_AT)),
            entries: u32_at(bytes, ENTRIES_AT),
            len: u32_at(bytes, LEN_AT),
            crc: u32_at(bytes, CRC_AT),
        })
    }

    /// Checks what no writer ever writes, of a section for itself.
    pub(super) fn check_sense(&self) -> Result<(), FormatError> {
        let structure = Structure::Manifest;
        let (field, least, most) =
            ("length of a section", len_u64(SectionHeader::LEN), len_u64(MAX_SECTION_LEN));
        Bounds { structure, field, least, most }.check(u64::from(self.len))?;
        let (field, least, most) =
            ("position of a section", len_u64(SnapshotHeader::LEN), u64::MAX - most);
        Bounds { structure, field, least, most }.check(self.position)?;
        let (field, least, most) = ("first stream of a partition", 0, StreamId::MAX_IN_LANE);
        Bounds { structure, field, least, most }.check(self.first)
    }
}
