//! Connections: accepted up to a limit, watched, ended in bounded time.
//!
//! Each worker is a thread with a runtime of its own and a copy of the listener, or a runtime that
//! several threads share. `stream` is a client's bytes, `watch` what it is doing, `rounds` looks at
//! that, `tls` is the certificate, `origin` who and where a request comes from.

pub(crate) mod origin;
mod rounds;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod watch;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use self::origin::Peer;
use self::rounds::Rounds;
use self::stream::{Stream, Transport};
use self::watch::{Order, Patience, Watch};
use crate::app::App;
use crate::http::Connection;
use crate::metrics::Limit;
use crate::settings::Settings;

/// How long to wait when the system has no room for a connection.
const BREATHER: Duration = Duration::from_millis(100);

/// What all workers accept with.
pub(crate) struct Door {
    app: Arc<App>,
    tls: Option<TlsAcceptor>,
    builder: auto::Builder<TokioExecutor>,
    patience: Patience,
    rounds: Rounds,
    slots: Arc<Semaphore>,
    per_address: Option<PerAddress>,
}

impl Door {
    /// Takes the settings.
    pub fn new(app: Arc<App>, tls: Option<TlsAcceptor>) -> Self {
        let settings = &app.settings;
        let patience = Patience {
            head: settings.head_timeout.0,
            idle: settings.idle_timeout.0,
            write: settings.write_timeout.0,
            age: settings.connection_age.0,
        };
        let slots = settings.max_connections.get().min(Semaphore::MAX_PERMITS);
        let most = settings.max_connections_per_address.get();
        Self {
            tls,
            builder: builder(settings),
            patience,
            rounds: Rounds::default(),
            slots: Arc::new(Semaphore::new(slots)),
            per_address: (most > 0).then(|| PerAddress { most, counts: Mutex::default() }),
            app,
        }
    }

    /// Looks after the connections of all workers, for as long as it is polled.
    pub async fn keep(self: Arc<Self>) {
        self.rounds.walk(&self.app, &self.patience).await;
    }

    /// Accepts until the server stops; then waits until the connections have ended, or until it has
    /// waited long enough.
    pub async fn serve(self: Arc<Self>, listener: std::net::TcpListener) -> io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        let stopping = &self.app.stopping;
        let running = TaskTracker::new();
        loop {
            let slot = tokio::select! {
                slot = Arc::clone(&self.slots).acquire_owned() => {
                    slot.expect("the semaphore is never closed")
                }
                () = stopping.cancelled() => break,
            };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stopping.cancelled() => break,
            };
            match accepted {
                Ok((stream, address)) => {
                    let door = Arc::clone(&self);
                    running.spawn(async move {
                        door.admit(stream, address).await;
                        drop(slot);
                    });
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections; trying again");
                    tokio::time::sleep(BREATHER).await;
                }
            }
        }
        drop(listener);
        running.close();
        let ended = tokio::time::timeout(self.app.settings.shutdown_timeout.0, running.wait());
        if ended.await.is_err() {
            tracing::warn!("connections that did not end in time are cut");
        }
        Ok(())
    }

    /// Serves one connection to its end.
    async fn admit(&self, stream: TcpStream, address: std::net::SocketAddr) {
        let _held = match &self.per_address {
            None => None,
            Some(counts) => {
                let Some(held) = counts.take(address.ip()) else {
                    self.app.metrics.hit(Limit::ConnectionsPerAddress);
                    return;
                };
                Some(held)
            }
        };
        // What is written is meant to leave at once: answers are written whole.
        stream.set_nodelay(true).ok();
        let metrics = &self.app.metrics;
        metrics.accepted.inc();
        metrics.connections.inc();
        let transport = match &self.tls {
            None => Ok(Transport::Plain(stream)),
            Some(acceptor) => {
                let handshake = tokio::time::timeout(self.patience.head, acceptor.accept(stream));
                match handshake.await {
                    Ok(Ok(stream)) => Ok(Transport::Tls(Box::new(stream))),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(_) => Err("the TLS handshake took too long".to_owned()),
                }
            }
        };
        match transport {
            Ok(transport) => {
                let peer = Peer { address, is_tls: self.tls.is_some() };
                self.converse(transport, peer).await;
            }
            Err(why) => tracing::debug!(%address, why, "no connection"),
        }
        metrics.connections.dec();
    }

    /// Answers the requests of a connection.
    async fn converse(&self, transport: Transport, peer: Peer) {
        let watch = Arc::new(Watch::new());
        let stream = TokioIo::new(Stream::new(transport, Arc::clone(&watch)));
        let connection = Arc::new(Connection::new(Arc::clone(&self.app), peer, watch));
        let service = {
            let connection = Arc::clone(&connection);
            service_fn(move |request| Arc::clone(&connection).answer(request))
        };
        let watch = &connection.watch;
        let _visited = self.rounds.visit(connection.number(), peer.address, watch);
        let mut conversation = pin!(self.builder.serve_connection(stream, service));
        let mut is_ending = false;
        let ended = std::future::poll_fn(|context| {
            match watch.order(context.waker()) {
                Order::End if !is_ending => {
                    is_ending = true;
                    conversation.as_mut().graceful_shutdown();
                }
                Order::Close => return Poll::Ready(Ok(())),
                Order::GoOn | Order::End => {}
            }
            conversation.as_mut().poll(context)
        });
        if let Err(error) = ended.await {
            tracing::debug!(address = %peer.address, %error, "connection ended");
        }
    }
}

/// Sets up both versions of HTTP: which one is spoken shows in the first bytes.
fn builder(settings: &Settings) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // Times are kept by the watch: no timer is armed for each request.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .keep_alive(true)
        .max_buf_size(settings.max_head_bytes.get());
    let head_bytes = u32::try_from(settings.max_head_bytes.0).unwrap_or(u32::MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(settings.idle_timeout.0))
        .keep_alive_timeout(settings.write_timeout.0)
        .max_concurrent_streams(settings.max_h2_streams)
        .max_header_list_size(head_bytes)
        .initial_stream_window_size(Some(1 << 20))
        .initial_connection_window_size(Some(4 << 20))
        .max_send_buf_size(256 << 10);
    builder
}

/// Whether an error of accepting is about one connection that is gone already.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}

/// Counts connections of each address.
#[derive(Debug)]
struct PerAddress {
    most: usize,
    counts: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection of an address.
struct Held<'a> {
    counts: &'a PerAddress,
    address: IpAddr,
}

impl PerAddress {
    fn take(&self, address: IpAddr) -> Option<Held<'_>> {
        let mut counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let count = counts.entry(address).or_insert(0);
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Held { counts: self, address })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let counts = &self.counts.counts;
        let mut counts = counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}
