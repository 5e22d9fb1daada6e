//! A server that is killed: does what it answered hold, whoever asks again?
//!
//! Each cycle starts `highwater serve` on the same store (`server`), looks at all there is
//! (`shelf`), sets clients to it, and kills it with SIGKILL at a random moment: at work, or while
//! it starts. The clients live on: those that do a plan's steps (`worker`), with producers, forks,
//! closes, deletes and lifetimes, ask again for what nobody answered; those that read (`reader`) go
//! on where they were; so do the worker of a subscription (`pull`), the receiver of webhooks
//! (`hook`), and whoever makes and deletes subscriptions (`churn`). What is known is a ledger as of
//! the other layers ([`crate::real`]): I1 to I5, and for subscriptions what `cursors` says. All
//! goes through `http`.
//!
//! A killed process loses nothing that the kernel has: `shutdown` and `sim` lose power.

mod churn;
mod cursors;
mod hook;
mod http;
mod pull;
mod reader;
mod server;
mod shelf;
mod worker;

use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use self::http::{Answer, Client, Lost, Request};
use self::server::Server;
use crate::campaign::{Campaign, CampaignError, CampaignResult, Stop};
use crate::dice::Dice;
use crate::real::ledger::worker_of;
use crate::real::plan::SHARED;
use crate::real::{Disk, Kind, Report, Subject, shared_name};
use crate::verdict::{Layer, Verdict};
use crate::yard::Yard;

/// Content type of all streams; each has a parameter of its own.
const PLAIN_TYPE: &str = "application/octet-stream";
/// Most acknowledgements of a life, about.
const MOST_STEPS: u64 = 400;
/// Most lives of a store.
const MOST_LIVES: u64 = 16;
/// Longest life of a server that is killed while it starts, microseconds.
const LONGEST_START_US: u64 = 60_000;
/// Longest time of work: a server may wait for a checkpoint, or a slow disk.
const LONGEST_WORK: Duration = Duration::from_secs(2);
/// Longest time from the last acknowledgement that is waited for to the end, microseconds.
const LONGEST_MOMENT_US: u64 = 3000;

/// Why a client stops.
#[derive(Debug)]
enum Trouble {
    /// The connection ended.
    Lost(String),
    /// Something is not as it must be.
    Wrong(String),
}

impl From<Lost> for Trouble {
    fn from(lost: Lost) -> Self {
        if lost.is_silence() {
            return Self::Wrong(format!("the server holds a connection and is silent: {lost}"));
        }
        Self::Lost(lost.to_string())
    }
}

impl From<String> for Trouble {
    fn from(what: String) -> Self {
        Self::Wrong(what)
    }
}

/// For whoever has no reason to lose a connection.
impl From<Trouble> for String {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Lost(why) => format!("no answer: {why}"),
            Trouble::Wrong(what) => what,
        }
    }
}

impl Trouble {
    /// Reports why a client ended.
    fn report(self, who: &str, reports: &Sender<Report>) {
        let report = match self {
            Self::Lost(why) => Report::Stopped { worker: 0, why: format!("{who}: {why}") },
            Self::Wrong(what) => Report::Wrong { what: format!("{who}: {what}") },
        };
        // Whoever listened has found something wrong, and does not need to know more.
        reports.send(report).ok();
    }
}

/// A store, and the clients that outlive its servers.
struct Store {
    subject: Subject,
    seed: u64,
    is_vouched_for: bool,
    places: Vec<reader::Place>,
    puller: pull::Puller,
    receiver: hook::Receiver,
    churn: churn::Churn,
    lives_left: u64,
}

/// Runs cycles.
///
/// # Errors
/// When a server cannot be started or ended.
pub fn run(campaign: &mut Campaign<'_>) -> Result<Verdict, CampaignError> {
    let mut verdict = Verdict::new(Layer::Serve);
    let mut dice = Dice::new(campaign.seed);
    let mut yard = Yard::make(campaign.dir, Layer::Serve)?;
    let mut current: Option<Store> = None;
    while verdict.runs < campaign.cycles && !campaign.is_stopped() {
        verdict.runs += 1;
        let mut store = match current.take() {
            Some(store) => store,
            None => Store::new(campaign, &yard, &mut dice)?,
        };
        let mut outcome = store.cycle(campaign, &mut dice);
        store.lives_left -= 1;
        let is_last = store.lives_left == 0 || verdict.runs == campaign.cycles;
        if outcome.is_ok() && is_last {
            outcome = store.finish(campaign);
        }
        verdict.count_all(&store.subject.take_counts());
        verdict.count_all(&std::mem::take(&mut store.puller.counts));
        if !campaign.conclude(&mut verdict, &mut yard, outcome, "")? {
            break;
        }
        if is_last {
            store.subject.remove()?;
        } else {
            current = Some(store);
        }
    }
    Ok(verdict)
}

impl Store {
    fn new(campaign: &Campaign<'_>, yard: &Yard, dice: &mut Dice) -> CampaignResult<Self> {
        let nature = campaign.nature(Kind::Serve, dice);
        let subject = Subject::new(yard.path(), nature)?;
        let is_vouched_for = subject.ledger.is_vouched_for();
        let receiver = hook::Receiver::start(nature.seed, is_vouched_for);
        Ok(Self {
            seed: nature.seed,
            is_vouched_for,
            places: (0..SHARED).map(reader::Place::new).collect(),
            puller: pull::Puller::new(nature.seed, is_vouched_for),
            receiver: receiver
                .map_err(|error| CampaignError::machine("a receiver of webhooks", &error))?,
            churn: churn::Churn::new(nature.seed),
            lives_left: 1 + dice.below(MOST_LIVES),
            subject,
        })
    }

    /// One life, and what it left.
    fn cycle(&mut self, campaign: &Campaign<'_>, dice: &mut Dice) -> Result<(), Stop> {
        let server = self.start(campaign)?;
        if dice.one_in(6) {
            let moment = Duration::from_micros(dice.below(LONGEST_START_US));
            server.address(moment)?;
            self.end(server)?;
        } else {
            let mut client = server.ready()?;
            self.begin(&mut client)?;
            self.live(campaign, dice, server, &client)?;
        }
        self.heard_of_webhooks()?;
        Ok(self.subject.check()?)
    }

    /// A life without writers, in which everything is acknowledged.
    fn finish(&mut self, campaign: &Campaign<'_>) -> Result<(), Stop> {
        let server = self.start(campaign)?;
        let mut client = server.ready()?;
        self.begin(&mut client)?;
        self.puller.drain(&mut client).map_err(String::from)?;
        self.receiver.drain(&mut client).map_err(String::from)?;
        self.subject.ledger.count("stores whose subscriptions were drained", 1);
        drop(client);
        self.end(server)?;
        self.heard_of_webhooks()
    }

    fn start(&self, campaign: &Campaign<'_>) -> CampaignResult<Server> {
        let nature = self.subject.ledger.nature;
        Server::start(campaign.program, &self.subject.dir, nature)
    }

    /// Kills a server, which has to have been alive.
    fn end(&mut self, server: Server) -> Result<(), Stop> {
        self.subject.begin_end();
        self.receiver.part();
        let ended = server.end()?;
        if ended.status.signal().is_none() {
            return Err(
                format!("the server ended by itself: {}: {}", ended.status, ended.said).into()
            );
        }
        if ended.said.contains("panicked") {
            return Err(format!("the server panicked: {}", ended.said).into());
        }
        Ok(())
    }

    /// Judges what is there, and makes what all need.
    fn begin(&mut self, client: &mut Client) -> Result<(), String> {
        self.receiver.meet(client, self.is_vouched_for)?;
        let mut served = shelf::Served::new(client);
        self.subject.ledger.judge(&mut served)?;
        for (name, seconds) in served.used {
            let number = name.split('/').nth(1).and_then(|number| number.parse().ok());
            let (Some(worker), Some(number)) = (worker_of(&name), number) else { continue };
            let by_ms = worker::now_ms() + seconds * 1000;
            self.subject.ledger.hear(&Report::EndsBy { worker, number, by_ms })?;
        }
        self.churn.judge(client, self.is_vouched_for)?;
        // Before the streams: they are followed from their start.
        pull::Puller::subscribe(client)?;
        self.receiver.subscribe(client)?;
        for stream in 0..SHARED {
            let make = Request::new("PUT", &shared_name(stream)).with("Content-Type", PLAIN_TYPE);
            expect(&client.ask(&make).map_err(Trouble::from)?, &[200, 201], "a shared stream")?;
            // Once readers see it, it is as durable as it will be.
            let look = Request::new("HEAD", &shared_name(stream));
            while client.ask(&look).map_err(Trouble::from)?.status != 200 {
                highwater_sys::time::sleep(Duration::from_millis(1));
            }
        }
        self.subject.note(&Report::Ready, Disk::Works)
    }

    /// Sets all clients to work, and kills the server among them.
    fn live(
        &mut self,
        campaign: &Campaign<'_>,
        dice: &mut Dice,
        server: Server,
        client: &Client,
    ) -> Result<(), Stop> {
        let address = client.address();
        let connect = || Client::new(address);
        let nature = self.subject.ledger.nature;
        let (sender, reports) = mpsc::channel();
        let mut places = std::mem::take(&mut self.places);
        let mut puller = std::mem::replace(&mut self.puller, pull::Puller::new(0, false));
        let mut churn = std::mem::replace(&mut self.churn, churn::Churn::new(0));
        let seed = self.seed ^ dice.bits();
        let outcome = std::thread::scope(|scope| {
            for (worker, book) in (0..).zip(&self.subject.ledger.books) {
                let steps = (worker, book.acked, book.base.next());
                let worker = worker::Worker::new(connect(), sender.clone(), nature, steps);
                scope.spawn(move || worker.run());
            }
            for place in &mut places {
                let (client, sender) = (connect(), sender.clone());
                scope.spawn(move || place.follow(client, &sender));
            }
            let (for_reader, for_puller) = (sender.clone(), sender.clone());
            scope.spawn(move || reader::read(connect(), seed, &for_reader));
            let (puller, churn) = (&mut puller, &mut churn);
            scope.spawn(move || puller.run(connect(), &for_puller));
            scope.spawn(move || churn.run(connect(), &sender));
            let worked = self.listen(campaign, dice, &reports);
            let ended = self.end(server);
            let rest = self.hear_out(&reports);
            worked.map_err(Stop::from).and(ended).and(rest.map_err(Stop::from))
        });
        (self.places, self.puller, self.churn) = (places, puller, churn);
        outcome
    }

    /// Lets clients work until a random number of acknowledgements, and a random moment more.
    fn listen(
        &mut self,
        campaign: &Campaign<'_>,
        dice: &mut Dice,
        reports: &Receiver<Report>,
    ) -> Result<(), String> {
        let mut left = dice.below(MOST_STEPS);
        let deadline = Instant::now() + LONGEST_WORK;
        while left > 0 && !campaign.stop.load(Ordering::Relaxed) {
            let Some(report) = hear(reports, deadline)? else { break };
            left = left.saturating_sub(u64::from(matches!(report, Report::Acked { .. })));
            self.subject.note(&report, Disk::Works)?;
        }
        let deadline = Instant::now() + Duration::from_micros(dice.below(LONGEST_MOMENT_US));
        while let Some(report) = hear(reports, deadline)? {
            self.subject.note(&report, Disk::Works)?;
        }
        Ok(())
    }

    /// Notes what clients still had to say of a server that is dead.
    fn hear_out(&mut self, reports: &Receiver<Report>) -> Result<(), String> {
        let mut outcome = Ok(());
        for report in reports {
            let is_lost = matches!(report, Report::Stopped { .. });
            if outcome.is_ok() && !is_lost {
                outcome = self.subject.note(&report, Disk::Works);
            }
        }
        outcome
    }

    fn heard_of_webhooks(&mut self) -> Result<(), Stop> {
        let (wrong, taken) = self.receiver.take();
        self.subject.ledger.count("webhooks taken", taken);
        match wrong {
            Some(what) => Err(Stop::Wrong(what)),
            None => Ok(()),
        }
    }
}

/// Waits for a report; nothing when it is late enough.
fn hear(reports: &Receiver<Report>, deadline: Instant) -> Result<Option<Report>, String> {
    match reports.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(report) => Ok(Some(report)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err("all clients have ended".to_owned()),
    }
}

/// Fails unless an answer has one of these statuses.
fn expect(answer: &Answer, due: &[u16], what: &str) -> Result<(), Trouble> {
    if due.contains(&answer.status) {
        return Ok(());
    }
    Err(Trouble::Wrong(format!("{what}: not {due:?} but {}", answer.told())))
}

/// Whether all that a subscription follows is acknowledged.
fn is_drained(client: &mut Client, id: &str) -> Result<bool, Trouble> {
    let answer = client.ask(&Request::new("GET", &subscription(id)))?;
    expect(&answer, &[200], "a subscription")?;
    let body = answer.json()?;
    for link in body["streams"].as_array().into_iter().flatten() {
        let path = link["path"].as_str().unwrap_or_default();
        let head = client.ask(&Request::new("HEAD", path))?;
        if head.status == 200 && head.header("stream-next-offset") != link["acked_offset"].as_str()
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Path of a subscription.
fn subscription(id: &str) -> String {
    format!("__ds/subscriptions/{id}")
}

/// Whether a stream is none of a worker's steps.
fn is_ours(name: &str) -> bool {
    name.starts_with("sub/")
}

/// The step that made a stream, from its type.
fn step_of(content_type: &str) -> Option<u64> {
    content_type.split_once("; step=")?.1.parse().ok()
}

/// Writes a moment as RFC 3339 has it.
fn moment(ms: u64) -> String {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    moment.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}
