//! Decides what happens to a subscription: each function takes what came in, changes the
//! subscription, and adds the events that it was changed by. No clock, no log, no network.
//!
//! A function that refuses has changed nothing.

use highwater_log::error::Full;
use highwater_log::ids::Offset;

use super::config::{Delivery, bad};
use super::moment;
use super::refusal::Refusal;
use super::state::{Event, Flight, Link, Phase, Subscription};
use crate::error::Problem;

/// First delay before something is tried again, milliseconds.
const FIRST_RETRY_MS: u64 = 1_000;
/// Longest delay, milliseconds.
const LONGEST_RETRY_MS: u64 = 60_000;
/// A delay is longer or shorter by so many of its hundredths at most.
const JITTER_PERCENT: u64 = 20;

/// What the world gives to a decision, and what becomes of it.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// An id that no wake has had.
    pub wake_id: String,
    /// Randomness for jitter.
    pub random: u64,
    /// Memory for cursors that were not kept before, bytes.
    pub room_bytes: u64,
    /// What the subscription was changed by, in order.
    pub events: Vec<Event>,
}

/// Which wake a request means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeRef {
    /// Its generation.
    pub generation: u64,
    /// Its id.
    pub wake_id: String,
}

/// A webhook that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its wake.
    pub wake: WakeRef,
    /// Failed attempts before.
    pub attempt: u32,
    /// The tails that it had.
    pub tails: Vec<(String, Offset)>,
}

/// What became of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// Answered `{"done":true}`.
    Done,
    /// Answered with success: its receiver works on it.
    Accepted,
    /// Anything else.
    Failed,
}

/// Whether a worker is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It is.
    Done,
    /// It goes on: its lease begins anew.
    GoesOn,
}

/// What is to be done for a subscription now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Send its webhook, when there is a place for it: [`Subscription::begin`] says whether it is
    /// to be sent still.
    Deliver {
        /// Failed attempts before.
        attempt: u32,
    },
    /// Write its wake event.
    Announce {
        /// Failed attempts before.
        attempt: u32,
    },
}

impl Subscription {
    /// When it is to be looked at again, milliseconds since 1970.
    pub fn due_ms(&self) -> Option<u64> {
        match &self.phase {
            Phase::Idle => None,
            Phase::Delivering { until_ms, .. } | Phase::Leased { until_ms, .. } => Some(*until_ms),
            // What it is about is to be known.
            _ if self.looks_for_more() => None,
            Phase::Retrying { next_ms, .. } => Some(*next_ms).filter(|_| !self.is_in_flight()),
            Phase::Waiting { announce_ms, .. } => announce_ms.filter(|_| !self.is_in_flight()),
        }
    }

    /// Lets time pass: ends leases, begins wakes that are announced.
    pub fn tick(&mut self, turn: &mut Turn) {
        match &self.phase {
            // Nobody has answered in time: an attempt that failed. Who was called by it is fenced,
            // so the next one is another wake.
            Phase::Delivering { attempt, until_ms, .. } if self.is_over(*until_ms, turn) => {
                let (attempt, wake_id) = (*attempt, turn.wake_id.clone());
                self.generation += 1;
                self.retry(wake_id, attempt, turn);
            }
            Phase::Leased { until_ms, .. } if self.is_over(*until_ms, turn) => {
                self.enter(Phase::Idle, turn);
            }
            Phase::Retrying { next_ms, .. }
                if is_due(*next_ms, turn) && self.pending.is_empty() && !self.looks_for_more() =>
            {
                self.enter(Phase::Idle, turn);
            }
            _ => {}
        }
        self.wake_if_pending(turn);
    }

    /// Takes what is to be done now, once.
    pub fn take_task(&mut self, turn: &Turn) -> Option<Task> {
        if self.is_in_flight() {
            return None;
        }
        let task = match &self.phase {
            Phase::Idle if self.is_called() && !self.pending.is_empty() => {
                Task::Deliver { attempt: 0 }
            }
            Phase::Retrying { attempt, next_ms, .. }
                if is_due(*next_ms, turn) && !self.looks_for_more() =>
            {
                Task::Deliver { attempt: *attempt }
            }
            // What became of it could not be written.
            Phase::Delivering { attempt, .. } => Task::Deliver { attempt: *attempt },
            Phase::Waiting { announce_ms: Some(at_ms), attempt, .. }
                if is_due(*at_ms, turn) && !self.looks_for_more() =>
            {
                Task::Announce { attempt: *attempt }
            }
            _ => return None,
        };
        self.flight = Flight::Taken;
        Some(task)
    }

    /// Begins to send the webhook, now that there is a place for it: its lease counts from here.
    /// Gives the failed attempts before, or nothing where there is nothing to send any more.
    pub fn begin(&mut self, turn: &mut Turn) -> Option<u32> {
        let is_sent = std::mem::replace(&mut self.flight, Flight::Grounded) == Flight::Sent;
        let (wake_id, attempt) = match &self.phase {
            Phase::Idle if self.is_called() && !self.pending.is_empty() => {
                self.generation += 1;
                (turn.wake_id.clone(), 0)
            }
            Phase::Retrying { wake_id, attempt, next_ms }
                if is_due(*next_ms, turn) && !self.pending.is_empty() =>
            {
                (wake_id.clone(), *attempt)
            }
            Phase::Delivering { wake_id, attempt, .. } if !is_sent => (wake_id.clone(), *attempt),
            _ => {
                if is_sent {
                    self.flight = Flight::Sent;
                }
                return None;
            }
        };
        let until_ms = self.lease_end(turn);
        self.enter(Phase::Delivering { wake_id, attempt, until_ms }, turn);
        self.flight = Flight::Sent;
        Some(attempt)
    }

    /// A restart has cut off what was on its way: it is tried again, as late as the schedule says.
    pub fn resume(&mut self, turn: &mut Turn) {
        if let Phase::Delivering { wake_id, attempt, .. } = &self.phase {
            let next = Phase::Retrying {
                wake_id: wake_id.clone(),
                attempt: *attempt,
                next_ms: turn.now_ms + delay_ms(*attempt, turn.random),
            };
            self.enter(next, turn);
        }
    }

    /// Takes the outcome of a webhook; one of an earlier attempt or wake means nothing any more.
    ///
    /// # Errors
    /// [`Problem::Full`] where there is no room for all of its cursors: what got none is sent
    /// again, as if it had failed.
    pub fn delivered(
        &mut self,
        sent: &Sent,
        outcome: Delivered,
        turn: &mut Turn,
    ) -> Result<(), Refusal> {
        let Phase::Delivering { wake_id, attempt, until_ms } = &self.phase else { return Ok(()) };
        if *attempt != sent.attempt || self.wake().as_ref() != Some(&sent.wake) {
            return Ok(());
        }
        let (wake_id, attempt) = (wake_id.clone(), *attempt);
        match outcome {
            Delivered::Done => {
                let acknowledged = self.acknowledge_within(&sent.tails, turn);
                if acknowledged.is_err() {
                    self.retry(wake_id, attempt, turn);
                    return acknowledged;
                }
                self.enter(Phase::Idle, turn);
            }
            Delivered::Accepted => {
                let next = Phase::Leased { wake_id, holder: None, until_ms: *until_ms };
                self.enter(next, turn);
            }
            Delivered::Failed => self.retry(wake_id, attempt, turn),
        }
        Ok(())
    }

    /// Takes the outcome of writing the wake event.
    pub fn announced(&mut self, wake: &WakeRef, is_written: Result<(), ()>, turn: &mut Turn) {
        let Phase::Waiting { wake_id, attempt, .. } = &self.phase else { return };
        if self.wake().as_ref() != Some(wake) {
            return;
        }
        let (wake_id, attempt) = (wake_id.clone(), *attempt);
        let next = match is_written {
            Ok(()) => Phase::Waiting { wake_id, announce_ms: None, attempt: 0 },
            Err(()) => Phase::Waiting {
                wake_id,
                announce_ms: Some(turn.now_ms + delay_ms(attempt, turn.random)),
                attempt: attempt.saturating_add(1),
            },
        };
        self.enter(next, turn);
    }

    /// Takes acknowledgements of whoever works on a wake; gives whether another wake follows.
    ///
    /// # Errors
    /// [`Refusal::Fenced`], [`Refusal::BadRequest`] for an offset that its stream does not have,
    /// and [`Problem::Full`] where there is no room for another cursor.
    pub fn ack(
        &mut self,
        wake: &WakeRef,
        acks: &[(String, Offset)],
        progress: Progress,
        turn: &mut Turn,
    ) -> Result<bool, Refusal> {
        self.check_wake(wake, turn)?;
        let is_beyond = |(path, offset): &(String, Offset)| {
            self.links.get(&**path).is_some_and(|link| *offset > link.tail)
        };
        if let Some((path, _)) = acks.iter().find(|ack| is_beyond(ack)) {
            return Err(bad(&format!("the offset is beyond the tail of {path}")));
        }
        self.check_room(acks, turn)?;
        self.acknowledge(acks, turn);
        if progress == Progress::Done {
            self.enter(Phase::Idle, turn);
            let has_more = !self.pending.is_empty() || self.looks_for_more();
            self.wake_if_pending(turn);
            return Ok(has_more);
        }
        let until_ms = self.lease_end(turn);
        let next = match self.phase.clone() {
            // Its receiver calls back before it answers.
            Phase::Delivering { wake_id, attempt, .. } => {
                Phase::Delivering { wake_id, attempt, until_ms }
            }
            Phase::Leased { wake_id, holder, .. } => Phase::Leased { wake_id, holder, until_ms },
            // The webhook seemed to fail, but somebody works on it.
            other => {
                let wake_id = other.wake_id().unwrap_or_default().to_owned();
                Phase::Leased { wake_id, holder: None, until_ms }
            }
        };
        let flight = self.flight;
        self.enter(next, turn);
        self.flight = flight;
        Ok(false)
    }

    /// Gives a wake to a worker.
    ///
    /// # Errors
    /// [`Refusal::AlreadyClaimed`], [`Refusal::NothingPending`], [`Refusal::WrongType`], and
    /// [`Problem::Busy`] while what is pending is looked for.
    pub fn claim(&mut self, worker: &str, turn: &mut Turn) -> Result<(), Refusal> {
        if !matches!(self.config.delivery, Delivery::PullWake { .. }) {
            return Err(Refusal::WrongType("pull-wake"));
        }
        let wake_id = match &self.phase {
            Phase::Leased { holder, until_ms, .. } if !self.is_over(*until_ms, turn) => {
                let holder = holder.clone().unwrap_or_default();
                return Err(Refusal::AlreadyClaimed { holder, generation: self.generation });
            }
            _ if self.looks_for_more() => {
                let why = "what is pending is being looked for".to_owned();
                return Err(Problem::Busy(why.into()).into());
            }
            Phase::Waiting { wake_id, .. } => wake_id.clone(),
            _ if self.pending.is_empty() => return Err(Refusal::NothingPending),
            _ => {
                self.generation += 1;
                turn.wake_id.clone()
            }
        };
        let until_ms = self.lease_end(turn);
        let holder = Some(worker.to_owned());
        self.enter(Phase::Leased { wake_id, holder, until_ms }, turn);
        Ok(())
    }

    /// Gives a wake back that was not worked on; what is pending wakes again.
    ///
    /// # Errors
    /// [`Refusal::Fenced`].
    pub fn release(&mut self, wake: &WakeRef, turn: &mut Turn) -> Result<(), Refusal> {
        self.check_wake(wake, turn)?;
        self.enter(Phase::Idle, turn);
        self.wake_if_pending(turn);
        Ok(())
    }

    /// The wake under way, where there is one.
    pub fn wake(&self) -> Option<WakeRef> {
        let wake_id = self.phase.wake_id()?.to_owned();
        Some(WakeRef { generation: self.generation, wake_id })
    }

    fn check_wake(&self, wake: &WakeRef, turn: &Turn) -> Result<(), Refusal> {
        let is_live = match &self.phase {
            Phase::Idle | Phase::Waiting { .. } => false,
            Phase::Delivering { until_ms, .. } | Phase::Leased { until_ms, .. } => {
                !self.is_over(*until_ms, turn)
            }
            Phase::Retrying { .. } => true,
        };
        if is_live && self.wake().as_ref() == Some(wake) { Ok(()) } else { Err(Refusal::Fenced) }
    }

    /// Moves cursors, never back; what is not followed is not looked at.
    fn acknowledge(&mut self, acks: &[(String, Offset)], turn: &mut Turn) {
        for (path, offset) in acks {
            let Some(link) = self.moved(path, *offset) else { continue };
            let Some(stream) = link.stream else { continue };
            let (path, stream, acked) = (path.clone(), stream.0, offset.0);
            self.record(Event::Acked { path, stream, acked }, turn);
        }
    }

    /// Moves those cursors for which there is room: whatever is done with is not told again.
    fn acknowledge_within(
        &mut self,
        acks: &[(String, Offset)],
        turn: &mut Turn,
    ) -> Result<(), Refusal> {
        let mut left = turn.room_bytes;
        let mut fits = |ack: &&(String, Offset)| {
            let rest = left.checked_sub(self.bytes_of_new(std::slice::from_ref(*ack)));
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let fitting: Vec<_> = acks.iter().filter(|ack| fits(ack)).cloned().collect();
        self.acknowledge(&fitting, turn);
        if fitting.len() == acks.len() { Ok(()) } else { Err(no_room()) }
    }

    /// Whether there is room for the cursors that these acknowledgements make.
    fn check_room(&self, acks: &[(String, Offset)], turn: &Turn) -> Result<(), Refusal> {
        if self.bytes_of_new(acks) > turn.room_bytes { Err(no_room()) } else { Ok(()) }
    }

    /// Gives the link whose cursor an acknowledgement moves.
    fn moved(&self, path: &str, offset: Offset) -> Option<&Link> {
        let link = self.links.get(path)?;
        (offset > link.acked && offset <= link.tail).then_some(link)
    }

    /// Begins a wake that is announced; one that is sent begins when there is a place for it.
    fn wake_if_pending(&mut self, turn: &mut Turn) {
        if self.phase != Phase::Idle || self.pending.is_empty() || self.is_called() {
            return;
        }
        self.generation += 1;
        let (wake_id, announce_ms) = (turn.wake_id.clone(), Some(turn.now_ms));
        self.enter(Phase::Waiting { wake_id, announce_ms, attempt: 0 }, turn);
    }

    /// Whether it is told by a webhook.
    fn is_called(&self) -> bool {
        matches!(self.config.delivery, Delivery::Webhook { .. })
    }

    /// Notes that an attempt has failed, which so many others did before.
    fn retry(&mut self, wake_id: String, attempt: u32, turn: &mut Turn) {
        let next_ms = turn.now_ms + delay_ms(attempt, turn.random);
        let attempt = attempt.saturating_add(1);
        self.enter(Phase::Retrying { wake_id, attempt, next_ms }, turn);
    }

    fn is_in_flight(&self) -> bool {
        self.flight != Flight::Grounded
    }

    fn lease_end(&self, turn: &Turn) -> u64 {
        turn.now_ms.saturating_add(self.config.lease_ttl_ms)
    }

    /// Whether a lease has ended.
    fn is_over(&self, until_ms: u64, turn: &Turn) -> bool {
        moment::has_come(until_ms, turn.now_ms, self.config.lease_ttl_ms)
    }

    fn enter(&mut self, phase: Phase, turn: &mut Turn) {
        self.record(Event::Wake { generation: self.generation, phase }, turn);
    }

    fn record(&mut self, event: Event, turn: &mut Turn) {
        self.apply(&event);
        turn.events.push(event);
    }
}

/// Whether something is to be tried again.
fn is_due(next_ms: u64, turn: &Turn) -> bool {
    moment::has_come(next_ms, turn.now_ms, LONGEST_RETRY_MS)
}

fn no_room() -> Refusal {
    Problem::Full(Full::of_all("there is no room for another cursor of a subscription")).into()
}

/// Delay after so many failed attempts: doubling, with jitter, bounded.
fn delay_ms(attempt: u32, random: u64) -> u64 {
    let doubled = FIRST_RETRY_MS.saturating_mul(1_u64.checked_shl(attempt).unwrap_or(u64::MAX));
    let base = doubled.min(LONGEST_RETRY_MS);
    let percent = 100 - JITTER_PERCENT + random % (2 * JITTER_PERCENT + 1);
    (base * percent / 100).min(LONGEST_RETRY_MS)
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
