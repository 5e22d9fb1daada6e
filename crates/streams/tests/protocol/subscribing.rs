//! Subscriptions on a simulated disk, and short ways to ask for things.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Verifier as _, VerifyingKey};
use highwater_disk::Rng as _;
use highwater_disk::sim::SimRng;
use highwater_log::ids::Offset;
use highwater_streams::offset::Token;
use highwater_streams::subscriptions::keys::Entropy;
use highwater_streams::subscriptions::url_policy::UrlPolicy;
use highwater_streams::subscriptions::{
    Delivered, Due, Page, Refusal, Settings, SubscriptionLimits, Subscriptions, Webhook,
    named_streams, open_keys,
};
use serde_json::{Value, json};

use crate::support::*;

pub const ROOT: &str = "http://127.0.0.1:4437/v1/stream";
/// Memory for links where nothing else is asked for.
const LINKS_BYTES: u64 = 1 << 20;

/// Entropy that is none.
#[derive(Debug)]
struct Seeded(AtomicU64);

impl Entropy for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        let mut random = SimRng::new(self.0.fetch_add(1, Ordering::Relaxed));
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A store and its subscriptions.
pub struct Subs {
    pub store: Store,
    pub subs: Arc<Subscriptions>,
    entropy: Arc<Seeded>,
    links_bytes: u64,
}

impl Subs {
    pub fn new(seed: u64) -> Self {
        Self::over(Store::new(seed), seed)
    }

    /// Subscriptions of a store with settings of its own.
    pub fn over(store: Store, seed: u64) -> Self {
        Self::bounded(store, seed, LINKS_BYTES)
    }

    /// Subscriptions with so much memory for links.
    pub fn bounded(store: Store, seed: u64, links_bytes: u64) -> Self {
        Self::open(store, Arc::new(Seeded(AtomicU64::new(seed << 20))), links_bytes)
    }

    fn open(store: Store, entropy: Arc<Seeded>, links_bytes: u64) -> Self {
        let keys = store.run(open_keys(&store.log, &*entropy)).unwrap();
        let settings = Settings {
            keys,
            entropy: Arc::<Seeded>::clone(&entropy),
            policy: UrlPolicy::Production,
            limits: SubscriptionLimits { subscriptions: 4, links_bytes },
        };
        let subs = Subscriptions::open(store.streams.clone(), settings).unwrap();
        Self { store, subs, entropy, links_bytes }
    }

    /// Cuts the power, and opens what is left.
    pub fn crash(self) -> Self {
        let subs = self.crash_unsearched();
        subs.subs.search();
        subs
    }

    /// The same, and nobody has looked for pending streams yet.
    pub fn crash_unsearched(self) -> Self {
        drop(self.subs);
        Self::open(self.store.crash(), self.entropy, self.links_bytes)
    }

    /// What a power cut at this moment would leave.
    pub fn crash_copy(&self) -> Self {
        Self::open(self.store.crash_copy(), Arc::clone(&self.entropy), self.links_bytes)
    }

    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.store.run(future)
    }

    pub fn put(&self, id: &str, body: &Value) -> Result<(Value, bool), Refusal> {
        let config = self.subs.config(body.to_string().as_bytes())?;
        self.run(self.subs.put(id, config, ROOT))
    }

    pub fn get(&self, id: &str) -> Value {
        self.subs.get(id, ROOT, &Page::default()).unwrap()
    }

    pub fn ack(&self, id: &str, token: Option<&str>, body: &Value) -> Result<bool, Refusal> {
        self.run(self.subs.ack(id, token, body.to_string().as_bytes()))
    }

    /// Drives once, and nothing fails.
    pub fn turn_once(&self) -> Vec<Due> {
        let (due, outcome) = self.run(self.subs.turn());
        outcome.unwrap();
        due
    }

    /// Drives until nothing is due now.
    pub fn turn(&self) -> Vec<Webhook> {
        let mut webhooks = Vec::new();
        for _ in 0..100 {
            self.subs.refresh().unwrap();
            self.subs.search();
            for due in self.turn_once() {
                webhooks.extend(self.run(self.subs.begin(&due)).unwrap());
            }
            let now_ms = highwater_disk::Clock::wall(&self.store.clock).as_millis();
            if self.subs.due_ms().is_none_or(|due_ms| u128::from(due_ms) > now_ms) {
                return webhooks;
            }
        }
        panic!("it is never done");
    }

    pub fn put_stream(&self, name: &str, body: &str) {
        self.store.put(name, &create(JSON, body)).unwrap();
    }

    pub fn post_stream(&self, name: &str, body: &str) {
        self.store.post(name, &append(JSON, body)).unwrap();
    }

    /// Stages appends to a stream, `filler`, until there is no room for any more: until the log
    /// commits.
    pub fn fill(&self) {
        self.put_stream("filler", "[]");
        let (body, filler) = (format!("\"{}\"", "x".repeat(8000)), path("filler"));
        for request in [append(JSON, &body), append(JSON, "1")] {
            while first_poll(self.store.streams.append(&filler, &request)).is_none() {}
        }
    }

    /// All messages of a stream.
    pub fn messages(&self, name: &str) -> Vec<Value> {
        let chunks = self.store.chunks(name);
        let read = |chunk: &String| serde_json::from_str::<Vec<Value>>(chunk).unwrap();
        chunks.iter().flat_map(read).collect()
    }

    /// Appends; gives whether it was acknowledged.
    pub fn try_post(&self, name: &str, body: &str) -> bool {
        let (path, request) = (path(name), append(JSON, body));
        self.store.attempt(self.store.streams.append(&path, &request)).is_some_and(|r| r.is_ok())
    }

    pub fn try_turn(&self) -> Option<Vec<Webhook>> {
        let mut webhooks = Vec::new();
        let (due, outcome) = self.store.attempt(self.subs.turn())?;
        outcome.ok()?;
        for due in due {
            webhooks.extend(self.store.attempt(self.subs.begin(&due))?.ok()?);
        }
        Some(webhooks)
    }

    pub fn try_delivered(&self, webhook: &Webhook, outcome: Delivered) -> bool {
        self.store.attempt(self.subs.delivered(webhook, outcome)).is_some_and(|r| r.is_ok())
    }

    /// Checks a webhook's signature as a receiver does.
    pub fn verify(&self, webhook: &Webhook) {
        let header = webhook.headers.iter().find(|(name, _)| *name == "webhook-signature").unwrap();
        let rest = header.1.strip_prefix("t=").unwrap();
        let (seconds, rest) = rest.split_once(",kid=").unwrap();
        let (kid, signature) = rest.split_once(",ed25519=").unwrap();
        let jwks = self.subs.jwks();
        let keys = jwks["keys"].as_array().unwrap();
        let key = keys.iter().find(|key| key["kid"] == kid).unwrap();
        let public = URL_SAFE_NO_PAD.decode(key["x"].as_str().unwrap()).unwrap();
        let public = VerifyingKey::from_bytes(&public.try_into().unwrap()).unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let signature = Signature::from_slice(&signature).unwrap();
        let message = [seconds.as_bytes(), b".", &webhook.body].concat();
        public.verify(&message, &signature).unwrap();
    }
}

/// What a future gives at once; where it waits, it is dropped.
pub fn first_poll<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

pub fn hook() -> Value {
    json!({ "type": "webhook", "pattern": "events/*", "lease_ttl_ms": 1000,
        "webhook": { "url": "https://worker.example/hook" } })
}

pub fn pull() -> Value {
    json!({ "type": "pull-wake", "pattern": "events/*", "lease_ttl_ms": 1000,
        "wake_stream": "wake/pool" })
}

pub fn offset(at: u64) -> String {
    Token(Offset(at)).to_string()
}

/// The names of streams in what a client sends.
pub fn named_in(body: &[u8]) -> Vec<String> {
    named_streams(body).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "what is given is an answer at hand")]
pub fn refusal<T: std::fmt::Debug>(answer: Result<T, Refusal>) -> &'static str {
    answer.as_ref().map_err(Refusal::code).expect_err("it went through")
}
