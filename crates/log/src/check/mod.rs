//! Reads a store that nobody has open, and says whether it is as it was written.
//!
//! It goes the way that opening goes, with the same code for scanning, replaying and reading a
//! home, but never stops at the first fault and never writes: it takes a [`ReadOnly`] disk. It
//! holds the lock meanwhile, and refuses a store that is open: what is written while it is
//! read looks damaged.
//!
//! Walk: `root` reads superblock, manifest and tables; `segments` looks at a lane's files; `walk`
//! reads its frames, past damage too; `ledger` holds records against each other and the table;
//! `streams` checks the home; `leftovers` lists files of no use; `report` is what comes out.
//!
//! What it cannot know: whether the very last commit was acknowledged, when nothing behind it says
//! so. Its damage reads as a torn tail. What no structure uses is not looked at: spare segments, a
//! segment behind its last frame, a home's file behind what is absorbed, sections that count no
//! more.

mod ledger;
mod leftovers;
mod report;
mod root;
mod segments;
mod streams;
mod walk;

use highwater_disk::{Disk, DiskError, ErrorKind, ReadOnly};

use crate::format::{FrameHeader, RecordRef};
use crate::ids::{LaneId, Lsn, SegmentNo};
use crate::lane::staging::Identity;
use crate::options::Options;
pub use report::{CheckReport, Damage, LaneReport, Leftover, Reach, StoreRoot, TornTail, Verdict};

/// Why a store could not be checked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// No superblock, and no segments either.
    #[error("no store here: there is no file `super`, and no segment; name a store's directory")]
    NoStore,
    /// A running log holds the lock.
    #[error(
        "a running log has this store open, and what it writes meanwhile would look damaged: stop \
         it, or check a snapshot or a copy made while it is stopped"
    )]
    Locked,
    /// The disk failed in a way that says nothing about the store's bytes.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Something the check passes by, in the order of the log.
#[derive(Debug)]
pub enum Seen<'a> {
    /// A segment's file.
    Segment {
        /// The lane.
        lane: LaneId,
        /// Which part of its log.
        number: SegmentNo,
        /// The file.
        file: &'a str,
    },
    /// A good frame.
    Frame(&'a FrameHeader),
    /// One of its records.
    Record {
        /// Where it begins.
        at: Lsn,
        /// The record.
        record: &'a RecordRef<'a>,
        /// Name of the stream, where the record carries it.
        name: Option<&'a str>,
    },
}

/// Checks a store; hands what it passes by to `see`.
///
/// # Errors
/// [`CheckError`] when there is nothing to check, or it cannot be read at all. A store that is not
/// as it should be is an answer, not an error.
pub fn check(disk: &ReadOnly, see: &mut dyn FnMut(&Seen<'_>)) -> Result<CheckReport, CheckError> {
    let _lock = disk.lock("").map_err(|error| match error.kind {
        ErrorKind::Locked => CheckError::Locked,
        _ => error.into(),
    })?;
    let mut report = CheckReport::default();
    let Some(root) = root::read(disk, &mut report)? else { return Ok(report) };
    let _locks = root::lock(disk, &root.block)?;
    let options = Options::default();
    let mut alive = streams::Alive::default();
    for lane in (0..root.block.lanes).map(LaneId) {
        let identity = Identity {
            store: root.block.store_id,
            lane,
            segment_bytes: root.block.segment_bytes,
            frame_bytes: options.frame_bytes,
        };
        let known = root::lane_table(disk, &root, lane, &mut report)?;
        let segments = segments::survey(disk, identity, known.from(), &mut report)?;
        let walked =
            walk::walk(walk::Lane { identity, known, segments, see }, &options, &mut report)?;
        streams::check(disk, &root.block, walked, (&mut alive, &mut report))?;
    }
    alive.check_forks(&mut report);
    leftovers::list(disk, &root, &alive, &mut report)?;
    Ok(report)
}

/// Whether a failed read says that the medium has lost the bytes.
fn is_loss(error: &DiskError) -> bool {
    matches!(error.kind, ErrorKind::Io | ErrorKind::EndOfFile | ErrorKind::NotFound)
}
