//! One life of a simulated disk, from its start or a crash to the next: what each call passes.

use std::collections::BTreeSet;
use std::fmt;

use super::SimOptions;
use super::content::Fate;
use super::faults::{Fault, OperationKind, Plans};
use super::hash;
use super::names::FileId;
use super::volume::{FULL, NO_FILES, Refusal, Volume};
use super::{CrashSide, DurableWrites, TraceMode};
use crate::random::SplitMix64;
use crate::{DiskError, DiskResult, ErrorKind};

const CRASHED: Refusal = (ErrorKind::Io, "the simulated machine has crashed");
const DEVICE_FAILED: Refusal = (ErrorKind::Io, "the simulated device failed");

/// A call on its way in.
pub(super) struct Call<'a> {
    pub(super) kind: OperationKind,
    pub(super) path: &'a str,
    pub(super) detail: Detail<'a>,
}

/// A call's arguments, for the trace.
pub(super) enum Detail<'a> {
    None,
    Target(&'a str),
    Length(u64),
    Range(u64, usize),
    Bytes(u64, &'a [u8]),
}

impl fmt::Display for Detail<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Target(path) => write!(to, "to {path} "),
            Self::Length(len) => write!(to, "{len} "),
            Self::Range(offset, len) => write!(to, "{offset}+{len} "),
            Self::Bytes(offset, bytes) => {
                write!(to, "{offset}+{} #{:016x} ", bytes.len(), hash::of(bytes))
            }
        }
    }
}

impl<'a> Call<'a> {
    pub(super) const fn new(kind: OperationKind, path: &'a str) -> Self {
        Self { kind, path, detail: Detail::None }
    }

    pub(super) fn error(&self, (kind, message): Refusal) -> DiskError {
        DiskError::new(self.kind.name(), self.path, kind, message)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    Crashed,
}

/// A disk's state behind all its handles.
#[derive(Clone)]
pub(super) struct State {
    pub(super) options: SimOptions,
    pub(super) random: SplitMix64,
    pub(super) volume: Volume,
    pub(super) plans: Plans,
    pub(super) trace: Vec<String>,
    /// Paths that are locked; the empty one is the root's.
    pub(super) locked: BTreeSet<String>,
    pub(super) operations: u64,
    crash_at: Option<(u64, CrashSide)>,
    life: Life,
}

impl State {
    pub(super) fn new(options: SimOptions) -> Self {
        Self {
            options,
            random: SplitMix64::new(options.seed),
            volume: Volume::new(options.capacity_bytes),
            plans: Plans::default(),
            trace: Vec::new(),
            locked: BTreeSet::new(),
            operations: 0,
            crash_at: None,
            life: Life::Running,
        }
    }

    /// The state of a machine started again on a volume.
    pub(super) fn restarted(&mut self, volume: Volume) -> Self {
        Self {
            options: self.options,
            random: SplitMix64::new(self.random.next()),
            volume,
            plans: self.plans.clone(),
            trace: self.trace.clone(),
            locked: BTreeSet::new(),
            operations: 0,
            crash_at: None,
            life: Life::Running,
        }
    }

    pub(super) fn crash_at(&mut self, nth: u64, side: CrashSide) {
        if nth == 0 {
            self.life = Life::Crashed;
        } else {
            self.crash_at = Some((self.operations + nth, side));
        }
    }

    pub(super) fn die(&mut self) {
        self.life = Life::Crashed;
    }

    pub(super) fn is_crashed(&self) -> bool {
        self.life == Life::Crashed
    }

    /// Passes a call through crash points, faults and trace to its effect.
    pub(super) fn run<T>(
        &mut self,
        call: &Call<'_>,
        effect: impl FnOnce(&mut Self, Option<Fault>) -> Result<T, Refusal>,
    ) -> DiskResult<T> {
        let result = self.pass(call, effect).map_err(|refusal| call.error(refusal));
        if self.options.trace == TraceMode::Kept {
            let outcome = match &result {
                Ok(_) => "ok".to_owned(),
                Err(error) => format!("{:?}: {}", error.kind, error.message),
            };
            let (number, name) = (self.operations, call.kind.name());
            self.trace.push(format!("{number} {name} {} {}-> {outcome}", call.path, call.detail));
        }
        result
    }

    fn pass<T>(
        &mut self,
        call: &Call<'_>,
        effect: impl FnOnce(&mut Self, Option<Fault>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        if self.life == Life::Crashed {
            return Err(CRASHED);
        }
        if call.kind.is_mutating() {
            self.operations += 1;
            if let Some((at, side)) = self.crash_at
                && at == self.operations
            {
                let after = match side {
                    CrashSide::Before => false,
                    CrashSide::After => true,
                    CrashSide::Seeded => self.random.one_in(2),
                };
                self.life = Life::Crashed;
                if after {
                    // Nobody is left to be told how it went.
                    drop(effect(self, None));
                }
                return Err(CRASHED);
            }
        }
        match self.plans.strike(call.kind, call.path, &mut self.random) {
            Some(Fault::Enospc) => Err(FULL),
            Some(Fault::Emfile) => Err(NO_FILES),
            Some(Fault::Eio) if !call.kind.is_write() => Err(DEVICE_FAILED),
            fault => effect(self, fault),
        }
    }

    /// Writes to a file, as a fault has it.
    pub(super) fn write(
        &mut self,
        file: FileId,
        (bytes, offset): (&[u8], u64),
        fault: Option<Fault>,
    ) -> Result<(), Refusal> {
        let operation = self.operations;
        match fault {
            None => self.volume.write(file, (bytes, offset), operation, Fate::Pending),
            Some(Fault::LostWrite) => {
                self.volume.write(file, (bytes, offset), operation, Fate::Lost)
            }
            Some(Fault::MisdirectedWrite { path, offset: elsewhere }) => {
                self.misdirect(file, (bytes, offset), &path, elsewhere)
            }
            Some(Fault::ShortWrite) => {
                let part = self.random.index_below(bytes.len().max(1));
                self.volume.write(file, (&bytes[..part], offset), operation, Fate::Pending)?;
                Err(FULL)
            }
            Some(_) => {
                let part = self.random.index_below(bytes.len() + 1);
                self.volume.write(file, (&bytes[..part], offset), operation, Fate::Pending)?;
                Err(DEVICE_FAILED)
            }
        }
    }

    /// Writes to a file and makes that write durable, as a fault has it. A crash in the middle
    /// leaves it a write like any other.
    pub(super) fn write_durable(
        &mut self,
        file: FileId,
        (bytes, offset): (&[u8], u64),
        fault: Option<Fault>,
    ) -> Result<(), Refusal> {
        if self.options.durable_writes == DurableWrites::Refused {
            return Err((ErrorKind::Unsupported, "no such call on the simulated machine"));
        }
        match fault {
            None => {
                self.write(file, (bytes, offset), None)?;
                if self.life == Life::Running {
                    self.volume.file(file).sync_range(offset, bytes.len());
                }
                Ok(())
            }
            Some(Fault::FailedBarrierDropsPages) => {
                self.volume.write(file, (bytes, offset), self.operations, Fate::Lost)?;
                Err(DEVICE_FAILED)
            }
            fault => self.write(file, (bytes, offset), fault),
        }
    }

    pub(super) fn sync_data(&mut self, file: FileId, fault: Option<&Fault>) -> Result<(), Refusal> {
        if fault.is_some() {
            self.volume.file(file).drop_pages();
            return Err(DEVICE_FAILED);
        }
        self.volume.file(file).sync();
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, path: &str, fault: Option<&Fault>) -> Result<(), Refusal> {
        if fault.is_some() {
            self.volume.drop_names(path);
            return Err(DEVICE_FAILED);
        }
        self.volume.sync_dir(path)
    }

    pub(super) fn sync_all(&mut self, path: &str, fault: Option<&Fault>) -> Result<(), Refusal> {
        if fault.is_some() {
            self.volume.drop_everything_unsynced(path);
            return Err(DEVICE_FAILED);
        }
        self.volume.sync_all(path)
    }

    /// Grows the file as the write would have, and puts the bytes somewhere else.
    fn misdirect(
        &mut self,
        file: FileId,
        (bytes, offset): (&[u8], u64),
        path: &str,
        elsewhere: u64,
    ) -> Result<(), Refusal> {
        let operation = self.operations;
        let len = u64::try_from(bytes.len()).expect("usize fits u64");
        if offset + len > self.volume.file(file).view.len() {
            self.volume.allocate(file, offset + len, operation)?;
        }
        let Ok(target) = self.volume.find(path) else { return Ok(()) };
        let room = self.volume.file(target).view.len().saturating_sub(elsewhere).min(len);
        let part = &bytes[..usize::try_from(room).expect("at most the bytes' length")];
        self.volume.write(target, (part, elsewhere), operation, Fate::Pending)
    }
}
