//! Finds out what appends mean to subscriptions, and reads those again that could not be written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::hub::{Entry, Subscriptions};
use crate::error::Outcome;
use crate::path::StreamPath;

/// How long a subscription that cannot be read again yet is left alone, milliseconds.
const REFRESH_MS: u64 = 50;

/// Whether a subscription follows a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Followed {
    /// One does.
    Yes,
    /// None.
    No,
}

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
        if !paths.is_empty() {
            let entries = self.lock().entries.clone();
            for path in &paths {
                self.look_at(&entries, path);
            }
        }
        self.settle();
    }

    /// Finds out what the appends mean that were noted.
    pub(super) fn settle(&self) {
        let notes = {
            let mut bell = self.bell();
            bell.has_news = false;
            bell.notes.take(self.now_ms())
        };
        if notes.is_empty() {
            return;
        }
        let entries = self.lock().entries.clone();
        for (path, note) in notes {
            let tail = self.streams.log.info(path.as_str()).map(|info| info.tail);
            let followed = self.look_at(&entries, &path);
            let is_missed = note.is_missed_by(tail);
            if is_missed && followed == Followed::Yes {
                // Somebody waits for what was acknowledged.
                self.streams.log.hasten(path.as_str());
            }
            let mut bell = self.bell();
            bell.notes.looked_at(&path);
            if is_missed {
                bell.notes.put_off(path, note, self.now_ms());
            }
        }
    }

    /// Has all subscriptions that follow a stream see what it has now.
    fn look_at(&self, entries: &BTreeMap<String, Arc<Entry>>, path: &StreamPath) -> Followed {
        let mut followed = Followed::No;
        for (id, entry) in entries {
            let mut held = entry.lock();
            if held.is_stale {
                held.missed.insert(path.clone());
            }
            if entry.follows(&held.subscription, path) {
                followed = Followed::Yes;
                self.observe(&mut held.subscription, path.as_str());
                self.sweep(&mut held);
                self.schedule(id, &held);
            }
        }
        followed
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
    fn read_again(&self, id: &str, entry: &Entry) -> Outcome<Reread> {
        let kept = {
            let mut held = entry.lock();
            if !held.is_stale {
                return Ok(Reread::Done);
            }
            held.missed.clear();
            held.journal.kept()
        };
        let Some(mut subscription) = kept.read(&self.streams.log)? else {
            return Ok(Reread::TooEarly);
        };
        // It may look at all streams: nobody waits for the lock meanwhile.
        self.observe_all(entry, &mut subscription);
        let mut held = entry.lock();
        if !held.is_stale {
            return Ok(Reread::Done);
        }
        if held.journal.kept() != kept {
            return Ok(Reread::TooEarly);
        }
        for path in std::mem::take(&mut held.missed) {
            if entry.follows(&subscription, &path) {
                self.observe(&mut subscription, path.as_str());
            }
        }
        held.subscription = subscription;
        held.is_stale = false;
        self.schedule(id, &held);
        Ok(Reread::Done)
    }
}
