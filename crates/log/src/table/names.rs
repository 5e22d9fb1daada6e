//! Names of streams, in a few large blocks of memory.
//!
//! A million small allocations cost more than the names, and lie on as many pages as there can be.
//! Here a name takes its bytes, six more, and up to seven of padding. Names are added at the end of
//! a block; when many are gone, those left in the block with most gaps are moved, a few each time
//! another goes, so that memory stays near what the names need, whatever came and went.

use highwater_disk::prefer_large_pages;

use super::SlotNo;

/// Bytes of a block; used as far as they are filled.
const BLOCK_BYTES: usize = 4 << 20;
/// Names begin at multiples of this, so that 32 bits reach far.
const UNIT_BYTES: usize = 8;
const BLOCK_UNITS: usize = BLOCK_BYTES / UNIT_BYTES;
/// What stands before a name: its slot, its length.
const HEAD_BYTES: usize = 6;
/// In place of a slot: the name is gone.
const GONE: u32 = u32::MAX;
/// Names moved for each that goes.
const MOVED_AT_ONCE: usize = 8;

/// Where a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameAt(u32);

impl NameAt {
    /// No name.
    pub const NONE: Self = Self(u32::MAX);
}

/// A name that was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Whose it is.
    pub slot: SlotNo,
    /// Where it is now.
    pub to: NameAt,
}

/// The names.
#[derive(Debug, Default)]
pub struct Names {
    blocks: Vec<Block>,
    /// Blocks without memory.
    vacant: Vec<usize>,
    /// The block that is filled; none at first.
    filling: Option<usize>,
    /// The block that is emptied, and how far it is.
    emptying: Option<(usize, usize)>,
    /// Bytes of all blocks.
    used: usize,
    /// Bytes of names that are gone.
    gone: usize,
}

#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    /// Bytes of names that are gone.
    gone: usize,
}

impl Names {
    /// Adds a name of a slot.
    ///
    /// # Panics
    /// When it is longer than 65 535 bytes, which no record can hold.
    pub fn add(&mut self, slot: SlotNo, name: &[u8]) -> NameAt {
        let len = u16::try_from(name.len()).expect("a record's name is shorter");
        let taken = taken(name.len());
        let has_room = |at: &usize| self.blocks[*at].bytes.len() + taken <= BLOCK_BYTES;
        let block = self.filling.filter(has_room).unwrap_or_else(|| self.begin());
        let bytes = &mut self.blocks[block].bytes;
        let start = bytes.len();
        bytes.extend(slot.0.to_le_bytes());
        bytes.extend(len.to_le_bytes());
        bytes.extend(name);
        bytes.resize(start + taken, 0);
        self.used += taken;
        let at = block * BLOCK_UNITS + start / UNIT_BYTES;
        NameAt(u32::try_from(at).expect("names take less than 32 GiB"))
    }

    /// Gives a name; an empty one for none.
    pub fn get(&self, at: NameAt) -> &[u8] {
        if at == NameAt::NONE {
            return &[];
        }
        let (block, start) = split(at);
        name_at(&self.blocks[block].bytes, start).1
    }

    /// Forgets a name.
    pub fn remove(&mut self, at: NameAt) {
        let (block, start) = split(at);
        let Block { bytes, gone } = &mut self.blocks[block];
        let taken = taken(name_at(bytes, start).1.len());
        *gone += taken;
        self.gone += taken;
        bytes[start..start + size_of::<u32>()].copy_from_slice(&GONE.to_le_bytes());
        if *gone == bytes.len() {
            self.free(block);
        }
    }

    /// Moves a few names, where many are gone; whoever has them is to be told.
    pub fn tidy(&mut self) -> impl Iterator<Item = Moved> {
        if self.emptying.is_none() && self.has_many_gaps() {
            let not_filling = |(at, _): &(usize, &Block)| self.filling != Some(*at);
            let blocks = self.blocks.iter().enumerate().filter(not_filling);
            self.emptying = blocks.max_by_key(|(_, block)| block.gone).map(|(at, _)| (at, 0));
        }
        let mut moved = [None; MOVED_AT_ONCE];
        for place in &mut moved {
            let Some((block, start)) = self.emptying else { break };
            let bytes = &mut self.blocks[block].bytes;
            if start >= bytes.len() {
                self.free(block);
                break;
            }
            let (slot, name) = name_at(bytes, start);
            let next = start + taken(name.len());
            if slot != GONE {
                let name = name.to_vec();
                let slot = SlotNo(slot);
                *place = Some(Moved { slot, to: self.add(slot, &name) });
            }
            self.emptying = Some((block, next));
        }
        moved.into_iter().flatten()
    }

    /// Whether a third of what is used, and more than a block, is gaps.
    fn has_many_gaps(&self) -> bool {
        self.gone > BLOCK_BYTES && self.gone * 3 > self.used
    }

    fn begin(&mut self) -> usize {
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.blocks.push(Block::default());
            self.blocks.len() - 1
        });
        let mut bytes = Vec::with_capacity(BLOCK_BYTES);
        if self.blocks.len() > 1 {
            // Advice: without it, names are found more slowly.
            prefer_large_pages(bytes.spare_capacity_mut()).ok();
        }
        self.blocks[at] = Block { bytes, gone: 0 };
        self.filling = Some(at);
        at
    }

    fn free(&mut self, block: usize) {
        let Block { bytes, gone } = std::mem::take(&mut self.blocks[block]);
        self.used -= bytes.len();
        self.gone -= gone;
        self.vacant.push(block);
        self.filling = self.filling.filter(|at| *at != block);
        self.emptying = self.emptying.filter(|(at, _)| *at != block);
    }
}

/// The slot and the name that begin at a place of a block.
fn name_at(bytes: &[u8], start: usize) -> (u32, &[u8]) {
    let (head, rest) = bytes[start..].split_at(HEAD_BYTES);
    let slot = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
    let len = u16::from_le_bytes(head[4..].try_into().expect("two bytes"));
    (slot, &rest[..usize::from(len)])
}

fn taken(name_len: usize) -> usize {
    (HEAD_BYTES + name_len).next_multiple_of(UNIT_BYTES)
}

fn split(at: NameAt) -> (usize, usize) {
    let at = usize::try_from(at.0).expect("u32 fits usize");
    (at / BLOCK_UNITS, at % BLOCK_UNITS * UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Names and where they are, as their slots know it.
    struct Known {
        names: Names,
        at: Vec<(Vec<u8>, NameAt)>,
    }

    impl Known {
        fn add(&mut self, name: Vec<u8>) {
            let slot = SlotNo(u32::try_from(self.at.len()).unwrap());
            let at = self.names.add(slot, &name);
            self.at.push((name, at));
        }

        fn remove(&mut self, slot: usize) {
            let at = std::mem::replace(&mut self.at[slot].1, NameAt::NONE);
            if at == NameAt::NONE {
                return;
            }
            self.names.remove(at);
            for Moved { slot, to } in self.names.tidy() {
                self.at[super::super::position(slot)].1 = to;
            }
        }

        fn check(&self) {
            for (name, at) in self.at.iter().filter(|(_, at)| *at != NameAt::NONE) {
                assert_eq!(self.names.get(*at), name);
            }
        }
    }

    fn name(number: usize, len: usize) -> Vec<u8> {
        let mut name = number.to_le_bytes().to_vec();
        name.resize(len, b'x');
        name
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn names_are_what_they_were_wherever_they_are_moved(
            lens in prop::collection::vec((1..20_000_usize, any::<prop::sample::Index>()), 1..2000),
        ) {
            let mut known = Known { names: Names::default(), at: Vec::new() };
            for (number, (len, gone)) in lens.iter().enumerate() {
                known.add(name(number, *len));
                // Two go for three that come.
                if number % 3 != 0 {
                    known.remove(gone.index(known.at.len()));
                }
            }
            known.check();
        }
    }

    #[test]
    fn memory_stays_near_what_the_names_need_whatever_came_and_went() {
        let mut known = Known { names: Names::default(), at: Vec::new() };
        // Short ones, then ever longer ones, of which one in sixteen stays.
        for (round, len) in [8, 40, 200, 1000].into_iter().enumerate() {
            let first = known.at.len();
            for number in 0..(16 << 20) / len {
                known.add(name(number, len));
            }
            for slot in (first..known.at.len()).filter(|slot| slot % 16 != round) {
                known.remove(slot);
            }
        }
        known.check();
        let living = known.at.iter().filter(|(_, at)| *at != NameAt::NONE);
        let need: usize = living.map(|(name, _)| taken(name.len())).sum();
        let bytes: usize = known.names.blocks.iter().map(|block| block.bytes.len()).sum();
        assert_eq!(bytes, known.names.used);
        assert!(bytes <= need * 3 / 2 + 3 * BLOCK_BYTES, "{bytes} used, {need} needed");
    }

    #[test]
    fn no_name_is_empty_and_a_block_whose_names_are_gone_has_no_memory() {
        let mut names = Names::default();
        assert_eq!(names.get(NameAt::NONE), b"");
        let (a, b) = (names.add(SlotNo(0), b"a"), names.add(SlotNo(1), b"bb"));
        names.remove(a);
        assert_eq!(names.get(b), b"bb");
        names.remove(b);
        assert_eq!((names.used, names.gone, names.blocks[0].bytes.capacity()), (0, 0, 0));
    }
}
