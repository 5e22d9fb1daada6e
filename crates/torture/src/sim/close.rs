//! An orderly end: after it a power cut takes nothing, something vouches for the last commit of
//! each lane, and damage to that commit is an error (I6).

use std::ops::Range;

use highwater_disk::sim::SimDisk;
use highwater_disk::{ErrorKind, ReadOnly};
use highwater_log::check::{CheckReport, Seen, Verdict, check};
use highwater_log::error::OpenError;
use highwater_log::ids::LaneId;

use super::life::Life;
use super::setup::open;
use crate::verdict::Violation;

/// Where the last commit of a lane stands that holds anything of a stream.
#[derive(Debug)]
struct LastCommit {
    lane: LaneId,
    file: String,
    /// Bytes of its last frame.
    range: Range<u64>,
}

impl Life<'_> {
    /// Chooses how it ends.
    pub(super) fn ends_in_order(&mut self) -> bool {
        self.run.dice.one_in(3)
    }

    /// Closes the log; in a copy of the disk after a power cut, damages the last commit.
    pub(super) fn close(&mut self) -> Result<(), Violation> {
        let marks = self.run.oracle.marks();
        let closed = self.opened.log.close();
        self.run.note(|_| format!("close: {closed:?}"));
        if self.may_fail() {
            return Ok(());
        }
        if let Err(error) = closed {
            let what = format!("nothing failed, and closing says {error}");
            return Err(Violation::new("I1", what));
        }
        self.run.count("orderly ends");
        // All is behind a barrier, however the log commits.
        self.run.oracle.checkpointed(&marks);
        let disk = self.run.disk.crash();
        disk.clear_faults();
        let (report, mut commits) = last_commits(&disk, self.run.setup.options.segment_bytes)?;
        for lane in report.lanes.iter().filter(|lane| !lane.is_vouched) {
            if !self.is_tight(lane.lane) {
                let what = format!("nothing vouches for the last commit of lane {}", lane.lane);
                return Err(Violation::new("I6", what));
            }
            self.run.count("orderly ends without room for a witness");
            commits.retain(|commit| commit.lane != lane.lane);
        }
        if commits.is_empty() {
            return Ok(());
        }
        let commit = &commits[self.run.dice.index(commits.len())];
        self.damage(&disk, commit)
    }

    /// Flips a bit of a commit that something vouches for.
    fn damage(&mut self, disk: &SimDisk, commit: &LastCommit) -> Result<(), Violation> {
        let Range { start, end } = commit.range;
        let byte = start + self.run.dice.below(end - start);
        let bit = u8::try_from(self.run.dice.below(8)).expect("below 8");
        disk.flip_bit(&commit.file, byte, bit).expect("the check has read the file");
        self.run.count("last commits damaged");
        let place = format!("bit {bit} of byte {byte} of {}", commit.file);
        let (checked, _) = last_commits(disk, self.run.setup.options.segment_bytes)?;
        match open(disk, &self.run.setup, 1) {
            Err(OpenError::Damaged { .. }) if checked.verdict() == Verdict::Damaged => Ok(()),
            Err(OpenError::Damaged { .. }) => {
                Err(Violation::new("I6", format!("{place}: the check finds no damage")))
            }
            // Before it gets so far: it makes what directories are missing.
            Err(OpenError::Disk(error)) if error.kind == ErrorKind::Full => Ok(()),
            Err(error) => Err(Violation::new("I6", format!("{place}: a wrong reason: {error}"))),
            Ok(_) => {
                let what = format!("{place}: the last commit is damaged, and the log opens");
                Err(Violation::new("I6", what))
            }
        }
    }

    /// Whether a lane has no room for the witness, if that needs another segment.
    fn is_tight(&self, lane: LaneId) -> bool {
        let (options, usage) = (&self.run.setup.options, self.opened.log.usage());
        let images: u64 = usage.iter().map(|lane| lane.image_bytes).sum();
        let segment = options.segment_bytes;
        usage[usize::from(lane.0)].wal_bytes + 2 * segment > options.max_wal_bytes
            || images + segment > options.max_image_bytes
            || self.opened.meddler.was_full()
    }
}

/// Checks a disk, and finds the last commit of each lane that replay has to read.
fn last_commits(
    disk: &SimDisk,
    segment_bytes: u64,
) -> Result<(CheckReport, Vec<LastCommit>), Violation> {
    let mut commits: Vec<LastCommit> = Vec::new();
    let (mut at, mut frame) = ((LaneId(0), String::new()), 0..0);
    let mut see = |seen: &Seen<'_>| match seen {
        Seen::Segment { lane, file, .. } => at = (*lane, (*file).to_owned()),
        Seen::Frame(header) => {
            let start = header.lsn.0 % segment_bytes;
            frame = start..start + header.frame_len();
        }
        Seen::Record { record, .. } if record.header.kind.is_of_no_stream() => {}
        Seen::Record { .. } => {
            let (lane, file) = at.clone();
            commits.retain(|commit| commit.lane != lane);
            commits.push(LastCommit { lane, file, range: frame.clone() });
        }
    };
    let copy = ReadOnly::over(std::sync::Arc::new(disk.fork()));
    let report = check(&copy, &mut see)
        .map_err(|error| Violation::new("I6", format!("the check says {error}")))?;
    Ok((report, commits))
}
