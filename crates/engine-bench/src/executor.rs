//! A reactor: runs futures on the calling thread until all are done.
//!
//! Whoever wakes a future puts its number on a list, and unparks the thread only if the list was
//! empty: a commit that acknowledges many appends costs one wake-up.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// What the reactor and the wakers share.
struct Ready {
    list: Mutex<Vec<usize>>,
    thread: Thread,
}

/// Wakes one future.
struct Task {
    index: usize,
    ready: Arc<Ready>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let was_empty = {
            let mut list = self.ready.lock();
            list.push(self.index);
            list.len() == 1
        };
        if was_empty {
            self.ready.thread.unpark();
        }
    }
}

impl Ready {
    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs futures until all are done.
pub fn run<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut futures: Vec<Option<Pin<Box<F>>>> =
        futures.map(|future| Some(Box::pin(future))).collect();
    let mut left = futures.len();
    let all = (0..left).collect();
    let ready = Arc::new(Ready { list: Mutex::new(all), thread: std::thread::current() });
    let task = |index| Waker::from(Arc::new(Task { index, ready: Arc::clone(&ready) }));
    let wakers: Vec<Waker> = (0..left).map(task).collect();
    let mut turn = Vec::new();
    while left > 0 {
        std::mem::swap(&mut turn, &mut *ready.lock());
        if turn.is_empty() {
            std::thread::park();
        }
        for index in turn.drain(..) {
            // A future that is done may be woken once more.
            let Some(future) = futures[index].as_mut() else { continue };
            let polled = future.as_mut().poll(&mut Context::from_waker(&wakers[index]));
            if polled == Poll::Ready(()) {
                futures[index] = None;
                left -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn futures_woken_from_other_threads_all_come_to_their_end() {
        let steps = Cell::new(0);
        let count = &steps;
        run((0..50).map(|index| async move {
            for round in 0..20 {
                let mut is_first = true;
                std::future::poll_fn(|context| {
                    if !std::mem::replace(&mut is_first, false) {
                        return Poll::Ready(());
                    }
                    let waker = context.waker().clone();
                    if (index + round) % 2 == 0 {
                        waker.wake();
                    } else {
                        std::thread::spawn(move || waker.wake());
                    }
                    Poll::Pending
                })
                .await;
                count.set(count.get() + 1);
            }
        }));
        assert_eq!(steps.get(), 1000);
        run(std::iter::empty::<std::future::Ready<()>>());
    }
}
