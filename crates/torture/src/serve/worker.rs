//! A client that does a plan's steps one after the other, and reports each acknowledgement.
//!
//! Appends of a burst that bring a producer's claims are sent without waiting in between. A step
//! that was in the store when the client began is asked for again, and must be known there; any
//! other must be new (I4, I5). When the connection is lost, what was under way is in doubt, and the
//! client ends.

use std::sync::mpsc::Sender;

use highwater_log::ids::Offset;
use highwater_log::options::Durability;
use highwater_streams::offset::Token;
use highwater_sys::time::{sleep, wall_clock};

use super::Trouble;
use super::http::{Answer, Client, Request};
use crate::real::Report;
use crate::real::plan::{Claim, Life, Numbered, Plan, Step};
use crate::real::settings::{Nature, options};
use crate::real::{records, shared_name};

/// Between two tries of what finds no room, or is not there yet.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
/// A step that finds no room is reported again after so many tries.
const TRIES_PER_REPORT: u64 = 64;
/// Tries after which a fork's source must be there for readers.
const MOST_TRIES: u64 = 30_000;

/// A client.
pub(super) struct Worker {
    client: Client,
    reports: Sender<Report>,
    worker: u64,
    plan: Plan,
    known: u64,
    /// Whether acknowledgements come before anything is committed.
    is_relaxed: bool,
}

impl Worker {
    /// Begins at a step; those before `known` are in the store.
    pub(super) fn new(
        client: Client,
        reports: Sender<Report>,
        nature: Nature,
        (worker, from, known): (u64, u64, u64),
    ) -> Self {
        let plan = Plan::at(nature.seed, worker, from);
        let is_relaxed = matches!(options(nature).durability, Durability::Relaxed { .. });
        Self { client, reports, worker, plan, known, is_relaxed }
    }

    /// Works until the connection is lost.
    pub(super) fn run(mut self) {
        let stopped = loop {
            if let Err(stop) = self.burst() {
                break stop;
            }
        };
        stopped.report(&format!("client {}", self.worker), &self.reports);
    }

    /// One step, or as many as are asked for at once.
    fn burst(&mut self) -> Result<(), Trouble> {
        let mut row: Vec<(Numbered, Option<u64>)> = Vec::new();
        loop {
            let numbered = self.plan.advance();
            let tail = self.tail_after(&numbered);
            if row.last().is_some_and(|(last, _)| !is_one_row(last, &numbered)) {
                self.settle(&row)?;
                row.clear();
            }
            if matches!(numbered.step, Step::Append { claim: Some(_), .. }) {
                row.push((numbered, tail));
            } else {
                let request = self.request(&numbered);
                self.one(&numbered, tail, &request)?;
            }
            if !self.plan.is_in_burst() {
                return self.settle(&row);
            }
        }
    }

    /// Sends appends in a row. One that finds no room takes those behind it along: their claims
    /// come too early then, and all of them are sent again, one by one.
    fn settle(&mut self, row: &[(Numbered, Option<u64>)]) -> Result<(), Trouble> {
        let requests: Vec<Request> = row.iter().map(|(n, _)| self.request(n)).collect();
        if row.is_empty() {
            return Ok(());
        }
        let answers = self.client.ask_all(&requests)?;
        let busy = answers.iter().position(Answer::is_busy).unwrap_or(answers.len());
        for (at, (numbered, tail)) in row.iter().enumerate() {
            match answers.get(at).filter(|_| at < busy) {
                Some(answer) => self.take(numbered, *tail, answer)?,
                None => self.one(numbered, *tail, &requests[at])?,
            }
        }
        Ok(())
    }

    /// Asks for a step until there is room.
    fn one(
        &mut self,
        step: &Numbered,
        tail: Option<u64>,
        request: &Request,
    ) -> Result<(), Trouble> {
        for tries in 0_u64.. {
            let answer = self.client.ask(request)?;
            let is_unseen_yet = self.is_relaxed
                && matches!(step.step, Step::Fork { .. })
                && matches!(answer.status, 400 | 404)
                && tries < MOST_TRIES;
            if !answer.is_busy() && !is_unseen_yet {
                return self.take(step, tail, &answer);
            }
            if tries.is_multiple_of(TRIES_PER_REPORT) && answer.is_busy() {
                self.say(Report::Full { worker: self.worker, number: step.number });
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Holds an answer against what it must be, and reports it.
    fn take(&mut self, step: &Numbered, tail: Option<u64>, answer: &Answer) -> Result<(), Trouble> {
        let number = step.number;
        let is_known = number < self.known;
        let due: &[u16] = match (&step.step, is_known) {
            (Step::Append { claim: Some(_), .. } | Step::Shared { .. }, false) => &[200],
            (Step::Delete { .. }, true) => &[404, 410],
            (Step::Append { .. } | Step::Shared { .. } | Step::Close { .. }, _)
            | (Step::Delete { .. }, false) => &[204],
            (_, false) => &[201],
            (_, true) => &[200],
        };
        let told = |what: &str| {
            let was = if is_known { "known" } else { "new" };
            format!("step {number} {:?}, which is {was}: {what}: {}", step.step, answer.told())
        };
        if !due.contains(&answer.status) {
            return Err(Trouble::Wrong(told(&format!("answered otherwise than {due:?}"))));
        }
        let due = tail.map(|tail| Token(Offset(tail)).to_string()).filter(|_| !is_known);
        let found = answer.header("stream-next-offset");
        if due.is_some() && found != due.as_deref() {
            return Err(Trouble::Wrong(told(&format!("the tail is {found:?}, not {due:?}"))));
        }
        if let Step::Timed { life: Life::Unused(ttl_ms), .. } = step.step {
            let by_ms = now_ms() + whole_seconds(ttl_ms) * 1000;
            self.say(Report::EndsBy { worker: self.worker, number, by_ms });
        }
        self.say(Report::Acked { worker: self.worker, number });
        Ok(())
    }

    fn request(&self, numbered: &Numbered) -> Request {
        let payload = records::record(self.worker, numbered.number);
        match &numbered.step {
            Step::Create { name, closes } => {
                closing(Self::put(name, numbered.number), *closes).body(payload)
            }
            Step::Spare { name } => Self::put(name, numbered.number).body(payload),
            Step::Timed { name, life } => self.timed(numbered.number, name, *life).body(payload),
            Step::Append { name, claim, closes } => {
                closing(self.post(name, *claim), *closes).body(payload)
            }
            Step::Shared { stream, claim } => {
                self.post(&shared_name(*stream), Some(*claim)).body(payload)
            }
            Step::Close { name } => closing(Request::new("POST", name), true),
            Step::Delete { name } => Request::new("DELETE", name),
            Step::Fork { name, source, offset } => {
                // At the end of a record, and so many bytes behind it: the same every time.
                let stream = self.plan.streams.get(source);
                let anchor = stream.map_or(0, |stream| stream.record_end_before(*offset));
                Self::put(name, numbered.number)
                    .with("Stream-Forked-From", format!("/v1/stream/{source}"))
                    .with("Stream-Fork-Offset", Token(Offset(anchor)).to_string())
                    .with("Stream-Fork-Sub-Offset", (offset - anchor).to_string())
                    .body(payload)
            }
        }
    }

    /// Streams are told apart by the step that made them, which their type names.
    fn put(name: &str, number: u64) -> Request {
        Request::new("PUT", name).with("Content-Type", content_type(number))
    }

    fn post(&self, name: &str, claim: Option<Claim>) -> Request {
        let request = Request::new("POST", name).with("Content-Type", super::PLAIN_TYPE);
        match claim {
            None => request,
            Some(Claim { epoch, sequence }) => request
                .with("Producer-Id", format!("client {}", self.worker))
                .with("Producer-Epoch", epoch.to_string())
                .with("Producer-Seq", sequence.to_string()),
        }
    }

    fn timed(&self, number: u64, name: &str, life: Life) -> Request {
        let worker = self.worker;
        let request = Self::put(name, number);
        match life {
            Life::Until(ms) => {
                let at_ms = now_ms() + ms;
                self.say(Report::Ends { worker, number, not_before_ms: at_ms });
                self.say(Report::EndsBy { worker, number, by_ms: at_ms });
                request.with("Stream-Expires-At", super::moment(at_ms))
            }
            Life::Unused(ttl_ms) => {
                let seconds = whole_seconds(ttl_ms);
                let not_before_ms = now_ms() + seconds * 1000;
                self.say(Report::Ends { worker, number, not_before_ms });
                request.with("Stream-TTL", seconds.to_string())
            }
        }
    }

    /// Where a stream of its own ends once this step is done.
    fn tail_after(&self, numbered: &Numbered) -> Option<u64> {
        match &numbered.step {
            Step::Create { name, .. } | Step::Append { name, .. } | Step::Fork { name, .. } => {
                self.plan.streams.get(name).map(|stream| stream.len)
            }
            _ => None,
        }
    }

    fn say(&self, report: Report) {
        // Whoever listened has found something wrong, and does not need to know more.
        self.reports.send(report).ok();
    }
}

/// Whether an append may be sent before the one before it was answered: only if that one's failure
/// is sure to turn this one away.
fn is_one_row(last: &Numbered, next: &Numbered) -> bool {
    match (&last.step, &next.step) {
        (
            Step::Append { name: one, claim: Some(a), closes: false },
            Step::Append { name: other, claim: Some(b), .. },
        ) => one == other && a.epoch == b.epoch,
        _ => false,
    }
}

/// The type of a stream that a step made.
pub(super) fn content_type(number: u64) -> String {
    format!("{}; step={number}", super::PLAIN_TYPE)
}

fn closing(request: Request, closes: bool) -> Request {
    if closes { request.with("Stream-Closed", "true") } else { request }
}

/// The protocol counts whole seconds.
fn whole_seconds(ms: u64) -> u64 {
    ms.div_ceil(1000)
}

pub(super) fn now_ms() -> u64 {
    u64::try_from(wall_clock().as_millis()).unwrap_or(u64::MAX)
}
