//! A live answer of HTTP/1 behind its head: events go to the socket as they come, without hyper.
//!
//! What it holds is small, since there may be ten thousand that wait: no buffers, and of the bytes
//! on their way only one parcel, which is shared by all who get it. It keeps what hyper keeps: a
//! client that goes away, or half-closes, is noticed at once; one that takes nothing is given
//! nothing more, and cut by the rounds; an order to end ends it between events. What the client
//! sends meanwhile is read up to a small bound, and is the beginning of its next request.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite as _;

use super::stream::Stream;
use super::watch::{Flight, Order};
use crate::http::Connection;
use crate::http::sse::Events;

/// The last chunk of an answer (RFC 9112, section 7.1).
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// A live answer whose head hyper sends.
#[derive(Debug)]
pub(crate) struct Handed {
    /// What it is to give.
    pub events: Box<Events>,
    /// The request counts as running until this is dropped.
    pub _flight: Flight,
    /// How the answer shows its end.
    pub framing: Framing,
    /// What becomes of the connection then.
    pub then: Then,
}

/// How an answer's end is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// In chunks.
    Chunked,
    /// By the end of the connection, as clients of HTTP/1.0 know it.
    Bare,
}

/// What becomes of a connection behind an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It takes requests.
    GoOn,
    /// It ends.
    Close,
}

/// A live answer on its way. Gives the connection back, and what becomes of it; nothing where the
/// client is gone.
#[derive(Debug)]
pub(crate) struct Live {
    /// Nothing when it is done.
    stream: Option<Stream>,
    /// What the client has not taken.
    rest: Bytes,
    handed: Handed,
    phase: Phase,
    connection: Arc<Connection>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Events may come.
    Events,
    /// What is left is the last.
    Last,
    /// All is sent.
    Done,
}

impl Live {
    /// Takes over behind the head.
    pub fn new(stream: Stream, handed: Handed, connection: Arc<Connection>) -> Self {
        Self { stream: Some(stream), rest: Bytes::new(), handed, phase: Phase::Events, connection }
    }

    /// Sends what there is; ready when all has been sent that will ever be.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.poll_taken(context)?.is_pending() {
                self.handed.events.pass_on();
                return Poll::Pending;
            }
            if self.phase != Phase::Events {
                break;
            }
            let framing = self.handed.framing;
            self.rest = match ready!(self.handed.events.poll_next(context)) {
                Some(said) if framing == Framing::Chunked => said.chunk(),
                Some(said) => said.bytes(),
                None => {
                    self.phase = Phase::Last;
                    let last = if framing == Framing::Chunked { LAST_CHUNK } else { &[] };
                    Bytes::from_static(last)
                }
            };
        }
        self.phase = Phase::Done;
        Poll::Ready(Ok(()))
    }

    /// Is done when the client, or the system for it, has taken what was sent.
    fn poll_taken(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.stream.as_mut().expect("it is polled until it is done");
        while !self.rest.is_empty() {
            let len = ready!(Pin::new(&mut *stream).poll_write(context, &self.rest))?;
            if len == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.rest.advance(len);
        }
        // TLS keeps what the system does not take.
        Pin::new(stream).poll_flush(context)
    }
}

impl Future for Live {
    type Output = io::Result<Option<(Stream, Then)>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match this.connection.watch.order(context.waker()) {
            // An old connection ends behind its answer; only a server that stops ends answers.
            Order::Stop => this.handed.events.end(),
            Order::GoOn | Order::End => {}
            Order::Close => return Poll::Ready(Ok(None)),
        }
        if this.phase != Phase::Done && this.poll_send(context)?.is_pending() {
            // Otherwise nobody would hear that the client is gone while nothing happens.
            return match &mut this.stream {
                Some(stream) => stream.poll_gone(context).map_ok(|()| None),
                None => Poll::Pending,
            };
        }
        let then = this.handed.then;
        Poll::Ready(Ok(this.stream.take().map(|stream| (stream, then))))
    }
}
