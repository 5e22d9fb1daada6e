//! Finds slots by name: five bytes and a bit per entry, since the names are in the slots.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::slot::Slot;
use super::{SlotNo, position};

/// A hash table of slot numbers.
#[derive(Debug, Default)]
pub struct Index {
    names: HashTable<SlotNo>,
    hasher: DefaultHashBuilder,
}

impl Index {
    /// Makes one with room for so many.
    pub fn with_capacity(len: usize) -> Self {
        Self { names: HashTable::with_capacity(len), hasher: DefaultHashBuilder::default() }
    }

    pub fn find(&self, name: &str, slots: &[Slot]) -> Option<SlotNo> {
        let hash = self.hasher.hash_one(name);
        self.names.find(hash, |at| &*slots[position(*at)].name == name).copied()
    }

    /// Adds a slot; gives the one that has its name already.
    pub fn insert(&mut self, at: SlotNo, slots: &[Slot]) -> Result<(), SlotNo> {
        let Self { names, hasher } = self;
        let name = |at: SlotNo| &*slots[position(at)].name;
        let hash = hasher.hash_one(name(at));
        let is_same = |other: &SlotNo| name(*other) == name(at);
        match names.entry(hash, is_same, |other| hasher.hash_one(name(*other))) {
            Entry::Occupied(other) => Err(*other.get()),
            Entry::Vacant(entry) => {
                entry.insert(at);
                Ok(())
            }
        }
    }

    pub fn remove(&mut self, at: SlotNo, slots: &[Slot]) {
        let hash = self.hasher.hash_one(&*slots[position(at)].name);
        let found = self.names.find_entry(hash, |other| *other == at);
        found.expect("a named slot is in the index").remove();
    }
}
