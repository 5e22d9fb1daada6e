//! What is wrong with bytes that should be one of the stored structures.

use std::fmt;

/// The stored structure that was read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Structure {
    /// First block of a segment.
    Segment,
    /// Header or body of a frame.
    Frame,
    /// One record of a frame's body.
    Record,
    /// The tagged fields of a record or of a snapshot entry.
    Extensions,
    /// One slot of the file `super`.
    SuperBlock,
    /// A file `label` in a directory of the log or the home.
    Label,
    /// A file `manifest/<n>`.
    Manifest,
    /// First block of a file `tables/<n>`.
    SnapshotHeader,
    /// A section of a file `tables/<n>`.
    SnapshotSection,
    /// One stream in a file `tables/<n>`.
    SnapshotEntry,
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Segment => "segment header",
            Self::Frame => "frame",
            Self::Record => "record",
            Self::Extensions => "extensions",
            Self::SuperBlock => "superblock",
            Self::Label => "label",
            Self::Manifest => "manifest",
            Self::SnapshotHeader => "snapshot header",
            Self::SnapshotSection => "snapshot section",
            Self::SnapshotEntry => "snapshot entry",
        })
    }
}

/// Why bytes are not the structure they should be. Says nothing of the place: the caller knows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Fewer or more bytes than the structure has.
    #[error("{structure}: {got} bytes where there should be {needed}")]
    WrongLength {
        /// In what.
        structure: Structure,
        /// Bytes that it has, or has at least.
        needed: u64,
        /// Bytes that were given.
        got: u64,
    },
    /// Not this structure at all.
    #[error("{structure}: begins with {stored:#x}, not with its magic {expected:#x}")]
    WrongMagic {
        /// In what.
        structure: Structure,
        /// As read.
        stored: u64,
        /// As it should be.
        expected: u64,
    },
    /// Written by a release that knows more.
    #[error(
        "{structure}: version {stored}, this release reads version {known}: open it with the \
         release that wrote it"
    )]
    UnknownVersion {
        /// In what.
        structure: Structure,
        /// As read.
        stored: u32,
        /// The version that this code reads.
        known: u32,
    },
    /// The bytes are not those that were written.
    #[error("{structure}: checksum {stored:#010x} stored, {computed:#010x} computed")]
    WrongCrc {
        /// In what.
        structure: Structure,
        /// As read.
        stored: u32,
        /// Of the bytes as read.
        computed: u32,
    },
    /// Bytes that are always zero are not.
    #[error("{structure}: {field} is not zero")]
    NotZero {
        /// In what.
        structure: Structure,
        /// Which bytes.
        field: &'static str,
    },
    /// A number that stands for nothing.
    #[error("{structure}: {stored} is no {field}")]
    UnknownValue {
        /// In what.
        structure: Structure,
        /// What it should be.
        field: &'static str,
        /// As read.
        stored: u64,
    },
    /// A number or length outside its bounds.
    #[error("{structure}: {field} {stored} is outside {least}..={most}")]
    OutOfRange {
        /// In what.
        structure: Structure,
        /// Of what.
        field: &'static str,
        /// As read or given.
        stored: u64,
        /// Smallest allowed.
        least: u64,
        /// Largest allowed.
        most: u64,
    },
    /// A number that does not fit what stands beside it.
    #[error("{structure}: {field} {stored}, but the rest says {computed}")]
    Disagrees {
        /// In what.
        structure: Structure,
        /// Of what.
        field: &'static str,
        /// As read.
        stored: u64,
        /// What the rest of the structure asks for.
        computed: u64,
    },
    /// Elements that are sorted, each once, are not.
    #[error("{structure}: {field} {stored} stands twice or out of order")]
    OutOfOrder {
        /// In what.
        structure: Structure,
        /// Which elements.
        field: &'static str,
        /// The first one out of order.
        stored: u64,
    },
    /// A field that this kind must have is absent, or the reverse.
    #[error("{structure}: {field} does not belong to its kind, or is missing from it")]
    Misfit {
        /// In what.
        structure: Structure,
        /// Which field.
        field: &'static str,
    },
    /// A text that is none.
    #[error("{structure}: {field} is not UTF-8")]
    NotUtf8 {
        /// In what.
        structure: Structure,
        /// Which text.
        field: &'static str,
    },
    /// No slot of the file `super` is valid.
    #[error(
        "superblock: none of its slots is valid ({}): restore the file `super` from a copy",
        listed(slots)
    )]
    NoSlot {
        /// What is wrong with each; an empty slot holds no magic.
        slots: Box<[FormatError]>,
    },
}

/// Slots and their errors, for people.
fn listed(slots: &[FormatError]) -> String {
    let slots = slots.iter().zip(0..).map(|(error, slot)| format!("slot {slot}: {error}"));
    slots.collect::<Vec<_>>().join("; ")
}
