//! Finds slots by name: eight bytes an entry, all in one row, since the names are in the slots.
//!
//! An entry is a slot and 32 bits of its name's hash. Their upper bits say where it is looked for,
//! so that the row is made longer without a look at any name: in one pass, whatever the number of
//! streams. It is searched from there to the first free place; a lookup reads one cache line of it,
//! mostly.

use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use highwater_disk::prefer_large_pages;

use super::SlotNo;
use super::slots::Slots;

/// A place with no slot. No slot has the number of its lower half.
const FREE: u64 = u64::MAX;
/// Bits of a hash that an entry has.
const TAG_BITS: u32 = 32;
const LEAST_PLACES_BITS: u32 = 4;
/// From so many places on, large pages pay: 2 MiB.
const LARGE_PLACES_BITS: u32 = 18;

/// A hash table of slot numbers.
#[derive(Debug)]
pub struct Index {
    /// As many as a power of two; at most three of four are used.
    places: Vec<u64>,
    places_bits: u32,
    len: usize,
    hasher: DefaultHashBuilder,
}

impl Default for Index {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl Index {
    /// Makes one with room for so many.
    pub fn with_capacity(len: usize) -> Self {
        let least = len.saturating_mul(4).div_ceil(3).next_power_of_two();
        let places_bits = least.trailing_zeros().max(LEAST_PLACES_BITS);
        Self {
            places: free(places_bits),
            places_bits,
            len: 0,
            hasher: DefaultHashBuilder::default(),
        }
    }

    pub fn find(&self, name: &str, slots: &Slots) -> Option<SlotNo> {
        self.search(name.as_bytes(), slots).ok()
    }

    /// Adds a slot; gives the one that has its name already.
    pub fn insert(&mut self, at: SlotNo, slots: &Slots) -> Result<(), SlotNo> {
        if (self.len + 1) * 4 > self.places.len() * 3 {
            self.grow();
        }
        match self.search(slots.name_bytes(at), slots) {
            Ok(other) => Err(other),
            Err((place, tag)) => {
                self.places[place] = entry(tag, at);
                self.len += 1;
                Ok(())
            }
        }
    }

    pub fn remove(&mut self, at: SlotNo, slots: &Slots) {
        let gone = entry(self.tag(slots.name_bytes(at)), at);
        let mut hole = self.home(gone);
        while self.places[hole] != gone {
            assert_ne!(self.places[hole], FREE, "a named slot is in the index");
            hole = self.after(hole);
        }
        // Whatever was pushed past the hole moves back, or it would not be found any more.
        let mut place = self.after(hole);
        while self.places[place] != FREE {
            let home = self.home(self.places[place]);
            if self.distance(home, place) >= self.distance(hole, place) {
                self.places[hole] = self.places[place];
                hole = place;
            }
            place = self.after(place);
        }
        self.places[hole] = FREE;
        self.len -= 1;
    }

    /// Gives the slot of a name, or else the free place where it would go, and its tag.
    fn search(&self, name: &[u8], slots: &Slots) -> Result<SlotNo, (usize, u64)> {
        let tag = self.tag(name);
        let mut place = self.home(tag << TAG_BITS);
        loop {
            let found = self.places[place];
            if found == FREE {
                return Err((place, tag));
            }
            if found >> TAG_BITS == tag && slots.name_bytes(slot_of(found)) == name {
                return Ok(slot_of(found));
            }
            place = self.after(place);
        }
    }

    fn grow(&mut self) {
        self.places_bits += 1;
        assert!(self.places_bits <= TAG_BITS, "streams are numbered in 32 bits");
        let old = std::mem::replace(&mut self.places, free(self.places_bits));
        for found in old.into_iter().filter(|found| *found != FREE) {
            let mut place = self.home(found);
            while self.places[place] != FREE {
                place = self.after(place);
            }
            self.places[place] = found;
        }
    }

    fn tag(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name) >> TAG_BITS
    }

    /// Where an entry is looked for first.
    fn home(&self, entry: u64) -> usize {
        usize::try_from(entry >> (u64::BITS - self.places_bits)).expect("less than there are")
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }

    /// How far a place is behind another.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.places.len() - 1)
    }
}

/// Makes a row of free places.
fn free(places_bits: u32) -> Vec<u64> {
    let mut places = Vec::with_capacity(1 << places_bits);
    if places_bits >= LARGE_PLACES_BITS {
        // Advice: without it, names are found more slowly.
        prefer_large_pages(places.spare_capacity_mut()).ok();
    }
    places.resize(1 << places_bits, FREE);
    places
}

fn entry(tag: u64, at: SlotNo) -> u64 {
    tag << TAG_BITS | u64::from(at.0)
}

fn slot_of(entry: u64) -> SlotNo {
    SlotNo(u32::try_from(entry & u64::from(u32::MAX)).expect("its lower half"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StreamId;
    use crate::table::configs::ConfigNo;
    use crate::table::slot::Slot;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn slots(names: impl IntoIterator<Item = String>) -> Slots {
        let mut slots = Slots::default();
        for (name, number) in names.into_iter().zip(0..) {
            slots.fill(&name, Slot::new(StreamId(number), ConfigNo::NONE));
        }
        slots
    }

    fn named(count: u32) -> Slots {
        slots((0..count).map(|number| format!("s{number}")))
    }

    #[test]
    fn a_name_is_taken_once_and_says_by_whom() {
        let slots = slots(["s".to_owned(), "s".to_owned()]);
        let mut index = Index::default();
        assert_eq!(index.insert(SlotNo(0), &slots), Ok(()));
        assert_eq!(index.insert(SlotNo(1), &slots), Err(SlotNo(0)));
    }

    #[test]
    fn it_grows_with_its_entries_and_is_never_full() {
        let slots = named(1000);
        let mut index = Index::with_capacity(100);
        let before = index.places.len();
        for at in 0..100 {
            index.insert(SlotNo(at), &slots).unwrap();
        }
        assert_eq!(index.places.len(), before, "there was room for so many");
        for at in 100..1000 {
            index.insert(SlotNo(at), &slots).unwrap();
            assert!(index.len * 4 <= index.places.len() * 3);
        }
        assert!((0..1000).map(SlotNo).all(|at| index.find(slots.name(at), &slots) == Some(at)));
        assert_eq!(index.find("s1000", &slots), None);
    }

    proptest! {
        // A small row, filled as far as it may be: entries are far from home, and wrap around.
        #[test]
        fn whatever_goes_the_others_are_found(
            steps in prop::collection::vec((any::<bool>(), 0..24_u32), 1..400),
        ) {
            let slots = named(24);
            let mut index = Index::default();
            let mut model = BTreeSet::new();
            for (adds, at) in steps {
                let is_there = model.contains(&at);
                if adds && !is_there {
                    prop_assert_eq!(index.insert(SlotNo(at), &slots), Ok(()));
                    model.insert(at);
                } else if !adds && is_there {
                    index.remove(SlotNo(at), &slots);
                    model.remove(&at);
                }
                for at in 0..24 {
                    let found = index.find(slots.name(SlotNo(at)), &slots);
                    prop_assert_eq!(found, model.contains(&at).then_some(SlotNo(at)));
                }
            }
            prop_assert_eq!(index.len, model.len());
        }
    }
}
