//! The one generator of random numbers, the same in every version: a seed printed today repeats
//! its run tomorrow.
//!
//! Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014):
//! `SplitMix64`, with the constants of its reference implementation.

/// Random bits from a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero. The bias of the remainder (below 2^-32 for the
    /// bounds used here) does not matter to a simulation.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a number below zero was asked for");
        self.next() % bound
    }

    /// As `below`, for indices.
    pub(crate) fn index_below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("usize fits u64");
        usize::try_from(self.below(bound)).expect("below a usize")
    }

    /// True in one of `n` cases.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_reference_implementation() {
        let mut random = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
        assert!((0..1000).all(|_| random.below(7) < 7));
    }
}
