//! Seeded histories: a whole log on a simulated disk with virtual time, driven by one thread.
//!
//! A seed chooses a store (lanes, sizes, limits, barriers, disk), then several lives. In each,
//! requests, commits, checkpoints, reads, lists and watches come in random order, and time passes;
//! in some lives threads stop in the middle of commits, checkpoints and reads while everything else
//! goes on. The disk may fail once or crash at any call, in the middle of recovery too. Between
//! lives the oracle judges what came back, and the offline check what is on the disk; at the end,
//! what a single flipped bit does to it. In one seed of eight the device lies (`lies`).

mod ask;
mod close;
mod cut;
mod end;
mod jobs;
mod lies;
mod life;
mod owed;
mod readers;
mod requests;
mod room;
mod setup;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use highwater_disk::sim::SimDisk;
use highwater_log::error::{LogError, OpenError};

use crate::dice::Dice;
use crate::oracle::{OpNo, Oracle};
use crate::planted::Planted;
use crate::verdict::{Layer, Verdict, Violation};
pub(crate) use cut::{Cut, Letter};
use lies::Lies;
use life::Life;
use requests::WishedAppend;
pub(crate) use setup::{Setup, open};
use setup::{Stage, Taste, Trouble};

/// What one seed did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// What was done, by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// Every call that reached the disk, where it was kept.
    pub trace: Vec<String>,
}

/// Calls to the disk that are told of a failed seed.
const CALLS_TOLD: usize = 60;

/// Whether a history's calls are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Its counts only.
    Counts,
    /// Every call to the disk too.
    Trace,
}

/// Runs seeds one after another; `progress` is told how many are done.
pub fn run(first: u64, seeds: u64, mut progress: impl FnMut(u64)) -> Verdict {
    let mut verdict = Verdict::new(Layer::Sim);
    for seed in first..first.saturating_add(seeds) {
        verdict.runs += 1;
        match history(seed, None, Keep::Counts) {
            Ok(history) => verdict.count_all(&history.counts),
            Err(violation) => {
                verdict
                    .fail(format!("seed {seed}: {violation}"), &format!("--seeds 1 --seed {seed}"));
            }
        }
        progress(verdict.runs);
    }
    verdict
}

/// As `run`, of devices that lie only, with a planted bug if asked.
pub fn run_lies(first: u64, seeds: u64, planted: Option<Planted>) -> Verdict {
    let mut verdict = Verdict::new(Layer::Sim);
    for seed in (first..)
        .filter(|seed| lies::is_of(*seed))
        .take_while(|seed| *seed < first.saturating_add(seeds))
    {
        verdict.runs += 1;
        match lies(seed, planted, Keep::Counts).1 {
            Ok(history) => verdict.count_all(&history.counts),
            Err(violation) => {
                verdict
                    .fail(format!("seed {seed}: {violation}"), &format!("--seeds 1 --seed {seed}"));
            }
        }
    }
    verdict
}

/// Runs one seed, with a planted bug if asked.
///
/// # Errors
/// The invariant that did not hold.
pub fn history(seed: u64, planted: Option<Planted>, keep: Keep) -> Result<History, Violation> {
    retell(seed, planted, keep).1
}

/// Runs one seed; gives what was done besides, request by request, where calls are kept.
pub fn retell(
    seed: u64,
    planted: Option<Planted>,
    keep: Keep,
) -> (Vec<String>, Result<History, Violation>) {
    if lies::is_of(seed) && planted.is_none() {
        return lies(seed, planted, keep);
    }
    let mut dice = Dice::new(seed);
    let setup = Setup::draw(&mut dice, planted, keep);
    let mut run = Run { keep, is_threaded: true, ..Run::new(setup, dice) };
    run.note(|run| format!("{:?} {:?}", run.setup.options, run.setup.disk));
    let outcome = catch_unwind(AssertUnwindSafe(|| run.lives()));
    let outcome = outcome.unwrap_or_else(|panic| Err(Violation::of_panic(&*panic)));
    let mut actions = std::mem::take(&mut run.actions);
    if outcome.is_err() {
        let calls = run.disk.trace();
        actions.extend_from_slice(&calls[calls.len().saturating_sub(CALLS_TOLD)..]);
    }
    (actions, outcome.map(|()| History { counts: run.counts, trace: run.disk.trace() }))
}

/// Runs one seed of a device that lies, with a planted bug if asked; gives what `retell` gives.
fn lies(
    seed: u64,
    planted: Option<Planted>,
    keep: Keep,
) -> (Vec<String>, Result<History, Violation>) {
    let mut run = Lies::new(Dice::new(seed), planted, keep);
    let outcome = catch_unwind(AssertUnwindSafe(|| run.run()));
    let outcome = outcome.unwrap_or_else(|panic| Err(Violation::of_panic(&*panic)));
    let mut actions = std::mem::take(&mut run.actions);
    if outcome.is_err() {
        let calls = run.disk.trace();
        actions.extend_from_slice(&calls[calls.len().saturating_sub(CALLS_TOLD)..]);
    }
    (actions, outcome.map(|()| run.history()))
}

fn in_life(life: u64, violation: &Violation) -> Violation {
    Violation::new(violation.invariant, format!("life {life}: {}", violation.what))
}

/// A seed under way.
#[derive(Debug)]
struct Run {
    setup: Setup,
    dice: Dice,
    disk: SimDisk,
    oracle: Oracle,
    /// Producers' appends whose answer nobody has.
    unacked: Vec<(u16, OpNo, WishedAppend)>,
    counts: BTreeMap<&'static str, u64>,
    keep: Keep,
    actions: Vec<String>,
    restart: Restart,
    /// Whether threads may do some of the work.
    is_threaded: bool,
}

/// What began anew with a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Restart {
    OfTheMachine,
    OfTheProcess,
}

impl Run {
    /// A new store on a new disk.
    fn new(setup: Setup, dice: Dice) -> Self {
        Self {
            disk: setup.new_disk(),
            oracle: Oracle::new(setup.max_producers(), setup.acked()),
            unacked: Vec::new(),
            setup,
            dice,
            counts: BTreeMap::new(),
            keep: Keep::Counts,
            actions: Vec::new(),
            restart: Restart::OfTheMachine,
            is_threaded: false,
        }
    }

    fn lives(&mut self) -> Result<(), Violation> {
        let lives = 2 + self.dice.below(4);
        for life in 0..lives {
            self.life().map_err(|violation| in_life(life, &violation))?;
        }
        self.end().map_err(|violation| in_life(lives, &violation))
    }

    /// Keeps a line about what is done, if asked.
    fn note(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.keep == Keep::Trace {
            self.actions.push(line(self));
        }
    }

    /// One life: an opening, some work, an end.
    fn life(&mut self) -> Result<(), Violation> {
        let trouble = Trouble::draw(&mut self.dice);
        self.note(|_| format!("a life begins, with {trouble:?}"));
        self.count("lives");
        self.unacked.drain(..self.unacked.len().saturating_sub(6));
        if self.restart == Restart::OfTheMachine && self.dice.one_in(4) {
            self.check()?;
        }
        trouble.plan(&self.disk, Stage::Opening);
        let opened = self.open(trouble)?;
        self.disk.clear_faults();
        if let Some(log) = opened {
            if self.restart == Restart::OfTheProcess {
                self.oracle.only_the_process_ended();
            }
            self.oracle.recovered(&log.log, self.setup.now_ms())?;
            self.restart = Restart::OfTheProcess;
            trouble.plan(&self.disk, Stage::Work);
            if let Trouble::Ambush(ambush) = trouble {
                log.meddler.lie_in_wait(ambush, &self.disk);
            }
            if self.dice.one_in(4) && trouble == Trouble::None {
                drop(log);
                self.again()?;
            } else {
                self.work(log)?;
            }
        }
        self.disk.clear_faults();
        if self.disk.is_crashed() || trouble.drops_names() || !self.dice.one_in(4) {
            self.count("crashes");
            self.restart = Restart::OfTheMachine;
            self.disk = self.disk.crash();
        }
        let often = if self.setup.taste == Taste::Times { 1 } else { 4 };
        if self.dice.one_in(often) {
            let ms = self.dice.pick(&[2000, 8000, 20_000]);
            let ms = self.dice.below(ms);
            self.setup.clock.advance(Duration::from_millis(ms));
        }
        Ok(())
    }

    fn open(&mut self, trouble: Trouble) -> Result<Option<setup::Opened>, Violation> {
        match open(&self.disk, &self.setup, self.dice.bits()) {
            Ok(opened) => Ok(Some(opened)),
            Err(_) if self.disk.is_crashed() => {
                self.count("crashes during an opening");
                Ok(None)
            }
            Err(OpenError::Disk(_) | OpenError::Settings(_)) if trouble.is_fault() => Ok(None),
            Err(OpenError::Disk(error)) if error.kind == highwater_disk::ErrorKind::Full => {
                self.count("openings without space");
                Ok(None)
            }
            Err(error) => Err(Violation::new("I1, I7", format!("it does not open: {error}"))),
        }
    }

    /// I7: opened twice, with nothing done in between, it is the same.
    fn again(&mut self) -> Result<(), Violation> {
        self.count("second openings");
        if self.dice.one_in(2) {
            self.disk = self.disk.crash();
        }
        if let Some(opened) = self.open(Trouble::None)? {
            self.oracle.recovered(&opened.log, self.setup.now_ms())?;
        }
        Ok(())
    }

    fn work(&mut self, opened: setup::Opened) -> Result<(), Violation> {
        let actions = 5 + self.dice.below(60);
        let mut life = Life::new(self, opened);
        for _ in 0..actions {
            if !life.act()? {
                break;
            }
        }
        if life.ends_in_order() { life.finish_in_order() } else { life.finish() }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

/// Whether an error says that there is no room.
fn is_full(error: &LogError) -> bool {
    match error {
        LogError::Full(_) | LogError::Busy(_) => true,
        LogError::Disk(error) | LogError::Open(OpenError::Disk(error)) => {
            error.kind == highwater_disk::ErrorKind::Full
        }
        _ => false,
    }
}
