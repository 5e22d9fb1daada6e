//! The end of a seed: the store is opened on a healthy disk and comes to rest, bounds are checked,
//! and bits are flipped in it. Besides, the offline check, which has to agree with opening.

use std::sync::Arc;

use highwater_disk::sim::SimDisk;
use highwater_disk::{Access, Disk, ReadOnly};
use highwater_log::check::{CheckError, Verdict, check};
use highwater_log::error::{LogError, OpenError};
use highwater_log::format::Label;

use super::Run;
use super::life::Life;
use super::setup::{Trouble, open};
use crate::verdict::Violation;

/// Bits flipped per seed, each in a copy of its own.
const FLIPS: u64 = 3;

impl Run {
    /// Judges the store for the last time.
    pub(super) fn end(&mut self) -> Result<(), Violation> {
        self.disk.clear_faults();
        self.disk = self.disk.crash();
        for round in 0..2 {
            let Some(opened) = self.open(Trouble::None)? else { return Ok(()) };
            self.oracle.recovered(&opened.log, self.setup.now_ms())?;
            if round == 0 {
                // Before a checkpoint there is most to damage.
                self.flips()?;
            }
            let mut life = Life::new(self, opened);
            let is_at_rest = life.rest()?;
            life.finish()?;
            if is_at_rest {
                self.bounds()?;
            }
        }
        self.flips()
    }

    /// I6: the offline check finds no damage in what opening takes.
    pub(super) fn check(&mut self) -> Result<(), Violation> {
        let disk = ReadOnly::over(Arc::new(self.disk.fork()));
        let report = match check(&disk, &mut |_| {}) {
            // A crash has left less than a store.
            Err(CheckError::NoStore) => return Ok(()),
            Err(error) => return Err(Violation::new("I6", format!("the check says {error}"))),
            Ok(report) => report,
        };
        self.count("offline checks");
        if report.verdict() == Verdict::Damaged {
            let what = format!("the check finds damage, opening none: {:?}", report.damage);
            return Err(Violation::new("I6", what));
        }
        Ok(())
    }

    fn flips(&mut self) -> Result<(), Violation> {
        (0..FLIPS).try_for_each(|_| self.flip())
    }

    /// I11: neither segments nor files of streams that are gone pile up.
    fn bounds(&self) -> Result<(), Violation> {
        let options = &self.setup.options;
        // What may be in use, and one ahead.
        let most = options.max_wal_bytes / options.segment_bytes + 1;
        for lane in 0..options.lanes {
            let files = unlabelled(&self.disk, &format!("wal/{lane}"));
            if u64::try_from(files.len()).expect("usize fits u64") > most {
                let what = format!("lane {lane} has {} segment files, {most} may be", files.len());
                return Err(Violation::new("I11", what));
            }
        }
        let needed = self.oracle.kept(self.setup.now_ms());
        let lanes = 0..options.stream_lanes;
        let kept = lanes.map(|lane| unlabelled(&self.disk, &format!("streams/{lane}")).len());
        let kept: usize = kept.sum();
        if kept > needed {
            let what = format!("the home keeps {kept} files for {needed} streams");
            return Err(Violation::new("I11", what));
        }
        Ok(())
    }

    /// I6: after a flipped bit there is an error that names the place, or everything is right.
    fn flip(&mut self) -> Result<(), Violation> {
        let (mut disk, mut paths) = (self.disk.fork(), Vec::new());
        for dir in
            ["", "manifest", "tables", "streams/0", "streams/1", "wal/0", "wal/0", "wal/1", "wal/2"]
        {
            // One label is enough: they never change.
            let files = if dir == "streams/0" { names(&disk, dir) } else { unlabelled(&disk, dir) };
            let files = files.into_iter();
            paths.extend(files.map(|name| format!("{dir}/{name}").trim_matches('/').to_owned()));
        }
        if paths.is_empty() {
            return Ok(());
        }
        let path = self.dice.pick(&paths);
        let (byte, bit) = (self.used_byte(&disk, &path), self.dice.below(8));
        let bit = u8::try_from(bit).expect("below 8");
        let flipped = disk.flip_bit(&path, byte, bit);
        assert!(flipped.is_ok(), "{path} is there");
        self.count("bits flipped");
        std::mem::swap(&mut disk, &mut self.disk);
        let verdict = self.flipped();
        std::mem::swap(&mut disk, &mut self.disk);
        let place = format!("bit {bit} of byte {byte} of {path}");
        verdict.map_err(|found| Violation::new("I6", format!("{place}: {}", found.what)))
    }

    /// A byte that is not amid zeros, mostly.
    fn used_byte(&mut self, disk: &SimDisk, path: &str) -> u64 {
        let file = disk.open(path, Access::Buffered).expect("it is listed");
        let len = file.len().expect("nothing fails");
        let mut around = [0; 64];
        for _ in 0..20 {
            let byte = self.dice.below(len.max(1));
            let from = byte - byte % 64;
            let is_used = from + 64 <= len
                && file.read_at(&mut around, from).is_ok()
                && around.iter().any(|byte| *byte != 0);
            if is_used {
                return byte;
            }
        }
        0
    }

    fn flipped(&mut self) -> Result<(), Violation> {
        let opened = match open(&self.disk, &self.setup, 1) {
            Ok(opened) => opened,
            Err(OpenError::Damaged { .. } | OpenError::Format { .. } | OpenError::Disk(_)) => {
                self.count("bits noticed at the opening");
                return Ok(());
            }
            Err(error) => return Err(Violation::new("I6", format!("a wrong reason: {error}"))),
        };
        let names: Vec<String> = self.oracle.names().map(str::to_owned).collect();
        for name in names {
            match crate::oracle::look(&opened.log, &name) {
                Err(LogError::Damaged { .. } | LogError::Disk(_)) => {
                    self.count("bits noticed by a reader");
                }
                Err(error) => {
                    return Err(Violation::new("I6", format!("{name}: a wrong reason: {error}")));
                }
                Ok(seen) => self.oracle.clone().shown(&name, seen.as_ref(), self.setup.now_ms())?,
            }
        }
        Ok(())
    }
}

fn names(disk: &SimDisk, dir: &str) -> Vec<String> {
    let entries = disk.list(dir).unwrap_or_default();
    entries.into_iter().filter(|entry| !entry.is_dir).map(|entry| entry.name).collect()
}

/// Names of files but for the directory's label.
fn unlabelled(disk: &SimDisk, dir: &str) -> Vec<String> {
    let mut names = names(disk, dir);
    names.retain(|name| name != Label::NAME);
    names
}
