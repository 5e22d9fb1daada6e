//! Who reads for all: whatever becomes of that one, the others are not left waiting.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use highwater_disk::Clock;
use highwater_disk::sim::{SimClock, SimRng};
use highwater_streams::etag::StoreTag;
use highwater_streams::live::{Follower, Next};
use highwater_streams::offset::Place;
use highwater_streams::service::{Around, Streams};

use crate::following::*;
use crate::support::*;

/// A clock that panics when it is asked next, once it is told to.
#[derive(Debug, Default, Clone)]
struct Bomb {
    clock: SimClock,
    is_armed: Arc<AtomicBool>,
}

impl Clock for Bomb {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn wall(&self) -> Duration {
        assert!(!self.is_armed.swap(false, Ordering::SeqCst), "the clock is broken");
        self.clock.wall()
    }
}

/// Readers of a stream that wait at its tail, each with what it is woken by.
struct Crowd {
    store: Store,
    streams: Streams,
    readers: Vec<(Follower, Arc<Woken>)>,
}

impl Crowd {
    fn new(seed: u64, count: usize, clock: Arc<dyn Clock>) -> Self {
        let store = Store::new(seed);
        let (log, rng) = (Arc::clone(&store.log), Box::new(SimRng::new(8)));
        let streams = Streams::new(Around { log, clock, rng }, LIMITS, StoreTag(0xcafe));
        store.put("a", &create(TEXT, "")).unwrap();
        let follow = || streams.follow(&path("a"), Place::Now, None).unwrap();
        let readers = (0..count).map(|_| (follow(), Arc::default())).collect();
        let mut crowd = Self { store, streams, readers };
        for at in 0..count {
            assert_eq!(crowd.poll(at).as_deref(), Some(""));
            assert_eq!(crowd.poll(at), None);
        }
        crowd
    }

    /// Takes what comes next, if anything does.
    fn poll(&mut self, at: usize) -> Option<String> {
        let (follower, woken) = &mut self.readers[at];
        let waker = Waker::from(Arc::clone(woken));
        match follower.poll_next(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok(Next::Event(event))) => Some(data(&event)),
            Poll::Ready(other) => panic!("{other:?}"),
            Poll::Pending => None,
        }
    }

    fn post(&self, body: &str) {
        self.store.post("a", &append(TEXT, body)).unwrap();
    }

    fn woken(&self) -> Vec<usize> {
        (0..self.readers.len()).filter(|at| self.readers[*at].1.take()).collect()
    }
}

#[test]
fn a_panic_in_a_live_read_ends_that_reader_and_another_one_reads_for_all() {
    let bomb = Bomb::default();
    let mut crowd = Crowd::new(601, 5, Arc::new(bomb.clone()));
    crowd.post("hello");
    let leader = crowd.woken()[0];
    bomb.is_armed.store(true, Ordering::SeqCst);
    let ended = catch_unwind(AssertUnwindSafe(|| crowd.poll(leader)));
    assert!(ended.is_err());
    let next = crowd.woken();
    assert_eq!(next.len(), 1, "the turn is passed on");
    drop(crowd.readers.remove(leader));
    for at in 0..4 {
        assert_eq!(crowd.poll(at).as_deref(), Some("hello"));
        assert_eq!(crowd.poll(at), None);
    }
    crowd.post("again");
    let leader = crowd.woken()[0];
    assert_eq!(crowd.poll(leader).as_deref(), Some("again"));
    assert_eq!(crowd.woken().len(), 3);
}

#[test]
fn a_reader_that_is_woken_and_cannot_look_lets_another_one_read_for_all() {
    let mut crowd = Crowd::new(602, 5, Arc::new(SimClock::new()));
    crowd.post("hello");
    let stalled = crowd.woken()[0];
    assert!(crowd.woken().is_empty(), "all wait for that one");
    crowd.readers[stalled].0.pass_on();
    let next = crowd.woken();
    assert_eq!(next.len(), 1);
    assert_eq!(crowd.poll(next[0]).as_deref(), Some("hello"));
    assert_eq!(crowd.woken().len(), 3);
    crowd.readers[stalled].0.pass_on();
    assert!(crowd.woken().is_empty(), "there is nothing to be read for all");
    assert_eq!(crowd.poll(stalled).as_deref(), Some("hello"), "it has missed nothing");
}

#[test]
fn readers_do_not_wait_for_ever_for_one_that_says_nothing() {
    let mut crowd = Crowd::new(603, 5, Arc::new(SimClock::new()));
    crowd.streams.nudge();
    crowd.post("hello");
    let silent = crowd.woken()[0];
    crowd.streams.nudge();
    assert!(crowd.woken().is_empty(), "it has only just been woken");
    crowd.streams.nudge();
    assert_eq!(crowd.woken().len(), 4);
    for at in (0..5).filter(|at| *at != silent) {
        assert_eq!(crowd.poll(at).as_deref(), Some("hello"));
        assert_eq!(crowd.poll(at), None);
    }
    crowd.streams.nudge();
    crowd.streams.nudge();
    assert!(crowd.woken().is_empty(), "nobody is woken for nothing");
    assert_eq!(crowd.poll(silent).as_deref(), Some("hello"));
}
