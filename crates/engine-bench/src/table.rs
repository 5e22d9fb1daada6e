//! The results as text: what an append takes, and what it costs.

use highwater_report::format::{factor, number};
use highwater_report::grid::{Cell, Table};
use highwater_stats::units;

use crate::case::{Ack, Case};
use crate::results::{Results, SceneResult, Spread, SubjectResult};

/// What the columns of the costs mean.
const COSTS: &str = "w: writers, s: streams; per append: CPU time of the process, that beyond as \
    many bare writes and barriers, times a thread waited, refusals; commit: its write and barrier; \
    device: bytes to the leaf disk per byte of payload until all was settled; memory: growth at \
    its peak";

/// All tables.
pub fn tables(results: &Results) -> String {
    let mut text = String::new();
    let mut section = |title: &str, table: &Table| {
        for part in ["\n", title, "\n", &table.to_text()] {
            text.push_str(part);
        }
    };
    if !results.cases.is_empty() {
        let baseline = &results.manifest.baseline;
        section("What an append takes", &speed(results));
        section("What it costs", &cost(results));
        let title = format!("Set against {baseline}, round by round: median (lowest to highest)");
        section(&title, &ratios(results));
    }
    for scene in &results.scenes {
        section(&format!("{}: {}", scene.name, scene.about), &figures(scene));
    }
    text
}

fn figures(scene: &SceneResult) -> Table {
    let mut table = Table::new(&[
        ("figure", ""),
        ("unit", ""),
        ("median", ""),
        ("lowest", ""),
        ("highest", ""),
    ])
    .with_words_in(&[1]);
    for figure in &scene.figures {
        let Spread { median, lowest, highest } = figure.value;
        let values = [median, lowest, highest].map(|value| Cell::new(number(value)));
        let mut row = vec![Cell::new(&figure.name), Cell::new(&figure.unit)];
        row.extend(values);
        table.row(row);
    }
    if let Some(why) = &scene.stopped {
        table.note(why.clone());
    }
    table
}

fn each(results: &Results, table: &mut Table, cells: impl Fn(&SubjectResult) -> Vec<Cell>) {
    for case in &results.cases {
        for (index, subject) in case.subjects.iter().enumerate() {
            // A case's name stands once, before its first subject.
            let name = if index == 0 { short(&case.case) } else { String::new() };
            let mut row = vec![Cell::new(name), Cell::new(&subject.subject)];
            row.extend(cells(subject));
            table.row(row);
            if let Some(why) = &subject.stopped {
                table.note(format!("{}, {}: {why}", case.case, subject.subject));
            }
        }
    }
}

fn speed(results: &Results) -> Table {
    let mut table = Table::new(&[
        ("case", ""),
        ("subject", ""),
        ("appends", "/s"),
        ("p50", "us"),
        ("p99", "us"),
        ("p99.9", "us"),
        ("commits", "/s"),
        ("per commit", ""),
    ])
    .with_words_in(&[1]);
    each(results, &mut table, |subject| {
        let latency = |value: fn(&highwater_stats::Summary) -> u64| {
            Cell::or_dash(subject.latency.as_ref(), |s| number(value(s) as f64 / 1e3))
        };
        vec![
            whole(subject.appends_per_s),
            latency(|summary| summary.p50_ns),
            latency(|summary| summary.p99_ns),
            latency(|summary| summary.p999_ns),
            whole(subject.commits_per_s),
            plain(subject.appends_per_commit),
        ]
    });
    table
}

fn cost(results: &Results) -> Table {
    let mut table = Table::new(&[
        ("case", ""),
        ("subject", ""),
        ("CPU", "us"),
        ("beyond barrier", "us"),
        ("waits", ""),
        ("commit", "us"),
        ("device", "B/B"),
        ("memory", "MiB"),
        ("files", ""),
        ("refused", ""),
    ])
    .with_words_in(&[1]);
    each(results, &mut table, |subject| {
        vec![
            plain(subject.cpu_us),
            plain(subject.cpu_beyond_us),
            plain(subject.switches),
            plain(subject.commit_us),
            plain(subject.device_bytes_per_byte),
            Cell::or_dash(subject.grown_bytes, |s| number(s.median / f64::from(1 << 20))),
            whole(subject.open_files),
            plain(subject.refused),
        ]
    });
    table.note(COSTS);
    if let Some(ns) = results.loop_cost_ns {
        table.note(format!("of the CPU time, {:.2} us are the loop's own", ns / 1e3));
    }
    table
}

fn ratios(results: &Results) -> Table {
    let mut table = Table::new(&[
        ("case", ""),
        ("subject", ""),
        ("appends/s", "times"),
        ("p50", "times"),
        ("p50 over bare", "times"),
    ])
    .with_words_in(&[1]);
    each(results, &mut table, |subject| {
        let spread = |value: Option<Spread>| {
            Cell::or_dash(value, |s| {
                format!("{} ({} to {})", factor(s.median), factor(s.lowest), factor(s.highest))
            })
        };
        vec![spread(subject.rate_ratio), spread(subject.p50_ratio), spread(subject.p50_over_bare)]
    });
    table
}

/// A case in few columns, as in `64w x 1000s, 256 B`.
fn short(case: &Case) -> String {
    let Case { writers, streams, payload_bytes, ack } = case;
    let mark = if *ack == Ack::Barrier { String::new() } else { format!(", {ack}") };
    format!("{writers}w x {streams}s, {payload_bytes} B{mark}")
}

fn whole(spread: Option<Spread>) -> Cell {
    Cell::or_dash(spread, |spread| units::rate(spread.median.round()).replace("/s", ""))
}

fn plain(spread: Option<Spread>) -> Cell {
    Cell::or_dash(spread, |spread| number(spread.median))
}
