//! What it takes to stage an append, with no disk to wait for: with few streams and with many.
//!
//! One thread appends, acknowledged on staging; the committer writes in the background. The calls
//! are timed in groups, and their tickets dropped outside of what is timed.

use std::path::Path;
use std::time::{Duration, Instant};

use highwater_log::options::{Durability, Options};
use highwater_sys::process;

use super::without_checkpoints;
use crate::measure::{Around, Limits, NotMeasured, wait_until_unchanged};
use crate::random::Random;
use crate::scene::{Figure, Scene};
use crate::subjects::OpenLog;

const FEW_STREAMS: u32 = 1000;
/// Appends for each millisecond that a case is measured.
const APPENDS_PER_MS: u64 = 150;
const MOST_APPENDS: u64 = 1_000_000;
const APPENDS_IN_GROUP: u64 = 500;
const PAYLOAD_BYTES: usize = 256;
/// Bytes of log that an append takes at most, and that a stream takes.
const MOST_APPEND_BYTES: u64 = 320;
const MOST_STREAM_BYTES: u64 = 128;
const SEGMENT_STEP_BYTES: u64 = 1 << 20;
/// Room for headers, and for frames that are not full.
const SEGMENT_ROOM_BYTES: u64 = 24 << 20;
const WITHIN: Duration = Duration::from_millis(100);

/// Stages appends to few streams, then to many.
#[derive(Debug, Clone, Copy)]
pub struct Staging {
    /// Many.
    pub streams: u32,
}

/// Cost of an append, ns.
struct Cost {
    wall_ns: f64,
    thread_ns: f64,
    process_ns: f64,
}

impl Scene for Staging {
    fn name(&self) -> &'static str {
        "staging"
    }

    fn about(&self, limits: &Limits) -> String {
        let appends = appends(limits);
        format!(
            "{appends} appends of {PAYLOAD_BYTES} B by one thread, acknowledged on staging, to \
             {FEW_STREAMS} and to {} streams",
            self.streams
        )
    }

    fn most_bytes(&self, limits: &Limits) -> u64 {
        // Two segments each, the one in use and the next, and what is appended to the first.
        let segment = |streams| segment_bytes(appends(limits), streams);
        3 * (segment(FEW_STREAMS) + segment(self.streams))
    }

    fn run(&self, dir: &Path, around: &Around<'_>) -> Result<Vec<Figure>, NotMeasured> {
        let mut figures = Vec::new();
        let mut costs = Vec::new();
        for streams in [FEW_STREAMS, self.streams] {
            let dir = dir.join(format!("{streams}"));
            std::fs::create_dir(&dir).map_err(|error| NotMeasured::Failed(error.to_string()))?;
            let cost = stage(&dir, streams, &around.limits)?;
            for (name, value) in [
                ("call", cost.wall_ns),
                ("call's CPU", cost.thread_ns),
                ("process's CPU", cost.process_ns),
            ] {
                figures.push(Figure::new(format!("{name}, {streams} streams"), "ns", value));
            }
            costs.push(cost);
        }
        if let [few, many] = &costs[..] {
            let ratio = many.thread_ns / few.thread_ns;
            figures.push(Figure::new("call's CPU, many over few", "", ratio));
            let ratio = many.process_ns / few.process_ns;
            figures.push(Figure::new("process's CPU, many over few", "", ratio));
        }
        Ok(figures)
    }
}

fn appends(limits: &Limits) -> u64 {
    let ms = u64::try_from(limits.measured.as_millis()).unwrap_or(u64::MAX);
    let appends = ms.saturating_mul(APPENDS_PER_MS).clamp(APPENDS_IN_GROUP, MOST_APPENDS);
    appends / APPENDS_IN_GROUP * APPENDS_IN_GROUP
}

/// One segment takes it all: none is made or begun while appends are timed.
fn segment_bytes(appends: u64, streams: u32) -> u64 {
    let bytes = appends * MOST_APPEND_BYTES + u64::from(streams) * MOST_STREAM_BYTES;
    (bytes + SEGMENT_ROOM_BYTES).next_multiple_of(SEGMENT_STEP_BYTES)
}

fn stage(dir: &Path, streams: u32, limits: &Limits) -> Result<Cost, NotMeasured> {
    let durability = Durability::Relaxed { within: WITHIN };
    let appends = appends(limits);
    let segment_bytes = segment_bytes(appends, streams);
    let options = Options { segment_bytes, ..without_checkpoints(4 * segment_bytes, durability) };
    let open = OpenLog::open(dir, &options)?;
    open.create_streams(streams)?;
    wait_until_unchanged(|| open.counts().other_bytes);
    let mut random = Random::new(limits.seed);
    let payload: Vec<u8> = std::iter::repeat_with(|| random.byte()).take(PAYLOAD_BYTES).collect();
    let (mut wall, mut thread) = (Duration::ZERO, Duration::ZERO);
    let mut tickets = Vec::new();
    let usage = process::usage().unwrap_or_default();
    for _ in 0..appends / APPENDS_IN_GROUP {
        let (begun, cpu) = (Instant::now(), process::thread_cpu_time());
        for _ in 0..APPENDS_IN_GROUP {
            tickets.push(open.append(random.below(streams), &payload)?);
        }
        thread += process::thread_cpu_time().saturating_sub(cpu);
        wall += begun.elapsed();
        tickets.clear();
    }
    drop(open);
    let after = process::usage().unwrap_or_default();
    let process = (after.user + after.system).saturating_sub(usage.user + usage.system);
    let each = |time: Duration| time.as_secs_f64() * 1e9 / appends as f64;
    Ok(Cost { wall_ns: each(wall), thread_ns: each(thread), process_ns: each(process) })
}
