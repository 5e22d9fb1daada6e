//! Bodies of answers: nothing, bytes in parts, or events that go on. Events of HTTP/1 are taken out
//! and go past hyper; those of HTTP/2 are a body as all others.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::net::watch::Flight;

use super::sse::Events;

/// The body of an answer. Its request counts as running until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    content: Content,
    flight: Option<Flight>,
}

#[derive(Debug, Default)]
enum Content {
    #[default]
    Nothing,
    One(Bytes),
    Parts {
        parts: std::vec::IntoIter<Bytes>,
        left: u64,
    },
    Events {
        events: Box<Events>,
        stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    },
    /// Somebody else gives them.
    Elsewhere,
}

impl Reply {
    /// Takes bytes.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Self::default();
        }
        Self { content: Content::One(bytes), flight: None }
    }

    /// Takes bytes in parts.
    pub fn parts(parts: Vec<Bytes>) -> Self {
        let left: usize = parts.iter().map(Bytes::len).sum();
        let left = u64::try_from(left).expect("lengths have 64 bits at most");
        match parts.len() {
            0 => Self::default(),
            1 => Self::bytes(parts.into_iter().next().unwrap_or_default()),
            _ => Self { content: Content::Parts { parts: parts.into_iter(), left }, flight: None },
        }
    }

    /// Takes events, and what ends them when the server stops.
    pub fn events(events: Events, stopping: CancellationToken) -> Self {
        let (events, stopping) = (Box::new(events), Box::pin(stopping.cancelled_owned()));
        Self { content: Content::Events { events, stopping }, flight: None }
    }

    /// Takes events out, if it is those: it never gives anything then, nor ends.
    pub fn take_events(&mut self) -> Option<Box<Events>> {
        match std::mem::replace(&mut self.content, Content::Elsewhere) {
            Content::Events { events, .. } => Some(events),
            other => {
                self.content = other;
                None
            }
        }
    }

    /// Lets the request count as running until the body is gone.
    pub fn carry(&mut self, flight: Flight) {
        self.flight = Some(flight);
    }

    /// Number of bytes, where it is known.
    pub fn len(&self) -> Option<u64> {
        match &self.content {
            Content::Nothing => Some(0),
            Content::One(bytes) => u64::try_from(bytes.len()).ok(),
            Content::Parts { left, .. } => Some(*left),
            Content::Events { .. } | Content::Elsewhere => None,
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let next = match &mut this.content {
            Content::Nothing => None,
            Content::One(bytes) => {
                let bytes = std::mem::take(bytes);
                this.content = Content::Nothing;
                Some(bytes)
            }
            Content::Parts { parts, left } => {
                let next = parts.find(|part| !part.is_empty());
                let len = next.as_ref().map_or(0, Bytes::len);
                *left -= u64::try_from(len).expect("lengths have 64 bits at most");
                next
            }
            Content::Events { events, stopping } => {
                if stopping.as_mut().poll(context).is_ready() {
                    events.end();
                }
                ready!(events.poll_next(context)).map(|said| said.bytes())
            }
            Content::Elsewhere => return Poll::Pending,
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.len() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.len().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
