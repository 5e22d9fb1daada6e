//! Streams that have changed and were not looked at yet: each once, however often it changed.

use std::collections::HashMap;

use highwater_log::ids::Offset;

use crate::path::StreamPath;
use crate::service::Expected;

/// First time until what should be seen is looked for again, milliseconds.
const FIRST_MS: u64 = 25;
/// Looks after which nothing is expected any more: two minutes and a half.
const MOST_LOOKS: u32 = 13;

/// A note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    tail: Offset,
    is_unsure: bool,
    looks: u32,
}

/// Notes by stream.
#[derive(Debug, Default)]
pub(super) struct Notes {
    fresh: HashMap<StreamPath, Note>,
    /// With the time of the next look, milliseconds since 1970.
    late: HashMap<StreamPath, (Note, u64)>,
}

impl Notes {
    /// Adds a note.
    pub fn add(&mut self, path: &StreamPath, expected: Expected) {
        let (tail, is_unsure) = match expected {
            Expected::Anything => (Offset(0), false),
            Expected::Tail(tail) => (tail, false),
            Expected::Later => (Offset(0), true),
        };
        if let Some(note) = self.fresh.get_mut(path) {
            note.tail = note.tail.max(tail);
            note.is_unsure |= is_unsure;
        } else {
            self.fresh.insert(path.clone(), Note { tail, is_unsure, looks: 0 });
        }
    }

    /// Takes what is to be looked at now.
    pub fn take(&mut self, now_ms: u64) -> Vec<(StreamPath, Note)> {
        let mut taken: Vec<(StreamPath, Note)> = self.fresh.drain().collect();
        self.late.retain(|path, (note, at_ms)| {
            let is_due = *at_ms <= now_ms;
            if is_due {
                taken.push((path.clone(), *note));
            }
            !is_due
        });
        taken
    }

    /// Puts one off that has not shown what it should.
    pub fn put_off(&mut self, path: StreamPath, note: Note, now_ms: u64) {
        if note.looks < MOST_LOOKS {
            let at_ms = now_ms + (FIRST_MS << note.looks);
            self.late.insert(path, (Note { looks: note.looks + 1, ..note }, at_ms));
        }
    }

    /// The streams noted.
    pub fn paths(&self) -> impl Iterator<Item = &StreamPath> {
        self.fresh.keys().chain(self.late.keys())
    }

    /// Has all of them looked at with the next ones.
    pub fn hasten(&mut self) {
        for (_, at_ms) in self.late.values_mut() {
            *at_ms = 0;
        }
    }

    /// When one is to be looked at again, milliseconds since 1970.
    pub fn due_ms(&self) -> Option<u64> {
        self.late.values().map(|(_, at_ms)| *at_ms).min()
    }
}

impl Note {
    /// Whether more is to be seen than was.
    pub fn is_missed_by(&self, tail: Option<Offset>) -> bool {
        self.is_unsure || (self.tail > Offset(0) && tail.is_none_or(|tail| tail < self.tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_noted_once_and_looked_for_until_it_shows_what_it_should() {
        let path = StreamPath::relative("a").unwrap();
        let mut notes = Notes::default();
        for tail in [5, 9, 7] {
            notes.add(&path, Expected::Tail(Offset(tail)));
        }
        let taken = notes.take(0);
        assert_eq!(taken.len(), 1);
        let note = taken[0].1;
        assert!(note.is_missed_by(None) && note.is_missed_by(Some(Offset(8))));
        assert!(!note.is_missed_by(Some(Offset(9))));
        notes.put_off(path.clone(), note, 100);
        assert_eq!((notes.due_ms(), notes.take(124).len()), (Some(125), 0));
        let (_, note) = notes.take(125)[0];
        notes.put_off(path.clone(), note, 125);
        assert_eq!(notes.due_ms(), Some(175), "later and later");
        notes.add(&path, Expected::Anything);
        assert!(!notes.take(126)[0].1.is_missed_by(None), "what was deleted is not missed");
    }

    #[test]
    fn what_is_hastened_is_looked_at_now() {
        let path = StreamPath::relative("a").unwrap();
        let mut notes = Notes::default();
        notes.add(&path, Expected::Tail(Offset(5)));
        let (path, note) = notes.take(100).remove(0);
        notes.put_off(path.clone(), note, 100);
        assert_eq!(notes.paths().collect::<Vec<_>>(), [&path]);
        assert!(notes.take(101).is_empty());
        notes.hasten();
        assert_eq!(notes.take(101).len(), 1);
    }

    #[test]
    fn what_nobody_waited_for_is_looked_for_a_bounded_time() {
        let path = StreamPath::relative("a").unwrap();
        let (mut notes, mut now_ms, mut looks) = (Notes::default(), 0, 0);
        notes.add(&path, Expected::Later);
        loop {
            let taken = notes.take(now_ms);
            let Some((path, note)) = taken.into_iter().next() else { break };
            looks += 1;
            assert!(note.is_missed_by(Some(Offset(u64::MAX))));
            notes.put_off(path, note, now_ms);
            now_ms = notes.due_ms().unwrap_or(now_ms);
        }
        assert_eq!(looks, 14);
        assert!(now_ms > 60_000, "longer than a commit takes");
    }
}
