//! How commit times are distributed: the share of commits that took no longer.

use highwater_stats::{LatencyHistogram, units};

use crate::data::{Group, RunData};
use crate::format::{time_tick, typographic};
use crate::plot::axis::{Axis, Frame};
use crate::plot::legend::{self, Entry};
use crate::plot::palette::Ink;
use crate::plot::sketch::{Layout, Point, Shape, Sketch};
use crate::plot::{Figure, fastest, left_out_words};
use crate::results::CaseResult;

const HEIGHT: f64 = 300.0;

struct Curve<'a> {
    case: &'a CaseResult,
    samples: &'a LatencyHistogram,
    ink: Ink,
    shape: Shape,
}

/// Draws the figure, where samples were kept.
pub(super) fn figure(data: &RunData, group: &Group, cases: &[&CaseResult]) -> Option<Figure> {
    let with_samples: Vec<&CaseResult> =
        cases.iter().copied().filter(|case| data.samples.contains_key(&case.id)).collect();
    let shown = fastest(&with_samples);
    let mut curves: Vec<Curve<'_>> = shown
        .iter()
        .enumerate()
        .map(|(number, case)| Curve {
            case,
            samples: &data.samples[&case.id].commit,
            ink: if case.durable { Ink::Series(number) } else { Ink::NotDurable },
            shape: Shape::of_series(number),
        })
        .filter(|curve| !curve.samples.is_empty())
        .collect();
    if curves.is_empty() {
        return None;
    }
    curves.sort_by_key(|curve| curve.samples.quantile(0.5));
    let caption = format!(
        "Further left is faster, steeper is steadier. A mark stands at each median.{}",
        left_out_words(curves.len(), cases.len())
    );
    let key = format!("ecdf-{}", group.id);
    let title = "Share of commits done within a time";
    Some(Figure::new(key, title, caption, |layout| draw(layout, &curves)))
}

fn draw(layout: Layout, curves: &[Curve<'_>]) -> Sketch {
    let mut sketch = Sketch::new(layout);
    let frame = legend::frame(&mut sketch, HEIGHT, curves.len());
    let ticks_max = if layout == Layout::Wide { 12 } else { 5 };
    let ends = curves.iter().flat_map(|curve| [curve.samples.min(), curve.samples.max()]);
    let x = Axis::log(ends.map(|ns| ns as f64), ticks_max, time_tick);
    let shares = [0.0, 0.25, 0.5, 0.75, 0.9, 1.0];
    let ticks = shares.map(|share| (share, format!("{:.0} %", share * 100.0))).into();
    let y = Axis::linear(0.0, 1.0, ticks);
    frame.draw_y(&mut sketch, &y, "share of commits");
    frame.draw_x(&mut sketch, &x, "commit time, log scale");
    for curve in curves {
        sketch.line(points(curve.samples, &frame, &x, &y), curve.ink, 2.0);
    }
    for curve in curves {
        let at = (frame.x(&x, curve.samples.quantile(0.5) as f64), frame.y(&y, 0.5));
        sketch.dot(at, curve.shape, curve.ink);
    }
    let entries: Vec<Entry> = curves.iter().map(entry).collect();
    legend::draw(&mut sketch, &frame, &entries);
    sketch
}

fn entry(curve: &Curve<'_>) -> Entry {
    let time = |q: f64| typographic(&units::duration_ns(curve.samples.quantile(q)));
    let mut detail = format!("p50 {}, p99 {}", time(0.5), time(0.99));
    if !curve.case.durable {
        detail = format!("NOT DURABLE, p50 {}", time(0.5));
    }
    let label = curve.case.label.clone();
    Entry { ink: curve.ink, shape: curve.shape, label, detail, wanted_y: None }
}

/// The staircase, without the steps too small to see.
fn points(samples: &LatencyHistogram, frame: &Frame, x: &Axis, y: &Axis) -> Vec<Point> {
    let first = (frame.x(x, samples.min() as f64), frame.bottom);
    let mut points: Vec<Point> = vec![first];
    for (ns, share) in samples.ecdf() {
        let at = (frame.x(x, ns as f64), frame.y(y, share));
        let last = points.last().expect("it starts with one");
        let far = (at.0 - last.0).abs() + (at.1 - last.1).abs() >= 1.5;
        if far || share >= 1.0 {
            points.push((at.0, last.1));
            points.push(at);
        }
    }
    points
}
