//! A section: the streams of one partition, or those of them that changed, as of one stamp.

use crate::format::bytes::{
    Bounds, check_len, check_zero, len_u64, len_usize, put, u32_at, u64_at,
};
use crate::format::error::{FormatError, Structure};
use crate::format::snapshot::entry::{Entry, EntryFlags, MAX_ENTRY_LEN};
use crate::ids::{Lsn, StreamId};

const CRC_AT: usize = 0;
const BODY_LEN_AT: usize = CRC_AT + 4;
const FIRST_AT: usize = BODY_LEN_AT + 4;
const STAMP_AT: usize = FIRST_AT + 8;
const ENTRIES_AT: usize = STAMP_AT + 8;
const KIND_AT: usize = ENTRIES_AT + 4;
const ZERO_AT: usize = KIND_AT + 1;
const LEN: usize = ZERO_AT + 3;
const _: () = assert!(LEN == 32, "a section's header has 32 bytes");

const STRUCTURE: Structure = Structure::SnapshotSection;

/// Longest section, bytes.
pub const MAX_SECTION_LEN: usize = 2 << 20;
/// A writer ends a section at this length, bytes: with one more entry it still is none too long.
pub const FULL_SECTION_LEN: usize = 1 << 20;
const _: () = assert!(LEN + FULL_SECTION_LEN + MAX_ENTRY_LEN <= MAX_SECTION_LEN);

/// How much of its partition a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SectionKind {
    /// Every stream.
    Base,
    /// Streams that changed since the sections before, and those that are gone.
    Delta,
}

impl SectionKind {
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
                let (field, stored) = ("kind of section", u64::from(other));
                Err(FormatError::UnknownValue { structure, field, stored })
            }
        }
    }
}

/// What a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectionHeader {
    /// Smallest number within the lane of a stream of its partition.
    pub first: u64,
    /// Replay applies records from here on.
    pub stamp: Lsn,
    /// How much of the partition it holds.
    pub kind: SectionKind,
    /// Streams in it.
    pub entries: u32,
    /// Length of the entries, bytes.
    pub body_len: u32,
}

impl SectionHeader {
    /// Length, bytes.
    pub const LEN: usize = LEN;

    fn encode_into(&self, out: &mut [u8]) {
        out.fill(0);
        put(out, BODY_LEN_AT, &self.body_len.to_le_bytes());
        put(out, FIRST_AT, &self.first.to_le_bytes());
        put(out, STAMP_AT, &self.stamp.0.to_le_bytes());
        put(out, ENTRIES_AT, &self.entries.to_le_bytes());
        put(out, KIND_AT, &[self.kind.number()]);
    }

    fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        check_zero(&bytes[ZERO_AT..LEN], STRUCTURE, "padding")?;
        Ok(Self {
            first: u64_at(bytes, FIRST_AT),
            stamp: Lsn(u64_at(bytes, STAMP_AT)),
            kind: SectionKind::from_number(bytes[KIND_AT], STRUCTURE)?,
            entries: u32_at(bytes, ENTRIES_AT),
            body_len: u32_at(bytes, BODY_LEN_AT),
        })
    }
}

/// Writes sections, one after the other, into memory that is used again.
#[derive(Debug)]
pub struct SectionWriter {
    bytes: Vec<u8>,
    entries: u32,
    last: Option<StreamId>,
}

impl Default for SectionWriter {
    fn default() -> Self {
        Self { bytes: vec![0; LEN], entries: 0, last: None }
    }
}

impl SectionWriter {
    /// Begins a section anew: forgets what was pushed.
    pub fn clear(&mut self) {
        self.bytes.truncate(LEN);
        (self.entries, self.last) = (0, None);
    }

    /// Adds a stream, larger than the one before.
    ///
    /// # Errors
    /// When it is not, or when a field of it is too long; the section goes on without it.
    pub fn push(&mut self, entry: &Entry<'_>) -> Result<(), FormatError> {
        check_order(&mut self.last, entry)?;
        let len = entry.encoded_len()?;
        let start = self.bytes.len();
        self.bytes.resize(start + len, 0);
        entry.encode_into(&mut self.bytes[start..]);
        self.entries += 1;
        Ok(())
    }

    /// Whether the section should end: [`FULL_SECTION_LEN`] is reached.
    pub const fn is_full(&self) -> bool {
        self.bytes.len() >= LEN + FULL_SECTION_LEN
    }

    /// Streams so far.
    pub const fn entries(&self) -> u32 {
        self.entries
    }

    /// Ends the section; gives its checksum, which goes on from its file's header's.
    ///
    /// # Panics
    /// When more was pushed behind a full section than one entry.
    pub fn finish(&mut self, of: &SectionHeader, chain: u32) -> u32 {
        assert!(self.bytes.len() <= MAX_SECTION_LEN, "a full section was not ended");
        let (head, body) = self.bytes.split_at_mut(LEN);
        let body_len = u32::try_from(body.len()).expect("a section has at most 2 MiB");
        SectionHeader { entries: self.entries, body_len, ..*of }.encode_into(head);
        let crc = crc32c::crc32c_append(chain, &self.bytes[CRC_AT + 4..]);
        put(&mut self.bytes, CRC_AT, &crc.to_le_bytes());
        crc
    }

    /// The section's bytes, once it is finished.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads exactly one section, handing each stream to `visit`; `chain` is the checksum of its file's
/// header. Gives its own checksum besides.
///
/// # Errors
/// When the bytes are not one that this release has written, and what `visit` gives.
pub fn read_section(
    bytes: &[u8],
    chain: u32,
    mut visit: impl FnMut(Entry<'_>) -> Result<(), FormatError>,
) -> Result<(SectionHeader, u32), FormatError> {
    let (field, least, most) = ("length", len_u64(LEN), len_u64(MAX_SECTION_LEN));
    Bounds { structure: STRUCTURE, field, least, most }.check(len_u64(bytes.len()))?;
    let stored = u32_at(bytes, CRC_AT);
    let computed = crc32c::crc32c_append(chain, &bytes[CRC_AT + 4..]);
    if stored != computed {
        return Err(FormatError::WrongCrc { structure: STRUCTURE, stored, computed });
    }
    let header = SectionHeader::decode(bytes)?;
    check_len(bytes, STRUCTURE, LEN.saturating_add(len_usize(header.body_len)))?;
    let mut rest = &bytes[LEN..];
    let mut last = None;
    for _ in 0..header.entries {
        let (entry, len) = Entry::decode(rest)?;
        check_order(&mut last, &entry)?;
        let is_gone = entry.flags.contains(EntryFlags::DELETED);
        if is_gone && header.kind == SectionKind::Base || entry.stream.in_lane() < header.first {
            let field = "stream of a partition";
            return Err(FormatError::Misfit { structure: STRUCTURE, field });
        }
        visit(entry)?;
        rest = &rest[len..];
    }
    check_len(rest, STRUCTURE, 0)?;
    Ok((header, computed))
}

/// Checks that streams ascend.
fn check_order(last: &mut Option<StreamId>, entry: &Entry<'_>) -> Result<(), FormatError> {
    if last.is_some_and(|last| last >= entry.stream) {
        let (field, stored) = ("stream", entry.stream.0);
        return Err(FormatError::OutOfOrder { structure: STRUCTURE, field, stored });
    }
    *last = Some(entry.stream);
    Ok(())
}
