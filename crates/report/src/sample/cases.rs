//! The cases of the sample, their rounds, samples and results.

use highwater_stats::{LatencyHistogram, Mode};

use super::draw::{Random, Shape, part, whole};
use crate::case::{Arrival, Barrier, Case, Every, FileState, IoMode, Sharing};
use crate::data::{PlannedCase, RoundRow, Samples, SeriesRow};
use crate::results::{
    Attribution, CaseResult, CaseStatus, DeviceReceipt, Drift, ExtentReceipt, Receipt,
    ReceiptVerdict,
};

const ROUNDS: u32 = 5;
const COMMITS_PER_ROUND: u64 = 400;
const SLICES_PER_ROUND: u64 = 20;

/// One case with everything about it.
pub(super) struct Drawn {
    pub(super) result: CaseResult,
    pub(super) rounds: Vec<RoundRow>,
    pub(super) series: Vec<SeriesRow>,
    pub(super) samples: Option<Samples>,
}

impl Drawn {
    pub(super) fn id(&self) -> String {
        self.result.id.clone()
    }

    pub(super) fn planned(&self) -> PlannedCase {
        let refused = (self.result.status == CaseStatus::Refused)
            .then(|| self.result.reason.clone().unwrap_or_default());
        PlannedCase {
            id: self.id(),
            group: self.result.group.clone(),
            case: self.result.case,
            iterations: COMMITS_PER_ROUND,
            warmup: 50,
            capacity: (COMMITS_PER_ROUND + 50) * self.result.case.block,
            refused,
        }
    }
}

struct Spec {
    group: &'static str,
    case: Case,
    label: String,
    shape: Shape,
    missing: Option<(CaseStatus, &'static str)>,
}

pub(super) fn draw_all() -> Vec<Drawn> {
    let mut specs = paths();
    specs.extend(sizes());
    specs.extend(batch());
    specs.extend(interval());
    specs.extend(writers());
    specs.extend(files());
    specs.iter().enumerate().map(|(number, spec)| drawn(number, spec)).collect()
}

fn shape(p50_us: f64, slow_share: f64) -> Shape {
    Shape { p50_us, spread: 0.11, slow_share }
}

fn spec(group: &'static str, case: Case, shape: Shape) -> Spec {
    Spec { group, case, label: case.to_string(), shape, missing: None }
}

fn paths() -> Vec<Spec> {
    use Barrier::{Fdatasync, Fsync, None as Never, ODsync, RwfDsync, Uring};
    use FileState::{Allocated, Append, Initialised};
    use IoMode::{Buffered, Direct};

    let path = |state, io, barrier, p50_us, slow| {
        let case = Case { state, io, barrier, ..Case::DEFAULT };
        let label = format!("{state} {io} {barrier}");
        Spec { label, ..spec("paths", case, shape(p50_us, slow)) }
    };
    let mut specs = vec![
        path(Append, Buffered, Fsync, 318.0, 0.04),
        path(Append, Buffered, Fdatasync, 311.0, 0.05),
        path(Allocated, Buffered, Fdatasync, 297.0, 0.03),
        path(Initialised, Buffered, Fdatasync, 139.0, 0.015),
        path(Initialised, Direct, Fdatasync, 118.0, 0.006),
        path(Initialised, Direct, ODsync, 121.0, 0.009),
        path(Initialised, Direct, RwfDsync, 0.0, 0.0),
        path(Initialised, Direct, Uring, 0.0, 0.0),
        path(Append, Buffered, Never, 3.4, 0.002),
    ];
    specs[6].missing = Some((
        CaseStatus::Unsupported,
        "pwritev2 with RWF_DSYNC: EOPNOTSUPP; the file system does not take the flag",
    ));
    specs[7].missing = Some((
        CaseStatus::Failed,
        "fdatasync returned EIO at write 212 of round 1; see dmesg for the device's own words",
    ));
    specs
}

fn sizes() -> Vec<Spec> {
    let mut specs = Vec::new();
    let paths = [
        (FileState::Append, IoMode::Buffered, 300.0, 0.9),
        (FileState::Initialised, IoMode::Buffered, 132.0, 0.75),
        (FileState::Initialised, IoMode::Direct, 115.0, 0.52),
    ];
    for (state, io, fixed_us, us_per_kib) in paths {
        for kib in [4_u64, 16, 32, 64, 128, 256, 512, 1024] {
            let block = kib << 10;
            let barrier = Barrier::Fdatasync;
            let case = Case { state, io, barrier, block, ..Case::DEFAULT };
            specs.push(spec("sizes", case, shape(fixed_us + us_per_kib * kib as f64, 0.01)));
        }
    }
    specs
}

fn batch() -> Vec<Spec> {
    let mut specs = Vec::new();
    let paths = [
        (FileState::Append, IoMode::Buffered, 305.0, 3.9),
        (FileState::Initialised, IoMode::Direct, 113.0, 13.0),
    ];
    for (state, io, fixed_us, each_us) in paths {
        for writes in [1_u64, 10, 100, 1000] {
            let (barrier, every) = (Barrier::Fdatasync, Every::Writes(writes));
            let case = Case { state, io, barrier, every, ..Case::DEFAULT };
            specs.push(spec("batch", case, shape(fixed_us + each_us * writes as f64, 0.01)));
        }
    }
    specs
}

fn interval() -> Vec<Spec> {
    let every = [
        (Every::Never, 212.0),
        (Every::End, 391.0),
        (Every::Bytes(100 << 20), 402.0),
        (Every::Bytes(16 << 20), 431.0),
        (Every::Bytes(1 << 20), 655.0),
        (Every::Bytes(256 << 10), 1130.0),
        (Every::Bytes(64 << 10), 2480.0),
        (Every::Bytes(16 << 10), 6910.0),
    ];
    let block = 16 << 10;
    let case = Case { block, barrier: Barrier::Fdatasync, ..Case::DEFAULT };
    every
        .into_iter()
        .map(|(every, ms)| {
            let label = match every {
                Every::Never => "never".to_owned(),
                Every::End => "only at the end".to_owned(),
                other => other.to_string(),
            };
            Spec { label, ..spec("interval", Case { every, ..case }, shape(ms * 1e3, 0.0)) }
        })
        .collect()
}

fn writers() -> Vec<Spec> {
    let mut specs = Vec::new();
    for arrival in [Arrival::Closed, Arrival::Open { per_second: 2000 }] {
        for (writers, p50_us) in [(1, 119.0), (4, 214.0), (16, 236.0), (64, 298.0), (256, 610.0)] {
            let open = if arrival == Arrival::Closed { 1.0 } else { 1.35 };
            let case = Case {
                state: FileState::Initialised,
                io: IoMode::Direct,
                barrier: Barrier::Fdatasync,
                sharing: Sharing::Shared,
                writers,
                arrival,
                ..Case::DEFAULT
            };
            specs.push(spec("writers", case, shape(p50_us * open, 0.02)));
        }
    }
    specs
}

fn files() -> Vec<Spec> {
    let mut specs = Vec::new();
    for (barrier, writers, each_us, fixed_us) in [
        (Barrier::Fdatasync, 1, 290.0, 20.0),
        (Barrier::Fdatasync, 16, 74.0, 310.0),
        (Barrier::Syncfs, 1, 9.0, 1_900.0),
    ] {
        for files in [10_u32, 100, 1_000, 10_000] {
            let case = Case { barrier, writers, files, ..Case::DEFAULT };
            let p50_us = fixed_us + each_us * f64::from(files);
            let mut spec = spec("files", case, shape(p50_us, 0.0));
            if files == 10_000 && writers == 1 && barrier == Barrier::Fdatasync {
                let why = "would take 15 s, more than the time given; raise --seconds";
                spec.missing = Some((CaseStatus::Refused, why));
            }
            specs.push(spec);
        }
    }
    specs
}

fn drawn(number: usize, spec: &Spec) -> Drawn {
    let id = format!("c{:02}", number + 1);
    let mut result = empty_result(id, spec);
    let mut drawn =
        Drawn { rounds: Vec::new(), series: Vec::new(), samples: None, result: result.clone() };
    if spec.missing.is_some() {
        return drawn;
    }
    let mut random = Random::new(number as u64);
    let mut commit = LatencyHistogram::new();
    let few = matches!(spec.group, "interval" | "files");
    for round in 0..ROUNDS {
        let mut histogram = LatencyHistogram::new();
        let place = (u64::from(round), number as u64);
        if few {
            histogram.record(spec.shape.ns(&mut random));
        } else {
            drawn.series.extend(slices(&mut random, spec, place, &mut histogram));
        }
        drawn.rounds.push(round_row(&result, place, &histogram));
        commit.merge(&histogram);
    }
    let samples = Samples { write: part(&commit, 0.04), barrier: part(&commit, 0.96), commit };
    fill_result(&mut result, &samples, &drawn.rounds);
    for row in &mut drawn.series {
        row.case_id.clone_from(&result.id);
    }
    Drawn { result, samples: Some(samples), ..drawn }
}

/// Draws one round as slices of time; round 3 of every case has one stalled slice.
fn slices(
    random: &mut Random,
    spec: &Spec,
    (round, number): (u64, u64),
    into: &mut LatencyHistogram,
) -> Vec<SeriesRow> {
    let mut at_ms = (round * 9_000 + number * 190) as f64;
    let mut rows = Vec::new();
    for slice in 0..SLICES_PER_ROUND {
        let commits = 0..COMMITS_PER_ROUND / SLICES_PER_ROUND;
        let mut times: Vec<u64> = commits.map(|_| spec.shape.ns(random)).collect();
        if round == 3 && slice == 9 && spec.case.promises_durability() {
            times.push(whole(18e6 + 9e6 * random.unit()));
        }
        times.sort_unstable();
        for ns in &times {
            into.record(*ns);
        }
        rows.push(SeriesRow {
            case_id: String::new(),
            round: u32::try_from(round).expect("few rounds"),
            at_ms,
            commits: times.len() as u64,
            p50_ns: times[times.len() / 2],
            max_ns: times[times.len() - 1],
        });
        at_ms += times.iter().sum::<u64>() as f64 / 1e6;
    }
    rows
}

fn round_row(result: &CaseResult, place: (u64, u64), histogram: &LatencyHistogram) -> RoundRow {
    let n = histogram.len();
    let flushes = if result.case.state == FileState::Initialised { n } else { 2 * n };
    RoundRow {
        case_id: result.id.clone(),
        round: u32::try_from(place.0).expect("few rounds"),
        position: u32::try_from(place.1).expect("few cases"),
        started_ms: place.0 * 9_000 + place.1 * 190,
        elapsed_ns: whole(histogram.mean() * n as f64),
        writes: n,
        barriers: n,
        bytes: n * result.case.block,
        commits: n,
        commit_mean_ns: histogram.mean(),
        commit_p50_ns: histogram.quantile(0.5),
        commit_p90_ns: histogram.quantile(0.9),
        commit_p99_ns: histogram.quantile(0.99),
        commit_p999_ns: histogram.quantile(0.999),
        commit_max_ns: histogram.max(),
        write_mean_ns: histogram.mean() * 0.04,
        barrier_mean_ns: (!result.case.barrier.is_part_of_write()).then(|| histogram.mean() * 0.96),
        acks_per_barrier_max: result.case.writers.into(),
        records_at_risk: 1,
        readback_records: n,
        extents_before: Some(1),
        extents_after: Some(1),
        top_flushes: Some(flushes),
        other_process: (place.0 == 3).then(|| "postgres, \"main\"".to_owned()),
        ..RoundRow::default()
    }
}

fn empty_result(id: String, spec: &Spec) -> CaseResult {
    let (status, reason) = match spec.missing {
        Some((status, reason)) => (status, Some(reason.to_owned())),
        None => (CaseStatus::Measured, None),
    };
    let empty = CaseResult::without_numbers(id, spec.group.into(), spec.case);
    CaseResult { label: spec.label.clone(), status, reason, ..empty }
}

fn fill_result(result: &mut CaseResult, samples: &Samples, rounds: &[RoundRow]) {
    let summary = samples.commit.summary().expect("samples were drawn");
    let per_commit = match result.case.every {
        Every::Writes(n) => n,
        _ => 1,
    };
    let rate = 1e9 / summary.mean_ns * f64::from(result.case.writers);
    let p50s = || rounds.iter().map(|row| row.commit_p50_ns);
    result.rounds = ROUNDS;
    result.round_p50_range_ns = p50s().min().zip(p50s().max());
    result.trial_ms = rounds.iter().map(|row| row.elapsed_ns as f64 / 1e6).collect();
    match result.group.as_str() {
        "interval" => result.mib_per_second = Some(256e9 / summary.mean_ns),
        "files" => result.dirty_ms = Some(f64::from(result.case.files) * 0.011),
        _ => {
            let due = match result.case.arrival {
                Arrival::Closed => f64::INFINITY,
                Arrival::Open { per_second } => per_second as f64,
            };
            let records = (rate * per_commit as f64).min(due);
            result.commits_per_second = Some(rate);
            result.records_per_second = Some(records);
            result.mib_per_second = Some(records * result.case.block as f64 / 1_048_576.0);
            result.acks_per_barrier = Some(f64::from(result.case.writers).powf(0.8));
            result.records_at_risk =
                Some(if result.durable { per_commit } else { COMMITS_PER_ROUND });
        }
    }
    result.write = samples.write.summary();
    result.barrier = samples.barrier.summary();
    if result.group == "paths" {
        path_details(result, summary.mean_ns / 1e3, summary.p50_ns);
    }
    result.commit = Some(summary);
}

fn path_details(result: &mut CaseResult, mean_us: f64, p50_ns: u64) {
    let initialised = result.case.state == FileState::Initialised;
    let flushes = if initialised { 1.0 } else { 2.0 };
    let device = |name: &str| DeviceReceipt {
        device: name.into(),
        flushes: if result.durable { flushes } else { 0.0 },
        writes: if initialised { 1.0 } else { 2.6 },
        kib: if initialised { 4.0 } else { 8.7 },
        reads: 0.0,
        queue_depth: 0.83,
        flush_us: result.durable.then_some(61.2),
        write_us: Some(34.8),
    };
    let (verdict, reason) = match (result.durable, result.id.as_str()) {
        (false, _) => (ReceiptVerdict::NotAsked, None),
        (_, "c03") => (
            ReceiptVerdict::Polluted,
            Some(
                "postgres wrote 14.2 MiB to the disk in round 3; the counts are not this case's \
                 alone",
            ),
        ),
        (_, "c06") => (
            ReceiptVerdict::FuaPossible,
            Some("the device takes FUA: its writes may have been durable without a flush"),
        ),
        _ => (ReceiptVerdict::Issued, None),
    };
    let end = if result.case.state == FileState::Append { 14 } else { 1 };
    result.receipt = Some(Receipt {
        verdict,
        reasons: reason.map(str::to_owned).into_iter().collect(),
        top: Some(device("nvme0n1p2")),
        leaf: Some(device("nvme0n1")),
        extents: Some(ExtentReceipt {
            extents: (1, end),
            unwritten_bytes: match result.case.state {
                FileState::Allocated => (2 << 20, 256 << 10),
                _ => (0, 0),
            },
            first_block_unmoved: (result.case.state != FileState::Append).then_some(true),
            eof_fixed: result.case.state != FileState::Append,
        }),
    });
    if result.durable {
        let journal = if initialised { 0.0 } else { 0.47 };
        result.attribution = Some(Attribution {
            write_call_us: mean_us * 0.04,
            device_write_us: mean_us * 0.26 * (1.0 - journal),
            device_flush_us: mean_us * 0.52 * (1.0 - journal),
            journal_us: mean_us * 0.78 * journal,
            run_queue_us: mean_us * 0.03,
            unexplained_us: mean_us * 0.15,
        });
    }
    let share = 0.95;
    let mode = |factor: u64, share| Mode {
        centre_ns: p50_ns * factor,
        low_ns: p50_ns * factor * 7 / 10,
        high_ns: p50_ns * factor * 14 / 10,
        share,
    };
    result.modes = vec![mode(1, share), mode(8, 1.0 - share)];
    if result.id == "c02" {
        let before_ns = p50_ns as f64;
        let drift =
            Drift { at_ms: 27_400.0, before_ns, after_ns: before_ns * 1.31, p_value: 0.0004 };
        result.drift = Some(drift);
    }
}
