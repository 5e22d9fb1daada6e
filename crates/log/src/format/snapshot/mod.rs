//! A file `tables/<n>`: the streams of one partition of a lane, or those of them that changed.
//!
//! A header block ([`header`]), then blocks of entries and a block that ends the file ([`writer`],
//! [`reader`]), each entry one stream ([`entry`]). Each block's checksum goes on from the one
//! before, so the last vouches for the whole file, and no block can stand in another file or place.

pub mod entry;
pub mod header;
pub mod reader;
pub mod writer;

pub use entry::{Entry, EntryFlags};
pub use header::{SnapshotHeader, SnapshotKind};
pub use reader::{Entries, Part, SnapshotReader, read_snapshot};
pub use writer::SnapshotWriter;

use super::bytes::{put, u32_at};

/// Longest block, bytes, with its head.
pub const MAX_BLOCK_LEN: usize = 64 << 10;

const LEN_AT: usize = 0;
const ENTRIES_AT: usize = LEN_AT + 4;
const CRC_AT: usize = ENTRIES_AT + 4;
const HEAD_LEN: usize = CRC_AT + 4;
const _: () = assert!(HEAD_LEN == 12, "a block's head has 12 bytes");

/// The block that ends the file holds no entries but these numbers.
const END_ENTRIES_AT: usize = 0;
const END_FILE_LEN_AT: usize = END_ENTRIES_AT + 8;
const END_LEN: usize = END_FILE_LEN_AT + 8;
const _: () = assert!(END_LEN == 16, "the end has 16 bytes");

const _: () = assert!(entry::MAX_ENTRY_LEN <= MAX_BLOCK_LEN - HEAD_LEN, "any entry fits a block");

/// What a whole file amounts to; the manifest keeps length and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Entries.
    pub entries: u64,
    /// Length, bytes: a multiple of 4096.
    pub len: u64,
    /// Checksum of everything in it.
    pub crc: u32,
}

/// Computes a block's checksum, going on from the header's or the block's before.
fn block_crc(chain: u32, head: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(chain, &head[..CRC_AT]), body)
}

/// Encodes a block's head. What is returned with it is the block's checksum.
fn encode_head(chain: u32, entries: u32, body: &[u8]) -> ([u8; HEAD_LEN], u32) {
    let len = u32::try_from(body.len()).expect("a block has at most 64 KiB");
    let mut head = [0; HEAD_LEN];
    put(&mut head, LEN_AT, &len.to_le_bytes());
    put(&mut head, ENTRIES_AT, &entries.to_le_bytes());
    let crc = block_crc(chain, &head, body);
    put(&mut head, CRC_AT, &crc.to_le_bytes());
    (head, crc)
}

/// Reads a block's head: length of the body, number of entries, checksum.
fn decode_head(head: &[u8]) -> (u32, u32, u32) {
    (u32_at(head, LEN_AT), u32_at(head, ENTRIES_AT), u32_at(head, CRC_AT))
}

#[cfg(test)]
mod tests;
