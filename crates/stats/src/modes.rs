//! Separate humps of a latency distribution: what a mean hides.
//!
//! Latencies differ by factors, so the density is taken over their logarithm and smoothed with a
//! Gaussian kernel of Silverman's width. Going upwards, two peaks are two humps only if the valley
//! between them
//!
//! - falls below [`VALLEY`] of the smaller peak, and
//! - is lower than either peak by more than chance would make it ([`CERTAINTY`]).
//!
//! So a shoulder, the ripples of a thin tail and a few stray samples make no hump. A hump with less
//! than [`MIN_SHARE`] of the samples joins its neighbour; every sample belongs to one hump.

use std::f64::consts::PI;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::LatencyHistogram;
use crate::sample::floor_to_index;

/// A valley is lower than this share of both peaks beside it.
const VALLEY: f64 = 0.5;
/// Standard deviations (of a Poisson count) by which it is lower.
const CERTAINTY: f64 = 4.0;
/// A hump holds at least this share of the samples.
const MIN_SHARE: f64 = 0.02;
/// Fewer samples than this are one hump.
const FEWEST_SAMPLES: u64 = 50;
/// Width of a bin, in natural logarithm: 1 %.
const BIN: f64 = 0.01;
/// Least width of the kernel, in bins.
const LEAST_WIDTH_BINS: f64 = 1.5;

/// One hump of a latency distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mode {
    /// Median of its samples, ns.
    pub centre_ns: u64,
    /// Its least value, ns.
    pub low_ns: u64,
    /// Its greatest value, ns.
    pub high_ns: u64,
    /// Share of all samples in it, 0 to 1; the shares of all humps add up to 1.
    pub share: f64,
}

/// Finds the humps, fastest first; none for an empty histogram, one for fewer than 50 samples.
pub fn modes(samples: &LatencyHistogram) -> Vec<Mode> {
    let buckets = samples.buckets();
    let mut cuts = Vec::new();
    if samples.len() >= FEWEST_SAMPLES {
        cuts = Density::of(&buckets, samples.len() as f64).cuts();
        join_small(&mut cuts, &buckets);
    }
    let hump_of = |bucket: &Bucket| hump_at(&cuts, bucket.0);
    buckets
        .chunk_by(|a, b| hump_of(a) == hump_of(b))
        .map(|hump| describe(hump, samples.len()))
        .collect()
}

/// A bucket of the histogram: least ns, greatest ns, samples.
type Bucket = (u64, u64, u64);

/// Where two humps are told apart.
struct Cut {
    /// The first bin of the upper hump starts here, natural logarithm of ns.
    at_ln: f64,
    /// Smoothed density there.
    density: f64,
}

/// Number of the hump that a value belongs to.
fn hump_at(cuts: &[Cut], ns: u64) -> usize {
    cuts.partition_point(|cut| cut.at_ln <= (ns as f64).ln())
}

/// Removes cuts until every hump holds its share: the smallest hump joins the neighbour behind the
/// shallower valley.
fn join_small(cuts: &mut Vec<Cut>, buckets: &[Bucket]) {
    while !cuts.is_empty() {
        let mut counts = vec![0; cuts.len() + 1];
        for (low_ns, _, count) in buckets {
            counts[hump_at(cuts, *low_ns)] += count;
        }
        let total: u64 = counts.iter().sum();
        let smallest = (0..counts.len()).min_by_key(|hump| counts[*hump]).unwrap_or(0);
        if counts[smallest] as f64 >= total as f64 * MIN_SHARE {
            return;
        }
        let below = smallest.checked_sub(1);
        let joined = match (below, cuts.get(smallest)) {
            (Some(below), Some(above)) if cuts[below].density < above.density => smallest,
            (Some(below), _) => below,
            (None, _) => smallest,
        };
        cuts.remove(joined);
    }
}

fn describe(hump: &[Bucket], total: u64) -> Mode {
    let count: u64 = hump.iter().map(|(_, _, count)| count).sum();
    let mut seen = 0;
    let reaches_half = |(_, _, samples): &&Bucket| {
        seen += samples;
        seen >= count.div_ceil(2)
    };
    let (first, last) = (hump[0], hump[hump.len() - 1]);
    let middle = hump.iter().find(reaches_half).unwrap_or(&last);
    let share = count as f64 / total as f64;
    Mode { centre_ns: middle.1, low_ns: first.0, high_ns: last.1, share }
}

/// A smoothed density over the logarithm of ns.
struct Density {
    /// Natural logarithm of ns where the first bin starts.
    origin_ln: f64,
    /// Samples in each bin, smoothed.
    bins: Vec<f64>,
    /// Bins that the kernel averages over: this many times a bin's density is a count of samples.
    kernel_bins: f64,
}

impl Density {
    /// Smooths at least one bucket.
    fn of(buckets: &[Bucket], total: f64) -> Self {
        let origin_ln = (buckets[0].0 as f64).ln();
        let mut bins = Vec::new();
        for bucket in buckets {
            spread(&mut bins, origin_ln, bucket);
        }
        let width_bins = kernel_width(&bins, total);
        Self {
            origin_ln,
            bins: smooth(&bins, width_bins),
            kernel_bins: width_bins * 2.0 * PI.sqrt(),
        }
    }

    /// The valleys, upwards.
    ///
    /// One walk: remember the highest bin; once a bin lies deep enough below it, remember the
    /// lowest since; once a bin rises high enough above that one, the valley is real.
    fn cuts(&self) -> Vec<Cut> {
        let mut cuts = Vec::new();
        let (mut peak, mut valley): (f64, Option<(usize, f64)>) = (0.0, None);
        for (place, density) in self.bins.iter().copied().enumerate() {
            match valley {
                Some((at, low)) if self.is_deeper(low, density) => {
                    cuts.push(Cut { at_ln: self.origin_ln + at as f64 * BIN, density: low });
                    (peak, valley) = (density, None);
                }
                Some((_, low)) if density < low => valley = Some((place, density)),
                Some(_) => {}
                None if self.is_deeper(density, peak) => valley = Some((place, density)),
                None => peak = peak.max(density),
            }
        }
        cuts
    }

    /// Tells whether `low` is a valley beside `high`, by proportion and beyond chance.
    fn is_deeper(&self, low: f64, high: f64) -> bool {
        let chance = ((low + high) * self.kernel_bins).sqrt();
        low < VALLEY * high && (high - low) * self.kernel_bins > CERTAINTY * chance
    }
}

/// Adds a bucket to the bins it covers: whole nanoseconds are wide steps where values are small.
fn spread(bins: &mut Vec<f64>, origin_ln: f64, (low_ns, high_ns, count): &Bucket) {
    let start = ((*low_ns as f64).ln() - origin_ln) / BIN;
    let end = ((*high_ns as f64 + 1.0).ln() - origin_ln) / BIN;
    let last = floor_to_index(end);
    if bins.len() <= last {
        bins.resize(last + 1, 0.0);
    }
    for (bin, samples) in bins.iter_mut().enumerate().skip(floor_to_index(start)) {
        let covered = end.min(bin as f64 + 1.0) - start.max(bin as f64);
        *samples += *count as f64 * covered.max(0.0) / (end - start);
    }
}

/// Silverman's rule of thumb (1986, eq. 3.31), in bins: 0.9 min(sd, IQR / 1.34) n^(-1/5).
fn kernel_width(bins: &[f64], total: f64) -> f64 {
    let moment = |power: i32, centre: f64| {
        let term = |(bin, samples): (usize, &f64)| samples * (bin as f64 - centre).powi(power);
        bins.iter().enumerate().map(term).sum::<f64>() / total
    };
    let deviation = moment(2, moment(1, 0.0)).max(0.0).sqrt();
    let quartile = |share: f64| {
        let mut seen = 0.0;
        let reaches = |samples: &f64| {
            seen += samples;
            seen >= share * total
        };
        bins.iter().position(reaches).unwrap_or(bins.len()) as f64
    };
    let quartiles = (quartile(0.75) - quartile(0.25)) / 1.34;
    (0.9 * deviation.min(quartiles) * total.powf(-0.2)).max(LEAST_WIDTH_BINS)
}

/// Averages each bin with its neighbours, weighted by a Gaussian of this width.
fn smooth(bins: &[f64], width_bins: f64) -> Vec<f64> {
    let reach = floor_to_index(width_bins * 3.5) + 1;
    let weight = |distance: usize| (-0.5 * (distance as f64 / width_bins).powi(2)).exp();
    let weights: Vec<f64> = (0..=reach).map(weight).collect();
    let norm = width_bins * (2.0 * PI).sqrt();
    let mut smoothed = vec![0.0; bins.len()];
    for (from, samples) in bins.iter().enumerate().filter(|(_, samples)| **samples > 0.0) {
        let first = from.saturating_sub(reach);
        for (to, sum) in smoothed.iter_mut().enumerate().take(from + reach + 1).skip(first) {
            *sum += samples * weights[to.abs_diff(from)] / norm;
        }
    }
    smoothed
}
