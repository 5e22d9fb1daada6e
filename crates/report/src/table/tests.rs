//! Claims about the text tables: they fit a terminal, and say what is missing.

use unicode_width::UnicodeWidthStr;

use super::*;
use crate::grid::TERMINAL_COLUMNS;
use crate::sample;

fn all_tables() -> Vec<String> {
    let (data, results) = sample::run();
    let groups = data.manifest.groups.iter().map(|group| group_table(&results, group));
    let brief = data.manifest.groups.iter().map(|group| brief_table(&results, &group.id));
    let whole =
        [receipt_table(&results), brief_receipt_table(&results), comparison_table(&results)];
    groups.chain(brief).chain(whole).collect()
}

#[test]
fn every_table_fits_a_terminal_and_is_ascii() {
    for table in all_tables() {
        assert!(table.is_ascii(), "{table}");
        for line in table.lines() {
            assert!(line.width() <= TERMINAL_COLUMNS, "{line}\n{table}");
        }
    }
}

#[test]
fn a_case_without_numbers_is_a_row_of_dashes_with_its_reason_below() {
    let (_, results) = sample::run();
    let table = case_table(&results, "paths");
    let row = table.lines().find(|line| line.starts_with("initialised direct uring ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().skip(3).collect();
    assert!(cells.len() >= 5 && cells.iter().all(|cell| *cell == "-"), "{row}");
    assert!(table.contains("initialised direct uring: FAILED: fdatasync returned EIO"), "{table}");
    assert!(table.contains("rwf_dsync: unsupported: pwritev2"), "{table}");
}

#[test]
fn the_same_reason_is_said_once_for_all_its_cases() {
    let (_, mut results) = sample::run();
    for case in results.cases.iter_mut().filter(|case| case.group == "batch").take(2) {
        (case.status, case.commit) = (CaseStatus::NotRun, None);
        case.reason = Some("the end".to_owned());
    }
    let table = case_table(&results, "batch");
    let reason =
        "append buffered fdatasync 4KiB, append buffered fdatasync 4KiB every 10: not run: the";
    assert_eq!(table.matches(reason).count(), 1, "{table}");
}

#[test]
fn what_promises_nothing_is_marked_once() {
    let (_, results) = sample::run();
    let paths = case_table(&results, "paths");
    assert_eq!(paths.matches("NOT DURABLE").count(), 1, "{paths}");
    let interval = interval_table(&results, "interval");
    assert!(interval.contains("never (NOT DURABLE)"), "{interval}");
}

#[test]
fn trials_are_tabled_in_ms_with_their_spread() {
    let (_, mut results) = sample::run();
    let case = results.cases.iter_mut().find(|case| case.label == "16KiB").unwrap();
    case.trial_ms = vec![7000.0, 6500.0, 7500.0];
    let table = interval_table(&results, "interval");
    let row = table.lines().find(|line| line.starts_with("16KiB")).unwrap();
    let order = ["3", "6 500", "7 000", "7 500"].map(|cell| row.find(&format!("  {cell}  ")));
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{row}");
}

#[test]
fn every_trial_is_shown_in_order_as_long_as_there_are_at_most_twenty() {
    for (count, is_shown) in [(0, false), (1, true), (4, true), (5, true), (20, true), (21, false)]
    {
        let (_, mut results) = sample::run();
        for case in results.cases.iter_mut().filter(|case| case.group == "interval") {
            case.trial_ms = (0..count).rev().map(|trial| 10_101.0 + f64::from(trial)).collect();
        }
        let table = interval_table(&results, "interval");
        assert!(table.lines().all(|line| line.width() <= TERMINAL_COLUMNS), "{table}");
        let text = table.split_whitespace().collect::<Vec<_>>().join(" ");
        let each: Vec<String> =
            (0..count).rev().map(|trial| number(10_101.0 + f64::from(trial))).collect();
        let whole = each.join(", ");
        assert_eq!(count > 0 && text.contains(&whole), is_shown, "{count}: {table}");
    }
}

#[test]
fn a_glance_at_the_evidence_has_a_row_for_each_verdict_and_counts_every_case() {
    let (_, results) = sample::run();
    let table = brief_receipt_table(&results);
    let count = |row: &str, verdict: &str| -> usize {
        row.strip_prefix(verdict).unwrap().split_whitespace().next().unwrap().parse().unwrap()
    };
    let receipts: Vec<ReceiptVerdict> =
        results.cases.iter().filter_map(|case| Some(case.receipt.as_ref()?.verdict)).collect();
    for verdict in &receipts {
        let rows: Vec<&str> =
            table.lines().filter(|line| line.starts_with(verdict.as_str())).collect();
        let [row] = rows[..] else { panic!("{verdict:?}: {table}") };
        let all = receipts.iter().filter(|other| *other == verdict).count();
        assert_eq!(count(row, verdict.as_str()), all, "{table}");
    }
}

#[test]
fn a_glance_at_a_section_keeps_every_case_with_n_median_and_tail() {
    let (_, results) = sample::run();
    let (brief, whole) = (brief_table(&results, "paths"), case_table(&results, "paths"));
    let head = brief.lines().next().unwrap();
    assert!(["case", "n", "p50 us", "p99 us"].iter().all(|name| head.contains(name)), "{brief}");
    assert!(!head.contains("max"), "{brief}");
    for case in in_group(&results, "paths") {
        let name = case.label.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        assert_eq!(brief.matches(&name).count(), whole.matches(&name).count(), "{brief}");
    }
}

#[test]
fn files_are_tabled_with_the_cost_of_each() {
    let (_, results) = sample::run();
    let table = files_table(&results, "files");
    assert!(table.lines().next().unwrap().contains("per file us"), "{table}");
    assert!(table.contains("not asked for: would take 15 s"), "{table}");
}

#[test]
fn receipts_show_verdicts_reasons_and_a_leaf_that_differs() {
    let (_, mut results) = sample::run();
    let same = receipt_table(&results);
    assert!(same.contains("polluted") && same.contains("postgres wrote 14.2 MiB"), "{same}");
    assert!(!same.contains("(below it)") && same.contains("counted the same"), "{same}");
    let receipt = results.cases[0].receipt.as_mut().unwrap();
    receipt.leaf.as_mut().unwrap().flushes = 0.0;
    let differs = receipt_table(&results);
    assert_eq!(differs.matches("(below it)").count(), 1, "{differs}");
}

#[test]
fn comparisons_show_ratio_interval_pairs_and_answer() {
    let (_, results) = sample::run();
    let table = comparison_table(&results);
    assert!(table.contains("inconclusive") && table.contains("faster"), "{table}");
    assert!(table.contains("95 %, bootstrap"), "{table}");
}

#[test]
fn tables_of_nothing_are_only_a_head() {
    let (_, mut results) = sample::run();
    results.cases.clear();
    results.comparisons.clear();
    assert_eq!(case_table(&results, "paths").lines().count(), 2);
    comparison_table(&results);
    receipt_table(&results);
}
