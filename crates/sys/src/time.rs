//! The one home of real clocks and sleeps.

use std::num::NonZeroU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::{SysResult, named};

/// Wall-clock time since 1970, UTC.
pub fn wall_clock() -> Duration {
    #[expect(clippy::disallowed_methods, reason = "this is the home of the wall clock")]
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Sleeps for a while.
pub fn sleep(duration: Duration) {
    #[expect(clippy::disallowed_methods, reason = "this is the home of sleeping")]
    std::thread::sleep(duration);
}

/// Sleeps until an instant, or not at all when it has passed.
pub fn sleep_until(instant: Instant) {
    let left = instant.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        sleep(left);
    }
}

/// Asks for timers of this thread to fire without the usual 50 us of slack.
///
/// # Errors
/// As prctl(2); timers then fire a little later, and an open loop counts that as latency.
pub fn request_precise_timers() -> SysResult<()> {
    named("prctl(PR_SET_TIMERSLACK)", rustix::thread::set_current_timer_slack(NonZeroU64::new(1)))
}

/// Nanoseconds in a duration, saturating after 584 years.
#[inline]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Measures what reading the clock once costs, nanoseconds: the median of many short runs.
pub fn timer_cost_ns() -> f64 {
    const READS: u32 = 1000;
    let mut runs: Vec<f64> = (0..51)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..READS {
                std::hint::black_box(Instant::now());
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(READS)
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_instant_does_not_sleep_and_a_future_one_is_reached() {
        let start = Instant::now();
        sleep_until(start);
        let due = start + Duration::from_millis(2);
        sleep_until(due);
        assert!(Instant::now() >= due);
        assert!(timer_cost_ns() > 0.0);
        assert!(wall_clock() > Duration::from_secs(1_600_000_000));
    }
}
