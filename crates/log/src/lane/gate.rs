//! Gates: threads that wait for the same commit are woken by one call, however many they are.

use std::sync::Arc;

use crate::ids::Lsn;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// A gate, closed until it is opened for good.
#[derive(Debug, Default)]
pub struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Lets everybody through.
    pub(super) fn open(&self) {
        *self.lock() = true;
        self.opened.notify_all();
    }

    /// Waits until it is open.
    pub(super) fn wait(&self) {
        let mut is_open = self.lock();
        while !*is_open {
            is_open = self.opened.wait(is_open).expect("nobody panics with a gate's lock held");
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_open.lock().expect("nobody panics with a gate's lock held")
    }
}

/// The gates of a lane: of the commit under way, and of the next.
#[derive(Debug, Default)]
pub(super) struct Gates {
    under_way: Option<Meeting>,
    next: Option<Meeting>,
    /// Everything before it belongs to the commit under way, or is durable.
    end: Lsn,
}

/// Those who wait for one commit.
#[derive(Debug)]
struct Meeting {
    gate: Arc<Gate>,
    /// The lowest position that somebody waits for.
    first: Lsn,
}

impl Gates {
    /// A commit of everything before `end` begins.
    pub fn begin(&mut self, end: Lsn) {
        self.under_way = self.next.take();
        self.end = end;
    }

    /// It is done.
    pub fn done(&mut self) {
        self.under_way = None;
    }

    /// Gives the gate of whoever waits for a position, and whether it has to be opened for a lower
    /// one than before.
    pub fn join(&mut self, at: Lsn) -> (Arc<Gate>, bool) {
        let meeting = if at < self.end { &mut self.under_way } else { &mut self.next };
        let mut is_lower = false;
        let meeting = meeting.get_or_insert_with(|| {
            is_lower = true;
            Meeting { gate: Arc::default(), first: at }
        });
        is_lower |= at < meeting.first;
        meeting.first = meeting.first.min(at);
        (Arc::clone(&meeting.gate), is_lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_gets_through_an_open_gate_whether_they_came_before_or_after() {
        let gate = Gate::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| gate.wait());
            }
            gate.open();
            scope.spawn(|| gate.wait());
        });
        gate.wait();
    }

    #[test]
    fn whoever_waits_for_the_commit_under_way_does_not_wait_for_the_next() {
        let mut gates = Gates::default();
        let (early, is_new) = gates.join(Lsn(10));
        assert!(is_new);
        assert!(!gates.join(Lsn(20)).1);
        gates.begin(Lsn(100));
        let (same, is_lower) = gates.join(Lsn(50));
        assert!(Arc::ptr_eq(&early, &same) && !is_lower);
        assert!(gates.join(Lsn(5)).1, "it has to be opened for the lowest");
        let (next, is_new) = gates.join(Lsn(100));
        assert!(!Arc::ptr_eq(&early, &next) && is_new);
        gates.done();
        gates.begin(Lsn(200));
        assert!(Arc::ptr_eq(&next, &gates.join(Lsn(150)).0));
    }
}
