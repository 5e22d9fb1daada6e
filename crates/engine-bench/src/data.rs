//! What a run leaves as data: a manifest, a row per subject, case and round, and the histograms.

use highwater_report::machine::Machine;
use serde::{Deserialize, Serialize};

use crate::case::{Ack, Case};

/// Version of the files of such a run.
pub const SCHEMA_VERSION: u32 = 1;

/// What a run was going to do, where, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the run directory's files.
    pub schema_version: u32,
    /// Version of the program.
    pub highwater_version: String,
    /// Name of the run.
    pub name: String,
    /// Always `engine`.
    pub preset: String,
    /// Start, RFC 3339, UTC.
    pub started: String,
    /// The command as typed.
    pub command: Vec<String>,
    /// The measured directory.
    pub directory: String,
    /// The machine.
    pub machine: Machine,
    /// Rounds planned.
    pub rounds: u32,
    /// Measured time of each case in each round, seconds.
    pub seconds: f64,
    /// Seed of payloads and of the order of streams.
    pub seed: u64,
    /// Bytes that a case may write while it is measured; it ends early there.
    pub most_case_bytes: u64,
    /// Subject that the others are set against.
    pub baseline: String,
    /// Every planned case, in order.
    pub cases: Vec<Planned>,
    /// Every planned scene: its name and what it does.
    pub scenes: Vec<PlannedScene>,
    /// Bytes that the run writes at most.
    pub most_bytes: u64,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// End, RFC 3339, UTC.
    pub ended: String,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Whether something failed, and ended it.
    pub has_failed: bool,
    /// What could not be measured.
    pub stopped: Vec<Stopped>,
    /// What the loop itself costs per append, ns.
    pub loop_cost_ns: Option<f64>,
}

/// What could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// Case or scene.
    pub id: String,
    /// Subject; empty for a scene.
    pub subject: String,
    /// Why.
    pub reason: String,
}

/// One scene as planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedScene {
    /// Name.
    pub name: String,
    /// What it does, with its sizes.
    pub about: String,
}

/// One figure of a scene in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SceneRow {
    /// Scene.
    pub scene: String,
    /// Round, from 0.
    pub round: u32,
    /// Position in the round, from 0.
    pub position: u32,
    /// Figure.
    pub figure: String,
    /// Its unit; empty for a ratio.
    pub unit: String,
    /// Its value.
    pub value: f64,
}

/// One case as planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Key, as in `c01`.
    pub id: String,
    /// What is measured.
    pub case: Case,
    /// Subjects that it is measured on.
    pub subjects: Vec<String>,
}

/// One subject in one case and round. Counters are differences over the measured interval, except
/// where they say otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Case.
    pub case_id: String,
    /// Subject.
    pub subject: String,
    /// Round, from 0.
    pub round: u32,
    /// Position in the round, from 0.
    pub position: u32,
    /// Writers.
    pub writers: u32,
    /// Streams.
    pub streams: u32,
    /// Bytes of an append.
    pub payload_bytes: u32,
    /// What an acknowledgement waits for.
    pub ack: Ack,
    /// The measured interval, ns.
    pub elapsed_ns: u64,
    /// Acknowledged appends.
    pub appends: u64,
    /// Times that an append was refused for lack of room, and tried again.
    pub refused: u64,
    /// Latency of an append, ns: mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Slowest.
    pub max_ns: u64,
    /// Commits; absent where the subject does not show them, as are the next five.
    pub commits: Option<u64>,
    /// Bytes they wrote.
    pub commit_bytes: Option<u64>,
    /// Time in their write calls, ns.
    pub write_ns: Option<u64>,
    /// Time in their barriers, ns.
    pub barrier_ns: Option<u64>,
    /// All other barriers.
    pub other_barriers: Option<u64>,
    /// Bytes written besides.
    pub other_bytes: Option<u64>,
    /// CPU time of the process in the program, ns.
    pub user_ns: u64,
    /// CPU time of the process in the kernel, ns.
    pub system_ns: u64,
    /// Times that a thread waited.
    pub voluntary_switches: u64,
    /// Times that a thread lost its CPU.
    pub involuntary_switches: u64,
    /// CPU time of one bare write and barrier in this round, ns.
    pub bare_cpu_ns: f64,
    /// Its median latency, ns.
    pub bare_p50_ns: u64,
    /// Bytes that reached the leaf disk; absent where its counters cannot be read.
    pub device_bytes: Option<u64>,
    /// Flushes that it answered.
    pub device_flushes: Option<u64>,
    /// Bytes that reached it from before the warm-up until everything was settled and synced.
    pub all_device_bytes: Option<u64>,
    /// Payload of all appends in that time.
    pub all_payload_bytes: u64,
    /// Most memory in RAM since before the store was opened, bytes.
    pub peak_bytes: Option<u64>,
    /// That, less what was in RAM before.
    pub grown_bytes: Option<u64>,
    /// Files that the store had open at the end of the interval.
    pub open_files: Option<u64>,
    /// Time to make the store, ns.
    pub open_ns: u64,
    /// Time to make its streams, ns.
    pub create_ns: u64,
    /// Time to settle, ns.
    pub settle_ns: u64,
}
