//! Who watches streams: woken once, when the stream goes on or ends, and forgotten before when the
//! watch is dropped, so that watchers who left do not pile up on streams that stay idle (I11).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::waiters::Waiter;
use super::{Lane, State};
use crate::error::LogResult;
use crate::ids::Offset;
use crate::table::SlotNo;
use crate::table::slot::Flags;

/// A watch under way. It ends when its waiter is woken; dropped before, it takes the waiter out.
#[derive(Debug)]
#[must_use = "a watch that is dropped wakes nobody"]
pub struct Watch {
    lane: Arc<Lane>,
    slot: SlotNo,
    number: u64,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // After a panic with the lock held there is nothing left to watch.
        let Ok(mut state) = self.lane.state.lock() else { return };
        let waiter = state.watchers.remove(self.slot, self.number);
        // It may be the last that holds a task, which may hold watches of its own.
        drop(state);
        drop(waiter);
    }
}

impl Lane {
    /// Arranges to be woken when a stream's durable tail is no longer `seen`, or it ends; gives
    /// nothing when that is so already.
    ///
    /// # Errors
    /// [`crate::error::Rejection::NotFound`], [`crate::error::LogError::Poisoned`].
    pub fn watch(
        self: &Arc<Self>,
        name: &str,
        seen: Offset,
        waiter: Waiter,
    ) -> LogResult<Option<Watch>> {
        let mut state = self.lock();
        let at = self.visible(&state, name)?;
        let slot = state.table.slot(at);
        if slot.durable > seen || slot.flags.has(Flags::CLOSED_VISIBLE) {
            return Ok(None);
        }
        // Nothing more comes on a lane that failed.
        state.check_healthy()?;
        state.table.slot_mut(at).flags.set(Flags::WATCHED);
        let number = state.watchers.add(at, waiter);
        // Whoever waits for what is acknowledged does not wait for the next commit in due time.
        self.hurry(&mut state);
        Ok(Some(Watch { lane: Arc::clone(self), slot: at, number }))
    }
}

impl State {
    /// Leaves a stream's watchers to be woken.
    pub(super) fn end_watches(&mut self, at: SlotNo) {
        self.watchers.take(at, &mut self.ended);
    }
}

/// Watchers by stream, and by the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    waiters: BTreeMap<(SlotNo, u64), Waiter>,
    next: u64,
}

impl Watchers {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Adds one; gives its number, which no other ever has.
    fn add(&mut self, at: SlotNo, waiter: Waiter) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiters.insert((at, number), waiter);
        number
    }

    /// Takes one out, unless it has been.
    fn remove(&mut self, at: SlotNo, number: u64) -> Option<Waiter> {
        self.waiters.remove(&(at, number))
    }

    /// Takes out everybody who watches a stream.
    pub fn take(&mut self, at: SlotNo, into: &mut Vec<Waiter>) {
        let all = (at, 0)..=(at, u64::MAX);
        while let Some((key, _)) = self.waiters.range(all.clone()).next() {
            let key = *key;
            into.extend(self.waiters.remove(&key));
        }
    }

    /// Takes out everybody.
    pub fn take_all(&mut self, into: &mut Vec<Waiter>) {
        into.extend(std::mem::take(&mut self.waiters).into_values());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter() -> Waiter {
        Waiter::Thread(crate::sync::thread::current())
    }

    #[test]
    fn everybody_who_watches_a_stream_is_taken_and_nobody_else() {
        let mut watchers = Watchers::default();
        let numbers: Vec<u64> =
            [1, 2, 1, 3, 1, 0].map(|slot| watchers.add(SlotNo(slot), waiter())).to_vec();
        assert!(watchers.remove(SlotNo(1), numbers[2]).is_some());
        assert!(watchers.remove(SlotNo(1), numbers[2]).is_none(), "it is gone");
        let mut woken = Vec::new();
        watchers.take(SlotNo(1), &mut woken);
        assert_eq!((woken.len(), watchers.len()), (2, 3));
        // The slot is another stream's by now, and the old number means nobody there.
        watchers.add(SlotNo(1), waiter());
        assert!(watchers.remove(SlotNo(1), numbers[0]).is_none());
        watchers.take_all(&mut woken);
        assert_eq!((woken.len(), watchers.len()), (6, 0));
    }
}
