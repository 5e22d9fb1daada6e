//! Memory that requests share, counted in bytes (I11).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::request::Parts;

/// Requests of HTTP/2 on one connection that are not counted.
const FREE_REQUESTS: u32 = 4;
/// What a request takes that is under way, bytes, beside its head. Resident memory of a release
/// build grew by 9.9 KiB for each of 9800 long-polls on 40 connections, by 10.5 KiB for an append
/// whose body had not come, 10.9 KiB for one that waited for its commit, 11.4 KiB for a reader of
/// events, and 11.8 KiB for an answer of 1000 bytes that was not taken.
const REQUEST_BYTES: u64 = 12 << 10;
/// Heads up to this size are not counted where their requests are not, bytes.
const FREE_HEAD_BYTES: u64 = 8 << 10;
/// What takes up to this much takes little, bytes.
const LITTLE_BYTES: u64 = 64 << 10;
/// What a header takes beside its text, bytes, where it was measured as above: 283 at most, for
/// each of 25; 200 where there are hundreds.
const HEADER_BYTES: usize = 288;
/// How much more than its length text takes as it is decoded, where it was measured as above: 2.1
/// for a header of 4 or 15 KB, 1.3 for four of 15 KB.
const TEXT_FACTOR: usize = 2;

/// How much memory something takes, all together.
#[derive(Debug)]
pub(crate) struct Budget {
    most: u64,
    used: AtomicU64,
}

/// A part of a budget, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: Arc<Budget>,
    bytes: u64,
}

/// What a request of HTTP/2 takes of the memory for requests.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Until its answer is gone.
    pub request: Option<Lease>,
    /// Until its answer is begun.
    pub head: Option<Lease>,
}

impl Budget {
    /// Begins with nothing used.
    pub fn new(most: u64) -> Self {
        Self { most, used: AtomicU64::new(0) }
    }

    /// Takes nothing yet.
    pub fn lease(self: &Arc<Self>) -> Lease {
        Lease { budget: Arc::clone(self), bytes: 0 }
    }

    /// Takes what a request of HTTP/2 needs that comes beside so many others of its connection;
    /// nothing where there is no room. A connection of HTTP/1 has one request at a time, and of
    /// HTTP/2 most have a few: those take nothing.
    pub fn admit(self: &Arc<Self>, others: u32, parts: &Parts) -> Option<Taken> {
        let head_bytes = head_bytes(parts);
        let is_free = others < FREE_REQUESTS;
        let request = if is_free { 0 } else { REQUEST_BYTES };
        let head = if is_free && head_bytes <= FREE_HEAD_BYTES { 0 } else { head_bytes };
        let take = |bytes: u64| {
            let mut lease = self.lease();
            lease.grow_to(bytes).then_some(lease)
        };
        let request = if request > 0 { Some(take(request)?) } else { None };
        let head = if head > 0 { Some(take(head)?) } else { None };
        Some(Taken { request, head })
    }

    /// Bytes in use.
    #[cfg(test)]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Lease {
    /// Takes more; takes nothing, and is false, when there is not so much left. Those that take
    /// much leave an eighth to those that take little: a few slow ones keep no others out.
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let budget = &*self.budget;
        let grown = |used: u64| {
            let is_alone = used == self.bytes;
            let kept = if bytes > LITTLE_BYTES && !is_alone { budget.most / 8 } else { 0 };
            used.checked_add(more).filter(|used| *used <= budget.most - kept)
        };
        let is_there =
            budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok();
        if is_there {
            self.bytes = bytes;
        }
        is_there
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// What a head takes, bytes, about.
fn head_bytes(parts: &Parts) -> u64 {
    let target = parts.uri.path_and_query().map_or(0, |target| target.as_str().len());
    let headers = parts.headers.iter();
    let headers = headers
        .map(|(name, value)| TEXT_FACTOR * (name.as_str().len() + value.len()) + HEADER_BYTES);
    u64::try_from(TEXT_FACTOR * target + headers.sum::<usize>())
        .expect("lengths have 64 bits at most")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_leased_is_given_back_and_no_more_than_the_budget_is_given() {
        let budget = Arc::new(Budget::new(100));
        let mut one = budget.lease();
        assert!(one.grow_to(60) && one.grow_to(60));
        let mut two = budget.lease();
        assert!(!two.grow_to(50));
        drop(two);
        assert!(one.grow_to(100));
        drop(one);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_takes_much_leaves_room_to_what_takes_little_and_alone_has_all() {
        let budget = Arc::new(Budget::new(1 << 20));
        let mut large = [budget.lease(), budget.lease()];
        assert!(large[0].grow_to(600 << 10));
        assert!(!large[1].grow_to(300 << 10) && large[1].grow_to(200 << 10));
        let mut little = budget.lease();
        assert!(little.grow_to(64 << 10));
        drop((large, little));
        assert!(budget.lease().grow_to(1 << 20));
        assert_eq!(budget.used(), 0);
    }

    fn parts(headers: usize, len: usize) -> Parts {
        let mut request = http::Request::builder();
        for number in 0..headers {
            request = request.header(format!("x-{number}"), "v".repeat(len));
        }
        request.body(()).unwrap().into_parts().0
    }

    /// I11.
    #[test]
    fn many_requests_of_a_connection_and_long_heads_count_and_others_do_not() {
        let budget = Arc::new(Budget::new(100 << 10));
        let few: Vec<Taken> =
            (0..4).map(|others| budget.admit(others, &parts(20, 40)).unwrap()).collect();
        assert_eq!(budget.used(), 0);
        let long = budget.admit(0, &parts(1, 25 << 10)).unwrap();
        assert!(budget.used() > 50 << 10);
        assert!(budget.admit(0, &parts(1, 25 << 10)).is_none());
        assert!(budget.admit(0, &parts(1000, 1)).is_none(), "short ones are many");
        let used = budget.used();
        let many: Vec<Taken> =
            (4..).map_while(|others| budget.admit(others, &parts(1, 1))).collect();
        assert!((3..=4).contains(&many.len()), "{}", many.len());
        drop(long.head);
        assert!(budget.used() < used);
        drop((long.request, few, many));
        assert_eq!(budget.used(), 0);
        let short = budget.admit(4, &parts(10, 10)).unwrap();
        assert!(budget.used() > REQUEST_BYTES + 3000, "where requests count, so do short heads");
        drop(short.head);
        assert_eq!(budget.used(), REQUEST_BYTES);
    }
}
