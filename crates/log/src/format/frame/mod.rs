//! The header of a frame: one committed batch, and everything that tells it from a stale,
//! misdirected or torn one. [`FrameContext`] judges whether it is the next one of its lane.

mod context;

pub use context::{FrameContext, FrameRejection};

use crate::format::block::BLOCK_BYTES;
use crate::format::bytes::{Bounds, check_zero, len_u64, len_usize, put, u16_at, u32_at, u64_at};
use crate::format::error::{FormatError, Structure};
use crate::format::record::RecordHeader;
use crate::ids::{Epoch, LaneId, Lsn};

const MAGIC_AT: usize = 0;
const HEADER_CRC_AT: usize = MAGIC_AT + 4;
const LSN_AT: usize = HEADER_CRC_AT + 4;
const STORE_TAG_AT: usize = LSN_AT + 8;
const LANE_AT: usize = STORE_TAG_AT + 8;
const FLAGS_AT: usize = LANE_AT + 2;
const EPOCH_AT: usize = FLAGS_AT + 2;
const PREV_CRC_AT: usize = EPOCH_AT + 4;
const BODY_CRC_AT: usize = PREV_CRC_AT + 4;
const BODY_LEN_AT: usize = BODY_CRC_AT + 4;
const RECORD_COUNT_AT: usize = BODY_LEN_AT + 4;
const DURABLE_LSN_AT: usize = RECORD_COUNT_AT + 4;
const TIME_MS_AT: usize = DURABLE_LSN_AT + 8;
const _: () = assert!(TIME_MS_AT + 8 == FrameHeader::LEN, "the frame header has 64 bytes");

const MAGIC: [u8; 4] = *b"HWFR";

/// What stands before a frame's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Its own position.
    pub lsn: Lsn,
    /// First 8 bytes of the store's id ([`crate::format::StoreId::tag`]).
    pub store_tag: u64,
    /// The lane.
    pub lane: LaneId,
    /// The lane's epoch.
    pub epoch: Epoch,
    /// [`FrameHeader::header_crc`] of the frame before; 0 for the first of a lane.
    pub prev_crc: u32,
    /// CRC-32C of the records.
    pub body_crc: u32,
    /// Length of the records, bytes.
    pub body_len: u32,
    /// Number of the records, at least 1.
    pub record_count: u32,
    /// Everything before it was durable when this frame was sealed.
    pub durable_lsn: Lsn,
    /// When it was sealed: milliseconds since 1970, UTC.
    pub time_ms: u64,
}

impl FrameHeader {
    /// Length, bytes; the records are right behind.
    pub const LEN: usize = 64;

    /// Returns the length of a whole frame with so many bytes of records: header, records, zeros
    /// up to the next block.
    pub const fn padded_len(body_len: u32) -> u64 {
        (Self::LEN as u64 + body_len as u64).next_multiple_of(BLOCK_BYTES as u64)
    }

    /// Returns the length of the whole frame, bytes.
    pub const fn frame_len(&self) -> u64 {
        Self::padded_len(self.body_len)
    }

    /// Returns the position behind the frame.
    pub const fn end(&self) -> Lsn {
        Lsn(self.lsn.0.saturating_add(self.frame_len()))
    }

    /// Computes the header's checksum: what the next frame carries as `prev_crc`.
    pub fn header_crc(&self) -> u32 {
        checksum(&self.fields())
    }

    /// Encodes it at the front of `out`. What is returned is [`FrameHeader::header_crc`].
    ///
    /// # Panics
    /// When `out` is shorter than the header.
    pub fn encode_into(&self, out: &mut [u8]) -> u32 {
        let mut fields = self.fields();
        let crc = checksum(&fields);
        put(&mut fields, HEADER_CRC_AT, &crc.to_le_bytes());
        put(out, 0, &fields);
        crc
    }

    /// Encodes everything but the checksum, which is left zero.
    fn fields(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        put(&mut out, MAGIC_AT, &MAGIC);
        put(&mut out, LSN_AT, &self.lsn.0.to_le_bytes());
        put(&mut out, STORE_TAG_AT, &self.store_tag.to_le_bytes());
        put(&mut out, LANE_AT, &self.lane.0.to_le_bytes());
        put(&mut out, EPOCH_AT, &self.epoch.0.to_le_bytes());
        put(&mut out, PREV_CRC_AT, &self.prev_crc.to_le_bytes());
        put(&mut out, BODY_CRC_AT, &self.body_crc.to_le_bytes());
        put(&mut out, BODY_LEN_AT, &self.body_len.to_le_bytes());
        put(&mut out, RECORD_COUNT_AT, &self.record_count.to_le_bytes());
        put(&mut out, DURABLE_LSN_AT, &self.durable_lsn.0.to_le_bytes());
        put(&mut out, TIME_MS_AT, &self.time_ms.to_le_bytes());
        out
    }

    /// Decodes the header at the front of `bytes`; what follows it is not looked at.
    ///
    /// # Errors
    /// When the bytes are not a header that this release has written.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let structure = Structure::Frame;
        let Some(bytes) = bytes.get(..Self::LEN) else {
            let (needed, got) = (len_u64(Self::LEN), len_u64(bytes.len()));
            return Err(FormatError::WrongLength { structure, needed, got });
        };
        if bytes[..HEADER_CRC_AT] != MAGIC {
            let (stored, expected) = (u32_at(bytes, MAGIC_AT), u32::from_le_bytes(MAGIC));
            let (stored, expected) = (u64::from(stored), u64::from(expected));
            return Err(FormatError::WrongMagic { structure, stored, expected });
        }
        let (stored, computed) = (u32_at(bytes, HEADER_CRC_AT), checksum(bytes));
        if stored != computed {
            return Err(FormatError::WrongCrc { structure, stored, computed });
        }
        check_zero(&bytes[FLAGS_AT..EPOCH_AT], structure, "flags")?;
        let header = Self {
            lsn: Lsn(u64_at(bytes, LSN_AT)),
            store_tag: u64_at(bytes, STORE_TAG_AT),
            lane: LaneId(u16_at(bytes, LANE_AT)),
            epoch: Epoch(u32_at(bytes, EPOCH_AT)),
            prev_crc: u32_at(bytes, PREV_CRC_AT),
            body_crc: u32_at(bytes, BODY_CRC_AT),
            body_len: u32_at(bytes, BODY_LEN_AT),
            record_count: u32_at(bytes, RECORD_COUNT_AT),
            durable_lsn: Lsn(u64_at(bytes, DURABLE_LSN_AT)),
            time_ms: u64_at(bytes, TIME_MS_AT),
        };
        header.check_sense()?;
        Ok(header)
    }

    /// Whether bytes that are no header look like a damaged one of this position and store: both
    /// are fields of 64 bits that other bytes do not have by chance.
    pub(crate) fn resembles(bytes: &[u8], lsn: Lsn, store_tag: u64) -> bool {
        bytes.len() >= Self::LEN
            && (u64_at(bytes, LSN_AT) == lsn.0 || u64_at(bytes, STORE_TAG_AT) == store_tag)
    }

    /// Checks what no writer ever writes, checksum or not.
    fn check_sense(&self) -> Result<(), FormatError> {
        let structure = Structure::Frame;
        let block = len_u64(BLOCK_BYTES);
        if !self.lsn.0.is_multiple_of(block) {
            let (stored, computed) = (self.lsn.0, self.lsn.0 - self.lsn.0 % block);
            return Err(FormatError::Disagrees { structure, field: "lsn", stored, computed });
        }
        let most = u64::from(u32::MAX);
        Bounds { structure, field: "record count", least: 1, most }
            .check(u64::from(self.record_count))?;
        let least = len_u64(RecordHeader::LEN) * u64::from(self.record_count);
        let body_len = u64::from(self.body_len);
        Bounds { structure, field: "body length", least, most }.check(body_len)?;
        let whole = body_len - body_len % len_u64(RecordHeader::ALIGN);
        if body_len != whole {
            let (field, stored, computed) = ("body length", body_len, whole);
            return Err(FormatError::Disagrees { structure, field, stored, computed });
        }
        Bounds { structure, field: "durable lsn", least: 0, most: self.lsn.0 }
            .check(self.durable_lsn.0)
    }

    /// Checks what follows the header: the records' checksum, and the zeros up to the end of the
    /// frame. `rest` may be longer. What is returned are the records.
    ///
    /// # Errors
    /// When the frame is cut off, or its bytes are not those that were written.
    pub fn check_body<'a>(&self, rest: &'a [u8]) -> Result<&'a [u8], FormatError> {
        let structure = Structure::Frame;
        let needed = self.frame_len() - len_u64(Self::LEN);
        let frame = usize::try_from(needed).ok().and_then(|needed| rest.get(..needed));
        let Some(frame) = frame else {
            return Err(FormatError::WrongLength { structure, needed, got: len_u64(rest.len()) });
        };
        let (body, pad) = frame.split_at(len_usize(self.body_len));
        let (stored, computed) = (self.body_crc, crc32c::crc32c(body));
        if stored != computed {
            return Err(FormatError::WrongCrc { structure, stored, computed });
        }
        check_zero(pad, structure, "padding")?;
        Ok(body)
    }
}

/// Computes the checksum of a header around the place where it stands itself.
fn checksum(header: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..HEADER_CRC_AT]), &header[LSN_AT..])
}

#[cfg(test)]
mod tests;
