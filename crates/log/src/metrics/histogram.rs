//! Counts of values in fixed buckets: four to each doubling, so that a quantile is read to within a
//! quarter. Recording allocates nothing and takes no lock of its own.

/// Buckets: values up to 3 have one each, then four to each doubling up to 2^41.
const BUCKETS: usize = 160;
/// Sub-buckets of a doubling, as a power of two.
const SUB_BITS: u32 = 2;

/// Values, counted in buckets. Values beyond the last bucket count in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sum: 0, max: 0 }
    }
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub(crate) fn record(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The largest value; 0 without any.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Upper bound of the bucket that holds the value below which `per_mille` thousandths lie, and
    /// never more than the largest value; 0 without any.
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let rank = self.count().saturating_mul(per_mille.min(1000)).div_ceil(1000).max(1);
        let mut seen = 0;
        let holds = |(_, count): &(u64, u64)| {
            seen += count;
            seen >= rank
        };
        self.buckets().find(holds).map_or(self.max, |(bound, _)| bound.min(self.max))
    }

    /// Every bucket in rising order: the largest value that counts in it, and how many did. The
    /// last one holds all that is larger, too.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().map(|(at, count)| (upper_bound(at), *count))
    }
}

fn bucket_of(value: u64) -> usize {
    let small = 1 << SUB_BITS;
    if value < small {
        return usize::try_from(value).expect("a small number");
    }
    let exponent = value.ilog2();
    let sub = (value >> (exponent - SUB_BITS)) & (small - 1);
    let at = u64::from(exponent - SUB_BITS + 1) * small + sub;
    usize::try_from(at).expect("a small number").min(BUCKETS - 1)
}

fn upper_bound(bucket: usize) -> u64 {
    let bucket = u64::try_from(bucket).expect("usize fits u64");
    let small = 1 << SUB_BITS;
    if bucket < small {
        return bucket;
    }
    let (doubling, sub) = (bucket / small, bucket % small);
    ((small + sub + 1) << (doubling - 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_lie_side_by_side_and_hold_what_their_bounds_say() {
        let bounds: Vec<u64> = Histogram::default().buckets().map(|(bound, _)| bound).collect();
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]));
        for (at, bound) in bounds.iter().enumerate() {
            assert_eq!(bucket_of(*bound), at);
            assert_eq!(bucket_of(bound + 1), (at + 1).min(BUCKETS - 1));
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        // More than half an hour, in nanoseconds.
        assert!(bounds[BUCKETS - 1] > 1800 * 1_000_000_000);
    }

    proptest! {
        #[test]
        fn a_quantile_is_at_least_the_exact_one_and_a_quarter_above_it_at_most(
            mut values in prop::collection::vec(0..1_u64 << 40, 1..200),
            per_mille in 0..=1000_u64,
        ) {
            let mut histogram = Histogram::default();
            for value in &values {
                histogram.record(*value);
            }
            values.sort_unstable();
            let count = u64::try_from(values.len()).unwrap();
            let rank = (count * per_mille).div_ceil(1000).max(1);
            let exact = values[usize::try_from(rank).unwrap() - 1];
            let told = histogram.quantile(per_mille);
            prop_assert!(exact <= told && told <= exact + exact / 4, "{exact} {told}");
            prop_assert_eq!(histogram.count(), count);
            prop_assert_eq!(histogram.sum(), values.iter().sum::<u64>());
            prop_assert_eq!(histogram.max(), *values.last().unwrap());
        }
    }

    #[test]
    fn an_empty_histogram_says_zero() {
        let empty = Histogram::default();
        assert_eq!((empty.count(), empty.sum(), empty.max(), empty.quantile(500)), (0, 0, 0, 0));
    }
}
