//! Ratios: the interval covers the truth as often as it says, and the verdict follows the rule.

use highwater_stats::{
    BootstrapSettings, RatioInterval, StatsError, Verdict, bootstrap_ratio, judge,
};
use proptest::prelude::*;

use crate::synthetic::Draws;

const THRESHOLD: f64 = 0.05;

/// How noisy a round is.
#[derive(Clone, Copy)]
enum Noise {
    /// Lognormal, 10 %.
    Even,
    /// The same, but one round in ten is five times as noisy.
    Bursts,
}

impl Noise {
    fn draw(self, draws: &mut Draws) -> f64 {
        let burst = matches!(self, Self::Bursts) && draws.uniform() < 0.1;
        draws.lognormal(1.0, if burst { 0.5 } else { 0.1 })
    }
}

/// Paired rounds whose true ratio is `truth`; what a pair shares varies by 30 %.
fn experiment(seed: u64, pairs: usize, truth: f64, noise: Noise) -> Vec<(f64, f64)> {
    let mut draws = Draws::new(seed);
    let mut pair = || {
        let shared = draws.lognormal(1e5, 0.3);
        (shared * noise.draw(&mut draws), shared * truth * noise.draw(&mut draws))
    };
    (0..pairs).map(|_| pair()).collect()
}

/// Few resamples keep the simulations quick.
fn quick() -> BootstrapSettings {
    BootstrapSettings { resamples: 1100, ..BootstrapSettings::default() }
}

fn intervals(pairs: usize, truth: f64, noise: Noise) -> impl Iterator<Item = RatioInterval> {
    (0..400).map(move |seed| {
        bootstrap_ratio(&experiment(seed, pairs, truth, noise), &quick()).expect("valid pairs")
    })
}

#[test]
fn the_interval_covers_the_true_ratio_about_as_often_as_it_says() {
    for noise in [Noise::Even, Noise::Bursts] {
        for pairs in [3, 4, 5, 8, 20] {
            let covers = |r: &RatioInterval| r.low <= 0.8 && 0.8 <= r.high;
            let covered = intervals(pairs, 0.8, noise).filter(covers).count() as f64 / 400.0;
            assert!((0.90..=0.995).contains(&covered), "{pairs} pairs cover {covered}");
        }
    }
}

#[test]
fn equal_cases_are_rarely_told_apart() {
    for pairs in [3, 5, 8, 20] {
        let apart = intervals(pairs, 1.0, Noise::Even)
            .filter(|r| matches!(judge(r, THRESHOLD), Verdict::Faster | Verdict::Slower))
            .count();
        assert!(apart <= 30, "{pairs} pairs tell apart {apart} of 400");
    }
}

#[test]
fn a_third_less_time_is_found_with_eight_pairs_and_equality_with_many() {
    let faster =
        intervals(8, 0.67, Noise::Even).filter(|r| judge(r, THRESHOLD) == Verdict::Faster).count();
    assert!(faster >= 395, "found in {faster} of 400");
    let equal = bootstrap_ratio(&experiment(1, 200, 1.0, Noise::Even), &quick()).unwrap();
    assert_eq!(judge(&equal, THRESHOLD), Verdict::NoDifference);
}

fn positive_pairs() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((1e-3..1e9_f64, 1e-3..1e9_f64), 3..12)
}

fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_interval_holds_the_ratio_and_repeats(pairs in positive_pairs()) {
        let r = bootstrap_ratio(&pairs, &quick()).unwrap();
        prop_assert!(r.low <= r.ratio && r.ratio <= r.high);
        prop_assert_eq!(r.pairs as usize, pairs.len());
        prop_assert_eq!(bootstrap_ratio(&pairs, &quick()).unwrap(), r);
    }

    #[test]
    fn swapping_the_cases_inverts_the_interval_and_mirrors_the_verdict(
        pairs in positive_pairs(), threshold in 0.0..0.9_f64
    ) {
        let swapped: Vec<_> = pairs.iter().map(|(b, c)| (*c, *b)).collect();
        let r = bootstrap_ratio(&pairs, &quick()).unwrap();
        let s = bootstrap_ratio(&swapped, &quick()).unwrap();
        prop_assert!(near(s.ratio, 1.0 / r.ratio));
        prop_assert!(near(s.low, 1.0 / r.high) && near(s.high, 1.0 / r.low));
        let mirrored = match judge(&r, threshold) {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            other => other,
        };
        prop_assert_eq!(judge(&s, threshold), mirrored);
    }

    #[test]
    fn the_unit_and_what_a_pair_shares_do_not_matter(
        pairs in positive_pairs(), factors in prop::collection::vec(1e-3..1e3_f64, 12)
    ) {
        let scaled: Vec<_> = pairs.iter().zip(&factors).map(|((b, c), f)| (b * f, c * f)).collect();
        let r = bootstrap_ratio(&pairs, &quick()).unwrap();
        let s = bootstrap_ratio(&scaled, &quick()).unwrap();
        prop_assert!(near(r.ratio, s.ratio) && near(r.low, s.low) && near(r.high, s.high));
    }

    #[test]
    fn more_confidence_is_a_wider_interval(pairs in positive_pairs()) {
        let at = |confidence| {
            bootstrap_ratio(&pairs, &BootstrapSettings { confidence, ..quick() }).unwrap()
        };
        let (less, more) = (at(0.8), at(0.99));
        prop_assert!(more.low <= less.low && less.high <= more.high);
    }

    #[test]
    fn every_interval_and_threshold_gets_one_verdict_and_the_same_twice(
        ends in any::<[f64; 3]>(), threshold: f64
    ) {
        let [low, ratio, high] = ends;
        let r = interval(low, ratio, high);
        prop_assert_eq!(judge(&r, threshold), judge(&r, threshold));
    }
}

fn interval(low: f64, ratio: f64, high: f64) -> RatioInterval {
    RatioInterval { ratio, low, high, pairs: 8, confidence: 0.95 }
}

#[test]
fn each_region_has_its_verdict() {
    for (low, ratio, high, verdict) in [
        (0.70, 0.80, 0.90, Verdict::Faster),
        (0.90, 0.95, 0.99, Verdict::Faster),
        (0.95, 0.95, 0.95, Verdict::Faster),
        (0.90, 0.96, 0.99, Verdict::Inconclusive),
        (0.96, 0.97, 0.98, Verdict::NoDifference),
        (0.96, 1.00, 1.04, Verdict::NoDifference),
        (1.01, 1.02, 1.04, Verdict::NoDifference),
        (0.95, 1.00, 1.0 / 0.95, Verdict::NoDifference),
        (0.94, 1.00, 1.04, Verdict::Inconclusive),
        (0.96, 1.00, 1.06, Verdict::Inconclusive),
        (0.50, 0.90, 1.00, Verdict::Inconclusive),
        (0.50, 1.00, 2.00, Verdict::Inconclusive),
        (1.00, 1.20, 1.50, Verdict::Inconclusive),
        (1.01, 1.04, 1.10, Verdict::Inconclusive),
        (1.01, 1.06, 1.10, Verdict::Slower),
        (1.10, 1.20, 1.30, Verdict::Slower),
        (f64::NAN, 0.5, 0.6, Verdict::Faster),
        (0.4, f64::NAN, 0.6, Verdict::Inconclusive),
        (0.4, 0.5, f64::NAN, Verdict::Inconclusive),
    ] {
        let judged = judge(&interval(low, ratio, high), THRESHOLD);
        assert_eq!(judged, verdict, "{low} {ratio} {high}");
    }
    for threshold in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(judge(&interval(0.1, 0.2, 0.3), threshold), Verdict::Inconclusive);
    }
    assert_eq!(judge(&interval(0.8, 0.999, 0.9999), 0.0), Verdict::Faster);
}

/// Logs 0, 0, 0, 0, 1 have resampled means of Binomial(5, 1/5) / 5. Beyond the expanded tail of
/// Phi(-2.776 sqrt(5 / 4)) = 0.00096 lies only 5/5 (0.00032), so the upper end is 4/5; beyond a
/// tail of 0.025, it would be 3/5. The lower end is Student's: 1/5 - 2.776 / 5.
#[test]
fn the_interval_of_a_skewed_sample_agrees_with_the_exact_distribution() {
    let e = std::f64::consts::E;
    let pairs = [(1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, 1.0), (1.0, e)];
    let r = bootstrap_ratio(&pairs, &BootstrapSettings::default()).unwrap();
    assert!(near(r.ratio, 0.2_f64.exp()), "{r:?}");
    assert!(near(r.high, 0.8_f64.exp()), "{r:?}");
    assert!(near(r.low, (0.2 - 2.776_445_105_2_f64 / 5.0).exp()), "{r:?}");
}

#[test]
fn pairs_that_agree_give_an_interval_of_one_point() {
    let r = bootstrap_ratio(&[(2.0, 1.0); 5], &BootstrapSettings::default()).unwrap();
    assert!(near(r.low, 0.5) && near(r.ratio, 0.5) && near(r.high, 0.5));
}

#[test]
fn pairs_and_settings_out_of_range_are_refused_with_the_reason() {
    let fine = [(1.0, 1.0); 3];
    let default = BootstrapSettings::default();
    assert_eq!(
        bootstrap_ratio(&fine[..2], &default),
        Err(StatsError::TooFew { what: "paired rounds", have: 2, need: 3 })
    );
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(bootstrap_ratio(&[fine[0], fine[0], (bad, 1.0)], &default).is_err());
        assert!(bootstrap_ratio(&[fine[0], (1.0, bad), fine[0]], &default).is_err());
    }
    let error = bootstrap_ratio(&[fine[0], (1.0, -2.0), fine[0]], &default).unwrap_err();
    assert_eq!(error.to_string(), "candidate number 1 is -2: it must be finite and above zero");
    for confidence in [0.0, 0.4, 1.0, f64::NAN] {
        let settings = BootstrapSettings { confidence, ..default.clone() };
        assert!(bootstrap_ratio(&fine, &settings).is_err());
    }
    let settings = BootstrapSettings { resamples: 99, ..default };
    let error = bootstrap_ratio(&fine, &settings).unwrap_err();
    assert_eq!(error.to_string(), "setting resamples is 99: it must be at least 100");
}

#[test]
fn results_are_written_as_documented() {
    assert_eq!(serde_json::to_string(&Verdict::NoDifference).unwrap(), r#""no_difference""#);
    let written = serde_json::to_string(&interval(0.5, 0.75, 1.0)).unwrap();
    assert_eq!(written, r#"{"ratio":0.75,"low":0.5,"high":1.0,"pairs":8,"confidence":0.95}"#);
    assert_eq!(serde_json::from_str::<RatioInterval>(&written).unwrap(), interval(0.5, 0.75, 1.0));
}
