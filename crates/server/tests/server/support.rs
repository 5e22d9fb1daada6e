//! A server on a free port with its data in a new directory, and a client that hides nothing.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use highwater_server::Server;
use highwater_server::settings::{Settings, key};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;

/// How long a test waits for what has to come.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Running {
    server: Option<Server>,
    pub address: SocketAddr,
    pub folder: TempDir,
}

/// Settings of a test: small segments, so that a server starts quickly, and changes.
pub fn settings(folder: &TempDir, changes: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::default();
    let data = folder.path().join("data").display().to_string();
    let base = [
        ("listen", "127.0.0.1:0"),
        ("data-dir", &data),
        ("segment-bytes", "16MiB"),
        ("threads", "2"),
        ("long-poll-timeout", "300ms"),
    ];
    for (name, text) in base.iter().chain(changes) {
        key(name).unwrap().set(&mut settings, text).unwrap();
    }
    settings
}

pub fn start(changes: &[(&str, &str)]) -> Running {
    start_in(tempfile::tempdir().unwrap(), changes)
}

pub fn start_in(folder: TempDir, changes: &[(&str, &str)]) -> Running {
    let server = Server::start(settings(&folder, changes)).unwrap();
    Running { address: server.address(), server: Some(server), folder }
}

impl Running {
    pub fn stop(mut self) -> TempDir {
        self.server.take().unwrap().stop().unwrap();
        self.folder
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Sends a request on a connection of its own.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.client().ask(method, path, headers, body)
    }

    /// Makes a text stream.
    pub fn make(&self, name: &str) {
        let path = stream(name);
        let made = self.ask("PUT", &path, &[("Content-Type", "text/plain")], "");
        assert_eq!(made.status, 201, "{made:?}");
    }

    pub fn append(&self, name: &str, body: &str) -> Answer {
        self.ask("POST", &stream(name), &[("Content-Type", "text/plain")], body)
    }

    pub fn metrics(&self) -> String {
        self.ask("GET", "/metrics", &[], "").text()
    }
}

pub fn stream(name: &str) -> String {
    format!("/v1/stream/{name}")
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn next_offset(&self) -> String {
        self.header("stream-next-offset").unwrap().to_owned()
    }
}

/// One connection.
pub struct Client {
    pub stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        self.send(request(method, path, headers, body));
        self.answer(method)
    }

    /// Reads a whole answer.
    pub fn answer(&mut self, method: &str) -> Answer {
        let (status, headers) = self.head();
        let mut answer = Answer { status, headers, body: Vec::new() };
        if method == "HEAD" || matches!(status, 204 | 304) {
            return answer;
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk() {
                answer.body.extend(chunk);
            }
        } else if let Some(len) = answer.header("content-length") {
            answer.body = vec![0; len.parse().unwrap()];
            self.stream.read_exact(&mut answer.body).unwrap();
        } else {
            self.stream.read_to_end(&mut answer.body).unwrap();
        }
        answer
    }

    /// Reads status line and headers.
    pub fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let status = self.line();
        let code = status.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {status:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                return (code.parse().unwrap(), headers);
            }
            let (name, value) = line.split_once(':').unwrap();
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    /// Reads a chunk; nothing after the last one.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let len = usize::from_str_radix(&self.line(), 16).unwrap();
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        assert_eq!(self.line(), "");
        (len > 0).then_some(bytes)
    }

    /// Reads until the server closes the connection; gives what came.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            other => drop(other.unwrap()),
        }
        rest
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end_matches(['\r', '\n']).to_owned()
    }
}

/// One connection of HTTP/2. Clones are the same.
#[derive(Clone)]
pub struct Http2(http2::SendRequest<Full<Bytes>>);

impl Http2 {
    pub async fn connect(address: SocketAddr) -> Self {
        let io = TokioIo::new(tokio::net::TcpStream::connect(address).await.unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> http::Response<Incoming> {
        let mut request = http::Request::builder().method(method).uri(format!("http://test{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.0.send_request(request.body(Full::from(body.to_owned())).unwrap()).await.unwrap()
    }

    pub async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let (head, body) = self.send(method, path, headers, body).await.into_parts();
        let headers = head.headers.iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
        let (status, headers) = (head.status.as_u16(), headers.collect());
        Answer { status, headers, body: body.collect().await.unwrap().to_bytes().to_vec() }
    }

    /// Waits until the server has ended it.
    pub async fn ended(&mut self) {
        tokio::time::timeout(PATIENCE, self.0.ready()).await.unwrap().unwrap_err();
    }
}

pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    if !body.is_empty() || method == "POST" || method == "PUT" {
        write!(text, "Content-Length: {}\r\n", body.len()).unwrap();
    }
    text + "\r\n" + body
}
