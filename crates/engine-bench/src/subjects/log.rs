//! The log: by a thread per writer that blocks, or by futures on a few threads, as a server does.

use std::path::Path;
use std::str;
use std::sync::Arc;
use std::time::Duration;

use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
use highwater_log::error::{Busy, Full, LogError};
use highwater_log::lane::commit::Ticket;
use highwater_log::options::{Durability, Options};
use highwater_log::request::{Append, Appended, Config, Create, End};
use highwater_log::{Driver, Log, Machine};
use highwater_sys::time::sleep;

use crate::case::{Ack, Case};
use crate::counting::{Counters, CountingDisk};
use crate::load::Load;
use crate::subject::{Counts, Store, Subject, SubjectError, SubjectResult};

/// Creates under way at once.
const CREATES_UNDER_WAY: usize = 1024;
/// Longest time from a staged acknowledgement to its barrier.
const STAGED_WITHIN: Duration = Duration::from_millis(100);
/// How long a create waits after it was refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);
/// Digits of a stream's name.
const NAME_DIGITS: usize = 8;

/// How the writers wait for their acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Each a thread that blocks.
    Threads,
    /// Each a future, all of them on so many threads.
    Tasks {
        /// Threads.
        reactors: u32,
    },
}

/// The log as a subject.
#[derive(Debug, Clone)]
pub struct LogSubject {
    name: &'static str,
    style: Style,
    options: Options,
}

/// An open log on a disk that counts.
#[derive(Debug)]
pub struct OpenLog {
    log: Log,
    counters: Arc<Counters>,
}

/// An open log under a load.
#[derive(Debug)]
pub struct LogStore {
    open: OpenLog,
    style: Style,
}

impl LogSubject {
    /// Measures the log with its own default settings.
    pub fn new(name: &'static str, style: Style) -> Self {
        Self::with_options(name, style, Options::default())
    }

    /// Measures the log with other settings; the case decides about durability.
    pub fn with_options(name: &'static str, style: Style, options: Options) -> Self {
        Self { name, style, options }
    }
}

impl Subject for LogSubject {
    fn name(&self) -> &'static str {
        self.name
    }

    fn open(&self, dir: &Path, case: &Case) -> SubjectResult<Box<dyn Store>> {
        let durability = match case.ack {
            Ack::Barrier => Durability::Wal,
            Ack::Write => Durability::Memory,
            Ack::Staged => Durability::Relaxed { within: STAGED_WITHIN },
        };
        let options = Options { durability, ..self.options.clone() };
        Ok(Box::new(LogStore::new(OpenLog::open(dir, &options)?, self.style)))
    }
}

impl OpenLog {
    /// Opens the log in a directory, or makes one.
    ///
    /// # Errors
    /// Any [`SubjectError`].
    pub fn open(dir: &Path, options: &Options) -> SubjectResult<Self> {
        let counters = Arc::new(Counters::default());
        let disk = RealDisk::open(dir).map_err(failed)?;
        let machine = Machine {
            disk: Arc::new(CountingDisk::new(disk, Arc::clone(&counters))),
            clock: Arc::new(SystemClock::new()),
            rng: Box::new(SystemRng::new()),
        };
        let log = Log::open(machine, options, Driver::Threads).map_err(failed)?;
        Ok(Self { log, counters })
    }

    /// Makes streams, many at once under way; all are durable when this returns.
    ///
    /// # Errors
    /// Any [`SubjectError`].
    pub fn create_streams(&self, count: u32) -> SubjectResult<()> {
        let config = Config::default();
        let mut under_way = Vec::with_capacity(CREATES_UNDER_WAY);
        for stream in 0..count {
            let name = Name::of(stream);
            let create =
                Create { name: name.as_str(), config: &config, payload: &[], end: End::Open };
            let ticket = loop {
                match self.log.create(&create) {
                    Err(error) if error.is_lack_of_room() => sleep(REFUSED_PAUSE),
                    other => break other.map_err(failed)?,
                }
            };
            under_way.push(ticket);
            if under_way.len() == CREATES_UNDER_WAY || stream + 1 == count {
                // The last first: it waits for all before it.
                for ticket in under_way.drain(..).rev() {
                    ticket.wait().map_err(failed)?;
                }
            }
        }
        Ok(())
    }

    /// Stages an append.
    ///
    /// # Errors
    /// Any [`SubjectError`].
    pub fn append(&self, stream: u32, payload: &[u8]) -> SubjectResult<Ticket<Appended>> {
        self.log.append(&request(&Name::of(stream), payload)).map_err(answer)
    }

    /// Waits for an append, if there is one.
    ///
    /// # Errors
    /// Any [`SubjectError`].
    pub fn wait(&self, ticket: Option<Ticket<Appended>>) -> SubjectResult<()> {
        ticket.map_or(Ok(()), |ticket| ticket.wait().map(drop).map_err(answer))
    }

    /// Runs a checkpoint.
    ///
    /// # Errors
    /// Any [`SubjectError`].
    pub fn checkpoint(&self) -> SubjectResult<()> {
        self.log.checkpoint().map(drop).map_err(failed)
    }

    /// Checks that the streams 0 to `count` are there, and no more.
    ///
    /// # Errors
    /// [`SubjectError::Failed`] when they are not.
    pub fn expect_streams(&self, count: u32) -> SubjectResult<()> {
        let is_there = |stream: u32| self.log.info(Name::of(stream).as_str()).is_some();
        match (0..count).find(|stream| !is_there(*stream)) {
            Some(lost) => Err(SubjectError::Failed(format!("stream {lost} is gone"))),
            None if is_there(count) => {
                Err(SubjectError::Failed(format!("there are more than {count} streams")))
            }
            None => Ok(()),
        }
    }

    /// What it has asked of its disk so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }
}

impl LogStore {
    /// Puts an open log under loads.
    pub fn new(open: OpenLog, style: Style) -> Self {
        Self { open, style }
    }
}

impl Store for LogStore {
    fn create_streams(&self, count: u32) -> SubjectResult<()> {
        self.open.create_streams(count)
    }

    fn append(&self, stream: u32, payload: &[u8]) -> SubjectResult<()> {
        self.open.append(stream, payload)?.wait().map(drop).map_err(answer)
    }

    fn drive(&self, load: &Load) {
        match self.style {
            Style::Threads => load.drive_threads(&|stream, payload| self.append(stream, payload)),
            Style::Tasks { reactors } => {
                load.drive_tasks(reactors, &|stream, payload| async move {
                    self.open.append(stream, payload)?.await.map(drop).map_err(answer)
                });
            }
        }
    }

    fn settle(&self) -> SubjectResult<()> {
        self.open.checkpoint()
    }

    fn counts(&self) -> Option<Counts> {
        Some(self.open.counts())
    }

    fn close(self: Box<Self>) -> SubjectResult<()> {
        Ok(())
    }
}

fn request<'a>(name: &'a Name, payload: &'a [u8]) -> Append<'a> {
    Append {
        name: name.as_str(),
        payload,
        end: End::Open,
        content_type: None,
        producer: None,
        sequence: None,
    }
}

fn answer(error: LogError) -> SubjectError {
    match error {
        LogError::Full(Full { why, .. }) | LogError::Busy(Busy { why, .. }) => {
            SubjectError::Refused(why)
        }
        other => failed(other),
    }
}

fn failed(error: impl std::fmt::Display) -> SubjectError {
    SubjectError::Failed(error.to_string())
}

/// A stream's name, made without allocating.
struct Name {
    text: [u8; NAME_DIGITS],
}

impl Name {
    fn of(stream: u32) -> Self {
        let mut text = [b'0'; NAME_DIGITS];
        let mut rest = stream;
        for digit in text.iter_mut().rev() {
            *digit += u8::try_from(rest % 10).expect("a digit");
            rest /= 10;
        }
        assert_eq!(rest, 0, "a stream's number has at most {NAME_DIGITS} digits");
        Self { text }
    }

    fn as_str(&self) -> &str {
        str::from_utf8(&self.text).expect("digits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_numbers_with_leading_zeros() {
        assert_eq!(Name::of(0).as_str(), "00000000");
        assert_eq!(Name::of(10_203_099).as_str(), "10203099");
    }
}
