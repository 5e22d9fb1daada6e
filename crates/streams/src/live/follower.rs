//! One live reader.

use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use highwater_log::ids::Offset;

use super::framed::Framed;
use super::hub::{Hub, ReaderId, State, Turn};
use super::parcel::Parcel;
use super::piece::Piece;
use super::relay::{self, Waiting};
use super::ring::{Lost, RingNo};
use crate::content::{ContentType, Kind};
use crate::cursor::Cursor;
use crate::error::{Outcome, Problem};
use crate::offset::Place;
use crate::path::StreamPath;
use crate::service::{Chunk, Lease, Queued, SHORT_BYTES, Streams, Unread};
use crate::sse::Control;

/// Follows a stream from a place on.
#[derive(Debug)]
pub struct Follower {
    hub: Arc<Hub>,
    reader: ReaderId,
    content_type: ContentType,
    /// Everything before it has been given.
    position: Offset,
    /// Its next parcel at the hub, when it takes parcels from there.
    next_no: Option<RingNo>,
    /// What the hub had when this one looked last.
    seen: u64,
    /// A cursor that answers must not be below.
    least_cursor: Option<Cursor>,
    /// Its place in the line for memory, where its next message is a long one.
    queued: Option<Queued>,
    has_greeted: bool,
    has_ended: bool,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Events.
    Event(Event),
    /// Nothing at the moment: [`Follower::changed`] says when to ask again.
    Wait,
    /// Nothing ever: closed and given in full, or gone.
    End,
}

/// A data event, if there is data, with its control event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    events: Framed,
    /// What the control event says.
    pub control: Control,
}

impl Event {
    /// Gives their bytes: the same memory for all who get the same.
    pub fn bytes(&self) -> Bytes {
        self.events.bytes()
    }

    /// Gives them as a chunk of HTTP/1.1 (RFC 9112, section 7.1), of the same memory.
    pub fn chunk(&self) -> Bytes {
        self.events.chunk()
    }
}

impl Streams {
    /// Begins to follow a stream: a use of it. `cursor` is what the client brought, if it did.
    ///
    /// # Errors
    /// As [`Streams::read`].
    pub fn follow(
        &self,
        path: &StreamPath,
        place: Place,
        cursor: Option<Cursor>,
    ) -> Outcome<Follower> {
        let view = self.head(path)?;
        let position = match place {
            Place::Start => Offset(0),
            Place::Now => view.tail,
            Place::At(offset) => offset.min(view.tail),
        };
        if view.kind() == Kind::Json {
            self.message_start(path, position)?;
        }
        self.touch(path, &view)?;
        let (hub, reader) = self.hubs.join(self, &view, path);
        let least_cursor = cursor.map(|brought| self.cursor(Some(brought)));
        Ok(Follower {
            hub,
            reader,
            content_type: view.content_type,
            position,
            next_no: None,
            seen: 0,
            least_cursor,
            queued: None,
            has_greeted: false,
            has_ended: false,
        })
    }
}

impl Follower {
    /// What the stream holds.
    pub fn content_type(&self) -> &ContentType {
        &self.content_type
    }

    /// Where the reader is: everything before has been given.
    pub fn position(&self) -> Offset {
        self.position
    }

    /// Says whether the next call of [`Follower::try_next`] or [`Follower::try_chunk`] would read
    /// from the disk. Those who take from the hub are at the tail, which is in memory.
    pub fn is_cold(&self) -> bool {
        let place = Place::At(self.position);
        self.next_no.is_none()
            && !self.has_ended
            && self.queued.as_ref().is_none_or(Queued::is_over)
            && self.hub.streams().is_cold(self.hub.path(), place)
    }

    /// The cursor to answer with now.
    pub fn cursor(&self) -> Cursor {
        let now = self.hub.streams().cursor(None);
        self.least_cursor.map_or(now, |least| now.max(least))
    }

    /// Gives the next events, if there are any. May read from the disk. To be called again after
    /// each event, and when [`Follower::changed`] is done: others may wait for it.
    ///
    /// # Errors
    /// What the log gives; the reader cannot go on then.
    pub fn try_next(&mut self) -> Outcome<Next> {
        self.next(None)
    }

    /// Gives the next events, or wakes the task when there may be some: [`Follower::try_next`] and
    /// [`Follower::changed`] in one. Never gives [`Next::Wait`].
    ///
    /// # Errors
    /// As [`Follower::try_next`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Outcome<Next>> {
        match self.next(Some(context.waker())) {
            Ok(Next::Wait) => Poll::Pending,
            next => Poll::Ready(next),
        }
    }

    /// Gives a chunk as soon as there is content, or the end: for readers that want no events. None
    /// while there is nothing.
    ///
    /// # Errors
    /// As [`Streams::read`]; [`Problem::NotFound`] when the stream is gone.
    pub fn try_chunk(&mut self) -> Outcome<Option<Chunk>> {
        loop {
            self.seen = self.hub.lock().version;
            let chunk = self.hub.streams().chunk_of(&self.hub, self.position)?;
            if chunk.next > self.position || chunk.is_closed {
                self.position = chunk.next;
                return Ok(Some(chunk));
            }
            let mut state = self.hub.lock();
            if let Some(problem) = state.ended.clone() {
                return Err(problem);
            }
            self.hub.watch(&mut state, chunk.next);
            if state.version == self.seen {
                return Ok(None);
            }
        }
    }

    /// Lets another reader of the stream read for all, if this one was woken to and cannot ask for
    /// what comes next just now: the others wait for it.
    pub fn pass_on(&self) {
        if self.next_no.is_some() {
            self.hub.pass_on();
        }
    }

    /// Is done when asking again may give something else.
    pub async fn changed(&mut self) {
        std::future::poll_fn(|context| {
            if let Some(queued) = &mut self.queued
                && queued.poll(context.waker()).is_ready()
            {
                return Poll::Ready(());
            }
            let mut state = self.hub.lock();
            if state.version != self.seen || self.has_ended {
                return Poll::Ready(());
            }
            state.wait(self.reader, context.waker(), self.next_no.is_some());
            Poll::Pending
        })
        .await;
    }

    /// Gives the next events; a waker is kept where there are none.
    fn next(&mut self, waker: Option<&Waker>) -> Outcome<Next> {
        while !self.has_ended {
            let next = match self.next_no {
                Some(number) => self.next_of_hub(number, waker)?,
                None => self.next_of_log(waker)?,
            };
            if let Some(next) = next {
                return Ok(next);
            }
        }
        Ok(Next::End)
    }

    /// Takes the next parcel of the hub's; reads for all where there are news and nobody has.
    fn next_of_hub(&mut self, number: RingNo, waker: Option<&Waker>) -> Outcome<Option<Next>> {
        let is_queued = self.is_queued(waker);
        let mut state = self.hub.lock();
        self.seen = state.version;
        match state.ring.take(number) {
            Ok(Some(parcel)) => {
                drop(state);
                let Some(events) = self.events_of(&parcel) else {
                    // There is no room for a copy: by itself it waits for that.
                    self.hub.lock().detach(number + 1);
                    self.next_no = None;
                    return Ok(None);
                };
                self.queued = None;
                self.next_no = Some(number + 1);
                return Ok(Some(self.give(&parcel, events)));
            }
            Ok(None) => {}
            Err(Lost) => {
                // Too slow for the ring: from here on from the log.
                state.detach(number);
                drop(state);
                self.next_no = None;
                return Ok(None);
            }
        }
        if let Some(problem) = state.ended.clone() {
            drop(state);
            return self.end(problem).map(Some);
        }
        if is_queued {
            return Ok(Some(self.wait(state, waker)));
        }
        let Some(head) = state.begin_reading() else {
            let next = self.wait(state, waker);
            // Whoever reads now may need it.
            self.queued = None;
            return Ok(Some(next));
        };
        drop(state);
        let (place, lease) = ((self.content_type.kind(), head), self.take_lease());
        let turn = Turn::new(&self.hub);
        let read = self.hub.streams().piece(&self.hub, place, None, lease);
        let (woken, lacks) = self.take_in(turn, read);
        relay::wake(woken);
        self.queue(lacks);
        Ok(None)
    }

    /// Gives the hub what was read for it; gives whom to wake, and how much memory it takes where
    /// there is none: all wait for this one then, which waits for that.
    fn take_in(&self, turn: Turn<'_>, read: Result<Piece, Unread>) -> (Vec<Waiting>, Option<u64>) {
        let mut state = turn.end();
        let piece = match read {
            Ok(piece) => piece,
            Err(Unread::NoRoom { bytes }) => {
                state.put_off();
                return (Vec::new(), Some(bytes));
            }
            Err(Unread::Failed(problem)) => return (state.end(problem), None),
        };
        if piece.has_more() {
            state.is_stale = true;
        } else if !piece.parcel.control.is_closed {
            self.hub.watch(&mut state, piece.tail);
        }
        let woken = state.publish(piece.has_news.then_some(piece.parcel));
        if self.hub.streams().room.is_full() {
            state.ring.keep_newest();
        }
        (woken, None)
    }

    /// Reads what is behind the own position; at the tail, joins those who take from the hub.
    fn next_of_log(&mut self, waker: Option<&Waker>) -> Outcome<Option<Next>> {
        if self.is_queued(waker) {
            let state = self.hub.lock();
            if let Some(problem) = state.ended.clone() {
                drop(state);
                return self.end(problem).map(Some);
            }
            self.seen = state.version;
            return Ok(Some(self.wait(state, waker)));
        }
        self.seen = self.hub.lock().version;
        let (place, lease) = ((self.content_type.kind(), self.position), self.take_lease());
        let piece = match self.hub.streams().piece(&self.hub, place, self.least_cursor, lease) {
            Ok(piece) => piece,
            Err(Unread::NoRoom { bytes }) => {
                self.queue(Some(bytes));
                return Ok(None);
            }
            Err(Unread::Failed(problem)) => return self.end(problem).map(Some),
        };
        self.queued = None;
        if piece.has_news || !self.has_greeted {
            let events = piece.parcel.events(self.least_cursor);
            return Ok(Some(self.give(&piece.parcel, events)));
        }
        let mut state = self.hub.lock();
        if let Some(problem) = state.ended.clone() {
            drop(state);
            return self.end(problem).map(Some);
        }
        if state.version == self.seen {
            self.next_no = state.attach(self.position);
            self.hub.watch(&mut state, piece.tail);
        }
        // What came meanwhile is looked at before anything is waited for.
        Ok((state.version == self.seen).then(|| self.wait(state, waker)))
    }

    /// Whether there is no memory yet for its next message: with a waker it is in line for it.
    fn is_queued(&mut self, waker: Option<&Waker>) -> bool {
        match (&mut self.queued, waker) {
            (None, _) => false,
            (Some(queued), None) => !queued.is_over(),
            (Some(queued), Some(waker)) => queued.poll(waker).is_pending(),
        }
    }

    /// Takes the memory that was kept for it when it was its turn.
    fn take_lease(&mut self) -> Option<Lease> {
        self.queued.as_mut().and_then(Queued::take)
    }

    /// Waits for so much memory, if any; with the turn that it had, if it had one.
    fn queue(&mut self, lacks: Option<u64>) {
        match (&mut self.queued, lacks) {
            (Some(queued), Some(bytes)) => queued.wait_for(bytes),
            (queued, lacks) => *queued = lacks.map(|bytes| self.hub.streams().room.queue(bytes)),
        }
    }

    /// Gives the events of a parcel of the hub's; nothing where they have to be copied, and there
    /// is no room for that.
    fn events_of(&self, parcel: &Parcel) -> Option<Framed> {
        let is_shared = !parcel.is_too_early(self.least_cursor);
        let len = u64::try_from(parcel.len()).expect("lengths have 64 bits at most");
        if is_shared || len <= SHORT_BYTES {
            return Some(parcel.events(self.least_cursor));
        }
        let mut lease = self.hub.streams().room.lease();
        if !lease.grow_to(len) {
            return None;
        }
        let events = parcel.events(self.least_cursor);
        let len = events.len();
        Some(events.held(|bytes| lease.counted(bytes, len)))
    }

    /// Waits: nothing has come since this one looked, as of the state.
    fn wait(&self, mut state: MutexGuard<'_, State>, waker: Option<&Waker>) -> Next {
        if let Some(waker) = waker {
            state.wait(self.reader, waker, self.next_no.is_some());
        }
        Next::Wait
    }

    fn give(&mut self, parcel: &Parcel, events: Framed) -> Next {
        self.position = parcel.control.next;
        self.has_greeted = true;
        self.has_ended = parcel.control.is_closed;
        Next::Event(Event { events, control: parcel.control })
    }

    /// A stream that is gone ends its readers; anything else is an error.
    fn end(&mut self, problem: Problem) -> Outcome<Next> {
        self.has_ended = true;
        match problem {
            Problem::NotFound | Problem::Gone => Ok(Next::End),
            problem => Err(problem),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.hub.leave(self.reader, self.next_no);
    }
}
