//! The streams of a lane, in memory: one compact slot each, and side tables for what few have.
//!
//! `slot` is what every stream has, `rare` what few have, `index` finds slots by name and by id.
//! Decisions about requests are made in `decide`, which reads and changes nothing.

pub mod decide;
mod index;
pub mod rare;
pub mod slot;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ids::StreamId;
use crate::request::Config;

use index::Index;
use rare::Rare;
use slot::{Flags, Slot};

/// Place of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotNo(pub u32);

/// The streams of a lane.
#[derive(Debug, Default)]
pub struct Table {
    slots: Vec<Slot>,
    free: Vec<SlotNo>,
    index: Index,
    rare: HashMap<SlotNo, Box<Rare>>,
    /// Configurations, shared by all streams that have the same.
    configs: HashSet<Arc<Config>>,
    len: u64,
}

impl Table {
    /// Streams that have a name.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Finds a stream by name.
    pub fn by_name(&self, name: &str) -> Option<SlotNo> {
        self.index.by_name(name, &self.slots)
    }

    /// Finds a stream by id.
    pub fn by_id(&self, id: StreamId) -> Option<SlotNo> {
        self.index.by_id(id, &self.slots)
    }

    /// Gives a slot.
    pub fn slot(&self, at: SlotNo) -> &Slot {
        &self.slots[position(at)]
    }

    /// Gives a slot to change. Name and id stay as they are.
    pub fn slot_mut(&mut self, at: SlotNo) -> &mut Slot {
        &mut self.slots[position(at)]
    }

    /// Gives what few streams have.
    pub fn rare(&self, at: SlotNo) -> Option<&Rare> {
        if !self.slot(at).flags.has(Flags::RARE) {
            return None;
        }
        self.rare.get(&at).map(AsRef::as_ref)
    }

    /// Gives what few streams have, made if need be.
    pub fn rare_mut(&mut self, at: SlotNo) -> &mut Rare {
        self.slot_mut(at).flags.set(Flags::RARE);
        self.rare.entry(at).or_default()
    }

    /// Adds a stream. Neither its name nor its id may be there.
    pub fn insert(&mut self, name: &str, id: StreamId, config: &Config) -> SlotNo {
        let slot = Slot::new(name, id, self.intern(config));
        let at = if let Some(at) = self.free.pop() {
            self.slots[position(at)] = slot;
            at
        } else {
            self.slots.push(slot);
            SlotNo(u32::try_from(self.slots.len() - 1).expect("max_streams fits u32"))
        };
        self.index.insert(at, &self.slots);
        self.len += 1;
        at
    }

    /// Takes a stream's name away: it can be found by id only, until it is removed.
    pub fn release_name(&mut self, at: SlotNo) {
        if !self.slot(at).flags.has(Flags::NAMELESS) {
            self.index.remove_name(at, &self.slots);
            self.slot_mut(at).flags.set(Flags::NAMELESS);
            self.len -= 1;
        }
    }

    /// Forgets a stream.
    pub fn remove(&mut self, at: SlotNo) {
        self.release_name(at);
        self.index.remove_id(at, &self.slots);
        self.rare.remove(&at);
        let config = std::mem::replace(&mut self.slots[position(at)], Slot::vacant()).config;
        self.release(&config);
        self.free.push(at);
    }

    /// Every stream, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (SlotNo, &Slot)> {
        let numbered = (0_u32..).map(SlotNo).zip(&self.slots);
        numbered.filter(|(_, slot)| !slot.flags.has(Flags::VACANT))
    }

    fn intern(&mut self, config: &Config) -> Arc<Config> {
        if let Some(shared) = self.configs.get(config) {
            return Arc::clone(shared);
        }
        let shared = Arc::new(config.clone());
        self.configs.insert(Arc::clone(&shared));
        shared
    }

    /// Drops the configuration of a slot that is gone, when no other stream has the same.
    fn release(&mut self, config: &Arc<Config>) {
        // The set, and the caller.
        if Arc::strong_count(config) == 2 {
            self.configs.remove(config);
        }
    }
}

fn position(at: SlotNo) -> usize {
    usize::try_from(at.0).expect("u32 fits usize")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LaneId;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn id(number: u64) -> StreamId {
        StreamId::new(LaneId(0), number)
    }

    #[test]
    fn a_slot_stays_small() {
        // A million idle streams: slot, index entries and name have to fit 150 bytes each.
        assert!(size_of::<Slot>() <= 88, "{}", size_of::<Slot>());
    }

    #[test]
    fn equal_configurations_are_shared_and_dropped_with_their_last_stream() {
        let mut table = Table::default();
        let json = Config { content_type: "application/json".to_owned(), ..Config::default() };
        let (a, b) = (table.insert("a", id(1), &json), table.insert("b", id(2), &json));
        assert!(Arc::ptr_eq(&table.slot(a).config, &table.slot(b).config));
        table.remove(a);
        assert_eq!(table.configs.len(), 1);
        table.remove(b);
        assert_eq!((table.configs.len(), table.len()), (0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_table_finds_what_a_map_finds(
            steps in prop::collection::vec((0..3_u8, 0..20_u8), 1..200),
        ) {
            let mut table = Table::default();
            let mut model: BTreeMap<String, StreamId> = BTreeMap::new();
            let mut nameless: Vec<StreamId> = Vec::new();
            for (number, (what, name)) in (1_u64..).zip(&steps) {
                let name = format!("stream/{name}");
                match (what, table.by_name(&name)) {
                    (0, None) => {
                        table.insert(&name, id(number), &Config::default());
                        model.insert(name, id(number));
                    }
                    (1, Some(at)) => {
                        table.remove(at);
                        model.remove(&name);
                    }
                    (2, Some(at)) => {
                        table.release_name(at);
                        nameless.extend(model.remove(&name));
                    }
                    (_, found) => prop_assert_eq!(found.is_some(), model.contains_key(&name)),
                }
            }
            prop_assert_eq!(table.len(), model.len() as u64);
            for (name, id) in &model {
                let at = table.by_name(name).unwrap();
                prop_assert_eq!((table.slot(at).id, &*table.slot(at).name), (*id, name.as_str()));
                prop_assert_eq!(table.by_id(*id), Some(at));
            }
            for id in nameless {
                prop_assert!(table.by_id(id).is_some());
            }
        }
    }
}
