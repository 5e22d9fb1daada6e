//! Axes: how a value becomes a position, and where the ticks are.

use crate::plot::palette::Ink;
use crate::plot::sketch::{Anchor, Layout, Sketch, text_width};

/// How values are spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Log,
}

/// A value with its label.
pub(crate) type Tick = (f64, String);

/// One axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) scale: Scale,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<Tick>,
}

/// The rectangle that data is drawn in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

const NICE: [f64; 3] = [1.0, 2.0, 5.0];

impl Axis {
    /// Makes a log axis around the values, from and to a round number, with at most `ticks_max`
    /// ticks. Values that are not above zero have no place on it.
    pub(crate) fn log(
        values: impl Iterator<Item = f64>,
        ticks_max: usize,
        format: impl Fn(f64) -> String,
    ) -> Self {
        let (low, high) = extent(values.filter(|value| *value > 0.0)).unwrap_or((1.0, 10.0));
        let (low, mut high) = (nice_below(low), nice_above(high));
        if high <= low {
            high = nice_above(low * 1.5);
        }
        let all = round_numbers(low, high);
        let among = |digits: &[f64]| -> Vec<f64> {
            all.iter().copied().filter(|value| is_one_of(*value, digits)).collect()
        };
        let choices = [among(&NICE), among(&[1.0, 3.0]), among(&[1.0])];
        let fits = |ticks: &&Vec<f64>| (2..=ticks_max).contains(&ticks.len());
        let candidates = choices.iter().find(fits).unwrap_or_else(|| {
            // Nothing fits: thin the decades, or what there is where a decade is too much.
            choices.iter().rev().find(|ticks| ticks.len() >= 2).unwrap_or(&choices[0])
        });
        let step = candidates.len().div_ceil(ticks_max.max(2));
        let ticks = candidates.iter().copied().step_by(step.max(1));
        let ticks = ticks.map(|value| (value, format(value))).collect();
        Self { scale: Scale::Log, low, high, ticks }
    }

    /// Makes a log axis whose ticks are the values measured at, thinned until they fit.
    pub(crate) fn log_at(mut values: Vec<f64>, room: f64, format: impl Fn(f64) -> String) -> Self {
        values.retain(|value| *value > 0.0);
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (low, high) = extent(values.iter().copied()).unwrap_or((1.0, 10.0));
        let pad = if high > low { (high / low).powf(0.04) } else { 2.0 };
        let mut axis =
            Self { scale: Scale::Log, low: low / pad, high: high * pad, ticks: Vec::new() };
        let mut free_from = f64::NEG_INFINITY;
        for value in values {
            let label = format(value);
            let at = axis.share(value) * room;
            let half = text_width(&label, Layout::Wide.text_size()) / 2.0;
            if at - half >= free_from {
                free_from = at + half + 10.0;
                axis.ticks.push((value, label));
            }
        }
        axis
    }

    /// Makes a linear axis from `low` to `high` with the given ticks.
    pub(crate) fn linear(low: f64, high: f64, ticks: Vec<Tick>) -> Self {
        Self { scale: Scale::Linear, low, high: if high > low { high } else { low + 1.0 }, ticks }
    }

    /// Where along the axis a value is, 0 to 1; values beyond its ends are put at the ends.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        share.clamp(0.0, 1.0)
    }
}

impl Frame {
    pub(crate) fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + axis.share(value) * (self.right - self.left)
    }

    pub(crate) fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom - axis.share(value) * (self.bottom - self.top)
    }

    /// Draws the ticks of the horizontal axis with their grid lines, and its name below.
    pub(crate) fn draw_x(&self, sketch: &mut Sketch, axis: &Axis, name: &str) {
        let mut free_from = f64::NEG_INFINITY;
        let size = sketch.layout.text_size();
        for (value, label) in &axis.ticks {
            let x = self.x(axis, *value);
            sketch.line(vec![(x, self.top), (x, self.bottom)], Ink::Grid, 1.0);
            let half = text_width(label, size) / 2.0;
            let (at, anchor) = within(x, half * WIDEST, sketch.layout.width());
            let middle = x.min(sketch.layout.width() - half).max(half);
            if middle - half >= free_from {
                sketch.text((at, self.bottom + 14.0), label.clone(), anchor, Ink::Muted);
                free_from = middle + half + 6.0;
            }
        }
        sketch.line(vec![(self.left, self.bottom), (self.right, self.bottom)], Ink::Axis, 1.0);
        if !name.is_empty() {
            let middle = f64::midpoint(self.left, self.right);
            sketch.text((middle, self.bottom + 34.0), name, Anchor::Middle, Ink::Muted);
        }
    }

    /// Draws the ticks of the vertical axis with their grid lines, and its name above.
    pub(crate) fn draw_y(&self, sketch: &mut Sketch, axis: &Axis, name: &str) {
        for (value, label) in &axis.ticks {
            let y = self.y(axis, *value);
            sketch.line(vec![(self.left, y), (self.right, y)], Ink::Grid, 1.0);
            sketch.text((self.left - 8.0, y), label.clone(), Anchor::End, Ink::Muted);
        }
        if !name.is_empty() {
            sketch.text((0.0, self.top - 18.0), name, Anchor::Start, Ink::Muted);
        }
    }
}

/// How much wider than estimated a label may come out: fonts differ.
const WIDEST: f64 = 1.25;

/// Places a label at `x`, or where it may not fit there at the edge, by its own end: it is not cut
/// then, however wide its letters are.
fn within(x: f64, half: f64, width: f64) -> (f64, Anchor) {
    if x + half > width {
        (width, Anchor::End)
    } else if x < half {
        (0.0, Anchor::Start)
    } else {
        (x, Anchor::Middle)
    }
}

/// The smallest and the largest of the values, where there are any.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |found, value| {
        let (low, high) = found.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

fn nice_below(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let fits = |nice: &&f64| *nice * decade <= value * 1.000_001;
    NICE.iter().rfind(fits).map_or(decade, |nice| nice * decade)
}

fn nice_above(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let fits = |nice: &&f64| *nice * decade >= value * 0.999_999;
    NICE.iter().find(fits).map_or(10.0 * decade, |nice| nice * decade)
}

/// The numbers 1, 2, 3 and 5 of each decade from `low` to `high`.
fn round_numbers(low: f64, high: f64) -> Vec<f64> {
    let mut found = Vec::new();
    let mut decade = 10f64.powf(low.log10().floor());
    while decade <= high * 1.000_001 {
        for nice in [1.0, 2.0, 3.0, 5.0] {
            let value = nice * decade;
            if (low * 0.999_999..=high * 1.000_001).contains(&value) {
                found.push(value);
            }
        }
        decade *= 10.0;
    }
    found
}

fn is_one_of(value: f64, leading: &[f64]) -> bool {
    let decade = 10f64.powf((value * 1.000_001).log10().floor());
    leading.iter().any(|digit| (value / decade - digit).abs() < 0.01)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn log_ticks_are_round_and_as_many_as_fit() {
        let plain = |value: f64| format!("{value}");
        let axis = Axis::log([130.0, 900.0].into_iter(), 8, plain);
        assert_eq!(labels(&axis), ["100", "200", "500", "1000"]);
        let axis = Axis::log([3.0, 40_000.0].into_iter(), 6, plain);
        assert_eq!(labels(&axis), ["10", "100", "1000", "10000"]);
        assert!((axis.low - 2.0).abs() < 1e-9 && (axis.high - 50_000.0).abs() < 1e-6);
    }

    #[test]
    fn an_axis_around_one_value_or_none_still_has_a_length() {
        for values in [vec![7.0], vec![10.0], vec![], vec![0.0, -3.0, f64::NAN]] {
            let axis = Axis::log(values.clone().into_iter(), 5, |v| v.to_string());
            assert!(axis.high > axis.low && axis.ticks.len() >= 2, "{values:?}: {axis:?}");
            let axis = Axis::log_at(values, 300.0, |v| v.to_string());
            assert!(axis.high > axis.low);
        }
    }

    #[test]
    fn a_label_at_an_edge_stands_on_its_own_end_there() {
        assert_eq!(within(200.0, 20.0, 400.0), (200.0, Anchor::Middle));
        assert_eq!(within(390.0, 20.0, 400.0), (400.0, Anchor::End));
        assert_eq!(within(5.0, 20.0, 400.0), (0.0, Anchor::Start));
    }

    #[test]
    fn shares_run_from_0_to_1_on_both_scales_and_never_beyond() {
        let log = Axis::log([1.0, 100.0].into_iter(), 5, |v| v.to_string());
        assert!((log.share(10.0) - 0.5).abs() < 1e-9);
        assert!(log.share(0.0).abs() < 1e-9 && (log.share(1e9) - 1.0).abs() < 1e-9);
        let linear = Axis::linear(0.0, 4.0, Vec::new());
        assert!((linear.share(1.0) - 0.25).abs() < 1e-9);
    }
}
