//! Settings of a store, from its seed: small segments and busy checkpoints, so that everything that
//! a large store does in a day happens in a moment.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use highwater_disk::Access;
use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
use highwater_log::error::OpenError;
use highwater_log::options::{
    Durability, FileBarrier, Options, WriteBarrier, WritePath, WritePathChoice,
};
use highwater_log::{Driver, Log, Machine};
use serde::{Deserialize, Serialize};

use super::lines::Reporter;
use super::witness::Witness;
use crate::dice::Dice;
use crate::meddle::{Meddler, Pretence};
use crate::planted::Planted;

/// What ends the lives of a store, and so what can be asked of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// The process is killed: what the kernel has survives.
    Kill,
    /// The power is cut.
    Power,
    /// Calls of the system fail.
    Calls,
    /// The disk is full.
    Full,
    /// The process is killed, and it is a server.
    Serve,
}

impl Kind {
    /// Whether spare streams are deleted when the log is full.
    pub(crate) const fn drops_spares(self) -> bool {
        matches!(self, Self::Full | Self::Calls)
    }
}

/// A store: all else follows from this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Nature {
    /// What ends its lives.
    pub(crate) kind: Kind,
    /// Of which its settings and all steps follow.
    pub(crate) seed: u64,
    /// A bug that has to be noticed.
    pub(crate) planted: Option<Planted>,
}

/// Settings of a store.
pub(crate) fn options(nature: Nature) -> Options {
    let Nature { kind, seed, planted } = nature;
    let mut dice = Dice::new(seed ^ 0x5E77_1265);
    let durability = match (kind, dice.below(8)) {
        (Kind::Kill | Kind::Serve, 0) => Durability::Memory,
        (Kind::Kill | Kind::Power | Kind::Serve, 1 | 2) => {
            Durability::Relaxed { within: Duration::from_millis(dice.pick(&[2, 10, 40])) }
        }
        _ => Durability::Wal,
    };
    let is_relaxed = matches!(durability, Durability::Relaxed { .. });
    let least_bytes = dice.pick(&[64 << 10, 64 << 10, 128 << 10, 256 << 10]);
    // A server's frames have 1 MiB at most.
    let segment_bytes = if kind == Kind::Serve { 2 << 20 } else { least_bytes };
    Options {
        // Acknowledged before it is durable, a worker's row of steps is one row in one lane only.
        lanes: if is_relaxed { 1 } else { dice.pick(&[1, 2, 3]) },
        stream_lanes: dice.pick(&[1, 1, 3]),
        segment_bytes,
        max_payload_bytes: 12 << 10,
        frame_bytes: dice.pick(&[4 << 10, 16 << 10, 32 << 10]),
        max_staged_bytes: dice.pick(&[32 << 10, 256 << 10]),
        checkpoint_wal_bytes: segment_bytes * dice.pick(&[1, 2, 4]),
        max_wal_bytes: segment_bytes * dice.pick(&[4, 8, 32]),
        checkpoint_interval: Duration::from_millis(dice.pick(&[15, 100, 60_000])),
        partition_streams: dice.pick(&[2, 3, 2048]),
        max_open_files: dice.pick(&[1, 2, 32]),
        file_barrier: dice.pick(&[FileBarrier::Syncfs, FileBarrier::Syncfs, FileBarrier::Files]),
        durability,
        write_path: write_path(&mut dice),
        planted: planted.and_then(Planted::in_the_log),
        ..Options::default()
    }
}

/// How frames are written; chosen by a measurement now and then.
fn write_path(dice: &mut Dice) -> WritePathChoice {
    let access = dice.pick(&[Access::Direct, Access::Direct, Access::Buffered]);
    let barrier =
        dice.pick(&[WriteBarrier::Fdatasync, WriteBarrier::Fdatasync, WriteBarrier::Dsync]);
    let fixed = WritePathChoice::Fixed(WritePath { access, barrier });
    if dice.one_in(8) { WritePathChoice::Measured } else { fixed }
}

/// Who opens a store.
#[derive(Debug, Clone)]
pub(super) enum Opener {
    /// The process under torture, which reports what goes wrong.
    Child(Reporter),
    /// The judge, who does only what it must.
    Judge,
}

/// Opens a store.
pub(super) fn open(dir: &Path, nature: Nature, opener: Opener) -> Result<Log, OpenError> {
    let disk = RealDisk::open(dir)?;
    let (disk, driver): (Arc<dyn highwater_disk::Disk>, _) = match opener {
        Opener::Judge => (Arc::new(disk), Driver::Caller),
        Opener::Child(reporter) => {
            let pretence = nature.planted.map_or(Pretence::Nothing, Planted::pretence);
            let meddler = Meddler::new(disk, pretence);
            (Arc::new(Witness::new(meddler, reporter)), Driver::Threads)
        }
    };
    let machine =
        Machine { disk, clock: Arc::new(SystemClock::new()), rng: Box::new(SystemRng::new()) };
    Log::open(machine, &options(nature), driver)
}

/// Whether a store was not opened for lack of space.
pub(super) fn is_full(error: &OpenError) -> bool {
    match error {
        OpenError::Disk(error) => error.kind == highwater_disk::ErrorKind::Full,
        // The start of an epoch is told in words only.
        OpenError::Settings(why) => why.contains(super::NO_SPACE),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_gives_settings_that_can_be_meant() {
        for seed in 0..300 {
            for kind in [Kind::Kill, Kind::Power, Kind::Calls, Kind::Full, Kind::Serve] {
                let options = options(Nature { kind, seed, planted: None });
                assert_eq!(options.check(), Ok(()), "{kind:?} {seed}");
                let is_wal = options.durability == Durability::Wal;
                assert!(is_wal || matches!(kind, Kind::Kill | Kind::Power | Kind::Serve));
            }
        }
    }
}
