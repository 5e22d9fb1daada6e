//! What streams mean, written down a second time and as plainly as possible.
//!
//! A lane's state is a map from names to streams; an operation that was taken in changes it. What
//! the log should answer to a request is told by `decide`.

mod decide;

use std::collections::BTreeMap;

pub use decide::{Expected, append, create};

/// A stream's configuration, as far as histories vary it.
pub type ContentType = &'static str;

/// A producer's claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Producer.
    pub id: String,
    /// Epoch.
    pub epoch: u64,
    /// Sequence number.
    pub sequence: u64,
}

/// A stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The oracle's number for it, kept in its metadata.
    pub id: u64,
    /// Its content type.
    pub content_type: ContentType,
    /// All its bytes.
    pub content: Vec<u8>,
    /// Whether it is closed.
    pub is_closed: bool,
    /// Producers it remembers, the one unused for longest first.
    pub producers: Vec<Claim>,
    /// The last sequence given.
    pub sequence: Option<Vec<u8>>,
    /// The producer's append that closed it.
    pub closed_by: Option<Claim>,
}

/// What was taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// A stream was made.
    Create {
        /// The oracle's number for it.
        id: u64,
        /// Its content type.
        content_type: ContentType,
        /// Its first bytes.
        payload: Vec<u8>,
        /// Whether it is closed from the start.
        closes: bool,
    },
    /// Bytes, an end, or both.
    Append {
        /// The bytes.
        payload: Vec<u8>,
        /// Whether it ends there.
        closes: bool,
        /// Who sent it.
        claim: Option<Claim>,
        /// Its sequence.
        sequence: Option<Vec<u8>>,
    },
    /// The stream was deleted.
    Delete,
}

/// An operation and the name it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The stream's name.
    pub name: String,
    /// What was done.
    pub op: Op,
}

/// The streams of a lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// By name.
    pub streams: BTreeMap<String, Stream>,
}

impl State {
    /// Applies an operation that was taken in.
    pub fn apply(&mut self, named: &Named, max_producers: usize) {
        match &named.op {
            Op::Create { id, content_type, payload, closes } => {
                let stream = Stream {
                    id: *id,
                    content_type,
                    content: payload.clone(),
                    is_closed: *closes,
                    producers: Vec::new(),
                    sequence: None,
                    closed_by: None,
                };
                self.streams.insert(named.name.clone(), stream);
            }
            Op::Append { payload, closes, claim, sequence } => {
                let stream = self.streams.get_mut(&named.name).expect("it was taken in");
                stream.content.extend_from_slice(payload);
                stream.is_closed |= closes;
                if let Some(claim) = claim {
                    stream.remember(claim, max_producers);
                    if *closes {
                        stream.closed_by = Some(claim.clone());
                    }
                }
                if sequence.is_some() {
                    stream.sequence.clone_from(sequence);
                }
            }
            Op::Delete => {
                self.streams.remove(&named.name);
            }
        }
    }
}

impl Stream {
    fn remember(&mut self, claim: &Claim, max_producers: usize) {
        let before = self.producers.len();
        self.producers.retain(|known| known.id != claim.id);
        if self.producers.len() == before && before >= max_producers {
            self.producers.remove(0);
        }
        self.producers.push(claim.clone());
    }
}
