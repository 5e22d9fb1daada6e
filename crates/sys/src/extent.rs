//! Where a file lies: its extents, by the FIEMAP ioctl.
//!
//! Source: `Documentation/filesystems/fiemap.rst` and `linux/fiemap.h`.

use std::os::fd::{AsFd, AsRawFd};

use crate::error::{SysResult, last_error};
use crate::file::File;

/// One extent of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file, bytes.
    pub logical: u64,
    /// Position on the device, bytes; meaningless while the location is unknown.
    pub physical: u64,
    /// Length, bytes.
    pub len: u64,
    /// Allocated but not written: reads give zeros.
    pub unwritten: bool,
    /// Not placed on the device yet (delayed allocation).
    pub unknown_location: bool,
}

const EXTENTS_PER_CALL: usize = 128;
const FIEMAP_EXTENT_LAST: u32 = 0x1;
const FIEMAP_EXTENT_UNKNOWN: u32 = 0x2;
const FIEMAP_EXTENT_DELALLOC: u32 = 0x4;
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;
/// `_IOWR('f', 11, struct fiemap)`; the struct's fixed part is 32 bytes.
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    len: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Request {
    start: u64,
    len: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS_PER_CALL],
}

const _: () = assert!(size_of::<RawExtent>() == 56);
const _: () = assert!(size_of::<Request>() == 32 + 56 * EXTENTS_PER_CALL);

/// Lists a file's extents in order, as the file system has them now (nothing is synced first).
///
/// # Errors
/// `EOPNOTSUPP` where the file system does not tell.
pub fn extents(file: &File) -> SysResult<Vec<Extent>> {
    let mut found = Vec::new();
    let mut start = 0;
    loop {
        let mut request = Request {
            start,
            len: u64::MAX - start,
            flags: 0,
            mapped_extents: 0,
            extent_count: u32::try_from(EXTENTS_PER_CALL).expect("a small constant"),
            reserved: 0,
            extents: [RawExtent::default(); EXTENTS_PER_CALL],
        };
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: the request has the layout of `struct fiemap` (sizes asserted above) with room
        // for the number of extents it announces.
        let answer = unsafe { libc::ioctl(fd, FS_IOC_FIEMAP, &raw mut request) };
        if answer != 0 {
            return Err(last_error("ioctl(FS_IOC_FIEMAP)"));
        }
        let mapped = usize::try_from(request.mapped_extents).expect("u32 fits usize");
        let batch = &request.extents[..mapped.min(EXTENTS_PER_CALL)];
        found.extend(batch.iter().map(|raw| Extent {
            logical: raw.logical,
            physical: raw.physical,
            len: raw.len,
            unwritten: raw.flags & FIEMAP_EXTENT_UNWRITTEN != 0,
            unknown_location: raw.flags & (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC) != 0,
        }));
        match batch.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 => start = last.logical + last.len,
            _ => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Cache, NewFile, WriteSync};

    #[test]
    fn allocation_shows_unwritten_extents_and_a_synced_write_clears_them() {
        // The build directory is on a disk; the temporary directory may be tmpfs.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let options = NewFile { cache: Cache::Buffered, write_sync: WriteSync::None };
        let file = File::create_new(&dir.path().join("a"), options).unwrap();
        assert_eq!(extents(&file).map(|found| found.len()), Ok(0));
        file.allocate(1 << 20).unwrap();
        file.fsync().unwrap();
        let before = extents(&file).unwrap();
        assert!(before.iter().all(|extent| extent.unwritten), "{before:?}");
        assert_eq!(before.iter().map(|extent| extent.len).sum::<u64>(), 1 << 20);
        file.write_at(&vec![1; 1 << 20], 0).unwrap();
        file.fsync().unwrap();
        let after = extents(&file).unwrap();
        assert!(after.iter().all(|extent| !extent.unwritten && !extent.unknown_location));
        assert_eq!(after[0].physical, before[0].physical);
    }
}
