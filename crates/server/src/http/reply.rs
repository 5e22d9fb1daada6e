//! Bodies of answers: nothing, bytes in parts, or events that go on. Events of HTTP/1 are taken out
//! and go past hyper; those of HTTP/2 are a body as all others.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::net::taking::Taking;
use crate::net::watch::Flight;

use super::budget::Lease;
use super::sse::Events;

/// Most that is given at once to a client which may take none of it, bytes: a frame of HTTP/2.
const PIECE_BYTES: usize = 16 << 10;
/// Answers up to this length are given whole, bytes: who does not take them holds no more than
/// their request did.
const SHORT_BYTES: u64 = 1 << 10;

/// The body of an answer. Its request counts as running until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    content: Content,
    flight: Option<Flight>,
    /// Where the answer is given piece by piece.
    pieces: Option<Pieces>,
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

/// An answer that is given piece by piece, so that what is not taken stays here.
#[derive(Debug)]
struct Pieces {
    taking: Taking,
    /// Number of the last one.
    number: u64,
    /// What comes before more of the content.
    rest: Bytes,
    /// The last byte of a long answer is a piece of its own: whoever asks for it has taken, or
    /// let come, all before.
    ending: Ending,
    /// What the request takes.
    _room: Option<Lease>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    WithTheRest,
    Apart,
}

impl Reply {
    /// Takes bytes.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Self::default();
        }
        Self { content: Content::One(bytes), ..Self::default() }
    }

    /// Takes bytes in parts.
    pub fn parts(parts: Vec<Bytes>) -> Self {
        let left: usize = parts.iter().map(Bytes::len).sum();
        let left = u64::try_from(left).expect("lengths have 64 bits at most");
        match parts.len() {
            0 => Self::default(),
            1 => Self::bytes(parts.into_iter().next().unwrap_or_default()),
            _ => {
                let content = Content::Parts { parts: parts.into_iter(), left };
                Self { content, ..Self::default() }
            }
        }
    }

    /// Takes events, and what ends them when the server stops.
    pub fn events(events: Events, stopping: CancellationToken) -> Self {
        let (events, stopping) = (Box::new(events), Box::pin(stopping.cancelled_owned()));
        Self { content: Content::Events { events, stopping }, ..Self::default() }
    }

    /// Has bytes held by what is made of them.
    ///
    /// # Errors
    /// What `by` gives.
    pub fn hold<E>(&mut self, by: impl FnOnce(Bytes) -> Result<Bytes, E>) -> Result<(), E> {
        if let Content::One(bytes) = &mut self.content {
            *bytes = by(std::mem::take(bytes))?;
        }
        Ok(())
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

    /// The same for an answer of HTTP/2, which is given piece by piece.
    pub fn carry_in_pieces(&mut self, flight: Flight, taking: Option<Taking>, room: Option<Lease>) {
        let is_short = self.len().is_some_and(|len| len <= SHORT_BYTES);
        let ending = if is_short { Ending::WithTheRest } else { Ending::Apart };
        let (number, rest) = (0, Bytes::new());
        self.pieces = taking.map(|taking| Pieces { taking, number, rest, ending, _room: room });
        self.carry(flight);
    }

    /// Number of bytes, where it is known.
    pub fn len(&self) -> Option<u64> {
        let rest = self.pieces.as_ref().map_or(0, |pieces| pieces.rest.len());
        Some(self.content.len()? + u64::try_from(rest).expect("lengths have 64 bits at most"))
    }
}

impl Content {
    fn len(&self) -> Option<u64> {
        match self {
            Self::Nothing => Some(0),
            Self::One(bytes) => u64::try_from(bytes.len()).ok(),
            Self::Parts { left, .. } => Some(*left),
            Self::Events { .. } | Self::Elsewhere => None,
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Poll::Ready(match self {
            Self::Nothing => None,
            Self::One(bytes) => {
                let bytes = std::mem::take(bytes);
                *self = Self::Nothing;
                Some(bytes)
            }
            Self::Parts { parts, left } => {
                let next = parts.find(|part| !part.is_empty());
                let len = next.as_ref().map_or(0, Bytes::len);
                *left -= u64::try_from(len).expect("lengths have 64 bits at most");
                next
            }
            Self::Events { events, stopping } => {
                if stopping.as_mut().poll(context).is_ready() {
                    events.end();
                }
                ready!(events.poll_next(context)).map(|said| said.bytes())
            }
            Self::Elsewhere => return Poll::Pending,
        })
    }
}

impl Pieces {
    fn poll_next(
        &mut self,
        content: &mut Content,
        context: &mut Context<'_>,
    ) -> Poll<Option<Bytes>> {
        if self.rest.is_empty() {
            self.taking.has_all();
            let Some(bytes) = ready!(content.poll_next(context)) else { return Poll::Ready(None) };
            self.rest = bytes;
        }
        let is_last = self.rest.len() <= PIECE_BYTES && content.len() == Some(0);
        let len = if is_last && self.ending == Ending::Apart && self.rest.len() > 1 {
            self.rest.len() - 1
        } else {
            self.rest.len().min(PIECE_BYTES)
        };
        self.number += 1;
        self.taking.gives(self.number);
        Poll::Ready(Some(self.rest.split_to(len)))
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
        let next = match &mut this.pieces {
            Some(pieces) => ready!(pieces.poll_next(&mut this.content, context)),
            None => ready!(this.content.poll_next(context)),
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::net::watch::Watch;
    use http_body_util::BodyExt as _;

    fn in_pieces(mut reply: Reply) -> Reply {
        let flight = Arc::new(Watch::new()).request(http::Version::HTTP_2);
        reply.carry_in_pieces(flight, Some(Taking::default()), None);
        reply
    }

    async fn pieces(mut reply: Reply) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        while let Some(frame) = reply.frame().await {
            pieces.push(frame.unwrap().into_data().unwrap());
        }
        assert!(reply.is_end_stream());
        pieces
    }

    #[tokio::test]
    async fn a_long_answer_of_http2_is_given_in_pieces_and_its_last_byte_by_itself() {
        for parts in [&[1025][..], &[16 << 10], &[100_000], &[5, 0, 40_000, 16 << 10, 1]] {
            let parts: Vec<Bytes> =
                parts.iter().map(|len| (0..=255).cycle().take(*len).collect()).collect();
            let whole = parts.concat();
            let reply = in_pieces(Reply::parts(parts));
            assert_eq!(reply.len(), u64::try_from(whole.len()).ok());
            let pieces = pieces(reply).await;
            assert_eq!(pieces.concat(), whole);
            assert!(pieces.iter().all(|piece| (1..=PIECE_BYTES).contains(&piece.len())));
            assert_eq!(pieces.last().unwrap().len(), 1);
        }
        assert_eq!(pieces(in_pieces(Reply::bytes(vec![0; 1024]))).await.len(), 1);
        assert_eq!(pieces(in_pieces(Reply::default())).await.len(), 0);
    }
}
