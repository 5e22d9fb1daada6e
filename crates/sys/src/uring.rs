//! `io_uring`: one write linked to its fdatasync, submitted and awaited in one call.

use std::os::fd::{AsFd, AsRawFd};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use crate::buffer::AlignedBuf;
use crate::error::{SysError, SysResult};
use crate::file::File;

const WRITE: u64 = 1;
const SYNC: u64 = 2;

/// A ring that owns the bytes it writes, so that they outlive whatever the kernel still does.
pub struct LinkedWriter {
    // Dropped before `buffer`: closing the ring ends every operation that refers to it.
    ring: IoUring,
    buffer: AlignedBuf,
    /// Set when the ring refused a submission: what it still holds must never be submitted.
    broken: Option<SysError>,
}

impl LinkedWriter {
    /// Sets up a ring around the bytes to be written.
    ///
    /// # Errors
    /// `ENOSYS` or `EPERM` where `io_uring` is absent or forbidden.
    pub fn new(buffer: AlignedBuf) -> SysResult<Self> {
        let ring = IoUring::new(8).map_err(|error| io_error("io_uring_setup", &error))?;
        Ok(Self { ring, buffer, broken: None })
    }

    /// Gives the bytes to be written.
    pub fn buffer_mut(&mut self) -> &mut AlignedBuf {
        // No operation is in flight between calls: `write_and_sync` waits for both.
        &mut self.buffer
    }

    /// Writes the whole buffer at `offset`, linked to an fdatasync, and waits for both.
    ///
    /// # Errors
    /// The first failure of the two; a short write breaks the link and is [`SysError::SHORT`]. A
    /// ring that takes nothing in (`EAGAIN`, `ENOMEM`) is an error that every later call repeats.
    ///
    /// # Panics
    /// When the ring itself breaks while operations are in flight.
    #[inline]
    pub fn write_and_sync(&mut self, file: &File, offset: u64) -> SysResult<()> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let fd = types::Fd(file.as_fd().as_raw_fd());
        let len = u32::try_from(self.buffer.len())
            .map_err(|_| SysError::new("io_uring write", Errno::FBIG))?;
        let write = opcode::Write::new(fd, self.buffer.as_ptr(), len)
            .offset(offset)
            .build()
            .flags(squeue::Flags::IO_LINK)
            .user_data(WRITE);
        let sync =
            opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build().user_data(SYNC);
        // SAFETY: both entries refer to the ring's own buffer and to a file that stays open
        // until this call has seen both completions.
        unsafe { self.ring.submission().push_multiple(&[write, sync]) }
            .map_err(|_| SysError::new("io_uring submit", Errno::BUSY))?;
        self.wait_for_both(len)
    }

    fn wait_for_both(&mut self, len: u32) -> SysResult<()> {
        let (mut seen, mut wrote, mut synced) = (0, 0, 0);
        let mut wanted = 2;
        while seen < 2 {
            match self.ring.submit_and_wait(wanted) {
                Ok(_) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
                Err(error) if self.ring.submission().len() + seen == 2 => {
                    // Nothing is in flight, so the bytes are ours alone and the call can end.
                    let error = io_error("io_uring_enter", &error);
                    self.broken = Some(error);
                    return Err(error);
                }
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
                Err(error) => panic!("io_uring_enter broke with operations in flight: {error}"),
            }
            for entry in self.ring.completion() {
                seen += 1;
                match entry.user_data() {
                    WRITE => wrote = entry.result(),
                    _ => synced = entry.result(),
                }
            }
            wanted = 2 - seen.min(2);
        }
        // The write is judged first: when it fails the sync is only reported as cancelled.
        match u32::try_from(wrote) {
            Err(_) => return Err(negative("io_uring write", wrote)),
            Ok(moved) if moved != len => {
                return Err(SysError::new("io_uring write", SysError::SHORT));
            }
            Ok(_) => {}
        }
        if synced < 0 { Err(negative("io_uring fsync", synced)) } else { Ok(()) }
    }
}

fn negative(call: &'static str, result: i32) -> SysError {
    SysError::new(call, Errno::from_raw_os_error(-result))
}

fn io_error(call: &'static str, error: &std::io::Error) -> SysError {
    SysError::new(call, Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Cache, NewFile, WriteSync};

    #[test]
    fn a_linked_write_is_readable_and_a_bad_descriptor_is_reported_as_the_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let options = NewFile { cache: Cache::Buffered, write_sync: WriteSync::None };
        let file = File::create_new(&path, options).unwrap();
        let mut writer = LinkedWriter::new(AlignedBuf::zeroed(4096, 4096)).unwrap();
        writer.buffer_mut().fill(9);
        writer.write_and_sync(&file, 4096).unwrap();
        let mut bytes = [0; 4096];
        file.read_at(&mut bytes, 4096).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 9));

        let read_only = File::open_read(&path).unwrap();
        let error = writer.write_and_sync(&read_only, 0).unwrap_err();
        assert_eq!((error.call, error.errno), ("io_uring write", Errno::BADF));
        writer.write_and_sync(&file, 0).unwrap();
    }
}
