//! What one barrier makes of the device, by file system: the structure that is the same on every
//! machine, read from the counters of the loop device under a fresh image.
//!
//! One run per file system measures every barrier on every file state in both I/O modes; the tests
//! beside this module each hold one claim against it. Counts are taken from the quietest round: a
//! commit that the file system makes on its own account adds flushes and bytes to a round and never
//! takes any away, so the least of several rounds is what the barriers themselves cause.

mod btrfs;
mod ext4;
mod xfs;

use std::path::Path;
use std::sync::OnceLock;

use highwater_report::case::{Barrier, Case, FileState, IoMode};
use highwater_report::data::RoundRow;
use highwater_report::results::{CaseResult, Receipt, ReceiptVerdict};

use crate::environment::not_run;
use crate::image::{Image, Recipe};
use crate::program::{Measured, Place};

const BLOCK: u64 = 4096;
const WRITES: u64 = 40;
const WARMUP: u64 = 5;
const CAPACITY: u64 = 1 << 20;

/// One run over all write paths of a file system, and one that fills allocated files.
pub struct Evidence {
    all: Measured,
    filled: Measured,
    loop_device: String,
    /// The disk that holds the image file, where it can be told without the program's help.
    disk: Option<String>,
}

/// Evidence that is gathered once, by whichever test comes first.
type Gathered = OnceLock<Result<Evidence, String>>;

/// Gives the evidence on a file system, or notes that a claim cannot be tested here.
fn evidence(kept: &'static Gathered, recipe: Recipe, claim: &str) -> Option<&'static Evidence> {
    match kept.get_or_init(|| Evidence::gather(recipe)) {
        Ok(evidence) => Some(evidence),
        Err(reason) => {
            not_run(&format!("{} on a loop device: {claim}", recipe.kind), reason);
            None
        }
    }
}

impl Evidence {
    fn gather(recipe: Recipe) -> Result<Self, String> {
        let image = Image::new(recipe)?;
        let place = Place::at(image.path());
        let words = format!("--iterations {WRITES} --warmup {WARMUP}");
        let all = format!("bench --preset barriers {words} --rounds 3 --capacity {CAPACITY}");
        let all = place.measure(&all);
        let filled = format!("bench --state allocated --io buffered,direct {words} --rounds 1");
        let filled = place.measure(&filled);
        let loop_device = image.device().to_owned();
        let disk = disk_of(Path::new(env!("CARGO_TARGET_TMPDIR")));
        Ok(Self { all, filled, loop_device, disk })
    }

    /// Cases of the run over all write paths, each with its rounds.
    fn cases(&self, which: impl Fn(&Case) -> bool) -> Vec<(&CaseResult, Vec<&RoundRow>)> {
        let cases = self.all.results.cases.iter().filter(|case| which(&case.case));
        let found: Vec<_> = cases.map(|case| (case, self.all.rounds_of(case))).collect();
        assert!(!found.is_empty(), "no such case was measured");
        found
    }

    /// Asserts that each barrier of these cases made exactly so many flushes of the loop device.
    #[track_caller]
    fn assert_flushes(&self, per_barrier: u64, which: impl Fn(&Case) -> bool) {
        self.assert_each(which, |_, rows| {
            let asked = rows[0].barriers * per_barrier;
            let seen = quietest(rows, |row| row.top_flushes);
            (seen != Some(asked)).then(|| format!("{seen:?} flushes, not {asked}"))
        });
    }

    /// Asserts that the flushes per barrier lie in a range.
    #[track_caller]
    fn assert_flushes_between(&self, least: f64, most: f64, which: impl Fn(&Case) -> bool) {
        self.assert_each(which, |_, rows| {
            let flushes = quietest(rows, |row| row.top_flushes)? as f64 / rows[0].barriers as f64;
            let fits = (least..=most).contains(&flushes);
            (!fits).then(|| format!("{flushes:.3} flushes per barrier, not {least} to {most}"))
        });
    }

    /// Asserts that the KiB written per barrier lie in a range.
    #[track_caller]
    fn assert_kib_between(&self, least: f64, most: f64, which: impl Fn(&Case) -> bool) {
        self.assert_each(which, |_, rows| {
            let sectors = quietest(rows, |row| row.top_sectors)? as f64;
            let kib = sectors / 2.0 / rows[0].barriers as f64;
            let fits = (least..=most).contains(&kib);
            (!fits).then(|| format!("{kib:.3} KiB per barrier, not {least} to {most}"))
        });
    }

    /// Asserts something of each of these cases; a failure shows every case that broke it.
    #[track_caller]
    fn assert_each(
        &self,
        which: impl Fn(&Case) -> bool,
        broken: impl Fn(&CaseResult, &[&RoundRow]) -> Option<String>,
    ) {
        let problems: Vec<String> = self
            .cases(which)
            .iter()
            .filter_map(|(case, rows)| Some(format!("{}: {}", case.label, broken(case, rows)?)))
            .collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// Asserts that allocated and initialised files keep their length, and that an appended one
    /// grows by exactly what was written.
    #[track_caller]
    fn assert_ends_of_file(&self) {
        self.assert_each(
            |_| true,
            |case, rows| {
                let appends = case.case.state == FileState::Append;
                let grown = if appends { WRITES * BLOCK } else { 0 };
                let begins = if appends { WARMUP * BLOCK } else { CAPACITY };
                let wrong =
                    |row: &&&RoundRow| (row.eof_before, row.eof_after) != (begins, begins + grown);
                let row = rows.iter().find(wrong)?;
                Some(format!("end of file from {} to {}", row.eof_before, row.eof_after))
            },
        );
        self.assert_each(
            |_| true,
            |case, _| {
                let fixed = receipt(case).extents.as_ref()?.eof_fixed;
                (fixed == (case.case.state == FileState::Append)).then(|| format!("fixed: {fixed}"))
            },
        );
    }

    /// Asserts that writes turn exactly their own bytes of an allocated file into written ones, and
    /// that an initialised file holds no unwritten byte.
    #[track_caller]
    fn assert_unwritten_bytes(&self) {
        let wrong = |rows: &[&RoundRow], before: u64, after: u64| {
            let wanted = (Some(before), Some(after));
            let row =
                rows.iter().find(|row| (row.unwritten_before, row.unwritten_after) != wanted)?;
            Some(format!(
                "unwritten bytes from {:?} to {:?}, not {before} to {after}",
                row.unwritten_before, row.unwritten_after
            ))
        };
        let before = CAPACITY - WARMUP * BLOCK;
        self.assert_each(
            |case| case.state == FileState::Allocated && reaches_device(case),
            |_, rows| wrong(rows, before, before - WRITES * BLOCK),
        );
        self.assert_each(|case| case.state == FileState::Initialised, |_, rows| wrong(rows, 0, 0));
        for case in &self.filled.results.cases {
            let problem = wrong(&self.filled.rounds_of(case), WRITES * BLOCK, 0);
            assert_eq!(problem, None, "{}: filled to its end", case.label);
        }
    }

    /// Asserts where the first measured block lay before and after.
    #[track_caller]
    fn assert_first_block_unmoved(&self, unmoved: bool, state: FileState) {
        self.assert_each(
            |case| case.state == state && reaches_device(case),
            |case, rows| {
                let seen = receipt(case).extents.as_ref().and_then(|e| e.first_block_unmoved);
                let placed = rows.iter().all(|row| {
                    (row.first_block_before.is_some() && row.first_block_after.is_some())
                        && (row.first_block_before == row.first_block_after) == unmoved
                });
                (seen != Some(unmoved) || !placed).then(|| format!("unmoved: {seen:?}"))
            },
        );
    }

    /// Asserts that every record was read back and found right in every round (M6).
    #[track_caller]
    fn assert_readback(&self) {
        self.assert_each(
            |_| true,
            |_, rows| {
                let row = rows.iter().find(|row| row.readback_records != WRITES + WARMUP)?;
                Some(format!("{} records of {}", row.readback_records, WRITES + WARMUP))
            },
        );
    }

    /// Asserts that receipts say `issued`, on the loop device and the disk below it.
    #[track_caller]
    fn assert_issued(&self, which: impl Fn(&Case) -> bool) {
        let disk = self.all.results.machine.leaf();
        let write_through =
            disk.and_then(|disk| disk.write_cache.as_deref()) == Some("write through");
        let wanted = if write_through { ReceiptVerdict::Elided } else { ReceiptVerdict::Issued };
        self.assert_each(which, |case, _| {
            let receipt = receipt(case);
            let fits = receipt.verdict == wanted || is_polluted(receipt);
            (!fits).then(|| format!("{:?}: {:?}", receipt.verdict, receipt.reasons))
        });
    }

    /// Asserts the devices that receipts are about: the loop device on top, the real disk below.
    #[track_caller]
    fn assert_devices(&self, claim: &str) {
        let devices = &self.all.results.machine.devices;
        let first = devices.first().expect("the file system's own device");
        assert_eq!((first.name.as_str(), first.kind.as_str()), (self.loop_device.as_str(), "loop"));
        assert!(!first.leaf, "the image file lies on some disk");
        let Some(disk) = &self.disk else {
            not_run(claim, "the build directory's device is not a plain disk or partition");
            return;
        };
        assert_eq!(self.all.results.machine.leaf().map(|leaf| leaf.name.as_str()), Some(&**disk));
        self.assert_each(
            |_| true,
            |case, _| {
                let receipt = receipt(case);
                let top = receipt.top.as_ref().map(|top| top.device.as_str());
                let leaf = receipt.leaf.as_ref().map(|leaf| leaf.device.as_str());
                let fits = top == Some(&*self.loop_device) && leaf == Some(&**disk);
                (!fits).then(|| format!("{leaf:?} under {top:?}"))
            },
        );
    }

    /// Asserts that what promises nothing asks for nothing: no flush, and no receipt that looks
    /// like one.
    #[track_caller]
    fn assert_nothing_asked(&self) {
        let promises_nothing = |case: &Case| !case.promises_durability();
        self.assert_each(promises_nothing, |case, rows| {
            let flushes = quietest(rows, |row| row.top_flushes);
            let verdict = receipt(case).verdict;
            let fits = flushes == Some(0) && verdict == ReceiptVerdict::NotAsked && !case.durable;
            (!fits).then(|| format!("{flushes:?} flushes, {verdict:?}, durable: {}", case.durable))
        });
    }
}

/// Whether each write of a case has reached the file system's blocks when its loop ends.
fn reaches_device(case: &Case) -> bool {
    case.barrier != Barrier::None || case.io == IoMode::Direct
}

/// Barriers on one file. `syncfs` also flushes what others left on the file system, and varies.
fn on_the_file(case: &Case) -> bool {
    case.promises_durability() && case.barrier != Barrier::Syncfs
}

/// Barriers that cover the data and what is needed to read it, and no timestamps.
fn data_only(barrier: Barrier) -> bool {
    matches!(barrier, Barrier::Fdatasync | Barrier::ODsync | Barrier::RwfDsync | Barrier::Uring)
}

/// The least of a counter over rounds.
fn quietest(rows: &[&RoundRow], count: impl Fn(&RoundRow) -> Option<u64>) -> Option<u64> {
    rows.iter().map(|row| count(row)).min().flatten()
}

#[track_caller]
fn receipt(case: &CaseResult) -> &Receipt {
    case.receipt.as_ref().expect("a measured case has a receipt")
}

/// Whether a receipt counts others' writes in, which tests that run side by side do cause.
fn is_polluted(receipt: &Receipt) -> bool {
    receipt.verdict == ReceiptVerdict::Polluted
        && receipt.reasons.iter().any(|reason| reason.contains("other processes wrote"))
}

/// The disk that a directory is on, by its device number; `None` where several devices or none that
/// can be seen stand behind it.
fn disk_of(dir: &Path) -> Option<String> {
    use std::os::linux::fs::MetadataExt as _;
    let number = dir.metadata().ok()?.st_dev();
    let (major, minor) = ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xfff00));
    let device =
        Path::new("/sys/dev/block").join(format!("{major}:{minor}")).canonicalize().ok()?;
    let disk = if device.join("partition").exists() { device.parent()? } else { &device };
    let is_plain = std::fs::read_dir(disk.join("slaves"))
        .map_or(true, |mut below| below.next().is_none())
        && !disk.join("loop").exists();
    let name = disk.file_name()?.to_string_lossy().into_owned();
    is_plain.then_some(name)
}
