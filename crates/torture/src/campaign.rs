//! What campaigns on real file systems share: what they are asked for, and why they could not run.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dice::Dice;
use crate::planted::Planted;
use crate::real::{Kind, Nature, Program};
use crate::verdict::{Layer, Verdict};
use crate::yard::Yard;

/// A campaign.
pub struct Campaign<'a> {
    /// What is started, and dies.
    pub program: &'a Program,
    /// Existing directory, in which it makes one of its own.
    pub dir: &'a Path,
    /// Of which all choices follow.
    pub seed: u64,
    /// Lives.
    pub cycles: u64,
    /// A bug that has to be noticed.
    pub planted: Option<Planted>,
    /// Set when it should end early.
    pub stop: &'a AtomicBool,
    /// Told how many lives have ended.
    pub progress: &'a mut dyn FnMut(u64),
}

/// Why a campaign came to no verdict.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// This machine lacks something.
    #[error("not run: {0}")]
    NotRun(String),
    /// The machine failed, and not the log.
    #[error("{what}: {why}")]
    Machine {
        /// What was to be done.
        what: String,
        /// What came of it.
        why: String,
    },
}

impl CampaignError {
    /// Puts one together.
    pub(crate) fn machine(what: impl Into<String>, why: &dyn std::fmt::Display) -> Self {
        Self::Machine { what: what.into(), why: why.to_string() }
    }
}

/// Result of a campaign's step.
pub(crate) type CampaignResult<T> = Result<T, CampaignError>;

/// Why a cycle ended before its end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The machine failed.
    Machine(CampaignError),
    /// Something is not as it must be.
    Wrong(String),
}

impl From<CampaignError> for Stop {
    fn from(error: CampaignError) -> Self {
        Self::Machine(error)
    }
}

impl From<String> for Stop {
    fn from(what: String) -> Self {
        Self::Wrong(what)
    }
}

impl Campaign<'_> {
    /// Whether it should end early.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Chooses a store.
    pub(crate) fn nature(&self, kind: Kind, dice: &mut Dice) -> Nature {
        // Short, since it is a directory's name.
        Nature { kind, seed: dice.bits() >> 32, planted: self.planted }
    }

    /// Notes how the cycle ended that `verdict` has counted last; gives whether to go on. What did
    /// not hold is kept in the yard.
    pub(crate) fn conclude(
        &mut self,
        verdict: &mut Verdict,
        yard: &mut Yard,
        outcome: Result<(), Stop>,
        options: &str,
    ) -> CampaignResult<bool> {
        match outcome {
            Ok(()) => {
                (self.progress)(verdict.runs);
                Ok(true)
            }
            Err(Stop::Machine(error)) => Err(error),
            Err(Stop::Wrong(what)) => {
                yard.keep();
                self.fail(verdict, &what, options);
                Ok(false)
            }
        }
    }

    fn fail(&self, verdict: &mut Verdict, what: &str, options: &str) {
        let what = format!("cycle {}: {what}; what it left is kept", verdict.runs);
        let cycles = verdict.runs;
        let again = format!("{options}--cycles {cycles} --seed {} --dir DIR", self.seed);
        verdict.fail(what, &again);
    }
}

impl Verdict {
    /// Of a layer that cannot run here.
    pub fn not_run(layer: Layer, why: impl Into<String>) -> Self {
        Self { not_run: Some(why.into()), ..Self::new(layer) }
    }
}
