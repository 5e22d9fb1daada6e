//! Seeds of a device that lies: one write is acknowledged, put behind a barrier, and never there
//! after a crash, or its bytes land elsewhere.
//!
//! That breaks what the log rests on, so it cannot keep its word (I1). It has to keep I6: it says
//! that something is damaged, by refusing to open or to read, or everything is there as it was. The
//! one exception is what nothing vouches for: the last commit of a lane, which cannot be told from
//! a torn one.

mod story;

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater_disk::sim::{Fault, OperationKind, PlannedFault, SimDisk, When};
use highwater_disk::{Access, Disk, ReadOnly};
use highwater_log::Log;
use highwater_log::check::{Verdict, check};
use highwater_log::error::{LogError, OpenError};
use highwater_log::options::{Durability, WriteBarrier, WritePath, WritePathChoice};
use highwater_log::request::{Append, Config, Create, End};

use super::setup::{Devices, Setup, open};
use super::{History, Keep, is_full};
use crate::dice::Dice;
use crate::oracle::{Oracle, look};
use crate::planted::Planted;
use crate::verdict::Violation;
use story::{Looked, Story};

/// One seed in so many is of a device that lies.
const ONE_IN: u64 = 8;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Whether a seed's device lies.
pub(super) const fn is_of(seed: u64) -> bool {
    seed % ONE_IN == ONE_IN - 1
}

/// Whether the log still takes operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Fine,
    /// It has noticed something.
    Broken,
}

/// A seed under way.
pub(super) struct Lies {
    setup: Setup,
    dice: Dice,
    pub(super) disk: SimDisk,
    lanes: Vec<Story>,
    counts: BTreeMap<&'static str, u64>,
    keep: Keep,
    pub(super) actions: Vec<String>,
}

impl Lies {
    /// Chooses the store.
    pub(super) fn new(mut dice: Dice, planted: Option<Planted>, keep: Keep) -> Self {
        let mut setup = Setup::draw(&mut dice, planted, keep);
        setup.devices = Devices::One;
        setup.disk.capacity_bytes = 1 << 30;
        let options = &mut setup.options;
        // The other modes may lose what was acknowledged, and nobody could tell why.
        options.durability = Durability::Wal;
        options.max_streams = 100;
        if options.write_path == WritePathChoice::Measured {
            options.write_path = WritePathChoice::Fixed(WritePath::DEFAULT);
        }
        let lanes = vec![Story::default(); usize::from(options.lanes)];
        let (disk, counts) = (setup.new_disk(), BTreeMap::new());
        Self { setup, dice, disk, lanes, counts, keep, actions: Vec::new() }
    }

    /// Gives what was done.
    pub(super) fn history(self) -> History {
        History { trace: self.disk.trace(), counts: self.counts }
    }

    /// An honest life, one with a lie in it, and what comes of it in two more.
    pub(super) fn run(&mut self) -> Result<(), Violation> {
        self.count("lives with a lie");
        let Some(log) = self.open()? else { return wrong("I7", "an empty disk is refused") };
        let before = self.dice.below(25);
        if self.act(&log, before)? == Mood::Broken {
            return wrong("I1", "nothing failed, and the log says so");
        }
        self.lie();
        // Now and then enough for segments to be used again.
        let most = self.dice.pick(&[30, 30, 30, 150]);
        let after = 1 + self.dice.below(most);
        self.act(&log, after)?;
        drop(log);
        for _ in 0..2 {
            self.disk.clear_faults();
            self.disk = self.disk.crash();
            let Some(log) = self.open()? else { return Ok(()) };
            self.judge(&log)?;
            let more = self.dice.below(20);
            self.act(&log, more)?;
        }
        Ok(())
    }

    /// Plans the lie.
    fn lie(&mut self) {
        let places =
            ["wal/", "wal/", "wal/", "wal/0", "streams/", "tables/", "manifest/", "super", ""];
        let path_prefix = self.dice.pick(&places);
        let is_log = path_prefix.starts_with("wal");
        let is_durable = matches!(
            self.setup.options.write_path,
            WritePathChoice::Fixed(WritePath { barrier: WriteBarrier::Dsync, .. })
        );
        let kind = if is_log && is_durable && !self.dice.one_in(4) {
            OperationKind::WriteDurableAt
        } else {
            OperationKind::WriteAt
        };
        let most = self.dice.pick(&[8, 8, 40]);
        let nth = 1 + self.dice.below(if path_prefix == "super" { 2 } else { most });
        let elsewhere = self.elsewhere(is_log);
        let fault = match elsewhere.filter(|_| self.dice.one_in(2)) {
            Some((path, offset)) => Fault::MisdirectedWrite { path, offset },
            None => Fault::LostWrite,
        };
        self.note(|| format!("of {kind:?} {path_prefix} number {nth}: {fault:?}"));
        let (when, path_prefix) = (When::Nth(nth), path_prefix.to_owned());
        self.disk.plan(PlannedFault { kind, path_prefix, when, fault });
    }

    /// A place where bytes may land that were meant for another one.
    fn elsewhere(&mut self, is_log: bool) -> Option<(String, u64)> {
        let dirs: &[&str] = if is_log && !self.dice.one_in(4) {
            &["wal/0", "wal/1", "wal/2"]
        } else {
            &["", "manifest", "tables", "streams/0", "streams/1", "streams/2", "wal/0"]
        };
        let mut files = Vec::new();
        for dir in dirs {
            let entries = self.disk.list(dir).unwrap_or_default().into_iter();
            let names = entries.filter(|entry| !entry.is_dir).map(|entry| entry.name);
            files.extend(names.map(|name| format!("{dir}/{name}").trim_matches('/').to_owned()));
        }
        if files.is_empty() {
            return None;
        }
        let path = self.dice.pick(&files);
        let file = self.disk.open(&path, Access::Buffered).expect("it is listed");
        let len = file.len().expect("nothing fails");
        let unit = self.dice.pick(&[4096, 4096, 4096, 512]);
        Some((path, self.dice.below((len / unit).max(1)) * unit))
    }

    fn open(&mut self) -> Result<Option<Arc<Log>>, Violation> {
        let disk = ReadOnly::over(Arc::new(self.disk.fork()));
        let checked = check(&disk, &mut |_| {}).map(|report| report.verdict());
        match open(&self.disk, &self.setup, self.dice.bits()) {
            Ok(opened) => Ok(Some(opened.log)),
            Err(error @ (OpenError::Damaged { .. } | OpenError::Format { .. })) => {
                self.count("lies noticed at the opening");
                if matches!(checked, Ok(Verdict::Clean)) {
                    let what = format!("the check finds no damage, opening says {error}");
                    return wrong("I6", &what);
                }
                Ok(None)
            }
            Err(OpenError::Disk(_)) => {
                // A file that something names is missing or too short.
                self.count("lies noticed at the opening");
                Ok(None)
            }
            Err(error) => wrong("I6", &format!("a wrong reason: {error}")),
        }
    }

    /// Does some things, until the log notices something.
    fn act(&mut self, log: &Arc<Log>, actions: u64) -> Result<Mood, Violation> {
        for _ in 0..actions {
            let mood = match self.dice.below(16) {
                0..=9 => self.change(log),
                10..=12 => self.commit(log),
                13 => self.checkpoint(log),
                _ => self.read(log)?,
            };
            if mood == Mood::Broken {
                self.count("lies noticed at work");
                return Ok(mood);
            }
        }
        Ok(self.commit(log))
    }

    /// Creates, appends to, or deletes a stream.
    fn change(&mut self, log: &Arc<Log>) -> Mood {
        let name = self.dice.pick(&NAMES);
        let lane = self.lane(name);
        let there = self.lanes[lane].taken(name);
        let len = self.dice.pick(&[10, 300, 2000, 4000, 7000]);
        let payload = self.dice.bytes(len);
        self.note(|| format!("changes {name}, {len} bytes"));
        let (end, content_type) = (End::Open, None);
        let (taken, becomes) = match there {
            None => {
                let config = Config { content_type: "text/plain".to_owned(), ..Config::default() };
                let request = Create { name, config: &config, payload: &payload, end };
                (log.create(&request).map(drop), Some(payload))
            }
            Some(_) if self.dice.one_in(8) => (log.delete(name).map(drop), None),
            Some(bytes) => {
                let (producer, sequence) = (None, None);
                let payload = &payload[..];
                let request = Append { name, payload, end, content_type, producer, sequence };
                (log.append(&request).map(drop), Some([&bytes[..], payload].concat()))
            }
        };
        match taken {
            Ok(()) => self.lanes[lane].take(name, becomes),
            Err(error) if is_full(&error) => return self.checkpoint(log),
            Err(_) => return Mood::Broken,
        }
        Mood::Fine
    }

    fn commit(&mut self, log: &Arc<Log>) -> Mood {
        let committed = log.step();
        self.note(|| format!("commit: {committed}"));
        if log.check().is_err() {
            return Mood::Broken;
        }
        self.lanes.iter_mut().for_each(Story::committed);
        Mood::Fine
    }

    fn checkpoint(&mut self, log: &Arc<Log>) -> Mood {
        // What is not committed yet becomes a commit of its own.
        let mood = self.commit(log);
        let done = log.checkpoint();
        self.note(|| format!("checkpoint: {done:?}"));
        match done {
            Ok(_) => self.lanes.iter_mut().for_each(Story::vouched),
            Err(_) => return Mood::Broken,
        }
        mood
    }

    /// Readers see what is right, or hear of the damage.
    fn read(&mut self, log: &Arc<Log>) -> Result<Mood, Violation> {
        let name = self.dice.pick(&NAMES);
        let story = &self.lanes[self.lane(name)];
        let (expected, is_ending) = (story.public(name), story.is_ending(name));
        match look_at(log, name)? {
            None => self.count("lies noticed by a reader"),
            Some(seen) if seen == expected || is_ending && seen.is_none() => {}
            Some(seen) => {
                let len = |sight: &story::Sight| sight.as_ref().map(Vec::len);
                let (seen, expected) = (len(&seen), len(&expected));
                let what = format!("{name} is {seen:?} bytes, and should be {expected:?}");
                return wrong("I6", &what);
            }
        }
        Ok(Mood::Fine)
    }

    /// Holds what came back against what was done.
    fn judge(&mut self, log: &Arc<Log>) -> Result<(), Violation> {
        for lane in 0..self.lanes.len() {
            let mut seen = BTreeMap::new();
            for name in self.lanes[lane].names() {
                let looked = look_at(log, &name)?;
                if looked.is_none() {
                    self.count("lies noticed by a reader");
                }
                seen.insert(name, looked);
            }
            if let Err(what) = self.lanes[lane].came_back(&seen) {
                return wrong("I6", &format!("lane {lane}: {what}"));
            }
        }
        self.count("lies without effect, or noticed later");
        Ok(())
    }

    fn lane(&self, name: &str) -> usize {
        usize::from(Oracle::place(name, self.setup.options.lanes))
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if self.keep == Keep::Trace {
            self.actions.push(line());
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

fn wrong<T>(invariant: &'static str, what: &str) -> Result<T, Violation> {
    Err(Violation::new(invariant, what))
}

/// Reads a whole stream; nothing where the log says that something is damaged.
fn look_at(log: &Arc<Log>, name: &str) -> Result<Looked, Violation> {
    match look(log, name) {
        Ok(seen) => Ok(Some(seen.map(|seen| seen.content))),
        Err(LogError::Damaged { .. } | LogError::Disk(_)) => Ok(None),
        Err(error) => wrong("I6", &format!("{name}: a wrong reason: {error}")),
    }
}
