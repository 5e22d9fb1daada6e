//! Virtual time and seeded randomness.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::random::SplitMix64;
use crate::{Clock, Rng};

/// Wall-clock time at the start of every simulation, since 1970: in November 2023.
const WALL_START: Duration = Duration::from_secs(1_700_000_000);

/// A clock that stands still until told to move; all clones are the same clock.
#[derive(Debug, Clone)]
pub struct SimClock {
    times: Arc<Mutex<Times>>,
}

#[derive(Debug, Clone, Copy)]
struct Times {
    monotonic: Duration,
    wall: Duration,
}

impl SimClock {
    /// Makes a clock at its start.
    pub fn new() -> Self {
        let times = Times { monotonic: Duration::ZERO, wall: WALL_START };
        Self { times: Arc::new(Mutex::new(times)) }
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut times = self.times();
        times.monotonic += by;
        times.wall += by;
    }

    /// Sets the wall clock, forwards or backwards; monotonic time is not affected.
    pub fn set_wall(&self, to: Duration) {
        self.times().wall = to;
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SimClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SimClock {
    fn monotonic(&self) -> Duration {
        self.times().monotonic
    }

    fn wall(&self) -> Duration {
        self.times().wall
    }
}

/// Random numbers from a seed, the same in every version.
#[derive(Debug, Clone)]
pub struct SimRng {
    random: SplitMix64,
}

impl SimRng {
    /// Starts the sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { random: SplitMix64::new(seed) }
    }
}

impl Rng for SimRng {
    fn next_u64(&mut self) -> u64 {
        self.random.next()
    }
}
