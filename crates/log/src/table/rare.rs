//! What few streams have: producers, a sequence, a fork's parent, watchers, an expiry under way.

use std::collections::HashMap;

use crate::ids::{Lsn, Offset, StreamId};
use crate::request::{Append, End};

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

impl Rare {
    /// Memory that one takes before anything is in it, about.
    pub const BYTES: u64 = 224;
    /// What a producer takes besides its id, about.
    const PRODUCER_BYTES: u64 = 64;

    /// Memory that a producer takes.
    pub fn producer_bytes(id: &str) -> u64 {
        Self::PRODUCER_BYTES + to_u64(id.len())
    }

    /// Most memory that an append adds: to what is there, or where nothing is.
    pub fn growth(rare: Option<&Self>, append: &Append<'_>) -> u64 {
        let id = append.producer.map(|producer| producer.id);
        let new = id.filter(|id| rare.is_none_or(|rare| !rare.producers.contains_key(*id)));
        let closer = id.filter(|_| append.end == End::Close).map_or(0, |id| to_u64(id.len()));
        let sequence = append.sequence.map_or(0, |sequence| to_u64(sequence.len()));
        let old = rare.and_then(|rare| rare.sequence.as_ref());
        let sequence = sequence.saturating_sub(old.map_or(0, |old| to_u64(old.len())));
        let own = if rare.is_none() && id.is_some() | append.sequence.is_some() {
            Self::BYTES
        } else {
            0
        };
        own + new.map_or(0, Self::producer_bytes) + closer + sequence
    }

    /// Memory that it takes, about.
    pub fn bytes(&self) -> u64 {
        let producers: u64 = self.producers.keys().map(|id| Self::producer_bytes(id)).sum();
        let sequence = self.sequence.as_ref().map_or(0, |sequence| to_u64(sequence.len()));
        let closed_by = self.closed_by.as_ref().map_or(0, |closed_by| to_u64(closed_by.id.len()));
        Self::BYTES + producers + sequence + closed_by
    }

    /// Notes what a producer has sent; gives how many bytes that adds, and takes away.
    pub(super) fn note_producer(
        &mut self,
        id: &str,
        state: ProducerState,
        most: u32,
    ) -> (u64, u64) {
        if let Some(known) = self.producers.get_mut(id) {
            *known = state;
            return (0, 0);
        }
        let mut forgotten = 0;
        if to_u64(self.producers.len()) >= u64::from(most) {
            let oldest = self.producers.iter().min_by_key(|(_, state)| state.at);
            if let Some(id) = oldest.map(|(id, _)| id.clone()) {
                self.producers.remove(&id);
                forgotten = Self::producer_bytes(&id);
            }
        }
        self.producers.insert(id.into(), state);
        (Self::producer_bytes(id), forgotten)
    }
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).expect("usize fits u64")
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
