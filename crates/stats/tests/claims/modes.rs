//! Modes: as many humps as were put in, where they were put, and none from noise.

use highwater_stats::{LatencyHistogram, Mode, modes};
use proptest::prelude::*;

use crate::synthetic::Draws;

fn histogram(seed: u64, n: usize, latency: impl Fn(&mut Draws) -> f64) -> LatencyHistogram {
    let mut draws = Draws::new(seed);
    let mut histogram = LatencyHistogram::new();
    for _ in 0..n {
        let ns = latency(&mut draws).clamp(1.0, 1e12);
        histogram.record(format!("{ns:.0}").parse().expect("a whole number"));
    }
    histogram
}

/// Lognormal humps: (share, median, sigma).
fn mixture(draws: &mut Draws, humps: &[(f64, f64, f64)]) -> f64 {
    let mut left = draws.uniform();
    for (share, median, sigma) in humps {
        left -= share;
        if left < 0.0 {
            return draws.lognormal(*median, *sigma);
        }
    }
    unreachable!("the shares add up to 1")
}

fn assert_humps(found: &[Mode], expected: &[(f64, f64, f64)]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (mode, (share, median, _)) in found.iter().zip(expected) {
        assert!((mode.share - share).abs() < 0.04, "{mode:?} should hold {share}");
        let centre = mode.centre_ns as f64;
        assert!((centre / median - 1.0).abs() < 0.1, "{mode:?} should be at {median}");
    }
}

#[test]
fn one_hump_is_one_mode_whatever_its_width_and_tail() {
    for seed in 0..6 {
        for n in [50, 300, 3000] {
            for sigma in [0.003, 0.02, 0.1, 0.5, 1.0] {
                let samples = histogram(seed, n, |d| d.lognormal(1e5, sigma));
                assert_eq!(modes(&samples).len(), 1, "sigma {sigma}, n {n}, seed {seed}");
            }
            for shape in [1.0, 2.0] {
                let samples = histogram(seed, n, |d| d.pareto(1e5, shape));
                assert_eq!(modes(&samples).len(), 1, "shape {shape}, n {n}, seed {seed}");
            }
        }
    }
}

#[test]
fn a_long_thin_tail_of_many_samples_is_no_mode() {
    for seed in 0..8 {
        let samples = histogram(seed, 10_000, |d| {
            if d.uniform() < 0.9 { d.lognormal(1e5, 0.02) } else { d.pareto(1e5, 0.7) }
        });
        assert_eq!(modes(&samples).len(), 1, "seed {seed}");
    }
}

#[test]
fn times_of_a_few_clock_steps_are_one_mode() {
    for median in [3.0, 30.0, 300.0] {
        let samples = histogram(1, 3000, |d| d.lognormal(median, 0.2));
        assert_eq!(modes(&samples).len(), 1, "median {median} ns");
    }
}

#[test]
fn clear_mixtures_are_told_apart_with_their_shares() {
    for seed in 0..6 {
        for humps in [
            &[(0.5, 1e5, 0.1), (0.5, 3e5, 0.1)][..],
            &[(0.9, 1e5, 0.2), (0.1, 1e6, 0.2)],
            &[(0.1, 2e4, 0.1), (0.9, 1e5, 0.1)],
            &[(0.2, 1e4, 0.3), (0.5, 1e5, 0.3), (0.3, 4e6, 0.3)],
        ] {
            let samples = histogram(seed, 3000, |d| mixture(d, humps));
            assert_humps(&modes(&samples), humps);
        }
    }
}

#[test]
fn a_hump_with_less_than_its_share_joins_its_neighbour() {
    let humps = [(0.99, 1e5, 0.05), (0.01, 4e6, 0.05)];
    let samples = histogram(1, 10_000, |d| mixture(d, &humps));
    let found = modes(&samples);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].low_ns, found[0].high_ns), (samples.min(), samples.max()));
}

#[test]
fn humps_behind_a_shallow_valley_are_not_told_apart() {
    // Two and three standard deviations apart: the density has no valley, then one of 64 %.
    for second in [1.5e5, 1.82e5] {
        let humps = [(0.5, 1e5, 0.2), (0.5, second, 0.2)];
        assert_eq!(modes(&histogram(1, 20_000, |d| mixture(d, &humps))).len(), 1, "{second}");
    }
}

#[test]
fn few_samples_are_one_mode_and_none_are_none() {
    assert_eq!(modes(&LatencyHistogram::new()), []);
    let mut few = LatencyHistogram::new();
    few.record_n(1000, 24);
    few.record_n(1_000_000, 25);
    let whole = Mode { centre_ns: 1_000_000, low_ns: 1000, high_ns: 1_000_000, share: 1.0 };
    let found = modes(&few);
    assert!(found[0].centre_ns.abs_diff(whole.centre_ns) < 1000);
    assert_eq!(found, [Mode { centre_ns: found[0].centre_ns, ..whole }]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_sample_belongs_to_one_mode(
        samples in prop::collection::vec((1..u64::MAX >> 20, 1..500_u64), 1..30)
    ) {
        let mut histogram = LatencyHistogram::new();
        for (ns, count) in &samples {
            histogram.record_n(*ns, *count);
        }
        let found = modes(&histogram);
        prop_assert!((found.iter().map(|mode| mode.share).sum::<f64>() - 1.0).abs() < 1e-9);
        prop_assert!(found.is_sorted_by(|a, b| a.high_ns < b.low_ns));
        prop_assert_eq!(found[0].low_ns, histogram.min());
        prop_assert_eq!(found[found.len() - 1].high_ns, histogram.max());
        for mode in &found {
            prop_assert!(mode.low_ns <= mode.centre_ns && mode.centre_ns <= mode.high_ns);
            prop_assert!(mode.share >= 0.02 || found.len() == 1);
        }
    }
}
