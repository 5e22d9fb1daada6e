//! A file system that fills up: appends are refused and nothing else is, and the log goes on by
//! itself once there is room.
//!
//! The store lies in a small file system in an image, beside a file of ballast that leaves a random
//! little: so space ends at a random step, of making the store, a segment, a stream's file, a
//! table, a manifest. When every worker (see [`crate::real`]) has found the log full more than
//! once, the reader must get through all the same. Then either the ballast goes, and every worker
//! must come to an acknowledgement; or the process is killed, and the store must open at the latest
//! when the ballast has gone. Deletions of spare streams are tried while the log is full: each is
//! done, or refused for lack of space, and counted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use highwater_sys::file::{Cache, File, NewFile, WriteSync};
use highwater_sys::fsinfo::free_bytes;

use crate::campaign::{Campaign, CampaignError, CampaignResult, Stop};
use crate::dice::Dice;
use crate::image::{FileSystem, Image};
use crate::real::{Disk, Heard, Judged, Kind, Life, PATIENCE, Report, Subject, WORKERS};
use crate::verdict::{Layer, Verdict};
use crate::yard::Yard;

/// Longest wait for the disk to be full; it need not be.
const FILLING: Duration = Duration::from_secs(5);
/// How long a process works before the ballast comes.
const LONGEST_START_MS: u64 = 60;
/// Reports of a full log, one after the other, after which a worker is taken to be stuck: one alone
/// may only say that a checkpoint is behind.
const STUCK: u32 = 3;

/// Runs cycles on a kind of file system.
///
/// # Errors
/// [`CampaignError::NotRun`] without root or what else is needed; others when the machine fails.
pub fn run(campaign: &mut Campaign<'_>, kind: FileSystem) -> Result<Verdict, CampaignError> {
    let mut verdict = Verdict::new(Layer::Full);
    let mut dice = Dice::new(campaign.seed);
    let mut yard = Yard::make(campaign.dir, Layer::Full)?;
    let at = |name: &str| yard.path().join(name);
    let mut image = Image::make(kind, at("small.image"), kind.small_bytes(), at("small"))?;
    while verdict.runs < campaign.cycles && !campaign.is_stopped() {
        if verdict.runs > 0 {
            image.renew()?;
        }
        verdict.runs += 1;
        let nature = campaign.nature(Kind::Full, &mut dice);
        let subject = Subject::new(image.point(), nature)?;
        let ballast = image.point().join("ballast");
        let mut cycle = Cycle { campaign, subject, ballast, counts: BTreeMap::new() };
        let outcome = cycle.run(&mut image, &mut dice);
        let of_subject = cycle.subject.take_counts();
        let counts = cycle.counts;
        verdict.count_all(&counts);
        verdict.count_all(&of_subject);
        if !campaign.conclude(&mut verdict, &mut yard, outcome, &format!("--fs {kind} "))? {
            break;
        }
    }
    Ok(verdict)
}

/// A store, and the disk around it.
struct Cycle<'a, 'c> {
    campaign: &'a Campaign<'c>,
    subject: Subject,
    ballast: PathBuf,
    counts: BTreeMap<&'static str, u64>,
}

/// What a life comes to when the disk fills up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// Every worker is stuck.
    Stuck,
    /// The log has failed for lack of space.
    Failed,
    /// The store did not open.
    Refused,
    /// The disk did not fill up in time, or the campaign was stopped.
    Not,
}

impl Cycle<'_, '_> {
    /// Fills the disk up, and gives room again.
    fn run(&mut self, image: &mut Image, dice: &mut Dice) -> Result<(), Stop> {
        let most = dice.pick(&[64 << 10, 512 << 10, 1 << 20, 4 << 20]);
        let leave = dice.below(most);
        let is_loaded = dice.one_in(4);
        if is_loaded {
            self.load(leave)?;
        }
        let mut life = self.subject.start(self.campaign.program, &[])?;
        if !is_loaded {
            self.begin(&mut life, Duration::from_millis(dice.below(LONGEST_START_MS)))?;
            self.load(leave)?;
        }
        match self.fill(&mut life)? {
            Filled::Stuck if dice.one_in(2) => {
                self.count("filled up, then room");
                self.unload()?;
                self.goes_on(&mut life)?;
                self.end(life)?;
                self.subject.judge(1)?;
            }
            Filled::Stuck | Filled::Failed | Filled::Refused => {
                self.count("filled up, then ended");
                self.end(life)?;
                if dice.one_in(2) {
                    image.unmount()?;
                    image.mount()?;
                }
                self.reopen()?;
            }
            Filled::Not => {
                self.count("not filled up");
                self.end(life)?;
                self.subject.judge(1)?;
            }
        }
        Ok(())
    }

    /// Lets the process open its store and work for a while, with all the room there is.
    fn begin(&mut self, life: &mut Life, span: Duration) -> Result<(), Stop> {
        let is_begun = |report: &Report| matches!(report, Report::Ready | Report::Refused { .. });
        match self.listen(life, PATIENCE, is_begun)? {
            Heard::Report(Report::Ready) => {}
            other => return Err(format!("the store does not open: {other:?}").into()),
        }
        let campaign = self.campaign;
        self.listen(life, span, |_| campaign.is_stopped())?;
        Ok(())
    }

    /// Lets the process work until nothing fits any more, and the reader get through twice then.
    fn fill(&mut self, life: &mut Life) -> Result<Filled, Stop> {
        let campaign = self.campaign;
        let mut refusals: BTreeMap<u64, u32> = (0..WORKERS).map(|worker| (worker, 0)).collect();
        let mut filled = Filled::Stuck;
        let heard = self.listen(life, FILLING, |report| {
            match report {
                Report::Full { worker, .. } => *refusals.entry(*worker).or_default() += 1,
                Report::Acked { worker, .. } => *refusals.entry(*worker).or_default() = 0,
                Report::Stopped { worker, .. } => {
                    filled = Filled::Failed;
                    *refusals.entry(*worker).or_default() = STUCK;
                }
                _ => {}
            }
            refusals.values().all(|refused| *refused >= STUCK)
                || matches!(report, Report::Refused { .. } | Report::Ended)
                || campaign.is_stopped()
        })?;
        match heard {
            Heard::Report(Report::Refused { .. }) => return Ok(Filled::Refused),
            Heard::Report(Report::Ended) => return Ok(Filled::Failed),
            Heard::Report(_) if !campaign.is_stopped() => {}
            Heard::Report(_) | Heard::Nothing => return Ok(Filled::Not),
            Heard::End => return Err("the process ended by itself".to_owned().into()),
        }
        if filled == Filled::Failed {
            self.count("failed for lack of space");
            return Ok(filled);
        }
        let mut passes = 0;
        let heard = self.listen(life, PATIENCE, |report| {
            passes += u32::from(*report == Report::Pass);
            // The first may have begun before.
            passes == 2 || campaign.is_stopped()
        })?;
        match heard {
            Heard::Report(_) => Ok(Filled::Stuck),
            other => Err(format!("readers do not go on while the log is full: {other:?}").into()),
        }
    }

    /// The store opens, at the latest when there is room, and takes everything again.
    fn reopen(&mut self) -> Result<(), Stop> {
        let judged = self.subject.judge(1)?;
        self.unload()?;
        match judged {
            Judged::Held => self.count("opened while full"),
            Judged::NoRoom => {
                self.count("opened only with room");
                if self.subject.judge(1)? == Judged::NoRoom {
                    return Err("it does not open with room".to_owned().into());
                }
            }
        }
        let mut life = self.subject.start(self.campaign.program, &[])?;
        self.goes_on(&mut life)?;
        self.end(life)?;
        self.subject.judge(1)?;
        Ok(())
    }

    /// With room, every worker comes to an acknowledgement.
    fn goes_on(&mut self, life: &mut Life) -> Result<(), Stop> {
        let campaign = self.campaign;
        let mut waiting: Vec<u64> = (0..WORKERS).collect();
        let heard = self.listen(life, PATIENCE, |report| {
            if let Report::Acked { worker, .. } = report {
                waiting.retain(|other| other != worker);
            }
            waiting.is_empty() || campaign.is_stopped()
        })?;
        match heard {
            Heard::Report(_) => {
                self.count("went on with room");
                Ok(())
            }
            other => {
                let what = format!("with room, workers {waiting:?} do not go on: {other:?}");
                Err(what.into())
            }
        }
    }

    fn end(&mut self, life: Life) -> Result<(), Stop> {
        let status = self.subject.end(life, Disk::Fills)?;
        match status.code() {
            None | Some(0) => Ok(()),
            Some(_) => Err(format!("the process ended badly: {status}").into()),
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn listen(
        &mut self,
        life: &mut Life,
        longest: Duration,
        mut until: impl FnMut(&Report) -> bool,
    ) -> Result<Heard, String> {
        let counts = &mut self.counts;
        self.subject.listen(life, longest, Disk::Fills, |report| {
            if let Report::Trouble { kind, operation, place } = report {
                *counts.entry(struck(kind, operation, place)).or_default() += 1;
            }
            until(report)
        })
    }

    /// Takes all room but a little.
    fn load(&self, leave: u64) -> CampaignResult<()> {
        let failed = |error| CampaignError::machine("ballast", &error);
        let options = NewFile { cache: Cache::Buffered, write_sync: WriteSync::None };
        let file = File::create_new(&self.ballast, options).map_err(failed)?;
        let mut len = free_bytes(&file).map_err(failed)?.saturating_sub(leave);
        while len > 0 {
            match file.allocate(len) {
                Ok(()) => break,
                // A file system's own needs are not told.
                Err(error) if error.is_full() => len = len.saturating_sub((len / 64).max(4096)),
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    /// Gives it back.
    fn unload(&self) -> CampaignResult<()> {
        let removed = highwater_sys::dir::remove_file(&self.ballast);
        removed.map_err(|error| CampaignError::machine("ballast", &error))
    }
}

/// Where space ended, as a count's name.
fn struck(kind: &str, operation: &str, place: &str) -> &'static str {
    if kind != "Full" {
        return "struck otherwise";
    }
    match (place, operation) {
        ("wal", "create") => "struck: name of a segment",
        ("wal", "allocate") => "struck: space of a segment",
        ("wal", _) => "struck: write to a segment",
        ("streams", "create") => "struck: name of a stream's file",
        ("streams", "write_at") => "struck: write to a stream's file",
        ("streams", _) => "struck: barrier of streams' files",
        ("tables", "create") => "struck: name of a table",
        ("tables", _) => "struck: write to a table",
        ("manifest", "create") => "struck: name of a manifest",
        ("manifest", _) => "struck: write to a manifest",
        ("super" | "super.new", _) => "struck: superblock",
        _ => "struck: a directory",
    }
}
