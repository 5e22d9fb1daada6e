//! What streams mean, written down a second time and as plainly as possible.
//!
//! A lane's state is a map from names to streams; an operation that was taken in changes it. A fork
//! has a copy of what it shares. `time` says which streams are over, `decide` what the log should
//! answer to a request.
//!
//! The end of a stream whose time is over, and that of a hidden source whose last fork is gone, are
//! no operations here: the log records them when it gets to it, and nobody can tell when.

mod decide;
mod time;

use std::collections::BTreeMap;

pub use decide::{Expected, Limits, There, append, create, fork};
use highwater_log::request::Expiry;
pub use time::{Is, Span};

/// A content type, as far as histories vary it.
pub type ContentType = &'static str;

/// What a stream is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Its content type.
    pub content_type: ContentType,
    /// When it ends by itself.
    pub expiry: Option<Expiry>,
}

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

/// Where a fork begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkOf {
    /// The oracle's number for the source.
    pub source: u64,
    /// Length of what it shares, bytes.
    pub offset: u64,
}

/// A stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The oracle's number for it, kept in its metadata.
    pub id: u64,
    /// What it was made with.
    pub config: Config,
    /// Where it was forked from, if it was.
    pub fork: Option<ForkOf>,
    /// All its bytes, those that it shares too.
    pub content: Vec<u8>,
    /// Whether it is closed.
    pub is_closed: bool,
    /// Whether it is deleted, and kept for its forks.
    pub is_hidden: bool,
    /// Producers it remembers, the one unused for longest first.
    pub producers: Vec<Claim>,
    /// The last sequence given.
    pub sequence: Option<Vec<u8>>,
    /// The producer's append that closed it.
    pub closed_by: Option<Claim>,
    /// When it was last used, as the running log knows it.
    pub used: Span,
    /// When it was last used, as the log knows it after a crash.
    pub kept: Span,
}

/// What was taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// A stream was made.
    Create {
        /// The oracle's number for it.
        id: u64,
        /// What it was made with.
        config: Config,
        /// Where it was forked from, if it was.
        fork: Option<ForkOf>,
        /// Its first bytes, those that it shares first.
        content: Vec<u8>,
        /// Whether it is closed from the start.
        closes: bool,
        /// When.
        at_ms: u64,
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
        /// When.
        at_ms: u64,
    },
    /// The stream was used; the log may have kept that to itself.
    Touch {
        /// When.
        at_ms: u64,
    },
    /// The stream was deleted.
    Delete,
    /// The stream was deleted, and is kept for its forks.
    Hide,
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
            Op::Create { id, config, fork, content, closes, at_ms } => {
                let stream = Stream {
                    id: *id,
                    config: *config,
                    fork: *fork,
                    content: content.clone(),
                    is_closed: *closes,
                    is_hidden: false,
                    producers: Vec::new(),
                    sequence: None,
                    closed_by: None,
                    used: Span::at(*at_ms),
                    kept: Span::at(*at_ms),
                };
                self.streams.insert(named.name.clone(), stream);
            }
            Op::Append { payload, closes, claim, sequence, at_ms } => {
                let stream = self.stream(&named.name);
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
                stream.used_by_record(*at_ms);
            }
            Op::Touch { at_ms } => self.stream(&named.name).touched(*at_ms),
            Op::Delete => {
                self.streams.remove(&named.name);
            }
            Op::Hide => self.stream(&named.name).is_hidden = true,
        }
    }

    fn stream(&mut self, name: &str) -> &mut Stream {
        self.streams.get_mut(name).expect("the operation was taken in")
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
