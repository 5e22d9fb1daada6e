//! Memory that holds answers which clients have not taken yet (I11). There is no telling how fast a
//! client reads, so a chunk is the shorter the more of that memory is in use: a reader that takes
//! nothing costs little where there are many, and one that is quick gets long chunks where there is
//! room. A chunk's length is the server's choice (protocol, section 5.6). Each takes its part of
//! the memory before it is read; where all of it is in use, chunks are so short that they matter
//! no more than the requests for them do. A message is never cut: one that is longer than its
//! chunk takes more of the memory or is refused, and a live reader waits for that in line: whoever
//! is called from there is given what it waits for, so that nobody else takes it meanwhile. Those
//! who come while somebody waits take no more than all of the memory once: then it is kept for the
//! first in line, however much that needs, and they get the shortest chunks until it is called.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::Bytes;

/// Length of a chunk as long as there is room for it, bytes.
pub(crate) const LEAST_BYTES: u64 = 64 << 10;
/// Length of a chunk for which there is always room, bytes; those up to it are not counted.
pub(crate) const SHORT_BYTES: u64 = 4 << 10;
/// A chunk takes this part of what is left of the first half, at most: those who come when that is
/// used up, still get [`LEAST_BYTES`] for a long time.
const PART: u64 = 8;

/// The memory. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Room(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: u64,
    used: AtomicU64,
    /// Number of those in line, so that nobody takes the lock where there is none.
    waiting: AtomicUsize,
    /// Bytes, about, that others have taken while the first in line was that.
    passed: AtomicU64,
    line: Mutex<Line>,
}

/// Those who wait for room, by number: first come, first served.
#[derive(Debug, Default)]
struct Line {
    places: BTreeMap<u64, Place>,
    /// Bytes that were taken for those who were called and have not come yet.
    called: BTreeMap<u64, u64>,
    next: u64,
}

#[derive(Debug)]
struct Place {
    bytes: u64,
    waker: Waker,
}

/// A part of the memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    shared: Arc<Shared>,
    bytes: u64,
}

/// Somebody who waits for so many bytes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Queued {
    shared: Arc<Shared>,
    bytes: u64,
    /// Its turn, once it has been in line: it keeps that where it needs more than it was given.
    number: Option<u64>,
    is_in_line: bool,
}

/// A part that stands for all of its answer, since it is the last to go.
struct Counted {
    bytes: Bytes,
    _lease: Lease,
}

impl Room {
    /// Begins with nothing used.
    pub fn new(most: u64) -> Self {
        let (used, waiting, passed, line) = Default::default();
        Self(Arc::new(Shared { most, used, waiting, passed, line }))
    }

    /// Takes room for the next chunk, `longest` at most; gives its length.
    pub fn chunk(&self, longest: u64) -> (u64, Lease) {
        self.chunk_within(longest, self.lease())
    }

    /// Takes room for the next chunk, of what was taken for it already if that is enough.
    pub fn chunk_within(&self, longest: u64, mut lease: Lease) -> (u64, Lease) {
        if longest <= SHORT_BYTES {
            return (longest, lease);
        }
        let left = (self.0.most / 2).saturating_sub(self.0.used.load(Ordering::Relaxed));
        let len = longest.min((left / PART).max(LEAST_BYTES));
        if lease.grow_to(len) { (len, lease) } else { (SHORT_BYTES, lease) }
    }

    /// Whether there is no room for another chunk but the shortest.
    pub fn is_full(&self) -> bool {
        !self.0.fits(self.0.used.load(Ordering::Relaxed), LEAST_BYTES)
    }

    /// Takes nothing yet.
    pub fn lease(&self) -> Lease {
        Lease { shared: Arc::clone(&self.0), bytes: 0 }
    }

    /// Begins to wait for so many bytes.
    pub fn queue(&self, bytes: u64) -> Queued {
        Queued { shared: Arc::clone(&self.0), bytes, number: None, is_in_line: false }
    }

    /// Bytes in use.
    #[cfg(test)]
    fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn fits(&self, others: u64, bytes: u64) -> bool {
        fits(self.most, others, bytes)
    }

    /// Calls those at the front of the line for whom there is room, and takes it for them.
    fn call(&self) {
        if !self.is_anybody_waiting() {
            return;
        }
        let mut called = Vec::new();
        let mut line = self.line();
        while let Some(first) = line.places.first_entry()
            && self.take(self.most, 0, first.get().bytes)
        {
            let (number, place) = first.remove_entry();
            self.passed.store(0, Ordering::SeqCst);
            line.called.insert(number, place.bytes);
            called.push(place.waker);
        }
        self.waiting.store(line.places.len(), Ordering::SeqCst);
        drop(line);
        called.into_iter().for_each(Waker::wake);
    }

    /// Makes a part longer for somebody who is not in line, where there is room for that, and those
    /// in line have not waited too long.
    fn pass(&self, before: u64, bytes: u64) -> bool {
        let more = bytes - before;
        if !self.lets_pass(more) || !self.take(self.most, before, bytes) {
            return false;
        }
        if self.is_anybody_waiting() {
            self.passed.fetch_add(more, Ordering::SeqCst);
        }
        true
    }

    /// Whether so much more may be taken by somebody who is not in line.
    fn lets_pass(&self, more: u64) -> bool {
        let passed = self.passed.load(Ordering::SeqCst);
        !self.is_anybody_waiting() || passed.saturating_add(more) <= self.most
    }

    fn is_anybody_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Makes a part that is so long longer, where there is room for that.
    fn take(&self, most: u64, before: u64, bytes: u64) -> bool {
        let taken = self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |used| {
            let is_room = fits(most, used - before, bytes);
            is_room.then(|| used.saturating_add(bytes - before))
        });
        taken.is_ok()
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether there is room for so many bytes beside those of others. The first one always has room:
/// there is no other way to read it.
fn fits(most: u64, others: u64, bytes: u64) -> bool {
    others == 0 || others.saturating_add(bytes) <= most
}

impl Lease {
    /// Takes more, until it is so much; false, and no more than before, where there is no room.
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let is_enough = bytes <= self.bytes || self.shared.pass(self.bytes, bytes);
        if is_enough {
            self.bytes = self.bytes.max(bytes);
        }
        is_enough
    }

    /// Takes all at once of what there is, and of an eighth more that is nobody else's.
    pub fn take_of_reserve(&mut self, bytes: u64) -> bool {
        let most = self.shared.most.saturating_add(self.shared.most / PART);
        let is_enough = bytes <= self.bytes || self.shared.take(most, self.bytes, bytes);
        if is_enough {
            self.bytes = self.bytes.max(bytes);
        }
        is_enough
    }

    /// Counts an answer until its last part is gone, in the place of what was taken for it.
    pub fn count(self, parts: &mut [Bytes]) {
        let len = parts.iter().map(Bytes::len).sum();
        let is_long = u64::try_from(len).is_ok_and(|len| len > SHORT_BYTES);
        if let Some(last) = parts.last_mut().filter(|_| is_long) {
            *last = self.counted(std::mem::take(last), len);
        }
    }

    /// Counts bytes that stand for so many until they are gone, in the place of what was taken.
    pub fn counted(mut self, bytes: Bytes, len: usize) -> Bytes {
        self.set(u64::try_from(len).expect("lengths have 64 bits at most"));
        Bytes::from_owner(Counted { bytes, _lease: self })
    }

    /// Makes it so much, whether or not there is room.
    fn set(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        // At once: whoever looks in between must not find more than there is.
        if before > bytes {
            self.shared.used.fetch_sub(before - bytes, Ordering::SeqCst);
            self.shared.call();
        } else if before < bytes {
            self.shared.used.fetch_add(bytes - before, Ordering::SeqCst);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.shared.used.fetch_sub(self.bytes, Ordering::SeqCst);
            self.shared.call();
        }
    }
}

impl Queued {
    /// Whether it is of use to try again: room was taken for it when it was its turn, or there is
    /// some before it got into line.
    pub fn is_over(&self) -> bool {
        if let Some(number) = self.number.filter(|_| self.is_in_line) {
            return self.shared.line().called.contains_key(&number);
        }
        let used = self.shared.used.load(Ordering::SeqCst);
        self.shared.lets_pass(self.bytes) && self.shared.fits(used, self.bytes)
    }

    /// Is done when it is of use to try again; gets into line with a waker.
    pub fn poll(&mut self, waker: &Waker) -> Poll<()> {
        let place = Place { bytes: self.bytes, waker: waker.clone() };
        let mut line = self.shared.line();
        let number = *self.number.get_or_insert(line.next);
        if self.is_in_line && line.called.contains_key(&number) {
            return Poll::Ready(());
        }
        self.is_in_line = true;
        line.next = line.next.max(number + 1);
        let before = line.places.insert(number, place);
        self.shared.waiting.store(line.places.len(), Ordering::SeqCst);
        drop(line);
        drop(before);
        // What was given back before it was in line has called nobody.
        self.shared.call();
        if self.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes what was taken for it when it was called.
    pub fn take(&mut self) -> Option<Lease> {
        let number = self.number.filter(|_| self.is_in_line)?;
        let bytes = self.shared.line().called.remove(&number)?;
        self.is_in_line = false;
        Some(Lease { shared: Arc::clone(&self.shared), bytes })
    }

    /// Waits for so many bytes instead, and before all who came later.
    pub fn wait_for(&mut self, bytes: u64) {
        self.leave();
        self.bytes = bytes;
    }

    /// Gives back its place in line, and what was taken for it.
    fn leave(&mut self) {
        if !std::mem::take(&mut self.is_in_line) {
            return;
        }
        let Some(number) = self.number else { return };
        let mut line = self.shared.line();
        if line.places.keys().next() == Some(&number) {
            self.shared.passed.store(0, Ordering::SeqCst);
        }
        let (gone, taken) = (line.places.remove(&number), line.called.remove(&number));
        self.shared.waiting.store(line.places.len(), Ordering::SeqCst);
        drop(line);
        drop(gone);
        if let Some(bytes) = taken {
            self.shared.used.fetch_sub(bytes, Ordering::SeqCst);
        }
        // Whoever was behind it is first now, or is called in its place.
        self.shared.call();
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.leave();
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    const MIB: u64 = 1 << 20;

    /// I11.
    #[test]
    fn the_more_is_held_the_shorter_is_a_chunk_and_what_is_gone_makes_room() {
        let room = Room::new(64 << 20);
        let (mut held, mut lens) = (Vec::new(), Vec::new());
        while lens.last() != Some(&SHORT_BYTES) {
            let (len, lease) = room.chunk(16 << 20);
            lens.push(len);
            let len = usize::try_from(len).unwrap();
            let mut parts = vec![Bytes::from(vec![0; len - 1]), Bytes::from_static(b"x")];
            lease.count(&mut parts);
            assert_eq!(parts[1], &b"x"[..]);
            held.push(parts.pop());
            assert!(room.used() <= 64 << 20, "{}", room.used());
        }
        assert_eq!(lens[0], 4 << 20);
        assert!(lens.is_sorted_by(|before, after| before >= after));
        let least = lens.iter().filter(|len| **len == LEAST_BYTES).count();
        assert!(least >= 512, "half of the memory is for short ones: {least}");
        assert!(room.is_full() && !room.lease().grow_to(MIB));
        let used = room.used();
        let mut short = vec![Bytes::from_static(b"x")];
        room.chunk(16 << 20).1.count(&mut short);
        assert_eq!(room.used(), used, "the shortest are not counted");
        drop(held);
        assert_eq!(room.used(), 0);
        assert_eq!(room.chunk(10).0, 10, "what is asked for is the most");
        assert!(room.lease().grow_to(1 << 40), "nothing else is held");
    }

    /// I11.
    #[test]
    fn no_more_is_leased_than_there_is_and_an_answer_counts_as_long_as_it_is() {
        let room = Room::new(10 * MIB);
        let mut one = room.lease();
        assert!(one.grow_to(6 * MIB) && one.grow_to(6 * MIB));
        let mut two = room.lease();
        assert!(two.grow_to(3 * MIB) && !two.grow_to(5 * MIB));
        assert_eq!(room.used(), 9 * MIB, "what was refused takes nothing");
        drop(two);
        let len = usize::try_from(2 * MIB).unwrap();
        let bytes = one.counted(Bytes::from(vec![0; len]), len);
        assert_eq!(room.used(), 2 * MIB);
        let last = bytes.slice(len - 1..);
        drop(bytes);
        assert_eq!(room.used(), 2 * MIB, "a part keeps all of it");
        drop(last);
        assert_eq!(room.used(), 0);
        let mut short = room.lease();
        assert!(short.grow_to(MIB));
        drop(short.counted(Bytes::from_static(b"x"), 1));
        assert_eq!(room.used(), 0);
    }

    #[derive(Default)]
    struct Called(AtomicBool);

    impl Wake for Called {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn room_is_given_in_the_order_in_which_it_was_asked_for_and_nobody_is_forgotten() {
        let room = Room::new(10 * MIB);
        let mut held = room.lease();
        assert!(held.grow_to(10 * MIB));
        let wakers: Vec<Arc<Called>> = (0..3).map(|_| Arc::default()).collect();
        let mut queued: Vec<Queued> = [8, 1, 20].map(|mib| room.queue(mib * MIB)).into();
        let poll = |queued: &mut Queued, at: usize| {
            queued.poll(&Waker::from(Arc::clone(&wakers[at]))).is_ready()
        };
        let called = |at: usize| wakers[at].0.swap(false, Ordering::SeqCst);
        for (at, queued) in queued.iter_mut().enumerate() {
            assert!(!poll(queued, at));
        }
        held.set(5 * MIB);
        assert!(!called(0) && !called(1), "the first comes first");
        held.set(2 * MIB);
        assert!(called(0) && !called(1));
        assert!(!room.lease().grow_to(MIB), "who comes later does not get what it was called for");
        let lease = queued[0].take().expect("it was called");
        assert_eq!((room.used(), queued[0].is_over()), (10 * MIB, false));
        assert!(!called(1), "it has taken it");
        // It needs more, and is before the others still.
        queued[0].wait_for(9 * MIB);
        assert!(!poll(&mut queued[0], 0));
        drop(lease);
        assert!(!called(0) && !called(1));
        held.set(MIB);
        assert!(called(0) && !called(1) && queued[0].is_over());
        // It goes away instead: the next one has its place.
        drop(queued.remove(0));
        assert!(called(1) && poll(&mut queued[0], 1) && !called(2));
        drop(held);
        assert!(!called(2), "what was taken for the one before is held");
        drop(queued[0].take());
        assert!(called(2), "what is longer than all there is comes when nothing else is held");
        assert!(queued[1].is_over());
        drop(queued);
        assert_eq!(room.used(), 0);
        assert!(room.queue(MIB).is_over(), "with room there is no line");
    }

    /// I11.
    #[test]
    fn the_first_in_line_is_called_however_much_it_needs_and_however_many_come_meanwhile() {
        let room = Room::new(10 * MIB);
        let lease = || {
            let mut lease = room.lease();
            lease.grow_to(2 * MIB).then_some(lease)
        };
        let mut held: std::collections::VecDeque<Lease> =
            (0..5).map(|_| lease().unwrap()).collect();
        let called = Arc::<Called>::default();
        let waker = Waker::from(Arc::clone(&called));
        let mut large = room.queue(8 * MIB);
        assert!(large.poll(&waker).is_pending());
        let mut passed = 0;
        while !called.0.load(Ordering::SeqCst) {
            assert!(held.pop_front().is_some(), "all is given back, and it is not called");
            let newcomer = lease();
            passed += u64::from(newcomer.is_some()) * 2 * MIB;
            held.extend(newcomer);
        }
        assert_eq!(passed, 10 * MIB, "they pass it by no more than that");
        let given = large.take().expect("it was called");
        assert!(given.bytes == 8 * MIB && room.used() == 10 * MIB);
        drop(held);
        assert!(lease().is_some(), "behind it nobody waits");
        // Whoever would be refused for the sake of the line, gets into it.
        let mut second = room.queue(8 * MIB);
        assert!(second.poll(&waker).is_pending());
        for _ in 0..5 {
            assert!(room.queue(2 * MIB).is_over() && lease().is_some());
        }
        assert!(!room.queue(2 * MIB).is_over() && lease().is_none());
        assert_eq!(room.chunk(MIB).0, SHORT_BYTES, "there is always something to read");
        drop(second);
        assert!(room.queue(2 * MIB).is_over() && lease().is_some());
    }

    #[test]
    fn a_lease_whose_length_is_set_takes_no_more_than_the_longer_length_meanwhile() {
        let room = Room::new(10 * MIB);
        let mut lease = room.lease();
        assert!(lease.grow_to(6 * MIB));
        std::thread::scope(|scope| {
            // It looks for as long as the other one is at it.
            let watch = scope.spawn(|| (0..2_000_000).map(|_| room.used()).max());
            while !watch.is_finished() {
                lease.set(6 * MIB);
                lease.set(5 * MIB);
            }
            assert!(watch.join().unwrap() <= Some(6 * MIB));
        });
    }
}
