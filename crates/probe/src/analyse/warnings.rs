//! What looked suspicious in a run, each with the next step.

use highwater_report::data::RunData;
use highwater_report::results::{CaseResult, ReceiptVerdict, Warning};

use highwater_stats::units;

use crate::machine::refusal;
use crate::runner::rounds_of;

/// Waiting for a CPU beyond this share of the measured time is worth a warning.
const RUN_QUEUE_SHARE: f64 = 0.05;
/// Bytes per barrier beyond this multiple of the data are worth a warning.
const AMPLIFICATION: f64 = 8.0;

/// Collects warnings over a whole run.
pub fn of(data: &RunData, cases: &[CaseResult]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |seen: String, next_step: &str| {
        warnings.push(Warning { seen, next_step: next_step.to_owned() });
    };
    for reason in refusal::reasons(&data.manifest.machine) {
        warn(reason, "Take no figure of this run for the cost of durability.");
    }
    for limit in &data.manifest.machine.io_limits {
        warn(
            format!("a cgroup limits I/O here: {limit}"),
            "The figures show the limit as well as the disk: lift it, or keep it in mind.",
        );
    }
    let labels = |verdict| labels_with(cases, verdict);
    if let Some(list) = labels(ReceiptVerdict::Absent) {
        warn(
            format!("barriers reached no device: {list}"),
            "Do not rely on these paths. Look for `nobarrier`, a volatile overlay, or a hypervisor \
             that drops flushes.",
        );
    }
    if let Some(list) = labels(ReceiptVerdict::Elided) {
        warn(
            format!("the kernel sent no flushes, taking the device for write-through: {list}"),
            "Make sure that the drive's cache is protected: `cat /sys/block/<disk>/queue/write_cache`, \
             and the drive's data sheet.",
        );
    }
    if let Some(list) = labels(ReceiptVerdict::Polluted) {
        warn(
            format!("other processes wrote to the disk meanwhile: {list}"),
            "Stop them and measure again; the receipts name the process.",
        );
    }
    for case in cases {
        for (seen, next_step) in about_case(data, case) {
            warn(format!("{}: {seen}", case.label), next_step);
        }
    }
    for text in data.outcome.iter().flat_map(|outcome| &outcome.warnings) {
        warn(text.clone(), "Measure again on a quiet machine.");
    }
    warnings
}

fn about_case(data: &RunData, case: &CaseResult) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let elapsed: u64 = rounds_of(data, &case.id).map(|row| row.elapsed_ns).sum();
    let delayed: u64 = rounds_of(data, &case.id).filter_map(|row| row.run_delay_ns).sum();
    let share = delayed as f64 / elapsed.max(1) as f64;
    if case.case.writers == 1 && share > RUN_QUEUE_SHARE {
        found.push((
            format!("its thread waited for a CPU in {:.0} % of the measured time", share * 100.0),
            "CPUs are busy with other work: the tail shows the scheduler, not the disk. Measure when idle.",
        ));
    }
    if let Some(drift) = &case.drift {
        found.push((
            format!(
                "the level changed from {} to {} after {:.1} s",
                units::duration_ns(drift.before_ns),
                units::duration_ns(drift.after_ns),
                drift.at_ms / 1e3
            ),
            "Burst credits, a full write cache or throttling look like this: run longer, and size for \
             the slower level.",
        ));
    }
    let kib = case.receipt.as_ref().and_then(|receipt| receipt.top.as_ref()).map(|top| top.kib);
    let own = case.case.block as f64 / 1024.0 * case.acks_per_barrier.unwrap_or(1.0);
    if let Some(kib) = kib.filter(|kib| case.durable && *kib > AMPLIFICATION * own.max(4.0)) {
        found.push((
            format!("{kib:.0} KiB reached the device for each barrier over {own:.0} KiB of data"),
            "The file system writes metadata with each barrier: batch more, or use initialised files.",
        ));
    }
    found
}

fn labels_with(cases: &[CaseResult], verdict: ReceiptVerdict) -> Option<String> {
    let labels: Vec<&str> = cases
        .iter()
        .filter(|case| case.receipt.as_ref().is_some_and(|receipt| receipt.verdict == verdict))
        .map(|case| case.label.as_str())
        .collect();
    (!labels.is_empty()).then(|| labels.join("; "))
}
