//! Bodies of requests: collected within limits of size, time and memory (I11).

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::failure::Failure;
use crate::app::App;
use crate::metrics::Limit;

/// Most bytes that are read and dropped so that a client whose body is too large hears of it.
const MOST_DROPPED: u64 = 64 << 20;
/// Longest time for the same.
const DROP_WITHIN: Duration = Duration::from_secs(5);

/// A body in memory.
#[derive(Debug)]
pub(crate) struct Collected<'a> {
    /// Its bytes.
    pub bytes: Bytes,
    _lease: Lease<'a>,
}

/// How much memory bodies take, all together.
#[derive(Debug)]
pub(crate) struct Budget {
    most: u64,
    used: AtomicU64,
}

/// A part of the budget.
#[derive(Debug)]
struct Lease<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Budget {
    /// Begins with nothing used.
    pub fn new(most: u64) -> Self {
        Self { most, used: AtomicU64::new(0) }
    }

    fn lease(&self) -> Lease<'_> {
        Lease { budget: self, bytes: 0 }
    }
}

impl Lease<'_> {
    /// Takes more; false when there is not so much left.
    fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let before = self.budget.used.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
        before + more <= self.budget.most
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Collects a body.
///
/// # Errors
/// [`Failure::Encoded`], [`Failure::BodyTooLarge`], [`Failure::BodyTooSlow`], [`Failure::Busy`],
/// [`Failure::BodyBroken`].
pub(crate) async fn collect<'a>(
    app: &'a App,
    headers: &HeaderMap,
    mut body: Incoming,
) -> Result<Collected<'a>, Failure> {
    let mut lease = app.bodies.lease();
    if body.is_end_stream() {
        return Ok(Collected { bytes: Bytes::new(), _lease: lease });
    }
    if is_encoded(headers) {
        return Err(Failure::Encoded);
    }
    let limit = app.settings.max_body_bytes.0;
    let promised = body.size_hint().exact();
    if promised.is_some_and(|len| len > limit) {
        return Err(too_large(app, headers, body).await);
    }
    if !lease.grow_to(promised.unwrap_or(0)) {
        app.metrics.hit(Limit::Bodies);
        return Err(Failure::Busy);
    }
    let mut timer = Timer { within: app.settings.body_timeout.0, sleep: None };
    let mut first = Bytes::new();
    let mut rest: Option<BytesMut> = None;
    let mut len = 0;
    while let Some(frame) = next(&mut body, &mut timer).await.inspect_err(|failure| {
        if *failure == Failure::BodyTooSlow {
            app.metrics.hit(Limit::BodyTime);
        }
    })? {
        let Ok(data) = frame.into_data() else { continue };
        len += to_u64(data.len());
        if len > limit {
            drop((first, rest));
            return Err(too_large(app, headers, body).await);
        }
        if !lease.grow_to(len) {
            app.metrics.hit(Limit::Bodies);
            return Err(Failure::Busy);
        }
        match &mut rest {
            None if first.is_empty() => first = data,
            None => {
                let expected = promised.map_or(len * 2, |promised| promised.max(len));
                let mut joined = BytesMut::with_capacity(to_usize(expected.min(limit)));
                joined.extend_from_slice(&first);
                joined.extend_from_slice(&data);
                rest = Some(joined);
            }
            Some(joined) => joined.extend_from_slice(&data),
        }
    }
    app.metrics.bytes_in.inc_by(len);
    Ok(Collected { bytes: rest.map_or(first, BytesMut::freeze), _lease: lease })
}

/// Whether the body is compressed, or anything else than it is.
fn is_encoded(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::CONTENT_ENCODING).iter();
    values
        .map(|value| value.as_bytes().trim_ascii())
        .any(|value| !value.is_empty() && !value.eq_ignore_ascii_case(b"identity"))
}

/// Reads on for a while and drops it: a client that is still sending would get a reset instead of
/// the answer. One that waits for the permission to send is answered at once.
async fn too_large(app: &App, headers: &HeaderMap, mut body: Incoming) -> Failure {
    app.metrics.hit(Limit::Body);
    let limit = app.settings.max_body_bytes.0;
    if !headers.contains_key(header::EXPECT) {
        let mut timer = Timer { within: DROP_WITHIN, sleep: None };
        let mut dropped = 0;
        while dropped < MOST_DROPPED
            && let Ok(Some(frame)) = next(&mut body, &mut timer).await
        {
            dropped += frame.data_ref().map_or(0, |data| to_u64(data.len()));
        }
    }
    Failure::BodyTooLarge { limit }
}

/// Gives the next frame; arms a timer only where it has to be waited for.
async fn next(body: &mut Incoming, timer: &mut Timer) -> Result<Option<Frame<Bytes>>, Failure> {
    std::future::poll_fn(|context| match Pin::new(&mut *body).poll_frame(context) {
        Poll::Ready(None) => Poll::Ready(Ok(None)),
        Poll::Ready(Some(Ok(frame))) => Poll::Ready(Ok(Some(frame))),
        Poll::Ready(Some(Err(_))) => Poll::Ready(Err(Failure::BodyBroken)),
        Poll::Pending => timer.poll(context).map(|()| Err(Failure::BodyTooSlow)),
    })
    .await
}

/// A timer that begins when it is first waited for, and does not begin again.
struct Timer {
    within: Duration,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let within = self.within;
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + within)));
        sleep.as_mut().poll(context)
    }
}

fn to_u64(len: usize) -> u64 {
    u64::try_from(len).expect("lengths have 64 bits at most")
}

fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_leased_is_given_back_and_no_more_than_the_budget_is_given() {
        let budget = Budget::new(100);
        let mut one = budget.lease();
        assert!(one.grow_to(60) && one.grow_to(60));
        let mut two = budget.lease();
        assert!(!two.grow_to(50));
        drop(two);
        assert!(one.grow_to(100));
        drop(one);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn only_identity_is_no_encoding() {
        let headers = |value: &str| {
            HeaderMap::from_iter([(header::CONTENT_ENCODING, value.parse().unwrap())])
        };
        for value in ["gzip", "br", "identity, gzip", "x"] {
            assert!(is_encoded(&headers(value)), "{value}");
        }
        for value in ["identity", "Identity ", ""] {
            assert!(!is_encoded(&headers(value)), "{value}");
        }
    }
}
