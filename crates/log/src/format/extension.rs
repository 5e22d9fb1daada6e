//! The tagged fields that a record carries beside its payload, and a snapshot entry beside its
//! numbers: tag, length, bytes, in the order of the tags, each at most once.

use super::bytes::{Bounds, Input, Output, array_at, len_u64, round_up, u16_at, u64_at};
use super::error::{FormatError, Structure};
use crate::ids::{Offset, StreamId};

const TAG_AT: usize = 0;
const ZERO_AT: usize = TAG_AT + 1;
const LEN_AT: usize = ZERO_AT + 1;
const HEAD_LEN: usize = LEN_AT + 2;
const _: () = assert!(HEAD_LEN == 4, "a field's head has 4 bytes");

/// Fields are padded to a multiple of it, bytes.
const FIELD_ALIGN: usize = 4;
/// The whole area is padded to a multiple of it, bytes.
const AREA_ALIGN: usize = 8;

const NAME: u8 = 1;
const CONTENT_TYPE: u8 = 2;
const EXPIRY: u8 = 3;
const PRODUCER: u8 = 4;
const SEQUENCE: u8 = 5;
const FORK_PARENT: u8 = 6;
const TOUCHED: u8 = 7;
const METADATA: u8 = 8;

/// Longest name of a stream, bytes; the shortest has one.
pub const MAX_NAME_LEN: usize = 4096;
/// Longest content type, bytes; the shortest has one.
pub const MAX_CONTENT_TYPE_LEN: usize = 256;
/// Longest id of a producer, bytes; the shortest has one.
pub const MAX_PRODUCER_ID_LEN: usize = 256;
/// Longest sequence, bytes; the shortest has one.
pub const MAX_SEQUENCE_LEN: usize = 1024;
/// Longest metadata of the layer above, bytes.
pub const MAX_METADATA_LEN: usize = 16 << 10;

const EXPIRY_LEN: usize = 1 + 8;
const FORK_PARENT_LEN: usize = 8 + 8;
const TOUCHED_LEN: usize = 8;
/// Bytes of a producer before its id.
const PRODUCER_HEAD_LEN: usize = 8 + 8;

/// Longest area, bytes: every field, each as long as it may be.
pub const MAX_EXTENSIONS_LEN: usize = round_up(
    field_len(MAX_NAME_LEN)
        + field_len(MAX_CONTENT_TYPE_LEN)
        + field_len(EXPIRY_LEN)
        + field_len(PRODUCER_HEAD_LEN + MAX_PRODUCER_ID_LEN)
        + field_len(MAX_SEQUENCE_LEN)
        + field_len(FORK_PARENT_LEN)
        + field_len(TOUCHED_LEN)
        + field_len(MAX_METADATA_LEN),
    AREA_ALIGN,
);
const _: () = assert!(MAX_EXTENSIONS_LEN < 1 << 16, "a record counts them in 16 bits");

/// When a stream ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// So many milliseconds after it was last touched.
    Sliding {
        /// Time to live, milliseconds.
        ttl_ms: u64,
    },
    /// At a fixed moment.
    Absolute {
        /// Milliseconds since 1970, UTC.
        at_ms: u64,
    },
}

/// A producer's place in its own sequence of appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Producer<'a> {
    /// Its name: 1 to 256 bytes.
    pub id: &'a [u8],
    /// Its epoch.
    pub epoch: u64,
    /// Its number of the append.
    pub seq: u64,
}

/// Where a fork begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkParent {
    /// The stream whose prefix it shares.
    pub stream: StreamId,
    /// Length of that prefix.
    pub offset: Offset,
}

/// The fields of one record. All are optional; which belong to which kind is the engine's matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extensions<'a> {
    /// The stream's name: 1 to 4096 bytes.
    pub name: Option<&'a str>,
    /// The stream's content type: 1 to 256 bytes.
    pub content_type: Option<&'a str>,
    /// When the stream ends by itself.
    pub expiry: Option<Expiry>,
    /// Who appends, for recognising duplicates.
    pub producer: Option<Producer<'a>>,
    /// A writer's own sequence: 1 to 1024 bytes.
    pub sequence: Option<&'a [u8]>,
    /// Where the fork begins.
    pub fork_parent: Option<ForkParent>,
    /// When the stream was touched: milliseconds since 1970, UTC.
    pub touched_ms: Option<u64>,
    /// Bytes of the layer above: at most 16 KiB.
    pub metadata: Option<&'a [u8]>,
}

impl<'a> Extensions<'a> {
    /// Checks the fields' lengths and returns how long they are encoded, bytes: a multiple of 8,
    /// 0 without fields.
    ///
    /// # Errors
    /// [`FormatError::OutOfRange`] for a field that is too long or empty.
    pub fn encoded_len(&self) -> Result<usize, FormatError> {
        let mut len = 0;
        if let Some(name) = self.name {
            len += checked_field_len(NAME, name.len())?;
        }
        if let Some(content_type) = self.content_type {
            len += checked_field_len(CONTENT_TYPE, content_type.len())?;
        }
        if self.expiry.is_some() {
            len += field_len(EXPIRY_LEN);
        }
        if let Some(producer) = self.producer {
            len += checked_field_len(PRODUCER, PRODUCER_HEAD_LEN + producer.id.len())?;
        }
        if let Some(sequence) = self.sequence {
            len += checked_field_len(SEQUENCE, sequence.len())?;
        }
        if self.fork_parent.is_some() {
            len += field_len(FORK_PARENT_LEN);
        }
        if self.touched_ms.is_some() {
            len += field_len(TOUCHED_LEN);
        }
        if let Some(metadata) = self.metadata {
            len += checked_field_len(METADATA, metadata.len())?;
        }
        Ok(round_up(len, AREA_ALIGN))
    }

    /// Encodes the fields.
    ///
    /// # Panics
    /// When `out` is not as long as [`Extensions::encoded_len`] says.
    pub fn encode_into(&self, out: &mut [u8]) {
        let mut out = Output::new(out);
        if let Some(name) = self.name {
            put_field(&mut out, NAME, &[name.as_bytes()]);
        }
        if let Some(content_type) = self.content_type {
            put_field(&mut out, CONTENT_TYPE, &[content_type.as_bytes()]);
        }
        if let Some(expiry) = self.expiry {
            let (kind, ms) = match expiry {
                Expiry::Sliding { ttl_ms } => (1, ttl_ms),
                Expiry::Absolute { at_ms } => (2, at_ms),
            };
            put_field(&mut out, EXPIRY, &[&[kind], &ms.to_le_bytes()]);
        }
        if let Some(Producer { id, epoch, seq }) = self.producer {
            put_field(&mut out, PRODUCER, &[&epoch.to_le_bytes(), &seq.to_le_bytes(), id]);
        }
        if let Some(sequence) = self.sequence {
            put_field(&mut out, SEQUENCE, &[sequence]);
        }
        if let Some(ForkParent { stream, offset }) = self.fork_parent {
            let parts: [&[u8]; 2] = [&stream.0.to_le_bytes(), &offset.0.to_le_bytes()];
            put_field(&mut out, FORK_PARENT, &parts);
        }
        if let Some(touched_ms) = self.touched_ms {
            put_field(&mut out, TOUCHED, &[&touched_ms.to_le_bytes()]);
        }
        if let Some(metadata) = self.metadata {
            put_field(&mut out, METADATA, &[metadata]);
        }
        out.pad(AREA_ALIGN);
        out.finish();
    }

    /// Decodes an area, all of it.
    ///
    /// # Errors
    /// When the bytes are not exactly what [`Extensions::encode_into`] writes for some fields.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FormatError> {
        let structure = Structure::Extensions;
        let mut fields = Self::default();
        let (mut input, mut last_tag) = (Input::new(structure, bytes), 0);
        let whole = round_up(bytes.len(), AREA_ALIGN);
        if whole != bytes.len() {
            let (needed, got) = (len_u64(whole), len_u64(bytes.len()));
            return Err(FormatError::WrongLength { structure, needed, got });
        }
        while !input.rest().is_empty() {
            // A field is never shorter than 8 bytes but for empty metadata: what remains of 4 zero
            // bytes is the area's padding.
            if input.rest() == [0; FIELD_ALIGN] {
                break;
            }
            let head = input.take(HEAD_LEN)?;
            let (tag, len) = (head[TAG_AT], usize::from(u16_at(head, LEN_AT)));
            if head[ZERO_AT] != 0 {
                return Err(FormatError::NotZero { structure, field: "head of a field" });
            }
            if tag <= last_tag {
                let (field, stored) = ("tag", u64::from(tag));
                return Err(FormatError::OutOfOrder { structure, field, stored });
            }
            last_tag = tag;
            bounds(tag)?.check(len_u64(len))?;
            fields.set(tag, input.take(len)?)?;
            input.take_pad(len, FIELD_ALIGN)?;
        }
        Ok(fields)
    }

    /// Decodes one field, whose length is within its bounds.
    fn set(&mut self, tag: u8, bytes: &'a [u8]) -> Result<(), FormatError> {
        match tag {
            NAME => self.name = Some(text(bytes, "name")?),
            CONTENT_TYPE => self.content_type = Some(text(bytes, "content type")?),
            EXPIRY => self.expiry = Some(decode_expiry(bytes)?),
            PRODUCER => {
                let (head, id) = bytes.split_at(PRODUCER_HEAD_LEN);
                self.producer = Some(Producer { id, epoch: u64_at(head, 0), seq: u64_at(head, 8) });
            }
            SEQUENCE => self.sequence = Some(bytes),
            FORK_PARENT => {
                let (stream, offset) = (StreamId(u64_at(bytes, 0)), Offset(u64_at(bytes, 8)));
                self.fork_parent = Some(ForkParent { stream, offset });
            }
            TOUCHED => self.touched_ms = Some(u64_at(bytes, 0)),
            METADATA => self.metadata = Some(bytes),
            _ => return Err(unknown_tag(tag)),
        }
        Ok(())
    }
}

/// Returns the length of a field with its head and padding.
const fn field_len(len: usize) -> usize {
    HEAD_LEN + round_up(len, FIELD_ALIGN)
}

/// Checks a field's length, and returns it with head and padding.
fn checked_field_len(tag: u8, len: usize) -> Result<usize, FormatError> {
    bounds(tag)?.check(len_u64(len))?;
    Ok(field_len(len))
}

/// Returns the bounds of a field's length.
fn bounds(tag: u8) -> Result<Bounds, FormatError> {
    let (field, least, most) = match tag {
        NAME => ("length of a name", 1, MAX_NAME_LEN),
        CONTENT_TYPE => ("length of a content type", 1, MAX_CONTENT_TYPE_LEN),
        EXPIRY => ("length of an expiry", EXPIRY_LEN, EXPIRY_LEN),
        PRODUCER => {
            ("length of a producer", PRODUCER_HEAD_LEN + 1, PRODUCER_HEAD_LEN + MAX_PRODUCER_ID_LEN)
        }
        SEQUENCE => ("length of a sequence", 1, MAX_SEQUENCE_LEN),
        FORK_PARENT => ("length of a fork parent", FORK_PARENT_LEN, FORK_PARENT_LEN),
        TOUCHED => ("length of a touch", TOUCHED_LEN, TOUCHED_LEN),
        METADATA => ("length of metadata", 0, MAX_METADATA_LEN),
        _ => return Err(unknown_tag(tag)),
    };
    let (least, most) = (len_u64(least), len_u64(most));
    Ok(Bounds { structure: Structure::Extensions, field, least, most })
}

/// A tag of no field.
fn unknown_tag(tag: u8) -> FormatError {
    let (structure, field, stored) = (Structure::Extensions, "tag", u64::from(tag));
    FormatError::UnknownValue { structure, field, stored }
}

/// Writes a field whose length has been checked.
fn put_field(out: &mut Output<'_>, tag: u8, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let len = u16::try_from(len).expect("encoded_len has checked the length");
    let [low, high] = len.to_le_bytes();
    out.put(&[tag, 0, low, high]);
    for part in parts {
        out.put(part);
    }
    out.pad(FIELD_ALIGN);
}

/// Reads a text.
fn text<'a>(bytes: &'a [u8], field: &'static str) -> Result<&'a str, FormatError> {
    let structure = Structure::Extensions;
    std::str::from_utf8(bytes).map_err(|_| FormatError::NotUtf8 { structure, field })
}

/// Reads an expiry.
fn decode_expiry(bytes: &[u8]) -> Result<Expiry, FormatError> {
    let ms = u64::from_le_bytes(array_at(bytes, 1));
    match bytes[0] {
        1 => Ok(Expiry::Sliding { ttl_ms: ms }),
        2 => Ok(Expiry::Absolute { at_ms: ms }),
        kind => {
            let (structure, stored) = (Structure::Extensions, u64::from(kind));
            Err(FormatError::UnknownValue { structure, field: "kind of expiry", stored })
        }
    }
}

#[cfg(test)]
#[path = "extension_tests.rs"]
mod tests;
