//! What is asked of a log, and what it answers.

use std::sync::Arc;

pub use crate::format::Expiry;
use crate::ids::{Offset, StreamId};

/// What a stream is made with; the same again is no change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Config {
    /// Content type, compared as it is.
    pub content_type: String,
    /// Expiry.
    pub expiry: Option<Expiry>,
    /// Whatever the layer above wants to keep with it.
    pub metadata: Vec<u8>,
}

impl Config {
    /// What one takes in memory besides its texts, about.
    const BYTES: usize = 128;

    /// Memory that it takes, about: once for all streams that have the same.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = Self::BYTES + self.content_type.len() + self.metadata.len();
        u64::try_from(bytes).expect("usize fits u64")
    }
}

/// Asks for a stream.
#[derive(Debug, Clone, Copy)]
pub struct Create<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its configuration.
    pub config: &'a Config,
    /// First content; may be empty.
    pub payload: &'a [u8],
    /// Whether it is closed from the start.
    pub end: End,
}

/// Whether a record is a stream's last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// More may follow.
    Open,
    /// Nothing follows.
    Close,
}

/// An idempotent producer's claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Producer<'a> {
    /// Its id, not empty.
    pub id: &'a str,
    /// Its epoch.
    pub epoch: u64,
    /// Its sequence number.
    pub sequence: u64,
}

/// Asks for a stream that begins as another's prefix.
#[derive(Debug, Clone, Copy)]
pub struct Fork<'a> {
    /// Its name.
    pub name: &'a str,
    /// The source.
    pub source: &'a str,
    /// The stream that the source's name has to be of, where not any will do.
    pub source_id: Option<StreamId>,
    /// Length of the prefix; the source's durable tail where none is given.
    pub offset: Option<Offset>,
    /// Its configuration.
    pub config: &'a Config,
    /// First content of its own; may be empty.
    pub payload: &'a [u8],
    /// Whether it is closed from the start.
    pub end: End,
}

/// Asks for an append, a close, or both at once.
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// The stream.
    pub name: &'a str,
    /// Bytes; empty only with `End::Close`.
    pub payload: &'a [u8],
    /// Whether the stream is closed with it.
    pub end: End,
    /// Must equal the stream's, where given.
    pub content_type: Option<&'a str>,
    /// Producer.
    pub producer: Option<Producer<'a>>,
    /// Must be greater than the last, byte by byte, where given.
    pub sequence: Option<&'a [u8]>,
}

/// What became of a create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// The stream.
    pub id: StreamId,
    /// Its tail.
    pub tail: Offset,
    /// Whether it was there already.
    pub outcome: CreateOutcome,
}

/// Whether a create made something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateOutcome {
    /// A new stream.
    New,
    /// One of the same configuration was there.
    Existing,
}

/// What became of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Tail behind it.
    pub tail: Offset,
    /// Whether it was taken in now or before.
    pub outcome: AppendOutcome,
}

/// Whether an append added anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOutcome {
    /// It did.
    New,
    /// The same producer's same sequence number, or a later one, was there.
    Duplicate {
        /// Highest sequence number taken in.
        highest: u64,
    },
    /// It was closed already, and nothing was to be added.
    AlreadyClosed,
}

/// Where a fork begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkOf {
    /// The source.
    pub source: StreamId,
    /// Length of the prefix that is the source's.
    pub offset: Offset,
}

/// What is known of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The stream.
    pub id: StreamId,
    /// Where it was forked from, if it was.
    pub fork: Option<ForkOf>,
    /// Durable tail.
    pub tail: Offset,
    /// Whether it is durably closed.
    pub is_closed: bool,
    /// Configuration.
    pub config: Arc<Config>,
}

/// Where a walk over the names of all streams is; it begins at the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Walk {
    pub(crate) lane: usize,
    pub(crate) slot: usize,
}
