//! What a server answers while its log is being opened, which takes a while after a crash with much
//! to replay: that it lives, and that it is not ready. Who asks for anything else is to come again.
//! Who has not asked yet when the log is open is served as if nothing had been.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use highwater_streams::path::Mount;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header};
use http_body::Body as _;
use hyper::body::Incoming;
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
use crate::http::cors::{self, Cors};
use crate::http::failure::Failure;
use crate::http::names;
use crate::http::operate::plain;
use crate::http::reply::Reply;
use crate::http::route;
use crate::operator::OperatorPath;
use crate::settings::Settings;

/// Connections at once. More wait to be accepted.
const CONNECTIONS: usize = 64;
/// How long those are waited for that have begun to ask when the log is open.
const GRACE: Duration = Duration::from_secs(1);
/// The part of it in which they may go on to ask.
const MOMENT: Duration = Duration::from_millis(300);

/// Most bytes of a body that are read and dropped.
const MOST_DROPPED: u64 = 64 << 20;

/// A connection that has said nothing.
pub(crate) type Silent = (std::net::TcpStream, SocketAddr);

/// Somebody who answers until the log is open. Dropping it ends that.
pub(crate) struct Opening {
    is_over: CancellationToken,
    silent: Arc<Mutex<Vec<Silent>>>,
    thread: Option<JoinHandle<()>>,
}

/// How they are answered.
struct Manner {
    tls: Option<TlsAcceptor>,
    cors: Cors,
    mount: Mount,
    /// Time for a connection, from its beginning.
    patience: Duration,
    is_over: CancellationToken,
    /// Those that have said nothing until then.
    silent: Arc<Mutex<Vec<Silent>>>,
}

impl Opening {
    /// Begins to answer.
    ///
    /// # Errors
    /// [`ServeError::System`].
    pub fn begin(
        settings: &Settings,
        mount: Mount,
        (listener, tls): (&TcpListener, Option<TlsAcceptor>),
    ) -> Result<Self, ServeError> {
        let system = |what| move |source| ServeError::System { what, source };
        let listener = listener.try_clone().map_err(system("a copy of the listener"))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(system("a runtime"))?;
        let is_over = CancellationToken::new();
        let (cors, patience) = (Cors::new(settings), settings.head_timeout.0);
        let silent = Arc::default();
        let (over, kept) = (is_over.clone(), Arc::clone(&silent));
        let manner = Arc::new(Manner { tls, cors, mount, patience, is_over: over, silent: kept });
        let body = move || {
            if let Err(error) = runtime.block_on(manner.receive(listener)) {
                tracing::warn!(%error, "nobody hears that the log is being opened");
            }
        };
        let thread = std::thread::Builder::new().name("opening".to_owned()).spawn(body);
        Ok(Self { is_over, silent, thread: Some(thread.map_err(system("a thread"))?) })
    }
}

impl Opening {
    /// Ends it; gives the connections that have said nothing yet.
    pub fn finish(mut self) -> Vec<Silent> {
        self.end();
        std::mem::take(&mut *self.silent.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&mut self) {
        self.is_over.cancel();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that answers during the opening panicked");
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.end();
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
            let (slot, Ok((stream, address))) = accepted else {
                // The system has no room for it at the moment.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let manner = Arc::clone(&self);
            running.spawn(async move {
                let _slot = slot;
                // Who does not ask in time, or asks for what is no HTTP, is left alone.
                let attended = Arc::clone(&manner).attend(stream, address);
                tokio::time::timeout(manner.patience, attended).await.ok();
            });
        }
        drop(listener);
        running.close();
        tokio::time::timeout(GRACE, running.wait()).await.ok();
        Ok(())
    }

    async fn attend(self: Arc<Self>, stream: TcpStream, address: SocketAddr) {
        let mut first = [0];
        tokio::select! {
            biased;
            // Readiness alone may be a false alarm.
            _ = stream.peek(&mut first) => {}
            () = self.is_over.cancelled() => {
                if let Ok(stream) = stream.into_std() {
                    let mut silent = self.silent.lock().unwrap_or_else(PoisonError::into_inner);
                    silent.push((stream, address));
                }
                return;
            }
        }
        match &self.tls {
            None => self.converse(stream).await,
            Some(acceptor) => {
                if let Ok(stream) = acceptor.accept(stream).await {
                    self.converse(stream).await;
                }
            }
        }
    }

    async fn converse(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let manner = Arc::clone(&self);
        let service = service_fn(move |request: Request<Incoming>| {
            let manner = Arc::clone(&manner);
            async move {
                let (parts, body) = request.into_parts();
                if !parts.headers.contains_key(header::EXPECT) {
                    drop_all(body).await;
                }
                Ok::<_, Infallible>(manner.answer(&parts))
            }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).keep_alive(false);
        builder.http2().timer(TokioTimer::new());
        let conversation = builder.serve_connection(TokioIo::new(stream), service);
        let mut conversation = std::pin::pin!(conversation);
        let over_for_a_moment = async {
            self.is_over.cancelled().await;
            tokio::time::sleep(MOMENT).await;
        };
        tokio::select! {
            // How it ends is the client's affair.
            ended = conversation.as_mut() => drop(ended),
            () = over_for_a_moment => {
                conversation.as_mut().graceful_shutdown();
                conversation.await.ok();
            }
        }
    }

    fn answer(&self, parts: &Parts) -> Response<Reply> {
        let mut response = match OperatorPath::at(parts.uri.path()) {
            // A page that may not ask would not learn that it is to come again.
            _ if parts.method == Method::OPTIONS => self.options(parts.uri.path()),
            Some(OperatorPath::Health) => plain(StatusCode::OK, "ok\n".into()),
            Some(OperatorPath::Readiness) => {
                plain(StatusCode::SERVICE_UNAVAILABLE, "opening the log\n".into())
            }
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

    fn options(&self, path: &str) -> Response<Reply> {
        let target = self.mount.resolve(path).map_err(Failure::from);
        let methods = target.and_then(|target| route::methods(&target));
        methods.map_or_else(|failure| failure.into_response("opening"), cors::options)
    }
}

/// Reads a body and drops it: whoever is still sending would find a reset instead of the answer.
async fn drop_all(mut body: Incoming) {
    let mut left = MOST_DROPPED;
    while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let len = frame.data_ref().map_or(0, Bytes::len);
        left = left.saturating_sub(u64::try_from(len).unwrap_or(u64::MAX));
        if left == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    use http_body_util::Full;
    use hyper::client::conn::http2;

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    fn begin(listener: &TcpListener) -> Opening {
        let settings = Settings::default();
        let mount = Mount::new(&settings.stream_root).unwrap();
        Opening::begin(&settings, mount, (listener, None)).unwrap()
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
        let opening = begin(&listener);
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

    #[tokio::test]
    async fn over_http2_too_the_server_lives_is_not_ready_and_asks_to_come_again() {
        let (listener, address) = listener();
        let opening = begin(&listener);
        let stream = TcpStream::connect(address).await.unwrap();
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut client, connection) = handshake.await.unwrap();
        let connection = tokio::spawn(connection);
        for (method, path, status, again) in [
            ("GET", "/healthz", 200, None),
            ("HEAD", "/healthz", 200, None),
            ("GET", "/readyz", 503, None),
            ("GET", "/metrics", 503, Some("1")),
            ("GET", "/v1/stream/a?offset=-1", 503, Some("1")),
            ("POST", "/v1/stream/a", 503, Some("1")),
            ("OPTIONS", "/v1/stream/a", 204, None),
            ("OPTIONS", "/nothing", 404, None),
        ] {
            let body = if method == "POST" { "x".repeat(200_000) } else { String::new() };
            let request = Request::builder().method(method).uri(format!("http://x{path}"));
            let answer = client.send_request(request.body(Full::<Bytes>::from(body)).unwrap());
            let answer = answer.await.unwrap();
            let told = answer.headers().get(header::RETRY_AFTER);
            let told = told.map(|value| value.to_str().unwrap());
            assert_eq!((answer.status().as_u16(), told), (status, again), "{method} {path}");
            assert!(answer.headers().contains_key(header::X_CONTENT_TYPE_OPTIONS), "{path}");
        }
        // Who has asked is told of the end, and keeps nobody waiting.
        let ended = tokio::task::spawn_blocking(move || opening.finish());
        assert_eq!(ended.await.unwrap().len(), 0);
        connection.await.unwrap().unwrap();
    }

    /// Point 2: where the preflight fails a page is told nothing of the answer.
    #[test]
    fn a_page_of_another_origin_learns_that_it_is_to_come_again() {
        let (listener, address) = listener();
        let opening = begin(&listener);
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let origin = "Host: x\r\nOrigin: https://a.org\r\n";
        let wanted = "Access-Control-Request-Method: POST\r\n";
        let target = "/v1/stream/a";
        write!(client, "OPTIONS {target} HTTP/1.1\r\n{origin}{wanted}\r\n").unwrap();
        let mut preflight = String::new();
        client.read_to_string(&mut preflight).unwrap();
        let mut client = std::net::TcpStream::connect(address).unwrap();
        write!(client, "POST {target} HTTP/1.1\r\n{origin}Content-Length: 0\r\n\r\n").unwrap();
        let mut posted = String::new();
        client.read_to_string(&mut posted).unwrap();
        for (answer, parts) in [
            (preflight, ["http/1.1 204 ", "allow-methods: get, head, post", "authorization"]),
            (posted, ["http/1.1 503 ", "retry-after: 1", "expose-headers: stream-next-offset"]),
        ] {
            let answer = answer.to_ascii_lowercase();
            for part in parts.iter().chain(&["access-control-allow-origin: *"]) {
                assert!(answer.contains(part), "{part} in {answer}");
            }
        }
        drop(opening);
    }

    #[test]
    fn who_sends_a_long_body_meanwhile_reads_the_answer() {
        let (listener, address) = listener();
        let opening = begin(&listener);
        let mut client = std::net::TcpStream::connect(address).unwrap();
        let head = "POST /v1/stream/a HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n";
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&vec![b'x'; 4_000_000]).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        drop(opening);
    }

    /// Silent clients hold up no start, and lose nothing by it.
    #[test]
    fn who_has_not_asked_when_the_log_is_open_goes_on_with_the_server_that_was_opened() {
        let (listener, address) = listener();
        let opening = begin(&listener);
        let connect = |_| std::net::TcpStream::connect(address).unwrap();
        let mut clients: Vec<_> = (0..=CONNECTIONS).map(connect).collect();
        let mut kept = opening.finish();
        // More than there is room for, and whatever was not accepted yet.
        kept.extend(std::iter::from_fn(|| listener.accept().ok()));
        assert_eq!(kept.len(), clients.len());
        for client in &mut clients {
            let own = client.local_addr().unwrap();
            let (stream, _) = kept.iter_mut().find(|(_, address)| *address == own).unwrap();
            stream.write_all(b"x").unwrap();
            assert_eq!(client.read(&mut [0]).unwrap(), 1);
        }
    }

    #[test]
    fn who_has_asked_when_the_log_is_open_is_answered() {
        let (listener, address) = listener();
        let opening = begin(&listener);
        let mut client = std::net::TcpStream::connect(address).unwrap();
        client.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut kept = opening.finish();
        let mut answer = String::new();
        if kept.is_empty() && listener.accept().map(|early| kept.push(early)).is_err() {
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        } else {
            // The server that was opened answers.
            assert_eq!(kept.len(), 1);
        }
    }
}
