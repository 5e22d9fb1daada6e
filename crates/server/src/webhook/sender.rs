//! Sends one webhook: looks up its host, judges the addresses, and connects to exactly those.
//!
//! Nothing else looks the name up again, so it cannot lead elsewhere in between. Redirects are not
//! followed: a receiver that has moved is given its new URL by whoever made the subscription.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use highwater_streams::subscriptions::url_policy::{Endpoint, UrlPolicy};
use highwater_streams::subscriptions::{Delivered, Webhook, says_done};
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::task::AbortOnDropHandle;

use crate::http::cold::THREADS;
use crate::settings::Settings;

/// Bytes of an answer that are looked at.
const MOST_ANSWER: usize = 64 << 10;
/// Names that are looked up at once: reads from the disk have the other threads.
const LOOKUPS: usize = THREADS / 2;
/// Bytes of an answer's head.
const MOST_HEAD: usize = 16 << 10;

/// Sends webhooks.
pub(crate) struct Sender {
    policy: UrlPolicy,
    within: Duration,
    lookups: Arc<Semaphore>,
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Sender {
    /// Takes the settings.
    pub fn new(settings: &Settings) -> Self {
        let within = settings.webhook_timeout.0;
        let (tls, lookups) = (OnceLock::new(), Arc::new(Semaphore::new(LOOKUPS)));
        Self { policy: settings.webhook_policy(), within, lookups, tls }
    }

    /// Sends a webhook and reads its answer.
    ///
    /// # Errors
    /// Why it was not answered with success.
    pub async fn send(&self, webhook: &Webhook) -> Result<Delivered, String> {
        tokio::time::timeout(self.within, self.exchange(webhook))
            .await
            .unwrap_or_else(|_| Err("it was not answered in time".to_owned()))
    }

    async fn exchange(&self, webhook: &Webhook) -> Result<Delivered, String> {
        let endpoint = Endpoint::parse(&webhook.url, self.policy).map_err(text)?;
        let url: http::Uri = endpoint.url().parse().map_err(text)?;
        let stream = self.connect(&endpoint).await?;
        let request = request(webhook, &url)?;
        let (response, _connection) = if url.scheme_str() == Some("https") {
            let tls = self.tls()?;
            let host = url.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
            let name = ServerName::try_from(host).map_err(text)?;
            let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(text)?;
            ask(stream, request).await?
        } else {
            ask(stream, request).await?
        };
        read(response).await
    }

    /// Connects to an address that was judged.
    async fn connect(&self, endpoint: &Endpoint) -> Result<TcpStream, String> {
        let (host, port) = endpoint.host_and_port();
        let host = host.trim_matches(['[', ']']);
        let judged = endpoint.judge(&self.look_up(host, port).await?).map_err(text)?;
        let judged: Vec<SocketAddr> =
            judged.into_iter().map(|address| SocketAddr::new(address, port)).collect();
        TcpStream::connect(&*judged).await.map_err(text)
    }

    /// Looks up the addresses of a host. The system's resolver takes its time, and a thread: when
    /// nobody waits for it any more it still counts.
    async fn look_up(&self, host: &str, port: u16) -> Result<Vec<IpAddr>, String> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        let place = Arc::clone(&self.lookups).acquire_owned().await.map_err(text)?;
        let host = host.to_owned();
        let found = spawn_blocking(move || {
            let _place = place;
            (host.as_str(), port)
                .to_socket_addrs()
                .map(|found| found.map(|found| found.ip()).collect())
        });
        found.await.map_err(text)?.map_err(text)
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        self.tls.get_or_init(client_config).clone()
    }
}

fn request(webhook: &Webhook, url: &http::Uri) -> Result<Request<Full<Bytes>>, String> {
    let target = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let authority = url.authority().map_or("", http::uri::Authority::as_str);
    let mut request = Request::post(target)
        .header(header::HOST, authority)
        .header(header::USER_AGENT, concat!("highwater/", env!("CARGO_PKG_VERSION")))
        .header(header::CONNECTION, "close");
    for (name, value) in &webhook.headers {
        request = request.header(*name, value);
    }
    request.body(Full::new(webhook.body.clone())).map_err(text)
}

/// Sends a request on a connection of its own, which goes on until its handle is dropped.
async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(Response<Incoming>, AbortOnDropHandle<()>), String> {
    let io = TokioIo::new(stream);
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MOST_HEAD);
    let (mut sender, connection) = builder.handshake(io).await.map_err(text)?;
    let connection = AbortOnDropHandle::new(tokio::spawn(async move {
        // Its end is seen by whoever reads the answer.
        connection.await.ok();
    }));
    let response = sender.send_request(request).await.map_err(text)?;
    Ok((response, connection))
}

async fn read(response: Response<Incoming>) -> Result<Delivered, String> {
    let status = response.status();
    if !status.is_success() {
        return Err(format!("it was answered with {status}"));
    }
    let body = Limited::new(response.into_body(), MOST_ANSWER).collect().await.map_err(text)?;
    let is_done = says_done(&body.to_bytes());
    Ok(if is_done { Delivered::Done } else { Delivered::Accepted })
}

/// Trusts what the system trusts.
fn client_config() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err("the system has no certificates of authorities".to_owned());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(text)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
