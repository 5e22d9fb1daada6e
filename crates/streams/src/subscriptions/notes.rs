//! Streams that have changed and were not looked at yet: each once, however often it changed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use highwater_log::ids::Offset;

use super::moment;
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
    /// Taken, and not looked at yet; with the number of those who have taken it.
    taken: HashMap<StreamPath, u32>,
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

    /// Takes what is to be looked at now: [`Notes::looked_at`] is to follow for each.
    pub fn take(&mut self, now_ms: u64) -> Vec<(StreamPath, Note)> {
        let mut taken: Vec<(StreamPath, Note)> = self.fresh.drain().collect();
        self.late.retain(|path, (note, at_ms)| {
            let is_due = moment::has_come(*at_ms, now_ms, FIRST_MS << MOST_LOOKS);
            if is_due {
                taken.push((path.clone(), *note));
            }
            !is_due
        });
        for (path, _) in &taken {
            *self.taken.entry(path.clone()).or_default() += 1;
        }
        taken
    }

    /// Somebody has looked at one that was taken.
    pub fn looked_at(&mut self, path: &StreamPath) {
        if let Some(count) = self.taken.get_mut(path) {
            *count -= 1;
            if *count == 0 {
                self.taken.remove(path);
            }
        }
    }

    /// Gives one back that was taken and not looked at.
    pub fn give_back(&mut self, path: StreamPath, note: Note) {
        self.looked_at(&path);
        let fresh = self.fresh.entry(path).or_insert(note);
        fresh.tail = fresh.tail.max(note.tail);
        fresh.is_unsure |= note.is_unsure;
        fresh.looks = fresh.looks.min(note.looks);
    }

    /// Puts one off that has not shown what it should.
    pub fn put_off(&mut self, path: StreamPath, note: Note, now_ms: u64) {
        if note.looks >= MOST_LOOKS {
            return;
        }
        let at_ms = now_ms + (FIRST_MS << note.looks);
        let note = Note { looks: note.looks + 1, ..note };
        match self.late.entry(path) {
            Entry::Vacant(place) => drop(place.insert((note, at_ms))),
            Entry::Occupied(mut place) => {
                // Neither takes the other's place: both may have told somebody.
                let (other, other_ms) = place.get_mut();
                other.tail = other.tail.max(note.tail);
                other.is_unsure |= note.is_unsure;
                other.looks = other.looks.min(note.looks);
                *other_ms = (*other_ms).min(at_ms);
            }
        }
    }

    /// The streams of which somebody may have been told more than subscriptions have seen, those
    /// included that are being looked at.
    pub fn paths(&self) -> impl Iterator<Item = &StreamPath> {
        let told = self.late.iter().filter(|(_, (note, _))| note.tail > Offset(0));
        let told = told.map(|(path, _)| path);
        self.fresh.keys().chain(told).chain(self.taken.keys())
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
    fn a_clock_that_is_set_back_puts_nothing_off() {
        let path = StreamPath::relative("a").unwrap();
        let mut notes = Notes::default();
        let year_ms = 365 * 86_400_000;
        notes.put_off(path, Note { tail: Offset(5), is_unsure: false, looks: 0 }, year_ms);
        assert_eq!(notes.take(year_ms - 1000).len(), 0);
        assert_eq!(notes.take(1000).len(), 1);
    }

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
    fn what_is_being_looked_at_is_noted_until_everybody_has() {
        let path = StreamPath::relative("a").unwrap();
        let mut notes = Notes::default();
        notes.add(&path, Expected::Tail(Offset(5)));
        assert_eq!(notes.take(100).len(), 1);
        notes.add(&path, Expected::Tail(Offset(9)));
        assert_eq!(notes.take(100).len(), 1);
        assert!(notes.take(100).is_empty());
        for _ in 0..2 {
            assert_eq!(notes.paths().collect::<Vec<_>>(), [&path]);
            notes.looked_at(&path);
        }
        assert_eq!(notes.paths().count(), 0);
        notes.add(&path, Expected::Tail(Offset(9)));
        let (_, note) = notes.take(100)[0];
        notes.put_off(path.clone(), note, 100);
        notes.looked_at(&path);
        assert_eq!(notes.paths().count(), 1, "it has not shown what somebody was told");
        notes.add(&path, Expected::Later);
        let (_, note) = notes.take(101)[0];
        notes.put_off(path.clone(), note, 101);
        notes.looked_at(&path);
        assert_eq!(notes.paths().count(), 1, "one note does not take another's place");
        assert!(notes.take(125)[0].1.is_missed_by(Some(Offset(8))));
        notes.looked_at(&path);
        notes.add(&path, Expected::Later);
        let (_, note) = notes.take(200)[0];
        notes.put_off(path.clone(), note, 200);
        notes.looked_at(&path);
        assert_eq!(notes.paths().count(), 0, "nobody was told anything");
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
