//! Random numbers from a seed, cheap enough for a timed loop.

/// A generator (xorshift64*, Vigna 2016): good enough to choose streams and payloads.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Begins with a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 };
        // Small seeds differ in few bits: let them spread.
        for _ in 0..8 {
            random.next();
        }
        random
    }

    /// Gives a number below `limit`, which is not zero.
    pub fn below(&mut self, limit: u32) -> u32 {
        let high = self.next() >> 32;
        u32::try_from((high * u64::from(limit)) >> 32).expect("less than the limit")
    }

    /// Gives a byte.
    pub fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[7]
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_below_their_limit_and_spread_evenly() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[usize::try_from(random.below(10)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert_ne!(Random::new(1).next(), Random::new(2).next());
    }
}
