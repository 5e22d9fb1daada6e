//! Tickets: promises of an acknowledgement, waited for by threads and by tasks.
//!
//! On an idle lane a thread commits itself: that saves two hand-overs, worth half a commit. Threads
//! do not on a busy lane: they have the committer called. Tasks leave it to whoever attends to them
//! ([`super::reactor`]), or have the committer called.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use super::waiters::Waiter;
use super::{Committer, Haste, Lane, State, Wanted, reactor};
use crate::error::LogResult;
use crate::ids::Lsn;
use crate::sync::{MutexGuard, thread};

/// Longest time that the last commit may have taken for a thread with other tasks to commit itself.
const AT_ONCE_WITHIN: Duration = Duration::from_millis(1);
/// Most tasks of a thread that it commits for itself: where more wait, others have something to do
/// during the barrier (docs/decisions/0014-the-thread-of-tasks-commits.md).
const FEW_TASKS: usize = 4;

/// A promise of an acknowledgement.
#[derive(Debug)]
#[must_use = "an operation is acknowledged when its ticket is done"]
pub struct Ticket<T> {
    lane: Arc<Lane>,
    /// Done when the log is durable beyond this.
    at: Lsn,
    value: Option<T>,
    /// Whether it was polled before.
    has_asked: bool,
    until: Until,
}

/// What a ticket waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Until the operation may be acknowledged.
    Acknowledged,
    /// Until it can be seen, in `Relaxed` too.
    Visible,
}

impl<T> Ticket<T> {
    pub(super) fn new(lane: &Arc<Lane>, at: Lsn, value: T) -> Self {
        let (lane, value) = (Arc::clone(lane), Some(value));
        Self { lane, at, value, has_asked: false, until: Until::Acknowledged }
    }

    /// One that is done when readers see what it is for.
    pub(super) fn until_visible(lane: &Arc<Lane>, at: Lsn, value: T) -> Self {
        let mut ticket = Self::new(lane, at, value);
        ticket.until = Until::Visible;
        ticket
    }

    /// Waits until the operation is as durable as the log promises, and gives its answer.
    ///
    /// # Errors
    /// [`crate::error::LogError::Poisoned`] when a write or barrier failed before.
    pub fn wait(mut self) -> LogResult<T> {
        let value = self.value.take().expect("a ticket is waited for once");
        self.lane.wait_for(self.at, self.until)?;
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
        let has_asked = std::mem::replace(&mut ticket.has_asked, true);
        let lane = &ticket.lane;
        let is_relaxed = lane.relaxed_within().is_some();
        // Whether the lane has failed is asked only when somebody is woken: staging has just asked.
        if !has_asked
            && !is_relaxed
            && !lane.is_acked(ticket.at)
            && reactor::gather(lane, ticket.at, context.waker())
        {
            return Poll::Pending;
        }
        match lane.poll_for(ticket.at, ticket.until, context) {
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
    fn wait_for(&self, at: Lsn, until: Until) -> LogResult<()> {
        if self.relaxed_within().is_some() {
            self.kick();
            let mut state = self.lock();
            if until == Until::Acknowledged && self.may_acknowledge(&state, at) {
                return state.check_healthy();
            }
            self.hurry(&mut state);
        }
        while !self.is_acked(at) {
            let mut state = self.lock();
            if self.is_done(&state, at, until) {
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

    /// Whether what begins at a position need not be waited for any more.
    fn is_done(&self, state: &State, at: Lsn, until: Until) -> bool {
        match until {
            Until::Acknowledged => self.may_acknowledge(state, at),
            Until::Visible => at < state.durable,
        }
    }

    /// Has what is staged committed at once, where that would be put off.
    pub(super) fn hurry(&self, state: &mut State) {
        if self.relaxed_within().is_some() && !state.staging.is_empty() {
            state.haste = Haste::AtOnce;
            state.wanted = Wanted::Yes;
            self.work.notify_all();
        }
    }

    /// Has what is staged committed at once, where that would be put off.
    pub(crate) fn hasten(&self) {
        if self.relaxed_within().is_some() {
            let mut state = self.lock();
            self.hurry(&mut state);
            self.call_committer(state);
        }
    }

    fn poll_for(
        self: &Arc<Self>,
        at: Lsn,
        until: Until,
        context: &Context<'_>,
    ) -> Poll<LogResult<()>> {
        if self.is_acked(at) {
            return Poll::Ready(Ok(()));
        }
        let mut state = self.lock();
        let answer = if self.is_done(&state, at, until) {
            // What is durable stays so, whatever failed since.
            let is_durable = state.durable > at;
            Poll::Ready(if is_durable { Ok(()) } else { state.check_healthy() })
        } else if let Err(error) = state.check_healthy() {
            Poll::Ready(Err(error))
        } else if self.relaxed_within().is_none() && reactor::gather(self, at, context.waker()) {
            return Poll::Pending;
        } else {
            state.waiters.add(at, Waiter::Task(context.waker().clone()));
            self.hurry(&mut state);
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
    pub(super) fn call_committer(&self, mut state: MutexGuard<'_, State>) {
        if !state.staging.is_empty() {
            state.wanted = Wanted::Yes;
        }
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

impl State {
    /// Whether there is something for the committer to do.
    pub(super) fn is_due(&self) -> bool {
        (self.wanted == Wanted::Yes || self.is_stopping) && !self.staging.is_empty()
    }

    /// Whether whoever attends to a thread's tasks commits for them: nobody else is at it, and a
    /// commit takes about as long as handing it over.
    pub(super) fn is_worth_committing_at_once(&self, at: Lsn, tasks: usize) -> bool {
        let is_quicker = self.last_took < AT_ONCE_WITHIN && tasks <= FEW_TASKS;
        self.durable <= at
            && !self.is_committing
            && (is_quicker || self.committer == Committer::Absent)
    }
}
