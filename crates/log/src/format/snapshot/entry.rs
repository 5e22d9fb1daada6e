//! One stream in a snapshot: its numbers, its tagged fields, its producers.

use std::ops::BitOr;

use crate::format::bytes::{
    Bounds, Input, Output, check_zero, len_u64, len_usize, put, round_up, u16_at, u32_at, u64_at,
};
use crate::format::error::{FormatError, Structure};
use crate::format::extension::{
    Expiry, Extensions, ForkParent, MAX_EXTENSIONS_LEN, MAX_PRODUCER_ID_LEN, Producer,
};
use crate::ids::{Offset, StreamId};

const STREAM_AT: usize = 0;
const TAIL_AT: usize = STREAM_AT + 8;
const ABSORBED_AT: usize = TAIL_AT + 8;
const LAST_TOUCHED_MS_AT: usize = ABSORBED_AT + 8;
const REGION_CRC_AT: usize = LAST_TOUCHED_MS_AT + 8;
const PRODUCERS_LEN_AT: usize = REGION_CRC_AT + 4;
const EXT_LEN_AT: usize = PRODUCERS_LEN_AT + 4;
const FLAGS_AT: usize = EXT_LEN_AT + 2;
const ZERO_AT: usize = FLAGS_AT + 1;
const HEAD_LEN: usize = ZERO_AT + 5;
const _: () = assert!(HEAD_LEN == 48, "an entry's head has 48 bytes");

const PRODUCER_EPOCH_AT: usize = 0;
const PRODUCER_SEQ_AT: usize = PRODUCER_EPOCH_AT + 8;
const PRODUCER_ID_LEN_AT: usize = PRODUCER_SEQ_AT + 8;
const PRODUCER_HEAD_LEN: usize = PRODUCER_ID_LEN_AT + 2;
const _: () = assert!(PRODUCER_HEAD_LEN == 18, "a producer's head has 18 bytes");

/// Entries and producers are padded to a multiple of it, bytes.
const ALIGN: usize = 8;
/// Most producers of a stream: an entry is written whole whenever its stream changed.
pub const MAX_PRODUCERS: usize = 1024;
/// Longest list of producers, bytes.
const MAX_PRODUCERS_LEN: usize =
    MAX_PRODUCERS * round_up(PRODUCER_HEAD_LEN + MAX_PRODUCER_ID_LEN, ALIGN);
/// Longest entry, bytes.
pub const MAX_ENTRY_LEN: usize = HEAD_LEN + MAX_EXTENSIONS_LEN + MAX_PRODUCERS_LEN;

/// What has happened to a stream for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EntryFlags(u8);

impl EntryFlags {
    /// Nothing takes bytes any more.
    pub const CLOSED: Self = Self(1 << 0);
    /// The stream is gone; the entry hides those of older sections, and says nothing else.
    pub const DELETED: Self = Self(1 << 1);
    /// The name is gone; the bytes stay for forks.
    pub const SOFT_DELETED: Self = Self(1 << 2);

    const ALL: u8 = Self::CLOSED.0 | Self::DELETED.0 | Self::SOFT_DELETED.0;

    /// Whether all of these are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for EntryFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One stream as of a section's stamp.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry<'a> {
    /// The stream.
    pub stream: StreamId,
    /// What has happened to it.
    pub flags: EntryFlags,
    /// Up to where its home holds its bytes.
    pub absorbed: Offset,
    /// Where the next append goes.
    pub tail: Offset,
    /// Running checksum of the home's last region that is not full.
    pub region_crc: u32,
    /// When it was last used: milliseconds since 1970, UTC.
    pub last_touched_ms: u64,
    /// Its name; absent for a deleted one.
    pub name: Option<&'a str>,
    /// Its content type.
    pub content_type: Option<&'a str>,
    /// When it ends by itself.
    pub expiry: Option<Expiry>,
    /// Where it was forked: its own bytes begin there, or at 0.
    pub fork_parent: Option<ForkParent>,
    /// A writer's own sequence, the last one.
    pub sequence: Option<&'a [u8]>,
    /// The append that closed it.
    pub closed_by: Option<Producer<'a>>,
    /// Bytes of the layer above.
    pub metadata: Option<&'a [u8]>,
    /// Where each of its producers stands.
    pub producers: Vec<Producer<'a>>,
}

impl<'a> Entry<'a> {
    /// Checks all fields and returns how long the entry is encoded, bytes: a multiple of 8.
    ///
    /// # Errors
    /// [`FormatError::OutOfRange`] for a field that is too long, too many producers, or offsets
    /// that are not fork's offset <= absorbed <= tail; [`FormatError::Misfit`] for a stream without
    /// a name, or a deleted one with anything.
    pub fn encoded_len(&self) -> Result<usize, FormatError> {
        self.check_sense()?;
        Ok(HEAD_LEN + self.extensions().encoded_len()? + self.producers_len()?)
    }

    /// Encodes the entry.
    ///
    /// # Panics
    /// When `out` is not as long as [`Entry::encoded_len`] says.
    pub fn encode_into(&self, out: &mut [u8]) {
        let producers_len = self.producers_len().expect("encoded_len has checked them");
        let (head, rest) = out.split_at_mut(HEAD_LEN);
        let ext_len = rest.len().checked_sub(producers_len).expect("encoded_len says how much");
        let (ext, producers) = rest.split_at_mut(ext_len);
        self.extensions().encode_into(ext);
        let mut producers = Output::new(producers);
        for Producer { id, epoch, seq } in &self.producers {
            producers.put(&epoch.to_le_bytes());
            producers.put(&seq.to_le_bytes());
            producers.put(&len_u16(id.len()).to_le_bytes());
            producers.put(id);
            producers.pad(ALIGN);
        }
        producers.finish();
        head.fill(0);
        put(head, STREAM_AT, &self.stream.0.to_le_bytes());
        put(head, TAIL_AT, &self.tail.0.to_le_bytes());
        put(head, ABSORBED_AT, &self.absorbed.0.to_le_bytes());
        put(head, LAST_TOUCHED_MS_AT, &self.last_touched_ms.to_le_bytes());
        put(head, REGION_CRC_AT, &self.region_crc.to_le_bytes());
        let producers_len = u32::try_from(producers_len).expect("checked against its bounds");
        put(head, PRODUCERS_LEN_AT, &producers_len.to_le_bytes());
        put(head, EXT_LEN_AT, &len_u16(ext_len).to_le_bytes());
        put(head, FLAGS_AT, &[self.flags.0]);
    }

    /// Decodes the entry at the front of `bytes`, and returns its length.
    ///
    /// # Errors
    /// When the bytes do not begin with one that this release has written.
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, usize), FormatError> {
        let structure = Structure::SnapshotEntry;
        let mut input = Input::new(structure, bytes);
        let head = input.take(HEAD_LEN)?;
        check_zero(&head[ZERO_AT..], structure, "padding")?;
        if head[FLAGS_AT] & !EntryFlags::ALL != 0 {
            return Err(FormatError::NotZero { structure, field: "unused flags" });
        }
        let ext = Extensions::decode(input.take(usize::from(u16_at(head, EXT_LEN_AT)))?)?;
        if ext.touched_ms.is_some() {
            return Err(FormatError::Misfit { structure, field: "tag of a touch" });
        }
        let producers = input.take(len_usize(u32_at(head, PRODUCERS_LEN_AT)))?;
        let entry = Self {
            stream: StreamId(u64_at(head, STREAM_AT)),
            flags: EntryFlags(head[FLAGS_AT]),
            absorbed: Offset(u64_at(head, ABSORBED_AT)),
            tail: Offset(u64_at(head, TAIL_AT)),
            region_crc: u32_at(head, REGION_CRC_AT),
            last_touched_ms: u64_at(head, LAST_TOUCHED_MS_AT),
            name: ext.name,
            content_type: ext.content_type,
            expiry: ext.expiry,
            fork_parent: ext.fork_parent,
            sequence: ext.sequence,
            closed_by: ext.producer,
            metadata: ext.metadata,
            producers: decode_producers(producers)?,
        };
        entry.check_sense()?;
        Ok((entry, bytes.len() - input.rest().len()))
    }

    /// Checks what no writer ever writes.
    fn check_sense(&self) -> Result<(), FormatError> {
        let structure = Structure::SnapshotEntry;
        if self.flags.contains(EntryFlags::DELETED) {
            let (stream, flags) = (self.stream, EntryFlags::DELETED);
            let is_bare = *self == Self { stream, flags, ..Self::default() };
            let field = "field of a deleted stream";
            return if is_bare { Ok(()) } else { Err(FormatError::Misfit { structure, field }) };
        }
        if self.name.is_none() {
            return Err(FormatError::Misfit { structure, field: "name" });
        }
        let least = self.fork_parent.map_or(0, |parent| parent.offset.0);
        let (field, most) = ("absorbed offset", self.tail.0);
        Bounds { structure, field, least, most }.check(self.absorbed.0)
    }

    /// The tagged fields.
    fn extensions(&self) -> Extensions<'a> {
        Extensions {
            name: self.name,
            content_type: self.content_type,
            expiry: self.expiry,
            producer: self.closed_by,
            sequence: self.sequence,
            fork_parent: self.fork_parent,
            touched_ms: None,
            metadata: self.metadata,
        }
    }

    /// Checks the producers and returns the length of their list.
    fn producers_len(&self) -> Result<usize, FormatError> {
        let mut len = 0;
        for producer in &self.producers {
            id_bounds().check(len_u64(producer.id.len()))?;
            len += round_up(PRODUCER_HEAD_LEN + producer.id.len(), ALIGN);
        }
        producers_bounds().check(len_u64(len))?;
        Ok(len)
    }
}

/// Decodes a list of producers, all of it.
fn decode_producers(bytes: &[u8]) -> Result<Vec<Producer<'_>>, FormatError> {
    producers_bounds().check(len_u64(bytes.len()))?;
    let mut input = Input::new(Structure::SnapshotEntry, bytes);
    let mut producers = Vec::new();
    while !input.rest().is_empty() {
        let head = input.take(PRODUCER_HEAD_LEN)?;
        let id_len = u16_at(head, PRODUCER_ID_LEN_AT);
        id_bounds().check(u64::from(id_len))?;
        let id = input.take(usize::from(id_len))?;
        input.take_pad(PRODUCER_HEAD_LEN + id.len(), ALIGN)?;
        let (epoch, seq) = (u64_at(head, PRODUCER_EPOCH_AT), u64_at(head, PRODUCER_SEQ_AT));
        producers.push(Producer { id, epoch, seq });
    }
    Ok(producers)
}

/// How long a producer's id can be.
fn id_bounds() -> Bounds {
    let (structure, field) = (Structure::SnapshotEntry, "length of a producer's id");
    Bounds { structure, field, least: 1, most: len_u64(MAX_PRODUCER_ID_LEN) }
}

/// How long the list of producers can be.
fn producers_bounds() -> Bounds {
    let (structure, field) = (Structure::SnapshotEntry, "length of the producers");
    Bounds { structure, field, least: 0, most: len_u64(MAX_PRODUCERS_LEN) }
}

/// Narrows a length that has been checked.
fn len_u16(len: usize) -> u16 {
    u16::try_from(len).expect("checked against its bounds")
}
