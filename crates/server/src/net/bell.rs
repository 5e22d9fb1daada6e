//! The waker of a connection of HTTP/1: rings for its task, but not for what it says to itself.
//!
//! hyper hands a body over to the request that reads it through a channel, and each piece that is
//! taken wakes the connection, so that it sends the next. A short body comes in one piece: behind
//! it nothing is left to send, and the connection, which is being polled at the time, would be
//! polled once more in vain for each append. The request holds the bell while it takes a piece,
//! and rings it itself where there may be more.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held::No) };
}

/// What becomes of ringing on this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    No,
    Silent,
    /// Somebody rang meanwhile.
    Rung,
}

/// Whether a bell was rung that was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rung {
    /// Nobody needs to.
    No,
    /// Whoever held it has to ring, or to know why not.
    Yes,
}

struct Bell(Waker);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if HELD.get() == Held::No {
            self.0.wake_by_ref();
        } else {
            HELD.set(Held::Rung);
        }
    }
}

/// Makes a bell that rings for a task.
pub(crate) fn new(task: &Waker) -> Waker {
    Arc::new(Bell(task.clone())).into()
}

/// Holds the bells of this thread while something takes place; others ring them as ever.
pub(crate) fn held<T>(happens: impl FnOnce() -> T) -> (T, Rung) {
    let held = Holding;
    HELD.set(Held::Silent);
    let happened = happens();
    let rung = if HELD.get() == Held::Rung { Rung::Yes } else { Rung::No };
    drop(held);
    (happened, rung)
}

/// Lets go, in a panic, too.
struct Holding;

impl Drop for Holding {
    fn drop(&mut self) {
        HELD.set(Held::No);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A task that counts how often it was woken.
    #[derive(Default)]
    pub(crate) struct Count(pub AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_bell_that_is_held_is_silent_on_its_thread_only_and_says_that_it_was_rung() {
        let count = Arc::new(Count::default());
        let rings = || count.0.load(Ordering::Relaxed);
        let bell = new(&Arc::clone(&count).into());
        bell.wake_by_ref();
        assert_eq!(rings(), 1);
        assert_eq!(held(|| 7), (7, Rung::No));
        assert_eq!(held(|| bell.wake_by_ref()), ((), Rung::Yes));
        assert_eq!(rings(), 1);
        let (joined, rung) = held(|| {
            let bell = bell.clone();
            std::thread::spawn(move || bell.wake()).join().is_ok()
        });
        assert_eq!((joined, rung, rings()), (true, Rung::No, 2));
    }

    #[test]
    fn a_bell_rings_again_behind_a_panic() {
        let count = Arc::new(Count::default());
        let bell = new(&Arc::clone(&count).into());
        let panicked = std::panic::catch_unwind(|| held(|| panic!("on purpose")));
        assert!(panicked.is_err());
        bell.wake();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }
}
