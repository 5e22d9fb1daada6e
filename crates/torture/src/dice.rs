//! Choices from a seed.

use highwater_disk::Rng;
use highwater_disk::sim::SimRng;

/// Seeded choices: the same seed, the same choices, in every version.
#[derive(Debug, Clone)]
pub(crate) struct Dice(SimRng);

impl Dice {
    /// Starts the sequence of a seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SimRng::new(seed))
    }

    /// Any 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// As `below`, for indices.
    pub(crate) fn index(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("usize fits u64");
        usize::try_from(self.below(bound)).expect("below a usize")
    }

    /// True in one of `n` cases.
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())].clone()
    }

    /// Bytes that tell where they belong: no two payloads of a run are likely to be equal.
    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.bits().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
