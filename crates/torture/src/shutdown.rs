//! Real file systems that lose power: what was acknowledged is there after they are mounted again.
//!
//! A process (see [`crate::real`]) works on a store in a file system in an image. The image is a
//! file of another file system, ext4, whose blocks are all written: a device with a volatile cache
//! of its own. At a random moment one of two things happens, the seed says which:
//!
//! - **The file system is shut down** by its own ioctl, without writing out its journal. What it
//!   had not given to its device is lost; what it had is there. ext4 and XFS offer it; btrfs does
//!   not before Linux 6.19.
//! - **The device loses power**: the file system *below* is shut down. What the upper one had
//!   written is lost too, as far as it had not asked for a flush. Before that, a random part of
//!   the image's pages is written out, each page whole: so any subset of what was written since
//!   the last flush survives, in no order.
//!
//! The process goes on for a moment, as one whose disk has died, but on btrfs, where it is stopped
//! before: barriers that are under way when a device dies are reported as done there, some of them
//! (docs/incidents/0002-barriers-that-succeed-on-a-dead-device.md).
//!
//! Then the process is ended, both are mounted again, the store is checked, opened and judged, and
//! the next process goes on. What this does not show: sectors torn within a page (`sim` does), and
//! a device that lies about a flush.

use std::path::PathBuf;
use std::time::Duration;

use highwater_sys::file::File;
use highwater_sys::shutdown::shut_down;

use crate::campaign::{Campaign, CampaignError, CampaignResult, Stop};
use crate::dice::Dice;
use crate::image::{FileSystem, Image, initialised};
use crate::real::{Disk, Kind, Report, Subject};
use crate::verdict::{Layer, Verdict};
use crate::yard::Yard;

/// Most acknowledgements of a life, about.
const MOST_STEPS: u64 = 400;
/// How long a process goes on without its disk, if it does not end by itself.
const AFTERLIFE: Duration = Duration::from_millis(150);
/// Most lives of a store.
const MOST_LIVES: u64 = 12;
/// A store that has grown beyond this is the last in its file system.
const LARGE_BYTES: u64 = 64 << 20;

/// Runs cycles on a kind of file system.
///
/// # Errors
/// [`CampaignError::NotRun`] without root or what else is needed; others when the machine fails.
pub fn run(campaign: &mut Campaign<'_>, kind: FileSystem) -> Result<Verdict, CampaignError> {
    let mut verdict = Verdict::new(Layer::Shutdown);
    let mut dice = Dice::new(campaign.seed);
    let mut yard = Yard::make(campaign.dir, Layer::Shutdown)?;
    let mut tower = Tower::build(&yard, kind)?;
    let mut current: Option<(Subject, u64)> = None;
    while verdict.runs < campaign.cycles && !campaign.is_stopped() {
        verdict.runs += 1;
        let (mut subject, lives) = if let Some(current) = current.take() {
            current
        } else {
            tower.renew()?;
            let nature = campaign.nature(Kind::Power, &mut dice);
            (Subject::new(tower.upper.point(), nature)?, 1 + dice.below(MOST_LIVES))
        };
        let cut = tower.choose(&mut dice);
        verdict.count(cut.name(), 1);
        let outcome = cycle(campaign, (&mut tower, cut), &mut subject, &mut dice);
        verdict.count_all(&subject.take_counts());
        if !campaign.conclude(&mut verdict, &mut yard, outcome, &format!("--fs {kind} "))? {
            break;
        }
        if lives > 1 && subject.bytes() < LARGE_BYTES {
            current = Some((subject, lives - 1));
        }
    }
    Ok(verdict)
}

/// One life, the end of its disk, and what that left.
fn cycle(
    campaign: &Campaign<'_>,
    (tower, cut): (&mut Tower, Cut),
    subject: &mut Subject,
    dice: &mut Dice,
) -> Result<(), Stop> {
    let mut life = subject.start(campaign.program, &[])?;
    subject.work(&mut life, dice, MOST_STEPS, campaign.stop)?;
    subject.begin_end();
    if tower.kind == FileSystem::Btrfs {
        life.suspend().map_err(|error| CampaignError::machine("stopping a process", &error))?;
    }
    tower.cut(cut, dice)?;
    let has_ended = |report: &Report| *report == Report::Ended;
    subject.listen(&mut life, AFTERLIFE, Disk::Fails, has_ended)?;
    let status = subject.end(life, Disk::Fails)?;
    tower.come_back(cut)?;
    if status.code().is_some_and(|code| code != 0) {
        return Err(format!("{}: the process ended badly: {status}", cut.name()).into());
    }
    let judged = subject.judge(1 + dice.below(4) / 3);
    judged.map_err(|what| format!("{}: {what}", cut.name()))?;
    Ok(())
}

/// How the power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    FileSystem,
    Device,
}

impl Cut {
    const fn name(self) -> &'static str {
        match self {
            Self::FileSystem => "file system shut down",
            Self::Device => "device lost power",
        }
    }
}

/// A file system in a file of another.
struct Tower {
    kind: FileSystem,
    // Dropped in this order.
    upper: Image,
    lower: Image,
    image: PathBuf,
    image_len: u64,
    /// Whether the upper one can be shut down.
    can_shut_down: bool,
}

impl Tower {
    fn build(yard: &Yard, kind: FileSystem) -> CampaignResult<Self> {
        let at = |name: &str| yard.path().join(name);
        // Room for the images of the kinds that need most, and for the lower one's own needs.
        let image_len = kind.small_bytes().max(192 << 20);
        let lower_len = image_len + (64 << 20);
        let lower = Image::make(FileSystem::Ext4, at("lower.image"), lower_len, at("lower"))?;
        let image = lower.point().join("image");
        initialised(&image, image_len)?;
        let upper = Image::on(kind, image.clone(), at("upper"))?;
        let mut tower = Self { kind, upper, lower, image, image_len, can_shut_down: false };
        tower.can_shut_down = shut_down(tower.upper.point()).is_ok();
        if !tower.can_shut_down && kind != FileSystem::Btrfs {
            let why = format!("{kind} cannot be shut down here");
            return Err(CampaignError::NotRun(why));
        }
        tower.upper.renew()?;
        Ok(tower)
    }

    /// Begins anew with an empty file system, which is durable.
    fn renew(&mut self) -> CampaignResult<()> {
        self.upper.renew()?;
        for point in [self.upper.point(), self.lower.point()] {
            let synced = File::open_read(point).and_then(|dir| dir.syncfs());
            synced.map_err(|error| CampaignError::machine("a new file system", &error))?;
        }
        Ok(())
    }

    fn choose(&self, dice: &mut Dice) -> Cut {
        if self.can_shut_down && dice.one_in(2) { Cut::FileSystem } else { Cut::Device }
    }

    fn cut(&self, cut: Cut, dice: &mut Dice) -> CampaignResult<()> {
        let failed = |error| CampaignError::machine("a power cut", &error);
        match cut {
            Cut::FileSystem => shut_down(self.upper.point()).map_err(failed),
            Cut::Device => {
                self.write_some(dice)?;
                shut_down(self.lower.point()).map_err(failed)
            }
        }
    }

    /// Writes a random part of the image's dirty pages to where they survive: none, some, or most.
    fn write_some(&self, dice: &mut Dice) -> CampaignResult<()> {
        let piece_bytes = dice.pick(&[4 << 10, 16 << 10, 64 << 10, 1 << 20]);
        let kept_of_ten = dice.pick(&[0, 0, 3, 5, 9]);
        if kept_of_ten == 0 {
            return Ok(());
        }
        let written = File::open_read(&self.image).and_then(|image| {
            (0..self.image_len / piece_bytes)
                .filter(|_| dice.below(10) < kept_of_ten)
                .try_for_each(|piece| image.sync_file_range(piece * piece_bytes, piece_bytes))
        });
        written.map_err(|error| CampaignError::machine("a power cut", &error))
    }

    fn come_back(&mut self, cut: Cut) -> CampaignResult<()> {
        self.upper.unmount()?;
        if cut == Cut::Device {
            self.lower.unmount()?;
            self.lower.mount()?;
        }
        self.upper.mount()
    }
}
