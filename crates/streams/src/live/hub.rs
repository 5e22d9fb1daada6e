//! What the readers of one stream share: the log's wake-ups, and parcels encoded once.
//!
//! The log wakes the hub once for a commit, and the hub then wakes one reader. That one reads and
//! encodes what is new, puts it into the ring, and wakes the others: the thread that commits does
//! not wait for a thousand of them. A reader that goes away while the others wait for it passes
//! the turn on; so does one that cannot look just now, and one that panics.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};
use std::time::Duration;

use highwater_log::error::LogError;
use highwater_log::ids::{Offset, StreamId};
use highwater_log::lane::Watch;
use highwater_log::lane::waiters::Waiter;
use slab::Slab;

use super::parcel::Parcel;
use super::relay::{self, Waiting};
use super::ring::{Ring, RingNo};
use crate::error::Problem;
use crate::path::StreamPath;
use crate::service::{Streams, View};

/// A reader's place at its hub: nobody else's while it is there.
pub(super) type ReaderId = usize;

/// A reader that reads for all: if it does not get so far, another one does.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    hub: &'a Hub,
    has_ended: bool,
}

/// A stream's hub.
#[derive(Debug)]
pub(crate) struct Hub {
    id: StreamId,
    path: StreamPath,
    streams: Streams,
    /// How long the stream lives after a use, where it ends then.
    ttl: Option<Duration>,
    /// When it ends by the wall clock, whoever uses it.
    until: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    /// Counts what readers may want to look at.
    pub version: u64,
    /// Whether the stream may have more than the ring was given.
    pub is_stale: bool,
    /// Whether a reader is at it.
    pub is_reading: bool,
    /// Whether nobody was at it at the last look, though there were news.
    is_overdue: bool,
    /// Why there will be nothing more.
    pub ended: Option<Problem>,
    /// Has the log wake the hub.
    watch: Option<Watch>,
    /// Where the next parcel begins.
    pub head: Offset,
    pub ring: Ring,
    /// Readers that take their parcels from the ring.
    pub attached: usize,
    /// Readers, attached or not.
    readers: Slab<Reader>,
    /// When they used the stream last, by the wall clock.
    used: Duration,
}

#[derive(Debug)]
enum Reader {
    /// It looks by itself.
    Busy,
    /// It is woken by news, one for all.
    Attached(Waiting),
    /// It is woken with all.
    Apart(Waiting),
}

impl Hub {
    pub fn new(view: &View, path: StreamPath, streams: Streams) -> Self {
        let state = State {
            version: 0,
            is_stale: false,
            is_reading: false,
            is_overdue: false,
            ended: None,
            watch: None,
            head: Offset(0),
            ring: Ring::new(streams.limits.ring_bytes),
            attached: 0,
            readers: Slab::new(),
            used: streams.clock.wall(),
        };
        let (ttl, until) = (view.ttl(), view.until());
        Self { id: view.id, path, streams, ttl, until, state: Mutex::new(state) }
    }

    pub fn id(&self) -> StreamId {
        self.id
    }

    pub fn path(&self) -> &StreamPath {
        &self.path
    }

    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Counts one reader more, and gives it a number; nothing where a panic has broken the hub.
    pub(super) fn join(&self) -> Option<ReaderId> {
        Some(self.state.lock().ok()?.readers.insert(Reader::Busy))
    }

    /// Counts one reader less. If the others wait for it to read, another one does.
    pub(super) fn leave(&self, reader: ReaderId, number: Option<RingNo>) {
        // This may be part of the panic that broke the hub.
        let Ok(mut state) = self.state.lock() else { return self.tidy() };
        let gone = state.readers.remove(reader);
        if let Some(number) = number {
            state.detach(number);
        }
        let woken = if state.is_stale { state.wake_for_news() } else { Vec::new() };
        // Whom nobody reads needs no news: the log keeps no waker of an idle stream's readers.
        let watch = if state.readers.is_empty() { state.watch.take() } else { None };
        drop(state);
        drop((watch, gone));
        relay::wake(woken);
        self.tidy();
    }

    fn tidy(&self) {
        if self.is_idle() {
            self.streams.hubs.tidy(self.id);
        }
    }

    /// Whether nobody reads from it, or nobody can.
    pub fn is_idle(&self) -> bool {
        self.state.lock().map_or(true, |state| state.readers.is_empty())
    }

    /// Whether half of the stream's life is over, and it has to be used again; or all of it, and
    /// its readers have not been told.
    pub(super) fn is_due(&self, wall: Duration) -> bool {
        let Ok(state) = self.state.lock() else { return false };
        let is_half_over = |ttl| wall.saturating_sub(state.used) >= ttl / 2;
        let is_over = |until| wall >= until;
        state.ended.is_none()
            && (self.ttl.is_some_and(is_half_over) || self.until.is_some_and(is_over))
    }

    /// Notes that the stream was used for its readers.
    pub fn note_use(&self, wall: Duration) {
        if let Ok(mut state) = self.state.lock() {
            state.used = wall;
        }
    }

    /// Gives all who wait, where nobody has looked at news since the last call.
    pub(super) fn overdue(&self) -> Vec<Waiting> {
        let Ok(mut state) = self.state.lock() else { return Vec::new() };
        let is_due = state.is_stale && !state.is_reading;
        if std::mem::replace(&mut state.is_overdue, is_due) && is_due {
            state.wake_all()
        } else {
            Vec::new()
        }
    }

    /// Lets another reader read for all, if all wait for one who was woken to and cannot now.
    pub(super) fn pass_on(&self) {
        let mut state = self.lock();
        let woken = if state.is_stale { state.wake_for_news() } else { Vec::new() };
        drop(state);
        relay::wake(woken);
    }

    /// Sees to it that the log wakes the hub when the stream's tail is no longer this one.
    pub(super) fn watch(self: &Arc<Self>, state: &mut State, tail: Offset) {
        if state.watch.is_some() || state.ended.is_some() {
            return;
        }
        let waiter = Waiter::Task(Waker::from(Arc::clone(self)));
        match self.streams.log.watch(self.path.as_str(), tail, waiter) {
            Ok(Some(watch)) => state.watch = Some(watch),
            // It has moved already, or the stream is gone: the next look shows which.
            Ok(None) | Err(LogError::Rejected(_)) => state.note_news(),
            Err(error) => {
                state.ended = Some(error.into());
                state.note_news();
            }
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics while holding a hub")
    }
}

impl<'a> Turn<'a> {
    /// Begins what [`State::begin_reading`] allows.
    pub fn new(hub: &'a Hub) -> Self {
        Self { hub, has_ended: false }
    }

    /// Ends it: what was read is about to be given to all.
    pub fn end(mut self) -> MutexGuard<'a, State> {
        let state = self.hub.lock();
        self.has_ended = true;
        state
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let Ok(mut state) = self.hub.state.lock() else { return };
        state.put_off();
        state.version += 1;
        let woken = state.wake_for_news();
        drop(state);
        relay::wake(woken);
    }
}

impl Wake for Hub {
    fn wake(self: Arc<Self>) {
        // Whoever commits wakes it: there is nobody to wake in a hub that a panic has broken.
        let Ok(mut state) = self.state.lock() else { return };
        let watch = state.watch.take();
        state.note_news();
        let woken = state.wake_for_news();
        drop(state);
        drop(watch);
        relay::wake(woken);
        self.tidy();
    }
}

impl State {
    /// Notes that there may be more.
    pub fn note_news(&mut self) {
        self.is_stale = true;
        self.version += 1;
    }

    /// Makes one reader read for all, if there is something to read and nobody is at it; gives
    /// where it begins.
    pub fn begin_reading(&mut self) -> Option<Offset> {
        if !self.is_stale || self.is_reading {
            return None;
        }
        (self.is_stale, self.is_reading, self.is_overdue) = (false, true, false);
        Some(self.head)
    }

    /// Notes that a reader could not read yet.
    pub fn put_off(&mut self) {
        (self.is_stale, self.is_reading) = (true, false);
    }

    /// Takes in what a reader has read; gives whom to wake.
    pub fn publish(&mut self, parcel: Option<Parcel>) -> Vec<Waiting> {
        self.is_reading = false;
        if let Some(parcel) = parcel {
            self.head = parcel.control.next;
            let readers = self.attached;
            self.ring.push(Arc::new(parcel), readers);
        }
        self.version += 1;
        self.wake_all()
    }

    /// Notes why there will be nothing more; gives whom to wake.
    pub fn end(&mut self, problem: Problem) -> Vec<Waiting> {
        self.ended = Some(problem);
        self.publish(None)
    }

    /// Takes in a reader that has everything before a place, where the next parcel begins there;
    /// gives its number. The first one says where that is: nothing has come since it looked.
    pub fn attach(&mut self, position: Offset) -> Option<RingNo> {
        if self.attached == 0 {
            (self.head, self.is_stale) = (position, false);
        }
        if self.head != position || self.is_reading {
            return None;
        }
        self.attached += 1;
        Some(self.ring.next_no())
    }

    pub fn detach(&mut self, number: RingNo) {
        self.attached -= 1;
        self.ring.leave(number);
    }

    /// Arranges that a reader is woken.
    pub fn wait(&mut self, reader: ReaderId, waker: &Waker, is_attached: bool) {
        let waiting = Waiting::here(waker);
        self.readers[reader] =
            if is_attached { Reader::Attached(waiting) } else { Reader::Apart(waiting) };
    }

    /// Whom news wakes: one who reads for all, or all where nobody does.
    fn wake_for_news(&mut self) -> Vec<Waiting> {
        if self.is_reading {
            // Whoever is at it looks again.
            return Vec::new();
        }
        let one = self.readers.iter_mut().map(|(_, reader)| reader).find_map(Reader::take_attached);
        one.map_or_else(|| self.wake_all(), |one| vec![one])
    }

    fn wake_all(&mut self) -> Vec<Waiting> {
        self.readers.iter_mut().filter_map(|(_, reader)| reader.take()).collect()
    }
}

impl Reader {
    fn take(&mut self) -> Option<Waiting> {
        match mem::replace(self, Self::Busy) {
            Self::Busy => None,
            Self::Attached(waiting) | Self::Apart(waiting) => Some(waiting),
        }
    }

    fn take_attached(&mut self) -> Option<Waiting> {
        if matches!(self, Self::Attached(_)) { self.take() } else { None }
    }
}
