//! A thread that stops before its calls to the disk, until whoever drives it lets it go on.
//!
//! Only one of all the threads of a history runs at a time, so that its course depends on nothing
//! but the driver's choices.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender};

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// Without a lane's lock.
    Nothing,
    /// With one, it may be.
    Lock,
}

/// A thread's ends of what it has in common with its driver.
pub(crate) struct Leash {
    /// Tells where it stops.
    pub(crate) stopped: Sender<String>,
    /// Lets it go on.
    pub(crate) go: Receiver<()>,
}

thread_local! {
    static LEASH: RefCell<Option<Leash>> = const { RefCell::new(None) };
}

/// Puts this thread on a leash.
pub(crate) fn follow(leash: Leash) {
    LEASH.with(|own| *own.borrow_mut() = Some(leash));
}

/// Takes this thread off its leash: whoever drove it hears that it does not stop again.
pub(crate) fn leave() {
    LEASH.with(|own| *own.borrow_mut() = None);
}

/// Stops, if this thread is on a leash.
pub(crate) fn at(path: &str, held: Held) {
    LEASH.with(|own| {
        if let Some(leash) = &*own.borrow()
            && held == Held::Nothing
            // Nobody drives it any more: it runs to its end.
            && leash.stopped.send(path.to_owned()).is_ok()
        {
            leash.go.recv().ok();
        }
    });
}
