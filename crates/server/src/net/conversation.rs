//! What is said on a connection: hyper speaks HTTP/1 and HTTP/2, and which of them it is shows in
//! the first bytes. A live answer of HTTP/1 leaves hyper once its head is sent, since hyper's
//! buffers are far larger than what a client costs that waits for events; hyper goes on when the
//! answer is over, if the connection does. HTTP/2 has many answers at a time and stays with hyper.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::time::Sleep;

use super::bell;
use super::linger::{self, Last};
use super::live::{Handed, Live, Then};
use super::stream::Stream;
use super::taking::Requests;
use super::watch::{Order, Watch};
use crate::app::App;
use crate::http::Connection;

/// What a client of HTTP/2 begins with (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Both versions of HTTP.
pub(super) struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<Requests>,
}

/// What comes of answering requests: a live answer whose head is sent, or nothing when the
/// connection has ended.
pub(super) type Spoken = Result<Option<Box<Live>>, Broken>;

/// Why a conversation ended that should have gone on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The client's bytes are none that can be understood, or it is gone.
    #[error(transparent)]
    Hyper(#[from] hyper::Error),
    /// The client is gone, or does not speak TLS.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The client does not begin.
    #[error("the TLS handshake took too long")]
    Handshake,
}

impl Broken {
    /// Whether a head was larger than the limit: hyper has told the client.
    pub fn is_head_too_large(&self) -> bool {
        matches!(self, Self::Hyper(error) if error.is_parse_too_large())
    }
}

impl Protocols {
    /// Sets up both. Times are kept by the watch: no timer is armed for each request.
    pub fn new(app: &Arc<App>) -> Self {
        let settings = &app.settings;
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .keep_alive(true)
            .max_buf_size(settings.max_head_bytes.get());
        let head_bytes = u32::try_from(settings.max_head_bytes.0).unwrap_or(u32::MAX);
        let mut http2 = http2::Builder::new(Requests::new(Arc::clone(app)));
        http2
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(settings.idle_timeout.0))
            .keep_alive_timeout(settings.write_timeout.0)
            .max_concurrent_streams(settings.max_h2_streams)
            .max_header_list_size(head_bytes)
            .initial_stream_window_size(Some(1 << 20))
            .initial_connection_window_size(Some(4 << 20))
            .max_send_buf_size(256 << 10);
        Self { http1, http2 }
    }

    /// Goes on behind the first live answer, until the connection ends. What hyper takes is on the
    /// heap, and given back while a live answer goes on.
    pub async fn go_on(
        &self,
        begun: Pin<Box<impl Future<Output = Spoken>>>,
        connection: &Arc<Connection>,
    ) -> Result<(), Broken> {
        let mut live = begun.await?;
        while let Some(answer) = live {
            let Some((stream, then)) = answer.await? else { break };
            if then == Then::Close {
                Box::pin(linger::end(stream, connection, Last::Answer)).await;
                break;
            }
            live = Box::pin(self.http1(stream, connection)).await?;
        }
        Ok(())
    }

    /// Answers requests from the first one on. Whoever has not begun to speak takes little.
    pub async fn begin(&self, mut stream: Stream, connection: &Arc<Connection>) -> Spoken {
        match first_words(&mut stream, &connection.watch).await? {
            Words::Nothing => Ok(None),
            Words::Http2 => Ok(Box::pin(self.http2(stream, connection)).await.map(|()| None)?),
            Words::Http1 => Ok(Box::pin(self.http1(stream, connection)).await?),
        }
    }

    async fn http2(&self, mut stream: Stream, connection: &Arc<Connection>) -> hyper::Result<()> {
        let service = service_fn(|request| Arc::clone(connection).answer(request));
        let io = TokioIo::new(&mut stream);
        let mut conversation = Box::pin(self.http2.serve_connection(io, service));
        let mut is_ending = false;
        let mut heard = None;
        let ended = std::future::poll_fn(|context| {
            let order = connection.watch.order(context.waker());
            match order {
                Order::End | Order::Stop if !is_ending => {
                    is_ending = true;
                    conversation.as_mut().graceful_shutdown();
                }
                Order::Close => return Poll::Ready(Ok(())),
                Order::GoOn | Order::End | Order::Stop => {}
            }
            let ended = conversation.as_mut().poll(context);
            if ended.is_pending() && order == Order::Stop {
                let heard = heard.get_or_insert_with(|| Box::pin(linger::moment()));
                return poll_silence(heard.as_mut(), &connection.watch, context).map(Ok);
            }
            ended
        })
        .await;
        drop(conversation);
        linger::end(stream, connection, Last::of(&ended)).await;
        ended
    }

    /// Answers requests in the order in which they come.
    async fn http1(
        &self,
        mut stream: Stream,
        connection: &Arc<Connection>,
    ) -> hyper::Result<Option<Box<Live>>> {
        let service = service_fn(|request| Arc::clone(connection).answer(request));
        let io = TokioIo::new(&mut stream);
        let mut conversation = self.http1.serve_connection(io, service);
        let mut is_ending = false;
        let mut own = None;
        let handed = std::future::poll_fn(|context| {
            // The task's waker stays the same as long as it lives.
            let own = own.get_or_insert_with(|| bell::new(context.waker()));
            let context = &mut Context::from_waker(own);
            match connection.watch.order(context.waker()) {
                Order::End | Order::Stop if !is_ending => {
                    is_ending = true;
                    Pin::new(&mut conversation).graceful_shutdown();
                }
                Order::Close => return Poll::Ready(Ok(None)),
                Order::GoOn | Order::End | Order::Stop => {}
            }
            if let Poll::Ready(ended) = Pin::new(&mut conversation).poll(context) {
                return Poll::Ready(ended.map(|()| None));
            }
            match handed_over(connection) {
                Some(handed) => Poll::Ready(Ok(Some(handed))),
                None => Poll::Pending,
            }
        });
        let handed = handed.await;
        let read = conversation.into_parts().read_buf;
        let handed = match handed {
            Ok(Some(handed)) => handed,
            ended => {
                drop(read);
                linger::end(stream, connection, Last::of(&ended)).await;
                return ended.map(|_| None);
            }
        };
        if !read.is_empty() {
            // A copy, since these few bytes would hold all of hyper's buffer.
            stream.put_back(Bytes::copy_from_slice(&read));
        }
        Ok(Some(Box::new(Live::new(stream, handed, Arc::clone(connection)))))
    }
}

/// Is done when a client that was told of the end of the server has had no answer to wait for, and
/// has said nothing that ends the connection, for a moment: it may be gone, or stand still, and
/// the server does not wait for that.
fn poll_silence(mut moment: Pin<&mut Sleep>, watch: &Watch, context: &mut Context<'_>) -> Poll<()> {
    while moment.as_mut().poll(context).is_ready() {
        if watch.rests_for(linger::WITHIN_AT_STOP) {
            return Poll::Ready(());
        }
        moment.set(linger::moment());
    }
    Poll::Pending
}

/// Takes a live answer over when its head is on its way. hyper has written the head in the poll in
/// which the answer was handed over, or tried to: it writes and flushes before it waits.
fn handed_over(connection: &Connection) -> Option<Handed> {
    if connection.watch.is_writing() {
        return None;
    }
    connection.take_handed()
}

#[derive(Debug, PartialEq, Eq)]
enum Words {
    /// The connection is to end before it has begun.
    Nothing,
    Http1,
    Http2,
}

/// Reads until it is clear what the client speaks; puts back what was read.
async fn first_words(stream: &mut Stream, watch: &Watch) -> io::Result<Words> {
    let mut read = [0; PREFACE.len()];
    let mut len = 0;
    let words = std::future::poll_fn(|context| {
        if watch.order(context.waker()) != Order::GoOn {
            return Poll::Ready(Ok(Words::Nothing));
        }
        ready!(poll_preface(stream, context, &mut read, &mut len))?;
        let is_http2 = len == PREFACE.len() && read == *PREFACE;
        Poll::Ready(Ok(if is_http2 { Words::Http2 } else { Words::Http1 }))
    });
    let words: io::Result<Words> = words.await;
    stream.put_back(Bytes::copy_from_slice(&read[..len]));
    words
}

/// Reads for as long as it may be the preface that comes.
fn poll_preface(
    stream: &mut Stream,
    context: &mut Context<'_>,
    read: &mut [u8; PREFACE.len()],
    len: &mut usize,
) -> Poll<io::Result<()>> {
    while *len < PREFACE.len() && read[..*len] == PREFACE[..*len] {
        let mut buffer = ReadBuf::new(&mut read[*len..]);
        ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
        match buffer.filled().len() {
            0 => break,
            more => *len += more,
        }
    }
    Poll::Ready(Ok(()))
}
