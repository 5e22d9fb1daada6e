//! Memory that the links of all subscriptions take, and its bound.
//!
//! Cursors have all of it. Links that are implied, and only wait in memory for a wake, have a
//! quarter as much beside: subscriptions that nobody works for leave others room for cursors.

use std::sync::atomic::{AtomicU64, Ordering};

use super::state::{Room, Sizes};

/// What waits has one such part beside what cursors have.
const WAITING_PART: u64 = 4;

/// The memory.
#[derive(Debug)]
pub(super) struct Budget {
    most_bytes: u64,
    kept: AtomicU64,
    implied: AtomicU64,
}

impl Budget {
    /// Takes the bound of cursors.
    pub fn new(most_bytes: u64) -> Self {
        Self { most_bytes, kept: AtomicU64::new(0), implied: AtomicU64::new(0) }
    }

    /// Counts what one subscription takes now, and took before.
    pub fn count(&self, before: Sizes, now: Sizes) {
        for (sum, before, now) in
            [(&self.kept, before.kept, now.kept), (&self.implied, before.implied, now.implied)]
        {
            if now > before {
                sum.fetch_add(now - before, Ordering::Relaxed);
            } else if now < before {
                sum.fetch_sub(before - now, Ordering::Relaxed);
            }
        }
    }

    /// Gives what all of them take.
    pub fn sizes(&self) -> Sizes {
        let (kept, implied) = (&self.kept, &self.implied);
        Sizes { kept: kept.load(Ordering::Relaxed), implied: implied.load(Ordering::Relaxed) }
    }

    /// Whether there is room for so much more of cursors.
    pub fn takes(&self, more: u64) -> bool {
        self.sizes().kept.saturating_add(more) <= self.most_bytes
    }

    /// Whether there is room for another cursor.
    pub fn for_cursors(&self) -> Room {
        if self.takes(1) { Room::Free } else { Room::Full }
    }

    /// Whether there is room for another link that waits for a wake.
    pub fn for_waiting(&self) -> Room {
        let is_free = self.sizes().implied < self.most_bytes / WAITING_PART;
        if is_free { Room::Free } else { Room::Full }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I11.
    #[test]
    fn cursors_and_what_waits_do_not_take_each_others_room() {
        let budget = Budget::new(400);
        let (none, some) = (Sizes::default(), Sizes { kept: 399, implied: 99 });
        budget.count(none, some);
        assert_eq!((budget.for_cursors(), budget.for_waiting()), (Room::Free, Room::Free));
        assert!(budget.takes(1) && !budget.takes(2) && !budget.takes(u64::MAX));
        let more = Sizes { implied: 100, ..some };
        budget.count(some, more);
        assert_eq!((budget.for_cursors(), budget.for_waiting()), (Room::Free, Room::Full));
        let full = Sizes { kept: 400, implied: 0 };
        budget.count(more, full);
        assert_eq!((budget.for_cursors(), budget.for_waiting()), (Room::Full, Room::Free));
        budget.count(full, none);
        assert_eq!(budget.sizes(), none);
    }
}
