//! Which paths are well formed, and how they come apart.

use crate::{DiskError, DiskResult, ErrorKind, PathStr};

/// Name, in the root, of the file that carries the lock; no other call may name it.
pub(crate) const LOCK_NAME: &str = "LOCK";

/// Longest component most file systems take, bytes.
const COMPONENT_MAX_BYTES: usize = 255;

/// Checks a path of a file, or of a directory below the root.
pub(crate) fn check(operation: &'static str, path: &PathStr) -> DiskResult<()> {
    let refuse = |why: &str| Err(DiskError::new(operation, path, ErrorKind::BadPath, why));
    if path == LOCK_NAME {
        return refuse("this name is reserved for the lock");
    }
    for component in path.split('/') {
        if !is_component(component) {
            return refuse(
                "a path is components of ASCII letters, digits, `-`, `_` and `.`, joined by `/`, \
                 neither empty nor `.` nor `..`, of 255 bytes at most",
            );
        }
    }
    Ok(())
}

/// Checks a path of a directory; the empty path is the root.
pub(crate) fn check_dir(operation: &'static str, path: &PathStr) -> DiskResult<()> {
    if path.is_empty() { Ok(()) } else { check(operation, path) }
}

/// Whether some call can name an entry of a directory by this.
pub(crate) fn is_component(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let sized = (1..=COMPONENT_MAX_BYTES).contains(&name.len());
    sized && name != "." && name != ".." && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_relative_paths_are_taken() {
        for good in ["a", "wal/0/00.seg", "a-b_c.d", "...", "a/LOCK"] {
            assert_eq!(check("open", good), Ok(()), "{good}");
        }
        let long = "x".repeat(256);
        for bad in
            ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a\\b", "a\0", "a b", "ä", "LOCK", &long]
        {
            assert_eq!(check("open", bad).unwrap_err().kind, ErrorKind::BadPath, "{bad:?}");
        }
        assert_eq!(check_dir("list", ""), Ok(()));
        assert!(check_dir("list", "..").is_err());
    }
}
