//! Streams in the order of their names, for lists that are read page by page.
//!
//! Made when somebody first reads beyond a first page, a few slots at a time, and then kept up. A
//! map of chunks of slot numbers, each under a name that none of its streams comes before: the
//! streams' names are in the slots, so that a stream costs about eight bytes. A place is found in
//! the map, and then by bisection of one chunk.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::slot::Flags;
use super::slots::Slots;
use super::{SlotNo, position};

/// Slots in a chunk at most; it is split when it has more.
const CHUNK: usize = 64;

/// The order.
#[derive(Debug, Default)]
pub struct Order {
    chunks: BTreeMap<Box<str>, Vec<SlotNo>>,
    /// Slots below this are in it.
    covered: usize,
}

impl Order {
    /// Takes in a few more slots; gives whether it has all.
    pub fn cover(&mut self, slots: &Slots, most: usize) -> bool {
        let until = slots.len().min(self.covered + most);
        while self.covered < until {
            let at = SlotNo(u32::try_from(self.covered).expect("slots are numbered in 32 bits"));
            self.covered += 1;
            if !slots.get(at).flags.has(Flags::VACANT) {
                self.add(at, slots);
            }
        }
        self.is_whole(slots)
    }

    /// Whether it has all.
    pub fn is_whole(&self, slots: &Slots) -> bool {
        self.covered == slots.len()
    }

    /// A slot has got a name.
    pub fn insert(&mut self, at: SlotNo, slots: &Slots) {
        // The one behind those that it has comes next; others later.
        if position(at) == self.covered {
            self.covered += 1;
        }
        if position(at) < self.covered {
            self.add(at, slots);
        }
    }

    /// A slot is about to lose its name.
    pub fn remove(&mut self, at: SlotNo, slots: &Slots) {
        if position(at) >= self.covered {
            return;
        }
        let name = name(at, slots);
        let mut chunks = self.chunks.range_mut::<str, _>(up_to(name));
        let (first, chunk) = chunks.next_back().expect("a stream is in a chunk");
        let found = chunk.remove(place(chunk, name, slots));
        assert_eq!(found, at, "a stream stands where its name does");
        if chunk.is_empty() {
            let first = first.clone();
            self.chunks.remove(&first);
        }
    }

    /// Slots from a name on, in order.
    pub fn from<'a>(&'a self, from: &str, slots: &Slots) -> impl Iterator<Item = SlotNo> + 'a {
        let (behind, chunk) = match self.chunks.range::<str, _>(up_to(from)).next_back() {
            Some((first, chunk)) => {
                (Bound::Excluded(&**first), &chunk[place(chunk, from, slots)..])
            }
            None => (Bound::Unbounded, &[][..]),
        };
        let behind = self.chunks.range::<str, _>((behind, Bound::Unbounded));
        chunk.iter().chain(behind.flat_map(|(_, chunk)| chunk)).copied()
    }

    fn add(&mut self, at: SlotNo, slots: &Slots) {
        let name = name(at, slots);
        let Some((_, chunk)) = self.chunks.range_mut::<str, _>(up_to(name)).next_back() else {
            // The chunk of whatever comes before the first name of the others.
            self.chunks.insert("".into(), vec![at]);
            return;
        };
        let index = place(chunk, name, slots);
        chunk.insert(index, at);
        if chunk.len() > CHUNK {
            // Names often come in rising order: then those before are as many as may be.
            let is_rising = index + 1 == chunk.len();
            let behind = chunk.split_off(if is_rising { CHUNK } else { CHUNK / 2 });
            chunk.shrink_to_fit();
            self.chunks.insert(self::name(behind[0], slots).into(), behind);
        }
    }

    /// Bytes of memory that it takes, but for what the map adds.
    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        let each = size_of::<(Box<str>, Vec<SlotNo>)>();
        let names: usize = self.chunks.keys().map(|name| name.len()).sum();
        let slots: usize = self.chunks.values().map(Vec::capacity).sum();
        each * self.chunks.len() + names + slots * size_of::<SlotNo>()
    }
}

/// Where in a chunk the first name stands that is not smaller.
fn place(chunk: &[SlotNo], wanted: &str, slots: &Slots) -> usize {
    chunk.partition_point(|at| name(*at, slots) < wanted)
}

fn up_to(name: &str) -> (Bound<&str>, Bound<&str>) {
    (Bound::Unbounded, Bound::Included(name))
}

fn name(at: SlotNo, slots: &Slots) -> &str {
    slots.name(at)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;
    use crate::ids::{LaneId, StreamId};
    use crate::table::configs::ConfigNo;
    use crate::table::slot::Slot;

    fn fill(slots: &mut Slots, name: &str, number: u64) -> SlotNo {
        slots.fill(name, Slot::new(StreamId::new(LaneId(0), number), ConfigNo::NONE))
    }

    fn names(order: &Order, from: &str, slots: &Slots) -> Vec<String> {
        order.from(from, slots).map(|at| name(at, slots).to_owned()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn streams_that_come_and_go_while_the_order_is_made_are_in_it_as_in_a_map(
            steps in prop::collection::vec((0..5_u8, 0..3000_u32), 1..3000),
            begin in 0..2000_usize,
        ) {
            let (mut slots, mut model) = (Slots::default(), BTreeMap::new());
            let mut order = None;
            for (index, (what, number)) in steps.iter().enumerate() {
                if index == begin {
                    order = Some(Order::default());
                }
                let key = format!("{number:04}");
                match (what, model.get(&key).copied()) {
                    (0..=2, None) => {
                        let at = fill(&mut slots, &key, u64::from(*number));
                        if let Some(order) = &mut order {
                            order.insert(at, &slots);
                        }
                        model.insert(key, at);
                    }
                    (3, Some(at)) => {
                        if let Some(order) = &mut order {
                            order.remove(at, &slots);
                        }
                        slots.vacate(at);
                        model.remove(&key);
                    }
                    (4, _) => {
                        if let Some(order) = &mut order {
                            order.cover(&slots, usize::try_from(*number / 100).unwrap());
                        }
                    }
                    _ => {}
                }
            }
            let mut order = order.unwrap_or_default();
            while !order.cover(&slots, 100) {}
            prop_assert!(order.is_whole(&slots));
            for from in ["", "0", "1500", "15001", "2999", "9"] {
                let expected = model.range(from.to_owned()..).map(|(name, _)| name.clone());
                prop_assert_eq!(names(&order, from, &slots), expected.collect::<Vec<_>>());
            }
            let all = order.chunks.values().all(|chunk| (1..=CHUNK).contains(&chunk.len()));
            prop_assert!(all, "chunks stay in their bounds");
        }
    }

    #[test]
    fn names_that_rise_fill_their_chunks_and_names_that_fall_fill_half_of_them() {
        let (mut rising, mut falling) = (Slots::default(), Slots::default());
        for n in 0..10_000 {
            fill(&mut rising, &format!("{n:05}"), n);
            fill(&mut falling, &format!("{:05}", 10_000 - n), n);
        }
        for (slots, each) in [(rising, CHUNK), (falling, CHUNK / 2)] {
            let mut order = Order::default();
            while !order.cover(&slots, 1000) {}
            assert!(order.chunks.len() <= 10_000 / each + 1, "{}", order.chunks.len());
            assert!(order.memory_bytes() < 10_000 * 10, "{}", order.memory_bytes());
        }
    }

    /// Names of a million streams, in a fixed disorder.
    fn million() -> Slots {
        let mut slots = Slots::default();
        for n in (0..1_000_000_u64).map(|n| n * 611_953 % 1_000_003) {
            fill(&mut slots, &format!("tenant/{:04}/stream/{n:07}", n % 977), n);
        }
        slots
    }

    fn all(slots: &Slots) -> impl Iterator<Item = (SlotNo, &str)> {
        slots.some(0..slots.len()).map(|(at, _)| (at, slots.name(at)))
    }

    #[test]
    #[ignore = "it measures, and prints what it found"]
    fn what_an_order_of_a_million_names_costs() {
        let slots = million();
        let mut order = Order::default();
        let (begun, mut longest) = (Instant::now(), 0);
        loop {
            let step = Instant::now();
            let is_whole = order.cover(&slots, 256);
            longest = longest.max(step.elapsed().as_micros());
            if is_whole {
                break;
            }
        }
        let each = begun.elapsed().as_nanos() / 1_000_000;
        let bytes = order.memory_bytes() as f64 / 1e6;
        println!("order: {each} ns and {bytes:.1} bytes per name, {longest} us for 256 at most");
        let begun = Instant::now();
        let mut pages = 0;
        let mut after = String::new();
        while let Some(last) = order.from(&after, &slots).take(1000).last() {
            name(last, &slots).clone_into(&mut after);
            after.push('\0');
            pages += 1;
        }
        println!("order: {} us per page of 1000", begun.elapsed().as_micros() / pages);
        let begun = Instant::now();
        let mut map = BTreeMap::new();
        for (at, name) in all(&slots) {
            map.insert(name.to_owned(), at);
        }
        println!("map with the names: {} ns per name", begun.elapsed().as_nanos() / 1_000_000);
        let begun = Instant::now();
        let mut found: Vec<&str> = all(&slots).map(|(_, name)| name).collect();
        found.sort_unstable();
        println!("scan and sort: {} ms per page", begun.elapsed().as_millis());
        let begun = Instant::now();
        let mut least = std::collections::BinaryHeap::new();
        for (_, name) in all(&slots) {
            if least.len() < 1000 || least.peek().is_some_and(|most| name < *most) {
                least.push(name);
                if least.len() > 1000 {
                    least.pop();
                }
            }
        }
        println!("scan for the least: {} ms per page", begun.elapsed().as_millis());
    }
}
