//! Where a path begins: at the working directory, or at a directory that is open, whatever that is
//! called by now.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::CWD;

use crate::file::File;

/// A path, and the directory that it begins at if it is relative.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub(crate) dir: BorrowedFd<'a>,
    pub(crate) path: &'a Path,
}

impl<'a> Place<'a> {
    /// Names what is below an open directory; the empty path is the directory itself.
    pub fn below(dir: &'a File, path: &'a Path) -> Self {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Self { dir: dir.as_fd(), path }
    }
}

impl<'a, P: AsRef<Path> + ?Sized> From<&'a P> for Place<'a> {
    fn from(path: &'a P) -> Self {
        Self { dir: CWD, path: path.as_ref() }
    }
}
