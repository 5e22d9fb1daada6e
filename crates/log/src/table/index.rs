//! Finds slots by name and by id: five bytes and a bit per entry, since the keys are in the slots.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::slot::Slot;
use super::{SlotNo, position};
use crate::ids::StreamId;

/// Two hash tables of slot numbers.
#[derive(Debug, Default)]
pub struct Index {
    names: HashTable<SlotNo>,
    ids: HashTable<SlotNo>,
    hasher: DefaultHashBuilder,
}

impl Index {
    pub fn by_name(&self, name: &str, slots: &[Slot]) -> Option<SlotNo> {
        let hash = self.hasher.hash_one(name);
        self.names.find(hash, |at| &*slots[position(*at)].name == name).copied()
    }

    pub fn by_id(&self, id: StreamId, slots: &[Slot]) -> Option<SlotNo> {
        let hash = self.hasher.hash_one(id.0);
        self.ids.find(hash, |at| slots[position(*at)].id == id).copied()
    }

    pub fn insert(&mut self, at: SlotNo, slots: &[Slot]) {
        let Self { names, ids, hasher } = self;
        let slot = &slots[position(at)];
        let name_hash = |at: &SlotNo| hasher.hash_one(&*slots[position(*at)].name);
        let id_hash = |at: &SlotNo| hasher.hash_one(slots[position(*at)].id.0);
        names.insert_unique(hasher.hash_one(&*slot.name), at, name_hash);
        ids.insert_unique(hasher.hash_one(slot.id.0), at, id_hash);
    }

    pub fn remove_name(&mut self, at: SlotNo, slots: &[Slot]) {
        let hash = self.hasher.hash_one(&*slots[position(at)].name);
        let found = self.names.find_entry(hash, |other| *other == at);
        found.expect("a named slot is in the index").remove();
    }

    pub fn remove_id(&mut self, at: SlotNo, slots: &[Slot]) {
        let hash = self.hasher.hash_one(slots[position(at)].id.0);
        let found = self.ids.find_entry(hash, |other| *other == at);
        found.expect("a slot is in the index by its id").remove();
    }
}
