//! Who waits for the log to become durable, in the order of what they wait for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use super::gate::Gate;
use crate::ids::Lsn;
use crate::sync::thread::Thread;

/// Somebody to wake.
#[derive(Debug)]
pub enum Waiter {
    /// A thread that parks.
    Thread(Thread),
    /// A task that is polled again.
    Task(Waker),
    /// All threads behind a gate.
    Gate(Arc<Gate>),
}

impl Waiter {
    /// Wakes.
    pub fn wake(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => waker.wake(),
            Self::Gate(gate) => gate.open(),
        }
    }

    /// Whether waking one is waking the other.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Thread(one), Self::Thread(other)) => one.id() == other.id(),
            (Self::Task(one), Self::Task(other)) => one.will_wake(other),
            (Self::Gate(one), Self::Gate(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// A queue ordered by position. Most arrive in order: staging gives rising positions.
#[derive(Debug, Default)]
pub struct Waiters {
    queue: VecDeque<(Lsn, Waiter)>,
}

impl Waiters {
    /// Adds somebody who waits until everything before and at `lsn` is durable; whoever waits for
    /// that already, and asks again, is not added twice.
    pub fn add(&mut self, lsn: Lsn, waiter: Waiter) {
        let behind = self.queue.iter().rev().take_while(|(other, _)| *other > lsn).count();
        let at = self.queue.len() - behind;
        let mut same = self.queue.range(..at).rev().take_while(|(other, _)| *other == lsn);
        if !same.any(|(_, other)| other.is_same(&waiter)) {
            self.queue.insert(at, (lsn, waiter));
        }
    }

    /// Takes out everybody whose record lies before `durable`; who waits for several in a row is
    /// given once.
    pub fn take_before(&mut self, durable: Lsn, into: &mut Vec<Waiter>) {
        while self.queue.front().is_some_and(|(lsn, _)| *lsn < durable) {
            let waiter = self.queue.pop_front().map(|(_, waiter)| waiter);
            let is_new = |waiter: &Waiter| !into.last().is_some_and(|last| last.is_same(waiter));
            let waiter = waiter.filter(is_new);
            into.extend(waiter);
        }
    }

    /// The lowest position that somebody waits for.
    pub fn first(&self) -> Option<Lsn> {
        self.queue.front().map(|(lsn, _)| *lsn)
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.queue.len()
    }

    /// Takes out everybody.
    pub fn take_all(&mut self, into: &mut Vec<Waiter>) {
        into.extend(self.queue.drain(..).map(|(_, waiter)| waiter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;

    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counts<const N: usize>() -> [Arc<Count>; N] {
        std::array::from_fn(|_| Arc::new(Count(AtomicU64::new(0))))
    }

    fn task(count: &Arc<Count>) -> Waiter {
        Waiter::Task(Arc::clone(count).into())
    }

    fn wake(woken: Vec<Waiter>, counts: &[Arc<Count>]) -> Vec<u64> {
        woken.into_iter().for_each(Waiter::wake);
        counts.iter().map(|count| count.0.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn exactly_those_before_the_durable_position_are_woken_in_whatever_order_they_came() {
        let counts: [_; 6] = counts();
        let mut waiters = Waiters::default();
        for (lsn, count) in [10, 30, 20, 20, 5, 40].into_iter().zip(&counts) {
            waiters.add(Lsn(lsn), task(count));
        }
        let mut woken = Vec::new();
        waiters.take_before(Lsn(20), &mut woken);
        assert_eq!(wake(woken, &counts), [1, 0, 0, 0, 1, 0]);
        let mut woken = Vec::new();
        waiters.take_before(Lsn(21), &mut woken);
        assert_eq!(wake(woken, &counts), [1, 0, 1, 1, 1, 0]);
        let mut woken = Vec::new();
        waiters.take_all(&mut woken);
        assert_eq!(wake(woken, &counts), [1; 6]);
    }

    #[test]
    fn a_task_that_asks_again_or_waits_for_several_in_a_row_is_woken_once() {
        let counts: [_; 2] = counts();
        let mut waiters = Waiters::default();
        for (lsn, at) in [(10, 0), (10, 1), (10, 0), (11, 1), (12, 1), (20, 1)] {
            waiters.add(Lsn(lsn), task(&counts[at]));
        }
        let mut woken = Vec::new();
        waiters.take_before(Lsn(15), &mut woken);
        assert_eq!(wake(woken, &counts), [1, 1]);
        // Who was woken for some still waits for the rest.
        let mut woken = Vec::new();
        waiters.take_before(Lsn(21), &mut woken);
        assert_eq!(wake(woken, &counts), [1, 2]);
    }
}
