//! How frames reach the disk and become durable. Every path keeps the same promise; they differ in
//! what they cost on a device.
//!
//! A path comes from a setting, from a profile that was measured before (`profile`), or from a
//! short measurement when a lane is opened (`measure`, judged by `choose`). Segments are
//! initialised files on every path.

mod choose;
mod measure;
mod profile;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use highwater_disk::{Access, DiskResult};

use crate::ids::LaneId;
use crate::lane::Around;
use crate::lane::segment::Segment;
use crate::options::{Durability, Options};

pub use choose::Gain;
pub(crate) use measure::NAME as SCRATCH;
use measure::{Scratch, measure};
pub use profile::{Place, ProfileError, of_profile};

/// A way to write frames and make them durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WritePath {
    /// Past the page cache or through it.
    pub access: Access,
    /// What makes a write durable.
    pub barrier: WriteBarrier,
}

/// What makes a write durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteBarrier {
    /// `fdatasync` after the write.
    Fdatasync,
    /// The write is durable by itself (`RWF_DSYNC`): on a device with forced unit access no flush
    /// of its whole cache is needed.
    Dsync,
}

impl WritePath {
    /// What a log uses where nothing else is known.
    pub const DEFAULT: Self = Self { access: Access::Direct, barrier: WriteBarrier::Fdatasync };
}

impl fmt::Display for WritePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match self.access {
            Access::Direct => "direct",
            Access::Buffered => "buffered",
        };
        let barrier = match self.barrier {
            WriteBarrier::Fdatasync => "fdatasync",
            WriteBarrier::Dsync => "rwf_dsync",
        };
        write!(f, "{access} {barrier}")
    }
}

/// Who chooses a lane's write path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WritePathChoice {
    /// Whoever opens the log. Direct access is given up where the file system refuses it; nothing
    /// else is.
    Fixed(WritePath),
    /// A measurement at the opening: some tens of commits on a file of its own, a few MiB in all.
    Measured,
}

/// The write path of a lane, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// The path.
    pub path: WritePath,
    /// Why.
    pub reason: Reason,
}

impl Default for Chosen {
    fn default() -> Self {
        Self { path: WritePath::DEFAULT, reason: Reason::Set }
    }
}

/// Chooses how a lane writes from now on; its log has been judged.
///
/// # Errors
/// The disk's.
pub(crate) fn settle(
    around: &Around,
    options: &Options,
    lane: LaneId,
    segments: &VecDeque<Segment>,
) -> DiskResult<Chosen> {
    let scratch = Scratch::of(lane);
    scratch.remove(&*around.disk)?;
    let is_refused = segments.iter().any(|segment| segment.file.access() == Access::Buffered);
    let access = if is_refused { Access::Buffered } else { Access::Direct };
    match options.write_path {
        WritePathChoice::Fixed(path) if path.access == Access::Direct && is_refused => {
            Ok(Chosen { path: WritePath { access, ..path }, reason: Reason::DirectRefused })
        }
        WritePathChoice::Fixed(path) => Ok(Chosen { path, reason: Reason::Set }),
        // Without barriers there is nothing to choose between.
        WritePathChoice::Measured if options.durability == Durability::Memory => {
            Ok(Chosen { path: WritePath { access, ..WritePath::DEFAULT }, reason: Reason::Set })
        }
        WritePathChoice::Measured => {
            let reason = measure(&*around.disk, &*around.clock, &scratch)?;
            let barrier = match reason {
                Reason::DsyncFaster(_) => WriteBarrier::Dsync,
                _ => WriteBarrier::Fdatasync,
            };
            Ok(Chosen { path: WritePath { access, barrier }, reason })
        }
    }
}

/// Why a write path was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It was set.
    Set,
    /// It was set, but the file system refuses direct access.
    DirectRefused,
    /// Durable writes were clearly faster than writes with `fdatasync`.
    DsyncFaster(Gain),
    /// Durable writes were not clearly faster.
    DsyncNotFaster(Gain),
    /// There are no durable writes here.
    NoDsync,
    /// The disk has no room for the measurement.
    NoRoom,
    /// Too few commits fitted into the time that the measurement may take.
    TooSlowToTell,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |duration: Duration| duration.as_secs_f64() * 1e6;
        let compare = |gain: &Gain, verdict: &str| {
            format!(
                "rwf_dsync {verdict}: a block takes {:.1} us with it and {:.1} us with fdatasync \
                 (medians of {})",
                us(gain.dsync),
                us(gain.fdatasync),
                gain.pairs
            )
        };
        match self {
            Self::Set => f.write_str("set"),
            Self::DirectRefused => f.write_str("set, but the file system refuses direct access"),
            Self::DsyncFaster(gain) => f.write_str(&compare(gain, "is faster")),
            Self::DsyncNotFaster(gain) => f.write_str(&compare(gain, "is not clearly faster")),
            Self::NoDsync => f.write_str("there is no rwf_dsync here"),
            Self::NoRoom => f.write_str("the disk has no room to measure"),
            Self::TooSlowToTell => f.write_str("the disk is too slow to tell paths apart"),
        }
    }
}
