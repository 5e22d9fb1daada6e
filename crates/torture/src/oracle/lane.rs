//! What the outside knows of one lane.

use std::collections::VecDeque;

use super::OpNo;
use crate::model::{Named, State};

/// A lane.
#[derive(Debug, Clone, Default)]
pub(super) struct Lane {
    /// What the log must never fall behind.
    pub(super) safe: State,
    /// Number of the first operation beyond.
    next_safe: OpNo,
    /// What was taken in beyond.
    beyond: VecDeque<Named>,
    /// What readers see at least.
    pub(super) public: State,
    /// Number of the first operation beyond.
    pub(super) next_public: OpNo,
    /// What is safe with everything beyond it.
    pub(super) taken: State,
}

impl Lane {
    /// Number of the next operation.
    pub(super) fn next(&self) -> OpNo {
        self.next_safe + to_u64(self.beyond.len())
    }

    pub(super) fn take(&mut self, named: Named, max_producers: usize) -> OpNo {
        let number = self.next();
        self.taken.apply(&named, max_producers);
        self.beyond.push_back(named);
        number
    }

    /// Operations beyond what is safe, in order.
    pub(super) fn beyond_safe(&self) -> impl DoubleEndedIterator<Item = &Named> {
        self.beyond.iter()
    }

    /// Operations beyond what is public, with their numbers, in order.
    pub(super) fn beyond_public(&self) -> impl DoubleEndedIterator<Item = (OpNo, &Named)> {
        let first = usize::try_from(self.next_public - self.next_safe).expect("few operations");
        let len = self.beyond.len();
        (first..len).map(move |index| (self.next_safe + to_u64(index), &self.beyond[index]))
    }

    /// Everything before an operation is public.
    pub(super) fn publish(&mut self, next: OpNo, max_producers: usize) {
        while self.next_public < next {
            let index = usize::try_from(self.next_public - self.next_safe).expect("few operations");
            let named = self.beyond.get(index).expect("an operation was taken in");
            self.public.apply(named, max_producers);
            self.next_public += 1;
        }
    }

    /// Everything before an operation is safe; it is public already.
    pub(super) fn make_safe(&mut self, next: OpNo, max_producers: usize) {
        assert!(next <= self.next_public, "what is safe is public");
        while self.next_safe < next {
            let named = self.beyond.pop_front().expect("an operation was taken in");
            self.safe.apply(&named, max_producers);
            self.next_safe += 1;
        }
    }

    /// After a restart: all that is there is safe and public, and nothing lies beyond.
    pub(super) fn is_now(&mut self, state: State) {
        self.next_safe = self.next();
        self.next_public = self.next_safe;
        self.beyond.clear();
        self.taken.clone_from(&state);
        self.public.clone_from(&state);
        self.safe = state;
    }

    /// A stream was seen alive, or over.
    pub(super) fn seen(&mut self, name: &str, is_over: bool, now_ms: u64) {
        let Some(id) = self.taken.streams.get(name).map(|stream| stream.id) else { return };
        let used = self.taken.streams[name].used;
        for state in [&mut self.safe, &mut self.public, &mut self.taken] {
            if let Some(stream) = state.streams.get_mut(name)
                && stream.id == id
                && stream.used == used
            {
                stream.seen(is_over, now_ms);
            }
        }
    }
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).expect("usize fits u64")
}
