//! What a seed chooses before its first life: the store, the disk, and the trouble of each life.

use std::sync::Arc;
use std::time::Duration;

use highwater_disk::sim::{
    CrashMode, DirectIo, Fault, NameSurvival, OperationKind, PlannedFault, SimClock, SimDisk,
    SimOptions, SimRng, TraceMode, When,
};
use highwater_disk::{Access, Clock, Disk, Rng};
use highwater_log::error::OpenError;
use highwater_log::options::{
    Durability, FileBarrier, Options, WriteBarrier, WritePath, WritePathChoice,
};
use highwater_log::{Driver, Log, Machine};

use super::Keep;
use crate::dice::Dice;
use crate::meddle::{Ambush, Meddler, Pretence};
use crate::oracle::Acked;
use crate::planted::Planted;

/// A store and its disk.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) options: Options,
    pub(crate) disk: SimOptions,
    pub(crate) pretence: Pretence,
    pub(crate) clock: SimClock,
    pub(crate) devices: Devices,
    pub(crate) taste: Taste,
}

/// What is asked for more often than other things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taste {
    /// Nothing.
    Plain,
    /// Forks, and the ends of forks and sources.
    Families,
    /// Streams that end by themselves, and their use.
    Times,
    /// Many bytes of few streams.
    Bulk,
}

/// Where the home's directories are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Devices {
    /// With everything else.
    One,
    /// On a device each.
    OnePerStreamLane,
}

/// An open log, and the disk that watches it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) log: Arc<Log>,
    pub(crate) meddler: Meddler,
}

impl Setup {
    /// Chooses one.
    pub(crate) fn draw(dice: &mut Dice, planted: Option<Planted>, keep: Keep) -> Self {
        let segment_bytes = dice.pick(&[64 << 10, 64 << 10, 96 << 10]);
        let lanes = dice.pick(&[1, 1, 2, 3]);
        let options = Options {
            lanes,
            max_image_bytes: u64::from(lanes) * segment_bytes * dice.pick(&[2, 3, 64]),
            stream_lanes: dice.pick(&[1, 1, 2, 3]),
            segment_bytes,
            max_payload_bytes: 8 << 10,
            frame_bytes: dice.pick(&[4 << 10, 8 << 10, 32 << 10]),
            max_staged_bytes: dice.pick(&[20 << 10, 64 << 10, 256 << 10]),
            checkpoint_wal_bytes: segment_bytes,
            max_wal_bytes: segment_bytes * dice.pick(&[3, 4, 8]),
            max_producers: dice.pick(&[2, 3, 128]),
            partition_streams: dice.pick(&[2, 3, 2048]),
            max_streams: u64::from(lanes) * dice.pick(&[3, 100]),
            max_open_files: dice.pick(&[1, 2, 4]),
            file_barrier: dice.pick(&[FileBarrier::Syncfs, FileBarrier::Files]),
            durability: match dice.below(10) {
                0 => Durability::Relaxed { within: Duration::from_millis(5) },
                1 | 2 => Durability::Memory,
                _ => Durability::Wal,
            },
            write_path: write_path(dice),
            ..Options::default()
        };
        let disk = SimOptions {
            capacity_bytes: dice.pick(&[1 << 30, 1 << 30, 1 << 30, 900 << 10, 1600 << 10]),
            crash: dice.pick(&[
                CrashMode::Random,
                CrashMode::Random,
                CrashMode::Random,
                CrashMode::LoseAllUnsynced,
                CrashMode::KeepAll,
            ]),
            names: dice.pick(&[NameSurvival::Subset, NameSurvival::Prefix]),
            direct: dice.pick(&[DirectIo::Supported, DirectIo::Supported, DirectIo::Refused]),
            trace: match keep {
                Keep::Counts => TraceMode::Off,
                Keep::Trace => TraceMode::Kept,
            },
            ..SimOptions::seeded(dice.bits())
        };
        let devices = dice.pick(&[Devices::One, Devices::One, Devices::OnePerStreamLane]);
        let taste =
            dice.pick(&[Taste::Plain, Taste::Plain, Taste::Families, Taste::Times, Taste::Bulk]);
        let mut setup = Self { devices, taste, ..Self::with(options, disk, planted) };
        if let Some(planted) = planted {
            setup.suit(planted);
        }
        setup
    }

    /// Chooses what a bug needs to show at all, or often.
    fn suit(&mut self, planted: Planted) {
        let options = &mut self.options;
        match planted {
            Planted::ForkUnsynced | Planted::DeadTooEarly => {
                options.durability = Durability::Memory;
            }
            _ => {}
        }
        match planted {
            Planted::ForkUnsynced | Planted::ReleasedEarly if options.lanes == 1 => {
                options.lanes = 2;
                options.max_image_bytes *= 2;
            }
            _ => {}
        }
        match planted {
            Planted::UsesForgotten | Planted::ExpiryBeginsAnew | Planted::WatchersForgotten => {
                self.taste = Taste::Times;
            }
            Planted::HomeTailLost => self.taste = Taste::Bulk,
            Planted::ForkUnsynced
            | Planted::ReleasedEarly
            | Planted::UnreadForgotten
            | Planted::SourceForgotten
            | Planted::DeadTooEarly
            | Planted::HiddenReturns => self.taste = Taste::Families,
            _ => {}
        }
    }

    /// Puts one together, with a planted bug if asked.
    pub(crate) fn with(mut options: Options, disk: SimOptions, planted: Option<Planted>) -> Self {
        let pretence = planted.map_or(Pretence::Nothing, Planted::pretence);
        options.planted = planted.and_then(Planted::in_the_log);
        let (clock, devices) = (SimClock::new(), Devices::One);
        Self { options, disk, pretence, clock, devices, taste: Taste::Plain }
    }

    /// Makes its disk, empty.
    pub(crate) fn new_disk(&self) -> SimDisk {
        let disk = SimDisk::new(self.disk);
        if self.devices == Devices::OnePerStreamLane {
            let made = disk.create_dir("streams").and_then(|()| {
                (0..self.options.stream_lanes).try_for_each(|lane| {
                    disk.create_dir(&format!("streams/{lane}"))?;
                    disk.sync_dir("streams")
                })?;
                disk.sync_dir("")
            });
            made.expect("nothing fails yet");
            (0..self.options.stream_lanes).for_each(|lane| disk.mount(&format!("streams/{lane}")));
        }
        disk
    }

    /// The same, with a clock of its own that shows the same time.
    pub(crate) fn again(&self) -> Self {
        let clock = SimClock::new();
        clock.advance(self.clock.monotonic());
        clock.set_wall(self.clock.wall());
        Self { clock, ..self.clone() }
    }

    /// The wall clock, ms since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.wall().as_millis()).expect("it is not that late")
    }

    /// What such a log says by an acknowledgement.
    pub(crate) fn acked(&self) -> Acked {
        match self.options.durability {
            Durability::Wal => Acked::Durable,
            Durability::Relaxed { .. } => Acked::Staged,
            Durability::Memory => Acked::Written,
        }
    }

    pub(crate) fn max_producers(&self) -> usize {
        usize::try_from(self.options.max_producers).expect("u32 fits usize")
    }
}

/// How frames are written; chosen by a measurement now and then, of a clock that stands still.
fn write_path(dice: &mut Dice) -> WritePathChoice {
    let access = dice.pick(&[Access::Direct, Access::Direct, Access::Buffered]);
    let barrier = dice.pick(&[WriteBarrier::Fdatasync, WriteBarrier::Dsync]);
    let fixed = WritePathChoice::Fixed(WritePath { access, barrier });
    dice.pick(&[fixed, fixed, fixed, fixed, fixed, WritePathChoice::Measured])
}

/// Opens the log of a disk.
pub(crate) fn open(disk: &SimDisk, setup: &Setup, seed: u64) -> Result<Opened, OpenError> {
    let meddler = Meddler::new(disk.clone(), setup.pretence);
    let machine = Machine {
        disk: Arc::new(meddler.clone()),
        clock: Arc::new(setup.clock.clone()),
        rng: Box::new(SimRng::new(seed)) as Box<dyn Rng>,
    };
    let log = Log::open(machine, &setup.options, Driver::Caller)?;
    Ok(Opened { log: Arc::new(log), meddler })
}

/// What goes wrong in a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing.
    None,
    /// The machine crashes at the n-th call.
    Crash(u64),
    /// A call fails.
    Fault(Planned),
    /// A call fails, and the machine crashes some calls later.
    Both(Planned, u64),
    /// The machine crashes near a call that is rare.
    Ambush(Ambush),
}

/// Calls at which much is decided: what moves home, what lists it, and what is given back.
const DELICATE: [(OperationKind, &str); 9] = [
    (OperationKind::Remove, "streams/"),
    (OperationKind::Remove, "streams/"),
    (OperationKind::SyncAll, "streams/"),
    (OperationKind::SyncData, "streams/"),
    (OperationKind::WriteAt, "super"),
    (OperationKind::Create, "manifest/"),
    (OperationKind::SyncDir, "tables"),
    (OperationKind::Create, "wal/"),
    (OperationKind::SyncData, "wal/"),
];

/// A fault at the n-th call of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planned {
    stage: Stage,
    kind: OperationKind,
    path: &'static str,
    nth: u64,
    what: Failing,
}

/// When in a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// During the opening.
    Opening,
    /// After it.
    Work,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failing {
    Eio,
    Full,
    Short,
    DropsPages,
}

impl Trouble {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        let nth = 1 + dice.below(150);
        match dice.below(10) {
            0..=1 => Self::None,
            2..=4 => Self::Crash(nth),
            5..=6 => {
                let (kind, path) = dice.pick(&DELICATE);
                let (nth, later) = (1 + dice.below(6), dice.below(3));
                Self::Ambush(Ambush { kind, path, nth, later })
            }
            7..=8 => Self::Fault(Planned::draw(dice)),
            _ => Self::Both(Planned::draw(dice), nth),
        }
    }

    /// Whether names may be shown that will never be durable: a file system whose directories could
    /// not be written takes nothing more until the machine is started again.
    pub(super) fn drops_names(self) -> bool {
        let (Self::Fault(planned) | Self::Both(planned, _)) = self else { return false };
        let in_file = [OperationKind::SyncData, OperationKind::WriteDurableAt];
        planned.what == Failing::DropsPages && !in_file.contains(&planned.kind)
    }

    pub(super) fn is_fault(self) -> bool {
        matches!(self, Self::Fault(_) | Self::Both(..))
    }

    /// Plans what goes wrong in this stage; a crash is planned at the opening, and may come later.
    pub(super) fn plan(self, disk: &SimDisk, stage: Stage) {
        if let (Self::Crash(nth) | Self::Both(_, nth), Stage::Opening) = (self, stage) {
            disk.crash_after_operations(nth);
        }
        if let Self::Fault(planned) | Self::Both(planned, _) = self
            && planned.stage == stage
        {
            let fault = match planned.what {
                Failing::Eio => Fault::Eio,
                Failing::Full => Fault::Enospc,
                Failing::Short => Fault::ShortWrite,
                Failing::DropsPages => Fault::FailedBarrierDropsPages,
            };
            let (when, path_prefix) = (When::Nth(planned.nth), planned.path.to_owned());
            disk.plan(PlannedFault { kind: planned.kind, path_prefix, when, fault });
        }
    }
}

impl Planned {
    fn draw(dice: &mut Dice) -> Self {
        use OperationKind as Kind;
        let kind = dice.pick(&[
            Kind::Create,
            Kind::Open,
            Kind::CreateDir,
            Kind::List,
            Kind::Rename,
            Kind::Remove,
            Kind::SyncDir,
            Kind::SyncAll,
            Kind::WriteAt,
            Kind::WriteAt,
            Kind::WriteDurableAt,
            Kind::WriteDurableAt,
            Kind::ReadAt,
            Kind::SyncData,
            Kind::SyncData,
            Kind::Allocate,
            Kind::Len,
        ]);
        let what = match kind {
            Kind::SyncData | Kind::SyncDir | Kind::SyncAll => {
                dice.pick(&[Failing::Eio, Failing::DropsPages, Failing::DropsPages, Failing::Full])
            }
            Kind::WriteAt => dice.pick(&[Failing::Eio, Failing::Full, Failing::Short]),
            Kind::WriteDurableAt => {
                dice.pick(&[Failing::Eio, Failing::Full, Failing::Short, Failing::DropsPages])
            }
            kind if kind.is_mutating() => dice.pick(&[Failing::Eio, Failing::Full]),
            _ => Failing::Eio,
        };
        let stage = dice.pick(&[Stage::Opening, Stage::Work, Stage::Work]);
        let path = match kind {
            Kind::SyncData | Kind::WriteAt | Kind::Create => {
                dice.pick(&["", "", "streams/", "tables/", "wal/"])
            }
            _ => "",
        };
        // Of these there are few in a life.
        let is_rare = matches!(kind, Kind::SyncDir | Kind::SyncAll | Kind::Rename | Kind::Remove);
        let nth = 1 + dice.below(if is_rare || !path.is_empty() { 6 } else { 30 });
        Self { stage, kind, path, nth, what }
    }
}
