//! What can go wrong with a run directory, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// An error of a run directory.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The name cannot become part of a path.
    #[error(
        "run name {name:?} {problem}; use 1 to 64 ASCII letters, digits, '-', '_' and '.', \
         not starting with '.'"
    )]
    BadName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The date is not in the one form that directories carry.
    #[error("date {0:?} is not of the form 2026-11-30")]
    BadDate(String),
    /// The directory holds no run.
    #[error("{} holds no run: there is no manifest.json; name the directory that a run printed",
        .0.display())]
    NotARun(PathBuf),
    /// A file operation failed.
    #[error("cannot {action} {}: {source}; {next_step}", .path.display())]
    Io {
        /// What was tried, as in `create`.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
        /// What to do.
        next_step: &'static str,
    },
    /// A file does not hold what it should.
    #[error("{}:{line}: {problem}; restore the file from a copy, or measure again",
        .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What was found.
        problem: String,
    },
    /// The run was written by a newer program.
    #[error(
        "{} has schema version {found}, this program reads up to {known}; read it with the \
         highwater that wrote it{}",
        .path.display(),
        .written_by.as_ref().map(|v| format!(" (version {v})")).unwrap_or_default()
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Version found.
        found: u32,
        /// Newest version known here.
        known: u32,
        /// Program version that wrote it, where it says so.
        written_by: Option<String>,
    },
}

impl RunError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let next_step = match source.kind() {
            io::ErrorKind::AlreadyExists => "existing files are never overwritten; use a new run",
            io::ErrorKind::PermissionDenied => "check who owns the directory",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
            io::ErrorKind::NotFound => "check the path",
            _ => "check the file system with dmesg",
        };
        Self::Io { action, path: path.to_owned(), source, next_step }
    }

    pub(crate) fn malformed(path: &Path, line: u64, problem: &impl ToString) -> Self {
        Self::Malformed { path: path.to_owned(), line, problem: problem.to_string() }
    }
}
