//! Who waits for the log to become durable, in the order of what they wait for.

use std::collections::VecDeque;
use std::task::Waker;
use std::thread::Thread;

use crate::ids::Lsn;

/// Somebody to wake.
#[derive(Debug)]
pub enum Waiter {
    /// A thread that parks.
    Thread(Thread),
    /// A task that is polled again.
    Task(Waker),
}

impl Waiter {
    /// Wakes.
    pub fn wake(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => waker.wake(),
        }
    }
}

/// A queue ordered by position. Most arrive in order: staging gives rising positions.
#[derive(Debug, Default)]
pub struct Waiters {
    queue: VecDeque<(Lsn, Waiter)>,
}

impl Waiters {
    /// Adds somebody who waits until everything before and at `lsn` is durable.
    pub fn add(&mut self, lsn: Lsn, waiter: Waiter) {
        let behind = self.queue.iter().rev().take_while(|(other, _)| *other > lsn).count();
        self.queue.insert(self.queue.len() - behind, (lsn, waiter));
    }

    /// Takes out everybody whose record lies before `durable`.
    pub fn take_before(&mut self, durable: Lsn, into: &mut Vec<Waiter>) {
        while self.queue.front().is_some_and(|(lsn, _)| *lsn < durable) {
            into.extend(self.queue.pop_front().map(|(_, waiter)| waiter));
        }
    }

    /// Takes out everybody.
    pub fn take_all(&mut self, into: &mut Vec<Waiter>) {
        into.extend(self.queue.drain(..).map(|(_, waiter)| waiter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;

    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn exactly_those_before_the_durable_position_are_woken_in_whatever_order_they_came() {
        let count = Arc::new(Count(AtomicU64::new(0)));
        let mut waiters = Waiters::default();
        for lsn in [10, 30, 20, 20, 5, 40] {
            waiters.add(Lsn(lsn), Waiter::Task(Arc::clone(&count).into()));
        }
        let mut woken = Vec::new();
        waiters.take_before(Lsn(20), &mut woken);
        assert_eq!(woken.len(), 2);
        waiters.take_before(Lsn(21), &mut woken);
        assert_eq!(woken.len(), 4);
        waiters.take_all(&mut woken);
        woken.into_iter().for_each(Waiter::wake);
        assert_eq!(count.0.load(Ordering::Relaxed), 6);
    }
}
