//! Operations on streams: what a request means to the log, and what the log's answer means.
//!
//! Walk: `create` and `fork` make streams, `append` extends and closes them, `read` gives chunks
//! of them; `view` is what is known of one, `metadata` what is kept with it, `body` its bytes on
//! their way out.

mod append;
mod body;
mod create;
mod fork;
pub(crate) mod metadata;
mod read;
mod view;

use std::sync::Arc;

use highwater_log::Log;
use highwater_log::error::{LogError, Rejection};
use highwater_log::ids::Offset;

use crate::content::Kind;
use crate::error::{Outcome, Problem};
use crate::etag::StoreTag;
use crate::json;
use crate::path::StreamPath;

pub use append::{Append, Appended, Taken};
pub use body::Body;
pub use create::{Create, Created};
pub use read::Chunk;
pub use view::View;

/// Limits of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of content that one read gives, about: a message is never cut. Default 1 MiB.
    pub chunk_bytes: u64,
    /// Bytes of the largest append, as the log has it: no sub-offset reaches further. Default
    /// 8 MiB.
    pub append_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { chunk_bytes: 1 << 20, append_bytes: 8 << 20 }
    }
}

/// The streams of a log.
#[derive(Debug)]
pub struct Streams {
    log: Arc<Log>,
    limits: Limits,
    store: StoreTag,
}

impl Streams {
    /// Takes the streams of a log.
    pub fn new(log: Arc<Log>, limits: Limits, store: StoreTag) -> Self {
        Self { log, limits, store }
    }

    /// Deletes a stream: gone, durably, when this is done; or hidden, where forks read it.
    ///
    /// # Errors
    /// [`Problem::NotFound`], [`Problem::Gone`], and what the log gives.
    pub async fn delete(&self, path: &StreamPath) -> Outcome<()> {
        Ok(self.log.delete(path.as_str())?.await?)
    }

    /// Says what is known of a stream. Asking is no use of it.
    ///
    /// # Errors
    /// [`Problem::NotFound`], [`Problem::Gone`].
    pub fn head(&self, path: &StreamPath) -> Outcome<View> {
        match self.find(path)? {
            Some(view) => Ok(view),
            None => Err(self.why_not(path)),
        }
    }

    /// Finds a stream that readers may see.
    fn find(&self, path: &StreamPath) -> Outcome<Option<View>> {
        self.log.info(path.as_str()).as_ref().map(View::new).transpose()
    }

    /// Says why a stream is not found.
    fn why_not(&self, path: &StreamPath) -> Problem {
        // Nothing is read beyond every tail, but the answer tells deleted from never made.
        match self.log.read(path.as_str(), Offset(u64::MAX), 1) {
            Err(LogError::Rejected(Rejection::SoftDeleted)) => Problem::Gone,
            _ => Problem::NotFound,
        }
    }

    /// Notes a use, where it matters: a sliding expiry begins anew.
    fn touch(&self, path: &StreamPath, view: &View) -> Outcome<()> {
        if !view.is_sliding() {
            return Ok(());
        }
        match self.log.touch(path.as_str()) {
            Err(LogError::Rejected(rejection)) => Err(rejection.into()),
            // A log that is full or has failed can still be read.
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// Brings a body into the form in which it is stored; gives the number of messages where there are
/// such.
fn encode<'a>(kind: Kind, body: &'a [u8], room: &'a mut Vec<u8>) -> Outcome<&'a [u8]> {
    if kind != Kind::Json || body.is_empty() {
        return Ok(body);
    }
    match json::flatten(body, room) {
        Ok(_) => Ok(room),
        Err(fault) => {
            let at = u64::try_from(fault.at).expect("lengths have 64 bits at most");
            Err(Problem::InvalidJson { at, what: fault.what })
        }
    }
}
