//! Moments of the wall clock, which can be set back: what is due at one must not wait for ever.

/// How far the clock may be set back without anything being over before its time, milliseconds.
const STEP_MS: u64 = 60_000;

/// Whether a moment has come that was so far ahead at most when it was set. One that is farther
/// ahead now was set before the clock was set back, and has come: else a lease, or the pause before
/// something is tried again, would last as long as the clock was wrong.
pub(super) fn has_come(at_ms: u64, now_ms: u64, most_ms: u64) -> bool {
    at_ms <= now_ms || is_misplaced(at_ms, now_ms, most_ms)
}

/// Whether a moment cannot have been set by the clock as it goes now.
pub(super) fn is_misplaced(at_ms: u64, now_ms: u64, most_ms: u64) -> bool {
    at_ms > now_ms.saturating_add(most_ms).saturating_add(STEP_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_come_in_its_time_or_when_no_clock_can_have_set_it() {
        let now_ms = 1_000_000;
        for (at_ms, has) in [
            (now_ms, true),
            (now_ms + 1, false),
            (now_ms + 30_000 + STEP_MS, false),
            (now_ms + 30_001 + STEP_MS, true),
            (u64::MAX, true),
        ] {
            assert_eq!(has_come(at_ms, now_ms, 30_000), has, "{at_ms}");
        }
        assert!(!has_come(u64::MAX, u64::MAX - 1, 30_000));
    }
}
