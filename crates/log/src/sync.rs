//! What threads of a lane share: the standard library's or, compiled with `--cfg loom`, that of
//! loom, which runs a model through every order that its threads may fall into (`lane/models`).
//!
//! Only what decides the order of commit, acknowledgement and wake-up comes from here. What is kept
//! behind other locks is one step to the models, as the simulated disk is.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU64;
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::AtomicU64;
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

/// Threads.
pub(crate) mod thread {
    #[cfg(loom)]
    pub(crate) use loom::thread::{Thread, current, park, yield_now};
    #[cfg(not(loom))]
    pub(crate) use std::thread::{Thread, current, park, yield_now};
}
