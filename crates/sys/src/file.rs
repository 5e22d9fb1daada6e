//! Files: exclusive creation, positioned writes, and every barrier Linux offers.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::error::{SysError, SysResult, last_error, named};
use crate::place::Place;

/// `O_DSYNC` as the kernel defines it: rustix gives its `OFlags::DSYNC` the value of `O_SYNC`,
/// which would make every such write wait for all metadata too.
const O_DSYNC: OFlags = OFlags::from_bits_retain(libc::O_DSYNC.cast_unsigned());

/// How a new file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewFile {
    /// Page cache or device.
    pub cache: Cache,
    /// What each write waits for.
    pub write_sync: WriteSync,
}

/// Whether I/O goes through the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Through it.
    Buffered,
    /// Past it, with `O_DIRECT`.
    Direct,
}

/// What a write on the descriptor waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteSync {
    /// Nothing.
    None,
    /// `O_DSYNC`: the data, and what is needed to read it.
    Data,
    /// `O_SYNC`: the data and all metadata.
    All,
}

/// An open regular file or directory.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
}

impl File {
    /// Creates a file that does not exist yet (M2), readable and writable by its owner.
    ///
    /// # Errors
    /// `EEXIST` when something of that name exists, a dangling link included; `EINVAL` when the
    /// file system refuses direct I/O. Source: open(2).
    pub fn create_new<'a>(place: impl Into<Place<'a>>, options: NewFile) -> SysResult<Self> {
        let mut flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        flags |= options.flags();
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(Self { fd: named("open", open(place, flags, mode))? })
    }

    /// Opens a file without a name in a directory; it vanishes when closed (`O_TMPFILE`).
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system has no such files; others of open(2).
    pub fn unnamed(dir: &Path) -> SysResult<Self> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(Self { fd: named("open(O_TMPFILE)", rustix::fs::open(dir, flags, mode))? })
    }

    /// Opens one of our own files again, for writing.
    ///
    /// # Errors
    /// As open(2). Never follows a link in the last component.
    pub fn reopen<'a>(place: impl Into<Place<'a>>, options: NewFile) -> SysResult<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | options.flags();
        Ok(Self { fd: named("open", open(place, flags, Mode::empty()))? })
    }

    /// Opens a file for reading and writing, made for its owner alone if it is missing.
    ///
    /// # Errors
    /// As open(2). Never follows a link in the last component.
    pub fn open_or_create<'a>(place: impl Into<Place<'a>>) -> SysResult<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(Self { fd: named("open", open(place, flags, mode))? })
    }

    /// Opens one of our own files again, for reading only.
    ///
    /// # Errors
    /// As open(2). Never follows a link in the last component.
    pub fn reopen_read<'a>(place: impl Into<Place<'a>>) -> SysResult<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(Self { fd: named("open", open(place, flags, Mode::empty()))? })
    }

    /// Opens a file or directory for reading.
    ///
    /// # Errors
    /// As open(2).
    pub fn open_read<'a>(place: impl Into<Place<'a>>) -> SysResult<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { fd: named("open", open(place, flags, Mode::empty()))? })
    }

    /// Writes all of `bytes` at `offset` in one call.
    ///
    /// # Errors
    /// Any error of pwrite(2); a short write is [`SysError::SHORT`].
    #[inline]
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> SysResult<()> {
        // Not repeated after EINTR: on a descriptor with O_DSYNC the write is also a barrier.
        let moved = named("pwrite", rustix::io::pwrite(&self.fd, bytes, offset))?;
        whole("pwrite", moved, bytes.len())
    }

    /// Writes all of `bytes` at `offset` in as many calls as it takes, repeated after `EINTR`: for
    /// descriptors on which a write is not a barrier too.
    ///
    /// # Errors
    /// Any error of pwrite(2), after any part of the bytes; [`SysError::SHORT`] when nothing moves.
    pub fn write_whole_at(&self, bytes: &[u8], offset: u64) -> SysResult<()> {
        let mut done = 0;
        while done < bytes.len() {
            let position = offset + u64::try_from(done).expect("usize fits u64");
            match rustix::io::pwrite(&self.fd, &bytes[done..], position) {
                Ok(0) => return Err(SysError::new("pwrite", SysError::SHORT)),
                Ok(moved) => done += moved,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(SysError::new("pwrite", errno)),
            }
        }
        Ok(())
    }

    /// Turns the page cache off for an open file (`O_DIRECT`).
    ///
    /// # Errors
    /// `EINVAL` when the file system refuses direct I/O. Source: fcntl(2), `F_SETFL`.
    pub fn set_direct(&self) -> SysResult<()> {
        let flags = named("fcntl(F_GETFL)", rustix::fs::fcntl_getfl(&self.fd))?;
        named("fcntl(F_SETFL)", rustix::fs::fcntl_setfl(&self.fd, flags | OFlags::DIRECT))
    }

    /// Asks a file system that copies on write to overwrite this file in place. The file must be
    /// empty. Source: `ioctl_iflags(2)`, `FS_NOCOW_FL`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` or `ENOTTY` where there is no such choice: of a file system that overwrites in
    /// place anyhow, too.
    pub fn set_overwritten_in_place(&self) -> SysResult<()> {
        use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
        let flags = named("ioctl(FS_IOC_GETFLAGS)", ioctl_getflags(&self.fd))?;
        named("ioctl(FS_IOC_SETFLAGS)", ioctl_setflags(&self.fd, flags | IFlags::NOCOW))
    }

    /// Tells whether [`File::set_overwritten_in_place`] is in force.
    ///
    /// # Errors
    /// `EOPNOTSUPP` or `ENOTTY` where there is no such choice.
    pub fn is_overwritten_in_place(&self) -> SysResult<bool> {
        let flags = named("ioctl(FS_IOC_GETFLAGS)", rustix::fs::ioctl_getflags(&self.fd))?;
        Ok(flags.contains(rustix::fs::IFlags::NOCOW))
    }

    /// Cuts or grows the file to a length, repeated after `EINTR`.
    ///
    /// # Errors
    /// As ftruncate(2).
    pub fn truncate(&self, len: u64) -> SysResult<()> {
        loop {
            match rustix::fs::ftruncate(&self.fd, len) {
                Err(Errno::INTR) => {}
                answer => return named("ftruncate", answer),
            }
        }
    }

    /// Writes all of `bytes` at `offset` and returns when they are durable (`RWF_DSYNC`).
    ///
    /// # Errors
    /// Any error of pwritev2(2); a short write is [`SysError::SHORT`].
    #[inline]
    pub fn write_at_dsync(&self, bytes: &[u8], offset: u64) -> SysResult<()> {
        let slices = [std::io::IoSlice::new(bytes)];
        let moved = named(
            "pwritev2",
            rustix::io::pwritev2(&self.fd, &slices, offset, ReadWriteFlags::DSYNC),
        )?;
        whole("pwritev2", moved, bytes.len())
    }

    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// Any error of pread(2); the end of file before the last byte is [`SysError::SHORT`].
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> SysResult<()> {
        let wanted = bytes.len();
        let mut done = 0;
        while done < wanted {
            let position = offset + u64::try_from(done).expect("usize fits u64");
            match rustix::io::pread(&self.fd, &mut bytes[done..], position) {
                Ok(0) => return Err(SysError::new("pread", SysError::SHORT)),
                Ok(moved) => done += moved,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(SysError::new("pread", errno)),
            }
        }
        Ok(())
    }

    /// Sends bytes from `offset` to a socket without a copy; gives how many, repeated after
    /// `EINTR`.
    ///
    /// # Errors
    /// `EAGAIN` when a socket that does not block takes none now; others of sendfile(2).
    pub fn send(&self, socket: BorrowedFd<'_>, offset: u64, len: usize) -> SysResult<usize> {
        loop {
            let mut from = offset;
            match rustix::fs::sendfile(socket, &self.fd, Some(&mut from), len) {
                Err(Errno::INTR) => {}
                answer => return named("sendfile", answer),
            }
        }
    }

    /// Makes data and metadata durable. Source: fsync(2). Never repeated after a failure.
    ///
    /// # Errors
    /// Whatever the kernel reports: the file's unsynced bytes may be lost.
    #[inline]
    pub fn fsync(&self) -> SysResult<()> {
        named("fsync", rustix::fs::fsync(&self.fd))
    }

    /// Makes data, and the metadata needed to read it, durable. Source: fdatasync(2).
    ///
    /// # Errors
    /// As [`File::fsync`].
    #[inline]
    pub fn fdatasync(&self) -> SysResult<()> {
        named("fdatasync", rustix::fs::fdatasync(&self.fd))
    }

    /// Makes everything on this file's file system durable. Source: syncfs(2).
    ///
    /// # Errors
    /// As [`File::fsync`]; since Linux 5.8 also errors of other files' writeback.
    #[inline]
    pub fn syncfs(&self) -> SysResult<()> {
        named("syncfs", rustix::fs::syncfs(&self.fd))
    }

    /// Writes a range's dirty pages and waits for the transfer. NOT DURABLE: no device flush, no
    /// metadata. Source: `sync_file_range(2)`.
    ///
    /// # Errors
    /// As the man page.
    #[inline]
    pub fn sync_file_range(&self, offset: u64, len: u64) -> SysResult<()> {
        let call = "sync_file_range";
        let overflow = |_| SysError::new(call, Errno::FBIG);
        let offset = i64::try_from(offset).map_err(overflow)?;
        let len = i64::try_from(len).map_err(overflow)?;
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: plain integers and a descriptor that `self` keeps open.
        let answer = unsafe { libc::sync_file_range(self.fd.as_raw_fd(), offset, len, flags) };
        if answer == 0 { Ok(()) } else { Err(last_error(call)) }
    }

    /// Reserves `len` bytes as unwritten extents and sets the end of file (fallocate mode 0).
    ///
    /// # Errors
    /// `ENOSPC`, `EOPNOTSUPP` and others of fallocate(2).
    pub fn allocate(&self, len: u64) -> SysResult<()> {
        named("fallocate", rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), 0, len))
    }

    /// Asks the kernel to drop this file's clean pages from the cache.
    ///
    /// # Errors
    /// As `posix_fadvise(2)`.
    pub fn drop_cache(&self) -> SysResult<()> {
        named("posix_fadvise", rustix::fs::fadvise(&self.fd, 0, None, Advice::DontNeed))
    }

    /// Length of the file in bytes.
    ///
    /// # Errors
    /// As fstat(2).
    pub fn len(&self) -> SysResult<u64> {
        let stat = named("fstat", rustix::fs::fstat(&self.fd))?;
        u64::try_from(stat.st_size).map_err(|_| SysError::new("fstat", Errno::OVERFLOW))
    }

    /// Whether the file holds no bytes.
    ///
    /// # Errors
    /// As [`File::len`].
    pub fn is_empty(&self) -> SysResult<bool> {
        Ok(self.len()? == 0)
    }
}

fn open<'a>(place: impl Into<Place<'a>>, flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let place = place.into();
    rustix::fs::openat(place.dir, place.path, flags, mode)
}

/// Writes some of the bytes to a socket; gives how many, repeated after `EINTR`.
///
/// # Errors
/// `EAGAIN` when a socket that does not block takes none now; others of write(2).
pub fn write_some(socket: BorrowedFd<'_>, bytes: &[u8]) -> SysResult<usize> {
    loop {
        match rustix::io::write(socket, bytes) {
            Err(Errno::INTR) => {}
            answer => return named("write", answer),
        }
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl NewFile {
    fn flags(self) -> OFlags {
        let cache = match self.cache {
            Cache::Buffered => OFlags::empty(),
            Cache::Direct => OFlags::DIRECT,
        };
        let sync = match self.write_sync {
            WriteSync::None => OFlags::empty(),
            WriteSync::Data => O_DSYNC,
            WriteSync::All => OFlags::SYNC,
        };
        cache | sync
    }
}

fn whole(call: &'static str, moved: usize, wanted: usize) -> SysResult<()> {
    if moved == wanted { Ok(()) } else { Err(SysError::new(call, SysError::SHORT)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: NewFile = NewFile { cache: Cache::Buffered, write_sync: WriteSync::None };

    #[test]
    fn an_existing_file_is_never_opened_by_create_new() {
        // M2
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, b"kept").unwrap();
        let error = File::create_new(&path, PLAIN).unwrap_err();
        assert_eq!((error.call, error.errno), ("open", Errno::EXIST));
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn o_dsync_is_asked_for_without_o_sync() {
        let dir = tempfile::tempdir().unwrap();
        let sync_flags = |write_sync| {
            let path = dir.path().join(format!("{write_sync:?}"));
            let options = NewFile { cache: Cache::Buffered, write_sync };
            let file = File::create_new(&path, options).unwrap();
            let flags = rustix::fs::fcntl_getfl(&file).unwrap();
            flags.bits() & libc::O_SYNC.cast_unsigned()
        };
        assert_eq!(sync_flags(WriteSync::None), 0);
        assert_eq!(sync_flags(WriteSync::Data), libc::O_DSYNC.cast_unsigned());
        assert_eq!(sync_flags(WriteSync::All), libc::O_SYNC.cast_unsigned());
    }

    #[test]
    fn every_barrier_and_positioned_write_round_trips() {
        let dir = tempfile::tempdir().unwrap();
        for write_sync in [WriteSync::None, WriteSync::Data, WriteSync::All] {
            let path = dir.path().join(format!("{write_sync:?}"));
            let options = NewFile { cache: Cache::Buffered, write_sync };
            let file = File::create_new(&path, options).unwrap();
            file.allocate(16).unwrap();
            file.write_at(b"abc", 3).unwrap();
            file.write_at_dsync(b"xyz", 6).unwrap();
            file.fsync().unwrap();
            file.fdatasync().unwrap();
            file.syncfs().unwrap();
            file.sync_file_range(0, 16).unwrap();
            file.drop_cache().unwrap();
            let mut bytes = [0; 6];
            file.read_at(&mut bytes, 3).unwrap();
            assert_eq!(&bytes, b"abcxyz");
            assert_eq!(file.len().unwrap(), 16);
        }
    }

    #[test]
    fn a_file_is_written_whole_cut_and_taken_off_the_cache() {
        // The build directory is on a disk; the temporary directory may be tmpfs.
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = File::open_or_create(&dir.path().join("a")).unwrap();
        file.write_whole_at(&[7; 10_000], 5).unwrap();
        assert_eq!(file.len(), Ok(10_005));
        file.truncate(100).unwrap();
        assert_eq!(file.len(), Ok(100));
        match file.set_direct() {
            Ok(()) => assert_eq!(file.write_at(&[1; 7], 1).unwrap_err().errno, Errno::INVAL),
            Err(error) => assert!(error.is_unsupported(), "{error}"),
        }
    }

    #[test]
    fn bytes_are_sent_to_a_socket_with_and_without_a_copy() {
        use std::io::Read as _;
        let dir = tempfile::tempdir().unwrap();
        let file = File::create_new(&dir.path().join("a"), PLAIN).unwrap();
        file.write_at(b"abcdef", 0).unwrap();
        let (here, mut there) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(file.send(here.as_fd(), 2, 3), Ok(3));
        assert_eq!(write_some(here.as_fd(), b"xyz"), Ok(3));
        assert_eq!(file.send(here.as_fd(), 6, 3), Ok(0), "the file ends");
        let mut got = [0; 6];
        there.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"cdexyz");
        here.set_nonblocking(true).unwrap();
        while write_some(here.as_fd(), &[0; 4096]).is_ok() {}
        let full = file.send(here.as_fd(), 0, 6).unwrap_err();
        assert!(full.is_not_now(), "{full}");
        drop(there);
        assert!(write_some(here.as_fd(), b"x").unwrap_err().is_hung_up());
    }

    #[test]
    fn overwriting_in_place_is_taken_or_said_to_be_no_choice() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = File::create_new(&dir.path().join("a"), PLAIN).unwrap();
        if let Err(error) = file.set_overwritten_in_place() {
            assert!(error.is_unsupported(), "{error}");
        }
    }

    #[test]
    fn reading_past_the_end_is_an_error_not_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create_new(&dir.path().join("a"), PLAIN).unwrap();
        file.write_at(b"abc", 0).unwrap();
        let error = file.read_at(&mut [0; 4], 0).unwrap_err();
        assert_eq!(error.errno, SysError::SHORT);
        assert!(error.to_string().contains("fewer bytes"));
    }
}
