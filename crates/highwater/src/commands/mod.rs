//! What each word does. `measured` is what the two measuring words share.

pub mod bench;
mod bench_engine;
pub mod check;
pub mod compare;
mod csv;
pub mod generate;
mod measured;
pub mod probe;
pub mod report;
pub mod serve;
pub mod torture;

use std::process::ExitCode;

/// How the program ends when it did what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Done.
    Done,
    /// A case failed, something is slower, a store is damaged, or an invariant did not hold.
    Failed,
    /// A store ends in a commit that a crash cut off.
    TornTail,
    /// What was asked for cannot run on this machine, and says so.
    NotRun,
    /// An error: nothing was done, or not all.
    Error,
    /// The user stopped it.
    Interrupted,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        Self::from(match ending {
            Ending::Done => 0,
            Ending::Failed => 1,
            Ending::Error => 2,
            Ending::TornTail => 3,
            Ending::NotRun => 4,
            Ending::Interrupted => 130,
        })
    }
}
