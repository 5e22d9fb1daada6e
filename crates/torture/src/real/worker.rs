//! A thread that does a plan's steps one after the other, and reports each acknowledgement.
//!
//! Records of a burst are asked for without waiting in between. A step that was in the store when
//! the process began is asked for again, and must be known there; any other must be new (I4, I5).

use std::collections::VecDeque;
use std::time::Duration;

use highwater_log::Log;
use highwater_log::error::{LogError, LogResult, Rejection};
use highwater_log::ids::Offset;
use highwater_log::lane::commit::Ticket;
use highwater_log::options::Durability;
use highwater_log::request::{
    Append, AppendOutcome, Appended, Config, Create, CreateOutcome, Created, End, Expiry, Fork,
    Producer,
};
use highwater_sys::time::wall_clock;

use super::lines::{Gone, Orders, Report, Reporter};
use super::plan::{Claim, Life, Numbered, Plan, Step};
use super::{CONTENT_TYPE, records, settings, shared_name};

/// Between two tries on a full log.
const PAUSE: Duration = Duration::from_millis(1);
/// A full log is reported again after so many tries.
const TRIES_PER_REPORT: u64 = 64;
/// After so many tries a spare stream is deleted, and again after so many more.
const TRIES_PER_SPARE: u64 = 32;

/// Tries after which a fork's source must be there for readers.
const MOST_TRIES: u64 = 30_000;

/// Waits for a moment.
pub(super) fn pause() {
    highwater_sys::time::sleep(PAUSE);
}

/// A worker.
pub(super) struct Worker<'a> {
    log: &'a Log,
    reporter: &'a Reporter,
    worker: u64,
    id: String,
    plan: Plan,
    known: u64,
    pending: VecDeque<Pending>,
    /// Spare streams that are there; empty where they are not to be deleted.
    spares: VecDeque<String>,
    keeps_spares: bool,
    /// Whether acknowledgements come before anything is committed.
    is_relaxed: bool,
}

/// Why a worker stops.
enum Stop {
    Gone,
    Log(LogError),
    Wrong(String),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// A step that was taken in.
struct Pending {
    numbered: Numbered,
    answer: Answer,
    /// Tail that it must leave, where it is known.
    tail: Option<u64>,
}

enum Answer {
    Appended(Ticket<Appended>),
    Created(Ticket<Created>),
    Deleted(Ticket<()>),
    /// It was deleted before.
    Gone,
}

impl<'a> Worker<'a> {
    /// Begins at a step; those before `known` are in the store.
    pub(super) fn new(
        log: &'a Log,
        reporter: &'a Reporter,
        orders: &Orders,
        (worker, from, known): (u64, u64, u64),
    ) -> Self {
        let plan = Plan::at(orders.nature.seed, worker, from);
        let drops = orders.nature.kind.drops_spares();
        let spare = |name: &&String| name.starts_with('s') && !orders.dropped.contains(*name);
        let spares = plan.streams.keys().filter(spare).cloned().collect();
        let durability = settings::options(orders.nature).durability;
        Self {
            log,
            reporter,
            worker,
            id: format!("worker {worker}"),
            plan,
            known,
            pending: VecDeque::new(),
            spares,
            keeps_spares: !drops,
            is_relaxed: matches!(durability, Durability::Relaxed { .. }),
        }
    }

    /// Works until it cannot go on.
    pub(super) fn run(mut self) -> Result<(), Gone> {
        let stopped = loop {
            if let Err(stop) = self.burst() {
                break stop;
            }
        };
        let worker = self.worker;
        match stopped {
            Stop::Gone => Err(Gone),
            Stop::Log(error) => {
                self.reporter.say(&Report::Stopped { worker, why: error.to_string() })
            }
            Stop::Wrong(what) => {
                self.reporter.say(&Report::Wrong { what: format!("worker {worker}: {what}") })
            }
        }
    }

    /// One step, or as many as are asked for at once.
    fn burst(&mut self) -> Result<(), Stop> {
        loop {
            let numbered = self.plan.advance();
            self.ask(numbered)?;
            if !self.plan.is_in_burst() {
                return self.settle();
            }
        }
    }

    /// Asks until there is room.
    fn ask(&mut self, numbered: Numbered) -> Result<(), Stop> {
        for tries in 0_u64.. {
            match self.request(&numbered) {
                Ok(answer) => {
                    let tail = self.tail_after(&numbered);
                    self.pending.push_back(Pending { numbered, answer, tail });
                    break;
                }
                Err(Stop::Log(error)) if error.is_lack_of_room() => {
                    // Nobody commits what waits for its barrier here but this thread.
                    self.settle()?;
                    self.on_full(numbered.number, tries)?;
                }
                Err(Stop::Log(LogError::Rejected(why))) => {
                    if self.is_unseen_yet(&numbered, &why) && tries < MOST_TRIES {
                        self.settle()?;
                        pause();
                        continue;
                    }
                    if !self.is_gone_already(&numbered, &why) {
                        let what = format!("step {} {:?}: {why}", numbered.number, numbered.step);
                        return Err(Stop::Wrong(what));
                    }
                    self.pending.push_back(Pending { numbered, answer: Answer::Gone, tail: None });
                    break;
                }
                Err(stop) => return Err(stop),
            }
        }
        Ok(())
    }

    fn is_gone_already(&self, numbered: &Numbered, why: &Rejection) -> bool {
        matches!(numbered.step, Step::Delete { .. })
            && matches!(why, Rejection::NotFound | Rejection::SoftDeleted)
            && numbered.number < self.known
    }

    /// A fork is of what readers see, which may come after the acknowledgement.
    fn is_unseen_yet(&self, numbered: &Numbered, why: &Rejection) -> bool {
        matches!(numbered.step, Step::Fork { .. })
            && matches!(why, Rejection::NotFound | Rejection::BeyondTail { .. })
            && self.is_relaxed
    }

    fn request(&self, numbered: &Numbered) -> Result<Answer, Stop> {
        let payload = records::record(self.worker, numbered.number);
        let config = self.config(numbered)?;
        let end = |closes: bool| if closes { End::Close } else { End::Open };
        let answer = match &numbered.step {
            Step::Create { name, closes } => {
                self.create(&Create { name, config: &config, payload: &payload, end: end(*closes) })
            }
            Step::Timed { name, .. } | Step::Spare { name } => {
                self.create(&Create { name, config: &config, payload: &payload, end: End::Open })
            }
            Step::Append { name, claim, closes } => {
                self.append(name, &payload, *claim, end(*closes))
            }
            Step::Shared { stream, claim } => {
                self.append(&shared_name(*stream), &payload, Some(*claim), End::Open)
            }
            Step::Close { name } => self.append(name, b"", None, End::Close),
            Step::Delete { name } => self.log.delete(name).map(Answer::Deleted),
            Step::Fork { name, source, offset } => {
                let fork = Fork {
                    name,
                    source,
                    source_id: None,
                    offset: Some(Offset(*offset)),
                    config: &config,
                    payload: &payload,
                    end: End::Open,
                };
                self.log.fork(&fork).map(Answer::Created)
            }
        };
        answer.map_err(Stop::Log)
    }

    fn create(&self, create: &Create<'_>) -> LogResult<Answer> {
        self.log.create(create).map(Answer::Created)
    }

    fn append(
        &self,
        name: &str,
        payload: &[u8],
        claim: Option<Claim>,
        end: End,
    ) -> LogResult<Answer> {
        let producer =
            claim.map(|Claim { epoch, sequence }| Producer { id: &self.id, epoch, sequence });
        let content_type = (!payload.is_empty()).then_some(CONTENT_TYPE);
        let append = Append { name, payload, end, content_type, producer, sequence: None };
        self.log.append(&append).map(Answer::Appended)
    }

    /// Streams are told apart by the step that made them.
    fn config(&self, numbered: &Numbered) -> Result<Config, Stop> {
        let (worker, number) = (self.worker, numbered.number);
        let expiry = match numbered.step {
            Step::Timed { life: Life::Until(ms), .. } => {
                let at_ms = now_ms() + ms;
                self.reporter.say(&Report::Ends { worker, number, not_before_ms: at_ms })?;
                self.reporter.say(&Report::EndsBy { worker, number, by_ms: at_ms })?;
                Some(Expiry::Absolute { at_ms })
            }
            Step::Timed { life: Life::Unused(ttl_ms), .. } => {
                let not_before_ms = now_ms() + ttl_ms;
                self.reporter.say(&Report::Ends { worker, number, not_before_ms })?;
                Some(Expiry::Sliding { ttl_ms })
            }
            _ => None,
        };
        let metadata = number.to_le_bytes().to_vec();
        Ok(Config { content_type: CONTENT_TYPE.to_owned(), expiry, metadata })
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

    /// Waits for what was asked, and reports it.
    fn settle(&mut self) -> Result<(), Stop> {
        while let Some(Pending { numbered, answer, tail }) = self.pending.pop_front() {
            let (is_new, found) = match answer {
                Answer::Appended(ticket) => {
                    let appended = ticket.wait().map_err(Stop::Log)?;
                    (appended.outcome == AppendOutcome::New, Some(appended.tail.0))
                }
                Answer::Created(ticket) => {
                    let created = ticket.wait().map_err(Stop::Log)?;
                    (created.outcome == CreateOutcome::New, Some(created.tail.0))
                }
                Answer::Deleted(ticket) => (ticket.wait().map(|()| true).map_err(Stop::Log)?, None),
                Answer::Gone => (false, None),
            };
            let Numbered { number, step } = &numbered;
            let (worker, number) = (self.worker, *number);
            if is_new == (number < self.known) {
                let what = if is_new { "taken a second time" } else { "taken for known" };
                return Err(Stop::Wrong(format!("step {number} {step:?} was {what}")));
            }
            if is_new && tail.is_some() && found != tail {
                let what = format!("step {number} {step:?} ended at {found:?}, not {tail:?}");
                return Err(Stop::Wrong(what));
            }
            match step {
                Step::Timed { life: Life::Unused(ttl_ms), .. } => {
                    let by_ms = now_ms() + ttl_ms;
                    self.reporter.say(&Report::EndsBy { worker, number, by_ms })?;
                }
                Step::Spare { name } if !self.keeps_spares => self.spares.push_back(name.clone()),
                _ => {}
            }
            self.reporter.say(&Report::Acked { worker, number })?;
        }
        Ok(())
    }

    /// Nothing fits: reports it, and now and then deletes a spare stream.
    fn on_full(&mut self, number: u64, tries: u64) -> Result<(), Stop> {
        let worker = self.worker;
        if tries.is_multiple_of(TRIES_PER_REPORT) {
            self.reporter.say(&Report::Full { worker, number })?;
        }
        if tries % TRIES_PER_SPARE == TRIES_PER_SPARE / 2 && !self.keeps_spares {
            self.drop_spare()?;
        }
        pause();
        Ok(())
    }

    fn drop_spare(&mut self) -> Result<(), Stop> {
        let Some(name) = self.spares.pop_front() else { return Ok(()) };
        self.reporter.say(&Report::Dropping { name: name.clone() })?;
        let deleted = self.log.delete(&name).and_then(Ticket::wait);
        match deleted {
            Ok(()) => self.reporter.say(&Report::Dropped { name })?,
            Err(error) if error.is_lack_of_room() => {
                self.reporter.say(&Report::Kept { name: name.clone() })?;
                self.spares.push_front(name);
            }
            Err(LogError::Rejected(why)) => {
                return Err(Stop::Wrong(format!("spare stream {name}: {why}")));
            }
            Err(error) => return Err(Stop::Log(error)),
        }
        Ok(())
    }
}

fn now_ms() -> u64 {
    u64::try_from(wall_clock().as_millis()).unwrap_or(u64::MAX)
}
