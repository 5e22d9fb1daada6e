//! Finds out what appends mean to subscriptions, and reads those again that could not be written.

use std::sync::Arc;
use std::task::Poll;

use highwater_log::ids::Offset;

use super::entry::{Entry, Standing};
use super::hub::Subscriptions;
use super::index::named;
use super::notes::Note;
use super::state::Phase;
use crate::error::Outcome;
use crate::path::StreamPath;

/// How long a subscription that cannot be read again yet is left alone, milliseconds.
const REFRESH_MS: u64 = 50;

/// Fewer links than this are not worth a look.
const LEAST_SWEPT: usize = 64;
/// Subscriptions that are looked at before others may go on.
const BREATH: usize = 128;

/// A stream that is looked at.
struct Look {
    tail: Option<Offset>,
    following: Vec<Arc<Entry>>,
}

/// Notes that somebody has taken: those who go away half-way give back what is left.
struct Taken<'a> {
    subscriptions: &'a Subscriptions,
    notes: Vec<(StreamPath, Note)>,
}

/// Lets others go on now and then.
#[derive(Debug, Default)]
pub(super) struct Breath(usize);

/// What became of reading a subscription again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reread {
    /// It is as it is kept.
    Done,
    /// What is kept of it cannot be seen yet.
    TooEarly,
}

impl Subscriptions {
    /// Settles once everything that was acknowledged can be seen: a worker that asks after an
    /// append finds it, also where acknowledgements run ahead of the barrier.
    pub(super) async fn settle_acknowledged(&self) {
        // Those too that somebody else looks at just now, and may not be done with.
        let paths: Vec<StreamPath> = self.bell().notes.paths().cloned().collect();
        let log = &self.streams.log;
        let early: Vec<_> = paths.iter().filter_map(|path| log.settle(path.as_str())).collect();
        for ticket in early {
            // A log that has failed tells whoever changes something.
            ticket.await.ok();
        }
        let mut breath = Breath::default();
        for path in &paths {
            for entry in self.begin_look(path).following {
                breath.take().await;
                self.look_at(&entry, path);
            }
        }
        self.settle().await;
    }

    /// Waits until everything that was acknowledged of any stream can be seen. To be awaited before
    /// [`Subscriptions::put`], so that a subscription begins behind what was appended before, and
    /// before [`Subscriptions::get`].
    pub async fn settle_streams(&self) {
        // A log that has failed tells whoever changes something.
        self.streams.settle_all().await.ok();
    }

    /// Finds out what the appends mean that were noted; lets others go on meanwhile.
    pub(super) async fn settle(&self) {
        let mut breath = Breath::default();
        let mut taken = Taken { subscriptions: self, notes: self.take_notes() };
        while let Some((path, note)) = taken.notes.last().cloned() {
            let look = self.begin_look(&path);
            for entry in &look.following {
                breath.take().await;
                self.look_at(entry, &path);
            }
            taken.notes.pop();
            self.end_look(&look, path, note);
        }
    }

    /// Finds out what the appends mean that were noted, at once.
    pub(super) fn settle_now(&self) {
        for (path, note) in self.take_notes() {
            let look = self.begin_look(&path);
            for entry in &look.following {
                self.look_at(entry, &path);
            }
            self.end_look(&look, path, note);
        }
    }

    fn take_notes(&self) -> Vec<(StreamPath, Note)> {
        let now_ms = self.now_ms();
        let mut bell = self.bell();
        bell.has_news = false;
        bell.notes.take(now_ms)
    }

    /// Begins to look at a stream.
    fn begin_look(&self, path: &StreamPath) -> Look {
        // Before anything else is seen of it: what is missed is missed by all.
        let tail = self.streams.log.info(path.as_str()).map(|info| info.tail);
        Look { tail, following: self.index().following(path.as_str()) }
    }

    fn end_look(&self, look: &Look, path: StreamPath, note: Note) {
        let is_missed = note.is_missed_by(look.tail);
        if is_missed && !look.following.is_empty() {
            // Somebody waits for what was acknowledged.
            self.streams.log.hasten(path.as_str());
        }
        let now_ms = self.now_ms();
        let mut bell = self.bell();
        bell.notes.looked_at(&path);
        if is_missed {
            bell.notes.put_off(path, note, now_ms);
        }
    }

    /// Has a subscription that follows a stream see what it has now.
    fn look_at(&self, entry: &Entry, path: &StreamPath) {
        let mut held = entry.lock();
        if held.standing != Standing::Kept {
            held.missed.insert(path.clone());
        }
        if held.standing == Standing::Begun || !entry.follows(&held.subscription, path.as_str()) {
            return;
        }
        if held.subscription.knows_of_more_than(path.as_str()) {
            return;
        }
        self.observe(&mut held.subscription, path.as_str());
        let is_swept = held.subscription.links.len() >= 2 * held.links_then + LEAST_SWEPT;
        if is_swept && self.lock().sweeping.insert(entry.id.clone()) {
            self.bell().ring();
        }
        // Of a wake under way nothing depends on it.
        if held.subscription.phase == Phase::Idle {
            self.schedule(&entry.id, &held);
        }
    }

    /// Whether a subscription could not be written, and is to be read again.
    pub fn has_stale(&self) -> bool {
        !self.lock().stale.is_empty()
    }

    /// Reads those subscriptions again that could not be written: from the disk, perhaps. Until
    /// then they are busy. One that cannot be read now is due again a little later.
    ///
    /// # Errors
    /// The last one's that cannot be read.
    pub fn refresh(&self) -> Outcome<()> {
        let stale = std::mem::take(&mut self.lock().stale);
        let mut outcome = Ok(());
        for id in stale {
            let Ok(entry) = self.entry(&id) else { continue };
            match self.read_again(&id, &entry) {
                Ok(Reread::Done) => continue,
                Ok(Reread::TooEarly) => {}
                Err(problem) => outcome = Err(problem),
            }
            let held = entry.lock();
            // If its deletion fails, it is stale again from then on.
            if !held.is_deleted {
                self.lock().stale.insert(id.clone());
                self.look_again(id, self.now_ms() + REFRESH_MS);
            }
        }
        outcome
    }

    /// Reads a subscription again. Others may change it, or make another one of its name, while it
    /// is read: what was read counts only where it is what is kept still.
    fn read_again(&self, id: &str, entry: &Arc<Entry>) -> Outcome<Reread> {
        let (kept, names) = {
            let mut held = entry.lock();
            if held.standing != Standing::Stale {
                return Ok(Reread::Done);
            }
            held.missed.clear();
            let names: Vec<_> = held.subscription.links.keys().cloned().collect();
            (held.journal.kept(), names)
        };
        let Some(mut subscription) = kept.read(&self.streams.log)? else {
            return Ok(Reread::TooEarly);
        };
        {
            // From here on it hears of them.
            let mut index = self.index();
            for name in named(&subscription) {
                index.add_name(entry, name);
            }
        }
        // There may be many: nobody waits for the lock meanwhile.
        self.observe_links(&mut subscription);
        for name in names {
            self.observe_where_followed(entry, &mut subscription, &name);
        }
        let mut held = entry.lock();
        if held.standing != Standing::Stale {
            return Ok(Reread::Done);
        }
        if held.journal.kept() != kept {
            return Ok(Reread::TooEarly);
        }
        for path in std::mem::take(&mut held.missed) {
            self.observe_where_followed(entry, &mut subscription, path.as_str());
        }
        subscription.has_more |= held.subscription.has_more || held.subscription.is_searched;
        let old = std::mem::replace(&mut held.subscription, subscription);
        held.standing = Standing::Kept;
        {
            let mut index = self.index();
            for name in named(&old).filter(|name| !held.subscription.names(name)) {
                index.remove_name(entry, name);
            }
        }
        self.schedule(id, &held);
        Ok(Reread::Done)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.notes.is_empty() {
            return;
        }
        let mut bell = self.subscriptions.bell();
        for (path, note) in self.notes.drain(..) {
            bell.notes.give_back(path, note);
        }
        bell.ring();
    }
}

impl Breath {
    /// Counts one that is looked at.
    pub async fn take(&mut self) {
        self.0 += 1;
        if !self.0.is_multiple_of(BREATH) {
            return;
        }
        let mut is_second = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut is_second, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}
