//! Bodies of answers: nothing, bytes in parts, or events that go on.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

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
    Events(Box<Events>),
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

    /// Takes events.
    pub fn events(events: Events) -> Self {
        Self { content: Content::Events(Box::new(events)), flight: None }
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
            Content::Events(_) => None,
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
            Content::Events(events) => match events.poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(next) => next,
            },
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
