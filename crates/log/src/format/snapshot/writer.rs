//! Writes a snapshot file piece by piece, front to back.

use super::{
    END_LEN, Entry, HEAD_LEN, MAX_BLOCK_LEN, SnapshotHeader, SnapshotSummary, encode_head,
};
use crate::format::block::BLOCK_BYTES;
use crate::format::bytes::{len_u64, put};
use crate::format::error::FormatError;

/// Writes a snapshot file into a buffer of the caller's, who may empty it between any two calls.
#[derive(Debug)]
pub struct SnapshotWriter {
    /// Entries of the block that is being filled.
    body: Vec<u8>,
    /// How many they are.
    body_entries: u32,
    /// Checksum of the header or block before.
    chain: u32,
    /// Entries so far.
    entries: u64,
    /// Bytes handed out so far.
    len: u64,
}

impl SnapshotWriter {
    /// Starts a file: appends its header to `out`.
    pub fn new(header: &SnapshotHeader, out: &mut Vec<u8>) -> Self {
        let (block, chain) = header.encode_with_crc();
        out.extend_from_slice(&block);
        Self { body: Vec::new(), body_entries: 0, chain, entries: 0, len: len_u64(block.len()) }
    }

    /// Adds a stream: appends a block to `out` when one is full.
    ///
    /// # Errors
    /// When a field of the entry is too long; the file goes on without the entry.
    pub fn push(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<(), FormatError> {
        let len = entry.encoded_len()?;
        if self.body.len() + len > MAX_BLOCK_LEN - HEAD_LEN {
            self.end_block(out);
        }
        let start = self.body.len();
        self.body.resize(start + len, 0);
        entry.encode_into(&mut self.body[start..]);
        self.body_entries += 1;
        self.entries += 1;
        Ok(())
    }

    /// Ends the file: appends what is left, the end and zeros up to the next 4096 bytes.
    pub fn finish(mut self, out: &mut Vec<u8>) -> SnapshotSummary {
        if self.body_entries > 0 {
            self.end_block(out);
        }
        let used = self.len + len_u64(HEAD_LEN + END_LEN);
        let file_len = used.next_multiple_of(len_u64(BLOCK_BYTES));
        let mut end = [0; END_LEN];
        put(&mut end, super::END_ENTRIES_AT, &self.entries.to_le_bytes());
        put(&mut end, super::END_FILE_LEN_AT, &file_len.to_le_bytes());
        self.body.extend_from_slice(&end);
        self.end_block(out);
        let pad = usize::try_from(file_len - used).expect("less than a block");
        out.resize(out.len() + pad, 0);
        SnapshotSummary { entries: self.entries, len: file_len, crc: self.chain }
    }

    /// Hands out a block.
    fn end_block(&mut self, out: &mut Vec<u8>) {
        let (head, crc) = encode_head(self.chain, self.body_entries, &self.body);
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.body);
        self.chain = crc;
        self.len += len_u64(head.len() + self.body.len());
        self.body.clear();
        self.body_entries = 0;
    }
}
