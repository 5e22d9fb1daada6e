//! Every sample of a case, in buckets a thousandth wide.
//!
//! Values are nanoseconds from 1 to [`HIGHEST_NS`]; what lies outside is counted in the outermost
//! bucket. The least and greatest value are kept exactly besides. A quantile is, as with every HDR
//! histogram, the upper end of the bucket it falls into (at most 0.1 % above the exact value),
//! but never beyond the greatest value seen.

use std::fmt;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The greatest value with a bucket of its own: one hour.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

/// Most samples held, exact as a float; further ones are not counted.
pub(crate) const COUNT_LIMIT: u64 = 1 << 53;

/// Significant decimal digits of a bucket.
pub(crate) const DIGITS: u8 = 3;

/// Collects latencies.
///
/// Grows with the greatest value recorded: 16 KiB when new, about 270 KiB with values of an hour.
#[derive(Clone)]
pub struct LatencyHistogram {
    /// Not empty exactly when `extremes` is there.
    counts: Histogram<u64>,
    extremes: Option<Extremes>,
}

/// The least and greatest value, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extremes {
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
}

/// What a table shows of one histogram. Quantiles come from buckets a thousandth wide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Samples.
    pub n: u64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// Standard deviation of the samples, ns.
    pub stddev_ns: f64,
    /// Least, ns, exact.
    pub min_ns: u64,
    /// Median, ns.
    pub p50_ns: u64,
    /// 90th percentile, ns.
    pub p90_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// 99.9th percentile, ns; the greatest value when there are fewer than 1000 samples.
    pub p999_ns: u64,
    /// Greatest, ns, exact.
    pub max_ns: u64,
}

impl LatencyHistogram {
    /// Creates an empty histogram.
    pub fn new() -> Self {
        let counts = Histogram::new(DIGITS).expect("three digits are within the range of five");
        Self { counts, extremes: None }
    }

    /// Counts one sample.
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Counts `count` samples of the same value; 0 ns counts as 1 ns.
    pub fn record_n(&mut self, ns: u64, count: u64) {
        let count = count.min(COUNT_LIMIT.saturating_sub(self.len()));
        if count == 0 {
            return;
        }
        self.counts
            .record_n(to_range(ns), count)
            .expect("the histogram grows, and its range is bounded");
        let ns = ns.max(1);
        self.widen(Extremes { min_ns: ns, max_ns: ns });
    }

    /// Adds every sample of another histogram.
    pub fn merge(&mut self, other: &Self) {
        let Some(extremes) = other.extremes else { return };
        for (low_ns, _, count) in other.buckets() {
            self.record_n(low_ns, count);
        }
        self.widen(extremes);
    }

    /// Returns the number of samples.
    pub fn len(&self) -> u64 {
        self.counts.len()
    }

    /// Tells whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.extremes.is_none()
    }

    /// Returns the value, ns, that a share `q` of all samples does not exceed. 0 when empty.
    ///
    /// `q` lies between 0 and 1; below is taken as 0 (the least value), above as 1 (the greatest).
    pub fn quantile(&self, q: f64) -> u64 {
        let Some(Extremes { min_ns, max_ns }) = self.extremes else { return 0 };
        if q >= 1.0 {
            return max_ns;
        }
        if q <= 0.0 {
            return min_ns;
        }
        self.counts.value_at_quantile(q).clamp(min_ns, max_ns)
    }

    /// Returns the mean, ns, of the bucket middles. 0 when empty.
    pub fn mean(&self) -> f64 {
        self.counts.mean().clamp(self.min() as f64, self.max() as f64)
    }

    /// Returns the least value, ns. 0 when empty.
    pub fn min(&self) -> u64 {
        self.extremes.map_or(0, |extremes| extremes.min_ns)
    }

    /// Returns the greatest value, ns. 0 when empty.
    pub fn max(&self) -> u64 {
        self.extremes.map_or(0, |extremes| extremes.max_ns)
    }

    /// Summarises the samples; `None` when there are none.
    pub fn summary(&self) -> Option<Summary> {
        let Extremes { min_ns, max_ns } = self.extremes?;
        Some(Summary {
            n: self.len(),
            mean_ns: self.mean(),
            stddev_ns: if min_ns == max_ns { 0.0 } else { self.counts.stdev() },
            min_ns,
            p50_ns: self.quantile(0.5),
            p90_ns: self.quantile(0.9),
            p99_ns: self.quantile(0.99),
            p999_ns: self.quantile(0.999),
            max_ns,
        })
    }

    /// Lists the cumulative distribution: (ns, share of samples at or below it), one point per
    /// bucket that holds samples, both rising, the last share being 1.
    pub fn ecdf(&self) -> Vec<(u64, f64)> {
        let total = self.len() as f64;
        let mut seen = 0;
        let mut points = Vec::new();
        for (_, high_ns, count) in self.buckets() {
            seen += count;
            points.push((high_ns, seen as f64 / total));
        }
        points
    }

    /// Lists the buckets that hold samples: (least ns, greatest ns, samples), upwards. The outer
    /// ends are the least and greatest value seen.
    pub fn buckets(&self) -> Vec<(u64, u64, u64)> {
        let Some(Extremes { min_ns, max_ns }) = self.extremes else { return Vec::new() };
        let mut buckets: Vec<_> = self
            .counts
            .iter_recorded()
            .map(|bucket| {
                let high_ns = bucket.value_iterated_to();
                (self.lowest_in(high_ns), high_ns, bucket.count_at_value())
            })
            .collect();
        if let Some(first) = buckets.first_mut() {
            first.0 = min_ns;
        }
        if let Some(last) = buckets.last_mut() {
            last.1 = max_ns;
        }
        buckets
    }

    /// Joins counts and extremes that belong together; `None` where they contradict each other.
    pub(crate) fn from_parts(mut counts: Histogram<u64>, kept: Option<Extremes>) -> Option<Self> {
        counts.auto(true);
        if counts.is_empty() {
            return kept.is_none().then_some(Self { counts, extremes: None });
        }
        let outer = Extremes { min_ns: counts.min(), max_ns: counts.max() };
        let extremes = kept.unwrap_or(outer);
        let consistent = outer.min_ns > 0
            && extremes.min_ns > 0
            && extremes.min_ns <= extremes.max_ns
            && counts.equivalent(to_range(extremes.min_ns), to_range(outer.min_ns))
            && counts.equivalent(to_range(extremes.max_ns), to_range(outer.max_ns));
        consistent.then_some(Self { counts, extremes: Some(extremes) })
    }

    /// The counts and extremes, to be written.
    pub(crate) fn parts(&self) -> (&Histogram<u64>, Option<Extremes>) {
        (&self.counts, self.extremes)
    }

    fn lowest_in(&self, ns: u64) -> u64 {
        self.counts.lowest_equivalent(ns)
    }

    fn widen(&mut self, by: Extremes) {
        let old = self.extremes.unwrap_or(by);
        self.extremes =
            Some(Extremes { min_ns: old.min_ns.min(by.min_ns), max_ns: old.max_ns.max(by.max_ns) });
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for LatencyHistogram {
    /// Compares what was recorded, not how much room each has.
    fn eq(&self, other: &Self) -> bool {
        self.extremes == other.extremes && self.buckets() == other.buckets()
    }
}

impl fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LatencyHistogram").field("summary", &self.summary()).finish_non_exhaustive()
    }
}

/// The value whose bucket counts `ns`.
fn to_range(ns: u64) -> u64 {
    ns.clamp(1, HIGHEST_NS)
}
