//! The streams of a lane, in memory: one compact slot each, and side tables for what few have.
//!
//! `slot` is what every stream has, `slots` where they are; `names` and `configs` are what they
//! refer to, `rare` what few have. `index` finds slots by name, `order` in the order of their
//! names; `partitions` find them by number, range by range, and know of each range what its
//! snapshot lacks; `stored` turns a stream into an entry of a snapshot and back; `files` says which
//! snapshots are to go. Decisions about requests are made in `decide`, which reads and changes
//! nothing.

mod configs;
pub mod decide;
pub mod files;
mod index;
mod names;
mod order;
pub mod partition;
pub mod partitions;
pub mod rare;
pub mod slot;
mod slots;
pub mod stored;

use std::collections::HashMap;
use std::sync::Arc;

use crate::format::Section;
use crate::ids::{Lsn, Offset, StreamId};
use crate::request::Config;

use configs::{ConfigNo, Configs};
use index::Index;
use order::Order;
use partition::Write;
use partitions::Partitions;
use rare::{ClosedBy, ProducerState, Rare};
use slot::{Flags, Slot};
use slots::Slots;

/// Streams of a partition at most, unless the options say otherwise.
pub const PARTITION_STREAMS: u32 = 2048;

/// Place of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotNo(pub u32);

/// The streams of a lane.
#[derive(Debug)]
pub struct Table {
    slots: Slots,
    /// Absent while the table is being recovered: partitions are as of different moments, so that
    /// two streams may have a name until all records are replayed.
    names: Option<Index>,
    /// Only while somebody lists streams page by page.
    order: Option<Order>,
    partitions: Partitions,
    rare: HashMap<SlotNo, Box<Rare>>,
    configs: Configs,
    len: u64,
    /// What `rare` takes: see [`Table::bytes`].
    bytes: u64,
    /// See [`Table::content_bytes`].
    content_bytes: u64,
    /// See [`Table::producers_forgotten`].
    producers_forgotten: u64,
}

impl Default for Table {
    fn default() -> Self {
        Self { names: Some(Index::default()), ..Self::unnamed(PARTITION_STREAMS) }
    }
}

impl Table {
    /// Sections of a partition at most.
    pub const MAX_LEVELS: u8 = partition::MAX_LEVELS;

    /// Makes an empty table, to be recovered: nothing is found by name before
    /// [`Self::index_names`].
    pub fn unnamed(partition_streams: u32) -> Self {
        let limit = usize::try_from(partition_streams).expect("u32 fits usize");
        Self {
            slots: Slots::default(),
            names: None,
            order: None,
            partitions: Partitions::new(limit),
            rare: HashMap::new(),
            configs: Configs::default(),
            len: 0,
            bytes: 0,
            content_bytes: 0,
            producers_forgotten: 0,
        }
    }

    /// Lets streams be found by name; gives two that have the same, where there are any.
    ///
    /// # Errors
    /// Those two.
    pub fn index_names(&mut self) -> Result<(), (StreamId, StreamId)> {
        let mut names = Index::with_capacity(self.slots.used());
        for (at, slot) in self.iter() {
            let unique = names.insert(at, &self.slots);
            unique.map_err(|other| (self.slot(other).id, slot.id))?;
        }
        self.names = Some(names);
        // A replay forgets again what was forgotten before.
        self.producers_forgotten = 0;
        Ok(())
    }

    /// Producers forgotten, since streams can be found by name, because their stream had as many as
    /// it may: whatever such a one sends again is taken for new.
    pub fn producers_forgotten(&self) -> u64 {
        self.producers_forgotten
    }

    /// Streams in it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Memory that streams take, about: slots, names, configurations (each once), producers and
    /// sequences.
    pub fn bytes(&self) -> u64 {
        self.slots.bytes() + self.configs.bytes() + self.bytes
    }

    /// Bytes that streams hold, staged ones included: each its own, not what it inherits.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Moves a stream's tail on.
    pub fn extend(&mut self, at: SlotNo, tail: Offset) {
        let slot = self.slot_mut(at);
        let before = std::mem::replace(&mut slot.tail, tail);
        self.content_bytes += tail.0 - before.0;
    }

    /// Bytes that are a stream's own.
    fn own_bytes(&self, at: SlotNo) -> u64 {
        let parent = self.rare(at).and_then(|rare| rare.parent);
        self.slot(at).tail.0 - parent.map_or(0, |parent| parent.offset.0)
    }

    /// Finds a stream by name.
    pub fn by_name(&self, name: &str) -> Option<SlotNo> {
        self.names.as_ref()?.find(name, &self.slots)
    }

    /// Finds a stream by id.
    pub fn by_id(&self, id: StreamId) -> Option<SlotNo> {
        let at = self.partitions.slot(id.in_lane())?;
        (self.slot(at).id == id).then_some(at)
    }

    /// Records of a stream before this are in the snapshots that the table was loaded from.
    pub fn stamp(&self, id: StreamId) -> Lsn {
        self.partitions.of(id.in_lane()).stamp()
    }

    /// Its partitions.
    pub fn partitions(&self) -> &Partitions {
        &self.partitions
    }

    /// Its partitions, to change.
    pub fn partitions_mut(&mut self) -> &mut Partitions {
        &mut self.partitions
    }

    /// Whether a slot is this stream's.
    pub fn is_at(&self, at: SlotNo, id: StreamId) -> bool {
        let slot = self.slots.find(at);
        slot.is_some_and(|slot| slot.id == id && !slot.flags.has(Flags::VACANT))
    }

    /// Whether there is such a slot, with a stream.
    #[cfg(feature = "planted")]
    pub fn has(&self, at: SlotNo) -> bool {
        self.slots.find(at).is_some_and(|slot| !slot.flags.has(Flags::VACANT))
    }

    /// Gives a slot.
    pub fn slot(&self, at: SlotNo) -> &Slot {
        self.slots.get(at)
    }

    /// Gives a slot to change. The id stays as it is.
    pub fn slot_mut(&mut self, at: SlotNo) -> &mut Slot {
        self.slots.get_mut(at)
    }

    /// Gives a stream's name.
    pub fn name(&self, at: SlotNo) -> &str {
        self.slots.name(at)
    }

    /// Gives a stream's configuration.
    pub fn config(&self, at: SlotNo) -> &Arc<Config> {
        self.configs.get(self.slot(at).config)
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
        let bytes = &mut self.bytes;
        self.rare.entry(at).or_insert_with(|| {
            *bytes += Rare::BYTES;
            Box::default()
        })
    }

    /// Notes what a producer has sent; where there are as many as may be, the one unused for
    /// longest is forgotten.
    pub fn note_producer(&mut self, at: SlotNo, id: &str, state: ProducerState, most: u32) {
        let rare = self.rare_mut(at);
        let (added, forgotten) = rare.note_producer(id, state, most);
        self.bytes += added;
        self.bytes -= forgotten;
        self.producers_forgotten += u64::from(forgotten > 0);
    }

    /// Notes who closed a stream: once.
    pub fn note_closed_by(&mut self, at: SlotNo, closed_by: ClosedBy) {
        let added = to_u64(closed_by.id.len());
        let old = self.rare_mut(at).closed_by.replace(closed_by);
        self.bytes += added;
        self.bytes -= old.map_or(0, |old| to_u64(old.id.len()));
    }

    /// Notes the last sequence of a stream.
    pub fn note_sequence(&mut self, at: SlotNo, sequence: &[u8]) {
        let old = self.rare_mut(at).sequence.replace(sequence.into());
        self.bytes += to_u64(sequence.len());
        self.bytes -= old.map_or(0, |old| to_u64(old.len()));
    }

    /// Notes that no snapshot has a stream as it is: the next checkpoint writes it.
    #[inline]
    pub fn note_change(&mut self, at: SlotNo) {
        let slot = self.slots.get_mut(at);
        if !slot.flags.has(Flags::CHANGED) {
            slot.flags.set(Flags::CHANGED);
            let number = slot.id.in_lane();
            self.partitions.of_mut(number).change(number);
        }
    }

    /// Notes that a section holds what its partition was to write.
    pub fn note_written(&mut self, index: usize, write: Write, section: Section) {
        for (_, slot) in self.partitions.at(index).to_write(write) {
            if let Some(at) = slot {
                self.slots.get_mut(at).flags.clear(Flags::CHANGED);
            }
        }
        self.partitions.at_mut(index).written(write, section);
    }

    /// Adds a stream. Neither its name nor its id may be there.
    pub fn insert(&mut self, name: &str, id: StreamId, config: &Config) -> SlotNo {
        let config = self.configs.share(config);
        let at = self.fill(name, Slot::new(id, config));
        self.slot_mut(at).flags.set(Flags::CHANGED);
        self.partitions.insert(id.in_lane(), at);
        at
    }

    /// Puts a slot in a free place, and indexes its name.
    fn fill(&mut self, name: &str, slot: Slot) -> SlotNo {
        let at = self.slots.fill(name, slot);
        if let Some(names) = &mut self.names {
            let unique = names.insert(at, &self.slots);
            assert_eq!(unique, Ok(()), "a name is one stream's");
        }
        if let Some(order) = &mut self.order {
            order.insert(at, &self.slots);
        }
        self.len += 1;
        at
    }

    /// Forgets a stream.
    pub fn remove(&mut self, at: SlotNo) {
        let number = self.slot(at).id.in_lane();
        self.partitions.of_mut(number).remove(number);
        self.vacate(at);
    }

    /// Empties a slot; its partition is the caller's matter.
    fn vacate(&mut self, at: SlotNo) {
        if let Some(names) = &mut self.names {
            names.remove(at, &self.slots);
        }
        if let Some(order) = &mut self.order {
            order.remove(at, &self.slots);
        }
        self.content_bytes -= self.own_bytes(at);
        let rare = self.rare.remove(&at).map_or(0, |rare| rare.bytes());
        self.bytes -= rare;
        let slot = self.slots.vacate(at);
        self.configs.release(slot.config);
        self.len -= 1;
    }

    /// Every stream, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (SlotNo, &Slot)> {
        self.slots.some(0..self.slots.len())
    }

    /// Places of slots, with streams or without.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Streams in some of the slots, in no particular order.
    pub fn some(&self, slots: std::ops::Range<usize>) -> impl Iterator<Item = (SlotNo, &Slot)> {
        self.slots.some(slots)
    }

    /// Puts a few more streams in the order of their names; gives whether all are.
    pub fn put_in_order(&mut self, most: usize) -> bool {
        self.order.get_or_insert_default().cover(&self.slots, most)
    }

    /// Forgets the order of names.
    pub fn forget_order(&mut self) {
        self.order = None;
    }

    /// Streams from a name on, in order; nothing while they are not all in order.
    pub fn in_order(&self, from: &str) -> Option<impl Iterator<Item = SlotNo>> {
        let order = self.order.as_ref().filter(|order| order.is_whole(&self.slots))?;
        Some(order.from(from, &self.slots))
    }
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).expect("usize fits u64")
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
        assert_eq!(size_of::<Slot>(), 64);
    }

    #[test]
    fn equal_configurations_are_shared_and_kept_as_long_as_a_stream_has_them() {
        let mut table = Table::default();
        let json = Config { content_type: "application/json".to_owned(), ..Config::default() };
        let (a, b) = (table.insert("a", id(1), &json), table.insert("b", id(2), &json));
        assert!(Arc::ptr_eq(table.config(a), table.config(b)));
        table.remove(a);
        assert_eq!(**table.config(b), json);
        table.remove(b);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn what_a_stream_takes_is_counted_up_and_down_again() {
        let mut table = Table::default();
        let at = table.insert("a", id(1), &Config::default());
        let bare = table.bytes();
        let state = |at| ProducerState { epoch: 1, sequence: 2, at: Lsn(at) };
        for (name, place) in [("one", 1), ("two", 2), ("three", 3), ("three", 4)] {
            table.note_producer(at, name, state(place), 2);
        }
        let kept = Rare::producer_bytes("two") + Rare::producer_bytes("three");
        assert_eq!(table.bytes(), bare + Rare::BYTES + kept, "one is forgotten");
        assert_eq!(table.producers_forgotten(), 1);
        table.note_sequence(at, b"a long one");
        table.note_sequence(at, b"short");
        table.note_closed_by(at, ClosedBy { id: "two".into(), epoch: 1, sequence: 2 });
        assert_eq!(table.bytes(), bare + Rare::BYTES + kept + 5 + 3);
        assert_eq!(table.bytes(), bare + table.rare(at).unwrap().bytes());
        table.remove(at);
        assert_eq!(table.bytes(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_table_finds_what_a_map_finds(
            steps in prop::collection::vec((0..2_u8, 0..20_u8), 1..200), limit in 1..9_u32,
        ) {
            let mut table = Table::unnamed(limit);
            table.index_names().unwrap();
            let mut model: BTreeMap<String, StreamId> = BTreeMap::new();
            let mut gone: Vec<StreamId> = Vec::new();
            for (number, (what, name)) in (1_u64..).zip(&steps) {
                let name = format!("stream/{name}");
                match (what, table.by_name(&name)) {
                    (0, None) => {
                        table.insert(&name, id(number), &Config::default());
                        model.insert(name, id(number));
                    }
                    (1, Some(at)) => {
                        table.remove(at);
                        gone.extend(model.remove(&name));
                    }
                    (_, found) => prop_assert_eq!(found.is_some(), model.contains_key(&name)),
                }
            }
            prop_assert_eq!(table.len(), model.len() as u64);
            let slots: u64 = model.keys().map(|name| Slot::bytes_of(name.as_bytes())).sum();
            let configs = if model.is_empty() { 0 } else { Config::default().bytes() };
            prop_assert_eq!(table.bytes(), slots + configs);
            for (name, id) in &model {
                let at = table.by_name(name).unwrap();
                prop_assert_eq!((table.slot(at).id, table.name(at)), (*id, name.as_str()));
                prop_assert_eq!(table.by_id(*id), Some(at));
            }
            for id in gone {
                prop_assert_eq!(table.by_id(id), None);
            }
            table.names = None;
            table.index_names().unwrap();
            for name in model.keys() {
                prop_assert!(table.by_name(name).is_some());
            }
        }
    }
}
