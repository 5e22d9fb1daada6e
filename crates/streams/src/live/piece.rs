//! Reads what is new of a stream and encodes it.

use highwater_log::ids::Offset;

use super::hub::Hub;
use super::parcel::Parcel;
use crate::content::Kind;
use crate::cursor::Cursor;
use crate::error::{Outcome, Problem};
use crate::service::{Chunk, LEAST_BYTES, Lease, SHORT_BYTES, Streams, Unread, unfinished_len};
use crate::sse::Control;

/// What stands behind a place, as far as one parcel goes.
#[derive(Debug)]
pub(super) struct Piece {
    /// Its events; without content a control event alone.
    pub parcel: Parcel,
    /// Whether there is content, or the end.
    pub has_news: bool,
    /// The stream's tail, which may be behind what can be given.
    pub tail: Offset,
}

impl Piece {
    /// Whether another parcel can be read already.
    pub fn has_more(&self) -> bool {
        !self.parcel.control.is_up_to_date
    }
}

impl Streams {
    /// Reads a parcel, with a cursor that is not below the least. Of text, the beginning of a
    /// character waits for its other bytes, and a CR for what may be its LF, unless the stream has
    /// ended and they will never come. Of the memory for answers it takes what the reader has
    /// waited for, if it has.
    pub(super) fn piece(
        &self,
        hub: &Hub,
        (kind, start): (Kind, Offset),
        least: Option<Cursor>,
        lease: Option<Lease>,
    ) -> Result<Piece, Unread> {
        // One follows another, so there is no use in long ones: a reader that takes nothing holds
        // one of them (I11).
        let lease = lease.unwrap_or_else(|| self.room.lease());
        let room = self.room.chunk_within(self.limits.chunk_bytes.min(LEAST_BYTES), lease);
        let mut range = self.range(hub.path(), (kind, start), room)?;
        self.check_id(hub)?;
        let is_at_tail = range.next == range.tail;
        let mut next = range.next;
        if kind == Kind::Text && is_at_tail && !range.is_closed {
            let rest = unfinished_len(&range.body.last(4));
            range.body.drop_back(rest);
            next = Offset(next.0 - u64::try_from(rest).expect("at most three bytes"));
        }
        let is_closed = range.is_closed && is_at_tail;
        let control = Control { next, is_up_to_date: is_at_tail, is_closed };
        let has_news = !range.body.is_empty() || is_closed;
        let now = self.cursor(None);
        let cursor = least.map_or(now, |least| now.max(least));
        let parcel = Parcel::new(kind, start, &range.body, control, cursor);
        let parcel = if has_news { counted(parcel, range.lease)? } else { parcel };
        Ok(Piece { parcel, has_news, tail: range.tail })
    }

    /// Reads a chunk of the stream that a hub is of.
    pub(super) fn chunk_of(&self, hub: &Hub, start: Offset) -> Outcome<Chunk> {
        let view = self.head(hub.path())?;
        if view.id != hub.id() {
            return Err(Problem::NotFound);
        }
        let chunk = self.read_of(hub.path(), &view, crate::offset::Place::At(start))?;
        self.check_id(hub)?;
        Ok(chunk)
    }

    /// A stream of the same name that was made meanwhile is another one.
    fn check_id(&self, hub: &Hub) -> Outcome<()> {
        let is_there = self.log.info(hub.path().as_str()).is_some_and(|info| info.id == hub.id());
        if is_there { Ok(()) } else { Err(Problem::NotFound) }
    }
}

/// Counts a parcel, which may be a few times longer than what it was made of. Short ones count,
/// too, since a hub keeps many of them; but for those there is always room.
fn counted(parcel: Parcel, mut lease: Lease) -> Result<Parcel, Unread> {
    let len = parcel.len();
    let bytes = u64::try_from(len).expect("lengths have 64 bits at most");
    if lease.grow_to(bytes) {
        Ok(parcel.held(|events| lease.counted(events, len)))
    } else if bytes <= 2 * SHORT_BYTES {
        // As it is around a chunk of the shortest, but for many short lines.
        Ok(parcel)
    } else {
        Err(Unread::NoRoom { bytes })
    }
}
