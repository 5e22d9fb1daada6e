//! Requests that panic in a server that runs.

use std::fmt::{self, Write as _};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Request, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::*;
use crate::settings::key;

/// What is logged as an error in this process.
static ERRORS: Mutex<String> = Mutex::new(String::new());

struct Listener;

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn event(&self, event: &Event<'_>) {
        let mut errors = errors();
        event.record(&mut Line(&mut errors));
        errors.push('\n');
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn errors() -> std::sync::MutexGuard<'static, String> {
    ERRORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection of one of both kinds.
enum Client {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Client {
    async fn connect(address: SocketAddr, version: Version) -> Self {
        let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
        if version == Version::HTTP_2 {
            let (client, driver) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            drop(tokio::spawn(driver));
            return Self::Http2(client);
        }
        let (client, driver) = http1::handshake(io).await.unwrap();
        drop(tokio::spawn(driver));
        Self::Http1(client)
    }

    async fn ask(&mut self, method: &str, path: &str, body: &'static str) -> (HeaderMap, String) {
        let (target, host) = match self {
            Self::Http1(_) => (path.to_owned(), "t"),
            Self::Http2(_) => (format!("http://t{path}"), "t"),
        };
        let mut request = Request::builder().method(method).uri(target);
        request = request.header("x-request-id", format!("id-of{path}"));
        if matches!(self, Self::Http1(_)) {
            request = request.header("host", host);
        }
        let request = request.header("content-type", "text/plain");
        let request = request.body(Full::from(body)).unwrap();
        let sent = match self {
            Self::Http1(client) => client.send_request(request).await,
            Self::Http2(client) => client.send_request(request).await,
        };
        let (mut head, body) = sent.expect("the connection goes on").into_parts();
        head.headers.insert("status", head.status.as_u16().into());
        let body = body.collect().await.unwrap().to_bytes();
        (head.headers, String::from_utf8(body.to_vec()).unwrap())
    }
}

fn start(folder: &tempfile::TempDir) -> Server {
    let mut settings = Settings::default();
    let data = folder.path().join("data").display().to_string();
    for (name, text) in
        [("listen", "127.0.0.1:0"), ("data-dir", &*data), ("segment-bytes", "16MiB")]
    {
        key(name).unwrap().set(&mut settings, text).unwrap();
    }
    Server::start(settings).unwrap()
}

#[tokio::test]
async fn a_request_that_panics_is_answered_counted_and_logged_and_all_others_go_on() {
    tracing::subscriber::set_global_default(Listener).unwrap();
    for (number, version) in [Version::HTTP_11, Version::HTTP_2].into_iter().enumerate() {
        // One for each: a second line of the same kind may have to wait for the next second.
        let folder = tempfile::tempdir().unwrap();
        let server = start(&folder);
        // From here on, whoever makes a subscription panics: this cannot happen to a server.
        server.app.making.close();
        let mut client = Client::connect(server.address(), version).await;
        let path = format!("/v1/stream/s{number}");
        assert_eq!(client.ask("PUT", &path, "").await.0["status"], "201");
        let waits = match &client {
            Client::Http2(same) => {
                let (mut same, path) = (Client::Http2(same.clone()), path.clone());
                let target = format!("{path}?offset=-1&live=long-poll");
                Some(tokio::spawn(async move { same.ask("GET", &target, "").await }))
            }
            Client::Http1(_) => None,
        };
        let made = format!("/v1/stream/__ds/subscriptions/broken{number}");
        let body = r#"{"type":"pull-wake","streams":["s"],"wake_stream":"w"}"#;
        let (headers, body) = client.ask("PUT", &made, body).await;
        assert_eq!(headers["status"], "500", "{version:?} {body}");
        for (name, value) in [
            ("content-type", "application/problem+json"),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("cross-origin-resource-policy", "cross-origin"),
            ("x-request-id", &format!("id-of{made}")),
        ] {
            assert_eq!(headers.get(name).unwrap(), value, "{version:?} {name}");
        }
        assert!(body.contains("PANICKED") && body.contains(&format!("id-of{made}")), "{body}");
        let lines = errors().clone();
        let line = lines.lines().find(|line| line.contains(&format!("id-of{made}")));
        assert!(line.is_some_and(|line| line.contains("PANICKED")), "{lines}");
        assert_eq!(client.ask("POST", &path, "there").await.0["status"], "204");
        if let Some(waits) = waits {
            let (headers, body) = waits.await.unwrap();
            assert_eq!((headers["status"].to_str().unwrap(), &*body), ("200", "there"));
        }
        let (_, metrics) = client.ask("GET", "/metrics", "").await;
        assert!(metrics.contains("highwater_request_panics_total 1\n"), "{metrics}");
        let failed = "operation=\"subscription\",status=\"5xx\"} 1\n";
        assert!(metrics.contains(failed), "{metrics}");
        drop(client);
        tokio::task::spawn_blocking(|| server.stop()).await.unwrap().unwrap();
    }
}
