//! A partition: the streams of a range of numbers, and in which of its sections each one's newest
//! entry stands.
//!
//! A section has a *level*: its place in the partition's row of base and deltas. A stream's level
//! is that of the newest section that has it; a stream that changed since stands above all levels.
//! So what a delta has to hold is found by one pass over a row of bytes, and deltas are merged by
//! writing a new one that reaches further down.

use super::SlotNo;
use crate::format::Section;
use crate::ids::Lsn;

/// Levels that there can be; deltas are merged long before there are so many.
pub const MAX_LEVELS: u8 = 200;
/// Level of a stream that changed since its newest entry was written.
const CHANGED: u8 = 254;
/// Level of a stream that no section has.
const NEW: u8 = 255;
/// In place of a slot: the stream is gone, and older sections have it.
const GONE: SlotNo = SlotNo(u32::MAX);

/// What a checkpoint writes of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Every stream.
    Base,
    /// Streams whose newest entry stands at this level or above: the new section takes its place.
    Delta(u8),
}

/// A partition.
#[derive(Debug, Default)]
pub struct Partition {
    /// Smallest number that belongs to it.
    first: u64,
    /// Its streams, ascending: how far their numbers are from the first.
    numbers: Vec<u32>,
    /// Their slots.
    slots: Vec<SlotNo>,
    /// Their levels.
    levels: Vec<u8>,
    /// How many of them changed or are new.
    changed: u32,
    /// How many of them are gone.
    gone: u32,
    /// Base and deltas, by level.
    sections: Vec<Section>,
    /// Records before it are in the sections.
    stamp: Lsn,
    /// Whether there were records since its stamp: also when what they did has come to nothing,
    /// replay must not begin amid them.
    is_touched: bool,
    /// Whether the checkpoint under way has written a section of it.
    pub is_pending: bool,
}

impl Partition {
    /// Begins an empty one.
    pub fn new(first: u64, stamp: Lsn) -> Self {
        Self { first, stamp, ..Self::default() }
    }

    /// Takes one as a manifest names it: its streams are yet to be [restored](Self::restore).
    pub fn of_sections(sections: Vec<Section>) -> Self {
        let base = sections.first().expect("a partition has a base");
        let stamp = sections.last().map_or(Lsn(0), |last| last.stamp);
        Self { first: base.first, stamp, sections, ..Self::default() }
    }

    /// Smallest number that belongs to it.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Records before it are in its sections.
    pub const fn stamp(&self) -> Lsn {
        self.stamp
    }

    /// Its sections, base first.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Its streams, with those that are gone and still hidden by deltas.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Its streams.
    pub fn live(&self) -> usize {
        self.len() - to_usize(self.gone)
    }

    /// Whether there were records that its sections do not have.
    pub const fn is_touched(&self) -> bool {
        self.is_touched
    }

    /// Whether a number is within its reach.
    pub fn can_hold(&self, number: u64) -> bool {
        u32::try_from(number - self.first).is_ok()
    }

    /// Finds the slot of a number.
    pub fn slot(&self, number: u64) -> Option<SlotNo> {
        let slot = self.slots[self.place(number).ok()?];
        (slot != GONE).then_some(slot)
    }

    /// Place of a number, or where it would go. Numbers are dense, mostly: where none is missing,
    /// none is looked at; else the search begins where it would stand if none before it were.
    fn place(&self, number: u64) -> Result<usize, usize> {
        let Ok(number) = u32::try_from(number - self.first) else { return Err(self.len()) };
        let last = self.len().saturating_sub(1);
        let end = to_usize(number).min(last);
        if self.numbers.last().is_some_and(|of_last| to_usize(*of_last) == last) {
            return if to_usize(number) <= last { Ok(end) } else { Err(last + 1) };
        }
        match self.numbers.get(end) {
            Some(at_end) if *at_end == number => Ok(end),
            Some(at_end) if *at_end < number => Err(end + 1),
            _ => self.numbers[..end].binary_search(&number),
        }
    }

    /// Adds a stream that no section has.
    pub fn insert(&mut self, number: u64, slot: SlotNo) {
        self.put(number, slot, NEW);
        self.changed += 1;
        self.is_touched = true;
    }

    /// Adds a stream as a section of this level has it, or replaces the one of an older level.
    pub fn restore(&mut self, number: u64, slot: SlotNo, level: u8) {
        self.put(number, slot, level);
    }

    /// Notes that a section of this level hides a stream.
    pub fn restore_gone(&mut self, number: u64, level: u8) {
        if let Ok(place) = self.place(number) {
            self.gone += u32::from(self.slots[place] != GONE);
            (self.slots[place], self.levels[place]) = (GONE, level);
        }
    }

    fn put(&mut self, number: u64, slot: SlotNo, level: u8) {
        match self.place(number) {
            Ok(place) => {
                self.gone -= u32::from(self.slots[place] == GONE);
                (self.slots[place], self.levels[place]) = (slot, level);
            }
            Err(place) => {
                let distance = u32::try_from(number - self.first).expect("the number is in reach");
                self.numbers.insert(place, distance);
                self.slots.insert(place, slot);
                self.levels.insert(place, level);
            }
        }
    }

    /// Notes that a stream's entry is out of date.
    pub fn change(&mut self, number: u64) {
        let place = self.place(number).expect("a stream is in its partition");
        if self.levels[place] < CHANGED {
            self.levels[place] = CHANGED;
            self.changed += 1;
            self.is_touched = true;
        }
    }

    /// Notes that a stream is gone.
    pub fn remove(&mut self, number: u64) {
        let place = self.place(number).expect("a stream is in its partition");
        assert!(self.slots[place] != GONE, "a stream goes once");
        self.is_touched = true;
        if self.levels[place] == NEW {
            self.changed -= 1;
            self.numbers.remove(place);
            self.slots.remove(place);
            self.levels.remove(place);
            return;
        }
        self.changed += u32::from(self.levels[place] != CHANGED);
        self.gone += 1;
        (self.slots[place], self.levels[place]) = (GONE, CHANGED);
    }

    /// What a checkpoint has to write of it: a base once deltas make up half of it, else a delta
    /// that takes the place of those before it that are no larger. So a stream that changed once is
    /// written a number of times that grows with the logarithm of its partition.
    pub fn due(&self) -> Option<Write> {
        if self.sections.is_empty() {
            return Some(Write::Base);
        }
        self.is_touched.then(|| self.write_above(self.sections.len()))
    }

    /// What moves the sections of a level and all above into a new one.
    pub fn write_above(&self, level: usize) -> Write {
        let (base, deltas) = self.sections.split_first().expect("it has a base");
        let sum = |of: fn(&Section) -> u32| deltas.iter().map(of).map(u64::from).sum::<u64>();
        let entries = sum(|delta| delta.entries) + u64::from(self.changed);
        let is_half = entries * 2 > u64::from(base.entries)
            || sum(|delta| delta.len) * 2 > u64::from(base.len)
            || to_usize(self.gone) * 2 > self.len();
        if level == 0 || is_half {
            return Write::Base;
        }
        let count = |from: usize| {
            let moved = self.sections[from..].iter().map(|section| section.entries);
            moved.fold(self.changed, u32::saturating_add)
        };
        let mut level = level;
        while level > 1 && self.sections[level - 1].entries <= count(level) {
            level -= 1;
        }
        Write::Delta(u8::try_from(level).expect("each delta is half the size of the one before"))
    }

    /// Streams that a section holds: their numbers, ascending, and their slots where they have one.
    pub fn to_write(&self, write: Write) -> impl Iterator<Item = (u64, Option<SlotNo>)> {
        let least = if let Write::Delta(level) = write { level } else { 0 };
        let rows = self.numbers.iter().zip(&self.slots).zip(&self.levels);
        rows.filter(move |(_, level)| **level >= least).filter_map(move |((number, slot), _)| {
            let slot = Some(*slot).filter(|slot| *slot != GONE);
            let is_hidden = slot.is_none() && write == Write::Base;
            (!is_hidden).then_some((self.first + u64::from(*number), slot))
        })
    }

    /// Notes that a section holds what [`Self::to_write`] gave.
    pub fn written(&mut self, write: Write, section: Section) {
        let level = if let Write::Delta(level) = write { level } else { 0 };
        if write == Write::Base {
            self.drop_gone();
        }
        for of_stream in &mut self.levels {
            *of_stream = (*of_stream).min(level);
        }
        self.sections.truncate(usize::from(level));
        self.sections.push(section);
        (self.changed, self.stamp) = (0, section.stamp);
        (self.is_touched, self.is_pending) = (false, true);
    }

    /// Leaves its sections behind: the next checkpoint writes a base.
    pub fn forget_sections(&mut self) {
        self.drop_gone();
        self.sections.clear();
        self.levels.fill(NEW);
        self.changed = u32::try_from(self.len()).expect("slots are counted in 32 bits");
        self.is_pending = false;
    }

    /// Cuts it in two before a number; neither has sections then.
    pub fn split_off(&mut self, number: u64) -> Self {
        self.forget_sections();
        let place = self.place(number).unwrap_or_else(|place| place);
        let mut rest = Self::new(number, self.stamp);
        let distance = u32::try_from(number - self.first).expect("the number is in reach");
        rest.numbers = self.numbers.split_off(place);
        for of_stream in &mut rest.numbers {
            *of_stream -= distance;
        }
        (rest.slots, rest.levels) = (self.slots.split_off(place), self.levels.split_off(place));
        rest.changed = u32::try_from(rest.len()).expect("slots are counted in 32 bits");
        self.changed -= rest.changed;
        rest
    }

    /// Takes the streams of the next partition in; it has no sections then.
    pub fn take_in(&mut self, mut next: Self) {
        self.forget_sections();
        next.forget_sections();
        let distance = u32::try_from(next.first - self.first).expect("the numbers are in reach");
        self.numbers.extend(next.numbers.iter().map(|number| number + distance));
        self.slots.append(&mut next.slots);
        self.levels.append(&mut next.levels);
        self.changed += next.changed;
    }

    /// Whether it can take the next one in.
    pub fn reaches(&self, next: &Self) -> bool {
        let last = next.numbers.last().map_or(0, |last| u64::from(*last));
        self.can_hold(next.first + last)
    }

    /// About how long its base would be, bytes.
    pub fn base_len(&self) -> u64 {
        let sum =
            |of: fn(&Section) -> u32| self.sections.iter().map(of).map(u64::from).sum::<u64>();
        let entries = sum(|section| section.entries).max(1);
        sum(|section| section.len) * to_u64(self.live()) / entries
    }

    fn drop_gone(&mut self) {
        if self.gone == 0 {
            return;
        }
        let mut kept = self.slots.iter().map(|slot| *slot != GONE);
        self.numbers.retain(|_| kept.next() == Some(true));
        let mut kept = self.slots.iter().map(|slot| *slot != GONE);
        self.levels.retain(|_| kept.next() == Some(true));
        self.slots.retain(|slot| *slot != GONE);
        self.gone = 0;
    }
}

fn to_usize(value: u32) -> usize {
    usize::try_from(value).expect("u32 fits usize")
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).expect("usize fits u64")
}
