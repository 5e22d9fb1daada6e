//! What few streams have: producers, a sequence, a fork's parent, watchers, an expiry under way.

use std::collections::HashMap;

use crate::ids::{Lsn, Offset, StreamId};

/// What few streams have.
#[derive(Debug, Clone, Default)]
pub struct Rare {
    /// Producers by id.
    pub producers: HashMap<Box<str>, ProducerState>,
    /// The last sequence given.
    pub sequence: Option<Box<[u8]>>,
    /// Where it was forked from.
    pub parent: Option<Parent>,
    /// Forks that read it.
    pub forks: u32,
    /// Who closed it, if a producer did.
    pub closed_by: Option<ClosedBy>,
    /// Wall clock of its last use, ms; for sliding expiry.
    pub touched_ms: u64,
    /// The last use that the log knows of, ms.
    pub logged_touch_ms: u64,
    /// Places of some of its records in the images, in order, so that a reader need not walk the
    /// whole chain back.
    pub marks: Vec<Mark>,
}

/// An idempotent producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    /// Its newest epoch.
    pub epoch: u64,
    /// Highest sequence number taken in.
    pub sequence: u64,
    /// Position behind which that record is durable.
    pub at: Lsn,
}

/// A fork's source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// The source.
    pub stream: StreamId,
    /// Everything before this is the source's.
    pub offset: Offset,
}

/// The producer whose append closed a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedBy {
    /// Its id.
    pub id: Box<str>,
    /// Its epoch.
    pub epoch: u64,
    /// Its sequence number.
    pub sequence: u64,
}

/// A record's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Offset of its payload.
    pub offset: Offset,
    /// Where it begins.
    pub at: Lsn,
}
