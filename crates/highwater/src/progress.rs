//! Progress on standard error, with the time left. Nothing is drawn while a case is timed: the bar
//! moves between cases.

use std::time::{Duration, Instant};

use highwater_engine_bench::data::Row;
use highwater_engine_bench::runner as engine;
use highwater_probe::runner::{Observer, Step};
use highwater_report::data::{RoundRow, StopReason};
use highwater_stats::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Whether progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// On a terminal.
    Progress,
    /// Not at all.
    Nothing,
}

/// A progress bar over a run.
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
    /// When the run should end, where it goes by time.
    deadline: Option<Instant>,
    done: u64,
}

impl Progress {
    /// Begins; with a deadline the time left is known, else it is estimated.
    pub fn new(show: Show, deadline: Option<Instant>) -> Self {
        let target = match show {
            Show::Progress => ProgressDrawTarget::stderr(),
            Show::Nothing => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let style = ProgressStyle::with_template("{bar:24} {prefix} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, begun: Instant::now(), deadline, done: 0 }
    }

    fn advance(&mut self, step: &Step<'_>) {
        let cases = u64::try_from(step.cases).unwrap_or(u64::MAX);
        let (length, position, left) = if let Some(deadline) = self.deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let gone = self.begun.elapsed();
            (millis(gone + left), millis(gone), Some(left))
        } else {
            let all = cases.saturating_mul(u64::from(step.rounds.unwrap_or(1)));
            (all, self.done, self.estimate(all))
        };
        self.bar.set_length(length.max(1));
        self.bar.set_position(position);
        let left = left.map_or(String::new(), |left| format!("{} s left", left.as_secs()));
        self.bar.set_prefix(format!(
            "round {}, {}/{}, {left}",
            step.round + 1,
            step.position + 1,
            step.cases
        ));
    }

    fn estimate(&self, all: u64) -> Option<Duration> {
        let done = u32::try_from(self.done).ok().filter(|done| *done > 0)?;
        let left = u32::try_from(all.saturating_sub(self.done)).ok()?;
        Some(self.begun.elapsed() / done * left)
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress {
    fn case_started(&mut self, step: &Step<'_>) {
        self.advance(step);
        self.bar.set_message(step.planned.case.to_string());
    }

    fn case_measured(&mut self, step: &Step<'_>, row: &RoundRow) {
        self.done += 1;
        let p50 = units::duration_ns(row.commit_p50_ns);
        self.bar.set_message(format!("{}: p50 {p50}", step.planned.case));
    }

    fn case_stopped(&mut self, step: &Step<'_>, reason: &StopReason) {
        self.done += 1;
        let (what, why) = match reason {
            StopReason::Unsupported(why) => ("not offered here", why),
            StopReason::Failed(why) => ("FAILED", why),
            StopReason::NotRun(why) => ("not run", why),
        };
        self.bar.println(format!("{}: {what}: {why}", step.planned.case));
    }
}

/// A progress bar over a run of the preset `engine`.
pub struct EngineProgress(Progress);

impl EngineProgress {
    /// Begins.
    pub fn new(show: Show) -> Self {
        Self(Progress::new(show, None))
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.0.finish();
    }
}

impl engine::Observer for EngineProgress {
    fn started(&mut self, step: &engine::Step) {
        let progress = &mut self.0;
        let of = u64::try_from(step.of).unwrap_or(u64::MAX);
        let all = of.saturating_mul(u64::from(step.rounds));
        progress.bar.set_length(all.max(1));
        progress.bar.set_position(progress.done);
        let left = progress.estimate(all);
        let left = left.map_or(String::new(), |left| format!(", {} s left", left.as_secs()));
        let (round, position) = (step.round + 1, step.position + 1);
        progress.bar.set_prefix(format!("round {round}, {position}/{of}{left}"));
        progress.bar.set_message(step.label.clone());
    }

    fn measured(&mut self, step: &engine::Step, row: Option<&Row>) {
        self.0.done += 1;
        let p50 =
            row.map_or(String::new(), |row| format!(": p50 {}", units::duration_ns(row.p50_ns)));
        self.0.bar.set_message(format!("{}{p50}", step.label));
    }

    fn stopped(&mut self, step: &engine::Step, why: &str) {
        self.0.done += 1;
        self.0.bar.println(format!("{}: {why}", step.label));
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
