//! What a connection is doing, so that one timer can end those that do nothing (I11).
//!
//! The stream and the requests of a connection write it; whoever goes the rounds reads it now and
//! then, and leaves an order for the connection's task. Nothing here arms a timer.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

/// How long a connection may take for what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For the head of a request, from its first byte.
    pub head: Duration,
    /// Between requests.
    pub idle: Duration,
    /// For the client to take anything of an answer.
    pub write: Duration,
    /// For the connection as a whole, until it is asked to end.
    pub age: Duration,
}

/// What to do with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Fine,
    /// Let running requests end, and take no more.
    AskToEnd,
    /// Close it now.
    Cut(&'static str),
}

/// What a connection is doing.
#[derive(Debug)]
pub(crate) struct Watch {
    born: Instant,
    requests: AtomicU32,
    is_http2: AtomicBool,
    /// Bytes of a head have come since the last request ended.
    is_in_head: AtomicBool,
    /// Milliseconds after `born` at which the present phase began.
    phase_ms: AtomicU64,
    /// The same for a write that makes no progress, plus one; zero where none waits.
    stalled_ms: AtomicU64,
    /// An [`Order`].
    order: AtomicU8,
    /// The connection's task. Its waker stays the same as long as it lives.
    task: OnceLock<Waker>,
}

/// What a connection's task is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Go on.
    GoOn = 0,
    /// Let running requests end, and take no more.
    End = 1,
    /// The server stops: end live answers, too.
    Stop = 2,
    /// Close now.
    Close = 3,
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch {
    /// Begins with an idle connection.
    pub fn new() -> Self {
        Self {
            born: Instant::now(),
            requests: AtomicU32::new(0),
            is_http2: AtomicBool::new(false),
            is_in_head: AtomicBool::new(false),
            phase_ms: AtomicU64::new(0),
            stalled_ms: AtomicU64::new(0),
            order: AtomicU8::new(0),
            task: OnceLock::new(),
        }
    }

    /// Gives the order of whoever goes the rounds; the task asks each time it is woken.
    pub fn order(&self, task: &Waker) -> Order {
        if self.task.get().is_none() {
            self.task.get_or_init(|| task.clone());
            // Of this task and whoever gives an order meanwhile one sees the other.
            fence(Ordering::SeqCst);
        }
        match self.order.load(Ordering::Acquire) {
            0 => Order::GoOn,
            1 => Order::End,
            2 => Order::Stop,
            _ => Order::Close,
        }
    }

    /// Gives an order, and wakes the task if it is another one; false where it is not.
    pub fn give(&self, order: Order) -> bool {
        let is_new = self.order.fetch_max(order as u8, Ordering::AcqRel) < order as u8;
        fence(Ordering::SeqCst);
        if is_new && let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
        is_new
    }

    /// Whether the connection is as old as that.
    pub fn is_older_than(&self, age: Duration) -> bool {
        self.born.elapsed() >= age
    }

    /// Notes a request; it lasts until what is returned is dropped.
    pub fn request(self: &Arc<Self>, version: http::Version) -> Flight {
        let others = self.requests.fetch_add(1, Ordering::Relaxed);
        self.is_in_head.store(false, Ordering::Relaxed);
        if version == http::Version::HTTP_2 {
            self.is_http2.store(true, Ordering::Relaxed);
        }
        Flight { watch: Arc::clone(self), others, ended: None }
    }

    /// Notes bytes that came.
    pub fn has_read(&self) {
        if self.requests.load(Ordering::Relaxed) == 0 && !self.is_in_head.load(Ordering::Relaxed) {
            self.phase_ms.store(self.now_ms(), Ordering::Relaxed);
            self.is_in_head.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that the client took something.
    pub fn has_written(&self) {
        if self.stalled_ms.load(Ordering::Relaxed) != 0 {
            self.stalled_ms.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that the client takes nothing at the moment.
    pub fn is_stalled(&self) {
        if self.stalled_ms.load(Ordering::Relaxed) == 0 {
            self.stalled_ms.store(self.now_ms() + 1, Ordering::Relaxed);
        }
    }

    /// Whether there is something to write that the client does not take: all else that was given
    /// to the stream is on its way.
    pub fn is_writing(&self) -> bool {
        self.stalled_ms.load(Ordering::Relaxed) != 0
    }

    /// Whether no request is on its way, and none has been for so long.
    pub fn rests_for(&self, time: Duration) -> bool {
        let phase = Duration::from_millis(self.phase_ms.load(Ordering::Relaxed));
        self.requests.load(Ordering::Relaxed) == 0 && self.born.elapsed() >= phase + time
    }

    /// Says what to do with the connection.
    pub fn judge(&self, patience: &Patience) -> Verdict {
        let now_ms = self.now_ms();
        let since = |ms: u64| Duration::from_millis(now_ms.saturating_sub(ms));
        let stalled_ms = self.stalled_ms.load(Ordering::Relaxed);
        if stalled_ms != 0 && since(stalled_ms - 1) > patience.write {
            return Verdict::Cut("the client takes nothing");
        }
        let age = since(0);
        if age > patience.age * 2 {
            return Verdict::Cut("the connection is too old");
        }
        if self.requests.load(Ordering::Relaxed) == 0 {
            let phase = since(self.phase_ms.load(Ordering::Relaxed));
            // HTTP/2 clients send frames that belong to no request.
            let is_http2 = self.is_http2.load(Ordering::Relaxed);
            let is_in_head = self.is_in_head.load(Ordering::Relaxed) && !is_http2;
            if is_in_head && phase > patience.head {
                return Verdict::Cut("the head of a request does not end");
            }
            if phase > patience.idle * 2 {
                return Verdict::Cut("the connection is idle and does not end");
            }
            if phase > patience.idle {
                return Verdict::AskToEnd;
            }
        }
        if age > patience.age { Verdict::AskToEnd } else { Verdict::Fine }
    }

    fn now_ms(&self) -> u64 {
        self.ms_at(Instant::now())
    }

    fn ms_at(&self, time: Instant) -> u64 {
        u64::try_from((time - self.born).as_millis()).unwrap_or(u64::MAX)
    }
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    watch: Arc<Watch>,
    others: u32,
    ended: Option<Instant>,
}

impl Flight {
    /// Number of others that were on their way when it began.
    pub fn others(&self) -> u32 {
        self.others
    }

    /// Ends it, at a time that is known.
    pub fn end(mut self, now: Instant) {
        self.ended = Some(now);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if self.watch.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            let ended = self.ended.unwrap_or_else(Instant::now);
            self.watch.phase_ms.store(self.watch.ms_at(ended), Ordering::Relaxed);
            self.watch.is_in_head.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        write: Duration::from_secs(30),
        age: Duration::from_secs(1000),
    };

    async fn pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_end_is_cut_and_one_that_comes_late_is_not() {
        let watch = Arc::new(Watch::new());
        pass(50).await;
        assert_eq!(watch.judge(&PATIENCE), Verdict::Fine);
        watch.has_read();
        pass(9).await;
        watch.has_read();
        assert_eq!(watch.judge(&PATIENCE), Verdict::Fine);
        pass(2).await;
        assert!(matches!(watch.judge(&PATIENCE), Verdict::Cut(_)), "bytes do not buy time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_running_request_is_never_idle_and_an_idle_connection_is_asked_to_end() {
        let watch = Arc::new(Watch::new());
        watch.has_read();
        let flight = watch.request(http::Version::HTTP_11);
        pass(500).await;
        watch.has_read();
        assert_eq!(watch.judge(&PATIENCE), Verdict::Fine);
        drop(flight);
        pass(59).await;
        assert_eq!(watch.judge(&PATIENCE), Verdict::Fine);
        pass(2).await;
        assert_eq!(watch.judge(&PATIENCE), Verdict::AskToEnd);
        pass(60).await;
        assert!(matches!(watch.judge(&PATIENCE), Verdict::Cut(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut_and_one_that_takes_slowly_is_not() {
        let watch = Arc::new(Watch::new());
        let _flight = watch.request(http::Version::HTTP_11);
        for _ in 0..5 {
            watch.is_stalled();
            pass(29).await;
            assert_eq!(watch.judge(&PATIENCE), Verdict::Fine);
            watch.has_written();
        }
        watch.is_stalled();
        pass(15).await;
        watch.is_stalled();
        pass(16).await;
        assert!(matches!(watch.judge(&PATIENCE), Verdict::Cut(_)));
    }

    #[test]
    fn a_connection_that_was_asked_to_end_hears_of_it_when_the_server_stops() {
        let watch = Watch::new();
        let heard = Arc::new(Heard::default());
        let waker = Waker::from(Arc::clone(&heard));
        assert_eq!(watch.order(&waker), Order::GoOn);
        for (order, calls) in [(Order::End, 1), (Order::End, 1), (Order::Stop, 2), (Order::End, 2)]
        {
            watch.give(order);
            assert_eq!(heard.0.load(Ordering::Relaxed), calls, "{order:?}");
        }
        assert_eq!(watch.order(&waker), Order::Stop);
    }

    #[derive(Default)]
    struct Heard(AtomicU32);

    impl std::task::Wake for Heard {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frames_of_an_http2_client_between_requests_are_no_head() {
        let watch = Arc::new(Watch::new());
        drop(watch.request(http::Version::HTTP_2));
        watch.has_read();
        pass(30).await;
        assert_eq!(watch.judge(&PATIENCE), Verdict::Fine);
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_connection_is_asked_to_end_and_then_cut_whatever_it_does() {
        let watch = Arc::new(Watch::new());
        let _flight = watch.request(http::Version::HTTP_2);
        pass(1001).await;
        assert_eq!(watch.judge(&PATIENCE), Verdict::AskToEnd);
        pass(1000).await;
        assert!(matches!(watch.judge(&PATIENCE), Verdict::Cut(_)));
    }
}
