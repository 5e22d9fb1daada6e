//! `results.json`: what the data says. The schema is written to `docs/results.schema.json`.
//!
//! Units are in the names. Percentiles come from pooled samples; comparisons from paired rounds.
//! A figure that was not measured is `null`, and the case says why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::case::{Barrier, Case, FileState, IoMode};
use crate::machine::Machine;
use highwater_stats::{LineFit, Mode, RatioInterval, Summary, Verdict};

/// Everything derived from a run's data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// Version of this schema.
    pub schema_version: u32,
    /// Version of the measuring method.
    pub method_version: u32,
    /// Name of the run.
    pub name: String,
    /// `probe` or the preset.
    pub preset: String,
    /// Start, RFC 3339, UTC.
    pub started: String,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// The machine.
    pub machine: Machine,
    /// Each planned case.
    pub cases: Vec<CaseResult>,
    /// Paired comparisons.
    pub comparisons: Vec<Comparison>,
    /// Fits over batch or block sizes.
    pub fits: Vec<Fit>,
    /// What to do; absent for runs that do not answer it.
    pub advice: Option<Advice>,
    /// What looked suspicious, each with the next step.
    pub warnings: Vec<Warning>,
}

/// Whether a case has numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CaseStatus {
    /// It has.
    Measured,
    /// Not asked of the system: it could not have worked.
    Refused,
    /// The system refused the path.
    Unsupported,
    /// It failed; its numbers are dropped.
    Failed,
    /// The run ended before it.
    NotRun,
}

/// One case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseResult {
    /// Key in the run.
    pub id: String,
    /// Section.
    pub group: String,
    /// In words.
    pub label: String,
    /// The point in the matrix.
    pub case: Case,
    /// Whether it has numbers.
    pub status: CaseStatus,
    /// Why not, where it has none.
    pub reason: Option<String>,
    /// Whether an acknowledged commit is promised to survive a power cut.
    pub durable: bool,
    /// Rounds measured.
    pub rounds: u32,
    /// Commit times, pooled.
    pub commit: Option<Summary>,
    /// Write call times, pooled.
    pub write: Option<Summary>,
    /// Barrier call times, pooled.
    pub barrier: Option<Summary>,
    /// Lowest and highest median of a round, ns.
    pub round_p50_range_ns: Option<(u64, u64)>,
    /// Commits per second of measured time.
    pub commits_per_second: Option<f64>,
    /// Records (writes) per second of measured time.
    pub records_per_second: Option<f64>,
    /// Payload MiB per second of measured time.
    pub mib_per_second: Option<f64>,
    /// Records acknowledged per barrier, mean.
    pub acks_per_barrier: Option<f64>,
    /// Most records a power cut takes if each write is taken as its own ack.
    pub records_at_risk: Option<u64>,
    /// Time of each round, ms.
    pub trial_ms: Vec<f64>,
    /// `files` cases: median time to make the files dirty, ms.
    pub dirty_ms: Option<f64>,
    /// Evidence of what reached the device.
    pub receipt: Option<Receipt>,
    /// Where the time of a mean commit went.
    pub attribution: Option<Attribution>,
    /// Separate humps of the commit times, fastest first.
    pub modes: Vec<Mode>,
    /// A lasting change of level during the run.
    pub drift: Option<Drift>,
}

impl CaseResult {
    /// Makes the result of a case that the run ended before: a name and no numbers.
    pub fn without_numbers(id: String, group: String, case: Case) -> Self {
        Self {
            id,
            group,
            label: case.to_string(),
            case,
            status: CaseStatus::NotRun,
            reason: None,
            durable: case.promises_durability(),
            rounds: 0,
            commit: None,
            write: None,
            barrier: None,
            round_p50_range_ns: None,
            commits_per_second: None,
            records_per_second: None,
            mib_per_second: None,
            acks_per_barrier: None,
            records_at_risk: None,
            trial_ms: Vec::new(),
            dirty_ms: None,
            receipt: None,
            attribution: None,
            modes: Vec::new(),
            drift: None,
        }
    }
}

/// What the receipt says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptVerdict {
    /// The device answered a flush for each barrier.
    Issued,
    /// No flush was needed as far as the kernel knows: a write-through queue.
    Elided,
    /// Writes may have carried FUA instead of a flush.
    FuaPossible,
    /// A barrier that reached no device.
    Absent,
    /// Other I/O on the disk: the counts are not this case's alone.
    Polluted,
    /// No counters to read.
    NoCounters,
    /// The case asks for no barrier.
    NotAsked,
}

impl ReceiptVerdict {
    /// The verdict in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Elided => "elided",
            Self::FuaPossible => "FUA possible",
            Self::Absent => "ABSENT",
            Self::Polluted => "polluted",
            Self::NoCounters => "no counters",
            Self::NotAsked => "not asked",
        }
    }
}

/// Evidence of what reached the device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// In one word.
    pub verdict: ReceiptVerdict,
    /// In sentences.
    pub reasons: Vec<String>,
    /// The file system's own device.
    pub top: Option<DeviceReceipt>,
    /// The leaf disk, where it is another one.
    pub leaf: Option<DeviceReceipt>,
    /// The file's extents.
    pub extents: Option<ExtentReceipt>,
}

/// Counters of a device, per barrier (per write for cases without one).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceReceipt {
    /// Name.
    pub device: String,
    /// Flushes.
    pub flushes: f64,
    /// Device writes.
    pub writes: f64,
    /// KiB written.
    pub kib: f64,
    /// Device reads.
    pub reads: f64,
    /// Mean requests in flight: time in queue / elapsed.
    pub queue_depth: f64,
    /// Mean time of a flush, us.
    pub flush_us: Option<f64>,
    /// Mean time of a write, us.
    pub write_us: Option<f64>,
}

/// Extents of the file over the measured interval (first round).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExtentReceipt {
    /// Extents before and after.
    pub extents: (u64, u64),
    /// Bytes in unwritten extents before and after.
    pub unwritten_bytes: (u64, u64),
    /// Whether the first block that measured writes touch stayed where it was; absent where none
    /// was placed before.
    pub first_block_unmoved: Option<bool>,
    /// Whether the end of file stayed where it was.
    pub eof_fixed: bool,
}

/// Where the time of a mean commit went, us. The parts add up to the mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Attribution {
    /// In the write calls.
    pub write_call_us: f64,
    /// Device writing the data.
    pub device_write_us: f64,
    /// Device flushing.
    pub device_flush_us: f64,
    /// Device work beyond one data write and one flush: journal and metadata.
    pub journal_us: f64,
    /// Ready to run without a CPU.
    pub run_queue_us: f64,
    /// Not explained by any counter: the kernel's own work, hand-offs, wake-ups.
    pub unexplained_us: f64,
}

/// A lasting change of level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// When, ms after the start of the run.
    pub at_ms: f64,
    /// Median before, ns.
    pub before_ns: f64,
    /// Median after, ns.
    pub after_ns: f64,
    /// Chance of a change this large without drift.
    pub p_value: f64,
}

/// One case against another, from paired rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Case id of the baseline.
    pub baseline: String,
    /// Case id set against it.
    pub candidate: String,
    /// Measure, as in `p50 of the commit`.
    pub measure: String,
    /// candidate / baseline with its interval.
    pub ratio: RatioInterval,
    /// The answer.
    pub verdict: Verdict,
}

/// Time per barrier as a line: time = fixed + `per_unit` x units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// Section it was fitted over.
    pub group: String,
    /// What was fitted, in words.
    pub label: String,
    /// `writes per barrier` or `KiB per write`.
    pub unit: String,
    /// The line, in us; `knee` is the number of units where half of the fixed cost is gone.
    pub line: LineFit,
}

/// A warning with its next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// What was seen.
    pub seen: String,
    /// What to do about it.
    pub next_step: String,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// Reasons why no verdict is given; empty when one is.
    pub refused: Vec<String>,
    /// The write path to use.
    pub path: Option<WritePath>,
    /// The answer in three numbers.
    pub headline: Vec<Headline>,
    /// The recommended path against append + fsync.
    pub gain: Option<Comparison>,
    /// The recommended path against the unsynced baseline: what durability costs.
    pub durability_cost: Option<Comparison>,
    /// Sentences with the effect and interval each rests on.
    pub reasons: Vec<String>,
    /// What it means for well-known systems.
    pub systems: Vec<SystemAdvice>,
}

/// Exact settings of a write path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WritePath {
    /// Case it was measured as.
    pub case_id: String,
    /// Prepare the file so.
    pub state: FileState,
    /// Write it so.
    pub io: IoMode,
    /// Make it durable so.
    pub barrier: Barrier,
    /// Align offsets, lengths and memory to, bytes.
    pub align_bytes: u32,
    /// Records per barrier where half of the fixed cost is gone.
    pub knee_records: Option<f64>,
    /// Median commit, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
}

/// One number of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Headline {
    /// The number with its unit, as in `118 us`.
    pub value: String,
    /// What it is.
    pub label: String,
    /// n, spread, where from.
    pub detail: String,
}

/// What the numbers mean for one system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemAdvice {
    /// Name, as in `PostgreSQL`.
    pub system: String,
    /// How it writes its log by default.
    pub writes: String,
    /// Case that stands for it here.
    pub case_id: Option<String>,
    /// That case's p50 and p99, ns.
    pub p50_p99_ns: Option<(u64, u64)>,
    /// Settings to use here.
    pub settings: Vec<SystemSetting>,
    /// Published thresholds, held against the case.
    pub thresholds: Vec<Threshold>,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SystemSetting {
    /// As in `wal_sync_method = fdatasync`.
    pub setting: String,
    /// Why, with the measured effect.
    pub why: String,
}

/// A published threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Threshold {
    /// As in `p99 of WAL fsync`.
    pub name: String,
    /// At most, ns.
    pub limit_ns: u64,
    /// Measured here, ns.
    pub measured_ns: u64,
    /// Whether it holds.
    pub pass: bool,
    /// Who published it.
    pub source: String,
}
