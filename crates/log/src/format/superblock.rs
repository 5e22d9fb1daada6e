//! The file `super`: four slots, of which the newest valid one is the root of the store.

use super::StoreId;
use super::block::{BLOCK_BYTES, Block, BlockKind, FIELDS_AT};
use super::bytes::{
    Bounds, array_at, check_len, check_zero, is_zero, len_u64, put, u16_at, u64_at,
};
use super::error::{FormatError, Structure};
use super::segment::check_segment_bytes;

const LANES_AT: usize = FIELDS_AT;
const STREAM_LANES_AT: usize = LANES_AT + 2;
const STORE_ID_AT: usize = STREAM_LANES_AT + 2;
const GENERATION_AT: usize = STORE_ID_AT + StoreId::LEN;
const MANIFEST_AT: usize = GENERATION_AT + 8;
const SEGMENT_BYTES_AT: usize = MANIFEST_AT + 8;
const CREATED_MS_AT: usize = SEGMENT_BYTES_AT + 8;
const HOME_AT: usize = CREATED_MS_AT + 8;
const ZERO_AT: usize = HOME_AT + 1;
const CRC_AT: usize = ZERO_AT + 3;
const _: () = assert!(CRC_AT + 4 == 72, "a superblock has 72 bytes");
// One sector is written whole or not at all, so a crash never leaves half a superblock.
const _: () = assert!(CRC_AT + 4 <= 512, "a superblock fits in a sector");

const KIND: BlockKind = BlockKind {
    structure: Structure::SuperBlock,
    magic: *b"HWSUPR\0\x01",
    version: 1,
    crc_at: CRC_AT,
};

/// Where streams live after their log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HomeKind {
    /// One file per stream.
    Files,
}

/// The root of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuperBlock {
    /// The store.
    pub store_id: StoreId,
    /// Counts the writes of this file.
    pub generation: u64,
    /// Number of the manifest.
    pub manifest: u64,
    /// Lanes of the log, at least 1.
    pub lanes: u16,
    /// Directories of the home, at least 1.
    pub stream_lanes: u16,
    /// The home.
    pub home: HomeKind,
    /// Length of a segment, bytes.
    pub segment_bytes: u64,
    /// When the store was made: milliseconds since 1970, UTC.
    pub created_ms: u64,
}

impl SuperBlock {
    /// Length of a slot, bytes.
    pub const LEN: usize = BLOCK_BYTES;
    /// Slots in the file.
    pub const SLOTS: usize = 4;
    /// Length of the file, bytes.
    pub const FILE_LEN: usize = Self::LEN * Self::SLOTS;

    /// Returns the slot of its generation.
    pub fn slot(&self) -> usize {
        let slot = self.generation % len_u64(Self::SLOTS);
        usize::try_from(slot).expect("less than the number of slots")
    }

    /// Returns where in the file its slot begins, bytes.
    pub fn slot_offset(&self) -> u64 {
        len_u64(self.slot() * Self::LEN)
    }

    /// Encodes it.
    pub fn encode(&self) -> Block {
        let home = match self.home {
            HomeKind::Files => 1,
        };
        let mut block = KIND.start();
        put(&mut block, LANES_AT, &self.lanes.to_le_bytes());
        put(&mut block, STREAM_LANES_AT, &self.stream_lanes.to_le_bytes());
        put(&mut block, STORE_ID_AT, &self.store_id.0);
        put(&mut block, GENERATION_AT, &self.generation.to_le_bytes());
        put(&mut block, MANIFEST_AT, &self.manifest.to_le_bytes());
        put(&mut block, SEGMENT_BYTES_AT, &self.segment_bytes.to_le_bytes());
        put(&mut block, CREATED_MS_AT, &self.created_ms.to_le_bytes());
        put(&mut block, HOME_AT, &[home]);
        KIND.seal(&mut block);
        block
    }

    /// Decodes exactly one slot.
    ///
    /// # Errors
    /// When the bytes are not one that this release has written.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let structure = Structure::SuperBlock;
        KIND.check(bytes)?;
        check_zero(&bytes[ZERO_AT..CRC_AT], structure, "padding")?;
        let home = match bytes[HOME_AT] {
            1 => HomeKind::Files,
            other => {
                let (field, stored) = ("home", u64::from(other));
                return Err(FormatError::UnknownValue { structure, field, stored });
            }
        };
        let block = Self {
            store_id: StoreId(array_at(bytes, STORE_ID_AT)),
            generation: u64_at(bytes, GENERATION_AT),
            manifest: u64_at(bytes, MANIFEST_AT),
            lanes: u16_at(bytes, LANES_AT),
            stream_lanes: u16_at(bytes, STREAM_LANES_AT),
            home,
            segment_bytes: u64_at(bytes, SEGMENT_BYTES_AT),
            created_ms: u64_at(bytes, CREATED_MS_AT),
        };
        for (field, count) in [("lanes", block.lanes), ("stream lanes", block.stream_lanes)] {
            let most = u64::from(u16::MAX);
            Bounds { structure, field, least: 1, most }.check(u64::from(count))?;
        }
        check_segment_bytes(block.segment_bytes, structure)?;
        Ok(block)
    }
}

/// The root that was chosen, and what is wrong with the other slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The newest valid one.
    pub newest: SuperBlock,
    /// Slots that are neither valid nor empty, and why.
    pub damaged: Vec<(usize, FormatError)>,
}

impl Choice {
    /// Whether a damaged slot may have held a newer generation. A crash does not damage a slot,
    /// since a superblock fits in a sector; so this means that the medium has lost it.
    pub fn may_miss_a_newer_one(&self) -> bool {
        let next = SuperBlock { generation: self.newest.generation.wrapping_add(1), ..self.newest };
        self.damaged.iter().any(|(slot, _)| *slot == next.slot())
    }
}

/// Chooses the root from the bytes of the file.
///
/// # Errors
/// When no slot is valid, or valid ones belong to different stores.
pub fn choose(file: &[u8]) -> Result<Choice, FormatError> {
    let structure = Structure::SuperBlock;
    check_len(file, structure, SuperBlock::FILE_LEN)?;
    let slots: Vec<_> = file.chunks(SuperBlock::LEN).zip(0..).map(decode_in_slot).collect();
    let valid = || slots.iter().flatten();
    let Some(newest) = valid().max_by_key(|block| block.generation).copied() else {
        let slots = slots.into_iter().filter_map(Result::err).collect();
        return Err(FormatError::NoSlot { slots });
    };
    if let Some(other) = valid().find(|block| block.store_id != newest.store_id) {
        let (stored, computed) = (other.store_id.tag(), newest.store_id.tag());
        return Err(FormatError::Disagrees { structure, field: "store", stored, computed });
    }
    let used = |slot: usize| !is_zero(&file[slot * SuperBlock::LEN..][..SuperBlock::LEN]);
    let damaged =
        slots.into_iter().zip(0..).filter_map(|(slot, number)| Some((number, slot.err()?)));
    Ok(Choice { newest, damaged: damaged.filter(|(slot, _)| used(*slot)).collect() })
}

/// Decodes a slot; a valid superblock in another generation's slot is misdirected.
fn decode_in_slot((bytes, slot): (&[u8], usize)) -> Result<SuperBlock, FormatError> {
    let block = SuperBlock::decode(bytes)?;
    if block.slot() == slot {
        return Ok(block);
    }
    let (stored, computed) = (len_u64(block.slot()), len_u64(slot));
    let (structure, field) = (Structure::SuperBlock, "slot of its generation");
    Err(FormatError::Disagrees { structure, field, stored, computed })
}

#[cfg(test)]
#[path = "superblock_tests.rs"]
mod tests;
