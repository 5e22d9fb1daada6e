//! Commit times over the run: one strip per case, with the stalls visible.

use std::collections::BTreeMap;

use crate::data::{Group, GroupKind, RunData, SeriesRow};
use crate::format::{float, time_tick};
use crate::plot::axis::{Axis, Frame};
use crate::plot::legend::shortened;
use crate::plot::palette::Ink;
use crate::plot::sketch::{Anchor, Layout, Shape, Sketch};
use crate::plot::{Figure, fastest, left_out_words};
use crate::results::CaseResult;

const STRIP_HEIGHT: f64 = 52.0;
const STRIP_STEP: f64 = 86.0;
const TOP: f64 = 26.0;
/// A slice whose slowest commit takes this many medians is a stall.
const STALL_FACTOR: f64 = 10.0;

struct Strip<'a> {
    case: &'a CaseResult,
    ink: Ink,
    /// Slices in the order of time, by round.
    rounds: BTreeMap<u32, Vec<&'a SeriesRow>>,
}

/// Draws the figure: for sections of paths, all cases; for others, those that drifted.
pub(super) fn figure(data: &RunData, group: &Group, cases: &[&CaseResult]) -> Option<Figure> {
    let wanted: Vec<&CaseResult> = cases
        .iter()
        .copied()
        .filter(|case| group.kind == GroupKind::Paths || case.drift.is_some())
        .collect();
    let shown = fastest(&wanted);
    let strips: Vec<Strip<'_>> = shown
        .iter()
        .enumerate()
        .map(|(number, case)| Strip {
            case,
            ink: if case.durable { Ink::Series(number) } else { Ink::NotDurable },
            rounds: rounds(data, &case.id),
        })
        .filter(|strip| !strip.rounds.is_empty())
        .collect();
    if strips.is_empty() {
        return None;
    }
    let mut caption = format!(
        "Lines: median of a slice of time. Needles: its slowest commit; a red dot marks one of \
         more than {STALL_FACTOR:.0} medians. Rounds of all cases took turns; the time between a \
         case's rounds is left out.{}",
        left_out_words(strips.len(), wanted.len())
    );
    if strips.iter().any(|strip| strip.case.drift.is_some()) {
        caption.push_str(" A red line marks a lasting change of level.");
    }
    let key = format!("series-{}", group.id);
    let title = "Commit time over the run";
    Some(Figure::new(key, title, caption, |layout| draw(layout, &strips)))
}

fn rounds<'a>(data: &'a RunData, id: &str) -> BTreeMap<u32, Vec<&'a SeriesRow>> {
    let mut rounds: BTreeMap<u32, Vec<&SeriesRow>> = BTreeMap::new();
    for row in data.series.iter().filter(|row| row.case_id == id && row.commits > 0) {
        rounds.entry(row.round).or_default().push(row);
    }
    for slices in rounds.values_mut() {
        slices.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
    }
    rounds
}

fn draw(layout: Layout, strips: &[Strip<'_>]) -> Sketch {
    let mut sketch = Sketch::new(layout);
    let bottom = TOP + STRIP_STEP * float(strips.len() - 1) + STRIP_HEIGHT;
    sketch.height = bottom + 44.0;
    let last = strips.iter().filter_map(|strip| strip.rounds.keys().max()).max();
    let rounds_count = last.map_or(1, |last| last + 1);
    let right = layout.width() - if layout == Layout::Wide { 4.0 } else { 8.0 };
    let ticks = (0..rounds_count).map(|round| (f64::from(round) + 0.5, (round + 1).to_string()));
    let x = Axis::linear(0.0, f64::from(rounds_count), ticks.collect());
    for (number, strip) in strips.iter().enumerate() {
        let top = TOP + STRIP_STEP * float(number);
        let frame = Frame { left: 64.0, top, right, bottom: top + STRIP_HEIGHT };
        draw_strip(&mut sketch, &frame, &x, strip);
        if number + 1 == strips.len() {
            name_rounds(&mut sketch, &frame, &x);
        }
    }
    sketch
}

fn draw_strip(sketch: &mut Sketch, frame: &Frame, x: &Axis, strip: &Strip<'_>) {
    let slices = || strip.rounds.values().flatten();
    let values = slices().flat_map(|row| [row.p50_ns as f64, row.max_ns as f64]);
    let y = Axis::log(values, 3, time_tick);
    frame.draw_y(sketch, &y, "");
    let size = sketch.layout.text_size();
    let label = shortened(&strip.case.label, frame.right - frame.left, size);
    sketch.text((frame.left, frame.top - 13.0), label, Anchor::Start, Ink::Text);
    let middle = strip.case.commit.as_ref().map_or(f64::INFINITY, |commit| commit.p50_ns as f64);
    let drift_at = strip.case.drift.as_ref().map(|drift| drift.at_ms);
    let mut stalls = Vec::new();
    let mut drifted = None;
    for (round, slices) in &strip.rounds {
        let start = frame.x(x, f64::from(*round));
        if *round > 0 {
            sketch.line(vec![(start, frame.top), (start, frame.bottom)], Ink::Grid, 1.0);
        }
        let mut medians = Vec::new();
        for (number, row) in slices.iter().enumerate() {
            let share = (float(number) + 0.5) / float(slices.len());
            let at = frame.x(x, f64::from(*round) + share);
            let (low, high) = (frame.y(&y, row.p50_ns as f64), frame.y(&y, row.max_ns as f64));
            sketch.line(vec![(at, low), (at, high)], strip.ink, 0.75);
            medians.push((at, low));
            if row.max_ns as f64 > STALL_FACTOR * middle {
                stalls.push((at, high));
            }
            if drifted.is_none() && drift_at.is_some_and(|drift| row.at_ms >= drift) {
                drifted = Some(at);
            }
        }
        sketch.line(medians, strip.ink, 2.0);
    }
    for at in stalls {
        sketch.dot(at, Shape::Circle, Ink::Alarm);
    }
    if let Some(at) = drifted {
        sketch.line(vec![(at, frame.top), (at, frame.bottom)], Ink::Alarm, 1.5);
    }
}

fn name_rounds(sketch: &mut Sketch, frame: &Frame, x: &Axis) {
    let mut free_from = f64::NEG_INFINITY;
    for (value, label) in &x.ticks {
        let at = frame.x(x, *value);
        if at >= free_from {
            sketch.text((at, frame.bottom + 14.0), label.clone(), Anchor::Middle, Ink::Muted);
            free_from = at + 28.0;
        }
    }
    let middle = f64::midpoint(frame.left, frame.right);
    sketch.text((middle, frame.bottom + 34.0), "round", Anchor::Middle, Ink::Muted);
}
