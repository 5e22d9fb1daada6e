//! A histogram that costs a request two additions: fixed bounds, atomic counts, no lock.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Upper bounds of the buckets, microseconds: factors of about two and a half from 50 us to 50 s.
const BOUNDS_US: [u64; 18] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 50_000_000,
];

/// Durations, counted by size.
#[derive(Debug, Clone, Default)]
pub(crate) struct Durations(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// One for each bound, and one for what is longer.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Durations {
    /// Counts one.
    pub fn observe(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.0.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.0.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let seconds = |us: u64| us as f64 / 1e6;
        let bounds = BOUNDS_US.iter().map(|us| seconds(*us)).chain([f64::INFINITY]);
        let counts = self.0.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = seconds(self.0.sum_us.load(Ordering::Relaxed));
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

impl TypedMetric for Durations {
    const TYPE: MetricType = MetricType::Histogram;
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    #[test]
    fn each_duration_is_in_the_bucket_of_the_first_bound_that_is_not_below_it() {
        let durations = Durations::default();
        for us in [0, 50, 51, 1_000_000, u64::MAX / 2] {
            durations.observe(Duration::from_micros(us));
        }
        let mut registry = Registry::default();
        registry.register("x", "X", durations);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert!(text.contains("x_bucket{le=\"0.00005\"} 2"), "{text}");
        assert!(text.contains("x_bucket{le=\"0.0001\"} 3"), "{text}");
        assert!(text.contains("x_bucket{le=\"50.0\"} 4"), "{text}");
        assert!(text.contains("x_bucket{le=\"+Inf\"} 5"), "{text}");
        assert!(text.contains("x_count 5"), "{text}");
    }
}
