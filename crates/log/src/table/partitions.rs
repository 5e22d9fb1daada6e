//! The partitions of a lane: ranges of stream numbers without a gap between them, the last without
//! an end.
//!
//! Numbers are given in ascending order and never again, so only the last partition grows; when it
//! is full, the next stream begins another. Where streams are deleted, neighbours are joined, so
//! that there are about as many partitions as the streams need, whatever became of others.

use std::collections::{BTreeMap, BTreeSet};

use super::SlotNo;
use super::partition::{Partition, Write};
use crate::format::Section;
use crate::format::snapshot::section::FULL_SECTION_LEN;
use crate::ids::Lsn;

/// The partitions.
#[derive(Debug)]
pub struct Partitions {
    /// The first number of each: what is searched.
    firsts: Vec<u64>,
    parts: Vec<Partition>,
    /// Streams of one at most.
    limit: usize,
    /// Lengths of the files that have their sections, by number.
    pub files: BTreeMap<u64, u64>,
}

impl Partitions {
    /// Begins with one that is empty.
    pub fn new(limit: usize) -> Self {
        let parts = vec![Partition::new(0, Lsn(0))];
        Self { firsts: vec![0], parts, limit, files: BTreeMap::new() }
    }

    /// Adds the next one, as a manifest names it; the first takes the place of what is there.
    pub fn load(&mut self, sections: Vec<Section>) {
        let part = Partition::of_sections(sections);
        if part.first() == 0 {
            self.firsts.clear();
            self.parts.clear();
        }
        self.firsts.push(part.first());
        self.parts.push(part);
    }

    /// Finds the slot of a number.
    pub fn slot(&self, number: u64) -> Option<SlotNo> {
        self.of(number).slot(number)
    }

    /// The partition of a number.
    pub fn of(&self, number: u64) -> &Partition {
        &self.parts[self.index(number)]
    }

    /// The partition of a number, to change.
    pub fn of_mut(&mut self, number: u64) -> &mut Partition {
        let index = self.index(number);
        &mut self.parts[index]
    }

    fn index(&self, number: u64) -> usize {
        // Each is full, mostly, and lies where it would if all before it were.
        if let Ok(number) = usize::try_from(number)
            && let [first, rest @ ..] = &self.firsts[(number / self.limit).min(self.firsts.len())..]
            && to_u64(number) >= *first
            && rest.first().is_none_or(|next| to_u64(number) < *next)
        {
            return self.firsts.len() - rest.len() - 1;
        }
        // The first begins with number 0.
        self.firsts.partition_point(|first| *first <= number) - 1
    }

    /// Adds a stream.
    pub fn insert(&mut self, number: u64, slot: SlotNo) {
        let index = self.index(number);
        let part = &self.parts[index];
        let is_last = index + 1 == self.parts.len();
        if is_last && part.len() >= self.limit || !part.can_hold(number) {
            // What the streams before had by their stamp, the new one had too.
            let next = Partition::new(number, part.stamp());
            self.put(index + 1, next);
            self.parts[index + 1].insert(number, slot);
        } else {
            self.parts[index].insert(number, slot);
        }
    }

    fn put(&mut self, index: usize, part: Partition) {
        self.firsts.insert(index, part.first());
        self.parts.insert(index, part);
    }

    /// One of them, by its place in their row.
    pub fn at(&self, index: usize) -> &Partition {
        &self.parts[index]
    }

    /// One of them, by its place in their row, to change.
    pub fn at_mut(&mut self, index: usize) -> &mut Partition {
        &mut self.parts[index]
    }

    /// Whether there were records that no section has.
    pub fn are_touched(&self) -> bool {
        self.parts.iter().any(Partition::is_touched)
    }

    /// Finds the first from a number on that a checkpoint has to write.
    pub fn next_due(&self, from: u64) -> Option<(usize, Write)> {
        self.find(from, Partition::due)
    }

    /// Finds the first that has no section at all.
    pub fn next_bare(&self) -> Option<(usize, Write)> {
        self.find(0, |part| part.sections().is_empty().then_some(Write::Base))
    }

    /// Finds the first from a number on that has a section in one of these files.
    pub fn next_within(&self, from: u64, files: &BTreeSet<u64>) -> Option<(usize, Write)> {
        self.find(from, |part| {
            let is_within = |section: &Section| files.contains(&section.number);
            part.sections().iter().position(is_within).map(|level| part.write_above(level))
        })
    }

    fn find(
        &self,
        from: u64,
        write: impl Fn(&Partition) -> Option<Write>,
    ) -> Option<(usize, Write)> {
        let start = self.firsts.partition_point(|first| *first < from);
        (start..self.parts.len()).find_map(|index| Some((index, write(&self.parts[index])?)))
    }

    /// Joins one that gets a new base with its neighbours, where they fit well; gives its place
    /// then.
    pub fn join(&mut self, mut index: usize) -> usize {
        while index + 1 < self.parts.len() && self.fit(index) {
            self.take_next(index);
        }
        while index > 0 && self.fit(index - 1) {
            index -= 1;
            self.take_next(index);
        }
        index
    }

    /// Whether one and the next would fill a partition to half.
    fn fit(&self, index: usize) -> bool {
        let (part, next) = (&self.parts[index], &self.parts[index + 1]);
        let len = part.base_len() + next.base_len();
        (part.live() + next.live()) * 2 <= self.limit
            && len * 2 <= u64::try_from(FULL_SECTION_LEN).expect("usize fits u64")
            && part.reaches(next)
    }

    fn take_next(&mut self, index: usize) {
        let next = self.parts.remove(index + 1);
        self.firsts.remove(index + 1);
        self.parts[index].take_in(next);
    }

    /// Cuts one in two before a number.
    pub fn cut(&mut self, index: usize, number: u64) {
        let rest = self.parts[index].split_off(number);
        self.put(index + 1, rest);
    }

    /// Every section, in order.
    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        self.parts.iter().flat_map(Partition::sections)
    }

    /// The checkpoint under way has been published.
    pub fn settle(&mut self) {
        let used: BTreeSet<u64> = self.sections().map(|section| section.number).collect();
        self.files.retain(|number, _| used.contains(number));
        for part in &mut self.parts {
            part.is_pending = false;
        }
    }

    /// The checkpoint under way has failed: what it wrote is written again by the next.
    pub fn give_up(&mut self) {
        for part in &mut self.parts {
            if part.is_pending {
                part.forget_sections();
            }
        }
    }
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).expect("usize fits u64")
}
