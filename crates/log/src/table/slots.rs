//! The slots, in chunks that stay where they are, and the names that belong to them.

use highwater_disk::prefer_large_pages;

use super::names::{Moved, NameAt, Names};
use super::slot::{Flags, Slot};
use super::{SlotNo, position};

/// Slots in a chunk; memory is used as far as they are.
const CHUNK: usize = 1 << 18;
/// Slots from which on large pages pay: 2 MiB.
const MANY: usize = 1 << 15;

/// The slots of a table.
#[derive(Debug, Default)]
pub struct Slots {
    chunks: Vec<Vec<Slot>>,
    free: Vec<SlotNo>,
    len: usize,
    names: Names,
    bytes: u64,
}

impl Slots {
    /// Places of slots, with streams or without.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Slots that have a stream.
    pub fn used(&self) -> usize {
        self.len - self.free.len()
    }

    /// Memory that its streams take, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives a slot, if there is such a place.
    pub fn find(&self, at: SlotNo) -> Option<&Slot> {
        self.chunks.get(position(at) / CHUNK)?.get(position(at) % CHUNK)
    }

    /// Gives a slot.
    pub fn get(&self, at: SlotNo) -> &Slot {
        &self.chunks[position(at) / CHUNK][position(at) % CHUNK]
    }

    /// Gives a slot to change.
    pub fn get_mut(&mut self, at: SlotNo) -> &mut Slot {
        &mut self.chunks[position(at) / CHUNK][position(at) % CHUNK]
    }

    /// Gives the name of a slot's stream.
    pub fn name(&self, at: SlotNo) -> &str {
        std::str::from_utf8(self.name_bytes(at)).expect("it came as text")
    }

    /// Gives the bytes of the name of a slot's stream; they are in the same order as the text.
    pub fn name_bytes(&self, at: SlotNo) -> &[u8] {
        self.names.get(self.get(at).name)
    }

    /// Puts a stream in a free place.
    pub fn fill(&mut self, name: &str, mut slot: Slot) -> SlotNo {
        let next = || SlotNo(u32::try_from(self.len).expect("max_streams fits u32"));
        let at = self.free.pop().unwrap_or_else(next);
        slot.name = self.names.add(at, name.as_bytes());
        self.bytes += Slot::bytes_of(name.as_bytes());
        if position(at) == self.len {
            self.push(slot);
        } else {
            *self.get_mut(at) = slot;
        }
        at
    }

    /// Empties a place; gives the slot that was there, without its name.
    pub fn vacate(&mut self, at: SlotNo) -> Slot {
        let slot = std::mem::replace(self.get_mut(at), Slot::vacant());
        self.free.push(at);
        self.bytes -= Slot::bytes_of(self.names.get(slot.name));
        self.names.remove(slot.name);
        for Moved { slot, to } in self.names.tidy() {
            self.chunks[position(slot) / CHUNK][position(slot) % CHUNK].name = to;
        }
        Slot { name: NameAt::NONE, ..slot }
    }

    /// Streams in some of the places, in no particular order.
    pub fn some(&self, places: std::ops::Range<usize>) -> impl Iterator<Item = (SlotNo, &Slot)> {
        let some = places.start.min(self.len)..places.end.min(self.len);
        let at = |place| SlotNo(u32::try_from(place).expect("slots are numbered in 32 bits"));
        let numbered = some.map(move |place| (at(place), self.get(at(place))));
        numbered.filter(|(_, slot)| !slot.flags.has(Flags::VACANT))
    }

    fn push(&mut self, slot: Slot) {
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let chunk = self.chunks.last_mut().expect("there is one");
        if self.len == MANY || self.len > MANY && chunk.is_empty() {
            // Advice: without it, slots are found more slowly.
            prefer_large_pages(chunk.spare_capacity_mut()).ok();
        }
        chunk.push(slot);
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StreamId;
    use crate::table::configs::ConfigNo;

    #[test]
    fn slots_stay_where_they_are_in_whatever_chunk_and_a_free_place_is_used_again() {
        let mut slots = Slots::default();
        let new = |number: usize| Slot::new(StreamId(number as u64), ConfigNo::NONE);
        let count = CHUNK + 3;
        for number in 0..count {
            assert_eq!(position(slots.fill(&format!("n{number}"), new(number))), number);
        }
        let first = std::ptr::from_ref(slots.get(SlotNo(0)));
        let at = SlotNo(u32::try_from(CHUNK + 1).unwrap());
        assert_eq!((slots.name(at), slots.get(at).id.0), ("n262145", 262_145));
        assert_eq!(slots.vacate(at).id.0, 262_145);
        assert_eq!((slots.used(), slots.len()), (count - 1, count));
        assert_eq!(slots.some(CHUNK..count + 5).count(), 2);
        assert_eq!(slots.fill("again", new(7)), at);
        assert_eq!((slots.name(at), slots.len()), ("again", count));
        assert!(std::ptr::eq(first, slots.get(SlotNo(0))));
        assert!(slots.find(SlotNo(u32::MAX)).is_none());
    }
}
