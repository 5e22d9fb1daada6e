//! Acknowledgements that run ahead of the barrier: what was acknowledged can be waited for.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::task::{Wake, Waker};
use std::time::Duration;

use highwater_disk::sim::{SimClock, SimDisk};
use highwater_log::error::{LogError, Rejection};
use highwater_log::ids::Offset;
use highwater_log::lane::waiters::Waiter;
use highwater_log::options::{Durability, Options};
use highwater_log::request::{End, Fork};
use highwater_log::{Driver, Log};

use super::support::{append, create, disk, machine, open, read_all, small, text};

/// So long that a test which waits for it never ends.
const FOR_EVER: Duration = Duration::from_secs(1 << 20);

fn options() -> Options {
    Options { durability: Durability::Relaxed { within: FOR_EVER }, ..small() }
}

fn open_threads(disk: &SimDisk) -> Log {
    let machine = machine(Arc::new(disk.clone()), &SimClock::new(), 7);
    Log::open(machine, &options(), Driver::Threads).unwrap()
}

#[test]
fn what_is_acknowledged_is_seen_once_it_has_settled_and_not_before() {
    let log = open(&disk(1), &options()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    append(&log, "a", b"x").unwrap().wait().unwrap();
    assert!(read_all(&log, "a").is_err(), "I2: nothing is seen that a crash could take");
    let settled = log.settle("a").expect("there is something to wait for");
    log.step();
    settled.wait().unwrap();
    assert_eq!(read_all(&log, "a").unwrap(), b"x");
    assert!(log.settle("a").is_none(), "nothing is left to wait for");
    assert!(log.settle("b").is_none());
}

#[test]
fn whoever_waits_for_what_is_acknowledged_has_it_committed_at_once() {
    let disk = disk(2);
    let log = open_threads(&disk);
    create(&log, "a").unwrap().wait().unwrap();
    append(&log, "a", b"x").unwrap().wait().unwrap();
    log.settle("a").expect("there is something to wait for").wait().unwrap();
    assert_eq!(read_all(&log, "a").unwrap(), b"x");
}

struct Bell(std::sync::mpsc::Sender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.send(()).ok();
    }
}

#[test]
fn what_is_appended_to_a_watched_stream_is_committed_at_once() {
    let disk = disk(3);
    let log = open_threads(&disk);
    create(&log, "a").unwrap().wait().unwrap();
    log.settle("a").expect("it has just been made").wait().unwrap();
    let (bell, rung) = channel();
    let waker = Waker::from(Arc::new(Bell(bell)));
    let _watch = log.watch("a", Offset(0), Waiter::Task(waker)).unwrap().unwrap();
    append(&log, "a", b"x").unwrap().wait().unwrap();
    rung.recv().unwrap();
    assert_eq!(read_all(&log, "a").unwrap(), b"x");
}

#[test]
fn a_stream_that_is_watched_only_after_the_append_is_committed_at_once_too() {
    let disk = disk(4);
    let log = open_threads(&disk);
    create(&log, "a").unwrap().wait().unwrap();
    log.settle("a").expect("it has just been made").wait().unwrap();
    append(&log, "a", b"x").unwrap().wait().unwrap();
    let (bell, rung) = channel();
    let waker = Waker::from(Arc::new(Bell(bell)));
    let watch = log.watch("a", Offset(0), Waiter::Task(waker)).unwrap();
    if watch.is_some() {
        rung.recv().unwrap();
    }
    assert_eq!(read_all(&log, "a").unwrap(), b"x");
}

#[test]
fn closing_the_log_commits_what_is_staged_at_once() {
    let disk = disk(5);
    let log = open_threads(&disk);
    create(&log, "a").unwrap().wait().unwrap();
    append(&log, "a", b"x").unwrap().wait().unwrap();
    drop(log);
    let log = open(&disk.crash(), &small()).unwrap();
    assert_eq!(read_all(&log, "a").unwrap(), b"x");
}

#[test]
fn a_stream_that_is_hastened_is_committed_at_once_though_nobody_waits() {
    let log = open_threads(&disk(7));
    create(&log, "a").unwrap().wait().unwrap();
    log.settle("a").expect("it has just been made").wait().unwrap();
    append(&log, "a", b"x").unwrap().wait().unwrap();
    log.hasten("a");
    while read_all(&log, "a").unwrap().is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn a_hidden_source_ends_with_its_last_fork_when_somebody_asks_for_it() {
    for lanes in [1, 3] {
        let machine = machine(Arc::new(disk(8)), &SimClock::new(), 7);
        let log = Log::open(machine, &Options { lanes, ..options() }, Driver::Threads).unwrap();
        let config = text();
        let fork = |name, source| {
            log.settle(source).expect("it has just been made").wait().unwrap();
            let (payload, end) = (&b""[..], End::Open);
            let fork =
                Fork { name, source, offset: None, source_id: None, config: &config, payload, end };
            log.fork(&fork).unwrap().wait().unwrap();
        };
        create(&log, "source").unwrap().wait().unwrap();
        fork("middle", "source");
        fork("last", "middle");
        for name in ["source", "middle", "last"] {
            log.delete(name).unwrap().wait().unwrap();
        }
        let is_hidden = || {
            drop(log.settle("source"));
            let read = log.read("source", Offset(0), 1);
            matches!(read, Err(LogError::Rejected(Rejection::SoftDeleted)))
        };
        while is_hidden() {
            std::thread::yield_now();
        }
        create(&log, "source").unwrap().wait().expect("the name is free");
    }
}
