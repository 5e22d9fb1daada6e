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

    /// Takes so much more for cursors, if all of it is there: nobody else is promised it then.
    pub fn reserve(&self, more: u64) -> bool {
        let with = |kept: u64| kept.checked_add(more).filter(|sum| *sum <= self.most_bytes);
        more == 0 || self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with).is_ok()
    }

    /// Takes so much more for cursors, or what there is; gives how much.
    pub fn reserve_up_to(&self, more: u64) -> u64 {
        let free = |kept: u64| more.min(self.most_bytes.saturating_sub(kept));
        let with = |kept: u64| Some(kept + free(kept));
        let before = self.kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with);
        before.map_or(0, free)
    }

    /// Gives back what was taken and is not counted.
    pub fn give_back(&self, bytes: u64) {
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
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
        assert_eq!(budget.for_waiting(), Room::Free);
        assert!(budget.takes(1) && !budget.takes(2) && !budget.takes(u64::MAX));
        let more = Sizes { implied: 100, ..some };
        budget.count(some, more);
        assert_eq!((budget.takes(1), budget.for_waiting()), (true, Room::Full));
        let full = Sizes { kept: 400, implied: 0 };
        budget.count(more, full);
        assert_eq!((budget.takes(1), budget.for_waiting()), (false, Room::Free));
        budget.count(full, none);
        assert_eq!(budget.sizes(), none);
    }

    /// I11.
    #[test]
    fn however_many_take_at_once_no_more_is_given_than_there_is() {
        let budget = Budget::new(10_000);
        let given = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4_u64)
                .map(|number| {
                    let budget = &budget;
                    scope.spawn(move || {
                        let more = 7 + number;
                        let all = (0..500).filter(|_| budget.reserve(more)).map(|_| more);
                        let parts = (0..500).map(|_| budget.reserve_up_to(more));
                        all.sum::<u64>() + parts.sum::<u64>()
                    })
                })
                .collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum::<u64>()
        });
        assert_eq!((given, budget.sizes().kept), (10_000, 10_000));
        assert!(budget.reserve(0) && !budget.reserve(1) && budget.reserve_up_to(1) == 0);
        budget.give_back(3);
        assert_eq!((budget.reserve(4), budget.reserve_up_to(4)), (false, 3));
    }
}
