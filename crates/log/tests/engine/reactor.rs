//! Tasks of one thread that wait for commits: gathered, woken once, and never left behind.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use highwater_disk::Clock;
use highwater_disk::sim::{Fault, OperationKind, SimClock, SimRng};
use highwater_log::error::{LogError, LogResult};
use highwater_log::lane::commit::Ticket;
use highwater_log::lane::reactor::{Attend, attend};
use highwater_log::options::Options;
use highwater_log::{Driver, Log, Machine};

use super::hooked::{Hooked, Moment};
use super::support::{append, create, disk, machine, open, read_all, small};

/// A task that counts how often it is woken.
struct Task(Arc<AtomicU64>, Waker);

struct Count(Arc<AtomicU64>, Option<Sender<()>>);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        if let Some(bell) = &self.1 {
            bell.send(()).ok();
        }
    }
}

impl Task {
    fn new() -> Self {
        Self::ringing(None)
    }

    fn ringing(bell: Option<Sender<()>>) -> Self {
        let count = Arc::new(AtomicU64::new(0));
        Self(Arc::clone(&count), Waker::from(Arc::new(Count(count, bell))))
    }

    fn woken(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn poll<T>(&self, future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
        Pin::new(future).poll(&mut Context::from_waker(&self.1))
    }
}

/// For an executor that has no events to look for.
fn at_once(context: &mut Context<'_>) {
    context.waker().wake_by_ref();
}

fn poll_attend(task: &Task, attend: &mut Attend) {
    let polled: Poll<Infallible> = task.poll(attend);
    assert!(polled.is_pending());
}

/// Stages appends and polls their tickets once, each by a task of its own.
fn wait_for(log: &Log, count: usize) -> Vec<(Task, Ticket<highwater_log::request::Appended>)> {
    let ask = |_| {
        let (task, mut ticket) = (Task::new(), append(log, "a", b"x").unwrap());
        assert!(task.poll(&mut ticket).is_pending());
        (task, ticket)
    };
    (0..count).map(ask).collect()
}

fn is_done<T: Unpin>(task: &Task, ticket: &mut Ticket<T>) -> bool {
    matches!(task.poll(ticket), Poll::Ready(LogResult::Ok(_)))
}

#[test]
fn tasks_of_one_thread_are_acknowledged_by_one_commit_that_the_thread_makes_itself() {
    let log = open(&disk(1), &small()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    let (reactor, mut attends) = (Task::new(), attend(at_once));
    poll_attend(&reactor, &mut attends);
    let commits = || log.metrics().remove(0).commits.commits;
    let before = commits();
    let mut waiting = wait_for(&log, 10);
    assert_eq!(reactor.woken(), 1, "called once for all of them");
    assert_eq!(commits(), before, "and nothing is committed before they are all there");
    poll_attend(&reactor, &mut attends);
    assert_eq!(commits(), before + 1);
    for (task, ticket) in &mut waiting {
        assert_eq!(task.woken(), 1);
        assert!(is_done(task, ticket));
    }
    assert_eq!(read_all(&log, "a").unwrap().len(), 10);
}

/// What a barrier takes in the tests of looking for more.
const BARRIER: Duration = Duration::from_micros(100);

/// A log whose barriers take a while by its clock.
fn open_timed(seed: u64) -> (Log, SimClock) {
    let clock = SimClock::new();
    let passes = clock.clone();
    let hook = move |moment, kind, _: &str| {
        if kind == OperationKind::SyncData && moment == Moment::After {
            passes.advance(BARRIER);
        }
    };
    let disk = Arc::new(Hooked::new(&disk(seed), hook));
    let log = Log::open(machine(disk, &clock, 7), &small(), Driver::Caller).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    (log, clock)
}

#[test]
fn as_long_as_more_tasks_come_they_get_into_the_same_commit() {
    let (log, _) = open_timed(10);
    let (reactor, mut attends) = (Task::new(), attend(at_once));
    poll_attend(&reactor, &mut attends);
    let commits = || log.metrics().remove(0).commits.commits;
    let before = commits();
    let mut waiting = Vec::new();
    for round in 1..=3 {
        waiting.extend(wait_for(&log, 2));
        let woken = reactor.woken();
        poll_attend(&reactor, &mut attends);
        assert_eq!(reactor.woken(), woken + 1, "it looks again after round {round}");
        assert_eq!(commits(), before);
    }
    // Nobody has come since.
    poll_attend(&reactor, &mut attends);
    assert_eq!(commits(), before + 1);
    assert!(waiting.iter_mut().all(|(task, ticket)| is_done(task, ticket)));
}

#[test]
fn nobody_waits_for_others_longer_than_for_two_commits_however_many_come() {
    let (log, clock) = open_timed(11);
    let (reactor, mut attends) = (Task::new(), attend(at_once));
    poll_attend(&reactor, &mut attends);
    let commits = || log.metrics().remove(0).commits.commits;
    let before = commits();
    let mut waiting = wait_for(&log, 1);
    for _ in 0..2 {
        poll_attend(&reactor, &mut attends);
        assert_eq!(commits(), before, "less than that has passed");
        clock.advance(BARRIER);
        waiting.extend(wait_for(&log, 1));
    }
    poll_attend(&reactor, &mut attends);
    assert_eq!(commits(), before + 1);
    assert!(waiting.iter_mut().all(|(task, ticket)| is_done(task, ticket)));
}

/// A clock by which everything takes long.
#[derive(Debug, Default)]
struct Slow(AtomicU64);

impl Clock for Slow {
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(2, Ordering::SeqCst))
    }

    fn wall(&self) -> Duration {
        self.monotonic()
    }
}

#[test]
fn where_commits_take_long_the_committer_does_them_and_the_thread_is_woken_once_for_each() {
    let (bell, rung) = channel();
    let machine = Machine {
        disk: Arc::new(disk(2)),
        clock: Arc::new(Slow::default()),
        rng: Box::new(SimRng::new(7)),
    };
    let log = Log::open(machine, &small(), Driver::Threads).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    let (reactor, mut attends) = (Task::ringing(Some(bell)), attend(at_once));
    poll_attend(&reactor, &mut attends);
    let commits = || log.metrics().remove(0).commits.commits;
    for _ in 0..50 {
        let before = (reactor.woken(), commits());
        // The committer runs beside this thread: some may be acknowledged as soon as they ask.
        let mut waiting: Vec<_> = (0..8)
            .map(|_| (Task::new(), append(&log, "a", b"x").unwrap()))
            .filter_map(|(task, mut ticket)| match task.poll(&mut ticket) {
                Poll::Ready(appended) => appended.map(|_| None).unwrap(),
                Poll::Pending => Some((task, ticket)),
            })
            .collect();
        while waiting.iter().any(|(task, _)| task.woken() == 0) {
            rung.recv().unwrap();
            poll_attend(&reactor, &mut attends);
        }
        assert!(waiting.iter_mut().all(|(task, ticket)| is_done(task, ticket)));
        // Each call of the thread is followed by one look, and each look waits for one commit.
        let (woken, committed) = (reactor.woken() - before.0, commits() - before.1);
        assert!(woken <= 2 * committed + 1, "{woken} calls for {committed} commits");
    }
    assert_eq!(read_all(&log, "a").unwrap().len(), 400);
}

/// Barriers of commits, each of which waits for the test.
struct Held {
    entered: Receiver<()>,
    go_on: Sender<()>,
}

/// A log whose commits are held from when it is open.
fn open_held(seed: u64) -> (Log, Held) {
    let (enter, entered) = channel();
    let (go_on, goes_on) = channel::<()>();
    let holds = Arc::new(AtomicBool::new(false));
    let (is_on, goes_on) = (Arc::clone(&holds), Mutex::new(goes_on));
    let hook = move |moment, kind, _: &str| {
        let is_barrier = kind == OperationKind::SyncData && moment == Moment::Before;
        // Not those of new segments, which another thread makes ready.
        let is_commit = std::thread::current().name() == Some("commit-0");
        if is_barrier && is_commit && is_on.load(Ordering::SeqCst) {
            enter.send(()).ok();
            goes_on.lock().unwrap().recv().ok();
        }
    };
    let machine = Machine {
        disk: Arc::new(Hooked::new(&disk(seed), hook)),
        clock: Arc::new(SimClock::new()),
        rng: Box::new(SimRng::new(seed)),
    };
    // No commit but those that are asked for.
    let options = Options { witness_after: Duration::from_secs(3600), ..small() };
    let log = Log::open(machine, &options, Driver::Threads).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    holds.store(true, Ordering::SeqCst);
    // From its first commit on the committer is there to be called.
    let commits = || log.metrics().remove(0).commits.commits;
    let before = commits();
    drop(append(&log, "a", b"x").unwrap());
    entered.recv().unwrap();
    go_on.send(()).unwrap();
    while commits() == before {
        std::thread::yield_now();
    }
    (log, Held { entered, go_on })
}

#[test]
fn what_is_staged_during_a_barrier_is_committed_with_what_those_stage_who_are_acknowledged() {
    let (log, held) = open_held(8);
    let (bell, rung) = channel();
    let (reactor, mut attends) = (Task::ringing(Some(bell)), attend(at_once));
    poll_attend(&reactor, &mut attends);
    let commits = || log.metrics().remove(0).commits.commits;
    let before = commits();
    let poll_when_woken = |attends: &mut Attend| {
        rung.recv().unwrap();
        poll_attend(&reactor, attends);
    };
    let mut first = wait_for(&log, 5);
    poll_when_woken(&mut attends);
    // The thread is not held: it goes on while another one waits for the barrier.
    held.entered.recv().unwrap();
    let mut second = wait_for(&log, 3);
    poll_when_woken(&mut attends);
    held.go_on.send(()).unwrap();
    poll_when_woken(&mut attends);
    assert!(first.iter_mut().all(|(task, ticket)| task.woken() == 1 && is_done(task, ticket)));
    second.extend(wait_for(&log, 4));
    assert_eq!(commits(), before + 1, "nobody has asked for what is staged since");
    poll_when_woken(&mut attends);
    held.entered.recv().unwrap();
    held.go_on.send(()).unwrap();
    poll_when_woken(&mut attends);
    assert!(second.iter_mut().all(|(task, ticket)| task.woken() == 1 && is_done(task, ticket)));
    assert_eq!(commits(), before + 2, "one commit for all of them");
    // Whatever closing the log has to do is not held.
    drop(held);
}

#[test]
fn a_failed_barrier_reaches_every_task_that_waits() {
    let disk = disk(3);
    let log = open(&disk, &small()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    let (reactor, mut attends) = (Task::new(), attend(at_once));
    poll_attend(&reactor, &mut attends);
    let mut waiting = wait_for(&log, 5);
    disk.fail_next(OperationKind::SyncData, 1, Fault::FailedBarrierDropsPages);
    poll_attend(&reactor, &mut attends);
    for (task, ticket) in &mut waiting {
        assert!(task.woken() > 0, "I10: nobody waits for what does not come");
        assert!(matches!(task.poll(ticket), Poll::Ready(Err(LogError::Poisoned(_)))));
    }
}

#[test]
fn when_nobody_attends_any_more_tasks_wait_for_the_lane_itself() {
    let log = open(&disk(4), &small()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    let (reactor, mut attends) = (Task::new(), attend(at_once));
    poll_attend(&reactor, &mut attends);
    let mut waiting = wait_for(&log, 3);
    drop(attends);
    for (task, ticket) in &mut waiting {
        assert_eq!(task.woken(), 1);
        assert!(task.poll(ticket).is_pending());
    }
    log.step();
    for (task, ticket) in &mut waiting {
        assert_eq!(task.woken(), 2);
        assert!(is_done(task, ticket));
    }
}

#[test]
fn a_task_that_is_woken_for_something_else_and_asks_again_is_still_acknowledged() {
    let log = open(&disk(5), &small()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    let (reactor, mut attends) = (Task::new(), attend(at_once));
    poll_attend(&reactor, &mut attends);
    let (task, mut ticket) = wait_for(&log, 1).remove(0);
    let other = Task::new();
    assert!(other.poll(&mut ticket).is_pending());
    poll_attend(&reactor, &mut attends);
    assert_eq!((task.woken(), other.woken()), (1, 1));
    assert!(is_done(&other, &mut ticket));
}

#[test]
fn a_log_that_is_closed_is_not_kept_by_who_attends() {
    let disk = disk(6);
    let (reactor, mut attends) = (Task::new(), attend(at_once));
    poll_attend(&reactor, &mut attends);
    for _ in 0..3 {
        let log = open(&disk, &small()).unwrap();
        create(&log, "a").unwrap().wait().unwrap();
        drop(wait_for(&log, 2));
        drop(log);
        // Tickets that were dropped leave nobody behind, and the next log gets its lock.
        poll_attend(&reactor, &mut attends);
    }
}
