//! Rounds: every case on every subject once, in an order that rotates and turns around.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use highwater_probe::error::ProbeError;
use highwater_probe::work_dir::WorkDir;
use highwater_report::run_dir::RunDir;
use highwater_stats::LatencyHistogram;

use crate::case::{Ack, Case};
use crate::data::{Manifest, Planned, Row};
use crate::measure::{Around, Limits, NotMeasured, measure};
use crate::plan::Plan;
use crate::subject::Subject;
use crate::subjects::Bare;

/// Where in the run it is: for progress.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The case.
    pub case: &'a Case,
    /// The subject's name.
    pub subject: &'a str,
    /// Round, from 0.
    pub round: u32,
    /// Rounds planned.
    pub rounds: u32,
    /// Position in the round, from 0.
    pub position: usize,
    /// Measurements in the round.
    pub of: usize,
}

/// Told what happens; never while anything is timed.
pub trait Observer {
    /// A measurement begins.
    fn started(&mut self, step: &Step<'_>);
    /// It gave a row.
    fn measured(&mut self, step: &Step<'_>, row: &Row);
    /// It gave none.
    fn stopped(&mut self, step: &Step<'_>, why: &str);
}

/// What a run has measured.
#[derive(Debug, Default)]
pub struct Data {
    /// Rows, in the order they were measured.
    pub rows: Vec<Row>,
    /// All latencies by case id and subject, over all rounds.
    pub latency: BTreeMap<(String, String), LatencyHistogram>,
    /// What could not be measured: case id and subject to the reason.
    pub stopped: BTreeMap<(String, String), String>,
    /// Whether something failed: the run ended there.
    pub has_failed: bool,
    /// Whether the user stopped the run.
    pub was_interrupted: bool,
}

/// The run directory's part of a plan.
pub fn planned(plan: &Plan) -> Vec<Planned> {
    let cases = plan.cases.iter().enumerate();
    let planned = cases.map(|(index, planned)| Planned {
        id: case_id(index),
        case: planned.case.clone(),
        subjects: planned.subjects.iter().map(|subject| subject.name().to_owned()).collect(),
    });
    planned.collect()
}

fn case_id(index: usize) -> String {
    format!("c{:02}", index + 1)
}

/// A measurement of the round.
struct Turn<'a> {
    case_id: String,
    case: &'a Case,
    subject: &'a dyn Subject,
}

/// Cost of the machine's bare write and barrier, measured in the same round.
#[derive(Debug, Clone, Copy, Default)]
struct Yardstick {
    cpu_ns: f64,
    p50_ns: u64,
}

/// Runs all rounds, and removes what they wrote.
///
/// # Errors
/// When the run directory cannot be written, or the working directory not be made or removed.
pub fn run(
    plan: &Plan,
    manifest: &Manifest,
    around: &Around<'_>,
    run_dir: &mut RunDir,
    observer: &mut dyn Observer,
) -> Result<Data, ProbeError> {
    let mut work = WorkDir::create(manifest.directory.as_ref())?;
    run_dir.write_manifest(manifest)?;
    let mut data = Data::default();
    for round in 0..plan.rounds {
        let yardstick = yardstick(plan, around, &mut work)?;
        let turns = turns(plan, round);
        for (position, turn) in turns.iter().enumerate() {
            let key = (turn.case_id.clone(), turn.subject.name().to_owned());
            let (rounds, of) = (plan.rounds, turns.len());
            let subject = turn.subject.name();
            let step = Step { case: turn.case, subject, round, rounds, position, of };
            if data.stopped.contains_key(&key) {
                continue;
            }
            observer.started(&step);
            let dir = work.store_dir()?;
            match measure(turn.subject, turn.case, dir.path(), around) {
                Ok(mut measured) => {
                    fill(&mut measured.row, &step, &turn.case_id, yardstick);
                    run_dir.append_round(&measured.row)?;
                    observer.measured(&step, &measured.row);
                    data.latency.entry(key).or_default().merge(&measured.latency);
                    data.rows.push(measured.row);
                }
                Err(NotMeasured::Interrupted) => data.was_interrupted = true,
                Err(NotMeasured::Unsupported(why)) => {
                    observer.stopped(&step, &why);
                    data.stopped.insert(key, why);
                }
                Err(NotMeasured::Failed(why)) => {
                    observer.stopped(&step, &why);
                    data.stopped.insert(key, why);
                    data.has_failed = true;
                }
            }
            // After a failed write or barrier the disk's word has lost its worth.
            if data.was_interrupted || data.has_failed || around.stop.load(Ordering::Relaxed) {
                data.was_interrupted |= around.stop.load(Ordering::Relaxed);
                work.close()?;
                return Ok(data);
            }
        }
    }
    work.close()?;
    Ok(data)
}

/// Measures the bare write and barrier for a moment; zero where it is not offered.
fn yardstick(
    plan: &Plan,
    around: &Around<'_>,
    work: &mut WorkDir,
) -> Result<Yardstick, ProbeError> {
    let case = Case { writers: 1, streams: 1, payload_bytes: 256, ack: Ack::Barrier };
    let dir = work.store_dir()?;
    let limits = Limits { measured: plan.limits.measured / 2, ..plan.limits };
    let around = Around { limits, ..*around };
    let Ok(measured) = measure(&Bare, &case, dir.path(), &around) else {
        return Ok(Yardstick::default());
    };
    let row = measured.row;
    let cpu_ns = (row.user_ns + row.system_ns) as f64 / row.appends.max(1) as f64;
    Ok(Yardstick { cpu_ns, p50_ns: row.p50_ns })
}

/// The order of a round: each begins elsewhere, and every other pair runs backwards.
fn turns(plan: &Plan, round: u32) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (index, planned) in plan.cases.iter().enumerate() {
        for subject in &planned.subjects {
            let (case_id, case) = (case_id(index), &planned.case);
            turns.push(Turn { case_id, case, subject: &**subject });
        }
    }
    if !turns.is_empty() {
        let by = usize::try_from(round).expect("32 bits fit") % turns.len();
        turns.rotate_left(by);
    }
    if (round / 2) % 2 == 1 {
        turns.reverse();
    }
    turns
}

fn fill(row: &mut Row, step: &Step<'_>, case_id: &str, yardstick: Yardstick) {
    case_id.clone_into(&mut row.case_id);
    step.subject.clone_into(&mut row.subject);
    row.round = step.round;
    row.position = u32::try_from(step.position).unwrap_or(u32::MAX);
    row.bare_cpu_ns = yardstick.cpu_ns;
    row.bare_p50_ns = yardstick.p50_ns;
}
