//! What the kernel says about a path's file system: space, device number, direct I/O alignment.

use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags};

use crate::error::{SysError, SysResult, named};
use crate::file::File;
use crate::place::Place;
use rustix::io::Errno;

/// Alignment that direct I/O on a file asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DioAlign {
    /// Of memory, bytes.
    pub memory: u32,
    /// Of offsets and lengths, bytes.
    pub offset: u32,
}

/// Asks how direct I/O on an open file must be aligned (`STATX_DIOALIGN`, Linux 6.1).
///
/// `None` when the kernel does not know the question; zeros mean that direct I/O is refused.
///
/// # Errors
/// As statx(2).
pub fn dio_align(file: &File) -> SysResult<Option<DioAlign>> {
    let flags = StatxFlags::BASIC_STATS | StatxFlags::DIOALIGN;
    let stat = named("statx", rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, flags))?;
    if stat.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return Ok(None);
    }
    Ok(Some(DioAlign { memory: stat.stx_dio_mem_align, offset: stat.stx_dio_offset_align }))
}

/// Device number of the file system a path is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceNumber {
    /// Major number; 0 for file systems without a block device of their own.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Gives the device number of the file system a path is on.
///
/// # Errors
/// As statx(2).
pub fn device_number<'a>(place: impl Into<Place<'a>>) -> SysResult<DeviceNumber> {
    let stat = statx(place.into())?;
    Ok(DeviceNumber { major: stat.stx_dev_major, minor: stat.stx_dev_minor })
}

/// Gives the device number that a block device node stands for.
///
/// # Errors
/// As statx(2).
pub fn node_number(path: &Path) -> SysResult<DeviceNumber> {
    let stat = statx(path.into())?;
    Ok(DeviceNumber { major: stat.stx_rdev_major, minor: stat.stx_rdev_minor })
}

/// Free space for an unprivileged user where an open file is, bytes. It opens nothing, so it can be
/// asked where no more files may be open.
///
/// # Errors
/// As statvfs(3).
pub fn free_bytes(open: &File) -> SysResult<u64> {
    let stat = named("statfs", rustix::fs::fstatvfs(open))?;
    stat.f_bavail.checked_mul(stat.f_frsize).ok_or_else(|| SysError::new("statfs", Errno::OVERFLOW))
}

/// File systems that write every block to a new place unless told otherwise, by their number.
/// Source: `linux/magic.h`, and each one's own sources.
const COPY_ON_WRITE: [(u32, &str); 3] =
    [(0x9123_683E, "btrfs"), (0xCA45_1A4E, "bcachefs"), (0x2FC1_2FC1, "ZFS")];

/// Names the file system of an open file, if it is one that copies on write.
///
/// # Errors
/// As fstatfs(2).
pub fn copies_on_write(file: &File) -> SysResult<Option<&'static str>> {
    let stat = named("fstatfs", rustix::fs::fstatfs(file))?;
    Ok(u32::try_from(stat.f_type).ok().and_then(copier))
}

fn copier(number: u32) -> Option<&'static str> {
    COPY_ON_WRITE.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// Number of free inodes, where the file system counts them.
///
/// # Errors
/// As statvfs(3).
pub fn free_inodes(path: &Path) -> SysResult<Option<u64>> {
    let stat = named("statfs", rustix::fs::statvfs(path))?;
    Ok(if stat.f_files == 0 { None } else { Some(stat.f_favail) })
}

fn statx(place: Place<'_>) -> SysResult<rustix::fs::Statx> {
    let flags = StatxFlags::BASIC_STATS;
    named("statx", rustix::fs::statx(place.dir, place.path, AtFlags::empty(), flags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_that_copy_on_write_are_known_by_their_number() {
        for (number, name) in COPY_ON_WRITE {
            assert_eq!(copier(number), Some(name));
        }
        let (ext4, xfs, tmpfs) = (0xEF53, 0x5846_5342, 0x0102_1994);
        assert!([ext4, xfs, tmpfs].into_iter().all(|number| copier(number).is_none()));
        let file = File::unnamed(Path::new("/dev/shm")).unwrap();
        assert_eq!(copies_on_write(&file), Ok(None));
    }

    #[test]
    fn a_directory_has_space_and_a_device() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_bytes(&File::open_read(dir.path()).unwrap()).unwrap() > 0);
        assert_eq!(device_number(dir.path()), device_number(dir.path()));
        assert!(device_number(&dir.path().join("absent")).is_err());
        assert_eq!(node_number(Path::new("/dev/null")), Ok(DeviceNumber { major: 1, minor: 3 }));
    }
}
