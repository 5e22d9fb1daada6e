//! Tickets, and what their answers must be. They are waited for at random, or dropped, or outlive
//! the life they belong to.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use highwater_log::error::{LogError, LogResult};
use highwater_log::ids::Offset;
use highwater_log::lane::commit::Ticket;
use highwater_log::request::{Appended, CreateOutcome, Created};

use super::life::Life;
use crate::oracle::OpNo;
use crate::verdict::Violation;

/// The ticket of a create or a fork.
pub(super) type Made = Ticket<Created>;

/// A ticket, and what its answer must be.
pub(super) struct Waiting {
    lane: u16,
    /// What its acknowledgement vouches for; nothing when that was vouched for before.
    op: Option<OpNo>,
    promise: Promise,
    /// Whether it was taken in after a barrier of the lane had failed.
    after_failure: bool,
}

pub(super) enum Promise {
    Created(Made, CreateOutcome, Offset),
    Appended(Ticket<Appended>, Appended),
    Deleted(Ticket<()>),
}

impl Life<'_> {
    /// Keeps the ticket of an operation that was taken in.
    pub(super) fn owe(&mut self, lane: u16, op: OpNo, promise: Promise) {
        let after_failure = self.opened.meddler.barrier_failed(lane);
        self.waiting.push(Waiting { lane, op: Some(op), promise, after_failure });
    }

    /// Keeps the ticket of something that was known before.
    pub(super) fn owe_known(&mut self, lane: u16, op: Option<OpNo>, promise: Promise) {
        self.waiting.push(Waiting { lane, op, promise, after_failure: false });
    }

    pub(super) fn wait_for_one(&mut self) -> Result<(), Violation> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let at = self.run.dice.index(self.waiting.len());
        let mut waiting = self.waiting.swap_remove(at);
        // A lane that is amid a commit would let this thread wait for itself.
        let answer = if self.is_committing(waiting.lane) {
            match waiting.promise.ask() {
                Poll::Ready(answer) => answer,
                Poll::Pending => {
                    self.waiting.push(waiting);
                    return Ok(());
                }
            }
        } else {
            waiting.promise.keep()
        };
        let Waiting { lane, op, after_failure, .. } = waiting;
        let is_new = op.is_some_and(|op| !self.run.oracle.is_vouched(lane, op));
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
}

impl Promise {
    /// Waits; gives what is wrong with the answer, if anything.
    fn keep(self) -> LogResult<Result<(), String>> {
        Ok(match self {
            Self::Created(ticket, outcome, tail) => created(ticket.wait()?, outcome, tail),
            Self::Appended(ticket, expected) => same(&ticket.wait()?, &expected),
            Self::Deleted(ticket) => {
                ticket.wait()?;
                Ok(())
            }
        })
    }

    /// Asks without waiting.
    fn ask(&mut self) -> Poll<LogResult<Result<(), String>>> {
        let mut context = Context::from_waker(Waker::noop());
        match self {
            Self::Created(ticket, outcome, tail) => {
                let answer = Pin::new(ticket).poll(&mut context);
                answer.map_ok(|answer| created(answer, *outcome, *tail))
            }
            Self::Appended(ticket, expected) => {
                Pin::new(ticket).poll(&mut context).map_ok(|answer| same(&answer, expected))
            }
            Self::Deleted(ticket) => Pin::new(ticket).poll(&mut context).map_ok(|()| Ok(())),
        }
    }
}

fn created(answer: Created, outcome: CreateOutcome, tail: Offset) -> Result<(), String> {
    same(&(answer.outcome, answer.tail), &(outcome, tail))
}

fn same<T: PartialEq + std::fmt::Debug>(answer: &T, expected: &T) -> Result<(), String> {
    if answer == expected {
        return Ok(());
    }
    Err(format!("answered {answer:?}, expected {expected:?}"))
}
