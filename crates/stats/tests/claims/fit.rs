//! Lines: what was put in comes out, noise and stalls notwithstanding.

use highwater_stats::{LineFit, StatsError, fit_line, median};
use proptest::prelude::*;

use crate::synthetic::Draws;

const SIZES: [f64; 7] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];

/// Three rounds of every size: y = c + w x, times noise of 5 %.
fn noisy_line(c: f64, w: f64, seed: u64) -> Vec<(f64, f64)> {
    let mut draws = Draws::new(seed);
    let sizes = SIZES.iter().cycle().take(3 * SIZES.len());
    sizes.map(|x| (*x, draws.lognormal(c + w * x, 0.05))).collect()
}

fn assert_near(actual: f64, expected: f64, share: f64) {
    assert!((actual / expected - 1.0).abs() <= share, "{actual} is not {expected}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_exact_line_is_found_exactly(c in 1.0..1e4_f64, w in 0.01..1e2_f64) {
        let points: Vec<_> = SIZES.iter().map(|x| (*x, c + w * x)).collect();
        let LineFit { intercept, slope, knee, r2, points } = fit_line(&points).unwrap();
        assert_near(intercept, c, 1e-6);
        assert_near(slope, w, 1e-6);
        assert_near(knee.unwrap(), c / w, 1e-6);
        prop_assert!(r2 > 1.0 - 1e-9);
        prop_assert_eq!(points, 7);
    }

    #[test]
    fn the_unit_of_time_does_not_matter(seed: u64, factor in 1e-3..1e3_f64) {
        let points = noisy_line(100.0, 2.0, seed);
        let scaled: Vec<_> = points.iter().map(|(x, y)| (*x, y * factor)).collect();
        let (line, scaled) = (fit_line(&points).unwrap(), fit_line(&scaled).unwrap());
        assert_near(scaled.intercept, line.intercept * factor, 1e-6);
        assert_near(scaled.slope, line.slope * factor, 1e-6);
    }

    #[test]
    fn any_points_give_finite_numbers_or_an_error(
        points in prop::collection::vec((0.0..1e6_f64, 1e-3..1e9_f64), 0..12)
    ) {
        if let Ok(line) = fit_line(&points) {
            prop_assert!(line.intercept.is_finite() && line.slope.is_finite());
            prop_assert!(line.r2 <= 1.0);
            prop_assert!(line.knee.is_none_or(|knee| knee.is_finite() && knee > 0.0));
        }
    }
}

#[test]
fn noise_of_five_percent_moves_cost_by_a_few_percent_and_not_to_one_side() {
    let (mut costs, mut slopes) = (Vec::new(), Vec::new());
    for seed in 0..200 {
        let line = fit_line(&noisy_line(100.0, 2.0, seed)).unwrap();
        assert_near(line.intercept, 100.0, 0.12);
        assert_near(line.slope, 2.0, 0.12);
        assert!(line.r2 > 0.95, "r2 is {}", line.r2);
        costs.push(line.intercept);
        slopes.push(line.slope);
    }
    assert_near(median(&costs).unwrap(), 100.0, 0.01);
    assert_near(median(&slopes).unwrap(), 2.0, 0.01);
}

#[test]
fn a_stalled_round_does_not_bend_the_line() {
    for stalled in 0..3 * SIZES.len() {
        let mut points = noisy_line(100.0, 2.0, 7);
        points[stalled].1 *= 20.0;
        let line = fit_line(&points).unwrap();
        assert_near(line.intercept, 100.0, 0.12);
        assert_near(line.slope, 2.0, 0.12);
    }
}

#[test]
fn a_line_without_fixed_cost_or_without_slope_has_no_knee() {
    for points in
        [[(1.0, 1.0), (10.0, 11.0), (100.0, 111.0)], [(1.0, 50.0), (10.0, 49.0), (100.0, 40.0)]]
    {
        assert_eq!(fit_line(&points).unwrap().knee, None);
    }
}

#[test]
fn points_that_make_no_line_are_refused_with_the_reason() {
    let too_few = |have| Err(StatsError::TooFew { what: "points at different x", have, need: 2 });
    assert_eq!(fit_line(&[]), too_few(0));
    assert_eq!(fit_line(&[(5.0, 1.0), (5.0, 2.0)]), too_few(1));
    assert_eq!(fit_line(&[(0.0, 1.0), (-0.0, 2.0)]), too_few(1));
    let error = fit_line(&[(1.0, 1.0), (2.0, 0.0)]).unwrap_err();
    assert_eq!(error.to_string(), "y number 1 is 0: it must be finite and above zero");
    assert!(fit_line(&[(1.0, 1.0), (f64::NAN, 2.0)]).is_err());
    assert!(fit_line(&[(1.0, 1.0), (-2.0, 2.0)]).is_err());
}
