//! Operations on streams: what a request means to the log, and what the log's answer means.
//!
//! Walk: `create` and `fork` make streams, `append` extends and closes them, `read` gives chunks
//! of them; `view` is what is known of one, `metadata` what is kept with it, `body` its bytes on
//! their way out; `observer` hears of what changes.

mod append;
mod body;
mod create;
mod fork;
pub(crate) mod metadata;
mod observer;
mod read;
mod room;
mod view;

use std::sync::{Arc, Mutex};
use std::task::Wake as _;

use bytes::Bytes;
use highwater_disk::{Clock, Rng};
use highwater_log::Log;
use highwater_log::error::{LogError, Rejection};
use highwater_log::ids::Offset;

use crate::content::Kind;
use crate::cursor::Cursor;
use crate::error::{Outcome, Problem};
use crate::etag::StoreTag;
use crate::json;
use crate::live::Registry;
use crate::offset::Place;
use crate::path::StreamPath;

pub use append::{Append, Appended, Taken};
pub use body::Body;
pub use create::{Create, Created};
pub use observer::{Expected, Observer};
pub use read::Chunk;
pub(crate) use read::{Unread, unfinished_len};
pub(crate) use room::{LEAST_BYTES, Lease, Queued, SHORT_BYTES};
pub use view::View;

/// Limits of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of content that one read gives, about: a message is never cut. Default 1 MiB.
    pub chunk_bytes: u64,
    /// Bytes of the largest append, as the log has it: no sub-offset reaches further. Default
    /// 8 MiB.
    pub append_bytes: u64,
    /// Bytes of encoded events that are kept for the live readers of one stream, about: the newest
    /// are always kept. Default 256 KiB.
    pub ring_bytes: usize,
    /// Bytes of answers that clients have not taken yet, all together: the more there are, the
    /// shorter are the next chunks. Default 256 MiB.
    pub answers_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            chunk_bytes: 1 << 20,
            append_bytes: 8 << 20,
            ring_bytes: 256 << 10,
            answers_bytes: 256 << 20,
        }
    }
}

/// Who reads an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Anybody.
    Client,
    /// Whoever looks after the server: what clients do not take keeps no memory from them.
    Operator,
}

/// What streams stand on.
#[derive(Debug)]
pub struct Around {
    /// The log.
    pub log: Arc<Log>,
    /// The log's clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness for what need not be secret.
    pub rng: Box<dyn Rng>,
}

/// The streams of a log. Clones are the same streams.
#[derive(Debug, Clone)]
pub struct Streams {
    pub(crate) log: Arc<Log>,
    pub(crate) clock: Arc<dyn Clock>,
    rng: Arc<Mutex<Box<dyn Rng>>>,
    pub(crate) limits: Limits,
    pub(crate) room: room::Room,
    store: StoreTag,
    pub(crate) hubs: Arc<Registry>,
    observer: observer::Place,
}

impl Streams {
    /// Takes the streams of a log.
    pub fn new(around: Around, limits: Limits, store: StoreTag) -> Self {
        let Around { log, clock, rng } = around;
        let (rng, hubs) = (Arc::new(Mutex::new(rng)), Arc::default());
        let room = room::Room::new(limits.answers_bytes);
        Self { log, clock, rng, limits, room, store, hubs, observer: Arc::default() }
    }

    /// Deletes a stream: gone, durably, when this is done; or hidden, where forks read it.
    ///
    /// # Errors
    /// [`Problem::NotFound`], [`Problem::Gone`], and what the log gives.
    pub async fn delete(&self, path: &StreamPath) -> Outcome<()> {
        let deleted = self.log.delete(path.as_str())?;
        let note = self.note(path);
        deleted.await?;
        note.done(Expected::Anything);
        Ok(())
    }

    /// Waits until everything that was acknowledged of a stream can be read. Where acknowledgements
    /// do not run ahead of the barrier, that is so already. To be awaited before [`Streams::head`],
    /// [`Streams::read`] and [`Streams::follow`], so that who appends finds what was appended.
    ///
    /// # Errors
    /// What the log gives.
    pub async fn settle(&self, path: &StreamPath) -> Outcome<()> {
        match self.log.settle(path.as_str()) {
            Some(settled) => Ok(settled.await?),
            None => Ok(()),
        }
    }

    /// Waits until everything that was acknowledged of any stream can be seen. To be awaited before
    /// [`Streams::list`].
    ///
    /// # Errors
    /// What the log gives.
    pub async fn settle_all(&self) -> Outcome<()> {
        for settled in self.log.settle_all() {
            settled.await?;
        }
        Ok(())
    }

    /// Says whether reading a stream from a place on would read from the disk.
    pub fn is_cold(&self, path: &StreamPath, place: Place) -> bool {
        // What is looked at begins with the byte before.
        let from = match place {
            Place::Start => Offset(0),
            Place::Now => return false,
            Place::At(offset) => Offset(offset.0.saturating_sub(1)),
        };
        self.log.is_at_home(path.as_str(), from)
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

    /// Lists streams whose names begin so, behind a name, in order; of the server's own none.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<StreamPath> {
        let (mut paths, mut after) = (Vec::new(), after.map(str::to_owned));
        loop {
            let names = self.log.list(prefix, after.as_deref(), limit);
            let is_last = names.len() < limit;
            after = names.last().cloned();
            // A reserved name is no path.
            paths.extend(names.iter().filter_map(|name| StreamPath::relative(name).ok()));
            if is_last || paths.len() >= limit || after.is_none() {
                paths.truncate(limit);
                return paths;
            }
        }
    }

    /// Gives the cursor to answer a client with that brought this one.
    pub fn cursor(&self, brought: Option<Cursor>) -> Cursor {
        let now = self.clock.wall();
        let mut rng = self.rng.lock().expect("nobody panics while holding the randomness");
        Cursor::answer(now, brought, &mut **rng)
    }

    /// Wakes the live readers of streams that have news which nobody has looked at since the last
    /// call: one of them was woken to read for all, and does not. To be called now and then.
    pub fn nudge(&self) {
        self.hubs.nudge();
    }

    /// Uses the streams again that are followed and would end before long: a reader that waits
    /// keeps what it waits for. Where a stream has a fixed end and has reached it, or is gone, its
    /// readers end. To be called four times a second, the shortest life being one second.
    pub fn keep_followed(&self) {
        let wall = self.clock.wall();
        for hub in self.hubs.due(wall) {
            let view = self.find(hub.path()).ok().flatten();
            if view.is_none_or(|view| view.id != hub.id()) {
                // The log tells them when it has noted the end, which may be much later.
                hub.wake();
            } else if self.log.touch(hub.path().as_str()).is_ok() {
                hub.note_use(wall);
            }
            // A log that is full for a moment is asked again in the next round: in half a life the
            // stream would have ended.
        }
    }

    /// Counts bytes of an answer that is no content of a stream among what clients have not taken
    /// yet, until they are gone.
    ///
    /// # Errors
    /// [`Problem::NoRoomForAnswer`].
    pub fn hold(&self, bytes: Bytes, reader: Reader) -> Outcome<Bytes> {
        let len = bytes.len();
        let needed = u64::try_from(len).expect("lengths have 64 bits at most");
        let mut lease = self.room.lease();
        let has_room = match reader {
            _ if needed <= SHORT_BYTES => return Ok(bytes),
            Reader::Client => lease.grow_to(needed),
            Reader::Operator => lease.take_of_reserve(needed),
        };
        if has_room {
            return Ok(lease.counted(bytes, len));
        }
        Err(Problem::NoRoomForAnswer("it is longer than what others leave"))
    }

    /// Number of streams that are followed.
    pub fn followed(&self) -> usize {
        self.hubs.len()
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
    pub(crate) fn touch(&self, path: &StreamPath, view: &View) -> Outcome<()> {
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
