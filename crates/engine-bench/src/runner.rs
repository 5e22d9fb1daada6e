//! Rounds: every case on every subject and every scene once, in an order that rotates and turns
//! around.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use highwater_probe::error::ProbeError;
use highwater_probe::work_dir::WorkDir;
use highwater_report::run_dir::RunDir;
use highwater_stats::LatencyHistogram;

use crate::case::{Ack, Case};
use crate::data::{Manifest, Planned, PlannedScene, Row, SceneRow};
use crate::load;
use crate::measure::{Around, Limits, NotMeasured, measure};
use crate::plan::Plan;
use crate::scene::Scene;
use crate::subject::Subject;
use crate::subjects::Bare;

/// File of the [`SceneRow`]s.
pub const SCENES: &str = "scenes.csv";

/// Longest time that the bare write and barrier of a round is measured.
const YARDSTICK: Duration = Duration::from_secs(2);

/// Where in the run it is: for progress.
#[derive(Debug, Clone)]
pub struct Step {
    /// What is measured: a subject and a case, or a scene.
    pub label: String,
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
    fn started(&mut self, step: &Step);
    /// It gave a number; a case's row is given too.
    fn measured(&mut self, step: &Step, row: Option<&Row>);
    /// It gave none.
    fn stopped(&mut self, step: &Step, why: &str);
}

/// What a run has measured.
#[derive(Debug, Default)]
pub struct Data {
    /// Rows, in the order they were measured.
    pub rows: Vec<Row>,
    /// Figures of scenes.
    pub scene_rows: Vec<SceneRow>,
    /// All latencies by case id and subject, over all rounds.
    pub latency: BTreeMap<Key, LatencyHistogram>,
    /// What could not be measured, and why.
    pub stopped: BTreeMap<Key, String>,
    /// What the loop itself costs per append, ns.
    pub loop_cost_ns: Option<f64>,
    /// Whether something failed: the run ended there.
    pub has_failed: bool,
    /// Whether the user stopped the run.
    pub was_interrupted: bool,
}

/// A case id and a subject's name, or a scene's name and nothing.
pub type Key = (String, String);

/// The manifest's list of cases.
pub fn planned(plan: &Plan) -> Vec<Planned> {
    let cases = plan.cases.iter().enumerate();
    let planned = cases.map(|(index, planned)| Planned {
        id: case_id(index),
        case: planned.case.clone(),
        subjects: planned.subjects.iter().map(|subject| subject.name().to_owned()).collect(),
    });
    planned.collect()
}

/// The manifest's list of scenes.
pub fn planned_scenes(plan: &Plan) -> Vec<PlannedScene> {
    let scene = |scene: &std::sync::Arc<dyn Scene>| PlannedScene {
        name: scene.name().to_owned(),
        about: scene.about(&plan.limits),
    };
    plan.scenes.iter().map(scene).collect()
}

fn case_id(index: usize) -> String {
    format!("c{:02}", index + 1)
}

/// A measurement of the round.
enum Turn<'a> {
    Case { id: String, case: &'a Case, subject: &'a dyn Subject },
    Scene(&'a dyn Scene),
}

impl Turn<'_> {
    fn key(&self) -> Key {
        match self {
            Self::Case { id, subject, .. } => (id.clone(), subject.name().to_owned()),
            Self::Scene(scene) => (scene.name().to_owned(), String::new()),
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Case { case, subject, .. } => format!("{}, {case}", subject.name()),
            Self::Scene(scene) => scene.name().to_owned(),
        }
    }
}

/// Cost of the machine's bare write and barrier, measured in the same round.
#[derive(Debug, Clone, Copy, Default)]
struct Yardstick {
    cpu_ns: f64,
    p50_ns: u64,
}

/// A run under way.
struct Runner<'a> {
    plan: &'a Plan,
    around: &'a Around<'a>,
    run_dir: &'a mut RunDir,
    work: WorkDir,
    data: Data,
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
    let work = WorkDir::create(manifest.directory.as_ref())?;
    run_dir.write_manifest(manifest)?;
    let payload_bytes = plan.cases.first().map(|planned| planned.case.payload_bytes);
    let loop_cost_ns = payload_bytes.map(|bytes| load::own_cost_ns(bytes, plan.limits.seed));
    let data = Data { loop_cost_ns, ..Data::default() };
    let mut runner = Runner { plan, around, run_dir, work, data };
    for round in 0..plan.rounds {
        runner.round(round, observer)?;
        if runner.has_ended() {
            break;
        }
    }
    runner.work.close()?;
    Ok(runner.data)
}

impl Runner<'_> {
    fn round(&mut self, round: u32, observer: &mut dyn Observer) -> Result<(), ProbeError> {
        let yardstick = if self.plan.cases.is_empty() { None } else { Some(self.yardstick()?) };
        let turns = turns(self.plan, round);
        for (position, turn) in turns.iter().enumerate() {
            if self.data.stopped.contains_key(&turn.key()) {
                continue;
            }
            let (label, rounds, of) = (turn.label(), self.plan.rounds, turns.len());
            let step = Step { label, round, rounds, position, of };
            observer.started(&step);
            match self.measure(turn, &step, yardstick.unwrap_or_default())? {
                Ok(()) => {
                    let is_case = matches!(turn, Turn::Case { .. });
                    let row = self.data.rows.last().filter(|_| is_case);
                    observer.measured(&step, row);
                }
                Err(NotMeasured::Interrupted) => self.data.was_interrupted = true,
                Err(NotMeasured::Unsupported(why)) => {
                    let why = format!("not offered here: {why}");
                    observer.stopped(&step, &why);
                    self.data.stopped.insert(turn.key(), why);
                }
                Err(NotMeasured::Failed(why)) => {
                    observer.stopped(&step, &why);
                    self.data.stopped.insert(turn.key(), why);
                    self.data.has_failed = true;
                }
            }
            self.data.was_interrupted |= self.around.stop.load(Ordering::Relaxed);
            if self.has_ended() {
                break;
            }
        }
        Ok(())
    }

    /// After a failed write or barrier nothing more is measured: the disk's word is worthless now.
    fn has_ended(&self) -> bool {
        self.data.was_interrupted || self.data.has_failed
    }

    fn measure(
        &mut self,
        turn: &Turn<'_>,
        step: &Step,
        yardstick: Yardstick,
    ) -> Result<Result<(), NotMeasured>, ProbeError> {
        let dir = self.work.store_dir()?;
        match turn {
            Turn::Case { id, case, subject } => {
                let mut measured = match measure(*subject, case, dir.path(), self.around) {
                    Ok(measured) => measured,
                    Err(why) => return Ok(Err(why)),
                };
                let row = &mut measured.row;
                id.clone_into(&mut row.case_id);
                subject.name().clone_into(&mut row.subject);
                (row.round, row.position) = (step.round, position(step));
                (row.bare_cpu_ns, row.bare_p50_ns) = (yardstick.cpu_ns, yardstick.p50_ns);
                self.run_dir.append_round(row)?;
                self.data.latency.entry(turn.key()).or_default().merge(&measured.latency);
                self.data.rows.push(measured.row);
            }
            Turn::Scene(scene) => {
                let figures = match scene.run(dir.path(), self.around) {
                    Ok(figures) => figures,
                    Err(why) => return Ok(Err(why)),
                };
                for figure in figures {
                    let row = SceneRow {
                        scene: scene.name().to_owned(),
                        round: step.round,
                        position: position(step),
                        figure: figure.name,
                        unit: figure.unit.to_owned(),
                        value: figure.value,
                    };
                    self.run_dir.append_row(SCENES, &row)?;
                    self.data.scene_rows.push(row);
                }
            }
        }
        Ok(Ok(()))
    }

    /// Measures the bare write and barrier for a moment; nothing where it is not offered.
    fn yardstick(&mut self) -> Result<Yardstick, ProbeError> {
        let case = Case { writers: 1, streams: 1, payload_bytes: 256, ack: Ack::Barrier };
        let dir = self.work.store_dir()?;
        let measured = (self.plan.limits.measured / 2).min(YARDSTICK);
        let limits = Limits { measured, ..self.plan.limits };
        let around = Around { limits, ..*self.around };
        let Ok(measured) = measure(&Bare, &case, dir.path(), &around) else {
            return Ok(Yardstick::default());
        };
        let row = measured.row;
        let cpu_ns = (row.user_ns + row.system_ns) as f64 / row.appends.max(1) as f64;
        Ok(Yardstick { cpu_ns, p50_ns: row.p50_ns })
    }
}

fn position(step: &Step) -> u32 {
    u32::try_from(step.position).unwrap_or(u32::MAX)
}

/// The order of a round: each begins elsewhere, and every other pair runs backwards.
fn turns(plan: &Plan, round: u32) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (index, planned) in plan.cases.iter().enumerate() {
        for subject in &planned.subjects {
            let (id, case) = (case_id(index), &planned.case);
            turns.push(Turn::Case { id, case, subject: &**subject });
        }
    }
    turns.extend(plan.scenes.iter().map(|scene| Turn::Scene(&**scene)));
    if !turns.is_empty() {
        let by = usize::try_from(round).expect("32 bits fit") % turns.len();
        turns.rotate_left(by);
    }
    if (round / 2) % 2 == 1 {
        turns.reverse();
    }
    turns
}
