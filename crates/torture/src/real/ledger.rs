//! What is known from outside of a store: what was asked, what was acknowledged, what was seen.
//!
//! A worker does one step after the other, so its streams must be what they were after some step:
//! none before the last that was acknowledged (where an acknowledgement means that much), none
//! behind the last that can have been asked. `judge` holds a store against that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use highwater_log::options::{Durability, Options};

use super::lines::Report;
use super::plan::{Plan, SHARED, WORKERS};
use super::settings::Nature;

/// What is known.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    pub(crate) nature: Nature,
    pub(crate) books: Vec<Book>,
    /// What happened in this life, in the order in which it was reported.
    pub(crate) events: Vec<Event>,
    /// Whether the shared streams were made for certain.
    pub(crate) is_ready: bool,
    /// When streams end by themselves, by worker and step.
    pub(crate) ends: BTreeMap<(u64, u64), Ends>,
    /// What readers saw of workers' streams, by worker and step.
    pub(crate) saw: BTreeMap<(u64, u64), Saw>,
    pub(crate) saw_shared: [u64; SHARED],
    /// Spare streams that are deleted.
    pub(crate) dropped: BTreeSet<String>,
    /// Spare streams that may be.
    pub(crate) dropping: BTreeSet<String>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// When this life's end began.
    pub(crate) end: Option<Instant>,
}

/// What is known of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Book {
    /// Where the store was found at the last opening.
    pub(crate) base: Plan,
    /// First step that was not acknowledged.
    pub(crate) acked: u64,
}

/// Something that orders what came after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Acked { worker: u64, number: u64, heard: Instant },
    LaneFailed { lane: u16 },
}

/// When a stream ends by itself, ms since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) not_before_ms: u64,
    pub(crate) by_ms: u64,
}

/// What a reader saw of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Saw {
    pub(crate) len: u64,
    pub(crate) crc: u32,
    pub(crate) is_closed: bool,
}

impl Ledger {
    /// Of a store that is not there yet.
    pub(crate) fn new(nature: Nature) -> Self {
        let book = |worker| Book { base: Plan::new(nature.seed, worker), acked: 0 };
        Self {
            nature,
            books: (0..WORKERS).map(book).collect(),
            events: Vec::new(),
            is_ready: false,
            ends: BTreeMap::new(),
            saw: BTreeMap::new(),
            saw_shared: [0; SHARED],
            dropped: BTreeSet::new(),
            dropping: BTreeSet::new(),
            counts: BTreeMap::new(),
            end: None,
        }
    }

    /// Notes a report.
    ///
    /// # Errors
    /// A report that says that something is wrong, or that cannot be.
    pub(crate) fn hear(&mut self, report: &Report) -> Result<(), String> {
        match report {
            Report::Ready => self.is_ready = true,
            Report::Acked { worker, number } => return self.acked(*worker, *number),
            Report::LaneFailed { lane } => self.events.push(Event::LaneFailed { lane: *lane }),
            Report::Ends { worker, number, not_before_ms } => {
                let ends = Ends { not_before_ms: *not_before_ms, by_ms: u64::MAX };
                self.ends.insert((*worker, *number), ends);
            }
            Report::EndsBy { worker, number, by_ms } => {
                let ends = self.ends.get_mut(&(*worker, *number));
                ends.ok_or("a stream's end without its beginning")?.by_ms = *by_ms;
            }
            Report::Saw { name, made, len, crc, is_closed } => {
                let worker = worker_of(name).ok_or_else(|| format!("{name} is nobody's"))?;
                let saw = Saw { len: *len, crc: *crc, is_closed: *is_closed };
                let before = self.saw.insert((worker, *made), saw);
                if before.is_some_and(|before| before.len > *len) {
                    return Err(format!("I2: {name} became shorter before a reader's eyes"));
                }
            }
            Report::SawShared { stream, len } => {
                let seen = self.saw_shared.get_mut(*stream).ok_or("no such shared stream")?;
                *seen = (*seen).max(*len);
            }
            Report::Full { .. } => self.count("steps that found the log full", 1),
            Report::Dropping { name } => {
                self.dropping.insert(name.clone());
            }
            Report::Dropped { name } => {
                self.dropping.remove(name);
                self.dropped.insert(name.clone());
                self.count("deletes while full: done", 1);
            }
            Report::Kept { name } => {
                self.dropping.remove(name);
                self.count("deletes while full: refused", 1);
            }
            Report::Wrong { what } => return Err(what.clone()),
            Report::Pid { .. }
            | Report::Refused { .. }
            | Report::Pass
            | Report::Trouble { .. }
            | Report::Stopped { .. }
            | Report::Unread { .. }
            | Report::Ended => {}
        }
        Ok(())
    }

    fn acked(&mut self, worker: u64, number: u64) -> Result<(), String> {
        let index = usize::try_from(worker).unwrap_or(usize::MAX);
        let book = self.books.get_mut(index).ok_or_else(|| format!("no worker {worker}"))?;
        if number != book.acked {
            return Err(format!("worker {worker}: step {number} acknowledged, {} due", book.acked));
        }
        book.acked += 1;
        self.events.push(Event::Acked { worker, number, heard: Instant::now() });
        self.count("steps acknowledged", 1);
        Ok(())
    }

    /// Adds to a count.
    pub(crate) fn count(&mut self, what: &'static str, by: u64) {
        if by > 0 {
            *self.counts.entry(what).or_default() += by;
        }
    }

    /// Settings of the store.
    pub(crate) fn options(&self) -> Options {
        super::settings::options(self.nature)
    }

    /// Whether an acknowledgement outlives what ends a life of this kind.
    pub(crate) fn is_vouched_for(&self) -> bool {
        !matches!(self.options().durability, Durability::Relaxed { .. })
    }
}

impl Book {
    /// First step that no end of the process can have left in the store, and the plan before it.
    pub(crate) fn asked(&self) -> Plan {
        let mut plan = self.base.clone();
        while plan.next() <= self.acked || plan.is_in_burst() {
            plan.advance();
        }
        plan
    }
}

/// The worker that a stream belongs to, from its name.
pub(crate) fn worker_of(name: &str) -> Option<u64> {
    name.split('/').next()?.strip_prefix(['w', 's', 'x'])?.parse().ok()
}
