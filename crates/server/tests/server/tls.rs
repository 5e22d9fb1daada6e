//! TLS: both versions of HTTP, and certificates that are replaced while the server runs.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use http_body_util::{BodyExt as _, Empty, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::support::{Running, start, start_in};

pub async fn connect(
    address: SocketAddr,
    roots: RootCertStore,
    protocol: &str,
) -> std::io::Result<TlsStream<tokio::net::TcpStream>> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = tokio::net::TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

fn write_certificate(folder: &Path) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
}

fn roots(folder: &Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(folder.join("cert.pem")).unwrap()).unwrap();
    roots
}

/// A server with a certificate of its own, and who trusts it.
pub fn start_with_certificate() -> (Running, RootCertStore) {
    start_with(&[])
}

fn start_with(changes: &[(&str, &str)]) -> (Running, RootCertStore) {
    let folder = tempfile::tempdir().unwrap();
    write_certificate(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let roots = roots(folder.path());
    let own = [("tls-cert", &*cert), ("tls-key", &*key)];
    (start_in(folder, &[&own, changes].concat()), roots)
}

/// It would wait for an hour.
#[tokio::test]
async fn a_server_that_stops_waits_for_no_handshake_that_does_not_begin() {
    let (server, roots) = start_with(&[("shutdown-timeout", "1h"), ("head-timeout", "1h")]);
    let connect_only = |_| std::net::TcpStream::connect(server.address).unwrap();
    let silent: Vec<_> = (0..3).map(connect_only).collect();
    // They were accepted before this one, which has shaken hands.
    let last = connect(server.address, roots, "http/1.1").await.unwrap();
    tokio::task::spawn_blocking(|| drop(server.stop())).await.unwrap();
    drop((silent, last));
}

#[tokio::test]
async fn both_versions_of_http_are_spoken_over_tls() {
    let (server, roots) = start_with_certificate();
    let request = || {
        let request = http::Request::get("https://localhost/healthz").header("host", "localhost");
        request.body(Empty::<bytes::Bytes>::new()).unwrap()
    };
    let stream = connect(server.address, roots.clone(), "h2").await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request()).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
    let stream = connect(server.address, roots, "http/1.1").await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = sender.send_request(request()).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok\n");
}

#[tokio::test]
async fn live_answers_over_tls_go_on_and_leave_the_connection_to_the_next_request() {
    let (server, roots) = start_with_certificate();
    let stream = connect(server.address, roots, "http/1.1").await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = |method: &str, query: &str, body: &str| {
        http::Request::builder()
            .method(method)
            .uri(format!("/v1/stream/a{query}"))
            .header("host", "localhost")
            .header("content-type", "text/plain")
            .body(Full::<bytes::Bytes>::from(body.to_owned()))
            .unwrap()
    };
    let long = "q".repeat(1 << 20);
    assert_eq!(sender.send_request(request("PUT", "", &long)).await.unwrap().status(), 201);
    let answer = sender.send_request(request("GET", "?offset=-1&live=sse", "")).await.unwrap();
    let mut body = answer.into_body();
    let mut text = String::new();
    while !text.contains("\"upToDate\":true") {
        let frame = body.frame().await.unwrap().unwrap();
        text += std::str::from_utf8(frame.data_ref().unwrap()).unwrap();
    }
    assert_eq!(text.matches('q').count(), 1 << 20, "all of it, between control events");
    let closed = request("POST", "", "end");
    let (mut parts, end) = closed.into_parts();
    parts.headers.insert("stream-closed", "true".parse().unwrap());
    let other = connect(server.address, self::roots(server.folder.path()), "http/1.1");
    let (mut other, connection) =
        http1::handshake(TokioIo::new(other.await.unwrap())).await.unwrap();
    tokio::spawn(connection);
    let closed = other.send_request(http::Request::from_parts(parts, end)).await.unwrap();
    assert_eq!(closed.status(), 204);
    let rest = body.collect().await.unwrap().to_bytes();
    assert!(rest.starts_with(b"event: data\ndata:end\n\n"));
    sender.ready().await.unwrap();
    assert_eq!(sender.send_request(request("GET", "", "")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_new_certificate_is_used_when_asked_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    write_certificate(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let old = roots(folder.path());
    let server = start_in(folder, &[("tls-cert", &cert), ("tls-key", &key)]);
    assert!(connect(server.address, old.clone(), "h2").await.is_ok());
    write_certificate(server.folder.path());
    let new = roots(server.folder.path());
    server.server().reload();
    assert!(connect(server.address, new.clone(), "h2").await.is_ok());
    assert!(connect(server.address, old, "h2").await.is_err());
    std::fs::write(&key, "nonsense").unwrap();
    server.server().reload();
    assert!(connect(server.address, new, "h2").await.is_ok());
}

#[test]
fn plain_bytes_on_a_tls_port_end_the_connection_and_nothing_else() {
    let server = start(&[("tls-self-signed", "true"), ("head-timeout", "300ms")]);
    let mut plain = server.client();
    plain.send("GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n");
    assert!(!plain.rest().starts_with(b"HTTP"));
    assert_eq!(server.client().rest(), b"", "a handshake that does not begin ends in time");
}
