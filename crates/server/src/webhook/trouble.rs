//! Trouble that goes on: said when it begins and when it is over, not each time that it is met.

use std::time::Duration;

use tokio::time::Instant;

/// Trouble that has not been met for so long is over: what fails is tried again about every second.
const QUIET: Duration = Duration::from_secs(10);

/// Something that may fail again and again.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// When it was met last; absent where there is none.
    last: Option<Instant>,
}

/// What is to be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Begins,
    IsOver,
}

impl Trouble {
    /// Notes how it went, as of now; gives what has changed by that.
    pub fn note<T, E>(&mut self, outcome: &Result<T, E>, now: Instant) -> Option<Change> {
        let before = self.last;
        if outcome.is_err() {
            self.last = Some(now);
            return before.is_none().then_some(Change::Begins);
        }
        before.filter(|last| *last + QUIET <= now)?;
        self.last = None;
        Some(Change::IsOver)
    }

    /// When it is over, if it is not met again.
    pub fn ends(&self) -> Option<Instant> {
        self.last.map(|last| last + QUIET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MET: Result<(), &str> = Err("it cannot be read");
    const FINE: Result<(), &str> = Ok(());

    #[test]
    fn trouble_is_said_when_it_begins_and_when_it_is_over_however_often_it_is_met() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut trouble = Trouble::default();
        assert_eq!((trouble.note(&FINE, start), trouble.ends()), (None, None));
        for ms in (0..3_600_000).step_by(50) {
            let said = trouble.note(&MET, at(ms));
            assert_eq!(said, (ms == 0).then_some(Change::Begins));
            // Between two tries others go well.
            assert_eq!(trouble.note(&FINE, at(ms + 25)), None);
        }
        let last = at(3_600_000 - 50);
        assert_eq!(trouble.ends(), Some(last + QUIET));
        assert_eq!(trouble.note(&FINE, last + QUIET - Duration::from_millis(1)), None);
        assert_eq!(trouble.note(&FINE, last + QUIET), Some(Change::IsOver));
        assert_eq!(trouble.note(&FINE, last + QUIET), None);
        assert_eq!(trouble.note(&MET, last + 2 * QUIET), Some(Change::Begins));
    }
}
