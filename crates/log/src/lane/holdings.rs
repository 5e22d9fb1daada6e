//! What all lanes hold together: streams, and bytes of them. Each lane says what it has, under its
//! own lock; whoever is to stay within a limit adds up what all have said. It says first what it is
//! about to have, so that two lanes at the same moment do not lead beyond the limit together (I11).

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::error::{Full, LogError, LogResult};
use crate::ids::LaneId;
use crate::table::Table;

/// What all lanes hold.
#[derive(Debug)]
pub(crate) struct Holdings {
    lanes: Box<[Holding]>,
}

/// What one lane holds.
#[derive(Debug, Default)]
struct Holding {
    streams: AtomicU64,
    bytes: AtomicU64,
}

/// Streams, and bytes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Amount {
    pub streams: u64,
    pub bytes: u64,
}

impl Holdings {
    /// Begins with nothing.
    pub fn new(lanes: u16) -> Self {
        Self { lanes: (0..lanes).map(|_| Holding::default()).collect() }
    }

    /// Notes what a lane has now.
    pub fn set(&self, lane: LaneId, has: Amount) {
        let holding = &self.lanes[usize::from(lane.0)];
        holding.streams.store(has.streams, Ordering::Relaxed);
        holding.bytes.store(has.bytes, Ordering::Relaxed);
    }

    /// Notes what a lane is about to have, so much more than it has; refuses that, and notes what
    /// it has, where all lanes would hold too much then. What is not taken in after all has to be
    /// noted again. Near a limit, two lanes at the same moment may both be refused.
    ///
    /// # Errors
    /// [`LogError::Full`].
    pub fn reserve(&self, lane: LaneId, has: Amount, more: Amount, most: Amount) -> LogResult<()> {
        if most == Amount::NO_LIMIT {
            return Ok(());
        }
        self.set(lane, has.and(more));
        // Of two lanes that do this at once, the later one sees what the earlier one has noted.
        fence(Ordering::SeqCst);
        let fits = self.check(more, most);
        if fits.is_err() {
            self.set(lane, has);
        }
        fits
    }

    fn check(&self, more: Amount, most: Amount) -> LogResult<()> {
        let held = self.sum();
        if held.streams > most.streams {
            let most = most.streams;
            let why = format!("{most} streams are the limit: delete some");
            return Err(LogError::Full(Full::of_all(why)));
        }
        if held.bytes > most.bytes {
            let (held, most) = (held.bytes - more.bytes, most.bytes);
            return Err(LogError::Full(Full::of_all(format!(
                "streams hold {held} bytes, and {most} may be: delete some, or raise \
                 max_total_bytes"
            ))));
        }
        Ok(())
    }

    fn sum(&self) -> Amount {
        let load = |one: &Holding| Amount {
            streams: one.streams.load(Ordering::Relaxed),
            bytes: one.bytes.load(Ordering::Relaxed),
        };
        self.lanes.iter().map(load).fold(Amount::default(), Amount::and)
    }
}

impl Amount {
    /// More than there can be.
    pub const NO_LIMIT: Self = Self { streams: u64::MAX, bytes: u64::MAX };

    /// What a table has.
    pub fn of(table: &Table) -> Self {
        Self { streams: table.len(), bytes: table.content_bytes() }
    }

    fn and(self, other: Self) -> Self {
        Self {
            streams: self.streams.saturating_add(other.streams),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Waits, without sleeping, until so many have arrived: all go on at the same moment.
    fn meet(arrived: &AtomicU32, number: u32) {
        arrived.fetch_add(1, Ordering::SeqCst);
        while arrived.load(Ordering::SeqCst) < number {
            std::thread::yield_now();
        }
    }

    /// I11.
    #[test]
    fn lanes_that_take_the_last_room_at_the_same_moment_never_take_it_twice() {
        const ROUNDS: u32 = 50_000;
        let one = Amount { streams: 1, bytes: 10 };
        for most in
            [Amount { streams: 1, ..Amount::NO_LIMIT }, Amount { bytes: 19, ..one.and(one) }]
        {
            let holdings = Holdings::new(2);
            let (arrived, taken, twice) = Default::default();
            let run = |lane| {
                let (arrived, taken, twice): (&AtomicU32, &AtomicU32, &AtomicU32) =
                    (&arrived, &taken, &twice);
                for round in 0..ROUNDS {
                    let has = Amount::default();
                    meet(arrived, 6 * round + 2);
                    if holdings.reserve(LaneId(lane), has, one, most).is_ok() {
                        taken.fetch_add(1, Ordering::SeqCst);
                    }
                    meet(arrived, 6 * round + 4);
                    if taken.swap(0, Ordering::SeqCst) > 1 {
                        twice.fetch_add(1, Ordering::SeqCst);
                    }
                    holdings.set(LaneId(lane), has);
                    meet(arrived, 6 * round + 6);
                }
            };
            std::thread::scope(|scope| {
                scope.spawn(|| run(0));
                run(1);
            });
            assert_eq!(twice.into_inner(), 0, "times of {ROUNDS}, {most:?}");
        }
    }

    #[test]
    fn what_is_refused_is_not_held() {
        let holdings = Holdings::new(2);
        let most = Amount { streams: 9, bytes: 100 };
        let bytes = |bytes| Amount { streams: 0, bytes };
        holdings.reserve(LaneId(0), bytes(0), bytes(60), most).unwrap();
        assert!(holdings.reserve(LaneId(1), bytes(30), bytes(11), most).is_err());
        holdings.reserve(LaneId(1), bytes(30), bytes(10), most).unwrap();
        holdings.set(LaneId(1), bytes(30));
        holdings.reserve(LaneId(0), bytes(60), bytes(10), most).unwrap();
        assert!(holdings.reserve(LaneId(0), bytes(70), bytes(1), most).is_err());
    }
}
