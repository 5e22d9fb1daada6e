//! Wake-ups of tasks on other threads, handed over a thread at a time.
//!
//! To wake a task of another thread takes a lock of its executor and a call of the system, each
//! time. [`relay`] is a task of its own on an executor that runs all its tasks on one thread:
//! whoever wakes many tasks there hands it their wakers, and it wakes them on their thread, where
//! that costs next to nothing. On other executors tasks are woken as ever.

use std::cell::RefCell;
use std::convert::Infallible;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;

thread_local! {
    static HERE: RefCell<Option<Arc<Inbox>>> = const { RefCell::new(None) };
}

/// Wakes tasks of this thread for others, as long as it is polled there; never done. For executors
/// that run all their tasks on one thread.
pub fn relay() -> Relay {
    Relay { thread: None, inbox: Arc::default() }
}

/// The task of [`relay`].
#[derive(Debug)]
pub struct Relay {
    /// Where it is polled.
    thread: Option<ThreadId>,
    inbox: Arc<Inbox>,
}

/// A task that waits on a thread.
#[derive(Debug)]
pub(super) struct Waiting {
    waker: Waker,
    inbox: Option<Arc<Inbox>>,
}

/// What is to be woken on a thread.
#[derive(Debug, Default)]
struct Inbox {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The task that relays, as long as there is one.
    task: Option<Waker>,
    woken: Vec<Waker>,
}

impl Future for Relay {
    type Output = Infallible;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Infallible> {
        let this = self.get_mut();
        let here = std::thread::current().id();
        let home = *this.thread.get_or_insert(here);
        assert_eq!(home, here, "whoever wakes a thread's tasks runs on that thread");
        HERE.set(Some(Arc::clone(&this.inbox)));
        let mut state = this.inbox.lock();
        state.task = Some(context.waker().clone());
        let woken = mem::take(&mut state.woken);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if self.thread == Some(std::thread::current().id()) {
            // While a thread ends there may be nothing left to forget.
            HERE.try_with(RefCell::take).ok();
        }
        let mut state = self.inbox.lock();
        state.task = None;
        let woken = mem::take(&mut state.woken);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Waiting {
    /// Notes a task that waits on this thread.
    pub fn here(waker: &Waker) -> Self {
        let inbox = HERE.with_borrow(Clone::clone);
        Self { waker: waker.clone(), inbox }
    }
}

/// Wakes tasks: those of other threads first, since they run meanwhile.
pub(super) fn wake(woken: Vec<Waiting>) {
    let here = HERE.with_borrow(Clone::clone);
    let is_here = |inbox: &Arc<Inbox>| here.as_ref().is_some_and(|here| Arc::ptr_eq(here, inbox));
    let mut away: Vec<(Arc<Inbox>, Vec<Waker>)> = Vec::new();
    let mut rest = Vec::new();
    for Waiting { waker, inbox } in woken {
        let Some(inbox) = inbox.filter(|inbox| !is_here(inbox)) else {
            rest.push(waker);
            continue;
        };
        match away.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &inbox)) {
            Some((_, wakers)) => wakers.push(waker),
            None => away.push((inbox, vec![waker])),
        }
    }
    for (inbox, wakers) in away {
        inbox.hand_over(wakers);
    }
    rest.into_iter().for_each(Waker::wake);
}

impl Inbox {
    fn hand_over(&self, wakers: Vec<Waker>) {
        let mut state = self.lock();
        let Some(task) = state.task.clone() else {
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
            return;
        };
        let is_called = !state.woken.is_empty();
        state.woken.extend(wakers);
        drop(state);
        if !is_called {
            task.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Count {
        fn get(&self) -> u32 {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn poll(relay: &mut Relay, task: &Arc<Count>) {
        let waker = Waker::from(Arc::clone(task));
        assert!(Pin::new(relay).poll(&mut Context::from_waker(&waker)).is_pending());
    }

    /// Tasks that wait here, and what they are woken with.
    fn waiting(number: usize) -> (Vec<Arc<Count>>, Vec<Waiting>) {
        let tasks: Vec<Arc<Count>> = (0..number).map(|_| Arc::default()).collect();
        let here = |task: &Arc<Count>| Waiting::here(&Waker::from(Arc::clone(task)));
        let waiting = tasks.iter().map(here).collect();
        (tasks, waiting)
    }

    fn elsewhere(work: impl FnOnce() + Send) {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    }

    #[test]
    fn another_thread_calls_once_for_all_and_each_is_woken_on_its_own() {
        let (mut relay, called) = (relay(), Arc::new(Count::default()));
        poll(&mut relay, &called);
        let (tasks, first) = waiting(100);
        let (others, second) = waiting(1);
        elsewhere(move || wake(first));
        elsewhere(move || wake(second));
        let woken = || tasks.iter().chain(&others).filter(|task| task.get() == 1).count();
        assert_eq!((called.get(), woken()), (1, 0), "the second found the call made");
        poll(&mut relay, &called);
        assert_eq!((called.get(), woken()), (1, 101));
        let (own, third) = waiting(2);
        wake(third);
        assert_eq!((called.get(), own[0].get(), own[1].get()), (1, 1, 1), "no call to oneself");
    }

    #[test]
    fn nobody_is_forgotten_where_nobody_relays_or_whoever_did_is_gone() {
        let (tasks, without) = waiting(1);
        elsewhere(move || wake(without));
        assert_eq!(tasks[0].get(), 1);
        let (mut relay, called) = (relay(), Arc::new(Count::default()));
        poll(&mut relay, &called);
        let (tasks, under_way) = waiting(2);
        let (late, afterwards) = waiting(2);
        elsewhere(move || wake(under_way));
        drop(relay);
        elsewhere(move || wake(afterwards));
        assert!(tasks.iter().chain(&late).all(|task| task.get() == 1));
    }
}
