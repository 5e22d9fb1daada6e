//! One row per case: bars to the median with a line to p99, or the dots of single trials.

use highwater_stats::units;

use crate::data::Group;
use crate::format::{float, time_tick, typographic};
use crate::plot::Figure;
use crate::plot::axis::{Axis, Frame};
use crate::plot::legend::shortened;
use crate::plot::palette::Ink;
use crate::plot::sketch::{Anchor, Layout, Mark, Shape, Sketch, text_width};
use crate::results::CaseResult;

/// One row: all values in ns.
struct Row {
    label: String,
    ink: Ink,
    /// End of the bar.
    value: f64,
    /// End of the thin line.
    far: Option<f64>,
    dots: Vec<f64>,
    words: String,
}

const LABEL_WIDTH_MAX: f64 = 300.0;
const LABEL_GAP: f64 = 14.0;
const WORDS_WIDTH: f64 = 176.0;
const TOP: f64 = 10.0;

/// Draws p50 and p99 of each case.
pub(super) fn percentiles(group: &Group, cases: &[&CaseResult], advised: Option<&str>) -> Figure {
    let rows: Vec<Row> = cases
        .iter()
        .filter_map(|case| {
            let commit = case.commit.as_ref()?;
            let time = |ns: u64| typographic(&units::duration_ns(ns));
            Some(Row {
                label: case.label.clone(),
                ink: ink(case, advised),
                value: commit.p50_ns as f64,
                far: Some(commit.p99_ns as f64),
                dots: Vec::new(),
                words: format!("{}, p99 {}", time(commit.p50_ns), time(commit.p99_ns)),
            })
        })
        .collect();
    let mut caption =
        "Bars end at the median, thin lines at p99. Bars start at the left edge of a \
                       log scale: compare where they end, not how long they are."
            .to_owned();
    if cases.iter().any(|case| Some(case.id.as_str()) == advised) {
        caption.push_str(" Green: the advised path.");
    }
    if cases.iter().any(|case| !case.durable) {
        caption.push_str(" Grey: promises nothing after a power cut.");
    }
    let key = format!("bars-{}", group.id);
    Figure::new(key, "Commit time, median and p99", caption, |layout| draw(layout, &rows))
}

/// Draws each trial of each case.
pub(super) fn trials(group: &Group, cases: &[&CaseResult]) -> Option<Figure> {
    let rows: Vec<Row> = cases
        .iter()
        .filter_map(|case| {
            let median = highwater_stats::median(&case.trial_ms)? * 1e6;
            Some(Row {
                label: case.label.clone(),
                ink: ink(case, None),
                value: median,
                far: None,
                dots: case.trial_ms.iter().map(|ms| ms * 1e6).collect(),
                words: typographic(&units::duration_ns(median)),
            })
        })
        .collect();
    let caption = "Bars end at the median trial, dots are single trials. Bars start at the left \
                   edge of a log scale: compare where they end, not how long they are."
        .to_owned();
    let key = format!("trials-{}", group.id);
    let title = "Time to write all of it";
    (!rows.is_empty()).then(|| Figure::new(key, title, caption, |layout| draw(layout, &rows)))
}

fn ink(case: &CaseResult, advised: Option<&str>) -> Ink {
    match () {
        () if !case.durable => Ink::NotDurable,
        () if Some(case.id.as_str()) == advised => Ink::Series(2),
        () => Ink::Series(0),
    }
}

fn draw(layout: Layout, rows: &[Row]) -> Sketch {
    let mut sketch = Sketch::new(layout);
    let (left, row_height) = match layout {
        Layout::Wide => (label_width(rows, layout.text_size()) + LABEL_GAP, 30.0),
        Layout::Narrow => (0.0, 46.0),
    };
    let bottom = TOP + row_height * float(rows.len());
    sketch.height = bottom + 44.0;
    let right = match layout {
        Layout::Wide => layout.width() - WORDS_WIDTH,
        Layout::Narrow => layout.width() - 8.0,
    };
    let frame = Frame { left, top: TOP, right, bottom };
    let values = rows
        .iter()
        .flat_map(|row| row.dots.iter().copied().chain([row.value, row.far.unwrap_or(row.value)]));
    let ticks_max = if layout == Layout::Wide { 9 } else { 5 };
    let mut x = Axis::log(values, ticks_max, time_tick);
    // Room to the left of the smallest value, or its bar would have no length.
    x.low /= (x.high / x.low).powf(0.08);
    frame.draw_x(&mut sketch, &x, "log scale");
    for (number, row) in rows.iter().enumerate() {
        draw_row(&mut sketch, &frame, &x, (row, TOP + row_height * float(number)));
    }
    sketch
}

fn label_width(rows: &[Row], size: f64) -> f64 {
    rows.iter().map(|row| text_width(&row.label, size)).fold(0.0, f64::max).min(LABEL_WIDTH_MAX)
}

fn draw_row(sketch: &mut Sketch, frame: &Frame, x: &Axis, (row, top): (&Row, f64)) {
    let size = sketch.layout.text_size();
    let words_width = text_width(&row.words, size);
    let y = match sketch.layout {
        Layout::Wide => {
            let y = top + 15.0;
            let label = shortened(&row.label, LABEL_WIDTH_MAX, size);
            sketch.text((0.0, y), label, Anchor::Start, Ink::Text);
            let words_at = (frame.right + 12.0, y);
            sketch.text(words_at, row.words.clone(), Anchor::Start, Ink::Muted);
            y
        }
        Layout::Narrow => {
            let room = sketch.layout.width() - words_width - 12.0;
            let label = shortened(&row.label, room, size);
            sketch.text((0.0, top + 12.0), label, Anchor::Start, Ink::Text);
            let words_at = (sketch.layout.width(), top + 12.0);
            sketch.text(words_at, row.words.clone(), Anchor::End, Ink::Muted);
            top + 31.0
        }
    };
    let mut rect = |from: f64, to: f64, half: f64, alpha: f64| {
        let (from, to) = ((from, y - half), (to, y + half));
        sketch.marks.push(Mark::Rect { from, to, ink: row.ink, alpha });
    };
    let end = frame.x(x, row.value);
    if row.dots.is_empty() {
        rect(frame.left, end, 6.5, 1.0);
    } else {
        rect(frame.left, end, 6.5, 0.35);
    }
    if let Some(far) = row.far.map(|far| frame.x(x, far)) {
        rect(end, far, 1.25, 1.0);
        rect(far - 1.0, far + 1.0, 5.0, 1.0);
    }
    for dot in &row.dots {
        sketch.dot((frame.x(x, *dot), y), Shape::Circle, row.ink);
    }
}
