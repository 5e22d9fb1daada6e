//! Long messages and the memory for answers: whatever clients hold, it stays within its bound, and
//! nobody is forgotten.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use highwater_streams::cursor::Cursor;
use highwater_streams::live::{Event, Follower, Next};
use highwater_streams::offset::Place;
use highwater_streams::service::Limits;

use crate::following::*;
use crate::support::*;

/// Bytes of a long message: more than any chunk for which there is always room.
const LONG: usize = 124 << 10;
/// Room for so many of them.
const ROOM_FOR: usize = 3;

/// A store that takes long messages, and a stream with one.
fn store(seed: u64) -> Store {
    let answers_bytes = u64::try_from(LONG * ROOM_FOR + (80 << 10)).unwrap();
    let store = Store::with_options(seed, Limits { answers_bytes, ..LIMITS }, |options| {
        options.segment_bytes = 4 << 20;
        options.max_payload_bytes = 1 << 20;
        options.frame_bytes = 1 << 20;
        options.max_staged_bytes = 4 << 20;
    });
    store.put("a", &create(JSON, "[]")).unwrap();
    store
}

fn post_long(store: &Store) {
    store.post("a", &append(JSON, &format!("\"{}\"", "x".repeat(LONG)))).unwrap();
}

/// A reader whose client takes nothing: it keeps what it was given.
struct Slow {
    follower: Follower,
    woken: Arc<Woken>,
    held: Vec<Event>,
}

impl Slow {
    fn new(follower: Follower) -> Self {
        Self { follower, woken: Arc::default(), held: Vec::new() }
    }

    fn of(store: &Store, place: Place) -> Self {
        Self::new(follow(store, "a", place))
    }

    /// Takes what comes next; gives how many long messages it holds.
    fn poll(&mut self) -> usize {
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.follower.poll_next(&mut Context::from_waker(&waker)) {
            Poll::Ready(Ok(Next::Event(event))) => self.held.push(event),
            Poll::Ready(other) => panic!("{other:?}"),
            Poll::Pending => {}
        }
        self.long()
    }

    fn long(&self) -> usize {
        self.held.iter().filter(|event| event.bytes().len() >= LONG).count()
    }
}

fn held(readers: &[Slow]) -> usize {
    readers.iter().map(Slow::long).sum()
}

fn poll_all(readers: &mut [Slow]) {
    for reader in readers {
        reader.poll();
    }
}

/// Polls whoever was woken, until nobody is.
fn poll_woken(readers: &mut [Slow]) {
    for _ in 0..100 {
        let woken: Vec<&mut Slow> = readers.iter_mut().filter(|r| r.woken.take()).collect();
        if woken.is_empty() {
            return;
        }
        for reader in woken {
            reader.poll();
        }
    }
    panic!("they wake each other for ever");
}

/// I11.
#[test]
fn readers_that_are_behind_hold_no_more_long_messages_than_there_is_memory_for() {
    let store = store(501);
    post_long(&store);
    let mut readers: Vec<Slow> = (0..20).map(|_| Slow::of(&store, Place::Start)).collect();
    for _ in 0..3 {
        readers.iter_mut().filter(|reader| reader.long() == 0).for_each(|reader| {
            reader.poll();
        });
        assert_eq!(held(&readers), ROOM_FOR);
    }
    let room_left = store.get("a", Place::Start);
    assert_eq!(code(room_left), "NO_ROOM_FOR_ANSWER", "those of chunks are the same memory");
    // Each that goes makes room for one more: somebody is woken for it.
    while !readers.is_empty() {
        readers.remove(0);
        poll_woken(&mut readers);
        assert_eq!(held(&readers), ROOM_FOR.min(readers.len()), "of {}", readers.len());
    }
    assert!(store.get("a", Place::Start).is_ok());
}

/// I11: one that waits and goes away does not keep the others from what it waited for.
#[test]
fn a_reader_in_line_that_goes_away_leaves_its_place_to_the_next() {
    let store = store(502);
    post_long(&store);
    let mut readers: Vec<Slow> =
        (0..ROOM_FOR + 2).map(|_| Slow::of(&store, Place::Start)).collect();
    poll_all(&mut readers);
    assert_eq!(held(&readers), ROOM_FOR);
    poll_woken(&mut readers);
    let mut next = readers.pop().unwrap();
    let first = readers.pop().unwrap();
    drop(readers.pop());
    assert!(first.woken.take(), "it is its turn");
    drop(first);
    assert!(next.woken.take());
    assert_eq!(next.poll(), 1);
}

/// I11: what a reader was called for is not taken by those who come before it looks.
#[test]
fn a_reader_that_is_called_has_what_it_waited_for_also_when_others_come_first() {
    let store = store(508);
    post_long(&store);
    let mut readers: Vec<Slow> = (0..=ROOM_FOR).map(|_| Slow::of(&store, Place::Start)).collect();
    poll_all(&mut readers);
    let mut waits = readers.pop().unwrap();
    assert_eq!((held(&readers), waits.long()), (ROOM_FOR, 0));
    readers.pop();
    let mut others: Vec<Slow> = (0..3).map(|_| Slow::of(&store, Place::Start)).collect();
    for _ in 0..3 {
        poll_all(&mut others);
        assert_eq!(held(&others), 0, "it is not their turn");
    }
    assert!(waits.woken.take());
    assert_eq!(waits.poll(), 1);
    // Whoever does not need it any more leaves it to the next.
    drop(waits);
    poll_woken(&mut others);
    assert_eq!(held(&others), 1);
}

/// I11: those at the tail share what comes, and wait for one of them while there is no memory.
#[test]
fn readers_at_the_tail_wait_together_for_memory_and_share_what_then_comes() {
    let store = store(503);
    post_long(&store);
    let mut full: Vec<Slow> = (0..ROOM_FOR).map(|_| Slow::of(&store, Place::Start)).collect();
    poll_all(&mut full);
    let mut readers: Vec<Slow> = (0..5).map(|_| Slow::of(&store, Place::Now)).collect();
    for reader in &mut readers {
        reader.poll();
        reader.poll();
        reader.held.clear();
    }
    post_long(&store);
    let leaders: Vec<usize> = (0..5).filter(|at| readers[*at].woken.take()).collect();
    assert_eq!(leaders.len(), 1);
    let mut leader = leaders[0];
    assert_eq!(readers[leader].poll(), 0, "there is no memory");
    assert_eq!(readers[leader].poll(), 0);
    assert!(!readers[leader].woken.take(), "it spins");
    drop(full.pop());
    assert!(readers[leader].woken.take());
    // It goes away instead, and the next one has the turn.
    drop(readers.remove(leader));
    leader = (0..4).find(|at| readers[*at].woken.take()).expect("somebody has the turn");
    assert_eq!(readers[leader].poll(), 1);
    assert!((0..4).filter(|at| *at != leader).all(|at| readers[at].woken.take()));
    readers.iter_mut().filter(|reader| reader.long() == 0).for_each(|reader| {
        reader.poll();
    });
    let first = readers[0].held[0].bytes();
    assert!(readers.iter().all(|reader| reader.held[0].bytes().as_ptr() == first.as_ptr()));
}

/// I11: a cursor from the future makes no copies that nobody counts.
#[test]
fn readers_that_bring_a_cursor_of_their_own_share_no_bytes_and_are_counted_all_the_same() {
    let store = store(504);
    let far = Some(Cursor(u64::MAX / 4));
    let follow = || store.streams.follow(&path("a"), Place::Now, far).unwrap();
    let mut readers: Vec<Slow> = (0..20).map(|_| Slow::new(follow())).collect();
    for reader in &mut readers {
        reader.poll();
        reader.poll();
        reader.held.clear();
    }
    post_long(&store);
    for _ in 0..3 {
        readers.iter_mut().filter(|reader| reader.long() == 0).for_each(|reader| {
            reader.poll();
        });
    }
    // One more is the hub's own.
    let held = held(&readers);
    assert!((1..=ROOM_FOR).contains(&held), "{held}");
}

/// Whoever asks without a task waits as well.
#[test]
fn a_reader_that_is_not_polled_waits_for_memory_too() {
    let store = store(505);
    post_long(&store);
    let mut readers: Vec<Slow> = (0..=ROOM_FOR).map(|_| Slow::of(&store, Place::Start)).collect();
    poll_all(&mut readers);
    let waits = readers.last_mut().unwrap();
    assert_eq!(waits.long(), 0);
    assert!(!wait(&mut waits.follower, &waits.woken));
    assert_eq!(waits.follower.try_next(), Ok(Next::Wait));
    let mut last = readers.pop().unwrap();
    drop(readers);
    assert!(last.woken.take() && wait(&mut last.follower, &last.woken));
    assert!(event(&mut last.follower).bytes().len() > LONG);
}

/// I11: where no memory is left chunks and events are short, and there is no end to them.
#[test]
fn what_nobody_takes_fills_its_memory_and_no_more_and_reads_go_on_in_short_chunks() {
    let answers_bytes = 400 << 10;
    let limits = Limits { chunk_bytes: 1 << 20, answers_bytes, ..LIMITS };
    let store = Store::with_options(506, limits, |options| {
        options.segment_bytes = 4 << 20;
        options.max_payload_bytes = 1 << 20;
        options.frame_bytes = 1 << 20;
        options.max_staged_bytes = 4 << 20;
    });
    store.put("t", &create(TEXT, "")).unwrap();
    store.put("j", &create(JSON, "[]")).unwrap();
    store.post("t", &append(TEXT, &"x".repeat(100 << 10))).unwrap();
    store.post("j", &append(JSON, &format!("[1,\"{}\"]", "x".repeat(5 << 10)))).unwrap();
    let short = 4 << 10;
    let (mut chunks, mut readers) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        chunks.push(store.get("t", Place::Start).unwrap());
        let mut reader = Slow::new(follow(&store, "t", Place::Start));
        reader.poll();
        readers.push(reader);
    }
    let lens = chunks.iter().map(|chunk| chunk.body.len());
    let events = readers.iter().map(|reader| reader.held[0].bytes().len());
    let long: usize = lens.chain(events).filter(|len| *len > short + 200).sum();
    assert!(u64::try_from(long).unwrap() <= answers_bytes + (1 << 10), "{long}");
    let (mut place, mut read) = (Place::Start, 0);
    while read < 100 << 10 {
        let chunk = store.get("t", place).unwrap();
        assert!((1..=short).contains(&chunk.body.len()));
        read += chunk.body.len();
        place = Place::At(chunk.next);
    }
    // What cannot be shorter has to wait.
    let one = store.get("j", Place::Start).unwrap();
    assert_eq!(one.body.to_bytes(), "[1]");
    assert_eq!(code(store.get("j", Place::At(one.next))), "NO_ROOM_FOR_ANSWER");
    drop((chunks, readers));
    assert_eq!(store.get("t", Place::Start).unwrap().body.len(), 64 << 10);
    assert!(store.get("j", Place::At(one.next)).is_ok());
}

/// I11: nor does a hub keep many short parcels for one that does not take them.
#[test]
fn a_hub_keeps_little_while_no_memory_is_left_and_its_readers_miss_nothing() {
    let limits = Limits { answers_bytes: 1, ring_bytes: 1 << 20, ..LIMITS };
    let store = Store::with(507, limits, 1);
    store.put("t", &create(TEXT, "")).unwrap();
    let (mut slow, mut quick) = (follow(&store, "t", Place::Now), follow(&store, "t", Place::Now));
    let wait = |follower: &mut Follower| {
        while follower.try_next().unwrap() != Next::Wait {}
    };
    wait(&mut slow);
    wait(&mut quick);
    let mut first = None;
    for number in 0..10 {
        store.post("t", &append(TEXT, &format!("<{number}>"))).unwrap();
        let given = event(&mut quick);
        first.get_or_insert(given);
        wait(&mut quick);
    }
    let first = first.unwrap().bytes();
    let again = event(&mut slow).bytes();
    assert_ne!(again.as_ptr(), first.as_ptr(), "it is kept for the slow one");
    assert!(String::from_utf8_lossy(&again).contains("<0>"));
}
