//! The block that begins every file but a home's: magic, version, fields, checksum, zeros.

use super::bytes::{array_at, check_len, check_zero, put, u32_at};
use super::error::{FormatError, Structure};

/// Bytes of a block: the unit of direct input and output, and of frames.
pub const BLOCK_BYTES: usize = 4096;

/// A block.
pub type Block = [u8; BLOCK_BYTES];

const MAGIC_AT: usize = 0;
const VERSION_AT: usize = MAGIC_AT + 8;
/// Where the fields of the kinds of blocks begin.
pub(super) const FIELDS_AT: usize = VERSION_AT + 4;

/// What tells one kind of block from the others.
#[derive(Debug)]
pub(super) struct BlockKind {
    /// For errors.
    pub(super) structure: Structure,
    /// First 8 bytes.
    pub(super) magic: [u8; 8],
    /// Version that is written and read.
    pub(super) version: u32,
    /// Where the checksum of all bytes before it stands; behind it all is zero.
    pub(super) crc_at: usize,
}

impl BlockKind {
    /// Starts a block: all zero but its magic and version.
    pub(super) fn start(&self) -> Block {
        let mut block = [0; BLOCK_BYTES];
        put(&mut block, MAGIC_AT, &self.magic);
        put(&mut block, VERSION_AT, &self.version.to_le_bytes());
        block
    }

    /// Writes the checksum when all fields are in.
    pub(super) fn seal(&self, block: &mut Block) -> u32 {
        let crc = crc32c::crc32c(&block[..self.crc_at]);
        put(block, self.crc_at, &crc.to_le_bytes());
        crc
    }

    /// Checks everything but the fields. What is returned is the checksum.
    pub(super) fn check(&self, bytes: &[u8]) -> Result<u32, FormatError> {
        let structure = self.structure;
        check_len(bytes, structure, BLOCK_BYTES)?;
        let magic: [u8; 8] = array_at(bytes, MAGIC_AT);
        if magic != self.magic {
            let (stored, expected) = (u64::from_le_bytes(magic), u64::from_le_bytes(self.magic));
            return Err(FormatError::WrongMagic { structure, stored, expected });
        }
        // Before the checksum: another version may keep it elsewhere.
        let version = u32_at(bytes, VERSION_AT);
        if version != self.version {
            let (stored, known) = (version, self.version);
            return Err(FormatError::UnknownVersion { structure, stored, known });
        }
        let stored = u32_at(bytes, self.crc_at);
        let computed = crc32c::crc32c(&bytes[..self.crc_at]);
        if stored != computed {
            return Err(FormatError::WrongCrc { structure, stored, computed });
        }
        check_zero(&bytes[self.crc_at + 4..], structure, "rest of the block")?;
        Ok(stored)
    }
}
