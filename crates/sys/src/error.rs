//! The one error of this crate: which call failed, and what the kernel said.

use rustix::io::Errno;

/// A system call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {}", describe(*errno))]
pub struct SysError {
    /// Name of the call, as in its man page.
    pub call: &'static str,
    /// What the kernel answered; [`SysError::SHORT`] for a transfer that stopped early.
    pub errno: Errno,
}

/// Result of a system call.
pub type SysResult<T> = Result<T, SysError>;

impl SysError {
    /// Stands for a write or read that moved fewer bytes than asked.
    pub const SHORT: Errno = Errno::NODATA;

    /// Names the call that gave this answer.
    pub const fn new(call: &'static str, errno: Errno) -> Self {
        Self { call, errno }
    }

    /// Whether the kernel or file system does not offer this path, as opposed to failing at it.
    pub fn is_unsupported(&self) -> bool {
        [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS, Errno::NOTTY].contains(&self.errno)
            || (self.call.starts_with("io_uring") && self.errno == Errno::PERM)
    }

    /// Whether the disk or quota is full.
    pub fn is_full(&self) -> bool {
        [Errno::NOSPC, Errno::DQUOT, Errno::FBIG].contains(&self.errno)
    }

    /// Whether the process or the system has no file descriptor left.
    pub fn is_out_of_files(&self) -> bool {
        [Errno::MFILE, Errno::NFILE].contains(&self.errno)
    }

    /// Whether a socket that does not block takes nothing now.
    pub fn is_not_now(&self) -> bool {
        self.errno == Errno::AGAIN
    }

    /// Whether the other end of a socket is gone.
    pub fn is_hung_up(&self) -> bool {
        [Errno::PIPE, Errno::CONNRESET, Errno::NOTCONN].contains(&self.errno)
    }

    /// Whether the path itself is at fault: a symbolic link where none is followed, or too long.
    pub fn is_bad_path(&self) -> bool {
        [Errno::LOOP, Errno::NAMETOOLONG].contains(&self.errno)
    }
}

impl From<SysError> for std::io::Error {
    fn from(error: SysError) -> Self {
        Self::new(std::io::Error::from(error.errno).kind(), error)
    }
}

fn describe(errno: Errno) -> String {
    if errno == SysError::SHORT {
        return "moved fewer bytes than asked".to_owned();
    }
    std::io::Error::from(errno).to_string()
}

/// Turns a rustix result into ours.
pub(crate) fn named<T>(call: &'static str, result: rustix::io::Result<T>) -> SysResult<T> {
    result.map_err(|errno| SysError::new(call, errno))
}

/// Reads `errno` after a failed libc call.
pub(crate) fn last_error(call: &'static str) -> SysError {
    let raw = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    SysError::new(call, Errno::from_raw_os_error(raw))
}
