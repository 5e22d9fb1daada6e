//! One life of a log: requests, commits, checkpoints, reads and watches in random order.
//!
//! What the log should answer is known beforehand, from the model; any other answer is a finding.
//! Tickets are waited for at random, or dropped, or outlive the life they belong to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;
use std::time::Duration;

use highwater_log::error::{LogError, LogResult, Rejection};
use highwater_log::ids::Offset;
use highwater_log::lane::Answer;
use highwater_log::lane::commit::Ticket;
use highwater_log::lane::waiters::Waiter;
use highwater_log::request::{Append, AppendOutcome, Appended, Create, CreateOutcome, Created};

use super::requests::{Wish, WishedAppend, create_request};
use super::setup::{Opened, Trouble};
use super::{Run, is_full, show_all};
use crate::model::{self, Expected, Named, Op};
use crate::oracle::{OpNo, Oracle};
use crate::verdict::Violation;

/// Bytes that a delete needs at most: a frame of its own, behind one that is open.
const DELETE_ROOM: u64 = 8 << 10;

/// A life under way.
pub(super) struct Life<'a> {
    run: &'a mut Run,
    opened: Opened,
    trouble: Trouble,
    waiting: Vec<Waiting>,
    watches: Vec<Watch>,
    held: Option<(Answer, Vec<u8>)>,
}

/// A ticket, and what its answer must be.
struct Waiting {
    lane: u16,
    /// What its acknowledgement vouches for; nothing when that was vouched for before.
    op: Option<OpNo>,
    promise: Promise,
    /// Whether it was taken in after a barrier of the lane had failed.
    after_failure: bool,
}

enum Promise {
    Created(Ticket<Created>, CreateOutcome, Offset),
    Appended(Ticket<Appended>, Appended),
    Deleted(Ticket<()>),
}

/// Somebody who waits for a stream to go on.
struct Watch {
    name: String,
    seen: Offset,
    woken: Arc<Bell>,
}

#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'a> Life<'a> {
    pub(super) fn new(run: &'a mut Run, opened: Opened, trouble: Trouble) -> Self {
        Self { run, opened, trouble, waiting: Vec::new(), watches: Vec::new(), held: None }
    }

    /// Does one thing; gives false when the machine is down.
    pub(super) fn act(&mut self) -> Result<bool, Violation> {
        match self.run.dice.below(20) {
            0..=9 => self.request()?,
            10..=12 => self.commit()?,
            13..=15 => self.wait_for_one()?,
            16 if self.run.dice.one_in(3) => self.maintain(),
            16 => self.checkpoint()?,
            17 => self.read()?,
            18 => self.watch()?,
            _ => {
                let passed = Duration::from_millis(self.run.dice.below(3));
                self.run.setup.clock.advance(passed);
                if let Some(dropped) = self.waiting.pop() {
                    drop(dropped);
                    self.run.count("tickets dropped");
                }
            }
        }
        self.check_watches()?;
        Ok(!self.run.disk.is_crashed())
    }

    /// Ends the life: what is still owed is waited for, and every stream is read once more.
    pub(super) fn finish(mut self) -> Result<(), Violation> {
        if self.run.dice.one_in(2) {
            self.wait_for_all()?;
        }
        self.commit()?;
        if !self.run.disk.is_crashed() && !self.trouble.is_fault() {
            show_all(&mut self.run.oracle, &self.opened.log)?;
        }
        if let Some((answer, bytes)) = &self.held
            && answer.to_vec() != *bytes
        {
            return Err(Violation::new("I2", "an answer's bytes changed after it was given"));
        }
        let most = self.opened.meddler.most_home_files();
        let limit = usize::try_from(self.run.setup.options.max_open_files).expect("a small limit");
        // One is handed over while the next is opened.
        if most > limit + 2 {
            return Err(Violation::new("I11", format!("{most} files were open, {limit} may be")));
        }
        Ok(())
    }

    fn request(&mut self) -> Result<(), Violation> {
        let wish = Wish::draw(&mut self.run.dice, &self.run.oracle, &self.run.unacked);
        self.wish(wish)
    }

    /// Asks for something.
    pub(super) fn wish(&mut self, wish: Wish) -> Result<(), Violation> {
        self.run.count(wish.kind());
        self.run.note(|_| wish.to_string());
        match wish {
            Wish::Create { name, content_type, payload, closes } => {
                let there = self.run.oracle.taken(&name).streams.get(&name).map(|known| known.id);
                let is_again = self.run.dice.one_in(2);
                let id = there.filter(|_| is_again);
                let id = id.unwrap_or_else(|| self.run.oracle.next_stream());
                let config = super::requests::config(content_type, id);
                let request = create_request(&name, &config, &payload, closes);
                self.create(&request, content_type, id)
            }
            Wish::Append(wished) => self.append(&wished.request(), &wished),
            Wish::Delete { name } => self.delete(&name),
        }
    }

    fn create(
        &mut self,
        request: &Create<'_>,
        content_type: model::ContentType,
        id: u64,
    ) -> Result<(), Violation> {
        let oracle = &mut self.run.oracle;
        let lane = Oracle::place(request.name, self.run.setup.options.lanes);
        let expected = model::create(oracle.taken(request.name), request);
        let answer = self.opened.log.create(request);
        let closes = request.end == highwater_log::request::End::Close;
        match (expected, answer) {
            (Expected::Taken, Ok(ticket)) => {
                let payload = request.payload.to_vec();
                let op = Op::Create { id, content_type, payload, closes };
                let op = oracle.take(lane, Named { name: request.name.to_owned(), op });
                let tail = offset(request.payload.len());
                let promise = Promise::Created(ticket, CreateOutcome::New, tail);
                self.owe_new(lane, op, promise);
            }
            (Expected::Known(()), Ok(ticket)) => {
                let op = oracle.newest_beyond(request.name, |_| true);
                let tail = offset(oracle.taken(request.name).streams[request.name].content.len());
                let promise = Promise::Created(ticket, CreateOutcome::Existing, tail);
                self.owe_known(lane, op, promise);
            }
            (expected, Err(error)) => self.turned_down(lane, rejection(expected), &error)?,
            (expected, Ok(_)) => return Err(taken_against(&expected)),
        }
        Ok(())
    }

    fn append(&mut self, request: &Append<'_>, wished: &WishedAppend) -> Result<(), Violation> {
        let oracle = &mut self.run.oracle;
        let lane = Oracle::place(request.name, self.run.setup.options.lanes);
        let expected = model::append(oracle.taken(request.name), request);
        let answer = self.opened.log.append(request);
        match (expected, answer) {
            (Expected::Taken, Ok(ticket)) => {
                let named = Named { name: wished.name.clone(), op: wished.op() };
                let op = oracle.take(lane, named);
                if wished.claim.is_some() {
                    self.run.unacked.push((lane, op, wished.clone()));
                }
                let tail = offset(oracle.taken(request.name).streams[request.name].content.len());
                let appended = Appended { tail, outcome: AppendOutcome::New };
                let promise = Promise::Appended(ticket, appended);
                self.owe_new(lane, op, promise);
            }
            (Expected::Known(outcome), Ok(ticket)) => {
                let is_same = |named: &Named| match (&named.op, &wished.claim) {
                    (Op::Append { claim: Some(claim), .. }, Some(wished)) => claim.id == wished.id,
                    _ => wished.claim.is_none(),
                };
                let op = oracle.newest_beyond(request.name, is_same);
                let tail = offset(oracle.taken(request.name).streams[request.name].content.len());
                let promise = Promise::Appended(ticket, Appended { tail, outcome });
                self.owe_known(lane, op, promise);
            }
            (expected, Err(error)) => self.turned_down(lane, rejection(expected), &error)?,
            (expected, Ok(_)) => return Err(taken_against(&expected)),
        }
        Ok(())
    }

    fn delete(&mut self, name: &str) -> Result<(), Violation> {
        let lane = Oracle::place(name, self.run.setup.options.lanes);
        let is_there = self.run.oracle.taken(name).streams.contains_key(name);
        let usage = self.opened.log.usage().swap_remove(usize::from(lane));
        match (is_there, self.opened.log.delete(name)) {
            (true, Ok(ticket)) => {
                let named = Named { name: name.to_owned(), op: Op::Delete };
                let op = self.run.oracle.take(lane, named);
                let promise = Promise::Deleted(ticket);
                self.owe_new(lane, op, promise);
                Ok(())
            }
            (is_there, Err(error)) => {
                let most_staged = self.run.setup.options.max_staged_bytes;
                let may_be_full = usage.relief_bytes < DELETE_ROOM
                    || usage.staged_bytes + DELETE_ROOM > most_staged;
                if is_full(&error) && !may_be_full {
                    let what = format!("a delete is refused with room for it: {error}; {usage:?}");
                    return Err(Violation::new("I5", what));
                }
                self.turned_down(lane, (!is_there).then_some(Rejection::NotFound), &error)
            }
            (false, Ok(_)) => Err(Violation::new("I5", format!("{name} was deleted twice"))),
        }
    }

    /// Keeps the ticket of an operation that was taken in.
    fn owe_new(&mut self, lane: u16, op: OpNo, promise: Promise) {
        let after_failure = self.opened.meddler.barrier_failed(lane);
        self.waiting.push(Waiting { lane, op: Some(op), promise, after_failure });
    }

    /// Keeps the ticket of something that was known before.
    fn owe_known(&mut self, lane: u16, op: Option<OpNo>, promise: Promise) {
        self.waiting.push(Waiting { lane, op, promise, after_failure: false });
    }

    /// An error is right when the model says so, or when the store is full, or the disk has failed.
    fn turned_down(
        &mut self,
        lane: u16,
        expected: Option<Rejection>,
        error: &LogError,
    ) -> Result<(), Violation> {
        self.run.note(|_| format!("turned down: {error}"));
        match (error, expected) {
            (LogError::Rejected(rejection), Some(expected)) if *rejection == expected => Ok(()),
            (LogError::Rejected(_), expected) => {
                let expected = expected.map_or("it to be taken".to_owned(), |it| it.to_string());
                let what = format!("expected {expected}, and the log says {error}");
                Err(Violation::new("I4, I5", what))
            }
            _ if is_full(error) => {
                self.run.count("refused: full");
                Ok(())
            }
            (LogError::ReadOnly(_), _) if self.opened.meddler.upkeep_failed() => {
                self.run.count("refused: read-only");
                Ok(())
            }
            (LogError::Poisoned(_) | LogError::Disk(_), _) if self.log_failed(lane) => Ok(()),
            _ if self.run.disk.is_crashed() => Ok(()),
            _ => Err(Violation::new("I1", format!("nothing failed, and the log says {error}"))),
        }
    }

    /// Whether a lane may acknowledge nothing more: its log failed. A failure of anything else
    /// leaves it to commit what it has.
    fn log_failed(&self, lane: u16) -> bool {
        self.run.disk.is_crashed() || self.opened.meddler.log_failed(lane)
    }

    fn any_failed(&self) -> bool {
        let lanes = 0..self.run.setup.options.lanes;
        self.opened.meddler.upkeep_failed() || lanes.into_iter().any(|lane| self.log_failed(lane))
    }

    fn may_fail(&self) -> bool {
        self.run.disk.is_crashed() || self.trouble.is_fault()
    }

    /// The next append of the stream `a`'s producer.
    pub(super) fn by_producer(&self, payload: Vec<u8>) -> Wish {
        Wish::Append(WishedAppend::next_of("p", &self.run.oracle, "a", payload))
    }

    pub(super) fn commit(&mut self) -> Result<(), Violation> {
        self.run.count("commits");
        let committed = self.opened.log.step();
        self.run.note(|_| format!("commit: {committed}"));
        self.check_watches()
    }

    fn wait_for_one(&mut self) -> Result<(), Violation> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let at = self.run.dice.index(self.waiting.len());
        let Waiting { lane, op, promise, after_failure } = self.waiting.swap_remove(at);
        let is_new = op.is_some_and(|op| !self.run.oracle.is_vouched(lane, op));
        let answer = promise.keep();
        self.run.note(|_| format!("wait for {op:?} of lane {lane}: {answer:?}"));
        match answer {
            Err(LogError::Poisoned(_)) if self.log_failed(lane) => Ok(()),
            Err(error) => Err(Violation::new("I1", format!("a ticket says {error}"))),
            Ok(Err(what)) => Err(Violation::new("I4", what)),
            Ok(Ok(())) if is_new && after_failure => {
                Err(Violation::new("I10", "an acknowledgement after a failed barrier"))
            }
            Ok(Ok(())) => {
                self.run.count("acknowledged");
                if let Some(op) = op {
                    self.run.oracle.acknowledged(lane, op);
                }
                Ok(())
            }
        }
    }

    /// Waits for everything that is owed.
    pub(super) fn wait_for_all(&mut self) -> Result<(), Violation> {
        while !self.waiting.is_empty() {
            self.wait_for_one()?;
        }
        Ok(())
    }

    /// Has the log do what is due by itself.
    fn maintain(&mut self) {
        self.run.count("maintenance");
        self.opened.log.maintain();
        self.run.note(|_| "maintenance".to_owned());
    }

    pub(super) fn checkpoint(&mut self) -> Result<(), Violation> {
        self.run.count("checkpoints");
        let done = self.opened.log.checkpoint();
        self.run.note(|_| format!("checkpoint: {done:?}"));
        match done {
            Ok(_) => Ok(()),
            Err(error) if is_full(&error) || self.any_failed() => Ok(()),
            Err(error) => Err(Violation::new("R1", format!("a checkpoint failed: {error}"))),
        }
    }

    /// Reads a whole stream, or some of it from anywhere.
    fn read(&mut self) -> Result<(), Violation> {
        let Some(name) = self.any_name() else { return Ok(()) };
        let log = &self.opened.log;
        if self.run.dice.one_in(2) {
            let seen = match crate::oracle::look(log, &name) {
                Ok(seen) => seen,
                Err(_) if self.may_fail() => return Ok(()),
                Err(error) => return Err(Violation::new("I1", format!("{name}: {error}"))),
            };
            return self.run.oracle.shown(&name, seen.as_ref());
        }
        let Some(stream) = self.run.oracle.vouched(&name).cloned() else { return Ok(()) };
        let taken = self.run.oracle.taken(&name).streams.get(&name).map(|stream| stream.id);
        let from = self.run.dice.index(stream.content.len() + 1);
        let answer = match log.read(&name, offset(from), 1 + self.run.dice.below(9000)) {
            Ok(answer) => answer,
            Err(_) if self.may_fail() || taken != Some(stream.id) => return Ok(()),
            Err(error) => return Err(Violation::new("I1", format!("{name}: {error}"))),
        };
        let bytes = answer.to_vec();
        let known = &stream.content[from..];
        let common = known.len().min(bytes.len());
        if taken == Some(stream.id) && bytes[..common] != known[..common] {
            return Err(Violation::new("I1", format!("{name}: other bytes from {from} on")));
        }
        self.held = Some((answer, bytes));
        Ok(())
    }

    fn watch(&mut self) -> Result<(), Violation> {
        let Some(name) = self.any_name() else { return Ok(()) };
        let Some(info) = self.opened.log.info(&name) else { return Ok(()) };
        let lane = Oracle::place(&name, self.run.setup.options.lanes);
        let woken = Arc::new(Bell::default());
        let waiter = Waiter::Task(Arc::clone(&woken).into());
        match self.opened.log.watch(&name, info.tail, waiter) {
            Ok(true) => self.watches.push(Watch { name, seen: info.tail, woken }),
            Ok(false) if info.is_closed => {}
            Err(LogError::Poisoned(_)) if self.log_failed(lane) => {}
            other => {
                let what = format!("a watch at the tail of {name} gives {other:?}");
                return Err(Violation::new("I2", what));
            }
        }
        Ok(())
    }

    /// Whoever waits for something that readers can see by now has been woken.
    fn check_watches(&mut self) -> Result<(), Violation> {
        let log = &self.opened.log;
        let is_over = |watch: &Watch| {
            log.info(&watch.name).is_none_or(|info| info.tail > watch.seen || info.is_closed)
        };
        for watch in &self.watches {
            if is_over(watch) && !watch.woken.0.load(Ordering::Relaxed) {
                let what = format!("{} went on, and nobody woke its watcher", watch.name);
                return Err(Violation::new("I2", what));
            }
        }
        self.watches.retain(|watch| !watch.woken.0.load(Ordering::Relaxed));
        Ok(())
    }

    fn any_name(&mut self) -> Option<String> {
        let names: Vec<&str> = self.run.oracle.names().collect();
        if names.is_empty() {
            return None;
        }
        Some(names[self.run.dice.index(names.len())].to_owned())
    }
}

impl Promise {
    /// Waits; gives what is wrong with the answer, if anything.
    fn keep(self) -> LogResult<Result<(), String>> {
        Ok(match self {
            Self::Created(ticket, outcome, tail) => {
                let created = ticket.wait()?;
                same(&(created.outcome, created.tail), &(outcome, tail))
            }
            Self::Appended(ticket, expected) => same(&ticket.wait()?, &expected),
            Self::Deleted(ticket) => {
                ticket.wait()?;
                Ok(())
            }
        })
    }
}

fn same<T: PartialEq + std::fmt::Debug>(answer: &T, expected: &T) -> Result<(), String> {
    if answer == expected {
        return Ok(());
    }
    Err(format!("answered {answer:?}, expected {expected:?}"))
}

fn rejection<T>(expected: Expected<T>) -> Option<Rejection> {
    match expected {
        Expected::Rejected(rejection) => Some(rejection),
        _ => None,
    }
}

fn taken_against<T: std::fmt::Debug>(expected: &Expected<T>) -> Violation {
    Violation::new("I4, I5", format!("taken in, where {expected:?} was due"))
}

fn offset(len: usize) -> Offset {
    Offset(u64::try_from(len).expect("usize fits u64"))
}
