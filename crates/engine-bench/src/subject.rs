//! What can be measured: a log that opens a store in a directory, and the store.

use std::path::Path;

use crate::case::Case;
use crate::load::Load;

/// Result of a subject's operation.
pub type SubjectResult<T> = Result<T, SubjectError>;

/// Why an operation did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// No room just now: the same again, later, may do.
    #[error("refused for now: {0}")]
    Refused(String),
    /// This system does not offer what the subject needs.
    #[error("not offered here: {0}")]
    Unsupported(String),
    /// It failed, and nothing measured on it counts.
    #[error("{0}")]
    Failed(String),
}

/// A log that can be measured.
pub trait Subject: Send + Sync {
    /// Short name, as tables show it.
    fn name(&self) -> &'static str;

    /// Says why a case is not for this subject, if it is not.
    fn refuses(&self, _case: &Case) -> Option<String> {
        None
    }

    /// Whether streams make a difference: where not, one number of them is enough.
    fn knows_streams(&self) -> bool {
        true
    }

    /// Makes a store in an empty directory, for one case.
    ///
    /// # Errors
    /// Any [`SubjectError`].
    fn open(&self, dir: &Path, case: &Case) -> SubjectResult<Box<dyn Store>>;
}

/// A store under measurement.
pub trait Store: Send + Sync {
    /// Makes the streams 0 to `count`, all durable when this returns.
    ///
    /// # Errors
    /// Any [`SubjectError`].
    fn create_streams(&self, count: u32) -> SubjectResult<()>;

    /// Appends to a stream, and returns when it is acknowledged.
    ///
    /// # Errors
    /// Any [`SubjectError`].
    fn append(&self, stream: u32, payload: &[u8]) -> SubjectResult<()>;

    /// Puts a load on the store until the load ends: by a thread per writer, where the store does
    /// not do it in a way of its own.
    fn drive(&self, load: &Load) {
        load.drive_threads(&|stream, payload| self.append(stream, payload));
    }

    /// Moves what is appended to where it stays, as the store does in its own time.
    ///
    /// # Errors
    /// Any [`SubjectError`].
    fn settle(&self) -> SubjectResult<()> {
        Ok(())
    }

    /// What the store has asked of its disk so far, as far as it can be seen.
    fn counts(&self) -> Option<Counts>;

    /// Ends the store; its directory can then be removed.
    ///
    /// # Errors
    /// Any [`SubjectError`].
    fn close(self: Box<Self>) -> SubjectResult<()>;
}

/// What a store has asked of its disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits: barriers of the log that acknowledge appends.
    pub commits: u64,
    /// Bytes that they wrote.
    pub commit_bytes: u64,
    /// Time in their write calls, ns.
    pub write_ns: u64,
    /// Time in their barriers, ns.
    pub barrier_ns: u64,
    /// All other barriers: preparation of space, checkpoints.
    pub other_barriers: u64,
    /// Bytes written besides commits.
    pub other_bytes: u64,
}

impl Counts {
    /// What was counted since earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            commits: self.commits - earlier.commits,
            commit_bytes: self.commit_bytes - earlier.commit_bytes,
            write_ns: self.write_ns - earlier.write_ns,
            barrier_ns: self.barrier_ns - earlier.barrier_ns,
            other_barriers: self.other_barriers - earlier.other_barriers,
            other_bytes: self.other_bytes - earlier.other_bytes,
        }
    }
}
