//! A small seeded generator of plausible latencies.

use highwater_stats::LatencyHistogram;

/// Steele, Lea, Flood: splitmix64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Draws evenly from 0 to 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws from a normal distribution, nearly.
    pub(super) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// The shape of a case's latencies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) p50_us: f64,
    /// Spread of the main hump, as the standard deviation of the logarithm.
    pub(super) spread: f64,
    /// Share of commits that wait about eight times as long.
    pub(super) slow_share: f64,
}

impl Shape {
    pub(super) fn ns(&self, random: &mut Random) -> u64 {
        let slow = if random.unit() < self.slow_share { 8.0 } else { 1.0 };
        whole(self.p50_us * 1e3 * slow * (self.spread * random.normal()).exp())
    }
}

/// Splits each commit of a histogram in the part of its write and the part of its barrier.
pub(super) fn part(commits: &LatencyHistogram, share: f64) -> LatencyHistogram {
    let mut part = LatencyHistogram::new();
    for (low, _, count) in commits.buckets() {
        part.record_n(whole(low as f64 * share), count);
    }
    part
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative, and a fraction of a nanosecond is nothing"
)]
pub(super) fn whole(value: f64) -> u64 {
    value as u64
}
