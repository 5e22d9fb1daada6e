//! Where a subscription is kept: its events, one JSON line each, in a reserved stream of the log.
//!
//! The stream is `__ds/subscriptions/<id>/<number>`. When it has grown long, the subscription is
//! written anew to the next number and the old stream deleted. Opening takes the highest number
//! that is complete: a crash in between leaves the old one, or both. What happens at once is one
//! record of the log or, where it is long, several between a beginning and an end: it counts whole
//! or not at all, whatever the log refuses and wherever a crash cuts it off.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use highwater_log::Log;
use highwater_log::error::{LogError, LogResult, Rejection};
use highwater_log::ids::Offset;
use highwater_log::lane::commit::Ticket;
use highwater_log::request::{Append, Appended, Config, Create, Created, End};

use super::state::{Event, Subscription};
use crate::error::{Outcome, Problem};

/// How the names of all journals begin.
const PREFIX: &str = "__ds/subscriptions/";
/// Bytes that a journal may have beyond twice what it began with, before it is written anew.
const SLACK_BYTES: u64 = 64 << 10;
/// Bytes of one append, about: far below what any log takes.
const PIECE_BYTES: usize = 4 << 10;
/// Bytes of one read.
const READ_BYTES: u64 = 1 << 20;

/// A subscription's journal.
#[derive(Debug)]
pub(super) struct Journal {
    id: String,
    number: u64,
    bytes: u64,
    /// What it began with.
    first_bytes: u64,
    /// How long it may become before it is written anew.
    most_bytes: u64,
    /// The one before, until it is deleted.
    old: Option<u64>,
    ending: Ending,
}

/// How the last that was written of a journal ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// All of it is there.
    Whole,
    /// It was given up half-way: what comes next has to say so.
    GivenUp,
}

/// Where a subscription is kept, and how long that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    id: String,
    number: u64,
    bytes: u64,
}

/// Something staged: done when it is durable.
#[derive(Debug)]
#[must_use = "an event counts when it is durable"]
pub(super) enum Staged {
    /// Events.
    Appended(Ticket<Appended>),
    /// A journal.
    Created(Ticket<Created>),
}

impl Future for Staged {
    type Output = LogResult<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Appended(ticket) => Pin::new(ticket).poll(context).map_ok(|_| ()),
            Self::Created(ticket) => Pin::new(ticket).poll(context).map_ok(|_| ()),
        }
    }
}

impl Journal {
    /// Begins the journal of a new subscription.
    ///
    /// # Errors
    /// What the log gives.
    pub fn create(log: &Log, subscription: &Subscription) -> Outcome<(Self, Staged)> {
        write_anew(log, subscription, 0)
    }

    /// Stands for the journal of a subscription that is not written yet.
    pub fn unwritten(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            number: 0,
            bytes: 0,
            first_bytes: 0,
            most_bytes: 0,
            old: None,
            ending: Ending::Whole,
        }
    }

    /// Reads all subscriptions of a log. What a crash left of journals that were being written anew
    /// is deleted.
    ///
    /// # Errors
    /// What the log gives, and [`Problem::Damaged`].
    pub fn load_all(log: &Log) -> Outcome<Vec<(Self, Subscription)>> {
        let mut numbers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for name in log.list(PREFIX, None, usize::MAX) {
            let parts = name.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once('/'));
            let (id, number) = parts.ok_or_else(|| damaged(&name))?;
            let number = number.parse().map_err(|_| damaged(&name))?;
            numbers.entry(id.to_owned()).or_default().push(number);
        }
        let mut all = Vec::new();
        for (id, numbers) in numbers {
            let mut kept: Option<(Self, Subscription)> = None;
            for number in numbers.into_iter().rev() {
                if kept.is_none() {
                    kept = Self::load(log, &id, number)?;
                }
                if kept.as_ref().is_none_or(|(journal, _)| journal.number != number) {
                    delete(log, &id, number)?;
                }
            }
            all.extend(kept);
        }
        Ok(all)
    }

    /// Gives what it takes to read the subscription again as it is kept.
    pub fn kept(&self) -> Kept {
        Kept { id: self.id.clone(), number: self.number, bytes: self.bytes }
    }

    /// Stages events that have happened to a subscription at once.
    ///
    /// # Errors
    /// What the log gives; nothing of it counts then, whatever was staged of it.
    pub fn stage(
        &mut self,
        log: &Log,
        subscription: &Subscription,
        events: &[Event],
    ) -> Outcome<Option<Staged>> {
        if let Some(old) = self.old
            && self.is_seen_whole(log)
        {
            // The new one is durable, all of it: its lane may not be the old one's. What cannot be
            // deleted now is next time.
            if delete(log, &self.id, old).is_ok() {
                self.old = None;
            }
        }
        if self.old.is_none() && self.bytes > self.most_bytes {
            match write_anew(log, subscription, self.number + 1) {
                Ok((new, staged)) => {
                    *self = Self { old: Some(self.number), ..new };
                    return Ok(Some(staged));
                }
                // There may be no room for another stream, and room in this one.
                Err(Problem::Full(_) | Problem::Busy(_)) => {
                    self.most_bytes = self.bytes + SLACK_BYTES;
                }
                Err(problem) => return Err(problem),
            }
        }
        let mut pieces = pieces(events);
        if pieces.len() > 1 || self.ending == Ending::GivenUp {
            pieces = self::pieces(&[&[Event::Begin], events, &[Event::End]].concat());
        }
        let name = name_of(&self.id, self.number);
        let mut last = None;
        for piece in pieces {
            let ticket = append(log, &name, piece.as_bytes())?;
            self.bytes += to_u64(piece.len());
            // Until the last one is there.
            self.ending = Ending::GivenUp;
            last = Some(Staged::Appended(ticket));
        }
        self.ending = Ending::Whole;
        Ok(last)
    }

    /// Whether everything that it began with is durable.
    fn is_seen_whole(&self, log: &Log) -> bool {
        let info = log.info(&name_of(&self.id, self.number));
        info.is_some_and(|info| info.tail.0 >= self.first_bytes)
    }

    /// Names of the streams that it is, in the order in which they are to be deleted: an older one
    /// that is left alone would come back.
    pub fn names(&self) -> Vec<String> {
        let old = self.old.map(|old| name_of(&self.id, old));
        old.into_iter().chain([name_of(&self.id, self.number)]).collect()
    }

    fn load(log: &Log, id: &str, number: u64) -> Outcome<Option<(Self, Subscription)>> {
        let name = name_of(id, number);
        let bytes = read_all(log, &name)?;
        let text = String::from_utf8(bytes).map_err(|_| damaged(&name))?;
        let events: Result<Vec<Event>, _> = text.lines().map(serde_json::from_str).collect();
        let events = events.map_err(|_| damaged(&name))?;
        let Some(subscription) = Subscription::replay(&events) else { return Ok(None) };
        if subscription.id != id {
            return Err(damaged(&name));
        }
        let first_bytes = to_u64(pieces(&subscription.snapshot()).iter().map(String::len).sum());
        let journal = Self {
            id: id.to_owned(),
            number,
            bytes: to_u64(text.len()),
            first_bytes,
            most_bytes: most_bytes(first_bytes),
            old: None,
            ending: Ending::of(&events),
        };
        Ok(Some((journal, subscription)))
    }
}

impl Ending {
    fn of(events: &[Event]) -> Self {
        let marks = |event: &&Event| matches!(event, Event::Begin | Event::End);
        match events.iter().rev().find(marks) {
            Some(Event::Begin) => Self::GivenUp,
            _ => Self::Whole,
        }
    }
}

impl Kept {
    /// Reads the subscription, once all that was written of it can be seen; nothing before.
    ///
    /// # Errors
    /// What the log gives, and [`Problem::Damaged`].
    pub fn read(&self, log: &Log) -> Outcome<Option<Subscription>> {
        let tail = log.info(&name_of(&self.id, self.number)).map(|info| info.tail);
        if tail.is_none_or(|tail| tail.0 < self.bytes) {
            return Ok(None);
        }
        let loaded = Journal::load(log, &self.id, self.number)?;
        loaded.map(|(_, subscription)| Some(subscription)).ok_or_else(|| damaged(&self.id))
    }
}

/// Reads a whole stream.
pub(super) fn read_all(log: &Log, name: &str) -> Outcome<Vec<u8>> {
    let (mut bytes, mut at) = (Vec::new(), Offset(0));
    loop {
        let answer = log.read(name, at, READ_BYTES)?;
        bytes.extend(answer.to_vec());
        at = answer.next;
        if at == answer.tail {
            return Ok(bytes);
        }
    }
}

fn write_anew(log: &Log, subscription: &Subscription, number: u64) -> Outcome<(Journal, Staged)> {
    let name = name_of(&subscription.id, number);
    let pieces = pieces(&subscription.snapshot());
    let config = Config::default();
    // What an attempt that failed may have left.
    delete(log, &subscription.id, number)?;
    let mut staged = None;
    for piece in &pieces {
        let payload = piece.as_bytes();
        staged = Some(match staged {
            None => {
                let create = Create { name: &name, config: &config, payload, end: End::Open };
                Staged::Created(log.create(&create)?)
            }
            // The last of a stream's records is durable after all others.
            Some(_) => match append(log, &name, payload) {
                Ok(ticket) => Staged::Appended(ticket),
                Err(problem) => {
                    // Half of it would be in the way of the next one of this number.
                    delete(log, &subscription.id, number).ok();
                    return Err(problem);
                }
            },
        });
    }
    let bytes = to_u64(pieces.iter().map(String::len).sum());
    let journal = Journal {
        id: subscription.id.clone(),
        number,
        bytes,
        first_bytes: bytes,
        most_bytes: most_bytes(bytes),
        old: None,
        ending: Ending::Whole,
    };
    Ok((journal, staged.expect("a snapshot has events")))
}

fn append(log: &Log, name: &str, payload: &[u8]) -> Outcome<Ticket<Appended>> {
    let (content_type, producer, sequence) = (None, None, None);
    let append = Append { name, payload, end: End::Open, content_type, producer, sequence };
    Ok(log.append(&append)?)
}

/// Deletes a journal, if it is there. Nobody waits for it: what is left of it is deleted when the
/// log is opened again.
fn delete(log: &Log, id: &str, number: u64) -> Outcome<()> {
    match log.delete(&name_of(id, number)) {
        Ok(_) | Err(LogError::Rejected(Rejection::NotFound)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes events as lines, in pieces that a log takes at once.
fn pieces(events: &[Event]) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for event in events {
        let line = serde_json::to_string(event).expect("text and numbers can be written as JSON");
        let last = pieces.last_mut().expect("there is one from the start");
        if last.is_empty() || last.len() + line.len() < PIECE_BYTES {
            last.push_str(&line);
            last.push('\n');
        } else {
            pieces.push(line + "\n");
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn name_of(id: &str, number: u64) -> String {
    format!("{PREFIX}{id}/{number:016}")
}

fn damaged(name: &str) -> Problem {
    Problem::Damaged(format!("the journal {name} cannot be read"))
}

/// How long a journal may become that began with so many bytes.
fn most_bytes(first_bytes: u64) -> u64 {
    2 * first_bytes + SLACK_BYTES
}

fn to_u64(len: usize) -> u64 {
    u64::try_from(len).expect("lengths have 64 bits at most")
}

#[cfg(test)]
mod tests {
    use super::super::config::Delivery;
    use super::super::state::tests::subscription;
    use super::*;
    use highwater_disk::sim::{SimClock, SimDisk, SimOptions, SimRng};
    use highwater_log::options::Options;
    use highwater_log::{Driver, Machine};
    use std::sync::Arc;

    /// I5: the two may be in different lanes, so the end of the one says nothing of the other.
    #[test]
    fn the_old_journal_stays_until_all_that_the_new_one_began_with_can_be_seen() {
        let machine = Machine {
            disk: Arc::new(SimDisk::new(SimOptions::seeded(1))),
            clock: Arc::new(SimClock::new()),
            rng: Box::new(SimRng::new(1)),
        };
        let log = Log::open(machine, &Options::default(), Driver::Caller).unwrap();
        let url = "https://worker.example/".to_owned();
        let subscription = subscription(Delivery::Webhook { url });
        let (old, staged) = Journal::create(&log, &subscription).unwrap();
        let (mut new, first_piece) = write_anew(&log, &subscription, 1).unwrap();
        log.step();
        drop((staged, first_piece));
        (new.old, new.first_bytes) = (Some(old.number), new.bytes + 1);
        let names = || log.list(PREFIX, None, 9).len();
        let mut stage = |events: &[Event]| drop(new.stage(&log, &subscription, events).unwrap());
        // A commit has cut the beginning off.
        stage(&[]);
        log.step();
        assert_eq!(names(), 2);
        stage(&[Event::Root { root: "x".to_owned() }]);
        log.step();
        stage(&[]);
        log.step();
        assert_eq!(names(), 1);
    }
}
