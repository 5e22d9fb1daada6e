//! A run that was never measured, for tests and to look at what the renderers make of it.
//!
//! It has every kind of section, cases that failed, were refused and promise nothing, a polluted
//! receipt, drift and a stall. Its numbers are drawn from a seeded generator and mean nothing.

mod advice;
mod cases;
mod draw;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::data::{
    Group, GroupKind, Manifest, Outcome, PlannedCase, RunData, SCHEMA_VERSION, Settings, StopReason,
};
use crate::machine::{Device, Filesystem, Machine};
use crate::results::{CaseStatus, Fit, Results, Warning};
use highwater_stats::fit_line;

const METHOD_VERSION: u32 = 1;
const STARTED: &str = "2026-11-30T08:15:02Z";

/// Makes a whole run that has an answer.
pub fn run() -> (RunData, Results) {
    static DRAWN: OnceLock<(RunData, Results)> = OnceLock::new();
    DRAWN.get_or_init(draw).clone()
}

fn draw() -> (RunData, Results) {
    let drawn = cases::draw_all();
    let planned = drawn.iter().map(cases::Drawn::planned).collect();
    let mut data = RunData {
        manifest: manifest(planned),
        outcome: Some(outcome(&drawn)),
        rounds: drawn.iter().flat_map(|d| d.rounds.clone()).collect(),
        series: drawn.iter().flat_map(|d| d.series.clone()).collect(),
        samples: drawn.iter().filter_map(|d| Some((d.id(), d.samples.clone()?))).collect(),
    };
    data.rounds.sort_by_key(|row| (row.round, row.position));
    let mut results = results(&data.manifest, drawn.into_iter().map(|d| d.result).collect());
    results.comparisons = advice::comparisons(&results);
    results.fits = fits(&results);
    results.advice = Some(advice::advice(&results));
    (data, results)
}

/// Makes a run whose place does not allow a verdict.
pub fn refused_run() -> (RunData, Results) {
    let (mut data, mut results) = run();
    for machine in [&mut data.manifest.machine, &mut results.machine] {
        machine.preloads = vec!["libeatmydata.so".to_owned()];
        machine.filesystem.options.push("nobarrier".to_owned());
    }
    let advice = results.advice.as_mut().expect("a run has advice");
    advice.refused = vec![
        "the file system is mounted with nobarrier: it acknowledges barriers without flushing \
         the device"
            .to_owned(),
        "libeatmydata.so is preloaded: it turns fsync and fdatasync into no-ops".to_owned(),
    ];
    advice.path = None;
    advice.headline.clear();
    advice.gain = None;
    advice.durability_cost = None;
    advice.reasons.clear();
    advice.systems.clear();
    (data, results)
}

/// Makes a run that was killed before its end.
pub fn killed_run() -> (RunData, Results) {
    let (mut data, mut results) = run();
    data.outcome = None;
    data.series.clear();
    data.samples.clear();
    data.rounds.retain(|row| row.round == 0);
    results.interrupted = true;
    results.advice = None;
    results.comparisons.clear();
    for case in &mut results.cases {
        (case.drift, case.attribution) = (None, None);
        case.modes.clear();
    }
    (data, results)
}

fn manifest(cases: Vec<PlannedCase>) -> Manifest {
    let group = |id: &str, title: &str, kind| Group { id: id.into(), title: title.into(), kind };
    let command = "highwater probe /var/lib/data --name db-host-7 --seconds 60";
    Manifest {
        schema_version: SCHEMA_VERSION,
        method_version: METHOD_VERSION,
        highwater_version: "0.1.0".into(),
        name: "db-host-7".into(),
        preset: "probe".into(),
        question: "What does a durable write cost in /var/lib/data, and what is the cheapest \
                   write path that keeps its promise?"
            .into(),
        started: STARTED.into(),
        command: command.split(' ').map(str::to_owned).collect(),
        directory: "/var/lib/data".into(),
        settings: Settings { rounds: 5, seconds: Some(60.0), seed: 7_429, max_bytes: None },
        machine: machine(),
        groups: vec![
            group("paths", "Write paths at 4 KiB", GroupKind::Paths),
            group("sizes", "What a larger write costs", GroupKind::Sizes),
            group("batch", "What batching buys", GroupKind::Batch),
            group("interval", "Barriers while writing 256 MiB", GroupKind::Interval),
            group("writers", "Several writers, one log", GroupKind::Writers),
            group("files", "Many small files", GroupKind::Files),
        ],
        planned_bytes: cases.iter().map(|case| case.iterations * case.case.block).sum(),
        cases,
    }
}

fn machine() -> Machine {
    let device = |name: &str, kind: &str, leaf: bool| Device {
        name: name.into(),
        kind: kind.into(),
        leaf,
        model: leaf.then(|| "SAMSUNG MZQL21T9HCJR-00A07".into()),
        size_bytes: Some(1_920_383_410_176),
        rotational: Some(false),
        scheduler: Some("none".into()),
        write_cache: Some("write back".into()),
        fua: Some(true),
        logical_block: Some(512),
        physical_block: Some(4096),
    };
    Machine {
        kernel: "6.18.1".into(),
        cpu: Some("AMD EPYC 9354P 32-Core Processor".into()),
        cpus: 16,
        governor: Some("performance".into()),
        clock_source: Some("tsc".into()),
        timer_cost_ns: 23.4,
        memory_bytes: Some(64 << 30),
        virtualisation: Some("kvm".into()),
        filesystem: Filesystem {
            kind: "ext4".into(),
            mount_point: "/var/lib".into(),
            source: "/dev/nvme0n1p2".into(),
            options: ["rw", "relatime", "errors=remount-ro"].map(str::to_owned).into(),
            journal: Some("jbd2, data=ordered".into()),
            free_bytes: 812 << 30,
            dio_memory_align: Some(4),
            dio_offset_align: Some(512),
        },
        devices: vec![device("nvme0n1p2", "partition", false), device("nvme0n1", "disk", true)],
        io_limits: Vec::new(),
        pressure: vec!["io some avg10=0.42 avg60=0.31 avg300=0.12 total=91823911".into()],
        preloads: Vec::new(),
    }
}

fn outcome(drawn: &[cases::Drawn]) -> Outcome {
    let stopped: BTreeMap<String, StopReason> = drawn
        .iter()
        .filter_map(|d| {
            let reason = d.result.reason.clone()?;
            let stop = match d.result.status {
                CaseStatus::Unsupported => StopReason::Unsupported(reason),
                CaseStatus::Failed => StopReason::Failed(reason),
                _ => return None,
            };
            Some((d.id(), stop))
        })
        .collect();
    Outcome {
        ended: "2026-11-30T08:16:04Z".into(),
        interrupted: false,
        stopped,
        warnings: vec!["other processes wrote to the disk during 1 of 5 rounds".into()],
        harness_cost_ns: Some(61.0),
    }
}

fn results(manifest: &Manifest, cases: Vec<crate::results::CaseResult>) -> Results {
    Results {
        schema_version: SCHEMA_VERSION,
        method_version: METHOD_VERSION,
        name: manifest.name.clone(),
        preset: manifest.preset.clone(),
        started: manifest.started.clone(),
        interrupted: false,
        machine: manifest.machine.clone(),
        cases,
        comparisons: Vec::new(),
        fits: Vec::new(),
        advice: None,
        warnings: vec![Warning {
            seen: "postgres (pid 812) wrote 14.2 MiB to nvme0n1 during round 3".into(),
            next_step: "stop it, or repeat with --rounds 9 so that one round weighs less".into(),
        }],
    }
}

fn fits(results: &Results) -> Vec<Fit> {
    let of = |group: &str, label: &str, unit: &str, x: fn(&crate::case::Case) -> f64| {
        let points: Vec<(f64, f64)> = results
            .cases
            .iter()
            .filter(|case| case.group == group && case.label.starts_with(label))
            .filter_map(|case| Some((x(&case.case), case.commit.as_ref()?.p50_ns as f64 / 1e3)))
            .collect();
        let line = fit_line(&points).expect("sections have several sizes");
        Fit { group: group.into(), label: label.into(), unit: unit.into(), line }
    };
    let writes = |case: &crate::case::Case| match case.every {
        crate::case::Every::Writes(n) => n as f64,
        _ => 0.0,
    };
    let kib = |case: &crate::case::Case| case.block as f64 / 1024.0;
    vec![
        of("batch", "append buffered fdatasync", "writes per barrier", writes),
        of("batch", "initialised direct fdatasync", "writes per barrier", writes),
        of("sizes", "initialised direct fdatasync", "KiB per write", kib),
    ]
}

#[cfg(test)]
mod tests;
