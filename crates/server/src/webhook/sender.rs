//! Sends one webhook: looks up its host, judges the addresses, and connects to exactly those.
//!
//! Nothing else looks the name up again, so it cannot lead elsewhere in between. Redirects are not
//! followed: a receiver that has moved is given its new URL by whoever made the subscription.

use std::net::SocketAddr;
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
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::task::AbortOnDropHandle;

use super::names::{Lookup, Names};
use crate::settings::Settings;

/// Bytes of an answer that are looked at.
const MOST_ANSWER: usize = 64 << 10;
/// Bytes of an answer's head.
const MOST_HEAD: usize = 16 << 10;

/// Sends webhooks.
pub(crate) struct Sender {
    policy: UrlPolicy,
    within: Duration,
    names: Names,
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Sender {
    /// Takes the settings.
    pub fn new(settings: &Settings) -> Self {
        let within = settings.webhook_timeout.0;
        let (tls, names) = (OnceLock::new(), Names::new());
        Self { policy: settings.webhook_policy(), within, names, tls }
    }

    /// Is done when the host of a URL is being looked up: until then nothing is tried, and nothing
    /// can have failed but by the URL itself.
    ///
    /// # Errors
    /// Why the URL is not allowed.
    pub async fn look_up(&self, url: &str) -> Result<Lookup, String> {
        let endpoint = Endpoint::parse(url, self.policy).map_err(text)?;
        Ok(self.names.begin(host_of(&endpoint).0).await)
    }

    /// Sends a webhook to a host that is being looked up, and reads its answer.
    ///
    /// # Errors
    /// Why it was not answered with success.
    pub async fn send(&self, webhook: &Webhook, lookup: Lookup) -> Result<Delivered, String> {
        tokio::time::timeout(self.within, self.exchange(webhook, lookup))
            .await
            .unwrap_or_else(|_| Err("it was not answered in time".to_owned()))
    }

    async fn exchange(&self, webhook: &Webhook, lookup: Lookup) -> Result<Delivered, String> {
        let endpoint = Endpoint::parse(&webhook.url, self.policy).map_err(text)?;
        let url: http::Uri = endpoint.url().parse().map_err(text)?;
        let stream = connect(&endpoint, lookup).await?;
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

    fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        self.tls.get_or_init(client_config).clone()
    }
}

/// Connects to an address that was judged.
async fn connect(endpoint: &Endpoint, lookup: Lookup) -> Result<TcpStream, String> {
    let (_, port) = host_of(endpoint);
    let judged = endpoint.judge(&lookup.found().await?).map_err(text)?;
    let judged: Vec<SocketAddr> =
        judged.into_iter().map(|address| SocketAddr::new(address, port)).collect();
    TcpStream::connect(&*judged).await.map_err(text)
}

fn host_of(endpoint: &Endpoint) -> (&str, u16) {
    let (host, port) = endpoint.host_and_port();
    (host.trim_matches(['[', ']']), port)
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
