//! Tasks of one thread that wait for commits, gathered: the thread is woken once for a commit,
//! however many of its tasks wait for it, and no lock is taken for each of them.
//!
//! [`attend`] is a task of its own on an executor that runs all its tasks on one thread. Others
//! that poll a ticket there leave their waker and call it; it runs behind all of those that are
//! ready now, so that their records are in one commit. Where few wait and commits are quick it
//! commits itself: handing over to the committer and back costs more than the thread could do
//! meanwhile. Otherwise the committer is called, which leaves the thread to what else there is to
//! do; and what is staged during a commit is committed together with what those stage who are
//! acknowledged by it (docs/decisions/0014-the-thread-of-tasks-commits.md).

use std::cell::RefCell;
use std::convert::Infallible;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;

use super::waiters::{Waiter, Waiters};
use super::{Committer, Lane, State};
use crate::ids::Lsn;
use crate::sync::MutexGuard;

thread_local! {
    static HERE: RefCell<Option<Reactor>> = const { RefCell::new(None) };
}

/// What waits on this thread.
#[derive(Debug)]
struct Reactor {
    /// The task that attends.
    task: Waker,
    is_called: bool,
    lanes: Vec<Waiting>,
}

/// Tasks that wait for one lane. It is not kept open by them: their tickets do that.
#[derive(Debug)]
struct Waiting {
    lane: Weak<Lane>,
    tasks: Waiters,
    /// What the lane was asked to wake this thread for last.
    asked: Option<Lsn>,
}

/// What is left to wait for on a lane.
struct Left {
    lane: Arc<Lane>,
    /// The lowest position; none where nobody waits any more.
    first: Option<Lsn>,
    tasks: usize,
    asked: Option<Lsn>,
}

/// What became of a lane's tasks.
enum Seen {
    /// Some may be acknowledged.
    Acknowledged,
    /// Nobody can wait any more: the lane has failed.
    Failed,
    /// The thread is woken for them.
    Asked(Lsn),
}

/// Gathers the tasks that wait for commits on this thread, as long as it is polled there; never
/// done. For executors that run all their tasks on one thread.
pub fn attend() -> Attend {
    Attend { thread: None }
}

/// The task of [`attend`].
#[derive(Debug)]
pub struct Attend {
    /// Where it is polled.
    thread: Option<ThreadId>,
}

impl Future for Attend {
    type Output = Infallible;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Infallible> {
        let here = std::thread::current().id();
        let home = *self.get_mut().thread.get_or_insert(here);
        assert_eq!(home, here, "whoever attends to a thread's tasks runs on that thread");
        HERE.with_borrow_mut(|here| {
            let task = context.waker().clone();
            let lanes = here.take().map_or_else(Vec::new, |before| before.lanes);
            *here = Some(Reactor { task, is_called: false, lanes });
        });
        let mut woken = Vec::new();
        let mut at = 0;
        let mut comes_again = false;
        loop {
            let before = woken.len();
            let Some(left) = take_acknowledged(at, &mut woken) else { break };
            let Some(first) = left.first else {
                at += 1;
                continue;
            };
            if woken.len() > before && left.asked.is_some() {
                // What they do next belongs into the next commit, with what was staged meanwhile.
                comes_again = true;
                at += 1;
                continue;
            }
            match left.lane.see_to(first, &left, context.waker()) {
                Seen::Acknowledged => note_asked(at, None),
                Seen::Failed => {
                    // They ask again, and hear why.
                    take_all(&left.lane, &mut woken);
                    at += 1;
                }
                Seen::Asked(first) => {
                    note_asked(at, Some(first));
                    at += 1;
                }
            }
        }
        woken.into_iter().for_each(Waiter::wake);
        if comes_again {
            // Behind them.
            call();
        }
        Poll::Pending
    }
}

impl Drop for Attend {
    fn drop(&mut self) {
        if self.thread != Some(std::thread::current().id()) {
            return;
        }
        // Whoever waits asks the lane itself from now on. While a thread ends there is nobody.
        let left = HERE.try_with(RefCell::take).ok().flatten();
        let mut woken = Vec::new();
        for mut waiting in left.into_iter().flat_map(|reactor| reactor.lanes) {
            waiting.tasks.take_all(&mut woken);
        }
        woken.into_iter().for_each(Waiter::wake);
    }
}

/// Takes out the tasks of the lane at a place that need not wait any more; gives the lane, and the
/// lowest position that is still waited for. Nothing behind the last lane.
fn take_acknowledged(at: usize, woken: &mut Vec<Waiter>) -> Option<Left> {
    HERE.with_borrow_mut(|here| {
        let lanes = &mut here.as_mut()?.lanes;
        while let Some(waiting) = lanes.get_mut(at) {
            if let Some(lane) = waiting.lane.upgrade() {
                waiting.tasks.take_before(Lsn(lane.acked.load(Ordering::Acquire)), woken);
                let (first, tasks) = (waiting.tasks.first(), waiting.tasks.count());
                return Some(Left { lane, first, tasks, asked: waiting.asked });
            }
            // No ticket is left, so nobody waits.
            lanes.remove(at);
        }
        None
    })
}

/// Has a task woken when a lane is durable beyond a position; gives false where nobody attends.
pub(super) fn gather(lane: &Arc<Lane>, at: Lsn, task: &Waker) -> bool {
    HERE.with_borrow_mut(|here| {
        let Some(reactor) = here else { return false };
        let is_its = |waiting: &Waiting| std::ptr::eq(waiting.lane.as_ptr(), Arc::as_ptr(lane));
        let place = reactor.lanes.iter().position(is_its).unwrap_or_else(|| {
            let waiting =
                Waiting { lane: Arc::downgrade(lane), tasks: Waiters::default(), asked: None };
            reactor.lanes.push(waiting);
            reactor.lanes.len() - 1
        });
        reactor.lanes[place].tasks.add(at, Waiter::Task(task.clone()));
        reactor.call();
        true
    })
}

/// Calls the task that attends on this thread.
fn call() {
    HERE.with_borrow_mut(|here| here.as_mut().map(Reactor::call));
}

/// Notes what a lane was asked to wake this thread for.
fn note_asked(at: usize, asked: Option<Lsn>) {
    HERE.with_borrow_mut(|here| {
        if let Some(waiting) = here.as_mut().and_then(|reactor| reactor.lanes.get_mut(at)) {
            waiting.asked = asked;
        }
    });
}

impl Reactor {
    /// Has the task that attends polled, behind all that is ready now.
    fn call(&mut self) {
        if !mem::replace(&mut self.is_called, true) {
            self.task.wake_by_ref();
        }
    }
}

/// Takes out everybody who waits for a lane.
fn take_all(lane: &Lane, woken: &mut Vec<Waiter>) {
    HERE.with_borrow_mut(|here| {
        let lanes = here.iter_mut().flat_map(|reactor| &mut reactor.lanes);
        for waiting in lanes.filter(|waiting| std::ptr::eq(waiting.lane.as_ptr(), lane)) {
            waiting.tasks.take_all(woken);
        }
    });
}

impl Lane {
    /// Sees to it that what is staged is committed, and that the task that attends is woken then.
    fn see_to(&self, first: Lsn, left: &Left, task: &Waker) -> Seen {
        let mut state = self.lock();
        if state.check_healthy().is_err() {
            return Seen::Failed;
        }
        if state.acknowledged() > first {
            self.acked.fetch_max(state.acknowledged().0, Ordering::Release);
            return Seen::Acknowledged;
        }
        if let Some(asked) = left.asked
            && asked <= first
            && state.acknowledged() <= asked
        {
            // Who waits for a checkpoint is not woken by the commits that others need.
            if state.held.from <= asked {
                self.have_committed(state);
            }
            return Seen::Asked(asked);
        }
        if state.is_worth_committing_at_once(first, left.tasks) {
            drop(state);
            // Somebody else may have been quicker: then there is something to wait for.
            self.commit_step();
            return Seen::Acknowledged;
        }
        state.waiters.add(first, Waiter::Task(task.clone()));
        self.call_committer(state);
        Seen::Asked(first)
    }

    /// Has what is staged committed: here, where there is no committer.
    fn have_committed(&self, state: MutexGuard<'_, State>) {
        if state.committer == Committer::Absent {
            drop(state);
            self.commit_step();
        } else {
            self.call_committer(state);
        }
    }
}
