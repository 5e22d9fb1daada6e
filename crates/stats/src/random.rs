//! The seeded generator behind resampling and permutation.
//!
//! PCG-XSH-RR 64/32 by name, and the mapping to a range written here: the same seed gives the same
//! draws with every version of every dependency, so a stored run is analysed alike for ever.

use rand_pcg::Pcg32;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// Draws repeatable random numbers.
pub(crate) struct Random(Pcg32);

impl Random {
    /// Starts at a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg32::seed_from_u64(seed))
    }

    /// Draws an index below `limit` (Lemire's multiplication; its bias of `limit` / 2^32 is far
    /// below the noise of any resampling).
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u32::try_from(limit).expect("samples are far fewer than 2^32");
        let product = u64::from(self.0.next_u32()) * u64::from(limit);
        usize::try_from(product >> 32).expect("a number below a usize fits into one")
    }

    /// Shuffles in place, every order equally likely (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}
