//! The machine's clock, and random numbers seeded by it.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use highwater_sys::time::wall_clock;

use crate::random::SplitMix64;
use crate::{Clock, Rng};

/// The machine's clocks; monotonic time counts from when this was made.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts counting.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall(&self) -> Duration {
        wall_clock()
    }
}

/// Random numbers that differ from run to run.
#[derive(Debug, Clone)]
pub struct SystemRng {
    random: SplitMix64,
}

impl SystemRng {
    /// Takes a seed from the system.
    pub fn new() -> Self {
        // The keys of a hash map's hasher come from the system's entropy, and differ each time.
        Self { random: SplitMix64::new(RandomState::new().hash_one(0_u64)) }
    }
}

impl Default for SystemRng {
    fn default() -> Self {
        Self::new()
    }
}

impl Rng for SystemRng {
    fn next_u64(&mut self) -> u64 {
        self.random.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_and_seeds_differ() {
        let clock = SystemClock::new();
        let before = clock.monotonic();
        assert!(clock.monotonic() >= before);
        assert!(clock.wall() > Duration::from_secs(1_600_000_000));
        assert_ne!(SystemRng::new().next_u64(), SystemRng::new().next_u64());
    }
}
