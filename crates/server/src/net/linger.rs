//! The end of a connection: the client may still be sending what nobody reads, the body of a
//! request that was answered without it, say. A socket that is closed with bytes unread resets the
//! connection, and the client loses the answer (RFC 9112, section 9.6). So the own side ends first;
//! what comes is dropped until the client ends its side, within bounds of bytes and time (I11).

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::AsyncWrite as _;
use tokio::time::{Instant, Sleep};

use super::stream::Stream;
use super::watch::Order;
use crate::http::Connection;

/// Most bytes that are dropped behind what cannot be understood.
const MOST_BEHIND_FAULT: u64 = 1 << 20;
/// Longest time that bytes are dropped.
const WITHIN: Duration = Duration::from_secs(5);
/// Longest time where the server stops: clients take as long as their way is, or are busy sending.
pub(super) const WITHIN_AT_STOP: Duration = Duration::from_millis(500);
/// Bytes of one read.
const READ_BYTES: usize = 16 << 10;

/// What was last on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// An answer: as much is dropped as a body may have.
    Answer,
    /// What cannot be understood, and the answer to that.
    Fault,
}

/// What is left to drop.
struct Rest {
    space: Vec<u8>,
    left: u64,
}

impl Last {
    /// Tells which it was from how a conversation ended.
    pub fn of<T>(ended: &hyper::Result<T>) -> Self {
        if ended.is_ok() { Self::Answer } else { Self::Fault }
    }
}

/// Ends a connection whose last answer is written. How that goes, nobody needs to know.
pub(super) async fn end(mut stream: Stream, connection: &Connection, last: Last) {
    let left = match last {
        Last::Answer => connection.app.settings.max_body_bytes.0,
        Last::Fault => MOST_BEHIND_FAULT,
    };
    let mut rest = Rest { space: Vec::new(), left };
    let mut shut = false;
    let mut timer = pin!(tokio::time::sleep(WITHIN));
    std::future::poll_fn(|context| {
        let order = connection.watch.order(context.waker());
        if order == Order::Close {
            return Poll::Ready(Ok(()));
        }
        if !shut {
            // A client that takes nothing is cut by the rounds.
            ready!(Pin::new(&mut stream).poll_shutdown(context))?;
            shut = true;
            timer.as_mut().reset(Instant::now() + WITHIN);
        }
        if order == Order::Stop {
            hurry(timer.as_mut());
        }
        if rest.poll(&mut stream, context)?.is_ready() {
            return Poll::Ready(Ok(()));
        }
        timer.as_mut().poll(context).map(Ok)
    })
    .await
    .unwrap_or_else(|error: io::Error| tracing::trace!(%error, "a connection ends early"));
}

/// Waits as long as a client is waited for that the server has told of its end.
pub(super) fn moment() -> Sleep {
    tokio::time::sleep(WITHIN_AT_STOP)
}

/// Has a timer fire soon, if it would not.
fn hurry(timer: Pin<&mut Sleep>) {
    let soon = Instant::now() + WITHIN_AT_STOP;
    if timer.deadline() > soon {
        timer.reset(soon);
    }
}

impl Rest {
    /// Drops what has come; is done when the client has ended its side, or has sent too much.
    fn poll(&mut self, stream: &mut Stream, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.left > 0 {
            self.space.resize(READ_BYTES, 0);
            let len = ready!(stream.poll_drop(context, &mut self.space))?;
            if len == 0 {
                break;
            }
            self.left = self.left.saturating_sub(u64::try_from(len).unwrap_or(u64::MAX));
        }
        Poll::Ready(Ok(()))
    }
}
