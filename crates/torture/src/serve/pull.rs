//! A worker of a subscription that is told by a stream: it claims, acknowledges, gives back,
//! forgets, and outlives the server.
//!
//! What was answered holds: a generation never comes back, a cursor never goes back, a lease is
//! kept over a restart as long as it was granted, a wake that is over is fenced. In the end
//! everything is acknowledged.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Trouble;
use super::cursors::{Arrival, Cursors};
use super::http::{Answer, Client, Request};
use crate::dice::Dice;
use crate::real::Report;

/// The subscription's id.
pub(super) const ID: &str = "pull";
/// The stream that tells of wakes.
pub(super) const WAKES: &str = "sub/wakes";
/// How long a claim holds.
const LEASE: Duration = Duration::from_secs(3);
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(2);

/// The worker, and what it was told.
#[derive(Debug)]
pub(super) struct Puller {
    dice: Dice,
    cursors: Cursors,
    held: Option<Held>,
    claims: u64,
    /// Servers that it has worked with.
    lives: u64,
    /// Whether what is answered is sure to be there after a kill.
    is_vouched_for: bool,
    pub(super) counts: BTreeMap<&'static str, u64>,
}

/// A lease.
#[derive(Debug, Clone)]
struct Held {
    worker: String,
    token: String,
    wake: Value,
    tails: Vec<(String, String)>,
    /// Until then nobody else can have it.
    until: Instant,
    /// The server that granted it.
    life: u64,
}

/// What is done with a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Done,
    Heartbeat,
    Release,
    Rival,
    Forget,
}

impl Puller {
    /// Begins a store.
    pub(super) fn new(seed: u64, is_vouched_for: bool) -> Self {
        Self {
            dice: Dice::new(seed ^ 0x9011),
            cursors: Cursors::new(is_vouched_for, Arrival::InOrder),
            held: None,
            claims: 0,
            lives: 0,
            is_vouched_for,
            counts: BTreeMap::new(),
        }
    }

    /// Makes stream and subscription, or finds them there.
    pub(super) fn subscribe(client: &mut Client) -> Result<(), Trouble> {
        let wakes = Request::new("PUT", WAKES).with("Content-Type", "application/json");
        super::expect(&client.ask(&wakes)?, &[200, 201], "the stream of wakes")?;
        let body = json!({
            "type": "pull-wake", "pattern": "shared/*", "wake_stream": WAKES,
            "lease_ttl_ms": u64::try_from(LEASE.as_millis()).unwrap_or(u64::MAX),
        });
        let made = client.ask(&Request::new("PUT", &super::subscription(ID)).json(&body))?;
        super::expect(&made, &[200, 201], "a subscription")
    }

    /// Works until the connection is lost.
    pub(super) fn run(&mut self, mut client: Client, reports: &Sender<Report>) {
        self.lives += 1;
        let trouble = loop {
            if let Err(trouble) = self.turn(&mut client) {
                break trouble;
            }
            highwater_sys::time::sleep(PAUSE);
        };
        trouble.report(&format!("subscription {ID}"), reports);
    }

    /// Works until everything is acknowledged.
    pub(super) fn drain(&mut self, client: &mut Client) -> Result<(), Trouble> {
        let deadline = Instant::now() + crate::real::PATIENCE;
        while Instant::now() < deadline {
            if let Some(held) = self.held.take_if(|held| held.until > Instant::now()) {
                self.deed(client, held, Deed::Done)?;
            } else if self.claim(client)?.is_none() && super::is_drained(client, ID)? {
                return Ok(());
            }
            highwater_sys::time::sleep(PAUSE);
        }
        Err(Trouble::Wrong("it is not drained although nobody writes".to_owned()))
    }

    fn turn(&mut self, client: &mut Client) -> Result<(), Trouble> {
        let Some(held) = self.held.take() else {
            return self.claim(client).map(drop);
        };
        let deed = match self.dice.below(10) {
            0..=3 => Deed::Done,
            4..=5 => Deed::Heartbeat,
            6 => Deed::Release,
            7..=8 => Deed::Rival,
            _ => Deed::Forget,
        };
        self.deed(client, held, deed)
    }

    /// Claims; gives nothing where there is nothing to claim, or another has it.
    fn claim(&mut self, client: &mut Client) -> Result<Option<()>, Trouble> {
        self.claims += 1;
        let worker = format!("worker {}", self.claims);
        let asked = Instant::now();
        let answer = client.ask(&ask("claim", None, &json!({ "worker": worker })))?;
        match answer.status {
            200 => {
                let held = self.granted(worker, &answer, asked)?;
                self.held = Some(held);
                self.count("leases granted");
                Ok(Some(()))
            }
            409 | 503 | 507 => Ok(None),
            _ => Err(Trouble::Wrong(format!("a claim: {}", answer.told()))),
        }
    }

    fn granted(&mut self, worker: String, answer: &Answer, at: Instant) -> Result<Held, Trouble> {
        let body = answer.json()?;
        let tails = self.cursors.woken(&body)?;
        let wake = json!({ "wake_id": body["wake_id"], "generation": body["generation"] });
        let token = body["token"].as_str().unwrap_or_default().to_owned();
        Ok(Held { worker, token, wake, tails, until: at + LEASE, life: self.lives })
    }

    fn deed(&mut self, client: &mut Client, mut held: Held, deed: Deed) -> Result<(), Trouble> {
        let mut body = held.wake.clone();
        let asked = Instant::now();
        match deed {
            Deed::Forget => Ok(()),
            Deed::Rival => {
                let rival = ask("claim", None, &json!({ "worker": "rival" }));
                // Where the answer is lost, the lease is not: whoever has it keeps it.
                self.held = Some(held.clone());
                let answer = client.ask(&rival)?;
                self.rival(held, &answer)
            }
            Deed::Release => {
                let answer = client.ask(&ask("release", Some(&held.token), &body))?;
                self.kept(&held, &answer, 204).map(drop)
            }
            Deed::Done | Deed::Heartbeat => {
                let tails = if deed == Deed::Done { &held.tails[..] } else { &[] };
                body["acks"] = self.cursors.asking(tails);
                body["done"] = (deed == Deed::Done).into();
                if deed == Deed::Heartbeat {
                    // It holds as long as before, where the answer is lost.
                    self.held = Some(held.clone());
                }
                let answer = client.ask(&ask("ack", Some(&held.token), &body))?;
                self.held = None;
                if self.kept(&held, &answer, 200)? {
                    self.cursors.answered(tails);
                    if deed == Deed::Heartbeat {
                        held.until = asked + LEASE;
                        self.held = Some(held);
                    }
                }
                Ok(())
            }
        }
    }

    /// Another one has asked for what is held.
    fn rival(&mut self, held: Held, answer: &Answer) -> Result<(), Trouble> {
        self.held = None;
        let is_held = Instant::now() < held.until && self.is_vouched_for;
        let body = answer.json()?;
        if is_held {
            let error = &body["error"];
            if answer.status != 409 || error["code"] != "ALREADY_CLAIMED" {
                let told = answer.told();
                return Err(Trouble::Wrong(format!("a lease was given to another: {told}")));
            }
            let told = error.to_string();
            if !told.contains(&held.worker) {
                let worker = &held.worker;
                return Err(Trouble::Wrong(format!("{worker} has the lease, not told: {told}")));
            }
            self.count("leases held against another");
            self.count_kept(&held);
            self.held = Some(held);
        } else if answer.status == 200 {
            // Its own lease had run out, and the rival goes.
            self.cursors.woken(&body)?;
        }
        Ok(())
    }

    /// Whether a lease was good; it has to be as long as it was granted for.
    fn kept(&mut self, held: &Held, answer: &Answer, due: u16) -> Result<bool, Trouble> {
        if answer.status == due {
            self.count_kept(held);
            return Ok(true);
        }
        if answer.is_busy() {
            return Ok(false);
        }
        if Instant::now() < held.until && self.is_vouched_for {
            let wake = &held.wake;
            return Err(Trouble::Wrong(format!("a lease is lost, {wake}: {}", answer.told())));
        }
        // In relaxed mode the token's key may be lost, too.
        if matches!(answer.status, 401 | 404 | 409) {
            return Ok(false);
        }
        Err(Trouble::Wrong(format!("a worker's request: {}", answer.told())))
    }

    fn count_kept(&mut self, held: &Held) {
        if held.life != self.lives {
            self.count("leases kept over a kill");
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

fn ask(what: &str, token: Option<&str>, body: &Value) -> Request {
    let request = Request::new("POST", &format!("{}/{what}", super::subscription(ID))).json(body);
    match token {
        Some(token) => request.with("Authorization", format!("Bearer {token}")),
        None => request,
    }
}
