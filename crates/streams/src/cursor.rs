//! Cursors: what keeps caches that collapse live readers from serving one answer for ever.
//!
//! A cursor counts intervals of 20 s since 2024-10-09T00:00:00Z. A client that brings one that is
//! not in the past gets a later one, so that no chain of answers leads back to itself.

use std::time::Duration;

use highwater_disk::Rng;

/// Seconds from 1970 to 2024-10-09T00:00:00Z.
const EPOCH_S: u64 = 1_728_432_000;
/// Length of an interval, seconds.
const INTERVAL_S: u64 = 20;
/// Longest jitter, seconds; the shortest is one.
const MOST_JITTER_S: u64 = 3600;

/// Latest cursor of a client that is looked at: no clock comes near.
const LATEST: u64 = 1 << 63;

/// A count of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

impl Cursor {
    /// Gives the cursor of a moment of the wall clock.
    pub fn at(wall: Duration) -> Self {
        Self(wall.as_secs().saturating_sub(EPOCH_S) / INTERVAL_S)
    }

    /// Reads what a client brings; what is no cursor is not looked at, nor one so late that there
    /// is none behind it.
    pub fn parse(text: &str) -> Option<Self> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = if is_number { text.parse().ok() } else { None };
        number.filter(|number| *number <= LATEST).map(Self)
    }

    /// Gives the cursor to answer with: of this moment, and later than the client's own.
    pub fn answer(wall: Duration, brought: Option<Self>, rng: &mut dyn Rng) -> Self {
        let current = Self::at(wall);
        match brought {
            Some(brought) if brought >= current => {
                let jitter_s = 1 + rng.next_u64() % MOST_JITTER_S;
                Self(brought.0.saturating_add(jitter_s.div_ceil(INTERVAL_S)))
            }
            _ => current,
        }
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_disk::sim::SimRng;
    use proptest::prelude::*;

    const fn after_epoch(seconds: u64) -> Duration {
        Duration::from_secs(EPOCH_S + seconds)
    }

    /// Point 32.
    #[test]
    fn a_cursor_counts_intervals_of_20_s_since_the_protocols_epoch() {
        assert_eq!(Cursor::at(after_epoch(0)), Cursor(0));
        assert_eq!(Cursor::at(after_epoch(19)), Cursor(0));
        assert_eq!(Cursor::at(after_epoch(20)), Cursor(1));
        assert_eq!(Cursor::at(Duration::ZERO), Cursor(0), "a clock before the epoch");
    }

    /// Point 32.
    #[test]
    fn garbage_is_not_looked_at() {
        for text in ["", "-1", "+1", "1.5", "abc", "99999999999999999999999999", "1 "] {
            assert_eq!(Cursor::parse(text), None, "{text:?}");
        }
        assert_eq!(Cursor::parse("17"), Some(Cursor(17)));
        assert_eq!(Cursor::parse(&u64::MAX.to_string()), None, "nothing is later than that");
    }

    proptest! {
        /// Point 32.
        #[test]
        fn an_answer_is_later_than_what_was_brought_and_never_behind_the_clock(
            seconds in 0..1_u64 << 40, brought: u32, seed: u64
        ) {
            let brought = Cursor(u64::from(brought));
            let now = after_epoch(seconds);
            let answer = Cursor::answer(now, Some(brought), &mut SimRng::new(seed));
            prop_assert!(answer > brought);
            prop_assert!(answer >= Cursor::at(now));
            if brought < Cursor::at(now) {
                prop_assert_eq!(answer, Cursor::at(now));
            } else {
                prop_assert!(answer.0 - brought.0 <= MOST_JITTER_S / INTERVAL_S);
            }
        }
    }
}
