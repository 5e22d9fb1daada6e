//! The log's numbers, read when they are asked for.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;

use highwater_log::Log;
use highwater_log::metrics::{Histogram, LaneMetrics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads the numbers of a log. It does not keep the log open.
#[derive(Debug)]
pub(crate) struct Engine(Weak<Log>);

impl Engine {
    /// Takes the log.
    pub fn new(log: &Arc<Log>) -> Self {
        Self(Arc::downgrade(log))
    }
}

type Lane = [(&'static str, String); 1];
type Number = (&'static str, &'static str, fn(&LaneMetrics) -> u64);
type Spread = (&'static str, &'static str, fn(&LaneMetrics) -> &Histogram);

const GAUGES: [Number; 6] = [
    ("log_streams", "Streams that have a name", |lane| lane.streams),
    ("log_content_bytes", "Bytes that streams hold", |lane| lane.content_bytes),
    ("log_table_bytes", "Memory for what is known of streams", |lane| lane.table_bytes),
    ("log_staged_bytes", "Bytes staged that no commit has taken", |lane| lane.staged_bytes),
    ("log_segments", "Segments in use", |lane| lane.segments),
    ("log_spare_segments", "Segment files ready for use", |lane| lane.spare_segments),
];

const COUNTERS: [Number; 15] = [
    ("log_records_staged", "Records staged", |lane| lane.commits.staged),
    ("log_commits", "Commits that became durable", |lane| lane.commits.commits),
    ("log_frames", "Frames in commits", |lane| lane.commits.frames),
    ("log_records", "Records in commits", |lane| lane.commits.records),
    ("log_written_bytes", "Bytes written by commits", |lane| lane.commits.bytes),
    ("log_barriers", "Barriers waited for", |lane| lane.commits.barriers),
    ("log_segments_begun", "Segments begun", |lane| lane.commits.segments),
    ("log_segments_unready", "Segments that appends waited for", |lane| {
        lane.commits.segments_unready
    }),
    ("log_producers_forgotten", "Producers that a stream had no place for any more", |lane| {
        lane.producers_forgotten
    }),
    ("checkpoints", "Checkpoints done", |lane| lane.checkpoints.checkpoints),
    ("checkpoint_failures", "Checkpoints that failed", |lane| lane.checkpoints.failures),
    ("home_writes", "Writes to the home", |lane| lane.checkpoints.home_writes),
    ("home_bytes", "Bytes moved home", |lane| lane.checkpoints.home_bytes),
    ("checkpoint_table_bytes", "Bytes of table snapshots", |lane| lane.checkpoints.table_bytes),
    ("segments_freed", "Segments given back", |lane| lane.checkpoints.freed_segments),
];

const TIMES: [Spread; 12] = [
    ("log_lock_seconds", "Waiting for a lane's lock", |lane| &lane.commits.lock_ns),
    ("log_stage_seconds", "Staging a record, sampled", |lane| &lane.commits.stage_ns),
    ("log_wait_seconds", "From a batch's first record to its commit", |lane| &lane.commits.wait_ns),
    ("log_write_seconds", "Writing a batch", |lane| &lane.commits.write_ns),
    ("log_barrier_seconds", "Making a batch durable", |lane| &lane.commits.barrier_ns),
    ("log_publish_seconds", "Making a batch visible", |lane| &lane.commits.publish_ns),
    ("log_wake_seconds", "Waking those who waited", |lane| &lane.commits.wake_ns),
    ("checkpoint_absorb_seconds", "Handing bytes home", |lane| &lane.checkpoints.absorb_ns),
    ("checkpoint_barrier_seconds", "The home's barrier", |lane| &lane.checkpoints.barrier_ns),
    ("checkpoint_snapshot_seconds", "Encoding a table", |lane| &lane.checkpoints.snapshot_ns),
    ("checkpoint_publish_seconds", "Making a table durable", |lane| &lane.checkpoints.publish_ns),
    ("checkpoint_retire_seconds", "Giving segments back", |lane| &lane.checkpoints.retire_ns),
];

type Once = (&'static str, &'static str, fn(&LaneMetrics) -> Duration);

const OPENINGS: [Once; 3] = [
    ("recovery_table_seconds", "Loading the table at the opening", |lane| lane.recovery.table),
    ("recovery_find_seconds", "Finding segments at the opening", |lane| lane.recovery.find),
    ("recovery_replay_seconds", "Replaying the log at the opening", |lane| lane.recovery.replay),
];

impl Collector for Engine {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(log) = self.0.upgrade() else { return Ok(()) };
        let lanes = log.metrics();
        let label = |lane: &LaneMetrics| -> Lane { [("lane", lane.lane.to_string())] };
        for (name, help, value) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for lane in &lanes {
                let gauge = ConstGauge::new(i64::try_from(value(lane)).unwrap_or(i64::MAX));
                gauge.encode(family.encode_family(&label(lane))?)?;
            }
        }
        let help = "1 where changes are refused since bytes could not be moved home";
        let mut family =
            encoder.encode_descriptor("log_read_only", help, None, MetricType::Gauge)?;
        for (lane, usage) in lanes.iter().zip(log.usage()) {
            let gauge = ConstGauge::new(i64::from(usage.read_only.is_some()));
            gauge.encode(family.encode_family(&label(lane))?)?;
        }
        for (name, help, value) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for lane in &lanes {
                let counter = ConstCounter::new(value(lane));
                counter.encode(family.encode_family(&label(lane))?)?;
            }
        }
        for (name, help, value) in OPENINGS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for lane in &lanes {
                let gauge = ConstGauge::new(value(lane).as_secs_f64());
                gauge.encode(family.encode_family(&label(lane))?)?;
            }
        }
        let batch: Spread =
            ("log_batch_records", "Records of a commit", |lane| &lane.commits.batch_records);
        let times = TIMES.into_iter().map(|spread| (spread, Unit::SECONDS));
        for ((name, help, value), unit) in times.chain([(batch, Unit::RECORDS)]) {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for lane in &lanes {
                let histogram = value(lane);
                let label = label(lane);
                let mut metric = family.encode_family(&label)?;
                let (sum, count) = (histogram.sum() as f64 / unit.whole, histogram.count());
                let buckets = buckets(histogram, &unit);
                metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
            }
        }
        Ok(())
    }
}

/// What a histogram counts, and the bounds of its buckets: the same ones always, since rates and
/// quantiles are computed over time and over servers.
struct Unit {
    /// What the values are divided by.
    whole: f64,
    /// Powers of two of the first bound, and of the one behind the last.
    powers: Range<u32>,
}

impl Unit {
    /// Nanoseconds as seconds: bounds from 1 us to 17 s.
    const SECONDS: Self = Self { whole: 1e9, powers: 10..35 };
    /// Records: bounds from 1 to 65 535.
    const RECORDS: Self = Self { whole: 1.0, powers: 1..17 };
}

/// Gives a bucket for each doubling: the largest value that counts in it, and how many did.
fn buckets(histogram: &Histogram, unit: &Unit) -> Vec<(f64, u64)> {
    let mut fine = histogram.buckets().peekable();
    let mut counted = 0;
    let mut buckets: Vec<(f64, u64)> = unit
        .powers
        .clone()
        .map(|power| {
            let bound = (1_u64 << power) - 1;
            let within = std::iter::from_fn(|| fine.next_if(|(upper, _)| *upper <= bound));
            let count = within.map(|(_, count)| count).sum();
            counted += count;
            (bound as f64 / unit.whole, count)
        })
        .collect();
    buckets.push((f64::INFINITY, histogram.count() - counted));
    buckets
}
