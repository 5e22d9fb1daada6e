//! Drift: a change of level is found where it is, and noise alone seldom looks like one.

use highwater_stats::{ChangePoint, ChangePointSettings, change_point};
use proptest::prelude::*;

use crate::synthetic::Draws;

/// Few permutations keep the simulations quick.
fn quick() -> ChangePointSettings {
    ChangePointSettings { permutations: 299, ..ChangePointSettings::default() }
}

/// Noise of 10 %; one value in twenty is out by a factor without mean.
fn heavy_tailed(draws: &mut Draws) -> f64 {
    let stall = if draws.uniform() < 0.05 { draws.pareto(1.0, 1.0) } else { 1.0 };
    draws.lognormal(1e5, 0.1) * stall
}

/// A level that is multiplied by `step` from `at` on.
fn stepped(seed: u64, length: usize, at: usize, step: f64) -> Vec<f64> {
    let mut draws = Draws::new(seed);
    let level = |place| if place < at { 1.0 } else { step };
    (0..length).map(|place| heavy_tailed(&mut draws) * level(place)).collect()
}

/// Each value keeps a share `memory` of the deviation of the one before.
fn with_memory(seed: u64, length: usize, memory: f64) -> Vec<f64> {
    let mut draws = Draws::new(seed);
    let mut deviation = 0.0;
    let mut value = || {
        deviation = memory * deviation + (1.0 - memory * memory).sqrt() * draws.normal();
        1e5 * (0.15 * deviation).exp()
    };
    (0..length).map(|_| value()).collect()
}

fn share_reported(series: impl Fn(u64) -> Vec<f64>) -> f64 {
    let reported = (0..100).filter(|seed| change_point(&series(*seed), &quick()).is_some());
    reported.count() as f64 / 100.0
}

#[test]
fn a_change_is_found_where_it_happened() {
    for (length, at, step) in [(60, 30, 1.5), (60, 48, 1.5), (60, 15, 0.5), (200, 60, 1.3)] {
        let changes: Vec<ChangePoint> = (0..40)
            .filter_map(|seed| change_point(&stepped(seed, length, at, step), &quick()))
            .collect();
        assert!(changes.len() >= 38, "{step} at {at} of {length}: {} of 40", changes.len());
        let near = changes.iter().filter(|change| change.index.abs_diff(at) <= 3).count();
        assert!(near >= 34, "{step} at {at} of {length}: {near} of 40 in place");
        for change in changes {
            let found = change.after / change.before;
            assert!((found / step - 1.0).abs() < 0.2, "{found} is not {step}");
            assert!(change.p_value > 0.0 && change.p_value <= 0.01);
        }
    }
}

#[test]
fn heavy_tailed_noise_is_rarely_reported() {
    for length in [20, 60, 200] {
        let share = share_reported(|seed| stepped(seed, length, 0, 1.0));
        assert!(share <= 0.04, "{share} of series of {length}");
    }
}

#[test]
fn noise_with_a_short_memory_is_seldom_reported() {
    for (memory, most) in [(0.3, 0.06), (0.5, 0.10)] {
        let share = share_reported(|seed| with_memory(seed, 100, memory));
        assert!(share <= most, "{share} with a memory of {memory}");
    }
}

#[test]
fn a_change_too_small_to_matter_is_not_reported() {
    let mut series = vec![100.0; 50];
    series.extend([109.0; 50]);
    assert_eq!(change_point(&series, &quick()), None);
    let any_size = ChangePointSettings { min_change: 0.0, ..quick() };
    let change = change_point(&series, &any_size).unwrap();
    assert_eq!((change.index, change.before, change.after), (50, 100.0, 109.0));
}

#[test]
fn one_enormous_value_is_no_change_of_level() {
    let mut series = stepped(3, 80, 0, 1.0);
    series[70] = 1e15;
    assert_eq!(change_point(&series, &quick()), None);
}

#[test]
fn series_that_cannot_tell_give_no_answer() {
    let settings = ChangePointSettings::default();
    assert_eq!(change_point(&[], &settings), None);
    assert_eq!(change_point(&[1.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0, 9.0], &settings), None);
    assert_eq!(change_point(&[5.0; 50], &settings), None);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let mut series = stepped(1, 60, 30, 2.0);
        series[40] = bad;
        assert_eq!(change_point(&series, &settings), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_unit_does_not_matter_and_the_answer_repeats(
        seed: u64, at in 5..35_usize, step in 0.3..3.0_f64
    ) {
        let series = stepped(seed, 40, at, step);
        let doubled: Vec<_> = series.iter().map(|value| value * 2.0).collect();
        let change = change_point(&series, &quick());
        prop_assert_eq!(&change_point(&series, &quick()), &change);
        let scaled = change.map(|c| {
            ChangePoint { before: c.before * 2.0, after: c.after * 2.0, ..c }
        });
        prop_assert_eq!(change_point(&doubled, &quick()), scaled);
    }
}
