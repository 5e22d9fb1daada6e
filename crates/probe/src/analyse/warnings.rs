//! What looked suspicious in a run, each with the next step. What many cases share is said once.

use highwater_report::data::RunData;
use highwater_report::results::{CaseResult, CaseStatus, ReceiptVerdict, Warning};
use highwater_stats::units;

use crate::machine::refusal;
use crate::runner::rounds_of;

/// Waiting for a CPU beyond this share of the measured time is worth a warning.
const RUN_QUEUE_SHARE: f64 = 0.05;
/// Bytes per barrier beyond this multiple of the data are worth a warning.
const AMPLIFICATION: f64 = 8.0;
/// The harness should cost less than this per operation, ns.
const HARNESS_NS: f64 = 300.0;

/// Collects warnings over a whole run.
pub fn of(data: &RunData, cases: &[CaseResult]) -> Vec<Warning> {
    let mut warnings = about_machine(data);
    warnings.extend(about_receipts(cases));
    let measured: Vec<&CaseResult> =
        cases.iter().filter(|case| case.status == CaseStatus::Measured).collect();
    warnings.extend(waited_for_cpu(data, &measured));
    warnings.extend(drifted(&measured));
    warnings.extend(amplified(&measured));
    let Some(outcome) = &data.outcome else {
        warnings.push(warning(
            "the run was killed: its samples are lost, its rounds are not".to_owned(),
            "Percentiles over all rounds are missing; measure again for them.",
        ));
        return warnings;
    };
    if let Some(cost) = outcome.harness_cost_ns.filter(|cost| *cost > HARNESS_NS) {
        warnings.push(warning(
            format!("the harness itself cost {cost:.0} ns per operation"),
            "Use a release build; on a slow clock source times below 10 us are too high.",
        ));
    }
    warnings.extend(
        outcome
            .warnings
            .iter()
            .map(|text| warning(text.clone(), "Measure again on a quiet machine.")),
    );
    warnings
}

fn warning(seen: String, next_step: &str) -> Warning {
    Warning { seen, next_step: next_step.to_owned() }
}

fn about_machine(data: &RunData) -> Vec<Warning> {
    let machine = &data.manifest.machine;
    let refused = refusal::reasons(machine)
        .into_iter()
        .map(|reason| warning(reason, "Take no figure of this run for the cost of durability."));
    let limited = machine.io_limits.iter().map(|limit| {
        warning(
            format!("a cgroup limits I/O here: {limit}"),
            "The figures show the limit as well as the disk: lift it, or keep it in mind.",
        )
    });
    refused.chain(limited).collect()
}

fn about_receipts(cases: &[CaseResult]) -> Vec<Warning> {
    let judged = [
        (
            ReceiptVerdict::Absent,
            "barriers reached no device",
            "Do not rely on these paths. Look for `nobarrier`, a volatile overlay, or a hypervisor \
             that drops flushes.",
        ),
        (
            ReceiptVerdict::Elided,
            "the kernel sent no flushes, taking the device for write-through",
            "Make sure that the drive's cache is protected: its data sheet, and \
             /sys/block/<disk>/queue/write_cache.",
        ),
        (
            ReceiptVerdict::Polluted,
            "other processes wrote meanwhile",
            "Stop them and measure again; the receipts name the process.",
        ),
    ];
    judged
        .into_iter()
        .filter_map(|(verdict, seen, next_step)| {
            let has = |case: &&CaseResult| {
                case.receipt.as_ref().is_some_and(|receipt| receipt.verdict == verdict)
            };
            let labels: Vec<&str> =
                cases.iter().filter(has).map(|case| case.label.as_str()).collect();
            let (first, others) = labels.split_first()?;
            Some(warning(format!("{seen}: {first}{}", and_more(others.len())), next_step))
        })
        .collect()
}

fn waited_for_cpu(data: &RunData, measured: &[&CaseResult]) -> Option<Warning> {
    let share = |case: &CaseResult| {
        let elapsed: u64 = rounds_of(data, &case.id).map(|row| row.elapsed_ns).sum();
        let delayed: u64 = rounds_of(data, &case.id).filter_map(|row| row.run_delay_ns).sum();
        delayed as f64 / elapsed.max(1) as f64
    };
    // Many writers on few CPUs wait for one by design.
    let mut shares: Vec<(f64, &CaseResult)> = measured
        .iter()
        .filter(|case| case.case.writers == 1)
        .map(|case| (share(case), *case))
        .filter(|(share, _)| *share > RUN_QUEUE_SHARE)
        .collect();
    shares.sort_by(|a, b| b.0.total_cmp(&a.0));
    let ((worst, case), others) = shares.split_first()?;
    Some(warning(
        format!(
            "the writing thread waited for a CPU in {:.0} % of the measured time of {}{}",
            worst * 100.0,
            case.label,
            and_more(others.len())
        ),
        "CPUs are busy with other work: the tail shows the scheduler, not the disk. Measure when \
         idle.",
    ))
}

fn drifted(measured: &[&CaseResult]) -> Option<Warning> {
    let mut drifts: Vec<_> = measured
        .iter()
        .filter_map(|case| {
            let drift = case.drift.as_ref()?;
            let change = (drift.after_ns / drift.before_ns).ln().abs();
            Some((change, *case, drift))
        })
        .collect();
    drifts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let ((_, case, drift), others) = drifts.split_first()?;
    Some(warning(
        format!(
            "the level of {} went from {} to {} after {:.1} s{}",
            case.label,
            units::duration_ns(drift.before_ns),
            units::duration_ns(drift.after_ns),
            drift.at_ms / 1e3,
            and_more(others.len())
        ),
        "Look at the time series: burst credits, a full write cache, throttling or other load look \
         like this. Run longer, and size for the slower level.",
    ))
}

fn amplified(measured: &[&CaseResult]) -> Option<Warning> {
    let mut found: Vec<(f64, f64, &CaseResult)> = measured
        .iter()
        .filter_map(|case| {
            let top = case.receipt.as_ref()?.top.as_ref()?;
            let own = case.case.block as f64 / 1024.0 * case.acks_per_barrier.unwrap_or(1.0);
            let much = case.durable && top.kib > AMPLIFICATION * own.max(4.0);
            much.then_some((top.kib, own, *case))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0));
    let ((kib, own, case), others) = found.split_first()?;
    Some(warning(
        format!(
            "{kib:.0} KiB reached the device for each barrier over {own:.0} KiB of data, in {}{}",
            case.label,
            and_more(others.len())
        ),
        "The file system writes metadata with each barrier: batch more, or use initialised files.",
    ))
}

fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => ", and 1 more case".to_owned(),
        _ => format!(", and {others} more cases"),
    }
}
