//! Time as a line over batch size: a fixed cost, a cost per unit, and the knee between them.
//!
//! Batch sizes span 1 to 1000, and times vary in proportion to themselves: 5 % of the time of 1000
//! writes is more than the whole fixed cost. Plain least squares would fit the largest batches and
//! leave the intercept to their noise. So it is the relative error that is made small: each squared
//! residual is divided by the square of the fitted time, which starts as the measured one (on its
//! own that would favour points that happen to be low) and is refined a few times.
//!
//! A round hit by a stall would still bend the line, so residuals beyond 1.345 times their usual
//! size count linearly, not squared (Huber 1964: 95 % as sharp as least squares when there are no
//! outliers).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::StatsError;
use crate::sample::{is_positive, median};

/// Rounds of reweighting; the weights settle within a few.
const REWEIGHTINGS: usize = 30;
/// Huber's bound on residuals, in standard deviations.
const USUAL_RESIDUAL: f64 = 1.345;
/// Standard deviations of a normal distribution per median absolute residual.
const DEVIATION_PER_MEDIAN: f64 = 1.4826;
/// A relative residual that no clock resolves; smaller ones are all the same.
const LEAST_RESIDUAL: f64 = 1e-9;

/// A line y = intercept + slope x.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LineFit {
    /// y at x = 0: the fixed cost, in the unit of y.
    pub intercept: f64,
    /// y per unit of x.
    pub slope: f64,
    /// intercept / slope: the x where half of y is fixed cost. Absent unless both are above zero.
    pub knee: Option<f64>,
    /// Share of the variation of y that the line explains, weighted as in the fit; at most 1.
    pub r2: f64,
    /// Points fitted.
    pub points: u32,
}

/// Fits a line to points (x, y) whose noise is proportional to y.
///
/// # Errors
/// Fewer than 2 points or than 2 different x, an x below zero or a y not above zero.
pub fn fit_line(points: &[(f64, f64)]) -> Result<LineFit, StatsError> {
    check_points(points)?;
    let mut weights: Vec<f64> = points.iter().map(|(_, y)| (y * y).recip()).collect();
    let mut line = least_squares(points, &weights);
    for _ in 0..REWEIGHTINGS {
        weights = reweighted(points, line);
        line = least_squares(points, &weights);
    }
    let (intercept, slope) = line;
    let knee = (intercept > 0.0 && slope > 0.0).then_some(intercept / slope);
    let count = u32::try_from(points.len()).expect("points are far fewer than 2^32");
    Ok(LineFit { intercept, slope, knee, r2: explained(points, line, &weights), points: count })
}

fn check_points(points: &[(f64, f64)]) -> Result<(), StatsError> {
    let bad = |what, index, value, must_be| StatsError::BadValue { what, index, value, must_be };
    for (index, (x, y)) in points.iter().enumerate() {
        if !(x.is_finite() && *x >= 0.0) {
            return Err(bad("x", index, *x, "finite and not below zero"));
        }
        if !is_positive(*y) {
            return Err(bad("y", index, *y, "finite and above zero"));
        }
    }
    let mut xs: Vec<f64> = points.iter().map(|(x, _)| *x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    if xs.len() < 2 {
        return Err(StatsError::TooFew { what: "points at different x", have: xs.len(), need: 2 });
    }
    Ok(())
}

/// The line with the least weighted sum of squares.
fn least_squares(points: &[(f64, f64)], weights: &[f64]) -> (f64, f64) {
    let total: f64 = weights.iter().sum();
    let average = |of: fn(&(f64, f64)) -> f64| {
        points.iter().zip(weights).map(|(point, weight)| weight * of(point)).sum::<f64>() / total
    };
    let (x_mean, y_mean) = (average(|(x, _)| *x), average(|(_, y)| *y));
    let (mut xx, mut xy) = (0.0, 0.0);
    for ((x, y), weight) in points.iter().zip(weights) {
        xx += weight * (x - x_mean) * (x - x_mean);
        xy += weight * (x - x_mean) * (y - y_mean);
    }
    let slope = xy / xx;
    (y_mean - slope * x_mean, slope)
}

/// Weights by the fitted times, less where the residual is unusual.
fn reweighted(points: &[(f64, f64)], (intercept, slope): (f64, f64)) -> Vec<f64> {
    let relative = |(x, y): &(f64, f64)| {
        let fitted = intercept + slope * x;
        // A line that is not above zero here is no scale for an error.
        let scale = if fitted > 0.0 { fitted } else { *y };
        (scale, (y - fitted).abs() / scale)
    };
    let errors: Vec<(f64, f64)> = points.iter().map(relative).collect();
    let residuals: Vec<f64> = errors.iter().map(|(_, residual)| *residual).collect();
    let deviation = DEVIATION_PER_MEDIAN * median(&residuals).unwrap_or(0.0);
    let usual = (USUAL_RESIDUAL * deviation).max(LEAST_RESIDUAL);
    errors.iter().map(|(scale, residual)| (usual / residual).min(1.0) / (scale * scale)).collect()
}

/// 1 - weighted squares about the line / weighted squares about the mean.
fn explained(points: &[(f64, f64)], (intercept, slope): (f64, f64), weights: &[f64]) -> f64 {
    let total: f64 = weights.iter().sum();
    let y_mean = points.iter().zip(weights).map(|((_, y), w)| w * y).sum::<f64>() / total;
    let (mut about_line, mut about_mean) = (0.0, 0.0);
    for ((x, y), weight) in points.iter().zip(weights) {
        about_line += weight * (y - intercept - slope * x).powi(2);
        about_mean += weight * (y - y_mean).powi(2);
    }
    if about_mean > 0.0 { 1.0 - about_line / about_mean } else { 1.0 }
}
