//! One lasting change of level in a noisy series: burst credits spent, a cache full, throttling.
//!
//! The series is replaced by its ranks, so a few enormous values weigh no more than large ones.
//! Every split into a first and a second part is then scored by how far the rank sum of the first
//! part lies from its expectation, in standard deviations (CUSUM of ranks; at one split, the
//! Wilcoxon statistic). How often shuffled series score as high is the p-value.
//!
//! Neighbouring slices of a run resemble each other, which alone would look like change. So whole
//! blocks of neighbours are shuffled, not single values; and a change is only reported when its
//! size matters. A memory much longer than a block still passes for change at times: a report is a
//! reason to look at the time series, not a proof.
//!
//! What this does not do: find several changes, or a level that comes back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::sample::{floor_to_index, is_positive, median};

/// What counts as a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePointSettings {
    /// Greatest p-value reported.
    pub alpha: f64,
    /// Least relative change of level reported, as in 0.1: the greater level / the smaller - 1.
    pub min_change: f64,
    /// Fewest values on either side of a change.
    pub min_part: u32,
    /// Shuffled series compared against.
    pub permutations: u32,
    /// Seed: the same series and seed give the same answer.
    pub seed: u64,
}

impl Default for ChangePointSettings {
    fn default() -> Self {
        let seed = 0x0f5a_1c0d_e5ee_d002;
        Self { alpha: 0.01, min_change: 0.1, min_part: 5, permutations: 1999, seed }
    }
}

/// A lasting change of level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// The first value of the new level, counted from 0.
    pub index: usize,
    /// Median of the values before, in the unit of the series.
    pub before: f64,
    /// Median of the values from `index` on, in the unit of the series.
    pub after: f64,
    /// Share of shuffled series that look as changed as this one.
    pub p_value: f64,
}

/// Finds the one lasting change of level in a series of values above zero.
///
/// `None` when there is none, when the series is too short to tell, or when a value is not finite
/// and above zero.
pub fn change_point(series: &[f64], settings: &ChangePointSettings) -> Option<ChangePoint> {
    let min_part = usize::try_from(settings.min_part).ok()?.max(1);
    if series.len() < 2 * min_part || !series.iter().all(|value| is_positive(*value)) {
        return None;
    }
    let ranks = centred_ranks(series);
    let (index, score) = best_split(&ranks, min_part);
    let (before, after) = (median(&series[..index])?, median(&series[index..])?);
    let change = (after / before).max(before / after) - 1.0;
    if change < settings.min_change {
        return None;
    }
    let p_value = share_as_changed(&ranks, score, min_part, settings);
    (p_value <= settings.alpha).then_some(ChangePoint { index, before, after, p_value })
}

/// Ranks less their mean; equal values share the mean of their ranks.
fn centred_ranks(series: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|a, b| series[*a].total_cmp(&series[*b]));
    let centre = (series.len() - 1) as f64 / 2.0;
    let mut ranks = vec![0.0; series.len()];
    let mut first = 0;
    for group in order.chunk_by(|a, b| series[*a].total_cmp(&series[*b]).is_eq()) {
        let shared = first as f64 + (group.len() - 1) as f64 / 2.0;
        for place in group {
            ranks[*place] = shared - centre;
        }
        first += group.len();
    }
    ranks
}

/// The split with the highest score, and the score (up to a factor common to all splits).
fn best_split(ranks: &[f64], min_part: usize) -> (usize, f64) {
    let mut best = (min_part, -1.0);
    let mut sum = 0.0;
    for (place, rank) in ranks.iter().enumerate() {
        let first_part = place + 1;
        sum += rank;
        if first_part < min_part || ranks.len() - first_part < min_part {
            continue;
        }
        let spread = (first_part as f64 * (ranks.len() - first_part) as f64).sqrt();
        let score = f64::abs(sum) / spread;
        if score > best.1 {
            best = (first_part, score);
        }
    }
    best
}

/// The p-value: the share of shuffled series, this one included, that score as high.
fn share_as_changed(
    ranks: &[f64],
    score: f64,
    min_part: usize,
    settings: &ChangePointSettings,
) -> f64 {
    let mut random = Random::new(settings.seed);
    let mut blocks: Vec<&[f64]> = ranks.chunks(block_length(ranks.len())).collect();
    let mut as_high = 1_u32;
    for _ in 0..settings.permutations {
        random.shuffle(&mut blocks);
        let (_, shuffled) = best_split(&blocks.concat(), min_part);
        // Equal sums differ in the last bits when added in another order.
        as_high += u32::from(shuffled >= score * (1.0 - 1e-9));
    }
    f64::from(as_high) / (f64::from(settings.permutations) + 1.0)
}

/// Neighbours shuffled together: the cube root of the length, the usual rate for short memory,
/// but always leaving about 20 blocks to shuffle.
fn block_length(length: usize) -> usize {
    floor_to_index((length as f64).cbrt()).min(length / 20).max(1)
}
