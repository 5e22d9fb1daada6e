//! Connections: accepted up to a limit, watched, ended in bounded time.
//!
//! Each worker is a thread with a runtime of its own and a copy of the listener, or a runtime that
//! several threads share. `conversation` is what is said on one, `live` an answer that goes on and
//! on, `linger` a connection's end, `bell` its waker. `stream` is a client's bytes, `watch` what it
//! does; `rounds` looks at that, `taking` at each answer of HTTP/2. `tls` is the certificate,
//! `origin` who and where a request comes from, `opening` what is answered while the log is being
//! opened, `reserve` are those beyond the limit.

pub(crate) mod bell;
mod conversation;
pub(crate) mod linger;
pub(crate) mod live;
pub(crate) mod opening;
pub(crate) mod origin;
pub(crate) mod reserve;
mod rounds;
pub(crate) mod stream;
pub(crate) mod taking;
pub(crate) mod tls;
pub(crate) mod watch;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use self::conversation::{Broken, Protocols, Spoken};
use self::opening::Silent;
use self::origin::Peer;
use self::reserve::{Reserve, Reserved};
use self::rounds::{Rounds, Visited};
use self::stream::{Stream, Transport};
use self::watch::{Order, Patience};
use crate::app::App;
use crate::http::{Connection, Standing};
use crate::metrics::{Counted, Limit};
use crate::rate::Networks;

/// How long to wait when the system has no room for a connection.
const BREATHER: Duration = Duration::from_millis(100);

/// What all workers accept with.
pub(crate) struct Door {
    app: Arc<App>,
    tls: Option<TlsAcceptor>,
    protocols: Protocols,
    patience: Patience,
    rounds: Arc<Rounds>,
    slots: Arc<Semaphore>,
    /// For those that have none of these: who comes when there is no more waits to be accepted.
    beyond: Arc<Semaphore>,
    reserve: Arc<Reserve>,
    per_address: Option<Arc<PerAddress>>,
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
        let permits = |count: u64| {
            let count = usize::try_from(count).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
            Arc::new(Semaphore::new(count))
        };
        let most = settings.max_connections_per_address.get();
        Self {
            tls,
            protocols: Protocols::new(&app),
            patience,
            rounds: Arc::default(),
            slots: permits(u64::from(app.files.connections)),
            beyond: permits(app.files.most_beyond()),
            reserve: Arc::default(),
            per_address: (most > 0).then(|| {
                let networks = Networks::new(settings);
                Arc::new(PerAddress { most, networks, counts: Mutex::default() })
            }),
            app,
        }
    }

    /// Looks after the connections of all workers, for as long as it is polled.
    pub async fn keep(self: Arc<Self>) {
        self.rounds.walk(&self.app, &self.patience).await;
    }

    /// Takes in connections that were accepted before, and accepts others until the server stops;
    /// then waits until they have ended, or until it has waited long enough.
    pub async fn serve(
        self: Arc<Self>,
        listener: std::net::TcpListener,
        silent: Vec<Silent>,
    ) -> io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        let stopping = &self.app.stopping;
        let running = TaskTracker::new();
        let mut silent = silent.into_iter();
        loop {
            let beyond = tokio::select! {
                beyond = self.room_beyond() => beyond,
                () = stopping.cancelled() => break,
            };
            let accepted = if let Some((stream, address)) = silent.next() {
                TcpStream::from_std(stream).map(|stream| (stream, address))
            } else {
                tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = stopping.cancelled() => break,
                }
            };
            match accepted {
                Ok((stream, address)) => {
                    if let Some(served) = self.admit(stream, address, beyond) {
                        running.spawn(served);
                    }
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    self.app.metrics.hit(Limit::System);
                    let what = "cannot accept connections; trying again";
                    if let Some(left_out) = self.app.lines.turn((what, "")) {
                        tracing::warn!(%error, left_out, "{what}");
                    }
                    tokio::time::sleep(BREATHER).await;
                }
            }
        }
        drop(listener);
        running.close();
        self.rounds.stop();
        let ended = tokio::time::timeout(self.app.settings.shutdown_timeout.0, running.wait());
        if ended.await.is_err() {
            tracing::warn!("connections that did not end in time are cut");
        }
        Ok(())
    }

    /// Waits until there may be another connection, beyond the limit if need be.
    async fn room_beyond(&self) -> OwnedSemaphorePermit {
        let mut room = pin!(Arc::clone(&self.beyond).acquire_owned());
        loop {
            tokio::select! {
                room = room.as_mut() => return room.expect("the semaphore is never closed"),
                () = tokio::time::sleep(reserve::TIME_TO_ASK) => self.reserve.make_way(),
            }
        }
    }

    /// Takes a connection in, unless its address has too many; gives what serves it to its end.
    /// What only its beginning needs is on the heap, so that little is left of it behind that.
    fn admit(
        self: &Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        beyond: OwnedSemaphorePermit,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let held = match &self.per_address {
            None => None,
            Some(counts) => {
                let Some(held) = counts.take(address.ip()) else {
                    self.app.metrics.hit(Limit::ConnectionsPerAddress);
                    return None;
                };
                Some(held)
            }
        };
        // What is written is meant to leave at once: answers are written whole.
        stream.set_nodelay(true).ok();
        let most = self.app.settings.send_buffer_bytes.get();
        if most > 0 {
            socket2::SockRef::from(&stream).set_send_buffer_size(most).ok();
        }
        let metrics = &self.app.metrics;
        metrics.accepted.inc();
        let peer = Peer { address, is_tls: self.tls.is_some() };
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok();
        let standing = if slot.is_some() { Standing::Full } else { Standing::Reserve };
        let connection = Connection::new((Arc::clone(&self.app), standing), peer, Arc::default());
        let connection = Arc::new(connection);
        let slot = slot.map_or_else(
            || {
                metrics.hit(Limit::Connections);
                let reserved = self.reserve.take(connection.number(), &connection.watch);
                Slot::Reserve { _reserved: Box::new((reserved, beyond)) }
            },
            |permit| Slot::Own { _permit: permit },
        );
        let place = Place {
            _visited: self.rounds.visit(connection.number(), address, &connection.watch),
            _counted: Counted::new(&metrics.connections),
            _held: held,
            _slot: slot,
        };
        let door = Arc::clone(self);
        let begun = Box::pin(Arc::clone(self).begin(stream, Arc::clone(&connection)));
        Some(async move {
            let _place = place;
            if let Err(error) = door.protocols.go_on(begun, &connection).await {
                if error.is_head_too_large() {
                    door.app.metrics.hit(Limit::Head);
                }
                tracing::debug!(address = %connection.peer.address, %error, "connection ended");
            }
        })
    }

    /// Shakes hands, and answers requests up to the first live answer.
    async fn begin(self: Arc<Self>, stream: TcpStream, connection: Arc<Connection>) -> Spoken {
        let transport = match &self.tls {
            None => Transport::Plain(stream),
            Some(acceptor) => {
                let handshake = tokio::time::timeout(self.patience.head, acceptor.accept(stream));
                let mut handshake = Box::pin(handshake);
                let shaken = std::future::poll_fn(|context| {
                    // Nothing has been asked yet that could be answered.
                    if connection.watch.order(context.waker()) != Order::GoOn {
                        return Poll::Ready(Err(Broken::Handshake));
                    }
                    handshake.as_mut().poll(context).map_err(|_| Broken::Handshake)
                });
                Transport::Tls(Box::new(shaken.await??))
            }
        };
        let stream = Stream::new(transport, Arc::clone(&connection.watch));
        self.protocols.begin(stream, &connection).await
    }
}

/// What a connection holds for as long as it is open.
struct Place {
    _visited: Visited,
    _counted: Counted,
    _held: Option<Held>,
    _slot: Slot,
}

/// Which of the connections that there may be it is.
enum Slot {
    Own { _permit: OwnedSemaphorePermit },
    Reserve { _reserved: Box<(Reserved, OwnedSemaphorePermit)> },
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
    networks: Networks,
    counts: Mutex<HashMap<IpAddr, usize>>,
}

/// One connection of an address.
struct Held {
    counts: Arc<PerAddress>,
    address: IpAddr,
}

impl PerAddress {
    fn take(self: &Arc<Self>, address: IpAddr) -> Option<Held> {
        let address = self.networks.of(address);
        let mut counts = self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let count = counts.entry(address).or_insert(0);
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Held { counts: Arc::clone(self), address })
    }
}

impl Drop for Held {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::live::Live;

    fn bytes_of<F>(_make: impl FnOnce(Arc<Door>, TcpStream, Arc<Connection>) -> F) -> usize {
        size_of::<F>()
    }

    fn bytes_of_task<F>(
        _make: impl FnOnce(&Arc<Door>, TcpStream, SocketAddr, OwnedSemaphorePermit) -> Option<F>,
    ) -> usize {
        size_of::<F>()
    }

    /// I11: ten thousand clients may wait for events. What hyper takes is not in the task of a
    /// connection, and not kept while it waits; nor is what a live answer needs, before it.
    #[test]
    fn the_task_of_a_connection_and_its_live_answer_are_small() {
        let task = bytes_of_task(Door::admit);
        assert!(task <= 256, "a connection's task takes {task} bytes");
        let begin = bytes_of(Door::begin);
        assert!(begin <= 512, "a connection that says nothing takes {begin} bytes");
        let live = size_of::<Live>();
        assert!(live <= 192, "a live answer takes {live} bytes");
    }
}
