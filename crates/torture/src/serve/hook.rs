//! The receiver of a subscription's webhooks, which outlives the server: it is done, calls back,
//! fails, or hangs up. Every request has to be signed with the key that was published first.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, VerifyingKey};
use serde_json::{Value, json};

use super::Trouble;
use super::cursors::{Arrival, Cursors};
use super::http::{Client, Request};
use crate::dice::Dice;

/// The subscription's id.
pub(super) const ID: &str = "hook";
/// Longest wait for the bytes of a request.
const PATIENCE: Duration = Duration::from_secs(20);
/// Largest body.
const MOST_BYTES: usize = 1 << 20;

/// The receiver; ends when dropped.
#[derive(Debug)]
pub(super) struct Receiver {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What it has, and what it was told.
#[derive(Debug)]
struct State {
    dice: Dice,
    cursors: Cursors,
    /// Where the server is, if it is.
    server: Option<SocketAddr>,
    /// The published keys, from when they were first seen.
    keys: Option<Value>,
    /// Answers that everything is done, from the end of the workload on.
    is_draining: bool,
    wrong: Option<String>,
    taken: u64,
}

/// A webhook as it came.
struct Hook {
    signature: String,
    body: Vec<u8>,
}

impl Receiver {
    /// Begins to listen.
    pub(super) fn start(seed: u64, is_vouched_for: bool) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State {
            dice: Dice::new(seed ^ 0x400C),
            cursors: Cursors::new(is_vouched_for, Arrival::AnyOrder),
            server: None,
            keys: None,
            is_draining: false,
            wrong: None,
            taken: 0,
        }));
        let is_over = Arc::new(AtomicBool::new(false));
        let (its, over) = (Arc::clone(&state), Arc::clone(&is_over));
        let body = move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                // A server that was killed hangs up.
                serve(stream, &its).ok();
            }
        };
        let thread = Some(std::thread::spawn(body));
        Ok(Self { address, state, is_over, thread })
    }

    /// Makes the subscription, or finds it there.
    pub(super) fn subscribe(&self, client: &mut Client) -> Result<(), Trouble> {
        let url = format!("http://{}/hook", self.address);
        let body = json!({
            "type": "webhook", "pattern": "w0/*", "webhook": { "url": url }, "lease_ttl_ms": 1000,
        });
        let made = client.ask(&Request::new("PUT", &super::subscription(ID)).json(&body))?;
        super::expect(&made, &[200, 201], "a subscription")
    }

    /// Tells where the server is, and holds its keys against those that it had.
    pub(super) fn meet(&self, client: &mut Client, keeps_keys: bool) -> Result<(), Trouble> {
        let answer = client.ask(&Request::new("GET", "__ds/jwks.json"))?;
        super::expect(&answer, &[200], "the keys")?;
        let keys = answer.json()?;
        let mut state = lock(&self.state);
        state.server = Some(client.address());
        match &state.keys {
            Some(first) if keeps_keys && *first != keys => {
                Err(Trouble::Wrong(format!("the keys were {first} and are {keys}")))
            }
            _ => {
                state.keys = Some(keys);
                Ok(())
            }
        }
    }

    /// The server is gone.
    pub(super) fn part(&self) {
        lock(&self.state).server = None;
    }

    /// Waits until everything is acknowledged.
    pub(super) fn drain(&self, client: &mut Client) -> Result<(), Trouble> {
        lock(&self.state).is_draining = true;
        let deadline = std::time::Instant::now() + crate::real::PATIENCE;
        while !super::is_drained(client, ID)? {
            if std::time::Instant::now() > deadline {
                let what = "a webhook's subscription is not drained although nobody writes";
                return Err(Trouble::Wrong(what.to_owned()));
            }
            highwater_sys::time::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Gives what was not as it must be, once; and how many webhooks came.
    pub(super) fn take(&self) -> (Option<String>, u64) {
        let mut state = lock(&self.state);
        (state.wrong.take(), std::mem::take(&mut state.taken))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes who waits for a connection.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let hook = receive(&stream)?;
    let (reply, callback) = decide(&hook, &mut lock(state));
    let Some((status, body)) = reply else { return Ok(()) };
    let len = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes())?;
    drop(stream);
    if let Some((server, request, tails)) = callback {
        // Where the answer is lost, what was asked for may have been taken.
        let answer = Client::new(server).ask(&request);
        if answer.is_ok_and(|answer| answer.status == 200) {
            lock(state).cursors.answered(&tails);
        }
    }
    Ok(())
}

fn receive(stream: &TcpStream) -> std::io::Result<Hook> {
    let mut reader = BufReader::new(stream);
    let (mut signature, mut len) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            // Whoever sends it was killed.
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            len = value.trim().parse().unwrap_or(0);
        }
        if lower.starts_with("webhook-signature:") {
            line["webhook-signature:".len()..].trim().clone_into(&mut signature);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; len.min(MOST_BYTES)];
    reader.read_exact(&mut body)?;
    Ok(Hook { signature, body })
}

type Reply = Option<(&'static str, String)>;
type Callback = Option<(SocketAddr, Request, Vec<(String, String)>)>;

/// Looks at a webhook, and decides what to say, and whether to call back.
fn decide(hook: &Hook, state: &mut State) -> (Reply, Callback) {
    state.taken += 1;
    let woken = verify(hook, state.keys.as_ref()).and_then(|body| {
        let tails = state.cursors.woken(&body)?;
        Ok((body, tails))
    });
    let (body, tails) = match woken {
        Ok(woken) => woken,
        Err(trouble) => {
            state.wrong.get_or_insert(trouble.into());
            return (None, None);
        }
    };
    let done = r#"{"done":true}"#.to_owned();
    let deed = if state.is_draining { 0 } else { state.dice.below(8) };
    match (deed, state.server) {
        (0..=2, _) => {
            state.cursors.asking(&tails);
            (Some(("200 OK", done)), None)
        }
        (3..=5, Some(server)) => {
            let acks = state.cursors.asking(&tails);
            let is_done = state.dice.one_in(2);
            let token = body["callback_token"].as_str().unwrap_or_default();
            let report = json!({
                "wake_id": body["wake_id"], "generation": body["generation"],
                "acks": acks, "done": is_done,
            });
            let request = Request::new("POST", &format!("{}/callback", super::subscription(ID)))
                .with("Authorization", format!("Bearer {token}"))
                .json(&report);
            (Some(("202 Accepted", String::new())), Some((server, request, tails)))
        }
        (6, _) => (Some(("500 Internal Server Error", String::new())), None),
        _ => (None, None),
    }
}

/// Checks a webhook's signature, and reads its body.
fn verify(hook: &Hook, keys: Option<&Value>) -> Result<Value, Trouble> {
    let wrong = |what: &str| Trouble::Wrong(format!("a webhook {what}: {}", hook.signature));
    let part = |name: &str| {
        let found = hook.signature.split(',').find_map(|part| part.trim().strip_prefix(name));
        found.ok_or_else(|| wrong("is not signed as it must be"))
    };
    let (time, kid, signature) = (part("t=")?, part("kid=")?, part("ed25519=")?);
    let body = serde_json::from_slice(&hook.body).map_err(|_| wrong("is no JSON"))?;
    // One that comes before the keys were looked at cannot be held against them.
    let Some(keys) = keys else { return Ok(body) };
    let key = keys["keys"].as_array().into_iter().flatten().find(|key| key["kid"] == kid);
    let key = key.and_then(|key| key["x"].as_str()).ok_or_else(|| wrong("has an unknown key"))?;
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong("is no base64url"));
    let key: [u8; 32] = bytes(key)?.try_into().map_err(|_| wrong("has an odd key"))?;
    let key = VerifyingKey::from_bytes(&key).map_err(|_| wrong("has no key"))?;
    let signature = Signature::from_slice(&bytes(signature)?).map_err(|_| wrong("is short"))?;
    let signed = [time.as_bytes(), b".", &hook.body].concat();
    key.verify_strict(&signed, &signature).map_err(|_| wrong("has a wrong signature"))?;
    Ok(body)
}
