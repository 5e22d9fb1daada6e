//! Tables for a glance: what a probe shows on a terminal. The page and `highwater report` show all.

use super::{case_grid, receipt_tone};
use crate::format::number;
use crate::grid::{Cell, Table};
use crate::results::{CaseResult, DeviceReceipt, Receipt, ReceiptVerdict, Results};

/// Columns of a section at a glance, by name.
const BRIEF: [&str; 7] = ["case", "n", "p50", "p99", "p50 by round", "records", "MiB"];

/// Tables n, median, tail and rate of a section's cases.
pub fn brief_table(results: &Results, group_id: &str) -> String {
    let mut table = case_grid(results, group_id);
    let keep: Vec<bool> =
        table.columns.iter().map(|column| BRIEF.contains(&column.name.as_str())).collect();
    for row in &mut table.rows {
        let mut kept = keep.iter();
        row.retain(|_| kept.next() == Some(&true));
    }
    table.columns.retain(|column| BRIEF.contains(&column.name.as_str()));
    table.to_text()
}

/// Tables the evidence: a row for each verdict.
pub fn brief_receipt_table(results: &Results) -> String {
    verdict_grid(results).to_text()
}

/// Makes the table of evidence by verdict: how many cases have it, and what was counted for them.
fn verdict_grid(results: &Results) -> Table {
    let mut table = Table::new(&[
        ("verdict", ""),
        ("cases", ""),
        ("device", ""),
        ("flushes", ""),
        ("writes", ""),
        ("first case", ""),
    ])
    .with_words_in(&[2, 5])
    .with_spare(&[5]);
    let mut verdicts: Vec<(ReceiptVerdict, Vec<(&CaseResult, &Receipt)>)> = Vec::new();
    for case in &results.cases {
        let Some(receipt) = &case.receipt else { continue };
        match verdicts.iter_mut().find(|(known, _)| *known == receipt.verdict) {
            Some((_, cases)) => cases.push((case, receipt)),
            None => verdicts.push((receipt.verdict, vec![(case, receipt)])),
        }
    }
    for (verdict, cases) in &verdicts {
        // The leaf is what holds the data; where there is only one device it stands as the top.
        let devices: Vec<&DeviceReceipt> =
            cases.iter().filter_map(|(_, r)| r.leaf.as_ref().or(r.top.as_ref())).collect();
        table.row(vec![
            Cell::new(verdict.as_str()).tone(receipt_tone(*verdict)),
            Cell::new(cases.len().to_string()),
            Cell::or_dash(devices.first(), |device| device.device.clone()),
            range(&devices, |device| device.flushes),
            range(&devices, |device| device.writes),
            Cell::new(&cases[0].0.label),
        ]);
    }
    table.note(
        "per barrier, lowest and highest of the cases; writes: the kernel counts the request that \
         carries a flush as one more",
    );
    table
}

/// The lowest and the highest of a count over devices.
fn range(devices: &[&DeviceReceipt], of: fn(&DeviceReceipt) -> f64) -> Cell {
    let values = || devices.iter().map(|device| of(device));
    let ends = values().reduce(f64::min).zip(values().reduce(f64::max));
    Cell::or_dash(ends, |(low, high)| match (number(low), number(high)) {
        (low, high) if low == high => low,
        (low, high) => format!("{low} - {high}"),
    })
}
