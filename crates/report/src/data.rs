//! What a run leaves as data: everything else in its directory is derived from these.
//!
//! `manifest.json` is written when the run starts, `rounds.csv` grows a row per case and round,
//! `series.csv`, `samples/*.hdr` and `outcome.json` are written when it ends.

use std::collections::BTreeMap;

use highwater_stats::LatencyHistogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::machine::Machine;

/// Version of the files in a run directory.
pub const SCHEMA_VERSION: u32 = 1;

/// What a run was going to do, where, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of the run directory's files.
    pub schema_version: u32,
    /// Version of the measuring method; runs of different methods are not compared.
    pub method_version: u32,
    /// Version of the program.
    pub highwater_version: String,
    /// Name of the run.
    pub name: String,
    /// `probe`, or the preset of the bench.
    pub preset: String,
    /// The question this run answers.
    pub question: String,
    /// Start, RFC 3339, UTC.
    pub started: String,
    /// The command as typed.
    pub command: Vec<String>,
    /// The measured directory.
    pub directory: String,
    /// Settings in force.
    pub settings: Settings,
    /// The machine.
    pub machine: Machine,
    /// Sections, in order.
    pub groups: Vec<Group>,
    /// Every planned case, in order.
    pub cases: Vec<PlannedCase>,
    /// Bytes that the plan writes, set-up included.
    pub planned_bytes: u64,
}

/// Settings that shape a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// Rounds planned; a probe may fit in fewer.
    pub rounds: u32,
    /// Seconds a probe was given.
    pub seconds: Option<f64>,
    /// Seed of the bytes written.
    pub seed: u64,
    /// Most bytes the run was allowed to write.
    pub max_bytes: Option<u64>,
}

/// What varies in a section, and so how it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// Write paths at one block size.
    Paths,
    /// Block size.
    Sizes,
    /// Writes per barrier.
    Batch,
    /// Bytes per barrier, time per trial.
    Interval,
    /// Writers.
    Writers,
    /// Number of small files.
    Files,
}

/// A section of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Key that cases refer to.
    pub id: String,
    /// Title, as in `What batching buys`.
    pub title: String,
    /// What varies.
    pub kind: GroupKind,
}

/// One case as planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedCase {
    /// Key, unique in the run, as in `c01`.
    pub id: String,
    /// Section.
    pub group: String,
    /// What is measured.
    pub case: Case,
    /// Measured writes per round, over all writers.
    pub iterations: u64,
    /// Unmeasured writes before them, into each file.
    pub warmup: u64,
    /// File length that set-up prepares, bytes.
    pub capacity: u64,
    /// Why this case cannot run here, decided before anything was created.
    pub refused: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// End, RFC 3339, UTC.
    pub ended: String,
    /// Whether the user stopped it early.
    pub interrupted: bool,
    /// Cases that were refused by the system or failed: id to reason.
    pub stopped: BTreeMap<String, StopReason>,
    /// What went wrong or looked suspicious, for people.
    pub warnings: Vec<String>,
    /// Own cost of the harness per operation, nanoseconds: everything in the timed loop but the
    /// system calls.
    pub harness_cost_ns: Option<f64>,
}

/// Why a case has no number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "reason", rename_all = "snake_case")]
pub enum StopReason {
    /// The file system or kernel refuses this path.
    Unsupported(String),
    /// A write, barrier or readback failed; its numbers are dropped.
    Failed(String),
    /// Never reached: the run ended before.
    NotRun(String),
}

/// One case in one round. Device counters are differences over the measured interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundRow {
    /// Case.
    pub case_id: String,
    /// Round, from 0.
    pub round: u32,
    /// Position in the rotated order of this round, from 0.
    pub position: u32,
    /// Start of the measured interval after the start of the run, ms.
    pub started_ms: u64,
    /// The measured interval, ns.
    pub elapsed_ns: u64,
    /// Measured writes.
    pub writes: u64,
    /// Measured barriers (for barriers that are part of the write: writes).
    pub barriers: u64,
    /// Measured bytes.
    pub bytes: u64,
    /// Commits: samples.
    pub commits: u64,
    /// Mean of the commits, ns.
    pub commit_mean_ns: f64,
    /// Percentiles of the commits, ns.
    pub commit_p50_ns: u64,
    /// 90th percentile, ns.
    pub commit_p90_ns: u64,
    /// 99th percentile, ns.
    pub commit_p99_ns: u64,
    /// 99.9th percentile, ns.
    pub commit_p999_ns: u64,
    /// Slowest commit, ns.
    pub commit_max_ns: u64,
    /// Mean of the write calls, ns.
    pub write_mean_ns: f64,
    /// Mean of the barrier calls, ns; absent where the barrier is part of the write.
    pub barrier_mean_ns: Option<f64>,
    /// Records that one barrier acknowledged, at most: group commit's batch.
    pub acks_per_barrier_max: u64,
    /// Most records written but not covered by a barrier, if each write is taken as its own ack.
    pub records_at_risk: u64,
    /// `files` cases: time to make the files dirty, ns.
    pub dirty_ns: Option<u64>,
    /// Barriers asked for in set-up and directory syncs.
    pub setup_barriers: u64,
    /// Barriers asked for in warm-up.
    pub warmup_barriers: u64,
    /// Records read back and found right.
    pub readback_records: u64,
    /// End of file before the first measured write, bytes.
    pub eof_before: u64,
    /// End of file after the last, bytes.
    pub eof_after: u64,
    /// Extents before; absent where FIEMAP is refused.
    pub extents_before: Option<u64>,
    /// Extents after.
    pub extents_after: Option<u64>,
    /// Bytes in unwritten extents before.
    pub unwritten_before: Option<u64>,
    /// Bytes in unwritten extents after.
    pub unwritten_after: Option<u64>,
    /// Physical position of the first block that measured writes touch, before, bytes.
    pub first_block_before: Option<u64>,
    /// Physical position of that block after, bytes.
    pub first_block_after: Option<u64>,
    /// The file system's own device: flush requests done.
    pub top_flushes: Option<u64>,
    /// Time in flushes, ms.
    pub top_flush_ms: Option<u64>,
    /// Writes done.
    pub top_writes: Option<u64>,
    /// Time in writes, ms.
    pub top_write_ms: Option<u64>,
    /// Sectors of 512 bytes written.
    pub top_sectors: Option<u64>,
    /// Reads done.
    pub top_reads: Option<u64>,
    /// Weighted time in queue, ms.
    pub top_queue_ms: Option<u64>,
    /// The leaf disk (several: their sum): flush requests done.
    pub leaf_flushes: Option<u64>,
    /// Time in flushes, ms.
    pub leaf_flush_ms: Option<u64>,
    /// Writes done.
    pub leaf_writes: Option<u64>,
    /// Time in writes, ms.
    pub leaf_write_ms: Option<u64>,
    /// Sectors of 512 bytes written.
    pub leaf_sectors: Option<u64>,
    /// Reads done.
    pub leaf_reads: Option<u64>,
    /// Weighted time in queue, ms.
    pub leaf_queue_ms: Option<u64>,
    /// Bytes that other processes wrote meanwhile, to whatever disk, as far as this user may see.
    pub other_bytes: Option<u64>,
    /// The process that wrote most of them.
    pub other_process: Option<String>,
    /// Time the writing threads were ready but had no CPU, ns.
    pub run_delay_ns: Option<u64>,
}

/// A slice of time within one round of one case: what the time-series plot shows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesRow {
    /// Case.
    pub case_id: String,
    /// Round.
    pub round: u32,
    /// Start of the slice after the start of the run, ms.
    pub at_ms: f64,
    /// Commits in it.
    pub commits: u64,
    /// Their median, ns.
    pub p50_ns: u64,
    /// Their maximum, ns.
    pub max_ns: u64,
}

/// All samples of one case, pooled over rounds.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    /// Commit times.
    pub commit: LatencyHistogram,
    /// Write call times.
    pub write: LatencyHistogram,
    /// Barrier call times; empty where the barrier is part of the write.
    pub barrier: LatencyHistogram,
}

/// A run's data in memory.
#[derive(Debug, Clone)]
pub struct RunData {
    /// What was going to be done.
    pub manifest: Manifest,
    /// How it ended; absent when it was killed.
    pub outcome: Option<Outcome>,
    /// Rounds, in the order measured.
    pub rounds: Vec<RoundRow>,
    /// Time series.
    pub series: Vec<SeriesRow>,
    /// Samples by case id.
    pub samples: BTreeMap<String, Samples>,
}
