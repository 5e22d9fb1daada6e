use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use highwater_disk::Rng;
use highwater_disk::sim::SimRng;
use highwater_streams::live::{Follower, Next};
use highwater_streams::offset::Place;
use highwater_streams::service::Limits;

use crate::following::*;
use crate::support::*;

/// One wake-up, one read and one encoding for an append, however many follow.
#[test]
fn a_parcel_is_encoded_once_and_the_log_wakes_one_reader_who_wakes_the_others() {
    let store = Store::new(209);
    store.put("a", &create(TEXT, "")).unwrap();
    let mut followers: Vec<Follower> = (0..50).map(|_| follow(&store, "a", Place::Now)).collect();
    let woken: Vec<Arc<Woken>> = followers.iter().map(|_| Arc::default()).collect();
    for (follower, woken) in followers.iter_mut().zip(&woken) {
        event(follower);
        assert_eq!(follower.try_next().unwrap(), Next::Wait);
        assert!(!wait(follower, woken));
    }
    store.post("a", &append(TEXT, "hello")).unwrap();
    let leaders: Vec<usize> = (0..50).filter(|at| woken[*at].take()).collect();
    assert_eq!(leaders.len(), 1);
    let first = event(&mut followers[leaders[0]]);
    assert!((0..50).filter(|at| *at != leaders[0]).all(|at| woken[at].take()));
    for (at, follower) in followers.iter_mut().enumerate().filter(|(at, _)| *at != leaders[0]) {
        let next = event(follower);
        assert_eq!(next.bytes().as_ptr(), first.bytes().as_ptr(), "{at} shares the bytes");
    }
    for (follower, woken) in followers.iter_mut().zip(&woken) {
        assert_eq!(follower.try_next().unwrap(), Next::Wait);
        assert!(!wait(follower, woken));
    }
    store.post("a", &append(TEXT, "again")).unwrap();
    let leader = (0..50).find(|at| woken[*at].take()).unwrap();
    drop(followers.remove(leader));
    let next: Vec<usize> = (0..50).filter(|at| woken[*at].take()).collect();
    assert_eq!(next.len(), 1, "who goes away passes the turn on");
}

/// I11: what a slow reader costs is bounded, and it misses nothing.
#[test]
fn a_slow_reader_is_given_everything_and_makes_nobody_wait() {
    let store = Store::new(210);
    store.put("a", &create(TEXT, "")).unwrap();
    let (mut slow, mut quick) = (follow(&store, "a", Place::Now), follow(&store, "a", Place::Now));
    for follower in [&mut slow, &mut quick] {
        event(follower);
        assert_eq!(follower.try_next().unwrap(), Next::Wait);
    }
    let lines: Vec<String> = (0..100).map(|n| format!("line {n};")).collect();
    for line in &lines {
        store.post("a", &append(TEXT, line)).unwrap();
        assert_eq!(&data(&event(&mut quick)), line);
        assert_eq!(quick.try_next().unwrap(), Next::Wait);
    }
    store.log.checkpoint().unwrap();
    let mut found = String::new();
    while let Next::Event(event) = slow.try_next().unwrap() {
        found.push_str(&data(&event));
    }
    assert_eq!(found, lines.concat());
    store.post("a", &append(TEXT, "!")).unwrap();
    let (one, other) = (event(&mut slow), event(&mut quick));
    assert_eq!(one.bytes().as_ptr(), other.bytes().as_ptr(), "it has caught up and shares again");
}

/// I11: readers that come and go on a stream that rests leave nothing behind.
#[test]
fn polls_that_come_and_go_leave_nothing_in_the_log() {
    let store = Store::new(211);
    store.put("a", &create(TEXT, "")).unwrap();
    let watches = || store.log.metrics().iter().map(|lane| lane.watches).sum::<u64>();
    let mut stays = follow(&store, "a", Place::Now);
    assert_eq!(stays.try_chunk().unwrap(), None);
    for _ in 0..100 {
        let mut poll = follow(&store, "a", Place::Now);
        assert_eq!(poll.try_chunk().unwrap(), None);
    }
    assert_eq!((store.streams.followed(), watches()), (1, 1));
    drop(stays);
    assert_eq!((store.streams.followed(), watches()), (0, 0));
    let mut back = follow(&store, "a", Place::Now);
    assert_eq!(back.try_chunk().unwrap(), None);
    store.post("a", &append(TEXT, "x")).unwrap();
    assert_eq!(text_of(&back.try_chunk().unwrap().unwrap()), "x");
}

/// One simulated reader: a task that is polled when woken.
struct Reader {
    follower: Follower,
    woken: Arc<Woken>,
    is_events: bool,
    /// Turns for which it does not take what it could.
    lazy: u64,
    found: String,
    has_ended: bool,
}

impl Reader {
    fn run(&mut self, random: &mut SimRng) {
        for _ in 0..=random.next_u64() % 4 {
            if self.has_ended {
                return;
            }
            let has_event = if self.is_events { self.take_event() } else { self.take_chunk() };
            // Who is polled for events waits when there are none.
            let mut waits = || self.is_events || !wait(&mut self.follower, &self.woken);
            if !has_event && (self.has_ended || waits()) {
                return;
            }
        }
        // It has more to take, as a task that has not waited.
        self.woken.now.store(true, Ordering::SeqCst);
    }

    fn take_event(&mut self) -> bool {
        let waker = Waker::from(Arc::clone(&self.woken));
        let next = self.follower.poll_next(&mut Context::from_waker(&waker));
        let Poll::Ready(next) = next else { return false };
        match next.unwrap() {
            Next::Event(event) => {
                let values: Vec<u64> =
                    serde_json::from_str(&data(&event)).unwrap_or_else(|_| Vec::new());
                self.found.extend(values.iter().map(|value| format!("{value},")));
                true
            }
            Next::Wait => unreachable!("that is to be pending"),
            Next::End => {
                self.has_ended = true;
                false
            }
        }
    }

    fn take_chunk(&mut self) -> bool {
        let Some(chunk) = self.follower.try_chunk().unwrap() else { return false };
        let values: Vec<u64> = serde_json::from_slice(&chunk.body.to_bytes()).unwrap();
        self.found.extend(values.iter().map(|value| format!("{value},")));
        self.has_ended = chunk.is_closed;
        true
    }
}

/// Readers of both kinds, quick and lazy, come and go in a random order while a writer appends.
/// When nobody is woken any more, everybody has everything: no wake-up is lost.
#[test]
fn in_any_order_every_reader_is_given_everything_once_and_no_wake_up_is_lost() {
    for seed in 0..300 {
        let mut random = SimRng::new(seed);
        let limits = Limits { chunk_bytes: 16, ring_bytes: 200, ..LIMITS };
        let store = Store::with(seed, limits, 1);
        store.put("a", &create(JSON, "")).unwrap();
        let (mut readers, mut written): (Vec<Reader>, String) = (Vec::new(), String::new());
        let mut starts = Vec::new();
        for step in 0..60_u64 {
            match random.next_u64() % 8 {
                0 => {
                    let woken = Arc::new(Woken::default());
                    woken.now.store(true, Ordering::SeqCst);
                    let place =
                        if random.next_u64().is_multiple_of(2) { Place::Start } else { Place::Now };
                    readers.push(Reader {
                        follower: follow(&store, "a", place),
                        woken,
                        is_events: !random.next_u64().is_multiple_of(3),
                        lazy: random.next_u64() % 3,
                        found: String::new(),
                        has_ended: false,
                    });
                    starts.push(if place == Place::Start { 0 } else { written.len() });
                }
                1 if !readers.is_empty() => {
                    let gone = usize::try_from(random.next_u64()).unwrap() % readers.len();
                    readers.remove(gone);
                    starts.remove(gone);
                }
                2 | 3 => {
                    let values = format!("{step},{}", step + 1000);
                    store.post("a", &append(JSON, &format!("[{values}]"))).unwrap();
                    written.extend([values.as_str(), ","]);
                }
                4 if step % 7 == 0 => drop(store.log.checkpoint().unwrap()),
                _ => {
                    for reader in &mut readers {
                        if random.next_u64() % 4 >= reader.lazy && reader.woken.take() {
                            reader.run(&mut random);
                        }
                    }
                }
            }
        }
        let closes = seed % 2 == 0;
        if closes {
            store.post("a", &close()).unwrap();
        }
        while readers.iter().any(|reader| reader.woken.now.load(Ordering::SeqCst)) {
            for reader in &mut readers {
                if reader.woken.take() {
                    reader.run(&mut random);
                }
            }
        }
        for (at, (reader, start)) in readers.iter().zip(starts).enumerate() {
            assert_eq!(reader.found, written[start..], "seed {seed} reader {at}");
            assert_eq!(reader.has_ended, closes, "seed {seed} reader {at}");
        }
        drop(readers);
        assert!(store.streams.followed() <= 1, "seed {seed}");
    }
}

/// The same with threads: what one does between two looks of another is not lost either.
#[test]
fn with_readers_and_writers_in_threads_everybody_is_given_everything() {
    const WRITERS: u64 = 2;
    const APPENDS: u64 = 300;
    let store = Store::threaded(213);
    block_on(store.streams.create(&path("a"), &create(JSON, ""))).unwrap();
    let (done, all_done) = std::sync::mpsc::channel();
    for reader in 0..6 {
        let (streams, done) = (store.streams.clone(), done.clone());
        std::thread::spawn(move || {
            let mut found = 0;
            // Some come back again and again, so that they join while others append.
            let mut at = Place::Start;
            'all: loop {
                let mut follower = streams.follow(&path("a"), at, None).unwrap();
                for _ in 0..if reader % 2 == 0 { u64::MAX } else { 7 } {
                    match follower.try_next().unwrap() {
                        Next::Event(event) => {
                            let values = serde_json::from_str::<Vec<u64>>(&data(&event));
                            found += values.map_or(0, |values| values.len() as u64);
                        }
                        Next::Wait => block_on(follower.changed()),
                        Next::End => break 'all,
                    }
                }
                at = Place::At(follower.position());
            }
            done.send(found).unwrap();
        });
    }
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let streams = store.streams.clone();
            std::thread::spawn(move || {
                for number in 0..APPENDS {
                    let body = number.to_string();
                    block_on(streams.append(&path("a"), &append(JSON, &body))).unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    block_on(store.streams.append(&path("a"), &close())).unwrap();
    for _ in 0..6 {
        let found = all_done.recv_timeout(std::time::Duration::from_secs(120));
        assert_eq!(found, Ok(WRITERS * APPENDS), "a reader waits for what has come long ago");
    }
}

/// I11: a message is never cut, so it is read only where there is room for all of it.
#[test]
fn messages_longer_than_a_chunk_share_the_memory_of_answers() {
    let limits = Limits { chunk_bytes: 8 << 10, answers_bytes: 180 << 10, ..LIMITS };
    let store = Store::with_options(412, limits, |options| {
        options.segment_bytes = 256 << 10;
        options.max_payload_bytes = 200 << 10;
        options.max_staged_bytes = 400 << 10;
    });
    let message = format!("[\"{}\"]", "x".repeat(70 << 10));
    store.put("a", &create(JSON, &message)).unwrap();
    store.put("b", &create(JSON, "[1]")).unwrap();
    let mut held =
        vec![store.get("a", Place::Start).unwrap(), store.get("a", Place::Start).unwrap()];
    assert_eq!(code(store.get("a", Place::Start)), "NO_ROOM_FOR_ANSWER");
    assert_eq!(text_of(&store.get("b", Place::Start).unwrap()), "[1]", "short ones go on");
    held.pop();
    assert_eq!(text_of(&store.get("a", Place::Start).unwrap()), message);
    // One is always read, however long it is.
    held.clear();
    let longer = format!("[\"{}\"]", "x".repeat(190 << 10));
    store.put("c", &create(JSON, &longer)).unwrap();
    assert_eq!(text_of(&store.get("c", Place::Start).unwrap()), longer);
}
