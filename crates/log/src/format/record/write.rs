//! Writing a record into the image of a segment.

use super::{MAX_PAYLOAD_LEN, RecordHeader, RecordKind, record_len};
use crate::format::bytes::{Bounds, len_u64, round_up};
use crate::format::error::{FormatError, Structure};
use crate::format::extension::Extensions;
use crate::ids::{Offset, StreamId};

/// Bytes copied before they are checksummed, while they are still in the cache: what `crc32c`
/// computes in one go.
const COPY_BYTES: usize = 24 << 10;

/// A record to be written.
#[derive(Debug, Clone, Copy)]
pub struct NewRecord<'a> {
    /// The operation.
    pub kind: RecordKind,
    /// Whether it also closes the stream.
    pub closes: bool,
    /// The stream.
    pub stream: StreamId,
    /// Where in the stream the payload begins.
    pub offset: Offset,
    /// Distance back to the stream's previous record ([`RecordHeader::distance`]).
    pub prev: u32,
    /// Fields.
    pub extensions: Extensions<'a>,
    /// Bytes.
    pub payload: &'a [u8],
    /// CRC-32C of the payload where it is known already.
    pub payload_crc: Option<u32>,
}

impl NewRecord<'_> {
    /// Checks all lengths and returns how long the record is encoded, bytes: a multiple of 8.
    ///
    /// # Errors
    /// [`FormatError::OutOfRange`] for a field or payload that is too long.
    pub fn encoded_len(&self) -> Result<usize, FormatError> {
        let (structure, field) = (Structure::Record, "length of the payload");
        Bounds { structure, field, least: 0, most: len_u64(MAX_PAYLOAD_LEN) }
            .check(len_u64(self.payload.len()))?;
        Ok(record_len(self.extensions.encoded_len()?, self.payload.len()))
    }

    /// Encodes the record, copying its payload once and computing the checksum on the way if it is
    /// not known.
    ///
    /// # Panics
    /// When `out` is not as long as [`NewRecord::encoded_len`] says, or the kind has no payload
    /// and there is one.
    pub fn encode_into(&self, out: &mut [u8]) -> RecordHeader {
        let (head, rest) = out.split_at_mut(RecordHeader::LEN);
        let padded = round_up(self.payload.len(), RecordHeader::ALIGN);
        let ext_len = rest.len().checked_sub(padded).expect("encoded_len says how much is needed");
        let (ext, tail) = rest.split_at_mut(ext_len);
        self.extensions.encode_into(ext);
        let (payload, pad) = tail.split_at_mut(self.payload.len());
        pad.fill(0);
        let payload_crc = if let Some(crc) = self.payload_crc {
            payload.copy_from_slice(self.payload);
            crc
        } else {
            copy_and_checksum(payload, self.payload)
        };
        let header = RecordHeader {
            kind: self.kind,
            closes: self.closes,
            ext_len: u16::try_from(ext_len).expect("the longest extensions fit"),
            payload_len: u32::try_from(self.payload.len()).expect("encoded_len has checked it"),
            stream: self.stream,
            offset: self.offset,
            payload_crc,
            prev: self.prev,
        };
        header.check_sense().expect("a record is written only if it can be read");
        head.copy_from_slice(&header.encode());
        header
    }
}

/// Copies bytes, and returns the CRC-32C of the copy.
fn copy_and_checksum(out: &mut [u8], from: &[u8]) -> u32 {
    out.chunks_mut(COPY_BYTES).zip(from.chunks(COPY_BYTES)).fold(0, |crc, (out, from)| {
        out.copy_from_slice(from);
        crc32c::crc32c_append(crc, out)
    })
}
