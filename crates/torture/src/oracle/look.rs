//! Reads a log as its users do.

use highwater_log::Log;
use highwater_log::error::LogResult;
use highwater_log::ids::Offset;
use highwater_log::request::Expiry;

use crate::model::Stream;

/// Bytes asked for at a time.
const READ_BYTES: u64 = 3000;

/// A stream as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its number in the log.
    pub(crate) id: u64,
    /// The oracle's number for it, from its metadata.
    pub(crate) made: u64,
    /// Its content type.
    pub(crate) content_type: String,
    /// When it ends by itself.
    pub(crate) expiry: Option<Expiry>,
    /// Where it was forked from, if it was: the source's number in the log, and the offset.
    pub(crate) fork: Option<(u64, u64)>,
    /// Its bytes.
    pub(crate) content: Vec<u8>,
    /// Whether it is closed.
    pub(crate) is_closed: bool,
}

impl Seen {
    /// Whether it is what the model says; `number` tells the oracle's number of a stream.
    pub(super) fn is(&self, stream: &Stream, number: impl Fn(u64) -> Option<u64>) -> bool {
        let is_same_fork = match (&self.fork, &stream.fork) {
            (None, None) => true,
            (Some((source, offset)), Some(of)) => {
                *offset == of.offset && number(*source).is_none_or(|known| known == of.source)
            }
            _ => false,
        };
        is_same_fork
            && self.made == stream.id
            && self.is_closed == stream.is_closed
            && self.content_type == stream.config.content_type
            && self.expiry == stream.config.expiry
            && self.content == stream.content
    }
}

/// Reads a whole stream; nothing where there is none.
pub(crate) fn look(log: &Log, name: &str) -> LogResult<Option<Seen>> {
    let Some(info) = log.info(name) else { return Ok(None) };
    let mut content = Vec::new();
    let mut from = Offset(0);
    let is_closed = loop {
        let answer = log.read(name, from, READ_BYTES)?;
        if answer.next == from {
            break answer.is_closed && answer.tail == from;
        }
        content.extend(answer.to_vec());
        from = answer.next;
    };
    let metadata = info.config.metadata.first_chunk();
    Ok(Some(Seen {
        id: info.id.0,
        made: metadata.map_or(0, |bytes| u64::from_le_bytes(*bytes)),
        content_type: info.config.content_type.clone(),
        expiry: info.config.expiry,
        fork: info.fork.map(|fork| (fork.source.0, fork.offset.0)),
        content,
        is_closed,
    }))
}
