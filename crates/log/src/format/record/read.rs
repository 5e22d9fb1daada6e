//! Reading the records of a frame's body.

use super::RecordHeader;
use crate::format::bytes::{Input, len_u64, len_usize};
use crate::format::error::{FormatError, Structure};
use crate::format::extension::Extensions;

/// Whether reading a record checks its payload's checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verify {
    /// Compare it with the bytes.
    Payloads,
    /// Leave it: the frame's checksum over the same bytes has just been checked.
    Structure,
}

/// A record that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// Its header.
    pub header: RecordHeader,
    /// Its extensions, encoded.
    pub ext: &'a [u8],
    /// Its payload.
    pub payload: &'a [u8],
    /// Where in the frame's body it begins.
    pub at: usize,
}

impl<'a> RecordRef<'a> {
    /// Decodes the record that begins at `at`.
    ///
    /// # Errors
    /// When none begins there that this release has written.
    pub fn decode(body: &'a [u8], at: usize, verify: Verify) -> Result<Self, FormatError> {
        let structure = Structure::Record;
        let mut input = Input::new(structure, body.get(at..).unwrap_or_default());
        let header = RecordHeader::decode(input.take(RecordHeader::LEN)?)?;
        let ext = input.take(usize::from(header.ext_len))?;
        let payload = input.take(len_usize(header.payload_len))?;
        input.take_pad(payload.len(), RecordHeader::ALIGN)?;
        if verify == Verify::Payloads {
            let (stored, computed) = (header.payload_crc, crc32c::crc32c(payload));
            if stored != computed {
                return Err(FormatError::WrongCrc { structure, stored, computed });
            }
        }
        Ok(Self { header, ext, payload, at })
    }

    /// Decodes its extensions.
    ///
    /// # Errors
    /// When they are none that this release has written.
    pub fn extensions(&self) -> Result<Extensions<'a>, FormatError> {
        Extensions::decode(self.ext)
    }
}

/// The records of a frame's body, in order. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    body: &'a [u8],
    at: usize,
    left: u32,
    verify: Verify,
}

impl<'a> Records<'a> {
    /// Starts at the first of `record_count` records, which must fill the body.
    pub const fn new(body: &'a [u8], record_count: u32, verify: Verify) -> Self {
        Self { body, at: 0, left: record_count, verify }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RecordRef<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let (needed, got) = (len_u64(self.at), len_u64(self.body.len()));
            self.at = self.body.len();
            let error = FormatError::WrongLength { structure: Structure::Frame, needed, got };
            return (needed != got).then_some(Err(error));
        }
        let record = RecordRef::decode(self.body, self.at, self.verify);
        if let Ok(record) = &record {
            self.left -= 1;
            self.at += record.header.record_len();
        } else {
            self.left = 0;
            self.at = self.body.len();
        }
        Some(record)
    }
}
