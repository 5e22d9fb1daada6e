//! What a campaign finds.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// A way to torture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Seeded histories on a simulated disk.
    Sim,
    /// Every small history, every crash.
    Small,
    /// A bit of every field.
    Flip,
    /// Bugs that have to be caught.
    Planted,
    /// A process that is killed.
    Kill,
    /// A file system that is shut down.
    Shutdown,
    /// Calls of the system that fail.
    Syscall,
    /// A disk that is full.
    Full,
    /// A server that is killed.
    Serve,
}

impl Layer {
    /// Every one.
    pub const ALL: [Self; 9] = [
        Self::Sim,
        Self::Small,
        Self::Flip,
        Self::Planted,
        Self::Kill,
        Self::Shutdown,
        Self::Syscall,
        Self::Full,
        Self::Serve,
    ];
    /// Their names.
    pub const NAMES: [&str; 9] =
        ["sim", "small", "flip", "planted", "kill", "shutdown", "syscall", "full", "serve"];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Small => "small",
            Self::Flip => "flip",
            Self::Planted => "planted",
            Self::Kill => "kill",
            Self::Shutdown => "shutdown",
            Self::Syscall => "syscall",
            Self::Full => "full",
            Self::Serve => "serve",
        }
    }
}

impl FromStr for Layer {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|layer| layer.name() == name);
        named.ok_or_else(|| format!("{name:?} is none of {}", Self::NAMES.join(", ")))
    }
}

/// An invariant that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{invariant}: {what}")]
pub struct Violation {
    /// Its number, as in ARCHITECTURE.md.
    pub invariant: &'static str,
    /// What was seen instead.
    pub what: String,
}

impl Violation {
    /// Puts one together.
    pub fn new(invariant: &'static str, what: impl Into<String>) -> Self {
        Self { invariant, what: what.into() }
    }

    /// The log has asserted something that was not so.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Self::new("an assertion", format!("panicked: {}", text.unwrap_or("without a word")))
    }
}

/// A run in which an invariant did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What happened.
    pub what: String,
    /// The command that repeats it.
    pub repeat: String,
}

/// What a campaign found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The layer.
    pub layer: Layer,
    /// Runs: seeds, cases, cycles.
    pub runs: u64,
    /// What was done, by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// Runs in which an invariant did not hold.
    pub failures: Vec<Failure>,
    /// Why nothing was run, where this machine lacks something.
    pub not_run: Option<String>,
}

impl Verdict {
    /// Starts one.
    pub fn new(layer: Layer) -> Self {
        Self { layer, runs: 0, counts: BTreeMap::new(), failures: Vec::new(), not_run: None }
    }

    /// Whether every invariant held; what was not run has shown nothing.
    pub fn held(&self) -> bool {
        self.failures.is_empty() && self.not_run.is_none()
    }

    /// Adds to a count.
    pub fn count(&mut self, what: &'static str, by: u64) {
        *self.counts.entry(what).or_default() += by;
    }

    /// Adds another's counts.
    pub fn count_all(&mut self, counts: &BTreeMap<&'static str, u64>) {
        for (what, by) in counts {
            self.count(what, *by);
        }
    }

    /// Notes a failure; `options` are those of the command that repeats it.
    pub fn fail(&mut self, what: impl fmt::Display, options: &str) {
        let repeat = format!("highwater torture --layer {} {options}", self.layer.name());
        self.failures
            .push(Failure { what: what.to_string(), repeat: repeat.trim_end().to_owned() });
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.not_run {
            return writeln!(to, "NOT RUN: {}: {why}", self.layer.name());
        }
        writeln!(to, "{}: {} runs, {} failed", self.layer.name(), self.runs, self.failures.len())?;
        for (what, count) in &self.counts {
            writeln!(to, "  {count:>10} {what}")?;
        }
        for failure in &self.failures {
            writeln!(to, "FAILED {}\n  repeat: {}", failure.what, failure.repeat)?;
        }
        Ok(())
    }
}
