//! What every stream has in memory.

use super::configs::ConfigNo;
use super::names::NameAt;
use crate::ids::{Lsn, Offset, StreamId};

/// Bits of a stream's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u16);

impl Flags {
    /// No stream.
    pub const VACANT: u16 = 1;
    /// Its creation is durable: readers may see it.
    pub const VISIBLE: u16 = 1 << 1;
    /// Nothing more is taken in (staged).
    pub const CLOSED: u16 = 1 << 2;
    /// Its end is durable: readers may see it.
    pub const CLOSED_VISIBLE: u16 = 1 << 3;
    /// Deleted, and kept for its forks.
    pub const SOFT_DELETED: u16 = 1 << 4;
    /// It has an entry in the side table.
    pub const RARE: u16 = 1 << 5;
    /// Somebody waits for its tail to move.
    pub const WATCHED: u16 = 1 << 6;
    /// Its home does not have all durable bytes: it is in the list of those.
    pub const UNABSORBED: u16 = 1 << 7;
    /// No snapshot has it as it is: its partition knows.
    pub const CHANGED: u16 = 1 << 8;

    /// Whether all of these bits are set.
    #[inline]
    pub const fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }

    /// Sets bits.
    #[inline]
    pub const fn set(&mut self, bits: u16) {
        self.0 |= bits;
    }

    /// Clears bits.
    #[inline]
    pub const fn clear(&mut self, bits: u16) {
        self.0 &= !bits;
    }
}

/// One stream, in one line of the processor's cache.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub struct Slot {
    /// Its number.
    pub id: StreamId,
    /// Behind the last staged byte.
    pub tail: Offset,
    /// Behind the last durable byte: what readers see.
    pub durable: Offset,
    /// Behind the last byte that its home has.
    pub absorbed: Offset,
    /// Its last staged record in the log.
    pub last: Option<Position>,
    /// Its last durable record: where readers begin to walk back.
    pub last_durable: Option<Position>,
    /// Its name.
    pub(super) name: NameAt,
    /// Its configuration.
    pub(super) config: ConfigNo,
    /// Running checksum of the last, unfinished region of its home.
    pub region_crc: u32,
    /// State.
    pub flags: Flags,
}

/// Where a record begins. Never 0: a segment begins with its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position(std::num::NonZeroU64);

impl Position {
    /// Takes a record's place in the log.
    ///
    /// # Panics
    /// At 0, where no record can be.
    pub fn new(lsn: Lsn) -> Self {
        Self(std::num::NonZeroU64::new(lsn.0).expect("no record begins a segment"))
    }

    /// Gives the place.
    pub const fn lsn(self) -> Lsn {
        Lsn(self.0.get())
    }
}

impl Slot {
    /// What one takes in the indexes besides, about.
    const INDEX_BYTES: usize = 24;

    /// Memory that a stream of this name takes, about.
    pub fn bytes_of(name: &[u8]) -> u64 {
        let bytes = size_of::<Self>() + Self::INDEX_BYTES + name.len();
        u64::try_from(bytes).expect("usize fits u64")
    }

    /// Makes an empty stream.
    pub fn new(id: StreamId, config: ConfigNo) -> Self {
        Self {
            id,
            name: NameAt::NONE,
            config,
            tail: Offset(0),
            durable: Offset(0),
            absorbed: Offset(0),
            last: None,
            last_durable: None,
            region_crc: 0,
            flags: Flags::default(),
        }
    }

    /// Makes no stream.
    pub fn vacant() -> Self {
        let mut slot = Self::new(StreamId(0), ConfigNo::NONE);
        slot.flags.set(Flags::VACANT);
        slot
    }
}
