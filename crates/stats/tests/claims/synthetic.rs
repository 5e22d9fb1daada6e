//! Seeded draws from distributions that latencies resemble.

use std::f64::consts::TAU;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::{Rng, SeedableRng};

pub(crate) struct Draws(Pcg32);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg32::seed_from_u64(seed))
    }

    /// Uniform, above 0 and below 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        (f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0
    }

    /// Standard normal (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }

    /// Lognormal with this median and this standard deviation of the logarithm.
    pub(crate) fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        median * (sigma * self.normal()).exp()
    }

    /// Pareto: at least `least`, with infinite variance for a `shape` of 2 or less.
    pub(crate) fn pareto(&mut self, least: f64, shape: f64) -> f64 {
        least * self.uniform().powf(-1.0 / shape)
    }
}
