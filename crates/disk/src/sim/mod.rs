//! A simulated disk that can crash and lie, virtual time, seeded randomness.
//!
//! Nothing here depends on real time, threads or addresses: the same calls on a disk of the same
//! seed give the same answers, the same trace and the same survivors of a crash.
//!
//! The process sees all it wrote, through either access. The device is only sure to hold what a
//! barrier covered; the rest waits as a list of *changes*: one per sector written, per change of a
//! length, per change of a name. A crash keeps some of them, in the order of the calls, so that a
//! sector ends as its old version or as any later one. A kept sector beyond the length that
//! survives is gone, and a kept length without its sectors reads as zeros. A name whose directory
//! is gone is gone. A kept change of a name that builds upon one that was dropped stands for
//! itself: a rename implies that its file was created, a removal of a file not there is nothing.
//! A sync of a directory covers, with a change in it, the earlier ones that change builds upon.
//!
//! All is on one device unless directories are mounted on others; the lock is not a file.
//!
//! Walk: `disk` (the handle and its levers), `file`, `state` (crash points, faults, trace),
//! `volume` (what is stored), `content` and `names` (what is durable, what is not), `survival`
//! (what a crash keeps), `faults`, `clock`.

mod clock;
mod content;
mod disk;
mod faults;
mod file;
mod hash;
mod names;
mod state;
mod survival;
mod volume;

pub use clock::{SimClock, SimRng};
pub use disk::SimDisk;
pub use faults::{Fault, OperationKind, PlannedFault, When};
pub use survival::{CrashMode, NameSurvival};

/// How a simulated disk behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimOptions {
    /// Where all its randomness comes from.
    pub seed: u64,
    /// Space for files, bytes, in blocks of 4 KiB.
    pub capacity_bytes: u64,
    /// What a crash keeps.
    pub crash: CrashMode,
    /// What a random crash keeps of names.
    pub names: NameSurvival,
    /// Whether direct access is had for the asking.
    pub direct: DirectIo,
    /// Whether there are writes that are durable by themselves.
    pub durable_writes: DurableWrites,
    /// Whether calls are noted.
    pub trace: TraceMode,
}

impl SimOptions {
    /// The defaults with a seed: 1 GiB, random crashes, any subset of names, direct access, no
    /// trace.
    pub const fn seeded(seed: u64) -> Self {
        Self {
            seed,
            capacity_bytes: 1 << 30,
            crash: CrashMode::Random,
            names: NameSurvival::Subset,
            direct: DirectIo::Supported,
            durable_writes: DurableWrites::Supported,
            trace: TraceMode::Off,
        }
    }
}

/// Whether a simulated disk takes direct access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectIo {
    /// It does.
    Supported,
    /// It falls back to buffered access.
    Refused,
}

/// Whether a simulated disk has writes that are durable by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurableWrites {
    /// It has.
    Supported,
    /// It refuses them, as an old kernel does.
    Refused,
}

/// Whether a simulated disk notes its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceMode {
    /// It does not.
    Off,
    /// It keeps a line per call.
    Kept,
}

/// On which side of a call's effect the machine crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashSide {
    /// Before it: the call did nothing.
    Before,
    /// After it: the call did all, but nobody was told. Of a durable write the bytes are then
    /// written and not durable: the machine was not sure to wait for the barrier.
    After,
    /// As the seed has it.
    Seeded,
}
