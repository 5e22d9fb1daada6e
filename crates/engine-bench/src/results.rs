//! What the rows say: a value per round, and of those the median, the lowest and the highest.

use highwater_stats::{Summary, median};
use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::data::{Manifest, PlannedScene, Row};
use crate::runner::Data;

/// Values of several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Lowest.
    pub lowest: f64,
    /// Highest.
    pub highest: f64,
}

/// Everything a run says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// What was measured, where and how.
    pub manifest: Manifest,
    /// Cases in order.
    pub cases: Vec<CaseResult>,
    /// Scenes in order.
    pub scenes: Vec<SceneResult>,
    /// What the loop itself costs per append, ns.
    pub loop_cost_ns: Option<f64>,
    /// Whether the user stopped the run.
    pub was_interrupted: bool,
}

/// One scene.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SceneResult {
    /// Name.
    pub name: String,
    /// What it does.
    pub about: String,
    /// Why there is no number, where there is none.
    pub stopped: Option<String>,
    /// Figures in order.
    pub figures: Vec<FigureResult>,
}

/// One figure of a scene.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureResult {
    /// What it is.
    pub name: String,
    /// Its unit; empty for a ratio.
    pub unit: String,
    /// Rounds measured.
    pub rounds: usize,
    /// Its values.
    pub value: Spread,
}

/// One case on all its subjects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseResult {
    /// Key.
    pub id: String,
    /// The case.
    pub case: Case,
    /// Subjects in order.
    pub subjects: Vec<SubjectResult>,
}

/// One case on one subject. What a subject does not show is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubjectResult {
    /// Name.
    pub subject: String,
    /// Why there is no number, where there is none.
    pub stopped: Option<String>,
    /// Rounds measured.
    pub rounds: usize,
    /// Latency over all rounds.
    pub latency: Option<Summary>,
    /// Acknowledged appends per second.
    pub appends_per_s: Option<Spread>,
    /// Commits per second.
    pub commits_per_s: Option<Spread>,
    /// Appends that one commit acknowledges.
    pub appends_per_commit: Option<Spread>,
    /// CPU time of an append, us.
    pub cpu_us: Option<Spread>,
    /// The same, less what as many bare writes and barriers cost, us.
    pub cpu_beyond_us: Option<Spread>,
    /// Times that a thread waited, per append.
    pub switches: Option<Spread>,
    /// Bytes to the leaf disk per byte of payload, until everything was settled.
    pub device_bytes_per_byte: Option<Spread>,
    /// Flushes of the leaf disk per commit.
    pub flushes_per_commit: Option<Spread>,
    /// Mean time of a commit's write and barrier, us.
    pub commit_us: Option<Spread>,
    /// Growth of memory in RAM at its peak, bytes.
    pub grown_bytes: Option<Spread>,
    /// Files open.
    pub open_files: Option<Spread>,
    /// Streams made per second.
    pub creates_per_s: Option<Spread>,
    /// Refusals per append.
    pub refused: Option<Spread>,
    /// Appends per second as a multiple of the baseline's in the same round.
    pub rate_ratio: Option<Spread>,
    /// Median latency as a multiple of the baseline's in the same round.
    pub p50_ratio: Option<Spread>,
    /// Median latency as a multiple of the bare write and barrier's in the same round.
    pub p50_over_bare: Option<Spread>,
}

impl Spread {
    /// Takes values of rounds; `None` where there are none.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (*values.first()?, *values.last()?);
        Some(Self { median: median(&values)?, lowest, highest })
    }
}

/// Says what the data of a run mean.
pub fn results(manifest: &Manifest, data: &Data) -> Results {
    let cases = manifest.cases.iter().map(|planned| {
        let subject = |name: &String| subject_result(manifest, data, &planned.id, name);
        CaseResult {
            id: planned.id.clone(),
            case: planned.case.clone(),
            subjects: planned.subjects.iter().map(subject).collect(),
        }
    });
    Results {
        cases: cases.collect(),
        scenes: manifest.scenes.iter().map(|planned| scene_result(data, planned)).collect(),
        manifest: manifest.clone(),
        loop_cost_ns: data.loop_cost_ns,
        was_interrupted: data.was_interrupted,
    }
}

fn scene_result(data: &Data, planned: &PlannedScene) -> SceneResult {
    let rows = || data.scene_rows.iter().filter(|row| row.scene == planned.name);
    let mut figures: Vec<FigureResult> = Vec::new();
    for row in rows() {
        if figures.iter().any(|figure| figure.name == row.figure) {
            continue;
        }
        let values = || rows().filter(|other| other.figure == row.figure).map(|row| row.value);
        if let Some(value) = Spread::of(values()) {
            let (name, unit) = (row.figure.clone(), row.unit.clone());
            figures.push(FigureResult { name, unit, rounds: values().count(), value });
        }
    }
    let key = (planned.name.clone(), String::new());
    SceneResult {
        name: planned.name.clone(),
        about: planned.about.clone(),
        stopped: data.stopped.get(&key).cloned(),
        figures,
    }
}

fn subject_result(manifest: &Manifest, data: &Data, id: &str, name: &str) -> SubjectResult {
    let of = |subject: &str| -> Vec<&Row> {
        data.rows.iter().filter(|row| row.case_id == id && row.subject == subject).collect()
    };
    let (rows, baseline) = (of(name), of(&manifest.baseline));
    let key = (id.to_owned(), name.to_owned());
    let each = |value: fn(&Row) -> Option<f64>| Spread::of(rows.iter().filter_map(|r| value(r)));
    let against = |value: fn(&Row) -> f64| {
        let pairs = rows.iter().filter_map(|row| {
            let other = baseline.iter().find(|other| other.round == row.round)?;
            Some(value(row) / value(other))
        });
        (name != manifest.baseline).then(|| Spread::of(pairs)).flatten()
    };
    SubjectResult {
        subject: name.to_owned(),
        stopped: data.stopped.get(&key).cloned(),
        rounds: rows.len(),
        latency: data.latency.get(&key).and_then(highwater_stats::LatencyHistogram::summary),
        appends_per_s: each(|row| Some(appends_per_s(row))),
        commits_per_s: each(|row| Some(per_s(row, row.commits?))),
        appends_per_commit: each(|row| ratio(row.appends, row.commits?)),
        cpu_us: each(|row| Some(cpu_ns(row) / appends(row) / 1e3)),
        cpu_beyond_us: each(|row| {
            let barriers = row.commits? as f64 * row.bare_cpu_ns;
            Some((cpu_ns(row) - barriers) / appends(row) / 1e3)
        }),
        switches: each(|row| ratio(row.voluntary_switches, row.appends)),
        device_bytes_per_byte: each(|row| ratio(row.all_device_bytes?, row.all_payload_bytes)),
        flushes_per_commit: each(|row| ratio(row.device_flushes?, row.commits?)),
        commit_us: each(|row| Some(ratio(row.write_ns? + row.barrier_ns?, row.commits?)? / 1e3)),
        grown_bytes: each(|row| row.grown_bytes.map(|bytes| bytes as f64)),
        open_files: each(|row| row.open_files.map(|files| files as f64)),
        creates_per_s: each(|row| Some(f64::from(row.streams) * 1e9 / row.create_ns as f64)),
        refused: each(|row| ratio(row.refused, row.appends)),
        rate_ratio: against(appends_per_s),
        p50_ratio: against(|row| row.p50_ns as f64),
        p50_over_bare: each(|row| ratio(row.p50_ns, row.bare_p50_ns)),
    }
}

fn appends(row: &Row) -> f64 {
    row.appends as f64
}

fn per_s(row: &Row, count: u64) -> f64 {
    count as f64 * 1e9 / row.elapsed_ns as f64
}

fn appends_per_s(row: &Row) -> f64 {
    per_s(row, row.appends)
}

fn cpu_ns(row: &Row) -> f64 {
    (row.user_ns + row.system_ns) as f64
}

fn ratio(a: u64, b: u64) -> Option<f64> {
    (b > 0).then(|| a as f64 / b as f64)
}
