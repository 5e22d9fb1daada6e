//! A real process on a real directory, and what has to be there when it has ended.
//!
//! A process (`child`) opens a store whose settings follow from a seed (`settings`), and sets
//! workers (`worker`) and a reader (`reader`) to it. Each worker does the steps of a `plan`:
//! creates, appends with and without an idempotent producer, bursts, closes, deletes, forks, and
//! streams that end by themselves, on streams of its own and on some that all share. All that
//! happens is reported, line by line (`lines`); the disk's failures too (`witness`).
//!
//! Outside stands a subject: it starts the process (`life`), keeps what it reported
//! (`ledger`), and after each end has the store checked, opened, and held against that (`judge`):
//! I1 to I5, I7 to I10. What ends a life is the business of the layers: `kill`, `shutdown`,
//! `syscall`, `full`.
//!
//! The same seed does the same steps. How threads fall in with each other, and where the end
//! comes, is the machine's affair.

pub mod child;
pub(crate) mod judge;
pub(crate) mod ledger;
mod life;
mod lines;
pub(crate) mod plan;
mod reader;
pub(crate) mod records;
pub(crate) mod settings;
mod witness;
mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use highwater_disk::ReadOnly;
use highwater_log::check::{self, CheckError};

use crate::campaign::{CampaignError, CampaignResult, Stop};
use crate::dice::Dice;
use ledger::Ledger;
pub use life::Program;
pub(crate) use life::{Heard, Life};
use lines::Orders;
pub(crate) use lines::Report;
pub(crate) use plan::WORKERS;
use settings::Opener;
pub(crate) use settings::{Kind, Nature};

/// How the system says that a disk is full.
const NO_SPACE: &str = "No space left";
/// Longest life of a process that ends while it opens its store, or soon after.
const LONGEST_OPENING_US: u64 = 30_000;
/// Longest wait for a process to open its store.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Longest time of work: a process may wait for another's checkpoint, or a slow disk.
const LONGEST_WORK: Duration = Duration::from_secs(2);
/// Longest time from the last acknowledgement that is waited for to the end.
const LONGEST_MOMENT_US: u64 = 3000;

/// Content type of all streams.
const CONTENT_TYPE: &str = "text/plain";

/// Name of a stream that all workers append to.
pub(crate) fn shared_name(stream: usize) -> String {
    format!("shared/{stream}")
}

/// The step that made a stream, from its metadata.
fn made_by(metadata: &[u8]) -> u64 {
    metadata.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// A store under torture, and all that is known of it.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) dir: PathBuf,
    pub(crate) ledger: Ledger,
}

/// What the store's disk may do in a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// What it should: a process that cannot go on is wrong.
    Works,
    /// Fail in any way.
    Fails,
    /// Be full.
    Fills,
}

/// What came of judging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    /// All is as it must be.
    Held,
    /// The store cannot be opened for lack of space.
    NoRoom,
}

impl Subject {
    /// Begins in a new directory, whose name is durable.
    ///
    /// # Errors
    /// The machine's.
    pub(crate) fn new(parent: &Path, nature: Nature) -> CampaignResult<Self> {
        let dir = parent.join(format!("store-{:x}", nature.seed));
        let made = highwater_sys::dir::create_new(&dir)
            .and_then(|()| highwater_sys::dir::sync_entries(&dir))
            .and_then(|()| highwater_sys::dir::sync_entries(parent));
        made.map_err(|error| CampaignError::machine("a new store", &error))?;
        Ok(Self { dir, ledger: Ledger::new(nature) })
    }

    /// Removes it.
    pub(crate) fn remove(&self) -> CampaignResult<()> {
        let removed = std::fs::remove_dir_all(&self.dir);
        removed.map_err(|error| CampaignError::machine("removing a store", &error))
    }

    /// Starts a process on it, as the last arguments of another program if need be.
    ///
    /// # Errors
    /// The machine's.
    pub(crate) fn start(&self, program: &Program, through: &[String]) -> CampaignResult<Life> {
        let books = &self.ledger.books;
        let orders = Orders {
            dir: self.dir.clone(),
            nature: self.ledger.nature,
            from: books.iter().map(|book| book.acked).collect(),
            known: books.iter().map(|book| book.base.next()).collect(),
            dropped: self.ledger.dropped.clone(),
        };
        let started = Life::start(program, through, &orders);
        started.map_err(|error| CampaignError::machine("starting a process", &error))
    }

    /// Notes a report.
    ///
    /// # Errors
    /// What must not be.
    pub(crate) fn note(&mut self, report: &Report, disk: Disk) -> Result<(), String> {
        self.ledger.hear(report)?;
        let why = match report {
            Report::Refused { is_full: true, .. } | Report::Ended if disk == Disk::Fills => {
                return Ok(());
            }
            // A write or barrier that fails for lack of space is a failure as any other.
            Report::Stopped { why, .. } if disk == Disk::Fills && why.contains(NO_SPACE) => {
                return Ok(());
            }
            Report::Refused { why, .. } => format!("the store does not open: {why}"),
            Report::Stopped { worker, why } => format!("worker {worker} cannot go on: {why}"),
            Report::Unread { why } => format!("a reader: {why}"),
            Report::Trouble { kind, operation, place } if disk == Disk::Works => {
                format!("the disk failed: {kind}, {operation} of {place}")
            }
            Report::Ended => "all workers have ended".to_owned(),
            _ => return Ok(()),
        };
        if disk == Disk::Fails { Ok(()) } else { Err(why) }
    }

    /// Listens for a while, or until a report that fulfils a condition; gives what was heard last.
    ///
    /// # Errors
    /// What must not be.
    pub(crate) fn listen(
        &mut self,
        life: &mut Life,
        longest: Duration,
        disk: Disk,
        mut until: impl FnMut(&Report) -> bool,
    ) -> Result<Heard, String> {
        let deadline = Instant::now() + longest;
        loop {
            let heard = life.hear(deadline.saturating_duration_since(Instant::now()));
            if let Heard::Report(report) = &heard {
                self.note(report, disk)?;
                if !until(report) {
                    continue;
                }
            }
            return Ok(heard);
        }
    }

    /// Lets a process work: until it opens its store or soon after, or until a random number of
    /// acknowledgements, `most` at most, and a random moment more. Counted, and not timed, since a
    /// busy machine does little in any time.
    ///
    /// # Errors
    /// What must not be.
    pub(crate) fn work(
        &mut self,
        life: &mut Life,
        dice: &mut Dice,
        most: u64,
        stop: &AtomicBool,
    ) -> Result<(), String> {
        if dice.one_in(6) {
            let moment = Duration::from_micros(dice.below(LONGEST_OPENING_US));
            return self.listen(life, moment, Disk::Works, |_| false).map(drop);
        }
        let is_ready = |report: &Report| *report == Report::Ready;
        self.listen(life, PATIENCE, Disk::Works, is_ready)?;
        let mut left = dice.below(most);
        self.listen(life, LONGEST_WORK, Disk::Works, |report| {
            left = left.saturating_sub(u64::from(matches!(report, Report::Acked { .. })));
            left == 0 || stop.load(Ordering::Relaxed)
        })?;
        let moment = Duration::from_micros(dice.below(LONGEST_MOMENT_US));
        self.listen(life, moment, Disk::Works, |_| false).map(drop)
    }

    /// Notes that this life's end begins now: what is acknowledged from now on proves nothing about
    /// how soon it was durable.
    pub(crate) fn begin_end(&mut self) {
        self.ledger.end.get_or_insert_with(Instant::now);
    }

    /// Ends a life, and notes what it still reported; gives how the process, or what it was started
    /// through, ended.
    ///
    /// # Errors
    /// The machine's, and what must not be.
    pub(crate) fn end(&mut self, life: Life, disk: Disk) -> Result<ExitStatus, Stop> {
        self.begin_end();
        let ended = life.end();
        let (last, status) =
            ended.map_err(|error| CampaignError::machine("ending a process", &error))?;
        last.iter().try_for_each(|report| self.note(report, disk))?;
        Ok(status)
    }

    /// Has the store checked and opened, and holds it against what is known; more than once if
    /// asked, since opening changes nothing that was acknowledged (I7).
    ///
    /// # Errors
    /// What must not be.
    pub(crate) fn judge(&mut self, openings: u64) -> Result<Judged, String> {
        self.check()?;
        for _ in 0..openings.max(1) {
            let log = match settings::open(&self.dir, self.ledger.nature, Opener::Judge) {
                Ok(log) => log,
                Err(error) if settings::is_full(&error) => return Ok(Judged::NoRoom),
                Err(error) => return Err(format!("I1, I7: it does not open: {error}")),
            };
            self.ledger.judge(&mut &log)?;
        }
        Ok(Judged::Held)
    }

    /// What `highwater check` says: clean, or a torn tail.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        let disk = ReadOnly::open(&self.dir).map_err(|error| error.to_string())?;
        let report = match check::check(&disk, &mut |_| {}) {
            Ok(report) => report,
            Err(CheckError::NoStore) if !self.ledger.is_ready => {
                self.ledger.count("checked: no store yet", 1);
                return Ok(());
            }
            Err(error) => return Err(format!("I1: it cannot be checked: {error}")),
        };
        match report.verdict() {
            check::Verdict::Clean => self.ledger.count("checked: clean", 1),
            check::Verdict::TornTail => self.ledger.count("checked: torn tail", 1),
            check::Verdict::Damaged => {
                let told = |damage: &check::Damage| {
                    let check::Damage { file, offset, len_bytes, what, reach, .. } = damage;
                    format!("{file} at {offset}, {len_bytes} bytes, {reach:?}: {what}")
                };
                let damage: Vec<String> = report.damage.iter().take(5).map(told).collect();
                return Err(format!("I6: the check says damaged: {}", damage.join("; ")));
            }
        }
        Ok(())
    }

    /// Takes what was counted.
    pub(crate) fn take_counts(&mut self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.ledger.counts)
    }

    /// Bytes of the store's files, as far as they can be listed.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_below(&self.dir)
    }
}

fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    bytes.sum()
}
