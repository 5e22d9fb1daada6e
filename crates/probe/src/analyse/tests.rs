//! What the analysis says of runs that were never measured, with known answers.

use std::collections::BTreeMap;

use highwater_report::case::{Barrier, Case, Every, FileState, IoMode};
use highwater_report::data::{
    Group, GroupKind, Manifest, Outcome, PlannedCase, RoundRow, RunData, SCHEMA_VERSION, Samples,
    Settings, StopReason,
};
use highwater_report::machine::{Device, Machine};
use highwater_report::results::{CaseStatus, ReceiptVerdict, Results};
use highwater_stats::Verdict;

use super::compare::{Measure, Terms};
use super::results;
use super::runs::{Side, compare};
use crate::advice::profile::Profile;

mod choices;

const ROUNDS: u32 = 8;
const COMMITS: u64 = 100;

/// A made-up run: every case's commits take what is asked, a little different each round.
struct MadeUp {
    data: RunData,
}

impl MadeUp {
    fn new() -> Self {
        let mut machine = Machine::default();
        machine.filesystem.kind = "ext4".to_owned();
        machine.filesystem.dio_offset_align = Some(512);
        machine.devices = vec![Device {
            name: "vda".to_owned(),
            kind: "disk".to_owned(),
            leaf: true,
            write_cache: Some("write back".to_owned()),
            fua: Some(false),
            physical_block: Some(4096),
            ..Device::default()
        }];
        let group = Group { id: "paths".to_owned(), title: String::new(), kind: GroupKind::Paths };
        let manifest = Manifest {
            schema_version: SCHEMA_VERSION,
            method_version: 1,
            highwater_version: "0.1.0".to_owned(),
            name: "made-up".to_owned(),
            preset: "probe".to_owned(),
            question: String::new(),
            started: "2026-11-30T08:00:00Z".to_owned(),
            command: Vec::new(),
            directory: "/d".to_owned(),
            settings: Settings { rounds: ROUNDS, seconds: None, seed: 1, max_bytes: None },
            machine,
            groups: vec![group],
            cases: Vec::new(),
            planned_bytes: 0,
        };
        let outcome = Outcome {
            ended: "2026-11-30T08:01:00Z".to_owned(),
            interrupted: false,
            stopped: BTreeMap::new(),
            warnings: Vec::new(),
            harness_cost_ns: Some(100.0),
        };
        let data = RunData {
            manifest,
            outcome: Some(outcome),
            rounds: Vec::new(),
            series: Vec::new(),
            samples: BTreeMap::new(),
        };
        Self { data }
    }

    /// Adds a case whose commits take about `us`, with so many flushes per barrier.
    fn case(mut self, case: Case, us: u64, flushes: f64) -> Self {
        let id = format!("c{:03}", self.data.manifest.cases.len() + 1);
        self.data.manifest.cases.push(PlannedCase {
            id: id.clone(),
            group: "paths".to_owned(),
            case,
            iterations: COMMITS,
            warmup: 0,
            capacity: 0,
            refused: None,
        });
        let mut samples = Samples::default();
        for round in 0..ROUNDS {
            // One per cent up and down, so that intervals are narrow but not of no width.
            let ns = us * (990 + u64::from(round * 7 % 20));
            for _ in 0..COMMITS {
                samples.commit.record(ns);
            }
            self.data.rounds.push(row(&id, round, ns, flushes, case));
        }
        self.data.samples.insert(id, samples);
        self
    }

    fn results(&self) -> Results {
        results(&self.data)
    }

    fn device(&mut self) -> &mut Device {
        &mut self.data.manifest.machine.devices[0]
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small positive numbers of a made-up row"
)]
fn row(id: &str, round: u32, ns: u64, flushes: f64, case: Case) -> RoundRow {
    let barriers = if case.promises_durability() { COMMITS } else { 0 };
    let flushes = Some((flushes * COMMITS as f64).round() as u64);
    let device = Some(COMMITS);
    RoundRow {
        case_id: id.to_owned(),
        round,
        elapsed_ns: ns * COMMITS,
        writes: COMMITS,
        barriers,
        bytes: COMMITS * case.block,
        commits: COMMITS,
        commit_mean_ns: ns as f64,
        commit_p50_ns: ns,
        commit_p99_ns: ns * 2,
        top_flushes: flushes,
        leaf_flushes: flushes,
        top_flush_ms: Some(1),
        leaf_flush_ms: Some(1),
        top_writes: device,
        leaf_writes: device,
        top_write_ms: Some(1),
        leaf_write_ms: Some(1),
        top_sectors: Some(COMMITS * 8),
        leaf_sectors: Some(COMMITS * 8),
        top_reads: Some(0),
        leaf_reads: Some(0),
        top_queue_ms: Some(1),
        leaf_queue_ms: Some(1),
        ..RoundRow::default()
    }
}

fn path(state: FileState, io: IoMode, barrier: Barrier) -> Case {
    Case { state, io, barrier, ..Case::DEFAULT }
}

const APPEND_FSYNC: Case = Case::DEFAULT;

fn initialised(io: IoMode, barrier: Barrier) -> Case {
    path(FileState::Initialised, io, barrier)
}

fn verdict_of(run: &MadeUp) -> ReceiptVerdict {
    run.results().cases[0].receipt.as_ref().unwrap().verdict
}

#[test]
fn a_receipt_tells_issued_elided_fua_absent_and_unasked_apart() {
    let direct_dsync = initialised(IoMode::Direct, Barrier::ODsync);
    for (case, flushes, cache, fua, verdict) in [
        (APPEND_FSYNC, 1.0, "write back", false, ReceiptVerdict::Issued),
        (APPEND_FSYNC, 2.0, "write back", true, ReceiptVerdict::Issued),
        (APPEND_FSYNC, 0.0, "write through", false, ReceiptVerdict::Elided),
        (APPEND_FSYNC, 0.0, "write back", false, ReceiptVerdict::Absent),
        (APPEND_FSYNC, 0.5, "write back", true, ReceiptVerdict::Absent),
        (direct_dsync, 0.0, "write back", true, ReceiptVerdict::FuaPossible),
        (direct_dsync, 0.0, "write back", false, ReceiptVerdict::Absent),
        (
            path(FileState::Append, IoMode::Buffered, Barrier::None),
            0.0,
            "write back",
            false,
            ReceiptVerdict::NotAsked,
        ),
    ] {
        let mut run = MadeUp::new().case(case, 100, flushes);
        run.device().write_cache = Some(cache.to_owned());
        run.device().fua = Some(fua);
        assert_eq!(verdict_of(&run), verdict, "{case}, {flushes} flushes, {cache}, FUA {fua}");
    }
}

#[test]
fn of_several_leaf_disks_the_weakest_decides_what_a_missing_flush_means() {
    let direct_dsync = initialised(IoMode::Direct, Barrier::ODsync);
    let with_two = |cache: [&str; 2], fua: [bool; 2]| {
        let mut run = MadeUp::new().case(direct_dsync, 100, 0.0);
        let devices = &mut run.data.manifest.machine.devices;
        devices.push(Device { name: "vdb".to_owned(), ..devices[0].clone() });
        for (device, (cache, fua)) in devices.iter_mut().zip(cache.into_iter().zip(fua)) {
            (device.write_cache, device.fua) = (Some(cache.to_owned()), Some(fua));
        }
        verdict_of(&run)
    };
    let (through, back) = ("write through", "write back");
    assert_eq!(with_two([through, through], [false; 2]), ReceiptVerdict::Elided);
    assert_eq!(with_two([back, through], [false; 2]), ReceiptVerdict::Absent);
    assert_eq!(with_two([through, back], [false; 2]), ReceiptVerdict::Absent);
    assert_eq!(with_two([back, back], [true; 2]), ReceiptVerdict::FuaPossible);
    assert_eq!(with_two([back, back], [false, true]), ReceiptVerdict::Absent);
}

#[test]
fn others_writes_pollute_a_receipt_but_never_hide_missing_barriers() {
    for (flushes, verdict) in [(1.0, ReceiptVerdict::Polluted), (0.0, ReceiptVerdict::Absent)] {
        let mut run = MadeUp::new().case(APPEND_FSYNC, 100, flushes);
        run.data.rounds[3].other_bytes = Some(50 << 20);
        run.data.rounds[3].other_process = Some("77 (rsync)".to_owned());
        assert_eq!(verdict_of(&run), verdict);
        let receipt = run.results().cases[0].receipt.clone().unwrap();
        assert!(receipt.reasons[0].contains("77 (rsync)"), "{receipt:?}");
    }
}

#[test]
fn without_counters_nothing_is_called_issued() {
    let mut run = MadeUp::new().case(APPEND_FSYNC, 100, 1.0);
    for row in &mut run.data.rounds {
        row.leaf_flushes = None;
    }
    assert_eq!(verdict_of(&run), ReceiptVerdict::NoCounters);
}

#[test]
fn the_fastest_path_whose_barriers_arrived_is_advised_with_its_gain() {
    let run = MadeUp::new()
        .case(APPEND_FSYNC, 300, 2.0)
        .case(initialised(IoMode::Direct, Barrier::Fdatasync), 100, 1.0)
        .case(initialised(IoMode::Direct, Barrier::ODsync), 50, 0.0)
        .case(path(FileState::Initialised, IoMode::Buffered, Barrier::None), 2, 0.0);
    let advice = run.results().advice.unwrap();
    let path = advice.path.unwrap();
    // o_dsync is faster only because its barriers reached nothing.
    assert_eq!(
        (path.barrier, path.io, path.align_bytes),
        (Barrier::Fdatasync, IoMode::Direct, 4096)
    );
    let gain = advice.gain.unwrap();
    assert_eq!(gain.verdict, Verdict::Faster);
    assert!((gain.ratio.ratio - 1.0 / 3.0).abs() < 0.01, "{gain:?}");
    let cost = advice.durability_cost.unwrap();
    assert!((cost.ratio.ratio - 50.0).abs() < 1.0, "{cost:?}");
    assert!(advice.reasons[0].contains("interval"), "{:?}", advice.reasons);
}

#[test]
fn a_simpler_path_that_is_as_fast_is_preferred() {
    let run = MadeUp::new()
        .case(APPEND_FSYNC, 300, 2.0)
        .case(initialised(IoMode::Direct, Barrier::RwfDsync), 1000, 1.0)
        .case(initialised(IoMode::Buffered, Barrier::Fdatasync), 1002, 1.0);
    let faster = MadeUp::new()
        .case(initialised(IoMode::Direct, Barrier::RwfDsync), 1000, 1.0)
        .case(initialised(IoMode::Buffered, Barrier::Fdatasync), 1002, 1.0)
        .case(APPEND_FSYNC, 3000, 2.0);
    assert_eq!(run.results().advice.unwrap().path.unwrap().state, FileState::Append);
    let path = faster.results().advice.unwrap().path.unwrap();
    assert_eq!((path.io, path.barrier), (IoMode::Buffered, Barrier::Fdatasync));
}

#[test]
fn no_verdict_is_given_where_it_would_be_a_lie() {
    // M8
    let measured = || {
        MadeUp::new().case(APPEND_FSYNC, 300, 1.0).case(
            initialised(IoMode::Direct, Barrier::Fdatasync),
            100,
            1.0,
        )
    };
    let mut tmpfs = measured();
    tmpfs.data.manifest.machine.filesystem.kind = "tmpfs".to_owned();
    let mut preloaded = measured();
    preloaded.data.manifest.machine.preloads = vec!["libeatmydata.so".to_owned()];
    let too_fast = MadeUp::new().case(APPEND_FSYNC, 300, 1.0).case(
        initialised(IoMode::Direct, Barrier::Fdatasync),
        1,
        1.0,
    );
    let absent = MadeUp::new().case(APPEND_FSYNC, 300, 0.0).case(
        initialised(IoMode::Direct, Barrier::Fdatasync),
        100,
        0.0,
    );
    for (run, word) in [
        (tmpfs, "memory"),
        (preloaded, "libeatmydata"),
        (too_fast, "faster than any"),
        (absent, "no barrier"),
    ] {
        let results = run.results();
        let advice = results.advice.clone().unwrap();
        assert!(advice.refused.iter().any(|reason| reason.contains(word)), "{:?}", advice.refused);
        assert!(advice.path.is_none() && advice.headline.is_empty());
        assert_eq!(Profile::of(&run.data, &results), None);
    }
    assert!(measured().results().advice.unwrap().refused.is_empty());
}

#[test]
fn etcds_thresholds_are_held_against_its_own_path() {
    let etcd = |us| {
        let run = MadeUp::new().case(APPEND_FSYNC, 300, 2.0).case(
            path(FileState::Allocated, IoMode::Buffered, Barrier::Fdatasync),
            us,
            2.0,
        );
        let systems = run.results().advice.unwrap().systems;
        systems.into_iter().find(|system| system.system == "etcd").unwrap()
    };
    // The made-up p99 is not the rows': percentiles come from the pooled samples.
    let passes =
        |us| etcd(us).thresholds.iter().map(|threshold| threshold.pass).collect::<Vec<_>>();
    assert_eq!(passes(900), [true, true]);
    assert_eq!(passes(5_000), [true, false]);
    assert_eq!(passes(20_000), [false, false]);
}

#[test]
fn a_failed_case_has_a_reason_and_no_number() {
    let mut run = MadeUp::new().case(APPEND_FSYNC, 300, 2.0);
    let failed = StopReason::Failed("fdatasync: EIO".to_owned());
    run.data.outcome.as_mut().unwrap().stopped.insert("c001".to_owned(), failed);
    let case = &run.results().cases[0];
    assert_eq!(case.status, CaseStatus::Failed);
    assert_eq!(case.reason.as_deref(), Some("fdatasync: EIO"));
    assert!(case.commit.is_none() && case.commits_per_second.is_none() && case.receipt.is_none());
}

#[test]
fn the_knee_of_a_batch_ladder_is_found() {
    let mut run = MadeUp::new();
    run.data.manifest.groups[0].kind = GroupKind::Batch;
    for batch in [1, 10, 100, 1000] {
        let case = Case { every: Every::Writes(batch), ..APPEND_FSYNC };
        run = run.case(case, 100 + 2 * batch, 1.0);
        let id = run.data.manifest.cases.last().unwrap().id.clone();
        for row in run.data.rounds.iter_mut().filter(|row| row.case_id == id) {
            row.writes = COMMITS * batch;
        }
    }
    let results = run.results();
    let knee = results.fits[0].line.knee.unwrap();
    assert!((knee - 50.0).abs() < 2.0, "{:?}", results.fits);
}

#[test]
fn a_run_is_no_different_from_itself_and_a_slower_one_is_found() {
    let run = |us| MadeUp::new().case(APPEND_FSYNC, us, 2.0);
    let verdict = |us| {
        let (a, b) = (run(300), run(us));
        let (ra, rb) = (a.results(), b.results());
        let sides = (Side { data: &a.data, results: &ra }, Side { data: &b.data, results: &rb });
        compare(sides.0, sides.1, &Terms::by(Measure::P50)).unwrap().cases[0].comparison.verdict
    };
    assert_eq!(verdict(300), Verdict::NoDifference);
    assert_eq!(verdict(400), Verdict::Slower);
    assert_eq!(verdict(200), Verdict::Faster);
}

#[test]
fn the_same_data_gives_the_same_results_to_the_byte() {
    // M10
    let run = MadeUp::new().case(APPEND_FSYNC, 300, 2.0).case(
        initialised(IoMode::Direct, Barrier::Fdatasync),
        100,
        1.0,
    );
    assert_eq!(format!("{:?}", run.results()), format!("{:?}", run.results()));
}

#[test]
fn runs_of_other_methods_or_other_cases_are_refused_with_the_reason() {
    let a = MadeUp::new().case(APPEND_FSYNC, 300, 2.0);
    let other_case = MadeUp::new().case(initialised(IoMode::Direct, Barrier::Fdatasync), 300, 1.0);
    let mut other_method = MadeUp::new().case(APPEND_FSYNC, 300, 2.0);
    other_method.data.manifest.method_version = 2;
    let mut failed = MadeUp::new().case(APPEND_FSYNC, 300, 2.0);
    let reason = StopReason::Failed("fsync: EIO".to_owned());
    failed.data.outcome.as_mut().unwrap().stopped.insert("c001".to_owned(), reason);
    for (b, word) in
        [(other_case, "only in"), (other_method, "method 1 and method 2"), (failed, "EIO")]
    {
        let (ra, rb) = (a.results(), b.results());
        let (left, right) =
            (Side { data: &a.data, results: &ra }, Side { data: &b.data, results: &rb });
        let refused = compare(left, right, &Terms::by(Measure::P50)).unwrap_err();
        assert!(refused.to_string().contains(word), "{refused}");
    }
}
