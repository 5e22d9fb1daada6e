//! Watches: woken once, forgotten when they are dropped, and never in the way of the lane's lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Wake;

use highwater_disk::sim::{Fault, OperationKind};
use highwater_log::Log;
use highwater_log::error::LogError;
use highwater_log::ids::Offset;
use highwater_log::lane::Watch;
use highwater_log::lane::waiters::Waiter;

use super::support::{append, create, disk, open, small};

/// Counts how often it rings.
#[derive(Default)]
struct Bell(AtomicU64);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn watch(log: &Log, bell: &Arc<Bell>) -> Watch {
    let tail = log.info("idle").unwrap().tail;
    let waiter = Waiter::Task(Arc::clone(bell).into());
    log.watch("idle", tail, waiter).unwrap().expect("nothing has come yet")
}

fn watches(log: &Log) -> u64 {
    log.metrics()[0].watches
}

#[test]
fn a_hundred_thousand_watches_that_are_dropped_leave_nothing_on_an_idle_stream() {
    // I11
    let log = open(&disk(1), &small()).unwrap();
    create(&log, "idle").unwrap().wait().unwrap();
    let bell = Arc::new(Bell::default());
    for _ in 0..100_000 {
        drop(watch(&log, &bell));
        assert!(watches(&log) <= 1);
    }
    assert_eq!((watches(&log), Arc::strong_count(&bell)), (0, 1), "no waker is kept");
    let mut many: Vec<Watch> = (0..100_000).map(|_| watch(&log, &bell)).collect();
    assert_eq!(watches(&log), 100_000);
    many.drain(..99_990).for_each(drop);
    assert_eq!(watches(&log), 10);
    append(&log, "idle", b"no more").unwrap().wait().unwrap();
    assert_eq!((watches(&log), bell.0.load(Ordering::Relaxed)), (0, 10));
    let again = watch(&log, &bell);
    drop(many);
    assert_eq!(watches(&log), 1, "what is over takes nobody else out");
    append(&log, "idle", b"still more").unwrap().wait().unwrap();
    assert_eq!(bell.0.load(Ordering::Relaxed), 11);
    drop(again);
    drop(log);
    assert_eq!(Arc::strong_count(&bell), 1);
}

/// Asks the log, and drops its own watch, when it is woken: both take the lane's lock.
struct Asking {
    log: Weak<Log>,
    watch: Mutex<Option<Watch>>,
    rung: AtomicU64,
}

impl Wake for Asking {
    fn wake(self: Arc<Self>) {
        let log = self.log.upgrade().expect("it is open");
        log.info("idle");
        self.watch.lock().unwrap().take();
        self.rung.fetch_add(1, Ordering::Relaxed);
    }
}

fn asking(log: &Arc<Log>) -> Arc<Asking> {
    let (log_of, watch) = (Arc::downgrade(log), Mutex::default());
    let asking = Arc::new(Asking { log: log_of, watch, rung: AtomicU64::new(0) });
    let waiter = Waiter::Task(Arc::clone(&asking).into());
    let watch = log.watch("idle", Offset(0), waiter).unwrap();
    *asking.watch.lock().unwrap() = watch;
    asking
}

#[test]
fn whoever_is_woken_may_ask_the_log_whatever_has_woken_it() {
    for nth in 0..3 {
        let disk = disk(2);
        let log = Arc::new(open(&disk, &small()).unwrap());
        create(&log, "idle").unwrap().wait().unwrap();
        create(&log, "busy").unwrap().wait().unwrap();
        let asking = asking(&log);
        match nth {
            0 => drop(append(&log, "idle", b"x").unwrap().wait().unwrap()),
            1 => log.delete("idle").unwrap().wait().unwrap(),
            _ => {
                // The next segment cannot be made part of the log: found while staging.
                disk.fail_next(OperationKind::WriteAt, 1, Fault::Eio);
                let mut done = Ok(());
                while done.is_ok() {
                    done = append(&log, "busy", &[1; 8000]).map(drop);
                }
                assert!(matches!(done, Err(LogError::Disk(_))), "{done:?}");
            }
        }
        assert_eq!(asking.rung.load(Ordering::Relaxed), 1, "{nth}");
    }
}
