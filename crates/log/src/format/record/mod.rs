//! A record: one operation on one stream, inside a frame's body.

mod read;
mod write;

pub use read::{RecordRef, Records, Verify};
pub use write::NewRecord;

use crate::format::bytes::{Bounds, Input, len_u64, put, round_up, u16_at, u32_at, u64_at};
use crate::format::error::{FormatError, Structure};
use crate::format::extension::MAX_EXTENSIONS_LEN;
use crate::ids::{Lsn, Offset, StreamId};

const KIND_AT: usize = 0;
const FLAGS_AT: usize = KIND_AT + 1;
const EXT_LEN_AT: usize = FLAGS_AT + 1;
const PAYLOAD_LEN_AT: usize = EXT_LEN_AT + 2;
const STREAM_AT: usize = PAYLOAD_LEN_AT + 4;
const OFFSET_AT: usize = STREAM_AT + 8;
const PAYLOAD_CRC_AT: usize = OFFSET_AT + 8;
const PREV_AT: usize = PAYLOAD_CRC_AT + 4;
const _: () = assert!(PREV_AT + 4 == RecordHeader::LEN, "the record header has 32 bytes");

const CLOSES: u8 = 1 << 0;
const HAS_CRC: u8 = 1 << 1;

/// Longest payload of one record, bytes.
pub const MAX_PAYLOAD_LEN: usize = 1 << 30;

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// Makes a stream; its payload is the stream's first bytes.
    Create,
    /// Appends.
    Append,
    /// Closes a stream without appending.
    Close,
    /// Deletes a stream.
    Delete,
    /// Deletes a stream's name; its bytes stay for its forks.
    SoftDelete,
    /// Makes a stream that begins as another's prefix.
    Fork,
    /// Notes that a stream was used.
    Touch,
    /// Begins an epoch of a lane.
    EpochStart,
    /// Does nothing: its frame vouches for those before, as every frame does.
    Witness,
}

impl RecordKind {
    pub(super) const ALL: [Self; 9] = [
        Self::Create,
        Self::Append,
        Self::Close,
        Self::Delete,
        Self::SoftDelete,
        Self::Fork,
        Self::Touch,
        Self::EpochStart,
        Self::Witness,
    ];

    /// Its number on disk.
    pub const fn number(self) -> u8 {
        match self {
            Self::Create => 1,
            Self::Append => 2,
            Self::Close => 3,
            Self::Delete => 4,
            Self::SoftDelete => 5,
            Self::Fork => 6,
            Self::Touch => 7,
            Self::EpochStart => 8,
            Self::Witness => 9,
        }
    }

    /// Whether such a record can have a payload, and can close the stream besides.
    pub const fn adds_bytes(self) -> bool {
        matches!(self, Self::Create | Self::Append | Self::Fork)
    }

    /// Whether such a record belongs to no stream: it carries its lane, and nothing else.
    pub const fn is_of_no_stream(self) -> bool {
        matches!(self, Self::EpochStart | Self::Witness)
    }

    /// Finds the kind of a number.
    fn from_number(number: u8) -> Result<Self, FormatError> {
        Self::ALL.into_iter().find(|kind| kind.number() == number).ok_or({
            let (structure, stored) = (Structure::Record, u64::from(number));
            FormatError::UnknownValue { structure, field: "kind of record", stored }
        })
    }
}

/// What stands before a record's extensions and payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// The operation.
    pub kind: RecordKind,
    /// Whether the record also closes the stream.
    pub closes: bool,
    /// Length of the extensions, bytes: a multiple of 8.
    pub ext_len: u16,
    /// Length of the payload, bytes.
    pub payload_len: u32,
    /// The stream.
    pub stream: StreamId,
    /// Where in the stream the payload begins.
    pub offset: Offset,
    /// CRC-32C of the payload; 0 without one.
    pub payload_crc: u32,
    /// Distance back to the stream's previous record, in units of 8 bytes; 0 when not known.
    pub prev: u32,
}

impl RecordHeader {
    /// Length, bytes.
    pub const LEN: usize = 32;
    /// Records begin and end on multiples of it, bytes from the start of the frame's body.
    pub const ALIGN: usize = 8;

    /// Returns the length of the whole record, bytes: header, extensions, payload, padding.
    pub const fn record_len(&self) -> usize {
        record_len(self.ext_len as usize, self.payload_len as usize)
    }

    /// Returns where the stream's previous record begins, given where this one does.
    pub fn prev_lsn(&self, own: Lsn) -> Option<Lsn> {
        let distance = u64::from(self.prev) * len_u64(Self::ALIGN);
        if distance == 0 { None } else { own.0.checked_sub(distance).map(Lsn) }
    }

    /// Returns the value of `prev` for a record at `own` whose predecessor is at `prev`: 0 when it
    /// is too far away to say.
    pub fn distance(own: Lsn, prev: Lsn) -> u32 {
        let distance = own.0.saturating_sub(prev.0) / len_u64(Self::ALIGN);
        u32::try_from(distance).unwrap_or(0)
    }

    /// Encodes it.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        let closes = if self.closes { CLOSES } else { 0 };
        let has_crc = if self.payload_len > 0 { HAS_CRC } else { 0 };
        put(&mut out, KIND_AT, &[self.kind.number(), closes | has_crc]);
        put(&mut out, EXT_LEN_AT, &self.ext_len.to_le_bytes());
        put(&mut out, PAYLOAD_LEN_AT, &self.payload_len.to_le_bytes());
        put(&mut out, STREAM_AT, &self.stream.0.to_le_bytes());
        put(&mut out, OFFSET_AT, &self.offset.0.to_le_bytes());
        put(&mut out, PAYLOAD_CRC_AT, &self.payload_crc.to_le_bytes());
        put(&mut out, PREV_AT, &self.prev.to_le_bytes());
        out
    }

    /// Decodes the header at the front of `bytes`. It has no checksum of its own: the frame's
    /// covers it.
    ///
    /// # Errors
    /// When the bytes are not a header that this release has written.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let structure = Structure::Record;
        let bytes = Input::new(structure, bytes).take(Self::LEN)?;
        let flags = bytes[FLAGS_AT];
        if flags & !(CLOSES | HAS_CRC) != 0 {
            return Err(FormatError::NotZero { structure, field: "unused flags" });
        }
        let header = Self {
            kind: RecordKind::from_number(bytes[KIND_AT])?,
            closes: flags & CLOSES != 0,
            ext_len: u16_at(bytes, EXT_LEN_AT),
            payload_len: u32_at(bytes, PAYLOAD_LEN_AT),
            stream: StreamId(u64_at(bytes, STREAM_AT)),
            offset: Offset(u64_at(bytes, OFFSET_AT)),
            payload_crc: u32_at(bytes, PAYLOAD_CRC_AT),
            prev: u32_at(bytes, PREV_AT),
        };
        // A torn record must not pass as one whose checksum nobody asked for.
        if (flags & HAS_CRC != 0) != (header.payload_len > 0) {
            return Err(FormatError::Misfit { structure, field: "flag of the checksum" });
        }
        header.check_sense()?;
        Ok(header)
    }

    /// Checks what no writer ever writes.
    fn check_sense(&self) -> Result<(), FormatError> {
        let structure = Structure::Record;
        if !self.kind.adds_bytes() && (self.payload_len > 0 || self.closes) {
            return Err(FormatError::Misfit { structure, field: "payload or closing flag" });
        }
        if self.kind.is_of_no_stream()
            && (self.stream.in_lane(), self.offset.0, self.prev, self.ext_len) != (0, 0, 0, 0)
        {
            return Err(FormatError::NotZero { structure, field: "record of no stream" });
        }
        if self.payload_len == 0 && self.payload_crc != 0 {
            return Err(FormatError::NotZero { structure, field: "checksum of no payload" });
        }
        let (field, most) = ("length of the payload", len_u64(MAX_PAYLOAD_LEN));
        Bounds { structure, field, least: 0, most }.check(u64::from(self.payload_len))?;
        let (field, most) = ("length of the extensions", len_u64(MAX_EXTENSIONS_LEN));
        Bounds { structure, field, least: 0, most }.check(u64::from(self.ext_len))?;
        let whole = self.ext_len - self.ext_len % 8;
        if self.ext_len != whole {
            let (stored, computed) = (u64::from(self.ext_len), u64::from(whole));
            return Err(FormatError::Disagrees { structure, field, stored, computed });
        }
        Ok(())
    }
}

/// Returns the length of a record, bytes.
const fn record_len(ext_len: usize, payload_len: usize) -> usize {
    RecordHeader::LEN + ext_len + round_up(payload_len, RecordHeader::ALIGN)
}

#[cfg(test)]
mod tests;
