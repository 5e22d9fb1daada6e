//! What a step has to say when it is done, and how outcomes add up to the closing line.

use std::fmt;

/// How a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything it checks holds.
    Passed,
    /// Something does not hold.
    Failed,
    /// It could not be checked here; the notes say why.
    NotRun,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::Failed => "FAILED",
            Self::NotRun => "NOT RUN",
        })
    }
}

/// Counts of checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Checks that hold.
    pub(crate) passed: u64,
    /// Checks that do not.
    pub(crate) failed: u64,
    /// Checks that could not run here.
    pub(crate) skipped: u64,
}

impl Tally {
    /// Counts one step.
    pub(crate) const fn of(verdict: Verdict) -> Self {
        let mut tally = Self { passed: 0, failed: 0, skipped: 0 };
        match verdict {
            Verdict::Passed => tally.passed = 1,
            Verdict::Failed => tally.failed = 1,
            Verdict::NotRun => tally.skipped = 1,
        }
        tally
    }

    /// Adds both counts.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl fmt::Display for Tally {
    /// Writes the closing line: `N passed, N failed`, and `, N skipped` where some were.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// What a step has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepReport {
    /// How it ended.
    pub(crate) verdict: Verdict,
    /// What it counts for: one, or as many as it ran tests.
    pub(crate) tally: Tally,
    /// Findings, reasons, and things to know.
    pub(crate) notes: Vec<String>,
    /// Checks within the step that could not run, each with its reason.
    pub(crate) not_run: Vec<String>,
}

impl StepReport {
    /// Makes the report of a step that counts as one check.
    pub(crate) fn one(verdict: Verdict, notes: Vec<String>) -> Self {
        Self { verdict, tally: Tally::of(verdict), notes, not_run: Vec::new() }
    }

    /// Reports success.
    pub(crate) fn passed() -> Self {
        Self::one(Verdict::Passed, Vec::new())
    }

    /// Reports a failure with its cause.
    pub(crate) fn failed(cause: impl Into<String>) -> Self {
        Self::one(Verdict::Failed, vec![cause.into()])
    }

    /// Reports that the step could not run, and why.
    pub(crate) fn not_run(reason: impl Into<String>) -> Self {
        let mut report = Self::one(Verdict::NotRun, Vec::new());
        report.not_run.push(reason.into());
        report
    }

    /// Reports findings: none is success.
    pub(crate) fn from_findings(findings: Vec<String>) -> Self {
        let verdict = if findings.is_empty() { Verdict::Passed } else { Verdict::Failed };
        Self::one(verdict, findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_names_skipped_checks_only_where_there_are_some() {
        let two = Tally::of(Verdict::Passed).plus(Tally::of(Verdict::Failed));
        assert_eq!(two.to_string(), "1 passed, 1 failed");
        let three = two.plus(Tally::of(Verdict::NotRun));
        assert_eq!(three.to_string(), "1 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn findings_fail_a_step_and_none_pass_it() {
        assert_eq!(StepReport::from_findings(vec![]).verdict, Verdict::Passed);
        assert_eq!(StepReport::from_findings(vec!["x".into()]).tally.failed, 1);
    }
}
