//! Shuts a mounted file system down: a power cut for one file system.
//!
//! Source: `XFS_IOC_GOINGDOWN`, which ext4, f2fs and others took over as `EXT4_IOC_SHUTDOWN` and
//! `FS_IOC_SHUTDOWN`: one number, one argument.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use crate::error::{SysResult, last_error};
use crate::file::File;

/// `_IOR('X', 125, __u32)`.
const FS_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587D;
/// Neither the journal nor anything else is written out before.
const NO_LOG_FLUSH: u32 = 2;

/// Ends a file system at once, without writing out its journal: what it has not given to its device
/// is lost, and every later call to it fails until it is unmounted and mounted again.
///
/// # Errors
/// `ENOTTY` where the file system does not offer it (btrfs before Linux 6.19), `EPERM` without
/// root.
pub fn shut_down(path: &Path) -> SysResult<()> {
    let dir = File::open_read(path)?;
    let flags = NO_LOG_FLUSH;
    // SAFETY: the call reads 32 bits from the address of a local that outlives it.
    let answer = unsafe { libc::ioctl(dir.as_fd().as_raw_fd(), FS_IOC_SHUTDOWN, &raw const flags) };
    if answer == 0 { Ok(()) } else { Err(last_error("ioctl(FS_IOC_SHUTDOWN)")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_shut_down_says_so() {
        // /proc offers no such call, to root neither.
        let error = shut_down(Path::new("/proc")).unwrap_err();
        assert_eq!(error.call, "ioctl(FS_IOC_SHUTDOWN)");
        assert!(error.is_unsupported(), "{error}");
        assert!(shut_down(Path::new("/absent")).is_err());
    }
}
