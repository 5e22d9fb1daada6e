//! What a run is going to do, judged before anything is created.

use highwater_report::case::{Barrier, Case, Every, FileState, IoMode, Sharing};
use highwater_report::data::{Group, PlannedCase, Settings};
use highwater_stats::units;
use highwater_sys::fsinfo;

use crate::error::ProbeError;
use crate::site::Site;
use crate::trial::Schedule;

/// Most writers of one case: each is a thread with buffers of its own.
pub const MAX_WRITERS: u32 = 1024;
/// Most small files of one case.
pub const MAX_FILES: u32 = 1_000_000;
/// Largest block: each writer holds one in memory.
pub const MAX_BLOCK: u64 = 1 << 30;
/// Most writes of one case in a round, warm-up apart: each leaves up to 32 bytes of times in memory
/// (one write, one barrier, one commit), which makes 1 GiB.
pub const MAX_WRITES: u64 = 32 << 20;
/// Open files kept for the program itself: standard streams, the run directory, `/proc`, `/sys`.
const SPARE_FILES: u64 = 64;
/// Least space that a file takes, whatever it holds: a block of the file system.
const LEAST_FILE_BYTES: u64 = 4096;
/// Space left free beside what the largest case needs.
const SPARE_BYTES: u64 = 64 << 20;

/// A whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// `probe`, or the preset.
    pub preset: String,
    /// What it answers.
    pub question: String,
    /// Sections.
    pub groups: Vec<Group>,
    /// Cases, in order.
    pub cases: Vec<PlannedCase>,
    /// Settings.
    pub settings: Settings,
}

/// What happens when the writes of a case reach the end of its prepared file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtEnd {
    /// The case is refused: every write goes to a new place.
    Refuse,
    /// An initialised file is written again from its start.
    Wrap,
}

/// How long a case runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Measured writes per round, over all writers.
    pub iterations: u64,
    /// Unmeasured writes before them, per file.
    pub warmup: u64,
    /// Prepared length of a file; absent: exactly what the writes need.
    pub capacity: Option<u64>,
    /// What happens at its end.
    pub at_end: AtEnd,
}

/// Makes a planned case, refused with the reason where it could not work.
pub fn planned(id: String, group: &str, case: Case, extent: &Extent, site: &Site) -> PlannedCase {
    let fitted = fit(&case, extent);
    let capacity = extent.capacity.unwrap_or(fitted.needed_bytes);
    let refused = impossible(&case, site)
        .or_else(|| fitted.too_many())
        .or_else(|| does_not_fit(&case, &fitted, capacity, extent.at_end));
    PlannedCase {
        id,
        group: group.to_owned(),
        case,
        iterations: fitted.iterations,
        warmup: fitted.warmup,
        capacity: if case.files > 1 { case.block } else { capacity },
        refused,
    }
}

/// Writes rounded up to whole commits, and the bytes they need in one file.
struct Fitted {
    iterations: u64,
    warmup: u64,
    needed_bytes: u64,
}

impl Fitted {
    /// Why the times of so many writes cannot be kept.
    fn too_many(&self) -> Option<String> {
        let most = self.iterations.max(self.warmup);
        (most > MAX_WRITES).then(|| {
            format!(
                "the times of {most} writes would take more than 1 GiB of memory: at most \
                 {MAX_WRITES} in a round; give fewer --iterations and more --rounds"
            )
        })
    }
}

fn fit(case: &Case, extent: &Extent) -> Fitted {
    if case.files > 1 {
        // One commit makes all files durable.
        return Fitted { iterations: u64::from(case.files), warmup: 0, needed_bytes: case.block };
    }
    let own = case.writers > 1 && case.sharing == Sharing::Own;
    let files = if own { u64::from(case.writers) } else { 1 };
    let each = extent.iterations.div_ceil(files).max(1);
    let commit = Schedule::new(case, 0, each).per_commit;
    // A last commit smaller than the others would be a sample of something else; a size in bytes
    // keeps its odd rest, since the total is what was asked for.
    let whole = |writes: u64| match case.every {
        Every::Writes(_) => writes.div_ceil(commit).saturating_mul(commit),
        _ => writes,
    };
    let each = whole(each);
    let warmup = whole(extent.warmup);
    let needed_bytes = each.saturating_add(warmup).saturating_mul(case.block);
    Fitted { iterations: each.saturating_mul(files), warmup, needed_bytes }
}

fn does_not_fit(case: &Case, fitted: &Fitted, capacity: u64, at_end: AtEnd) -> Option<String> {
    let wraps = case.state == FileState::Initialised && at_end == AtEnd::Wrap;
    if case.state == FileState::Append || case.files > 1 || fitted.needed_bytes <= capacity {
        return None;
    }
    if wraps && capacity >= case.block {
        return None;
    }
    Some(format!(
        "needs {} for warm-up and measured writes, and the file holds {}: give --capacity {} or \
         fewer --iterations",
        units::bytes_exact(fitted.needed_bytes),
        units::bytes_exact(capacity),
        units::bytes_exact(fitted.needed_bytes),
    ))
}

/// Says why a case cannot work, whatever its length.
fn impossible(case: &Case, site: &Site) -> Option<String> {
    let reason = if case.block == 0 || case.block > MAX_BLOCK {
        format!("a block holds 1 byte to {}", units::bytes_exact(MAX_BLOCK))
    } else if case.writers == 0 || case.writers > MAX_WRITERS {
        format!("1 to {MAX_WRITERS} writers")
    } else if case.files == 0 || case.files > MAX_FILES {
        format!("1 to {MAX_FILES} files")
    } else if open_files(case).saturating_add(SPARE_FILES) > site.open_files {
        format!(
            "{} writers need {} open files, and this process may have {}, of which {SPARE_FILES} \
             stay spare: raise the limit (ulimit -Hn), or use fewer --writers",
            case.writers,
            open_files(case),
            site.open_files
        )
    } else if case.files > 1 {
        return impossible_files(case);
    } else if case.io == IoMode::Direct {
        return misaligned(case, site).or_else(|| contradictory(case));
    } else {
        return contradictory(case);
    };
    Some(reason)
}

fn impossible_files(case: &Case) -> Option<String> {
    let batch = matches!(case.barrier, Barrier::Fsync | Barrier::Fdatasync | Barrier::Syncfs);
    if !batch || case.io == IoMode::Direct || case.every != Every::Writes(1) {
        return Some(
            "many files are written through the page cache and made durable as one batch, by \
             fsync, fdatasync or syncfs"
                .to_owned(),
        );
    }
    if case.barrier == Barrier::Syncfs && case.writers > 1 {
        return Some("one syncfs covers all files: more threads have nothing to do".to_owned());
    }
    None
}

fn misaligned(case: &Case, site: &Site) -> Option<String> {
    match site.offset_align() {
        None => Some("this file system refuses direct I/O (statx says alignment 0)".to_owned()),
        Some(align) if !case.block.is_multiple_of(u64::from(align)) => Some(format!(
            "direct I/O here is aligned to {align} bytes (statx), and the block is {}",
            units::bytes_exact(case.block)
        )),
        Some(_) => None,
    }
}

/// Files that a case has open at once: those it writes, and a ring for each writer.
fn open_files(case: &Case) -> u64 {
    let writers = u64::from(case.writers);
    let is_own = case.files > 1 || case.sharing == Sharing::Own;
    let rings = if case.barrier == Barrier::Uring { writers } else { 0 };
    rings + if is_own { writers } else { 1 }
}

fn contradictory(case: &Case) -> Option<String> {
    let fused = case.barrier.is_part_of_write() || case.barrier == Barrier::Uring;
    if fused && case.every == Every::Never {
        return Some(format!(
            "{} makes every write durable: it cannot be left out with --every never; use --barrier \
             none",
            case.barrier
        ));
    }
    let batched = !matches!(case.every, Every::Writes(1) | Every::Never);
    if case.barrier.is_part_of_write() && batched {
        return Some(format!(
            "{} makes its own write durable and no earlier one: it cannot end a batch",
            case.barrier
        ));
    }
    if case.writers > 1 && case.sharing == Sharing::Shared && batched {
        return Some("group commit makes its own batches: use --every 1".to_owned());
    }
    None
}

impl Plan {
    /// Bytes that the whole run writes, set-up included.
    pub fn total_bytes(&self) -> u64 {
        let per_round: u64 = self
            .runnable()
            .map(|planned| setup_bytes(planned).saturating_add(write_bytes(planned)))
            .fold(0, u64::saturating_add);
        per_round.saturating_mul(u64::from(self.settings.rounds.max(1)))
    }

    /// Space that the largest case needs at once.
    pub fn peak_bytes(&self) -> u64 {
        self.runnable().map(space_bytes).max().unwrap_or(0)
    }

    /// Cases that are not refused.
    pub fn runnable(&self) -> impl Iterator<Item = &PlannedCase> {
        self.cases.iter().filter(|planned| planned.refused.is_none())
    }

    /// Checks the plan against space, inodes and the user's limit.
    ///
    /// # Errors
    /// When nothing can run, or it does not fit; the message says by how much and what to change.
    pub fn check(&self, site: &Site) -> Result<(), ProbeError> {
        if self.runnable().next().is_none() {
            let reason = self.cases.first().and_then(|planned| planned.refused.clone());
            return Err(ProbeError::Settings(format!(
                "no case can run: {}",
                reason.unwrap_or_else(|| "the plan is empty".to_owned())
            )));
        }
        let total = self.total_bytes();
        if let Some(max) = self.settings.max_bytes.filter(|max| total > *max) {
            return Err(ProbeError::TooLarge(format!(
                "this run writes {}, and --max-bytes allows {}: allow more, or choose fewer cases, \
                 --iterations or --rounds",
                units::bytes_human(total),
                units::bytes_human(max)
            )));
        }
        let (peak, free) = (self.peak_bytes(), site.machine.filesystem.free_bytes);
        if peak.saturating_add(SPARE_BYTES) > free {
            return Err(ProbeError::TooLarge(format!(
                "the largest case needs {} and {} stay spare, and {} has {} free: free some space, \
                 or choose smaller cases",
                units::bytes_human(peak),
                units::bytes_human(SPARE_BYTES),
                site.dir.display(),
                units::bytes_human(free)
            )));
        }
        self.check_inodes(site)
    }

    fn check_inodes(&self, site: &Site) -> Result<(), ProbeError> {
        let files = self.runnable().map(|planned| u64::from(planned.case.files)).max().unwrap_or(0);
        let free =
            fsinfo::free_inodes(&site.dir).map_err(|error| ProbeError::at(&site.dir, &error))?;
        match free {
            Some(free) if files.saturating_add(64) > free => Err(ProbeError::TooLarge(format!(
                "the largest case makes {files} files, and the file system has {free} inodes free"
            ))),
            _ => Ok(()),
        }
    }
}

/// Space that a case takes at once.
fn space_bytes(planned: &PlannedCase) -> u64 {
    let case = &planned.case;
    if case.files > 1 {
        return u64::from(case.files).saturating_mul(case.block.max(LEAST_FILE_BYTES));
    }
    setup_bytes(planned).max(write_bytes(planned))
}

/// Files that a case makes.
fn file_count(planned: &PlannedCase) -> u64 {
    let case = &planned.case;
    let own = case.sharing == Sharing::Own;
    u64::from(case.files.max(if own { case.writers } else { 1 }))
}

fn setup_bytes(planned: &PlannedCase) -> u64 {
    match planned.case.state {
        FileState::Append => 0,
        FileState::Allocated | FileState::Initialised => {
            planned.capacity.saturating_mul(file_count(planned))
        }
    }
}

fn write_bytes(planned: &PlannedCase) -> u64 {
    let warmup = planned.warmup.saturating_mul(file_count(planned));
    planned.iterations.saturating_add(warmup).saturating_mul(planned.case.block)
}
