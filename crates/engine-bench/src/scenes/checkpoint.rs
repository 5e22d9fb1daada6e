//! Commits while a checkpoint runs, against commits while none does, on one store.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use highwater_log::options::Durability;
use highwater_stats::LatencyHistogram;
use highwater_sys::process;
use highwater_sys::time::sleep;

use super::without_checkpoints;
use crate::case::{Ack, Case};
use crate::load::Load;
use crate::measure::{Around, Limits, NotMeasured};
use crate::scene::{Figure, Scene};
use crate::subject::{Store, SubjectResult};
use crate::subjects::{LogStore, OpenLog, Style};

const WRITERS: u32 = 64;
const PAYLOAD_BYTES: u32 = 256;
/// Time in which a checkpoint's work gathers.
const GATHER: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(10);

/// Measures commits with and without a checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint {
    /// Streams that are appended to.
    pub streams: u32,
}

/// What the checkpoints took.
struct Checkpoints {
    count: u32,
    took: Duration,
}

impl Scene for Checkpoint {
    fn name(&self) -> &'static str {
        "checkpoint"
    }

    fn about(&self, _limits: &Limits) -> String {
        format!(
            "{WRITERS} writers, {} streams, {PAYLOAD_BYTES} B: appends while no checkpoint runs, \
             and while one does after each {} ms",
            self.streams,
            GATHER.as_millis()
        )
    }

    fn most_bytes(&self, limits: &Limits) -> u64 {
        // Two loads, and what they appended moves home.
        4 * limits.most_bytes + (1 << 30)
    }

    fn run(&self, dir: &Path, around: &Around<'_>) -> Result<Vec<Figure>, NotMeasured> {
        let options = without_checkpoints(2 << 30, Durability::Wal);
        let store = LogStore::new(OpenLog::open(dir, &options)?, Style::Threads);
        store.create_streams(self.streams)?;
        let case = Case {
            writers: WRITERS,
            streams: self.streams,
            payload_bytes: PAYLOAD_BYTES,
            ack: Ack::Barrier,
        };
        let (quiet, ()) = load(&store, &case, around, |load| {
            load.begin_timing();
            wait(load, around.limits.measured, around);
            load.pause_timing();
            Ok(())
        })?;
        let (busy, checkpoints) =
            load(&store, &case, around, |load| checkpoints(&store, load, around))?;
        Ok(figures(&quiet, &busy, &checkpoints))
    }
}

/// Puts a load on the store while something else happens.
fn load<T>(
    store: &LogStore,
    case: &Case,
    around: &Around<'_>,
    meanwhile: impl FnOnce(&Load) -> SubjectResult<T>,
) -> Result<(LatencyHistogram, T), NotMeasured> {
    let load = Load::new(case, around.limits.seed);
    let answer = std::thread::scope(|scope| {
        let driver = scope.spawn(|| store.drive(&load));
        wait(&load, around.limits.warm_up, around);
        let answer = meanwhile(&load);
        load.end();
        driver.join().map(|()| answer)
    });
    let answer = answer.map_err(|_| NotMeasured::Failed("a writer panicked".to_owned()))??;
    if around.stop.load(Ordering::Relaxed) {
        return Err(NotMeasured::Interrupted);
    }
    let tally = load.into_tally();
    match tally.failure {
        Some(why) => Err(NotMeasured::Failed(why)),
        None => Ok((tally.latency, answer)),
    }
}

fn checkpoints(store: &LogStore, load: &Load, around: &Around<'_>) -> SubjectResult<Checkpoints> {
    let mut done = Checkpoints { count: 0, took: Duration::ZERO };
    let begun = Instant::now();
    let written = process::written_bytes().unwrap_or(0);
    while begun.elapsed() < around.limits.measured {
        wait(load, GATHER, around);
        let so_far = process::written_bytes().unwrap_or(0).saturating_sub(written);
        let has_enough = so_far > around.limits.most_bytes;
        if has_enough || load.has_ended() || around.stop.load(Ordering::Relaxed) {
            break;
        }
        load.begin_timing();
        let checkpoint = Instant::now();
        store.settle()?;
        done.took += checkpoint.elapsed();
        done.count += 1;
        load.pause_timing();
    }
    Ok(done)
}

/// Waits for a time, or until the load is to end.
fn wait(load: &Load, time: Duration, around: &Around<'_>) {
    let until = Instant::now() + time;
    while Instant::now() < until && !load.has_ended() && !around.stop.load(Ordering::Relaxed) {
        sleep(POLL);
    }
}

fn figures(
    quiet: &LatencyHistogram,
    busy: &LatencyHistogram,
    checkpoints: &Checkpoints,
) -> Vec<Figure> {
    let us = |histogram: &LatencyHistogram, q: f64| histogram.quantile(q) as f64 / 1e3;
    let took_ms = checkpoints.took.as_secs_f64() * 1e3 / f64::from(checkpoints.count.max(1));
    vec![
        Figure::new("p50 without", "us", us(quiet, 0.5)),
        Figure::new("p50 during", "us", us(busy, 0.5)),
        Figure::new("p99 without", "us", us(quiet, 0.99)),
        Figure::new("p99 during", "us", us(busy, 0.99)),
        Figure::new("p99 during over without", "", us(busy, 0.99) / us(quiet, 0.99)),
        Figure::new("slowest during", "us", us(busy, 1.0)),
        Figure::new("appends during", "", busy.len() as f64),
        Figure::new("a checkpoint", "ms", took_ms),
    ]
}
