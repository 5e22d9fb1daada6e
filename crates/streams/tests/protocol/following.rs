//! Short ways to follow a stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use highwater_streams::live::{Event, Follower, Next};
use highwater_streams::offset::Place;

use crate::support::*;

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut future, mut context) = (std::pin::pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park();
    }
}

pub fn follow(store: &Store, name: &str, place: Place) -> Follower {
    store.streams.follow(&path(name), place, None).unwrap()
}

pub fn event(follower: &mut Follower) -> Event {
    match follower.try_next().unwrap() {
        Next::Event(event) => event,
        other => panic!("no event: {other:?}"),
    }
}

/// What a client reads from the data event, empty without one.
pub fn data(event: &Event) -> String {
    let bytes = event.bytes();
    let text = std::str::from_utf8(&bytes).unwrap();
    let Some(data) = text.strip_prefix("event: data\n") else { return String::new() };
    let lines = data.split("\n\n").next().unwrap().lines();
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix("data:").unwrap()).collect();
    lines.join("\n")
}

/// A task's waker that remembers.
#[derive(Default)]
pub struct Woken {
    pub now: AtomicBool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.now.store(true, Ordering::SeqCst);
    }
}

impl Woken {
    pub fn take(&self) -> bool {
        self.now.swap(false, Ordering::SeqCst)
    }
}

/// Waits with a waker; gives whether there is news already.
pub fn wait(follower: &mut Follower, woken: &Arc<Woken>) -> bool {
    let waker = Waker::from(Arc::clone(woken));
    let mut future = Box::pin(follower.changed());
    future.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(())
}
