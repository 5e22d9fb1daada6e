//! The normal distribution and Student's t, as far as intervals need them.

use std::f64::consts::{FRAC_2_PI, PI};

/// Computes the probability that a standard normal variable lies below `z`.
///
/// Source: Abramowitz and Stegun 26.2.11, a series of positive terms: exact to about 1e-15, so
/// useless only for tails beyond 7 standard deviations, which come out as 0 or 1.
pub(crate) fn normal_below(z: f64) -> f64 {
    if z.abs() > 7.0 {
        return if z < 0.0 { 0.0 } else { 1.0 };
    }
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term.abs() > f64::EPSILON * sum.abs() {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    let density = (-z * z / 2.0).exp() / (2.0 * PI).sqrt();
    (0.5 + density * sum).clamp(0.0, 1.0)
}

/// Computes the t with `confidence` of Student's distribution between -t and t.
///
/// `confidence` lies between 0 and 1, `freedom` (degrees of freedom) is at least 1.
pub(crate) fn student_two_sided(confidence: f64, freedom: usize) -> f64 {
    assert!(confidence > 0.0 && confidence < 1.0 && freedom > 0, "checked by the caller");
    // The angle atan(t / sqrt(freedom)) is bounded, so halving its range always ends.
    let (mut low, mut high) = (0.0, PI / 2.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if student_within(middle, freedom) < confidence {
            low = middle;
        } else {
            high = middle;
        }
    }
    (freedom as f64).sqrt() * f64::midpoint(low, high).tan()
}

/// Computes the probability of Student's t within -t and t, given the angle
/// atan(t / sqrt(freedom)).
///
/// Source: Abramowitz and Stegun 26.7.3 and 26.7.4, finite sums for whole degrees of freedom.
fn student_within(angle: f64, freedom: usize) -> f64 {
    let (sin, cos) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    let (mut term, mut sum) = if odd { (cos, cos) } else { (1.0, 1.0) };
    if freedom == 1 {
        return FRAC_2_PI * angle;
    }
    let first = if odd { 3 } else { 2 };
    for step in (first..=freedom - 2).step_by(2) {
        let step = step as f64;
        term *= cos * cos * (step - 1.0) / step;
        sum += term;
    }
    if odd { FRAC_2_PI * (angle + sin * sum) } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
    }

    #[test]
    fn the_normal_distribution_agrees_with_published_tables() {
        close(normal_below(0.0), 0.5, 1e-15);
        close(normal_below(1.0), 0.841_344_746_068_543, 1e-14);
        close(normal_below(-1.959_963_984_540_054), 0.025, 1e-14);
        close(normal_below(-5.0), 2.866_515_719e-7, 1e-15);
        close(normal_below(-40.0), 0.0, 0.0);
        close(normal_below(40.0), 1.0, 0.0);
    }

    #[test]
    fn students_t_agrees_with_published_tables() {
        for (freedom, expected) in [
            (1, 12.706_204_736),
            (2, 4.302_652_730),
            (3, 3.182_446_305),
            (4, 2.776_445_105),
            (5, 2.570_581_836),
            (9, 2.262_157_163),
            (10, 2.228_138_852),
            (30, 2.042_272_456),
            (100, 1.983_971_519),
        ] {
            close(student_two_sided(0.95, freedom), expected, 1e-8);
        }
        close(student_two_sided(0.99, 4), 4.604_094_871, 1e-8);
        close(student_two_sided(0.95, 100_000), 1.959_987_7, 1e-6);
    }
}
