//! Reads a snapshot file block by block, each checked before anything in it is looked at.

use super::{
    END_ENTRIES_AT, END_FILE_LEN_AT, END_LEN, Entry, HEAD_LEN, MAX_BLOCK_LEN, SnapshotHeader,
    SnapshotSummary, block_crc, decode_head,
};
use crate::format::block::BLOCK_BYTES;
use crate::format::bytes::{Bounds, check_zero, len_u64, len_usize, u64_at};
use crate::format::error::{FormatError, Structure};

const STRUCTURE: Structure = Structure::SnapshotBlock;

/// Reads a snapshot file, given in pieces of the caller's choice.
#[derive(Debug, Clone)]
pub struct SnapshotReader {
    header: SnapshotHeader,
    /// Checksum of the header or block before.
    chain: u32,
    /// Entries so far.
    entries: u64,
    /// Bytes read so far.
    len: u64,
}

/// What comes next in a snapshot file.
#[derive(Debug, Clone)]
pub enum Part<'a> {
    /// Streams.
    Block {
        /// The streams.
        entries: Entries<'a>,
        /// Length of the part, bytes: the next one is behind it.
        len: usize,
    },
    /// Nothing: the file ends here.
    End {
        /// What it amounts to.
        summary: SnapshotSummary,
        /// Length of the part with its zeros, bytes.
        len: usize,
    },
    /// The part is not all there: ask again with the same bytes and more behind them.
    More {
        /// Bytes of the part that are needed to go on.
        needed: usize,
    },
}

impl SnapshotReader {
    /// Starts with the first 4096 bytes of a file.
    ///
    /// # Errors
    /// When they are not a header that this release has written.
    pub fn new(header: &[u8]) -> Result<Self, FormatError> {
        let (header, chain) = SnapshotHeader::decode_with_crc(header)?;
        Ok(Self { header, chain, entries: 0, len: len_u64(BLOCK_BYTES) })
    }

    /// Its header.
    pub const fn header(&self) -> &SnapshotHeader {
        &self.header
    }

    /// Reads the part at the front of `input`, which begins where the part before ended.
    ///
    /// # Errors
    /// When the bytes do not go on the file.
    pub fn next_part<'a>(&mut self, input: &'a [u8]) -> Result<Part<'a>, FormatError> {
        let Some((head, rest)) = input.split_at_checked(HEAD_LEN) else {
            return Ok(Part::More { needed: HEAD_LEN });
        };
        let (body_len, entries, stored) = decode_head(head);
        let (field, most) = ("length of a block", len_u64(MAX_BLOCK_LEN - HEAD_LEN));
        Bounds { structure: STRUCTURE, field, least: 1, most }.check(u64::from(body_len))?;
        let len = HEAD_LEN + len_usize(body_len);
        let Some(body) = rest.get(..len_usize(body_len)) else {
            return Ok(Part::More { needed: len });
        };
        let computed = block_crc(self.chain, head, body);
        if stored != computed {
            return Err(FormatError::WrongCrc { structure: STRUCTURE, stored, computed });
        }
        if entries == 0 {
            return self.end(computed, body, &rest[body.len()..]);
        }
        self.chain = computed;
        self.entries += u64::from(entries);
        self.len += len_u64(len);
        Ok(Part::Block { entries: Entries { body, left: entries }, len })
    }

    /// Reads the end, whose checksum is right, and the zeros behind it.
    fn end<'a>(&self, crc: u32, body: &[u8], behind: &[u8]) -> Result<Part<'a>, FormatError> {
        let structure = STRUCTURE;
        if body.len() != END_LEN {
            let (needed, got) = (len_u64(END_LEN), len_u64(body.len()));
            return Err(FormatError::WrongLength { structure, needed, got });
        }
        let used = self.len + len_u64(HEAD_LEN + END_LEN);
        let file_len = used.next_multiple_of(len_u64(BLOCK_BYTES));
        for (field, at, computed) in [
            ("number of entries", END_ENTRIES_AT, self.entries),
            ("length of the file", END_FILE_LEN_AT, file_len),
        ] {
            let stored = u64_at(body, at);
            if stored != computed {
                return Err(FormatError::Disagrees { structure, field, stored, computed });
            }
        }
        let pad = usize::try_from(file_len - used).expect("less than a block");
        let len = HEAD_LEN + END_LEN + pad;
        let Some(zeros) = behind.get(..pad) else {
            return Ok(Part::More { needed: len });
        };
        check_zero(zeros, structure, "padding")?;
        let summary = SnapshotSummary { entries: self.entries, len: file_len, crc };
        Ok(Part::End { summary, len })
    }
}

/// The streams of a block, in order. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    body: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        let body = std::mem::take(&mut self.body);
        if self.left == 0 {
            let got = len_u64(body.len());
            let error = FormatError::WrongLength { structure: STRUCTURE, needed: 0, got };
            return (got > 0).then_some(Err(error));
        }
        self.left -= 1;
        let entry = Entry::decode(body);
        match &entry {
            Ok((_, len)) => self.body = &body[*len..],
            Err(_) => self.left = 0,
        }
        Some(entry.map(|(entry, _)| entry))
    }
}

/// Reads a whole file, handing each stream to `visit`.
///
/// # Errors
/// When the bytes are not exactly one file that this release has written. `visit` has then seen
/// streams of blocks before the bad one.
pub fn read_snapshot(
    file: &[u8],
    mut visit: impl FnMut(Entry<'_>),
) -> Result<(SnapshotHeader, SnapshotSummary), FormatError> {
    let header = file.get(..BLOCK_BYTES).unwrap_or(file);
    let mut reader = SnapshotReader::new(header)?;
    let mut rest = &file[BLOCK_BYTES..];
    let wrong_length = |needed: usize, got: usize| FormatError::WrongLength {
        structure: STRUCTURE,
        needed: len_u64(needed),
        got: len_u64(got),
    };
    loop {
        match reader.next_part(rest)? {
            Part::Block { entries, len } => {
                for entry in entries {
                    visit(entry?);
                }
                rest = &rest[len..];
            }
            Part::End { summary, len } if len == rest.len() => {
                return Ok((*reader.header(), summary));
            }
            Part::End { len: needed, .. } | Part::More { needed } => {
                return Err(wrong_length(needed, rest.len()));
            }
        }
    }
}
