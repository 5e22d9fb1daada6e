//! Bodies of requests: collected within limits of size, time and memory (I11).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::budget::Lease;
use super::failure::Failure;
use super::fields;
use crate::app::App;
use crate::net::bell::{self, Rung};

/// Most bytes that are read and dropped so that a client whose body is too large hears of it.
const MOST_DROPPED: u64 = 64 << 20;
/// Longest time for the same.
const DROP_WITHIN: Duration = Duration::from_secs(5);

/// A body in memory. Work on it that outlives its request takes all of this along.
#[derive(Debug)]
pub(crate) struct Collected {
    /// Its bytes.
    pub bytes: Bytes,
    _lease: Lease,
}

/// Collects a body. What is announced takes nothing, only what has come: whoever sends nothing
/// keeps no memory from the others.
///
/// # Errors
/// [`Failure::Encoded`], [`Failure::BodyTooLarge`], [`Failure::BodyTooSlow`], [`Failure::Busy`],
/// [`Failure::BodyBroken`].
pub(crate) async fn collect(
    app: &App,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Collected, Failure> {
    collect_up_to(app, headers, (body, u64::MAX)).await
}

/// Collects a body that has a lower limit than all have.
///
/// # Errors
/// As [`collect`].
pub(crate) async fn collect_up_to(
    app: &App,
    headers: &HeaderMap,
    (mut body, limit): (Incoming, u64),
) -> Result<Collected, Failure> {
    let mut gathered = Gathered::new(app.bodies.lease());
    if body.is_end_stream() {
        return Ok(gathered.collected());
    }
    if is_encoded(headers) {
        return Err(Failure::Encoded);
    }
    let limit = limit.min(app.settings.max_body_bytes.0);
    let promised = body.size_hint().exact();
    if promised.is_some_and(|len| len > limit) {
        return Err(too_large(headers, (body, limit)).await);
    }
    let most = promised.unwrap_or(limit);
    let mut timer = Timer { within: app.settings.body_timeout.0, sleep: None };
    while let Some(frame) = next(&mut body, &mut timer).await? {
        let Ok(data) = frame.into_data() else { continue };
        if gathered.len() + to_u64(data.len()) > limit {
            drop(gathered);
            return Err(too_large(headers, (body, limit)).await);
        }
        if !gathered.push(data, most) {
            return Err(Failure::Busy);
        }
        if body.is_end_stream() {
            break;
        }
    }
    app.metrics.bytes_in.inc_by(gathered.len());
    Ok(gathered.collected())
}

/// What has come of a body.
#[derive(Debug)]
struct Gathered {
    /// As it came, as long as it is one piece.
    first: Bytes,
    /// Otherwise all of it.
    joined: Vec<u8>,
    lease: Lease,
}

impl Gathered {
    fn new(lease: Lease) -> Self {
        Self { first: Bytes::new(), joined: Vec::new(), lease }
    }

    fn len(&self) -> u64 {
        to_u64(self.first.len() + self.joined.len())
    }

    /// Takes another piece of a body that has so many bytes at most; false where there is no
    /// memory.
    fn push(&mut self, piece: Bytes, most: u64) -> bool {
        let len = self.len() + to_u64(piece.len());
        if self.len() == 0 {
            self.first = piece;
            return self.lease.grow_to(len);
        }
        if len > to_u64(self.joined.capacity()) {
            // Twice as much each time, but no more than there will be.
            let capacity = (2 * len).min(most.max(len));
            if !self.lease.grow_to(capacity) {
                return false;
            }
            self.joined.reserve_exact(to_usize(capacity) - self.joined.len());
        }
        self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        self.joined.extend_from_slice(&piece);
        true
    }

    fn collected(self) -> Collected {
        let bytes = if self.joined.is_empty() { self.first } else { self.joined.into() };
        Collected { bytes, _lease: self.lease }
    }
}

/// Whether the body is compressed, or anything else than it is.
fn is_encoded(headers: &HeaderMap) -> bool {
    if fields::first(headers, &header::CONTENT_ENCODING).is_none() {
        return false;
    }
    let values = headers.get_all(header::CONTENT_ENCODING).iter();
    values
        .map(|value| value.as_bytes().trim_ascii())
        .any(|value| !value.is_empty() && !value.eq_ignore_ascii_case(b"identity"))
}

/// Reads on for a while and drops it: a client that is still sending would get a reset instead of
/// the answer. One that waits for the permission to send is answered at once.
async fn too_large(headers: &HeaderMap, (mut body, limit): (Incoming, u64)) -> Failure {
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
    std::future::poll_fn(|context| match poll_frame(body, context) {
        Poll::Ready(None) => Poll::Ready(Ok(None)),
        Poll::Ready(Some(Ok(frame))) => Poll::Ready(Ok(Some(frame))),
        Poll::Ready(Some(Err(_))) => Poll::Ready(Err(Failure::BodyBroken)),
        Poll::Pending => timer.poll(context).map(|()| Err(Failure::BodyTooSlow)),
    })
    .await
}

/// Asks for the next frame. The connection need not hear that it was taken if it was the last:
/// the answer goes through its hands before it can wait for anything else.
fn poll_frame(
    body: &mut Incoming,
    context: &mut Context<'_>,
) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
    let (frame, rung) = bell::held(|| Pin::new(&mut *body).poll_frame(context));
    let is_last = matches!(frame, Poll::Ready(Some(Ok(_)))) && body.is_end_stream();
    if rung == Rung::Yes && !is_last {
        context.waker().wake_by_ref();
    }
    frame
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
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use http::{Request, Response};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::http::budget::Budget;
    use crate::http::reply::Reply;
    use crate::net::bell::tests::Count;

    /// I11.
    #[test]
    fn a_body_takes_the_memory_of_what_has_come_and_at_most_twice_that() {
        for (pieces, most) in [(vec![1000], 1000), (vec![60; 50], 3000), (vec![7; 99], 1 << 20)] {
            let budget = Arc::new(Budget::new(1 << 20));
            let mut gathered = Gathered::new(budget.lease());
            let mut whole = Vec::new();
            for (number, len) in pieces.into_iter().enumerate() {
                let piece = vec![u8::try_from(number).unwrap(); len];
                whole.extend_from_slice(&piece);
                assert!(gathered.push(piece.into(), most));
                let used = budget.used();
                let least = to_u64(whole.len());
                assert!((least..=2 * least).contains(&used), "{used} for {least}");
            }
            let used = budget.used();
            assert!(used <= most, "{used} of {most}");
            assert_eq!(gathered.collected().bytes, whole);
            assert_eq!(budget.used(), 0);
        }
        let budget = Arc::new(Budget::new(100));
        let mut gathered = Gathered::new(budget.lease());
        assert!(gathered.push(vec![0; 60].into(), 1000));
        assert!(!gathered.push(vec![0; 60].into(), 1000));
    }

    /// Polls a connection of HTTP/1 once, whose request has read a piece of its body then; says
    /// whether it asks to be polled again.
    async fn asks_again(request: &[u8]) -> bool {
        let (mut client, server) = tokio::io::duplex(1 << 10);
        client.write_all(request).await.unwrap();
        let taken = AtomicU32::new(0);
        let service = service_fn(async |request: Request<Incoming>| {
            let mut body = request.into_body();
            let frame = poll_fn(|context| poll_frame(&mut body, context)).await;
            assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), "hello");
            taken.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<Result<Response<Reply>, Infallible>>().await
        });
        let mut connection =
            pin!(http1::Builder::new().serve_connection(TokioIo::new(server), service));
        let count = Arc::new(Count::default());
        let own = bell::new(&Arc::clone(&count).into());
        let polled = connection.as_mut().poll(&mut Context::from_waker(&own));
        assert!(polled.is_pending());
        assert_eq!(taken.load(Ordering::Relaxed), 1);
        count.0.load(Ordering::Relaxed) > 0
    }

    #[tokio::test]
    async fn a_connection_is_polled_again_for_a_body_only_where_more_of_it_may_come() {
        assert!(!asks_again(b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello").await);
        assert!(asks_again(b"POST / HTTP/1.1\r\ncontent-length: 6\r\n\r\nhello").await);
        let pieces = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0";
        assert!(asks_again(pieces).await);
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
