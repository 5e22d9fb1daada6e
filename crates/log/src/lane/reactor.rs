//! Tasks of one thread that wait for commits, gathered: the thread is woken once for a commit,
//! however many of its tasks wait for it, and no lock is taken for each of them.
//!
//! [`attend`] is a task of its own on an executor that runs all its tasks on one thread. Others
//! that poll a ticket there leave their waker and call it; it runs behind all of those that are
//! ready now, so that their records are in one commit. Where few wait and commits are quick it
//! commits itself: handing over to the committer and back costs more than the thread could do
//! meanwhile. Otherwise the committer is called, which leaves the thread to what else there is to
//! do; and what is staged during a commit is committed together with what those stage who are
//! acknowledged by it (docs/decisions/0014-the-thread-of-tasks-commits.md). As long as more tasks
//! come to wait each time that it looks, and for a short time only, it lets the executor look for
//! further ones first (docs/decisions/0021-a-thread-looks-for-more-before-it-commits.md).

use std::cell::RefCell;
use std::convert::Infallible;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::thread::ThreadId;
use std::time::Duration;

use super::waiters::{Waiter, Waiters};
use super::{Committer, Lane, State};
use crate::ids::Lsn;
use crate::sync::MutexGuard;

/// Longest time that a record waits for others before its commit is asked for, and at most twice
/// what the last commit took: to wait longer than for the disk saves nobody anything.
const GATHERS_WITHIN: Duration = Duration::from_micros(300);

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
    /// How many there were when it was looked last.
    seen: usize,
}

/// What is left to wait for on a lane.
struct Left {
    lane: Arc<Lane>,
    /// The lowest position; none where nobody waits any more.
    first: Option<Lsn>,
    tasks: usize,
    asked: Option<Lsn>,
    /// Whether there are more than at the last look.
    grows: bool,
}

/// What became of a lane's tasks.
enum Seen {
    /// Some may be acknowledged.
    Acknowledged,
    /// Nobody can wait any more: the lane has failed.
    Failed,
    /// The thread is woken for them.
    Asked(Lsn),
    /// Others may come that belong into the same commit.
    Growing,
}

/// Has a task polled again when its executor has looked for what else has become ready, and has
/// polled that: behind it, and soon.
pub type Later = fn(&mut Context<'_>);

/// Gathers the tasks that wait for commits on this thread, as long as it is polled there; never
/// done. For executors that run all their tasks on one thread.
pub fn attend(later: Later) -> Attend {
    Attend { thread: None, later }
}

/// The task of [`attend`].
#[derive(Debug)]
pub struct Attend {
    /// Where it is polled.
    thread: Option<ThreadId>,
    later: Later,
}

impl Future for Attend {
    type Output = Infallible;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Infallible> {
        let here = std::thread::current().id();
        let attend = self.get_mut();
        let home = *attend.thread.get_or_insert(here);
        assert_eq!(home, here, "whoever attends to a thread's tasks runs on that thread");
        HERE.with_borrow_mut(|here| {
            let task = context.waker().clone();
            let lanes = here.take().map_or_else(Vec::new, |before| before.lanes);
            *here = Some(Reactor { task, is_called: false, lanes });
        });
        let mut woken = Vec::new();
        let mut at = 0;
        let (mut comes_again, mut is_growing) = (false, false);
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
                Seen::Growing => {
                    is_growing = true;
                    at += 1;
                }
            }
        }
        woken.into_iter().for_each(Waiter::wake);
        if comes_again {
            // Behind them.
            call();
        }
        if is_growing {
            (attend.later)(context);
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
                let grows = tasks > mem::replace(&mut waiting.seen, tasks);
                return Some(Left { lane, first, tasks, asked: waiting.asked, grows });
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
            reactor.lanes.push(Waiting {
                lane: Arc::downgrade(lane),
                tasks: Waiters::default(),
                asked: None,
                seen: 0,
            });
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
        if left.grows && !state.is_committing && self.may_gather(&state) {
            return Seen::Growing;
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

    /// Whether what is staged can wait for others yet.
    fn may_gather(&self, state: &State) -> bool {
        let waits = self.clock.monotonic().saturating_sub(state.waiting_since);
        waits < GATHERS_WITHIN.min(state.last_took * 2)
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
