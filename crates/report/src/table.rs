//! The tables of a run: which columns each section has.
//!
//! Every function here makes plain text for a terminal; the `*_grid` functions make the same table
//! for the page. A case without numbers is a row of dashes and a note with the reason.

mod brief;

use std::fmt::Write as _;

use highwater_stats::{Summary, Verdict, units};

pub use brief::{brief_receipt_table, brief_table};

use crate::case::Every;
use crate::data::{Group, GroupKind};
use crate::format::{as_ms, as_us, factor, number};
use crate::grid::{Cell, Table, Tone};
use crate::results::{
    CaseResult, CaseStatus, Comparison, DeviceReceipt, ExtentReceipt, Receipt, ReceiptVerdict,
    Results,
};

/// Tables commit times and rates of a section's cases.
pub fn case_table(results: &Results, group_id: &str) -> String {
    case_grid(results, group_id).to_text()
}

/// Tables the time of each trial of a section's cases.
pub fn interval_table(results: &Results, group_id: &str) -> String {
    interval_grid(results, group_id).to_text()
}

/// Tables what it takes to make many files durable.
pub fn files_table(results: &Results, group_id: &str) -> String {
    files_grid(results, group_id).to_text()
}

/// Tables the evidence of what reached the device.
pub fn receipt_table(results: &Results) -> String {
    receipt_grid(results).to_text()
}

/// Tables the comparisons of a run.
pub fn comparison_table(results: &Results) -> String {
    comparison_grid(results, &results.comparisons).to_text()
}

/// Tables a section in the way of its kind.
pub fn group_table(results: &Results, group: &Group) -> String {
    group_grid(results, group).to_text()
}

/// Makes the table of a section in the way of its kind.
pub fn group_grid(results: &Results, group: &Group) -> Table {
    match group.kind {
        GroupKind::Interval => interval_grid(results, &group.id),
        GroupKind::Files => files_grid(results, &group.id),
        GroupKind::Paths | GroupKind::Sizes | GroupKind::Batch | GroupKind::Writers => {
            case_grid(results, &group.id)
        }
    }
}

/// Makes the table of commit times and rates.
pub fn case_grid(results: &Results, group_id: &str) -> Table {
    let mut table = Table::new(&[
        ("case", ""),
        ("n", ""),
        ("p50", "us"),
        ("p90", "us"),
        ("p99", "us"),
        ("max", "us"),
        ("p50 by round", "us"),
        ("commits", "/s"),
        ("records", "/s"),
        ("MiB", "/s"),
        ("acks", "/barrier"),
        ("at risk", "records"),
    ])
    .with_spare(&[3, 9, 11, 10, 5]);
    // Columns that say the same for every case of the section are left out.
    let any = |of: fn(&CaseResult) -> bool| in_group(results, group_id).any(of);
    let (batched, shared) = (any(batches), any(|case| case.case.writers > 1));
    let at_risk = any(|case| case.records_at_risk.is_some_and(|records| records > 1));
    for case in in_group(results, group_id) {
        let commit = case.commit.as_ref();
        let time = |of: fn(&Summary) -> u64| Cell::or_dash(commit, |s| as_us(of(s) as f64));
        table.row(vec![
            name(case),
            Cell::or_dash(commit, |s| units::count(s.n)),
            time(|s| s.p50_ns),
            time(|s| s.p90_ns),
            time(|s| s.p99_ns),
            time(|s| s.max_ns),
            Cell::or_dash(case.round_p50_range_ns, |(low, high)| {
                format!("{} - {}", as_us(low as f64), as_us(high as f64))
            }),
            Cell::or_dash(case.commits_per_second, number),
            Cell::or_dash(case.records_per_second.filter(|_| batched), number),
            Cell::or_dash(case.mib_per_second, number),
            Cell::or_dash(case.acks_per_barrier.filter(|_| shared), number),
            Cell::or_dash(case.records_at_risk.filter(|_| at_risk), units::count),
        ]);
    }
    finish(table, results, group_id)
}

/// Most trials whose times are all shown, and most that stand in a column of their own.
const EACH_TRIAL: (usize, usize) = (20, 4);

/// Makes the table of trial times.
pub fn interval_grid(results: &Results, group_id: &str) -> Table {
    let mut table = Table::new(&[
        ("barrier every", ""),
        ("trials", ""),
        ("fastest", "ms"),
        ("median", "ms"),
        ("slowest", "ms"),
        ("MiB", "/s"),
        ("against fastest row", ""),
        ("each trial", "ms"),
    ])
    .with_spare(&[1, 2, 4]);
    let most = in_group(results, group_id).map(|case| case.trial_ms.len()).max().unwrap_or(0);
    let fastest = in_group(results, group_id)
        .filter_map(|case| highwater_stats::median(&case.trial_ms))
        .reduce(f64::min);
    for case in in_group(results, group_id) {
        let mut trials = case.trial_ms.clone();
        trials.sort_by(f64::total_cmp);
        let median = highwater_stats::median(&trials);
        let relative = median.zip(fastest).map(|(own, best)| own / best);
        table.row(vec![
            name(case),
            if trials.is_empty() { Cell::dash() } else { Cell::new(trials.len().to_string()) },
            Cell::or_dash(trials.first().copied(), number),
            Cell::or_dash(median, number),
            Cell::or_dash(trials.last().copied(), number),
            Cell::or_dash(case.mib_per_second, number),
            Cell::or_dash(relative, factor),
            Cell::or_dash(each_trial(case).filter(|_| most <= EACH_TRIAL.1), |each| each),
        ]);
        // In a row they would be longer than a line.
        if let Some(each) = each_trial(case).filter(|_| most > EACH_TRIAL.1) {
            table.note(format!("{}: trials in ms: {each}", case.label));
        }
    }
    finish(table, results, group_id)
}

/// Lists the time of every trial, in the order of rounds; `None` for none, and for too many.
fn each_trial(case: &CaseResult) -> Option<String> {
    let few = (1..=EACH_TRIAL.0).contains(&case.trial_ms.len());
    few.then(|| case.trial_ms.iter().map(|ms| number(*ms)).collect::<Vec<_>>().join(", "))
}

/// Makes the table of what it takes to make many files durable.
pub fn files_grid(results: &Results, group_id: &str) -> Table {
    let mut table = Table::new(&[
        ("case", ""),
        ("files", ""),
        ("n", ""),
        ("p50", "ms"),
        ("fastest", "ms"),
        ("slowest", "ms"),
        ("per file", "us"),
        ("making dirty", "ms"),
    ]);
    for case in in_group(results, group_id) {
        let commit = case.commit.as_ref();
        let time = |of: fn(&Summary) -> u64| Cell::or_dash(commit, |s| as_ms(of(s) as f64));
        table.row(vec![
            name(case),
            Cell::new(units::count(case.case.files.into())),
            Cell::or_dash(commit, |s| units::count(s.n)),
            time(|s| s.p50_ns),
            time(|s| s.min_ns),
            time(|s| s.max_ns),
            Cell::or_dash(commit, |s| as_us(s.p50_ns as f64 / f64::from(case.case.files.max(1)))),
            Cell::or_dash(case.dirty_ms, number),
        ]);
    }
    finish(table, results, group_id)
}

/// Makes the table of comparisons.
pub fn comparison_grid(results: &Results, comparisons: &[Comparison]) -> Table {
    let mut table = Table::new(&[
        ("candidate / baseline", ""),
        ("measure", ""),
        ("ratio", ""),
        ("interval", ""),
        ("pairs", ""),
        ("answer", ""),
    ])
    .with_words_in(&[1, 5])
    .with_spare(&[1]);
    for comparison in comparisons {
        let ratio = &comparison.ratio;
        let label = |id: &str| label_of(results, id).to_owned();
        table.row(vec![
            Cell::new(format!(
                "{} / {}",
                label(&comparison.candidate),
                label(&comparison.baseline)
            )),
            Cell::new(&comparison.measure),
            Cell::new(factor(ratio.ratio)),
            Cell::new(format!("{} - {}", number(ratio.low), number(ratio.high))),
            Cell::new(ratio.pairs.to_string()),
            Cell::new(verdict_words(comparison.verdict)).tone(verdict_tone(comparison.verdict)),
        ]);
    }
    if let Some(first) = comparisons.first() {
        let confidence = first.ratio.confidence * 100.0;
        table.note(format!(
            "ratio: geometric mean over paired rounds; interval: {confidence:.0} %, bootstrap; \
             below 1 the candidate takes less"
        ));
    }
    table
}

/// Makes the table of evidence: one row for a case's own device, one for the leaf below it.
pub fn receipt_grid(results: &Results) -> Table {
    let mut table = Table::new(&[
        ("case", ""),
        ("verdict", ""),
        ("device", ""),
        ("flushes", ""),
        ("writes", ""),
        ("KiB", ""),
        ("reads", ""),
        ("depth", ""),
        ("flush", "us"),
        ("write", "us"),
        ("extents", ""),
        ("unwritten", ""),
    ])
    .with_words_in(&[1, 2])
    .with_spare(&[9, 6, 11, 8]);
    let mut notes = Vec::new();
    let mut without = 0_u64;
    for case in &results.cases {
        match &case.receipt {
            Some(receipt) => {
                receipt_rows(&mut table, case, receipt);
                notes.extend(receipt.reasons.iter().map(|reason| (&*case.label, reason.clone())));
                let words = receipt.extents.as_ref().and_then(extent_words);
                notes.extend(words.map(|words| (&*case.label, words.to_owned())));
            }
            None => without += u64::from(case.status == CaseStatus::Measured),
        }
    }
    notes_by_reason(&mut table, notes);
    if without > 0 {
        table.note(format!("no receipt was taken for {} measured cases", units::count(without)));
    }
    table.note(
        "per barrier, and per write for cases without one; writes: the kernel counts the request \
         that carries a flush as one more; depth: mean requests in flight; flush and write: mean \
         time of one, a dash where none was counted",
    );
    if results.cases.iter().filter_map(|case| case.receipt.as_ref()).any(leaf_agrees) {
        table.note("the disk below counted the same where it has no row of its own");
    }
    table.drop_empty_columns();
    table
}

fn receipt_rows(table: &mut Table, case: &CaseResult, receipt: &Receipt) {
    let verdict = Cell::new(receipt.verdict.as_str()).tone(receipt_tone(receipt.verdict));
    let extents = receipt.extents.as_ref();
    let mut cells = vec![name(case), verdict];
    cells.extend(device_cells(receipt.top.as_ref()));
    cells.push(Cell::or_dash(extents, |e| arrow(e.extents, units::count)));
    cells.push(Cell::or_dash(extents, |e| arrow(e.unwritten_bytes, units::bytes_human)));
    table.row(cells);
    if let Some(leaf) = receipt.leaf.as_ref().filter(|_| !leaf_agrees(receipt)) {
        let mut cells = vec![Cell::new("(below it)").tone(Tone::Muted), Cell::new("")];
        cells.extend(device_cells(Some(leaf)));
        cells.extend([Cell::new(""), Cell::new("")]);
        table.row(cells);
    }
}

/// Whether the leaf's counters say the same as those of the device above it.
fn leaf_agrees(receipt: &Receipt) -> bool {
    let Some((top, leaf)) = receipt.top.as_ref().zip(receipt.leaf.as_ref()) else { return false };
    let of = |d: &DeviceReceipt| [d.flushes, d.writes, d.kib, d.reads].map(number);
    of(top) == of(leaf)
}

/// Adds a note for each reason, with the cases it holds for.
fn notes_by_reason(table: &mut Table, reasons: Vec<(&str, String)>) {
    let mut by_reason: Vec<(String, Vec<&str>)> = Vec::new();
    for (label, reason) in reasons {
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, labels)) => labels.push(label),
            None => by_reason.push((reason, vec![label])),
        }
    }
    for (reason, labels) in by_reason {
        table.note(format!("{}: {reason}", labels.join(", ")));
    }
}

fn device_cells(device: Option<&DeviceReceipt>) -> Vec<Cell> {
    let value = |of: fn(&DeviceReceipt) -> f64| Cell::or_dash(device, |d| number(of(d)));
    vec![
        Cell::or_dash(device, |d| d.device.clone()),
        value(|d| d.flushes),
        value(|d| d.writes),
        value(|d| d.kib),
        value(|d| d.reads),
        value(|d| d.queue_depth),
        Cell::or_dash(device.and_then(|d| d.flush_us), number),
        Cell::or_dash(device.and_then(|d| d.write_us), number),
    ]
}

/// What the extents say beyond their number.
fn extent_words(extents: &ExtentReceipt) -> Option<&'static str> {
    let moved = extents.first_block_unmoved == Some(false);
    moved.then_some("the first block moved: the file system copies on write")
}

fn arrow(pair: (u64, u64), format: impl Fn(u64) -> String) -> String {
    if pair.0 == pair.1 {
        format(pair.0)
    } else {
        format!("{} > {}", format(pair.0), format(pair.1))
    }
}

/// Looks up a case's label; the id where there is no such case.
pub(crate) fn label_of<'a>(results: &'a Results, id: &'a str) -> &'a str {
    results.cases.iter().find(|case| case.id == id).map_or(id, |case| &case.label)
}

/// Lists the cases of a section in order.
pub(crate) fn in_group<'a>(
    results: &'a Results,
    group_id: &'a str,
) -> impl Iterator<Item = &'a CaseResult> {
    results.cases.iter().filter(move |case| case.group == group_id)
}

/// Says why a case has no numbers.
pub(crate) fn missing_words(case: &CaseResult) -> Option<String> {
    let kind = match case.status {
        CaseStatus::Measured => return None,
        CaseStatus::Refused => "not asked for",
        CaseStatus::Unsupported => "unsupported",
        CaseStatus::Failed => "FAILED",
        CaseStatus::NotRun => "not run",
    };
    let mut words = kind.to_owned();
    if let Some(reason) = &case.reason {
        write!(words, ": {reason}").expect("a string takes any text");
    }
    Some(words)
}

/// Words of a verdict.
pub(crate) const fn verdict_words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifference => "no difference",
        Verdict::Inconclusive => "inconclusive",
    }
}

const fn verdict_tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Faster => Tone::Good,
        Verdict::Slower => Tone::Bad,
        Verdict::NoDifference => Tone::Plain,
        Verdict::Inconclusive => Tone::Muted,
    }
}

/// What a receipt's verdict means to the reader.
pub(crate) const fn receipt_tone(verdict: ReceiptVerdict) -> Tone {
    match verdict {
        ReceiptVerdict::Issued => Tone::Good,
        ReceiptVerdict::Absent => Tone::Bad,
        ReceiptVerdict::Polluted | ReceiptVerdict::FuaPossible => Tone::Suspect,
        ReceiptVerdict::Elided => Tone::Plain,
        ReceiptVerdict::NoCounters | ReceiptVerdict::NotAsked => Tone::Muted,
    }
}

fn name(case: &CaseResult) -> Cell {
    let said = case.label.to_ascii_uppercase().contains("NOT DURABLE");
    Cell::new(&case.label).mark((!case.durable && !said).then_some("NOT DURABLE"))
}

/// Whether a commit covers more than one record, so that the two rates differ.
fn batches(case: &CaseResult) -> bool {
    case.case.every != Every::Writes(1) || case.case.writers > 1
}

fn finish(mut table: Table, results: &Results, group_id: &str) -> Table {
    let missing = in_group(results, group_id);
    let missing = missing.filter_map(|case| Some((&*case.label, missing_words(case)?))).collect();
    notes_by_reason(&mut table, missing);
    table.drop_empty_columns();
    table
}

#[cfg(test)]
mod tests;
