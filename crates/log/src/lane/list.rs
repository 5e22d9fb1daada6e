//! Lists streams by name, page by page. The lane's lock is held for a few streams at a time.
//!
//! A first page is found by looking at every stream once. Each further page puts some of the names
//! in order; once all are, a page costs what is on it, however many streams there are.

use std::collections::BinaryHeap;

use super::{Lane, State};
use crate::table::SlotNo;
use crate::table::slot::Flags;

/// Streams looked at while the lane's lock is held.
const HELD: usize = 256;
/// Streams that are put in order while it is held: each costs a few microseconds.
const HELD_TO_ORDER: usize = 64;
/// Times that it is asked whether the order is idle before it is forgotten.
const IDLE: u32 = 10;
/// Pages after which all names are in order: a name costs as much as looking at a hundred streams.
const PAGES_TO_ORDER: usize = 64;
/// Streams up to which looking at all of them costs no more than an order would.
const FEW: usize = 2 * HELD;

impl Lane {
    /// Streams of this lane whose names begin so, after a name, in order; durable ones only.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        if limit == 0 {
            return Vec::new();
        }
        let (slots, is_ordered) = {
            let state = self.lock();
            (state.table.slots(), state.table.in_order("").is_some())
        };
        if is_ordered {
            return self.pages(prefix, after, limit);
        }
        if after.is_some() && slots > FEW {
            self.put_in_order((slots / PAGES_TO_ORDER).max(FEW));
        }
        self.scan(prefix, after, limit)
    }

    /// Puts so many more names in order, a few at a time.
    fn put_in_order(&self, most: usize) {
        let mut done = 0;
        while done < most && !self.lock().table.put_in_order(HELD_TO_ORDER) {
            done += HELD_TO_ORDER;
        }
    }

    /// Looks at every stream, and keeps the first by name.
    fn scan(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let mut least: BinaryHeap<String> = BinaryHeap::new();
        let mut from = 0;
        loop {
            let state = self.lock();
            for (at, _) in state.table.some(from..from + HELD) {
                let name = state.table.name(at);
                let is_wanted = name.starts_with(prefix)
                    && after.is_none_or(|after| name > after)
                    && (least.len() < limit || least.peek().is_some_and(|most| name < &**most));
                if is_wanted && self.is_listed(&state, at) {
                    least.push(name.to_owned());
                    if least.len() > limit {
                        least.pop();
                    }
                }
            }
            from += HELD;
            if from >= state.table.slots() {
                return least.into_sorted_vec();
            }
        }
    }

    /// Takes streams in order from a place on.
    fn pages(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        // The first name that comes in question: the one right behind `after`, mostly.
        let mut from = after.map_or_else(String::new, |after| format!("{after}\0"));
        if *from < *prefix {
            prefix.clone_into(&mut from);
        }
        loop {
            let mut state = self.lock();
            state.order_idle = 0;
            let Some(streams) = state.table.in_order(&from) else {
                // It was forgotten meanwhile.
                state.table.put_in_order(HELD_TO_ORDER);
                continue;
            };
            let mut last = None;
            for at in streams.take(HELD) {
                let name = state.table.name(at);
                if !name.starts_with(prefix) || found.len() == limit {
                    return found;
                }
                if self.is_listed(&state, at) {
                    found.push(name.to_owned());
                }
                last = Some(at);
            }
            let Some(last) = last else { return found };
            from = format!("{}\0", state.table.name(last));
        }
    }

    /// Streams of this lane whose names begin so, in no order, as far as they stand in some of its
    /// places; gives where the next ones begin, or nothing where these are the last.
    pub fn walk(&self, prefix: &str, from: usize, most: usize) -> (Vec<String>, Option<usize>) {
        let (mut found, mut at, until) = (Vec::new(), from, from.saturating_add(most));
        loop {
            let state = self.lock();
            let end = until.min(at + HELD);
            for (slot, _) in state.table.some(at..end) {
                let name = state.table.name(slot);
                if name.starts_with(prefix) && self.is_listed(&state, slot) {
                    found.push(name.to_owned());
                }
            }
            at = end;
            if at >= state.table.slots() {
                return (found, None);
            }
            if at >= until {
                return (found, Some(at));
            }
        }
    }

    /// Whether readers may see a stream.
    fn is_listed(&self, state: &State, at: SlotNo) -> bool {
        let flags = state.table.slot(at).flags;
        let is_there = flags.has(Flags::VISIBLE) && !flags.has(Flags::SOFT_DELETED);
        is_there && !self.is_expired(state, at)
    }

    /// Forgets the order of names when nobody has asked for it for so many calls.
    pub(crate) fn forget_idle_order(&self) {
        let mut state = self.lock();
        state.order_idle = state.order_idle.saturating_add(1);
        if state.order_idle > IDLE {
            state.table.forget_order();
        }
    }
}
