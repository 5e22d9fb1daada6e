//! A client of HTTP/1.1 that hides nothing: it never sends a request twice, and never takes an
//! answer for whole that is not. What a library does on its own would be taken for what the server
//! did.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::real::PATIENCE;

/// The connection ended, or nothing came for a long time: whether a request was carried out is not
/// known.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Lost(#[from] std::io::Error);

impl Lost {
    /// Whether the server holds the connection and says nothing.
    pub(super) fn is_silence(&self) -> bool {
        matches!(self.0.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
    }

    fn cut(what: &str) -> Self {
        Self(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, what))
    }
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    method: &'static str,
    target: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Request {
    /// Begins one for what lies below the root of streams.
    pub(super) fn new(method: &'static str, path: &str) -> Self {
        let target = format!("/v1/stream/{path}");
        Self { method, target, headers: Vec::new(), body: Vec::new() }
    }

    /// Adds a header.
    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets a JSON body.
    pub(super) fn json(self, body: &serde_json::Value) -> Self {
        self.with("Content-Type", "application/json").body(body.to_string().into_bytes())
    }

    /// Sets the body.
    pub(super) fn body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let headers: String = headers.collect();
        let (method, target, len) = (self.method, &self.target, self.body.len());
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: torture\r\n{headers}Content-Length: {len}\r\n\r\n"
        );
        [head.into_bytes(), self.body.clone()].concat()
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// Gives a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether a header is `true`.
    pub(super) fn says(&self, name: &str) -> bool {
        self.header(name) == Some("true")
    }

    /// Reads the body as JSON.
    pub(super) fn json(&self) -> Result<serde_json::Value, String> {
        serde_json::from_slice(&self.body).map_err(|error| format!("an answer's body: {error}"))
    }

    /// Names status and problem, for people.
    pub(super) fn told(&self) -> String {
        format!("{} {}", self.status, String::from_utf8_lossy(&self.body))
    }

    /// Whether there is no room for now.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.status, 429 | 503 | 507)
    }
}

/// A connection, made when it is needed.
#[derive(Debug)]
pub(super) struct Client {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    /// Begins without a connection.
    pub(super) const fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    /// Where it connects to.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a request and waits for its answer.
    pub(super) fn ask(&mut self, request: &Request) -> Result<Answer, Lost> {
        let mut answers = self.ask_all(std::slice::from_ref(request))?;
        Ok(answers.pop().expect("one for each request"))
    }

    /// Sends requests without waiting in between, and waits for their answers.
    pub(super) fn ask_all(&mut self, requests: &[Request]) -> Result<Vec<Answer>, Lost> {
        let asked = self.connect().and_then(|connection| {
            let bytes: Vec<u8> = requests.iter().flat_map(Request::bytes).collect();
            connection.get_mut().write_all(&bytes)?;
            requests.iter().map(|request| answer(connection, request.method)).collect()
        });
        let must_close = |answers: &Vec<Answer>| {
            answers.iter().any(|answer| answer.header("connection") == Some("close"))
        };
        if asked.as_ref().map_or(true, must_close) {
            self.connection = None;
        }
        asked
    }

    /// Sends a request whose answer does not end; what is left of the connection is that answer.
    pub(super) fn follow(mut self, request: &Request) -> Result<(Answer, Events), Lost> {
        let connection = self.connect()?;
        connection.get_mut().write_all(&request.bytes())?;
        let (status, headers) = head(connection)?;
        let source = self.connection.take().expect("it was made above");
        let begun = Answer { status, headers, body: Vec::new() };
        Ok((begun, Events { source, text: String::new() }))
    }

    fn connect(&mut self) -> Result<&mut BufReader<TcpStream>, Lost> {
        if self.connection.is_none() {
            let stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            self.connection = Some(BufReader::new(stream));
        }
        Ok(self.connection.as_mut().expect("it was made above"))
    }
}

/// Events of an answer that does not end.
#[derive(Debug)]
pub(super) struct Events {
    source: BufReader<TcpStream>,
    text: String,
}

/// An event: its name, and its lines of data put together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) data: String,
}

impl Events {
    /// Waits for the next event; nothing when the server has ended the answer.
    pub(super) fn next(&mut self) -> Result<Option<Event>, Lost> {
        loop {
            if let Some((whole, rest)) = self.text.split_once("\n\n") {
                let event = event(whole);
                self.text = rest.to_owned();
                match event {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            let Some(chunk) = chunk(&mut self.source)? else { return Ok(None) };
            let text =
                String::from_utf8(chunk).map_err(|_| Lost::cut("events that are no text"))?;
            self.text += &text;
        }
    }
}

/// Reads an event; nothing for a comment.
fn event(text: &str) -> Option<Event> {
    let mut event = Event { name: String::new(), data: String::new() };
    for line in text.lines() {
        match line.split_once(':') {
            Some(("event", name)) => name.trim().clone_into(&mut event.name),
            Some(("data", data)) => event.data += data,
            _ => {}
        }
    }
    (!event.name.is_empty()).then_some(event)
}

fn answer(connection: &mut BufReader<TcpStream>, method: &str) -> Result<Answer, Lost> {
    let (status, headers) = head(connection)?;
    let mut answer = Answer { status, headers, body: Vec::new() };
    if method == "HEAD" || matches!(status, 204 | 304) {
        return Ok(answer);
    }
    if answer.header("transfer-encoding") == Some("chunked") {
        while let Some(chunk) = chunk(connection)? {
            answer.body.extend(chunk);
        }
        return Ok(answer);
    }
    let len = answer.header("content-length").and_then(|len| len.parse().ok());
    answer.body = vec![0; len.ok_or_else(|| Lost::cut("an answer of unknown length"))?];
    connection.read_exact(&mut answer.body)?;
    Ok(answer)
}

type Head = (u16, Vec<(String, String)>);

fn head(connection: &mut BufReader<TcpStream>) -> Result<Head, Lost> {
    let status = line(connection)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| Lost::cut("an answer without a status"))?;
    let mut headers = Vec::new();
    loop {
        let line = line(connection)?;
        if line.is_empty() {
            return Ok((status, headers));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| Lost::cut("an odd header"))?;
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
}

/// Reads a chunk; nothing after the last one.
fn chunk(connection: &mut BufReader<TcpStream>) -> Result<Option<Vec<u8>>, Lost> {
    let len = usize::from_str_radix(&line(connection)?, 16);
    let mut bytes = vec![0; len.map_err(|_| Lost::cut("an odd chunk"))?];
    connection.read_exact(&mut bytes)?;
    line(connection)?;
    Ok((!bytes.is_empty()).then_some(bytes))
}

/// Reads a line, which has to be whole.
fn line(connection: &mut BufReader<TcpStream>) -> Result<String, Lost> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let whole = line.strip_suffix("\r\n").ok_or_else(|| Lost::cut("the connection ended"))?;
    Ok(whole.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_written_as_it_is_meant() {
        let request = Request::new("POST", "a/b").with("Stream-Closed", "true").body(b"x".to_vec());
        let text = String::from_utf8(request.bytes()).unwrap();
        let expected = "POST /v1/stream/a/b HTTP/1.1\r\nHost: torture\r\nStream-Closed: true\r\n\
                        Content-Length: 1\r\n\r\nx";
        assert_eq!(text, expected);
    }

    #[test]
    fn events_are_told_from_comments_and_their_lines_are_put_together() {
        let read = event("event: data\ndata:ab\ndata:cd\n");
        assert_eq!(read, Some(Event { name: "data".to_owned(), data: "abcd".to_owned() }));
        assert_eq!(event(": keep-alive"), None);
    }
}
