//! Tickets: promises of an acknowledgement, waited for by threads and by tasks.
//!
//! On an idle lane a thread commits itself: that saves two hand-overs, worth half a commit. Tasks
//! never do, and threads do not on a busy lane: they have the committer called.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::waiters::Waiter;
use super::{Committer, Lane, State};
use crate::error::LogResult;
use crate::ids::Lsn;
use crate::sync::{MutexGuard, thread};

/// A promise of an acknowledgement.
#[derive(Debug)]
#[must_use = "an operation is acknowledged when its ticket is done"]
pub struct Ticket<T> {
    lane: Arc<Lane>,
    /// Done when the log is durable beyond this.
    at: Lsn,
    value: Option<T>,
}

impl<T> Ticket<T> {
    pub(super) fn new(lane: &Arc<Lane>, at: Lsn, value: T) -> Self {
        Self { lane: Arc::clone(lane), at, value: Some(value) }
    }

    /// Waits until the operation is as durable as the log promises, and gives its answer.
    ///
    /// # Errors
    /// [`crate::error::LogError::Poisoned`] when a write or barrier failed before.
    pub fn wait(mut self) -> LogResult<T> {
        let value = self.value.take().expect("a ticket is waited for once");
        self.lane.wait_for(self.at)?;
        Ok(value)
    }
}

impl<T> Ticket<T> {
    /// Whether the answer to come fulfils a condition.
    pub(crate) fn is(&self, condition: impl FnOnce(&T) -> bool) -> bool {
        self.value.as_ref().is_some_and(condition)
    }
}

impl<T: Unpin> Future for Ticket<T> {
    type Output = LogResult<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.get_mut();
        match ticket.lane.poll_for(ticket.at, context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                let value = ticket.value.take().expect("a ticket is not polled after it was done");
                Poll::Ready(Ok(value))
            }
        }
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        // Whoever walks away leaves the work to the committer: the record is staged, and readers
        // wait for it.
        if self.value.is_some() {
            self.lane.kick();
        }
    }
}

impl Lane {
    /// Whether what begins at a position may be acknowledged, as far as that is known without the
    /// lock: never wrongly.
    fn is_acked(&self, at: Lsn) -> bool {
        at.0 < self.acked.load(Ordering::Acquire)
    }

    /// Waits until the log is durable beyond a position, committing itself if nobody does.
    fn wait_for(&self, at: Lsn) -> LogResult<()> {
        if self.relaxed_within().is_some() {
            self.kick();
            let state = self.lock();
            if self.may_acknowledge(&state, at) {
                return state.check_healthy();
            }
        }
        while !self.is_acked(at) {
            let mut state = self.lock();
            if self.may_acknowledge(&state, at) {
                return Ok(());
            }
            state.check_healthy()?;
            if planted!(self.options, JoinedLate) {
                drop(state);
                state = self.lock();
            }
            // Who is durable and still waits, waits for a checkpoint.
            if state.durable > at {
                state.waiters.add(at, Waiter::Thread(thread::current()));
                drop(state);
                thread::park();
            } else if state.is_committing || self.is_busy(&state) {
                let (gate, is_lower) = state.gates.join(at);
                if is_lower {
                    state.waiters.add(at, Waiter::Gate(Arc::clone(&gate)));
                }
                self.call_committer(state);
                gate.wait();
            } else {
                drop(state);
                self.commit_step();
            }
        }
        Ok(())
    }

    /// Whether a thread leaves the next commit to the committer: where several wait at once, one
    /// that commits as soon as it can commits for itself alone, and all others for the next.
    fn is_busy(&self, state: &State) -> bool {
        state.committer != Committer::Absent
            && state.last_records > 1
            && self.relaxed_within().is_none()
    }

    fn poll_for(&self, at: Lsn, context: &Context<'_>) -> Poll<LogResult<()>> {
        if self.is_acked(at) {
            return Poll::Ready(Ok(()));
        }
        let mut state = self.lock();
        let answer = if self.may_acknowledge(&state, at) {
            // What is durable stays so, whatever failed since.
            let is_durable = state.durable > at;
            Poll::Ready(if is_durable { Ok(()) } else { state.check_healthy() })
        } else if let Err(error) = state.check_healthy() {
            Poll::Ready(Err(error))
        } else {
            state.waiters.add(at, Waiter::Task(context.waker().clone()));
            Poll::Pending
        };
        self.call_committer(state);
        answer
    }

    /// Tells the committer that something is staged that nobody waits for.
    pub(super) fn kick(&self) {
        self.call_committer(self.lock());
    }

    /// Calls the committer if something is staged, nobody is at it, and it has not been called.
    fn call_committer(&self, mut state: MutexGuard<'_, State>) {
        let calls = state.committer == Committer::Waiting
            && !state.is_committing
            && !state.staging.is_empty();
        if calls {
            state.committer = Committer::Awake;
        }
        drop(state);
        if calls {
            self.work.notify_one();
        }
    }
}
