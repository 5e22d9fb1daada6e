//! Whoever waits for an acknowledgement gets an answer: threads and tasks, many at once, also when
//! the disk fails or a commit panics.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use highwater_disk::sim::{Fault, OperationKind, PlannedFault, SimClock, SimDisk, SimRng, When};
use highwater_disk::{Disk, Rng};
use highwater_log::error::LogError;
use highwater_log::options::Options;
use highwater_log::{Driver, Log, Machine};

use super::hooked::{Hooked, Moment};
use super::support::{append, create, disk, read_all, small};

fn open_with(disk: Arc<dyn Disk>, driver: Driver) -> Log {
    open_as(disk, &small(), driver)
}

fn open_as(disk: Arc<dyn Disk>, options: &Options, driver: Driver) -> Log {
    let machine = Machine {
        disk,
        clock: Arc::new(SimClock::new()),
        rng: Box::new(SimRng::new(7)) as Box<dyn Rng>,
    };
    Log::open(machine, options, driver).unwrap()
}

fn open_threads(disk: &SimDisk) -> Log {
    open_with(Arc::new(disk.clone()), Driver::Threads)
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn threads_and_tasks_that_wait_at_once_are_all_acknowledged() {
    let disk = disk(1);
    let log = open_threads(&disk);
    std::thread::scope(|scope| {
        for number in 0..24_u8 {
            let log = &log;
            scope.spawn(move || {
                let name = format!("s{}", number % 8);
                create(log, &name).unwrap().wait().unwrap();
                for _ in 0..60 {
                    let ticket = append(log, &name, &[number; 40]).unwrap();
                    if number % 3 == 0 {
                        block_on(ticket).unwrap();
                    } else {
                        ticket.wait().unwrap();
                    }
                }
            });
        }
    });
    for name in 0..8 {
        assert_eq!(read_all(&log, &format!("s{name}")).unwrap().len(), 3 * 60 * 40);
    }
    let commits = log.metrics().remove(0).commits;
    assert_eq!(commits.staged, 8 + 24 * 60, "the epoch's start is not staged by a request");
    drop(log);
    let log = open_threads(&disk.crash());
    assert_eq!(read_all(&log, "s0").unwrap().len(), 3 * 60 * 40);
}

#[test]
fn a_failed_barrier_answers_every_thread_and_task_that_waits() {
    // I10
    let disk = disk(2);
    // One segment for all of it, and no checkpoint: their failures are other stories.
    let (segment_bytes, checkpoint_wal_bytes) = (16 << 20, 64 << 20);
    let options = Options { segment_bytes, checkpoint_wal_bytes, ..small() };
    let log = open_as(Arc::new(disk.clone()), &options, Driver::Threads);
    create(&log, "a").unwrap().wait().unwrap();
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..12 {
            let (log, failed, disk) = (&log, &failed, &disk);
            scope.spawn(move || {
                for round in 1.. {
                    // Again until it strikes a commit: it may strike a file that is made ready.
                    if number == 0 && round % 50 == 0 {
                        disk.plan(PlannedFault {
                            kind: OperationKind::SyncData,
                            path_prefix: "wal/0/".to_owned(),
                            when: When::Nth(1),
                            fault: Fault::FailedBarrierDropsPages,
                        });
                    }
                    let had_failed = failed.load(Ordering::SeqCst);
                    let answer = append(log, "a", b"x").and_then(|ticket| {
                        if number % 2 == 0 { block_on(ticket) } else { ticket.wait() }
                    });
                    match answer {
                        Ok(_) => assert!(!had_failed, "nothing is acknowledged after a failure"),
                        Err(LogError::Poisoned(_)) => {
                            failed.store(true, Ordering::SeqCst);
                            return;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert!(failed.load(Ordering::SeqCst));
}

#[test]
fn a_task_that_is_polled_again_and_again_is_remembered_once_and_done_in_the_end() {
    let log = open_with(Arc::new(disk(3)), Driver::Caller);
    create(&log, "a").unwrap().wait().unwrap();
    let mut ticket = append(&log, "a", b"x").unwrap();
    let mut polls = 0;
    block_on(poll_fn(|context| {
        polls += 1;
        let answer = Pin::new(&mut ticket).poll(context);
        match polls {
            // Woken by itself, as a task among others in one future is.
            1..1000 => context.waker().wake_by_ref(),
            1000 => assert!(log.step()),
            _ => {}
        }
        answer
    }))
    .unwrap();
    assert_eq!(polls, 1001);
}

#[test]
fn a_commit_that_panics_turns_the_lane_down_and_leaves_nobody_waiting() {
    let is_armed = Arc::new(AtomicBool::new(false));
    let armed = Arc::clone(&is_armed);
    let disk = Hooked::new(&disk(4), move |moment, kind, path| {
        // Of the active segment: other files are made meanwhile.
        let is_commit =
            (moment, kind) == (Moment::Before, OperationKind::WriteAt) && path == "wal/0/0.seg";
        assert!(!(is_commit && armed.swap(false, Ordering::SeqCst)), "armed");
    });
    let log = open_with(Arc::new(disk), Driver::Threads);
    create(&log, "a").unwrap().wait().unwrap();
    let tickets: Vec<_> = (0..8).map(|_| append(&log, "a", b"x").unwrap()).collect();
    is_armed.store(true, Ordering::SeqCst);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let waiting: Vec<_> =
            tickets.into_iter().map(|ticket| scope.spawn(move || ticket.wait())).collect();
        waiting.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    // One of them may have been the one that panicked; nobody was told that all is well.
    for answer in answers {
        assert!(matches!(answer, Err(_) | Ok(Err(LogError::Poisoned(_)))), "{answer:?}");
    }
    assert!(matches!(append(&log, "a", b"x"), Err(LogError::Poisoned(_))));
}
