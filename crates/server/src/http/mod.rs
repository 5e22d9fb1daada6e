//! Requests and answers: HTTP on one side, operations on streams on the other.
//!
//! Walk: `answer` below takes a request through `route` (what is meant), access and rate, to
//! `write` (create, append, delete), `read` (catch-up and long-poll), `sse`, `control` (what lies
//! below `__ds`) or `operate` (health, metrics). `failure` is the one place where problems become
//! answers, `body` collects what comes within a `budget`, `reply` is what goes, `cold` reads from
//! the disk.

pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod cold;
pub(crate) mod control;
pub(crate) mod cors;
pub(crate) mod failure;
pub(crate) mod fields;
pub(crate) mod gzip;
pub(crate) mod names;
pub(crate) mod operate;
pub(crate) mod read;
pub(crate) mod reply;
pub(crate) mod route;
pub(crate) mod sse;
#[cfg(feature = "otlp")]
pub(crate) mod trace;
pub(crate) mod write;

use std::convert::Infallible;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use highwater_streams::path::{StreamPath, Target};
use highwater_streams::service::Reader;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version, header};
use hyper::body::{Body as _, Incoming};
use tokio::time::Instant;

use self::budget::Taken;
use self::failure::Failure;
use self::reply::Reply;
use crate::access::scope::Action;
use crate::access::{Shown, Who};
use crate::app::App;
use crate::metrics::Operation;
use crate::net::live::{Framing, Handed, Then};
use crate::net::origin::{Peer, check_host};
use crate::net::taking::Taking;
use crate::net::watch::{Flight, Order, Watch};
use crate::operator::OperatorPath;

/// Longest id of a request that a client may bring, bytes.
const LONGEST_ID: usize = 128;

/// Result of a request.
pub(crate) type Answer = Result<Response<Reply>, Failure>;

/// What all requests of a connection share.
#[derive(Debug)]
pub(crate) struct Connection {
    pub app: Arc<App>,
    pub peer: Peer,
    pub watch: Arc<Watch>,
    standing: Standing,
    number: u64,
    requests: AtomicU64,
    /// A live answer whose head is on its way.
    handed: Mutex<Option<Handed>>,
}

/// What a connection may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Everything.
    Full,
    /// What operators ask for, once: there are as many connections as there may be.
    Reserve,
}

/// A request whose body has not been looked at.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub app: &'a App,
    pub peer: Peer,
    pub parts: &'a Parts,
    pub who: Who,
}

impl Connection {
    /// Begins a connection.
    pub fn new((app, standing): (Arc<App>, Standing), peer: Peer, watch: Arc<Watch>) -> Self {
        let number = app.connections.fetch_add(1, Ordering::Relaxed);
        let (requests, handed) = (AtomicU64::new(0), Mutex::default());
        Self { app, peer, watch, standing, number, requests, handed }
    }

    /// Gives its number: no other connection of this server had or has it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Answers a request.
    pub async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Reply>, Infallible> {
        let started = Instant::now();
        let flight = self.watch.request(request.version());
        let request_number = self.requests.fetch_add(1, Ordering::Relaxed);
        let (parts, body) = request.into_parts();
        #[cfg(feature = "otlp")]
        let span = trace::begin(&parts, &self.app.mount, &self.app.settings.stream_root);
        let has_body = !body.is_end_stream();
        let mut operation = Operation::Other;
        let (answer, taken) = match self.take_room(&flight, &parts) {
            Err(failure) => (Err(failure), None),
            Ok(taken) => {
                let mut work = pin!(self.dispatch(&parts, body, &mut operation));
                let answer = unless_it_panics(work.as_mut()).await.unwrap_or_else(|| {
                    self.app.metrics.request_panics.inc();
                    Err(Failure::Panicked)
                });
                (answer, taken)
            }
        };
        let room = taken.and_then(|Taken { request, head }| {
            drop(head);
            request
        });
        let mut response = answer.unwrap_or_else(|failure| {
            let id = self.request_id(&parts, request_number);
            self.log_failure(&parts, &failure, &id);
            failure.into_response(&id)
        });
        if parts.method == Method::HEAD {
            *response.body_mut() = Reply::default();
        }
        self.app.cors.add(&parts, &mut response);
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, names::NOSNIFF);
        headers.insert(names::RESOURCE_POLICY, names::CROSS_ORIGIN);
        if let Some((id, _)) = brought_id(&parts) {
            headers.insert(names::REQUEST_ID, id.clone());
        }
        if self.standing == Standing::Reserve {
            self.end_behind(&parts, headers);
        }
        #[cfg(feature = "otlp")]
        trace::end(&span, response.status(), || self.request_id(&parts, request_number));
        let ended = Instant::now();
        let took = ended - started;
        self.app.metrics.answered(operation, response.status(), took);
        tracing::debug!(
            id = %self.request_id(&parts, request_number),
            method = %parts.method,
            path = parts.uri.path(),
            status = response.status().as_u16(),
            took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "answered"
        );
        if parts.version == Version::HTTP_2 {
            response.body_mut().carry_in_pieces(flight, Taking::here(), room);
        } else if response.body().len() == Some(0) {
            flight.end(ended);
        } else {
            self.hand_over(&parts, has_body, &mut response, flight);
        }
        Ok(response)
    }

    /// Takes what a request needs of the memory for requests: of HTTP/1 nothing.
    fn take_room(&self, flight: &Flight, parts: &Parts) -> Result<Option<Taken>, Failure> {
        if parts.version != Version::HTTP_2 {
            return Ok(None);
        }
        let taken = self.app.requests.admit(flight.others(), parts);
        taken.map(Some).ok_or(Failure::Crowded { what: "requests" })
    }

    /// Has the connection end behind an answer.
    fn end_behind(&self, parts: &Parts, headers: &mut HeaderMap) {
        self.watch.give(Order::End);
        if parts.version != Version::HTTP_2 {
            headers.insert(header::CONNECTION, names::CLOSE);
        }
    }

    /// Takes a live answer of HTTP/1 out of hyper's hands, but for its head.
    fn hand_over(
        &self,
        parts: &Parts,
        has_body: bool,
        response: &mut Response<Reply>,
        flight: Flight,
    ) {
        let Some(events) = response.body_mut().take_events() else {
            response.body_mut().carry(flight);
            return;
        };
        let framing =
            if parts.version == Version::HTTP_11 { Framing::Chunked } else { Framing::Bare };
        // The rest of a body that nobody reads must not be taken for a request.
        let goes_on = framing == Framing::Chunked && !has_body && !asks_to_close(parts);
        let then = if goes_on { Then::GoOn } else { Then::Close };
        if then == Then::Close {
            response.headers_mut().insert(header::CONNECTION, names::CLOSE);
        }
        *self.lock_handed() = Some(Handed { events, _flight: flight, framing, then });
    }

    /// Takes the live answer that was handed over last, if it has not been taken.
    pub fn take_handed(&self) -> Option<Handed> {
        self.lock_handed().take()
    }

    fn lock_handed(&self) -> std::sync::MutexGuard<'_, Option<Handed>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn dispatch(&self, parts: &Parts, body: Incoming, operation: &mut Operation) -> Answer {
        let app = &*self.app;
        check_host(parts)?;
        let target = app.mount.resolve(parts.uri.path());
        if parts.method == Method::OPTIONS {
            return Ok(cors::options(route::methods(&target?)?));
        }
        // Whoever looks after the server is never told to wait.
        let is_probe = matches!(&target, Ok(Target::Elsewhere(path))
            if OperatorPath::of(path).is_some_and(OperatorPath::is_probe));
        let who = if is_probe { Who::Nobody } else { self.who(parts, target.as_ref().ok())? };
        let asked = Asked { app, peer: self.peer, parts, who };
        if !is_probe {
            asked.check_rate()?;
        }
        let is_for_operators = matches!(&target, Ok(Target::Elsewhere(_)));
        if self.standing == Standing::Reserve && !is_for_operators {
            return Err(Failure::Crowded { what: "connections" });
        }
        match target? {
            Target::Stream(path) => {
                *operation = Operation::of(&parts.method);
                asked.stream(&path, body, operation).await
            }
            Target::Control(segments) => {
                *operation = Operation::Subscription;
                let mut response = asked.control(&segments, body).await?;
                response.body_mut().hold(|bytes| app.streams.hold(bytes, Reader::Client))?;
                Ok(response)
            }
            Target::Elsewhere(segments) => asked.operate(&segments),
            Target::Root => Err(Failure::NoSuchPath),
        }
    }

    /// Finds out who a request comes from. Signatures cost, so an address that has brought too many
    /// that were not right has to wait before another is looked at.
    fn who(&self, parts: &Parts, target: Option<&Target>) -> Result<Who, Failure> {
        let app = &*self.app;
        if let Some(Target::Control(segments)) = target
            && control::has_its_own_token(segments)
        {
            return Ok(Who::Nobody);
        }
        let token = match app.access.shown(&parts.headers, &*app.clock) {
            Shown::Who(who) => return Ok(who),
            Shown::Jwt(token) => token,
        };
        let Some(limiter) = &app.limiter else { return Ok(app.access.prove(token, &*app.clock)) };
        let client = app.origins.client(self.peer, &parts.headers);
        limiter.check_unproven(client).map_err(|after| Failure::TooOften { after })?;
        let who = app.access.prove(token, &*app.clock);
        if matches!(who, Who::Nobody) {
            limiter.count_unproven(client);
        }
        Ok(who)
    }

    /// Gives the id that the client brought, or one of this server's.
    fn request_id(&self, parts: &Parts, number: u64) -> String {
        if let Some((_, id)) = brought_id(parts) {
            return id.to_owned();
        }
        let mut id = String::with_capacity(24);
        write!(id, "{:x}-{number}", self.number).expect("writing to a string does not fail");
        id
    }

    fn log_failure(&self, parts: &Parts, failure: &Failure, id: &str) {
        let (method, path) = (&parts.method, parts.uri.path());
        let (code, client) = (failure.code(), self.peer.address);
        if let Some(limit) = failure.limit() {
            self.app.metrics.hit(limit);
        }
        if failure.is_of_the_server()
            && let Some(left_out) = self.app.lines.turn(("request failed", code))
        {
            tracing::error!(id, %method, path, %client, code, ?failure, left_out, "request failed");
        } else {
            tracing::debug!(id, %method, path, %client, code, ?failure, "request refused");
        }
    }
}

/// Whether the client wants no other answer on its connection.
fn asks_to_close(parts: &Parts) -> bool {
    let values = parts.headers.get_all(header::CONNECTION).iter();
    let mut options = values.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    options.any(|option| option.trim().eq_ignore_ascii_case("close"))
}

/// Gives the id that a client brought, where it is short and plain text: it goes back to the client
/// and into the log.
fn brought_id(parts: &Parts) -> Option<(&HeaderValue, &str)> {
    let id = fields::first(&parts.headers, &names::REQUEST_ID)?;
    if id.len() > LONGEST_ID {
        return None;
    }
    Some((id, id.to_str().ok()?))
}

impl Asked<'_> {
    /// Carries out what is asked of a stream.
    async fn stream(&self, path: &StreamPath, body: Incoming, operation: &mut Operation) -> Answer {
        let action = match self.parts.method {
            Method::GET | Method::HEAD => Action::Read,
            Method::POST => Action::Append,
            Method::PUT => Action::Create,
            Method::DELETE => Action::Delete,
            _ => return Err(Failure::Method { allow: route::ON_STREAM }),
        };
        self.who.may(action, path.as_str())?;
        if action == Action::Read {
            // Who appends finds what was acknowledged.
            self.app.streams.settle(path).await?;
        }
        match action {
            Action::Read => {
                if self.parts.version == Version::HTTP_2 {
                    // What comes of a body is kept in memory for as long as somebody may read it.
                    drop(body);
                }
                match self.parts.method {
                    Method::HEAD => self.head(path),
                    _ => self.read(path, operation).await,
                }
            }
            Action::Append => self.append(path, body).await,
            Action::Create => self.create(path, body).await,
            Action::Delete | Action::Admin => self.delete(path).await,
        }
    }

    /// Counts the request against its caller's rate.
    fn check_rate(&self) -> Result<(), Failure> {
        let Some(limiter) = &self.app.limiter else { return Ok(()) };
        let taken = match &self.who {
            Who::Known(caller) => limiter.take_named(&caller.name),
            Who::Anybody | Who::Nobody => {
                limiter.take_address(self.app.origins.client(self.peer, &self.parts.headers))
            }
        };
        taken.map_err(|after| Failure::TooOften { after })
    }
}

/// Gives what comes of a request; nothing when it panics: its connection and all others go on.
fn unless_it_panics<F: Future>(
    mut request: Pin<&mut F>,
) -> impl Future<Output = Option<F::Output>> {
    std::future::poll_fn(move |context| {
        let poll = AssertUnwindSafe(|| request.as_mut().poll(context));
        catch_unwind(poll).map_or(Poll::Ready(None), |polled| polled.map(Some))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_panics_has_an_end_that_can_be_answered() {
        let mut sound = pin!(async {
            tokio::task::yield_now().await;
            7
        });
        assert_eq!(unless_it_panics(sound.as_mut()).await, Some(7));
        let mut broken = pin!(async {
            tokio::task::yield_now().await;
            panic!("a request that is broken on purpose");
        });
        assert_eq!(unless_it_panics(broken.as_mut()).await, None);
        assert_eq!(Failure::Panicked.into_response("id").status().as_u16(), 500);
    }
}
