//! What HTTP/2 clients take of their answers, each by itself (I11): a client chooses how much of
//! which answer it lets come, so that one which takes nothing need not keep its connection from
//! moving. An answer of which nothing is taken for too long is dropped, with all it held, and the
//! client told by a reset; the other answers of the connection go on.
//!
//! hyper asks an answer for more when what it was given before may leave. So an answer gives
//! little at a time, and keeps a last byte back: what is not taken stays with the answer, and
//! goes with it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::Sleep;

use crate::app::App;
use crate::metrics::Limit;

tokio::task_local! {
    /// Of the request that is polled.
    static TAKING: Taking;
}

/// Whether an answer waits for its client. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Taking(Arc<AtomicU64>);

impl Taking {
    /// Finds that of the request that is polled; there is one for requests of HTTP/2.
    pub fn here() -> Option<Self> {
        TAKING.try_with(Clone::clone).ok()
    }

    /// Notes that a piece is given, by its number, from 1 on.
    pub fn gives(&self, piece: u64) {
        self.0.store(piece, Ordering::Relaxed);
    }

    /// Notes that the client has had all that there is.
    pub fn has_all(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Number of the piece that the client does not take.
    fn waits(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|piece| *piece > 0)
    }
}

/// Runs requests of HTTP/2, and ends those whose answer is not taken.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    app: Arc<App>,
    patience: Duration,
}

impl Requests {
    /// Takes how long an answer may wait.
    pub fn new(app: Arc<App>) -> Self {
        let patience = app.settings.write_timeout.0;
        Self { app, patience }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Requests {
    fn execute(&self, request: F) {
        let (app, patience) = (Arc::clone(&self.app), self.patience);
        tokio::spawn(async move {
            if until_it_stalls(request, patience).await == End::Stalled {
                app.metrics.hit(Limit::Untaken);
                tracing::debug!("an answer of which nothing is taken is dropped");
            }
        });
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Stalled,
}

/// Polls a request to its end, or until the client has taken nothing for so long, about: up to
/// twice that, since a timer is not armed anew for each piece.
async fn until_it_stalls(request: impl Future<Output = ()>, patience: Duration) -> End {
    let taking = Taking::default();
    let mut request = pin!(TAKING.scope(taking.clone(), request));
    let mut timer: Option<(u64, std::pin::Pin<Box<Sleep>>)> = None;
    std::future::poll_fn(|context| {
        if request.as_mut().poll(context).is_ready() {
            return Poll::Ready(End::Done);
        }
        let Some(piece) = taking.waits() else {
            timer = None;
            return Poll::Pending;
        };
        let (armed_for, sleep) =
            timer.get_or_insert_with(|| (piece, Box::pin(tokio::time::sleep(patience))));
        while sleep.as_mut().poll(context).is_ready() {
            if *armed_for == piece {
                return Poll::Ready(End::Stalled);
            }
            *armed_for = piece;
            sleep.set(tokio::time::sleep(patience));
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// An answer whose pieces are taken so far apart, as often as that.
    async fn answer(apart: Duration, pieces: u64) {
        let taking = Taking::here().unwrap();
        for piece in 1..=pieces {
            taking.gives(piece);
            tokio::time::sleep(apart).await;
        }
        taking.has_all();
        tokio::time::sleep(PATIENCE * 10).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_taken_ends_and_one_that_is_taken_slowly_does_not() {
        let slow = answer(Duration::from_secs(29), 20);
        assert_eq!(until_it_stalls(slow, PATIENCE).await, End::Done);
        let started = tokio::time::Instant::now();
        let stalled = answer(PATIENCE * 100, 20);
        assert_eq!(until_it_stalls(stalled, PATIENCE).await, End::Stalled);
        assert!(started.elapsed() < PATIENCE * 2);
        assert!(Taking::here().is_none(), "it is that of one request");
    }
}
