//! The bytes of one simulated file: sectors and a length, as the process sees them, as the device
//! holds them, and the effects in between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use crate::SECTOR_BYTES;

/// Bytes of the unit in which space is taken.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// Bytes of a sector, as an array's size.
const SECTOR: usize = 512;
const _: () = assert!(SECTOR as u64 == SECTOR_BYTES);

/// One sector's bytes, shared by all that hold the same version.
type Sector = Arc<[u8; SECTOR]>;

/// A length and the sectors below it that are not holes.
#[derive(Clone, Default)]
pub(super) struct Content {
    len: u64,
    sectors: BTreeMap<u64, Sector>,
}

/// What an unsynced call changes on the device.
#[derive(Clone)]
pub(super) enum Effect {
    /// A sector has new bytes.
    Sector { index: u64, bytes: Sector, operation: u64 },
    /// The file has a new length; what lies beyond a shorter one is gone.
    Length { before: u64, after: u64, operation: u64 },
}

impl Effect {
    /// The call that caused it.
    pub(super) fn operation(&self) -> u64 {
        match self {
            Self::Sector { operation, .. } | Self::Length { operation, .. } => *operation,
        }
    }

    /// Takes away what lies beyond a length; gives whether anything is left.
    fn cut(&mut self, len: u64) -> bool {
        let Self::Sector { index, bytes, .. } = self else { return true };
        let left = len.saturating_sub(*index * SECTOR_BYTES);
        if left < SECTOR_BYTES {
            let left = usize::try_from(left).expect("below a sector");
            Arc::make_mut(bytes)[left..].fill(0);
        }
        left > 0
    }

    pub(super) fn describe(&self) -> String {
        match self {
            Self::Sector { index, operation, .. } => format!("sector {index} of call {operation}"),
            Self::Length { before, after, operation } => {
                format!("length {before} to {after} of call {operation}")
            }
        }
    }
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `bytes` from `offset`; the caller has checked that the file is that long.
    pub(super) fn read(&self, bytes: &mut [u8], offset: u64) {
        for piece in pieces(offset, bytes.len()) {
            let to = &mut bytes[piece.start..][..piece.len];
            match self.sectors.get(&piece.sector) {
                Some(sector) => to.copy_from_slice(&sector[piece.within..][..piece.len]),
                None => to.fill(0),
            }
        }
    }

    /// Replaces bytes and gives the new sectors, without a look at the length.
    fn overwrite(&mut self, bytes: &[u8], offset: u64) -> Vec<(u64, Sector)> {
        let mut changed = Vec::new();
        for piece in pieces(offset, bytes.len()) {
            let mut sector = self.sectors.get(&piece.sector).map_or([0; SECTOR], |old| **old);
            sector[piece.within..][..piece.len].copy_from_slice(&bytes[piece.start..][..piece.len]);
            let sector = if sector == [0; SECTOR] { zeros() } else { Arc::new(sector) };
            self.sectors.insert(piece.sector, Arc::clone(&sector));
            changed.push((piece.sector, sector));
        }
        changed
    }

    fn set_len(&mut self, len: u64) {
        self.len = len;
        self.cut();
    }

    /// Drops what lies beyond the length, so that a later growth shows zeros.
    fn cut(&mut self) {
        let tail = usize::try_from(self.len % SECTOR_BYTES).expect("below a sector");
        drop(self.sectors.split_off(&self.len.div_ceil(SECTOR_BYTES)));
        if tail > 0
            && let Some(sector) = self.sectors.get_mut(&(self.len / SECTOR_BYTES))
            && sector[tail..].iter().any(|byte| *byte != 0)
        {
            Arc::make_mut(sector)[tail..].fill(0);
        }
    }

    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::Sector { index, bytes, .. } => {
                self.sectors.insert(*index, Arc::clone(bytes));
            }
            Effect::Length { after, .. } => self.set_len(*after),
        }
    }

    fn flip_bit(&mut self, byte: u64, bit: u8) {
        if byte < self.len {
            let mut bytes = [0];
            self.read(&mut bytes, byte);
            self.overwrite(&[bytes[0] ^ (1 << bit)], byte);
        }
    }

    /// Feeds length and content to a hash, holes as what they read as.
    pub(super) fn digest(&self, hash: &mut super::hash::Fnv) {
        hash.number(self.len);
        for (index, sector) in &self.sectors {
            if sector.iter().any(|byte| *byte != 0) {
                hash.number(*index);
                hash.bytes(&sector[..]);
            }
        }
    }
}

/// One file.
#[derive(Clone, Default)]
pub(super) struct FileState {
    /// What the process sees.
    pub(super) view: Content,
    /// What the device holds for certain.
    pub(super) durable: Content,
    /// What may or may not be on the device, in the order of the calls.
    pub(super) pending: Vec<Effect>,
    /// Blocks with space of their own.
    pub(super) blocks: BTreeSet<u64>,
    /// Open handles.
    pub(super) opens: u64,
    /// Root of the device it lies on.
    pub(super) device: String,
}

/// What becomes of the sectors of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// They are on their way to the device.
    Pending,
    /// They never get there, and nobody will say so.
    Lost,
}

impl FileState {
    /// Blocks that a write of this range would have to take.
    pub(super) fn blocks_missing(&self, offset: u64, len: u64) -> Vec<u64> {
        if len == 0 {
            return Vec::new();
        }
        let last = (offset + len - 1) / BLOCK_BYTES;
        (offset / BLOCK_BYTES..=last).filter(|block| !self.blocks.contains(block)).collect()
    }

    /// Writes into the view and notes what the device has yet to do.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64, operation: u64, fate: Fate) {
        let changed = self.view.overwrite(bytes, offset);
        if fate == Fate::Pending {
            let effects = changed.into_iter();
            self.pending.extend(effects.map(|(index, bytes)| Effect::Sector {
                index,
                bytes,
                operation,
            }));
        }
        let end = offset + u64::try_from(bytes.len()).expect("usize fits u64");
        if end > self.view.len() && !bytes.is_empty() {
            self.set_len(end, operation);
        }
    }

    /// Sets the length in the view and notes it.
    pub(super) fn set_len(&mut self, len: u64, operation: u64) {
        let before = self.view.len();
        if len == before {
            return;
        }
        self.view.set_len(len);
        self.pending.push(Effect::Length { before, after: len, operation });
        if len < before {
            drop(self.blocks.split_off(&len.div_ceil(BLOCK_BYTES)));
        }
    }

    /// Makes everything noted durable.
    pub(super) fn sync(&mut self) {
        for effect in self.pending.drain(..) {
            self.durable.apply(&effect);
        }
        self.durable.cut();
    }

    /// Makes the noted sectors of a range durable, and the length, in the order of the calls.
    pub(super) fn sync_range(&mut self, offset: u64, len: usize) {
        let len = u64::try_from(len).expect("usize fits u64");
        let sectors = offset / SECTOR_BYTES..(offset + len).div_ceil(SECTOR_BYTES);
        let mut waiting: Vec<Effect> = Vec::new();
        for effect in std::mem::take(&mut self.pending) {
            match &effect {
                Effect::Sector { index, .. } if !sectors.contains(index) => waiting.push(effect),
                Effect::Sector { .. } => self.durable.apply(&effect),
                Effect::Length { after, .. } => {
                    // A truncation that is durable leaves nothing that could still be written.
                    waiting.retain_mut(|effect| effect.cut(*after));
                    self.durable.apply(&effect);
                }
            }
        }
        self.pending = waiting;
        self.durable.cut();
    }

    /// Forgets the noted sectors while the view goes on to show them: what a kernel does after a
    /// failed writeback. Lengths are metadata; they stay noted.
    pub(super) fn drop_pages(&mut self) {
        self.pending.retain(|effect| matches!(effect, Effect::Length { .. }));
    }

    /// Changes one bit at rest.
    pub(super) fn flip_bit(&mut self, byte: u64, bit: u8) {
        self.view.flip_bit(byte, bit);
        self.durable.flip_bit(byte, bit);
    }

    /// The file after a crash in which only some of the noted effects reached the device.
    pub(super) fn survivor<'a>(&self, kept: impl Iterator<Item = &'a Effect>) -> Self {
        let mut durable = self.durable.clone();
        for effect in kept {
            durable.apply(effect);
        }
        durable.cut();
        let mut blocks = self.blocks.clone();
        blocks.extend(durable.sectors.keys().map(|sector| sector * SECTOR_BYTES / BLOCK_BYTES));
        drop(blocks.split_off(&durable.len.div_ceil(BLOCK_BYTES)));
        Self {
            view: durable.clone(),
            durable,
            pending: Vec::new(),
            blocks,
            opens: 0,
            device: self.device.clone(),
        }
    }
}

/// The sector of zeros: one for all, since a log's files are filled with them.
fn zeros() -> Sector {
    static ZEROS: LazyLock<Sector> = LazyLock::new(|| Arc::new([0; SECTOR]));
    Arc::clone(&ZEROS)
}

/// The part of a transfer that falls into one sector.
struct Piece {
    sector: u64,
    /// Where in the sector.
    within: usize,
    /// Where in the caller's bytes.
    start: usize,
    len: usize,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start == len {
            return None;
        }
        let position = offset + u64::try_from(start).expect("usize fits u64");
        let within = usize::try_from(position % SECTOR_BYTES).expect("below a sector");
        let piece = Piece {
            sector: position / SECTOR_BYTES,
            within,
            start,
            len: (SECTOR - within).min(len - start),
        };
        start += piece.len;
        Some(piece)
    })
}
