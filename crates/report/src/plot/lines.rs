//! What varies along one dimension: block size, batch, writers, files. Both axes are logarithmic.

use highwater_stats::units;

use crate::case::{Case, Every};
use crate::data::{Group, GroupKind};
use crate::format::{count_tick, time_tick, typographic};
use crate::plot::Figure;
use crate::plot::axis::Axis;
use crate::plot::legend::{self, Entry};
use crate::plot::palette::{Ink, SERIES_MAX};
use crate::plot::sketch::{Layout, Shape, Sketch};
use crate::results::{CaseResult, Fit};

const HEIGHT: f64 = 290.0;

/// Cases that differ only in the dimension that varies.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    label: String,
    barrier: &'static str,
    durable: bool,
    points: Vec<(f64, f64)>,
}

/// What a plot shows of the cases.
struct View {
    key: &'static str,
    title: &'static str,
    caption: &'static str,
    x_name: &'static str,
    y_name: &'static str,
    y: fn(&CaseResult) -> Option<f64>,
    y_tick: fn(f64) -> String,
    y_words: fn(f64) -> String,
}

/// Draws the plots of a section of this kind.
pub(super) fn figures(
    kind: GroupKind,
    group: &Group,
    cases: &[&CaseResult],
    fits: &[Fit],
) -> Vec<Figure> {
    let knees: Vec<f64> = fits
        .iter()
        .filter(|fit| fit.group == group.id)
        .filter_map(|fit| fit.line.knee.map(|knee| knee * x_per_unit(kind)))
        .collect();
    let mut figures = Vec::new();
    for view in views(kind) {
        let panels = panels(lines(kind, cases, &view));
        let count = panels.len();
        for (number, lines) in panels.iter().enumerate() {
            let barrier = lines.first().map_or("", |line| line.barrier);
            let title = match count {
                1 => view.title.to_owned(),
                _ => format!("{}: {barrier}", view.title),
            };
            let mut caption = view.caption.to_owned();
            if !knees.is_empty() {
                caption.push_str(" Triangles: the knee, where half of the fixed cost is gone.");
            }
            let key = format!("{}-{}-{number}", view.key, group.id);
            let draw = |layout| draw(layout, &view, lines, (kind, &knees));
            figures.push(Figure::new(key, &title, caption, draw));
        }
    }
    figures
}

fn views(kind: GroupKind) -> Vec<View> {
    let time = View {
        key: "time",
        title: "Commit time by block size, median",
        caption: "Flat means that the size is free; where it rises, bytes cost more than barriers.",
        x_name: "bytes per write",
        y_name: "commit time, p50",
        y: |case| case.commit.as_ref().map(|commit| commit.p50_ns as f64),
        y_tick: time_tick,
        y_words: |ns| typographic(&units::duration_ns(ns)),
    };
    let rate = View {
        key: "rate",
        title: "Records made durable per second, by writers",
        caption: "Group commit: one barrier acknowledges whoever has written meanwhile.",
        x_name: "writers",
        y_name: "records per second",
        y: |case| case.records_per_second,
        y_tick: count_tick,
        y_words: units::rate,
    };
    match kind {
        GroupKind::Batch => vec![View {
            title: "Time per record, by writes per barrier",
            caption: "Commit time divided by its records. It falls while the barrier's fixed cost \
                      is shared, and flattens at the cost of a write.",
            x_name: "writes per barrier",
            y_name: "time per record",
            y: |case| case.records_per_second.filter(|r| *r > 0.0).map(|rate| 1e9 / rate),
            ..time
        }],
        GroupKind::Writers => vec![
            rate,
            View {
                key: "tail",
                title: "Commit time by writers, p99",
                caption: "What a writer waits for at worst, one time in a hundred.",
                x_name: "writers",
                y_name: "commit time, p99",
                y: |case| case.commit.as_ref().map(|commit| commit.p99_ns as f64),
                ..time
            },
        ],
        GroupKind::Files => vec![View {
            title: "Time to make files durable, by their number",
            caption: "Where a line crosses below another, its method is the cheaper one from \
                      there.",
            x_name: "files",
            y_name: "time for all, p50",
            ..time
        }],
        GroupKind::Sizes | GroupKind::Paths | GroupKind::Interval => vec![time],
    }
}

fn x_of(kind: GroupKind, case: &Case) -> Option<f64> {
    match kind {
        GroupKind::Batch => match case.every {
            Every::Writes(writes) => Some(writes as f64),
            Every::Bytes(_) | Every::End | Every::Never => None,
        },
        GroupKind::Writers => Some(f64::from(case.writers)),
        GroupKind::Files => Some(f64::from(case.files)),
        GroupKind::Sizes | GroupKind::Paths | GroupKind::Interval => Some(case.block as f64),
    }
}

/// Fits over sizes are in KiB, their plots in bytes.
const fn x_per_unit(kind: GroupKind) -> f64 {
    if matches!(kind, GroupKind::Sizes) { 1024.0 } else { 1.0 }
}

fn lines(kind: GroupKind, cases: &[&CaseResult], view: &View) -> Vec<Line> {
    let mut keyed: Vec<(Vec<String>, Line)> = Vec::new();
    for case in cases {
        let Some(point) = x_of(kind, &case.case).zip((view.y)(case)) else { continue };
        let key = dimensions(kind, &case.case);
        if let Some((_, line)) = keyed.iter_mut().find(|(other, _)| *other == key) {
            line.points.push(point);
        } else {
            let (barrier, durable) = (case.case.barrier.as_str(), case.durable);
            let points = vec![point];
            keyed.push((key, Line { label: String::new(), barrier, durable, points }));
        }
    }
    let keys: Vec<Vec<String>> = keyed.iter().map(|(key, _)| key.clone()).collect();
    let differs = |index: usize| keys.iter().any(|key| key[index] != keys[0][index]);
    for (key, line) in &mut keyed {
        let told_apart: Vec<&str> =
            (0..key.len()).filter(|i| differs(*i)).map(|i| key[i].as_str()).collect();
        line.label = if told_apart.is_empty() { key[..3].join(" ") } else { told_apart.join(" ") };
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    keyed.into_iter().map(|(_, line)| line).collect()
}

/// The dimensions that do not vary along the line, in words.
fn dimensions(kind: GroupKind, case: &Case) -> Vec<String> {
    let unless = |varying: GroupKind, words: String| {
        if kind == varying { String::new() } else { words }
    };
    let threads = |n: u32| if n == 1 { "one writer".to_owned() } else { format!("{n} writers") };
    let threads = if kind == GroupKind::Files {
        if case.writers == 1 {
            "one by one".to_owned()
        } else {
            format!("{} threads", case.writers)
        }
    } else {
        unless(GroupKind::Writers, threads(case.writers))
    };
    vec![
        case.state.to_string(),
        case.io.to_string(),
        case.barrier.to_string(),
        unless(GroupKind::Sizes, units::bytes_exact(case.block)),
        unless(GroupKind::Batch, format!("every {}", case.every)),
        threads,
        case.sharing.to_string(),
        match case.arrival {
            crate::case::Arrival::Closed => "closed loop".to_owned(),
            crate::case::Arrival::Open { per_second } => {
                format!("open loop, {}", units::rate(per_second as f64))
            }
        },
    ]
}

/// Splits lines over several plots where one could not tell them apart.
fn panels(lines: Vec<Line>) -> Vec<Vec<Line>> {
    if lines.len() <= SERIES_MAX {
        return vec![lines];
    }
    let mut by_barrier: Vec<Vec<Line>> = Vec::new();
    for line in lines {
        match by_barrier.iter_mut().find(|panel| panel[0].barrier == line.barrier) {
            Some(panel) if panel.len() < SERIES_MAX => panel.push(line),
            _ => by_barrier.push(vec![line]),
        }
    }
    by_barrier
}

fn draw(layout: Layout, view: &View, lines: &[Line], (kind, knees): (GroupKind, &[f64])) -> Sketch {
    let mut sketch = Sketch::new(layout);
    let frame = legend::frame(&mut sketch, HEIGHT, lines.len());
    let points = || lines.iter().flat_map(|line| line.points.iter());
    let x_tick = |value: f64| match kind {
        GroupKind::Sizes => units::bytes_human(rounded(value)),
        _ => count_tick(value),
    };
    let xs = points().map(|point| point.0).collect();
    let x = Axis::log_at(xs, frame.right - frame.left, x_tick);
    let y = Axis::log(points().map(|point| point.1), 7, view.y_tick);
    frame.draw_y(&mut sketch, &y, &format!("{}, log scale", view.y_name));
    frame.draw_x(&mut sketch, &x, &format!("{}, log scale", view.x_name));
    let mut entries = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let ink = if line.durable { Ink::Series(number) } else { Ink::NotDurable };
        let shape = Shape::of_series(number);
        let at: Vec<_> =
            line.points.iter().map(|(px, py)| (frame.x(&x, *px), frame.y(&y, *py))).collect();
        sketch.line(at.clone(), ink, 2.0);
        for at in &at {
            sketch.dot(*at, shape, ink);
        }
        let detail = ends_in_words(line, view);
        let wanted_y = at.last().map(|at| at.1);
        entries.push(Entry { ink, shape, label: line.label.clone(), detail, wanted_y });
    }
    for knee in knees.iter().filter(|knee| (x.low..=x.high).contains(*knee)) {
        let at = (frame.x(&x, *knee), frame.bottom - 3.0);
        sketch.dot(at, Shape::Triangle, Ink::Text);
    }
    legend::draw(&mut sketch, &frame, &entries);
    sketch
}

fn ends_in_words(line: &Line, view: &View) -> String {
    let mut words = match (line.points.first(), line.points.last()) {
        (Some(first), Some(last)) if line.points.len() > 1 => {
            format!("{} to {}", (view.y_words)(first.1), (view.y_words)(last.1))
        }
        (Some(only), _) => (view.y_words)(only.1),
        _ => String::new(),
    };
    if !line.durable {
        words.insert_str(0, "NOT DURABLE, ");
    }
    words
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "block sizes are whole numbers, and far below 2^53"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}
