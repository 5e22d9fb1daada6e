//! What a server answers while its log is being opened, which takes a while after a crash with much
//! to replay: that it lives, and that it is not ready. Who asks for anything else is to come again.

use std::convert::Infallible;
use std::future::ready;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::ServeError;
use crate::http::cors::Cors;
use crate::http::failure::Failure;
use crate::http::names;
use crate::http::operate::plain;
use crate::http::reply::Reply;
use crate::settings::Settings;

/// Connections at once. More wait to be accepted, and find a server that is ready.
const CONNECTIONS: usize = 64;
/// How long those may go on that have begun to ask when the log is open.
const GRACE: Duration = Duration::from_secs(1);

/// Somebody who answers until the log is open. Dropping it ends that.
pub(crate) struct Opening {
    is_over: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

/// How they are answered.
struct Manner {
    tls: Option<TlsAcceptor>,
    cors: Cors,
    /// Time for a connection, from its beginning.
    patience: Duration,
    is_over: CancellationToken,
}

impl Opening {
    /// Begins to answer.
    ///
    /// # Errors
    /// [`ServeError::System`].
    pub fn begin(
        settings: &Settings,
        listener: &TcpListener,
        tls: Option<TlsAcceptor>,
    ) -> Result<Self, ServeError> {
        let system = |what| move |source| ServeError::System { what, source };
        let listener = listener.try_clone().map_err(system("a copy of the listener"))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(system("a runtime"))?;
        let is_over = CancellationToken::new();
        let (cors, patience) = (Cors::new(settings), settings.head_timeout.0);
        let manner = Arc::new(Manner { tls, cors, patience, is_over: is_over.clone() });
        let body = move || {
            if let Err(error) = runtime.block_on(manner.receive(listener)) {
                tracing::warn!(%error, "nobody hears that the log is being opened");
            }
        };
        let thread = std::thread::Builder::new().name("opening".to_owned()).spawn(body);
        Ok(Self { is_over, thread: Some(thread.map_err(system("a thread"))?) })
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.is_over.cancel();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that answers during the opening panicked");
        }
    }
}

impl Manner {
    async fn receive(self: Arc<Self>, listener: TcpListener) -> std::io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (slots, running) = (Arc::new(Semaphore::new(CONNECTIONS)), TaskTracker::new());
        loop {
            let accepted = tokio::select! {
                () = self.is_over.cancelled() => break,
                accepted = async {
                    let slot = Arc::clone(&slots).acquire_owned().await;
                    (slot.expect("the semaphore is never closed"), listener.accept().await)
                } => accepted,
            };
            let (slot, Ok((stream, _))) = accepted else {
                // The system has no room for it at the moment.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let manner = Arc::clone(&self);
            running.spawn(async move {
                let _slot = slot;
                let served =
                    tokio::time::timeout(manner.patience, Arc::clone(&manner).serve(stream));
                // Who does not ask, or asks for what is no HTTP, is left alone.
                served.await.ok();
            });
        }
        drop(listener);
        running.close();
        tokio::time::timeout(GRACE, running.wait()).await.ok();
        Ok(())
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        match &self.tls {
            None => self.converse(stream).await,
            Some(acceptor) => {
                let shaken = tokio::select! {
                    () = self.is_over.cancelled() => return,
                    shaken = acceptor.accept(stream) => shaken,
                };
                if let Ok(stream) = shaken {
                    self.converse(stream).await;
                }
            }
        }
    }

    async fn converse(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let manner = Arc::clone(&self);
        let service = service_fn(move |request: Request<_>| {
            ready(Ok::<_, Infallible>(manner.answer(&request.into_parts().0)))
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).keep_alive(false);
        builder.http2().timer(TokioTimer::new());
        let conversation = builder.serve_connection(TokioIo::new(stream), service);
        let mut conversation = std::pin::pin!(conversation);
        tokio::select! {
            // How it ends is the client's affair.
            ended = conversation.as_mut() => drop(ended),
            () = self.is_over.cancelled() => {
                conversation.as_mut().graceful_shutdown();
                conversation.await.ok();
            }
        }
    }

    fn answer(&self, parts: &Parts) -> Response<Reply> {
        let mut response = match parts.uri.path() {
            "/healthz" => plain(StatusCode::OK, "ok\n".into()),
            "/readyz" => plain(StatusCode::SERVICE_UNAVAILABLE, "opening the log\n".into()),
            _ => Failure::Opening.into_response("opening"),
        };
        if parts.method == Method::HEAD {
            *response.body_mut() = Reply::default();
        }
        self.cors.add(parts, &mut response);
        let headers = response.headers_mut();
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, names::NOSNIFF);
        headers.insert(names::RESOURCE_POLICY, names::CROSS_ORIGIN);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::SocketAddr;

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn ask(address: SocketAddr, path: &str) -> String {
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn while_the_log_is_opened_the_server_lives_is_not_ready_and_asks_to_come_again() {
        let (listener, address) = listener();
        let opening = Opening::begin(&Settings::default(), &listener, None).unwrap();
        let alive = ask(address, "/healthz");
        assert!(alive.starts_with("HTTP/1.1 200 ") && alive.ends_with("ok\n"), "{alive}");
        let ready = ask(address, "/readyz");
        assert!(ready.starts_with("HTTP/1.1 503 ") && ready.contains("opening"), "{ready}");
        let read = ask(address, "/v1/stream/a?offset=-1").to_ascii_lowercase();
        for part in ["http/1.1 503 ", "retry-after: 1", "\"opening\"", "nosniff"] {
            assert!(read.contains(part), "{part} in {read}");
        }
        drop(opening);
    }

    /// Silent clients hold up no start, and whoever comes when there is no place left finds the
    /// server that was opened.
    #[test]
    fn silent_clients_are_left_when_the_log_is_open_and_those_behind_them_wait_for_the_server() {
        let (listener, address) = listener();
        let opening = Opening::begin(&Settings::default(), &listener, None).unwrap();
        let connect = |_| std::net::TcpStream::connect(address).unwrap();
        let clients: Vec<_> = (0..=CONNECTIONS).map(connect).collect();
        drop(opening);
        let waiting = std::iter::from_fn(|| listener.accept().ok());
        let waiting: Vec<_> = waiting.map(|(_, address)| address).collect();
        assert_eq!(waiting.last(), Some(&clients[CONNECTIONS].local_addr().unwrap()));
        for mut client in clients {
            if !waiting.contains(&client.local_addr().unwrap()) {
                assert_eq!(client.read(&mut [0]).unwrap_or(0), 0);
            }
        }
    }
}
