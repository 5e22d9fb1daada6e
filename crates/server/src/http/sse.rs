//! Live reads: long-poll waits for one chunk, events go on until the connection is old.
//!
//! Events are encoded once for all readers of a stream; here they are only passed on, and comments
//! put in between where nothing happens, so that proxies keep the connection.

use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use highwater_streams::cursor::Cursor;
use highwater_streams::error::{Outcome, Problem};
use highwater_streams::live::{Event, Follower, Next};
use highwater_streams::offset::Place;
use highwater_streams::path::StreamPath;
use highwater_streams::service::Streams;
use highwater_streams::sse;
use http::{HeaderValue, Response, StatusCode, header};
use tokio::time::{Instant, Sleep};

use super::cold::Job;
use super::failure::{Failure, offset};
use super::reply::Reply;
use super::{Answer, Asked, cold, names};
use crate::app::App;
use crate::lines::{Kind, Lines};
use crate::metrics::Counted;

impl Asked<'_> {
    /// Waits until there is something to read, or long enough.
    pub(super) async fn long_poll(
        &self,
        path: &StreamPath,
        place: Place,
        cursor: Option<&str>,
    ) -> Answer {
        let brought = cursor.and_then(Cursor::parse);
        let begin =
            move |streams: &Streams, path: &StreamPath| streams.follow(path, place, brought);
        let mut follower = Box::new(cold::follow(&self.app.streams, path, place, begin).await?);
        let waiting = Counted::new(&self.app.metrics.subscribers);
        let mut timeout = pin!(tokio::time::sleep(self.app.settings.long_poll_timeout.0));
        let mut response = loop {
            let before = follower.position();
            let found = if follower.is_cold() {
                let found;
                (follower, found) = cold::taken(cold::with(follower, Follower::try_chunk).await)?;
                found
            } else {
                follower.try_chunk()
            };
            if let Some(mut chunk) = found? {
                if chunk.next == before {
                    break nothing_new(&follower, true);
                }
                if place == Place::Now {
                    // The same request means other bytes tomorrow.
                    chunk.etag = None;
                }
                break self.chunk(chunk);
            }
            tokio::select! {
                () = follower.changed() => {}
                () = timeout.as_mut() => break nothing_new(&follower, false),
                () = self.app.stopping.cancelled() => break nothing_new(&follower, false),
            }
        };
        drop(waiting);
        let cursor = HeaderValue::from(follower.cursor().0);
        response.headers_mut().insert(names::CURSOR, cursor);
        Ok(response)
    }

    /// Begins to send events.
    pub(super) async fn events(
        &self,
        path: &StreamPath,
        place: Place,
        cursor: Option<&str>,
    ) -> Answer {
        let brought = cursor.and_then(Cursor::parse);
        let begin =
            move |streams: &Streams, path: &StreamPath| streams.follow(path, place, brought);
        let follower = cold::follow(&self.app.streams, path, place, begin).await?;
        let encoding = sse::data_encoding(follower.content_type().kind());
        // Who asks for nothing but what is to come hears at once that nothing will.
        // A stream that is gone by now says so to its follower.
        let view = if place == Place::Now { self.app.streams.head(path).ok() } else { None };
        let end = view.filter(|view| view.is_closed && view.tail == follower.position());
        let end = end.map(|view| view.tail);
        let events = Events::new(self.app, follower);
        let mut response = Response::new(Reply::events(events, self.app.stopping.clone()));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, names::EVENT_STREAM);
        headers.insert(header::CACHE_CONTROL, names::NO_CACHE);
        headers.insert(names::ACCEL_BUFFERING, names::NO);
        if encoding.is_some() {
            headers.insert(names::SSE_ENCODING, names::BASE64);
        }
        if let Some(end) = end {
            headers.insert(names::NEXT_OFFSET, offset(end));
            headers.insert(names::UP_TO_DATE, names::TRUE);
            headers.insert(names::CLOSED, names::TRUE);
        }
        Ok(response)
    }
}

/// Says that there is nothing behind what the client has.
fn nothing_new(follower: &Follower, is_closed: bool) -> Response<Reply> {
    let mut response = Response::new(Reply::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(names::NEXT_OFFSET, offset(follower.position()));
    headers.insert(names::UP_TO_DATE, names::TRUE);
    headers.insert(header::CACHE_CONTROL, names::NO_STORE);
    if is_closed {
        headers.insert(names::CLOSED, names::TRUE);
    }
    response
}

/// Where a follower is.
#[derive(Debug)]
enum Reader {
    /// Here.
    Here(Box<Follower>),
    /// With a thread that reads from the disk for it.
    Away(Job<(Box<Follower>, Outcome<Next>)>),
    /// Nowhere: nothing more can be read.
    Lost,
}

/// What a reader is told.
#[derive(Debug)]
pub(crate) enum Said {
    /// Events.
    Events(Event),
    /// A comment.
    Nothing,
}

impl Said {
    /// Gives its bytes.
    pub fn bytes(&self) -> Bytes {
        match self {
            Self::Events(event) => event.bytes(),
            Self::Nothing => Bytes::from_static(sse::KEEP_ALIVE),
        }
    }

    /// Gives it as a chunk of HTTP/1.1.
    pub fn chunk(&self) -> Bytes {
        match self {
            Self::Events(event) => event.chunk(),
            Self::Nothing => Bytes::from_static(sse::KEEP_ALIVE_CHUNK),
        }
    }
}

/// Events of one reader.
#[derive(Debug)]
pub(crate) struct Events {
    reader: Reader,
    /// When the answer ends.
    end: Instant,
    /// Fires at the end, or when a comment is due.
    timer: Pin<Box<Sleep>>,
    keep_alive: Duration,
    is_over: bool,
    lines: Arc<Lines<Kind>>,
    _waiting: Counted,
}

impl Events {
    fn new(app: &App, follower: Follower) -> Self {
        let now = Instant::now();
        let end = now + app.settings.sse_lifetime.0;
        let keep_alive = app.settings.sse_keep_alive.0;
        let timer = tokio::time::sleep_until(end.min(now + keep_alive));
        Self {
            reader: Reader::Here(Box::new(follower)),
            end,
            timer: Box::pin(timer),
            keep_alive,
            is_over: false,
            lines: Arc::clone(&app.lines),
            _waiting: Counted::new(&app.metrics.subscribers),
        }
    }

    /// Gives nothing more.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Is called instead of [`Events::poll_next`] where the client takes nothing: other readers may
    /// wait for this one, which was woken to look for all.
    pub fn pass_on(&self) {
        if let Reader::Here(follower) = &self.reader {
            follower.pass_on();
        }
    }

    /// Gives what comes next; nothing when it is over. Each piece ends with a control event or is a
    /// comment, so a client can go on from wherever it stops.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Said>> {
        while !self.is_over {
            match self.poll_reader(context) {
                Poll::Ready(Ok(Next::Event(event))) => {
                    let is_late = Instant::now() >= self.end;
                    self.is_over = event.control.is_closed || is_late;
                    return Poll::Ready(Some(Said::Events(event)));
                }
                Poll::Ready(Ok(Next::End | Next::Wait)) => self.is_over = true,
                Poll::Ready(Err(problem)) => {
                    self.say(problem);
                    self.is_over = true;
                }
                Poll::Pending => {
                    ready!(self.timer.as_mut().poll(context));
                    let now = Instant::now();
                    self.is_over = now >= self.end;
                    if !self.is_over {
                        self.timer.as_mut().reset(self.end.min(now + self.keep_alive));
                        return Poll::Ready(Some(Said::Nothing));
                    }
                }
            }
        }
        Poll::Ready(None)
    }

    /// Says why there is nothing more. What is no failure of the server is no trouble, and all
    /// readers of a stream meet it at once.
    fn say(&self, problem: Problem) {
        let failure = Failure::from(problem);
        if failure.is_of_the_server()
            && let Some(left_out) = self.lines.turn(("events end early", failure.code()))
        {
            tracing::error!(?failure, left_out, "events end early");
        } else {
            tracing::debug!(?failure, "events end early");
        }
    }

    /// Asks the follower what comes next; by way of a thread where that is on the disk.
    fn poll_reader(&mut self, context: &mut Context<'_>) -> Poll<Outcome<Next>> {
        loop {
            match &mut self.reader {
                Reader::Here(follower) if !follower.is_cold() => {
                    return follower.poll_next(context);
                }
                Reader::Away(thread) => {
                    let joined = ready!(Pin::new(thread).poll(context));
                    self.reader = Reader::Lost;
                    let (follower, next) = cold::taken(joined)?;
                    self.reader = Reader::Here(follower);
                    if !matches!(next, Ok(Next::Wait)) {
                        return Poll::Ready(next);
                    }
                    // There is no use in asking the disk again before there are news.
                    ready!(self.poll_changed(context));
                }
                reader => match mem::replace(reader, Reader::Lost) {
                    Reader::Here(follower) => {
                        *reader = Reader::Away(cold::with(follower, Follower::try_next));
                    }
                    Reader::Away(_) | Reader::Lost => return Poll::Ready(Ok(Next::End)),
                },
            }
        }
    }

    fn poll_changed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.reader {
            Reader::Here(follower) => pin!(follower.changed()).poll(context),
            Reader::Away(_) | Reader::Lost => Poll::Ready(()),
        }
    }
}
