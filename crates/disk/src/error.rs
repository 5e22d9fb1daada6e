//! The error of a disk operation: what was done, where, and what kind of failure it was.

/// Result of a disk operation.
pub type DiskResult<T> = Result<T, DiskError>;

/// A disk operation that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{operation}{}: {message}", place(.path))]
pub struct DiskError {
    /// What was done, as in `sync_data`.
    pub operation: &'static str,
    /// On what.
    pub path: String,
    /// What kind of failure it was.
    pub kind: ErrorKind,
    /// In words.
    pub message: String,
}

/// What kind of failure it was; what callers decide by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No such file or directory.
    NotFound,
    /// It exists already.
    Exists,
    /// The disk, quota or inode table is full.
    Full,
    /// The file ends before the last byte asked for.
    EndOfFile,
    /// Somebody else holds the lock.
    Locked,
    /// No permission, or a read-only file system.
    Denied,
    /// Too many open files.
    TooManyFiles,
    /// Offset, length or memory not aligned for direct access.
    Misaligned,
    /// There is no such call here: the kernel or the file system does not have it.
    Unsupported,
    /// The other end of a socket is gone.
    HungUp,
    /// A path that is not well formed.
    BadPath,
    /// Everything else: the device or file system failed.
    Io,
}

impl DiskError {
    /// Whether it was a barrier that failed: what it should have covered may be lost, whatever the
    /// kind, and nobody asks again. One whose directory could not even be opened, because too many
    /// files were, was never begun: the device was asked for nothing, and has lost nothing.
    pub fn is_barrier(&self) -> bool {
        let is_begun = self.kind != ErrorKind::TooManyFiles;
        let barriers = ["sync_data", "sync_dir", "sync_all", "write_durable_at"];
        is_begun && barriers.contains(&self.operation)
    }

    /// Puts an error together.
    pub(crate) fn new(
        operation: &'static str,
        path: &str,
        kind: ErrorKind,
        message: impl Into<String>,
    ) -> Self {
        Self { operation, path: path.to_owned(), kind, message: message.into() }
    }
}

/// Names the place of an error; the root has no name.
fn place(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" {path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_place_but_for_the_root_which_has_no_name() {
        let said = |path| DiskError::new("open", path, ErrorKind::Denied, "no").to_string();
        assert_eq!((said("a/b").as_str(), said("").as_str()), ("open a/b: no", "open: no"));
    }
}
