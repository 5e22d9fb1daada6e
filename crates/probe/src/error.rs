//! What can go wrong with a run as a whole; a case that goes wrong is a result, not an error.

use std::path::{Path, PathBuf};

use highwater_sys::SysError;

/// Why a run did not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The directory cannot be used.
    #[error("{}: {reason}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A system call failed outside any case.
    #[error("{}: {source}", path.display())]
    System {
        /// What it was about.
        path: PathBuf,
        /// The call and the answer.
        source: SysError,
    },
    /// Something could not be removed.
    #[error("{} was not removed: {reason}", path.display())]
    Leftover {
        /// The directory left.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Not enough space, or more than was allowed.
    #[error("{0}")]
    TooLarge(String),
    /// Settings that cannot be meant.
    #[error("{0}")]
    Settings(String),
    /// The run directory could not be written.
    #[error(transparent)]
    Run(#[from] highwater_report::run_dir::RunError),
}

impl ProbeError {
    /// A failed call on a path.
    pub fn at(path: &Path, source: &SysError) -> Self {
        Self::System { path: path.to_owned(), source: *source }
    }

    /// A working directory that could not be made.
    pub fn work_dir(parent: &Path, error: &SysError) -> Self {
        let what = std::io::Error::from(error.errno);
        let advice = match what.kind() {
            std::io::ErrorKind::NotFound => "no such directory; name one that exists",
            std::io::ErrorKind::NotADirectory => {
                "not a directory; name the directory to measure in"
            }
            std::io::ErrorKind::PermissionDenied => {
                "no permission to make a directory here; choose one that you may write to"
            }
            std::io::ErrorKind::ReadOnlyFilesystem => {
                "the file system is read-only; choose a directory on a writable one"
            }
            std::io::ErrorKind::StorageFull => "the file system is full; free some space",
            _ => return Self::at(parent, error),
        };
        Self::Directory { path: parent.to_owned(), reason: advice.to_owned() }
    }
}

/// Why one case ended without a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseError {
    /// This path is not offered here.
    Unsupported(String),
    /// A write, barrier or readback failed.
    Failed(String),
    /// The user asked to stop.
    Interrupted,
}

impl CaseError {
    /// A failure while the file was being prepared: a refusal there means a path not offered.
    pub fn in_setup(error: &SysError) -> Self {
        if error.is_unsupported() {
            Self::Unsupported(error.to_string())
        } else {
            Self::Failed(format!("set-up: {error}"))
        }
    }
}
