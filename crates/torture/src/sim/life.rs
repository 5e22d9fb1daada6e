//! One life of a log: requests, commits, checkpoints, reads and watches in random order, some of
//! them by threads that stop in the middle.
//!
//! What the log should answer is known beforehand, from the model; any other answer is a finding.
//! `ask` makes requests, `owed` keeps what was promised, `readers` reads, lists and watches, `jobs`
//! has the threads, `close` ends a life in order, `room` knows when the log may say that it is
//! full.

use std::time::Duration;

use highwater_log::error::{LogError, Rejection};
use highwater_log::lane::Answer;

use super::jobs::Job;
use super::owed::Waiting;
use super::readers::Watch;
use super::requests::{Wish, WishedAppend};
use super::room::Room;
use super::setup::Opened;
use super::{Run, is_full};
use crate::model::There;
use crate::oracle::{Marks, Seen, look};
use crate::verdict::Violation;

/// Rounds of commits and checkpoints until everything must have come to rest: a chain of forks that
/// are gone goes link by link.
const ROUNDS_TO_REST: usize = 10;

/// A life under way.
pub(super) struct Life<'a> {
    pub(super) run: &'a mut Run,
    pub(super) opened: Opened,
    pub(super) waiting: Vec<Waiting>,
    pub(super) watches: Vec<Watch>,
    pub(super) held: Vec<(Answer, Vec<u8>)>,
    pub(super) jobs: Vec<Job>,
    pub(super) room: Room,
    /// Whether some of the work is done by threads.
    is_threaded: bool,
}

impl<'a> Life<'a> {
    pub(super) fn new(run: &'a mut Run, opened: Opened) -> Self {
        let room = Room::new(&run.setup.options);
        let is_threaded = run.is_threaded && run.dice.one_in(2);
        Self {
            run,
            opened,
            waiting: Vec::new(),
            watches: Vec::new(),
            held: Vec::new(),
            jobs: Vec::new(),
            room,
            is_threaded,
        }
    }

    /// Does one thing; gives false when the machine is down.
    pub(super) fn act(&mut self) -> Result<bool, Violation> {
        if self.is_threaded && self.run.dice.one_in(2) {
            self.drive()?;
        } else {
            self.act_at_once()?;
        }
        self.check_watches()?;
        Ok(!self.run.disk.is_crashed())
    }

    fn act_at_once(&mut self) -> Result<(), Violation> {
        match self.run.dice.below(26) {
            0..=11 => {
                let now_ms = self.now_ms();
                let Run { dice, oracle, unacked, setup, .. } = &mut *self.run;
                let wish = Wish::draw(dice, setup.taste, (oracle, now_ms), unacked);
                self.wish(wish)
            }
            12..=14 => self.commit(),
            15..=17 => self.wait_for_one(),
            18 => {
                if self.run.dice.one_in(2) {
                    self.commit()?;
                }
                self.checkpoint()
            }
            19 | 20 => self.read(),
            21 => self.watch(),
            22 => self.list(),
            23 if self.run.dice.one_in(3) => {
                self.maintain();
                Ok(())
            }
            23 => {
                let ms = match self.run.dice.below(12) {
                    0 => self.run.dice.below(40_000),
                    1..=4 => self.run.dice.below(3000),
                    _ => self.run.dice.below(3),
                };
                self.pass(ms);
                Ok(())
            }
            24 if self.run.dice.one_in(2) => self.rest().map(drop),
            25 if self.run.dice.one_in(2) => {
                if let Some(dropped) = self.watches.pop() {
                    drop(dropped);
                    self.run.count("watches dropped");
                }
                Ok(())
            }
            _ => {
                if let Some(dropped) = self.waiting.pop() {
                    drop(dropped);
                    self.run.count("tickets dropped");
                }
                Ok(())
            }
        }
    }

    /// Ends the life as a killed process does.
    pub(super) fn finish(mut self) -> Result<(), Violation> {
        self.wind_up()
    }

    /// Ends the life in order.
    pub(super) fn finish_in_order(mut self) -> Result<(), Violation> {
        self.wind_up()?;
        self.close()
    }

    /// What is still owed is waited for, and every stream is read once more.
    fn wind_up(&mut self) -> Result<(), Violation> {
        self.finish_jobs()?;
        if self.run.dice.one_in(2) {
            self.wait_for_all()?;
        }
        self.commit()?;
        if !self.may_fail() {
            let names: Vec<String> = self.run.oracle.names().map(str::to_owned).collect();
            for name in names {
                self.look(&name)?;
            }
        }
        if self.held.iter().any(|(answer, bytes)| answer.to_vec() != *bytes) {
            return Err(Violation::new("I2", "an answer's bytes changed after it was given"));
        }
        let most = self.opened.meddler.most_home_files();
        let limit = usize::try_from(self.run.setup.options.max_open_files).expect("a small limit");
        // One is handed over while the next is opened, by each thread.
        let threads = if self.is_threaded { Job::MOST + 1 } else { 1 };
        if most > limit + 1 + threads {
            return Err(Violation::new("I11", format!("{most} files were open, {limit} may be")));
        }
        Ok(())
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.run.setup.now_ms()
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, ms: u64) {
        self.run.note(|_| format!("{ms} ms pass"));
        self.run.setup.clock.advance(Duration::from_millis(ms));
    }

    /// Whether anything has failed that makes it hard to say what is right.
    pub(super) fn may_fail(&self) -> bool {
        self.run.disk.is_crashed() || self.opened.meddler.has_failed()
    }

    /// Whether a lane may acknowledge nothing more: its log failed. A failure of anything else
    /// leaves it to commit what it has.
    pub(super) fn log_failed(&self, lane: u16) -> bool {
        self.run.disk.is_crashed() || self.opened.meddler.log_failed(lane)
    }

    /// Whether an error is right: the model expects it, there is no room, or the disk has failed.
    pub(super) fn turned_down(
        &mut self,
        lane: u16,
        expected: Option<&Rejection>,
        error: &LogError,
        may_be_full: bool,
    ) -> Result<(), Violation> {
        self.run.note(|_| format!("turned down: {error}"));
        match (error, expected) {
            (LogError::Rejected(rejection), Some(expected)) if is_same(rejection, expected) => {
                Ok(())
            }
            (LogError::Rejected(_), expected) => {
                let expected = expected.map_or("it to be taken".to_owned(), ToString::to_string);
                let what = format!("expected {expected}, and the log says {error}");
                Err(Violation::new("I4, I5", what))
            }
            _ if self.run.disk.is_crashed() => Ok(()),
            (LogError::ReadOnly(_), _) if self.opened.meddler.upkeep_failed() => {
                self.run.count("refused: read-only");
                Ok(())
            }
            (LogError::Poisoned(_) | LogError::Disk(_), _) if self.log_failed(lane) => Ok(()),
            _ if is_full(error) && (may_be_full || self.opened.meddler.was_full()) => {
                self.run.count("refused: full");
                Ok(())
            }
            _ if is_full(error) => {
                Err(Violation::new("I11", format!("there is room, and the log says {error}")))
            }
            _ => Err(Violation::new("I1", format!("nothing failed, and the log says {error}"))),
        }
    }

    /// Reads a whole stream, and judges it; nothing where it cannot be read for a good reason.
    pub(super) fn look(&mut self, name: &str) -> Result<Option<Seen>, Violation> {
        let now_ms = self.now_ms();
        let seen = match look(&self.opened.log, name) {
            Ok(seen) => seen,
            Err(_) if self.may_fail() => return Ok(None),
            Err(error) => return Err(Violation::new("I1, I8", format!("{name}: {error}"))),
        };
        self.run.oracle.shown(name, seen.as_ref(), now_ms)?;
        if seen.is_none() {
            self.run.oracle.is_turned_away(&self.opened.log, name, now_ms)?;
        }
        Ok(seen)
    }

    /// Finds out whether a stream is over, where that is not known.
    pub(super) fn settle(&mut self, name: &str) {
        let now_ms = self.now_ms();
        if self.run.oracle.is_unsure(name, now_ms) {
            let is_over = self.opened.log.info(name).is_none();
            self.run.oracle.settle(name, is_over, now_ms);
        }
    }

    /// The next append of the stream `a`'s producer.
    pub(super) fn by_producer(&self, payload: Vec<u8>) -> Wish {
        Wish::Append(WishedAppend::next_of("p", &self.run.oracle, "a", payload))
    }

    /// Commits what is staged, in all lanes where nobody is at it.
    pub(super) fn commit(&mut self) -> Result<(), Violation> {
        self.run.count("commits");
        let marks = self.free_marks();
        let committed = self.opened.log.step();
        self.run.note(|_| format!("commit: {committed}"));
        self.committed(&marks);
        self.check_watches()
    }

    /// A commit of all that was taken in before has ended.
    pub(super) fn committed(&mut self, marks: &Marks) {
        let mut marks = marks.clone();
        marks.retain(|(lane, _)| !self.log_failed(*lane));
        self.run.oracle.committed(&marks);
        if self.jobs.is_empty() {
            self.room.committed();
        }
    }

    /// Has the log do what is due by itself.
    fn maintain(&mut self) {
        if self.is_busy() {
            return;
        }
        self.run.count("maintenance");
        self.opened.log.maintain();
        self.run.note(|_| "maintenance".to_owned());
    }

    pub(super) fn checkpoint(&mut self) -> Result<(), Violation> {
        if self.is_busy() {
            return Ok(());
        }
        self.run.count("checkpoints");
        let marks = self.run.oracle.marks();
        let done = self.opened.log.checkpoint();
        self.checkpointed(&marks, &done)
    }

    /// A checkpoint has ended that began when the lanes reached so far.
    pub(super) fn checkpointed(
        &mut self,
        marks: &Marks,
        done: &Result<bool, LogError>,
    ) -> Result<(), Violation> {
        self.run.note(|_| format!("checkpoint: {done:?}"));
        match done {
            Ok(_) => {
                self.run.oracle.checkpointed(marks);
                if self.jobs.is_empty() {
                    self.room.checkpointed();
                }
                Ok(())
            }
            Err(_) if self.may_fail() => Ok(()),
            Err(error) if is_full(error) && self.opened.meddler.was_full() => Ok(()),
            Err(error) => Err(Violation::new("R1", format!("a checkpoint failed: {error}"))),
        }
    }

    /// Lets everything come to rest: what is over is gone then, its watchers know, and its space is
    /// given back. Gives false where something is in the way.
    pub(super) fn rest(&mut self) -> Result<bool, Violation> {
        if !self.jobs.is_empty() {
            return Ok(false);
        }
        for _ in 0..ROUNDS_TO_REST {
            self.checkpoint()?;
            if self.may_fail() || self.opened.meddler.was_full() {
                return Ok(false);
            }
            // A commit may let go of the next link.
            let has_moved = self.opened.log.step();
            self.commit()?;
            if !has_moved {
                break;
            }
        }
        self.checkpoint()?;
        if self.may_fail() {
            return Ok(false);
        }
        self.run.count("rests");
        let now_ms = self.now_ms();
        let names: Vec<String> = self.run.oracle.names().map(str::to_owned).collect();
        for name in names {
            self.look(&name)?;
            let is_free = matches!(self.run.oracle.there(&name, now_ms), There::HiddenOrFree);
            if is_free && !self.is_free(&name) {
                let what = format!("{name} is kept, and no fork of it is left");
                return Err(Violation::new("I11", what));
            }
        }
        self.check_watches_at_rest()?;
        Ok(true)
    }

    fn is_free(&self, name: &str) -> bool {
        let read = self.opened.log.read(name, highwater_log::ids::Offset(0), 1);
        matches!(read, Err(LogError::Rejected(Rejection::NotFound)))
    }
}

/// Whether two rejections say the same: of sizes that are out of bounds, only that they are.
fn is_same(one: &Rejection, other: &Rejection) -> bool {
    match (one, other) {
        (Rejection::TooLarge { .. }, Rejection::TooLarge { .. })
        | (Rejection::Empty(_), Rejection::Empty(_)) => true,
        _ => one == other,
    }
}
