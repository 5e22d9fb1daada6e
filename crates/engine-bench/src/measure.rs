//! One subject, one case, once: open, make streams, warm up, the timed interval, settle, close.
//!
//! The process is measured as a whole, so nothing else may run in it meanwhile: CPU time, switches
//! and memory are the subject's and the loop's that drives it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use highwater_probe::disk::chain::{Chain, ChainReading};
use highwater_stats::LatencyHistogram;
use highwater_sys::file::File;
use highwater_sys::process::{self, Usage};
use highwater_sys::time::{nanos, sleep};

use crate::case::Case;
use crate::data::Row;
use crate::load::{Load, Tally};
use crate::subject::{Counts, Store, Subject, SubjectError};

/// How often the interval's end is looked for.
const POLL: Duration = Duration::from_millis(10);
/// Longest time to wait for the device to have nothing in flight.
const DRAIN: Duration = Duration::from_secs(5);
/// Longest time to wait until a store has prepared all that it prepares.
const PREPARATION: Duration = Duration::from_secs(20);
const PREPARATION_LOOK: Duration = Duration::from_millis(100);
const SECTOR_BYTES: u64 = 512;

/// How long a case is measured, and where it ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Unmeasured time before.
    pub warm_up: Duration,
    /// Measured time.
    pub measured: Duration,
    /// Bytes that the process may write in both.
    pub most_bytes: u64,
    /// Seed of payloads and of the order of streams.
    pub seed: u64,
}

/// What surrounds a measurement.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// Devices below the directory.
    pub chain: &'a Chain,
    /// Set by Ctrl-C.
    pub stop: &'a AtomicBool,
    /// How long.
    pub limits: Limits,
}

/// Why there is no number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotMeasured {
    /// The subject does not work here.
    Unsupported(String),
    /// It failed.
    Failed(String),
    /// The user stopped it.
    Interrupted,
}

/// A measurement.
#[derive(Debug)]
pub struct Measured {
    /// Its row; case, subject, round and yardstick are to be filled in.
    pub row: Row,
    /// All latencies.
    pub latency: LatencyHistogram,
}

/// Everything read at one end of the interval.
struct Reading {
    at: Instant,
    usage: Usage,
    counts: Option<Counts>,
    devices: ChainReading,
}

/// What happened between two readings.
struct Interval {
    elapsed: Duration,
    begin: Reading,
    end: Reading,
    open_files: Option<u64>,
}

impl From<SubjectError> for NotMeasured {
    fn from(error: SubjectError) -> Self {
        match error {
            SubjectError::Unsupported(why) => Self::Unsupported(why),
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Measures a case on a subject in an empty directory.
///
/// # Errors
/// Why there is no number.
pub fn measure(
    subject: &dyn Subject,
    case: &Case,
    dir: &Path,
    around: &Around<'_>,
) -> Result<Measured, NotMeasured> {
    // Where the peak cannot begin anew, it is the whole process's: still an upper bound.
    process::reset_peak_memory().ok();
    let memory = process::memory();
    let files = process::open_files();
    let begun = Instant::now();
    let store = subject.open(dir, case)?;
    let open_ns = nanos(begun.elapsed());
    let begun = Instant::now();
    store.create_streams(case.streams)?;
    let create_ns = nanos(begun.elapsed());
    drain(dir, &*store, around)?;
    let devices = around.chain.read();

    let load = Load::new(case, around.limits.seed);
    let interval = drive(&*store, &load, around)?;
    let tally = load.into_tally();
    if let Some(why) = tally.failure {
        return Err(NotMeasured::Failed(why));
    }
    let begun = Instant::now();
    store.settle()?;
    let settle_ns = nanos(begun.elapsed());
    let peak_bytes = process::memory().map(|memory| memory.peak_bytes);
    store.close()?;
    sync(dir)?;
    let all_device_bytes = device_bytes(around.chain, &devices);
    let mut row = row(case, &interval, &tally);
    row.open_files = interval.open_files.and_then(|now| Some(now.saturating_sub(files?)));
    row.all_device_bytes = all_device_bytes;
    row.peak_bytes = peak_bytes;
    row.grown_bytes = peak_bytes.and_then(|peak| Some(peak - memory?.resident_bytes.min(peak)));
    (row.open_ns, row.create_ns, row.settle_ns) = (open_ns, create_ns, settle_ns);
    Ok(Measured { row, latency: tally.latency })
}

/// Runs the load through its warm-up and the timed interval.
fn drive(store: &dyn Store, load: &Load, around: &Around<'_>) -> Result<Interval, NotMeasured> {
    std::thread::scope(|scope| {
        let driver = scope.spawn(|| store.drive(load));
        let written = process::written_bytes().unwrap_or(0);
        let wait = |until: Instant| {
            while Instant::now() < until && !load.has_ended() {
                let so_far = process::written_bytes().unwrap_or(0).saturating_sub(written);
                if around.stop.load(Ordering::Relaxed) || so_far > around.limits.most_bytes {
                    return;
                }
                sleep(POLL);
            }
        };
        wait(Instant::now() + around.limits.warm_up);
        let begin = Reading::take(store, around.chain);
        load.begin_timing();
        wait(begin.at + around.limits.measured);
        let open_files = process::open_files();
        let end = Reading::take(store, around.chain);
        load.end();
        if driver.join().is_err() {
            return Err(NotMeasured::Failed("a writer panicked".to_owned()));
        }
        if around.stop.load(Ordering::Relaxed) {
            return Err(NotMeasured::Interrupted);
        }
        Ok(Interval { elapsed: end.at - begin.at, begin, end, open_files })
    })
}

impl Reading {
    fn take(store: &dyn Store, chain: &Chain) -> Self {
        let usage = process::usage().unwrap_or_default();
        Self { at: Instant::now(), usage, counts: store.counts(), devices: chain.read() }
    }
}

fn row(case: &Case, interval: &Interval, tally: &Tally) -> Row {
    let Interval { begin, end, .. } = interval;
    let counts = end.counts.and_then(|counts| Some(counts.since(begin.counts?)));
    let leaf = end.devices.since(&begin.devices).leaf;
    let latency = &tally.latency;
    Row {
        case_id: String::new(),
        subject: String::new(),
        round: 0,
        position: 0,
        writers: case.writers,
        streams: case.streams,
        payload_bytes: case.payload_bytes,
        ack: case.ack,
        elapsed_ns: nanos(interval.elapsed),
        appends: latency.len(),
        refused: tally.refused,
        mean_ns: latency.mean(),
        p50_ns: latency.quantile(0.5),
        p99_ns: latency.quantile(0.99),
        p999_ns: latency.quantile(0.999),
        max_ns: latency.max(),
        commits: counts.map(|counts| counts.commits),
        commit_bytes: counts.map(|counts| counts.commit_bytes),
        write_ns: counts.map(|counts| counts.write_ns),
        barrier_ns: counts.map(|counts| counts.barrier_ns),
        other_barriers: counts.map(|counts| counts.other_barriers),
        other_bytes: counts.map(|counts| counts.other_bytes),
        user_ns: nanos(end.usage.user.saturating_sub(begin.usage.user)),
        system_ns: nanos(end.usage.system.saturating_sub(begin.usage.system)),
        voluntary_switches: end.usage.voluntary_switches - begin.usage.voluntary_switches,
        involuntary_switches: end.usage.involuntary_switches - begin.usage.involuntary_switches,
        bare_cpu_ns: 0.0,
        bare_p50_ns: 0,
        device_bytes: leaf.map(|leaf| leaf.sectors * SECTOR_BYTES),
        device_flushes: leaf.and_then(|leaf| leaf.flushes),
        all_device_bytes: None,
        all_payload_bytes: tally.all_appends * u64::from(case.payload_bytes),
        peak_bytes: None,
        grown_bytes: None,
        open_files: None,
        open_ns: 0,
        create_ns: 0,
        settle_ns: 0,
    }
}

fn device_bytes(chain: &Chain, earlier: &ChainReading) -> Option<u64> {
    Some(chain.read().since(earlier).leaf?.sectors * SECTOR_BYTES)
}

/// Waits until the store prepares nothing any more, what set-up left dirty is on the device, and
/// the device is idle.
fn drain(dir: &Path, store: &dyn Store, around: &Around<'_>) -> Result<(), NotMeasured> {
    wait_until_unchanged(|| store.counts().map_or(0, |counts| counts.other_bytes));
    sync(dir)?;
    let begun = Instant::now();
    while around.chain.in_flight() > 0 && begun.elapsed() < DRAIN {
        sleep(POLL);
    }
    Ok(())
}

/// Waits until a count of what is prepared in the background stands still.
pub(crate) fn wait_until_unchanged(count: impl Fn() -> u64) {
    let begun = Instant::now();
    let mut before = count();
    while begun.elapsed() < PREPARATION {
        sleep(PREPARATION_LOOK);
        let now = count();
        if now == before {
            return;
        }
        before = now;
    }
}

fn sync(dir: &Path) -> Result<(), NotMeasured> {
    let synced = File::open_read(dir).and_then(|dir| dir.syncfs());
    synced.map_err(|error| NotMeasured::Failed(error.to_string()))
}
