//! The seam between the log and the machine: files, directories, clock and randomness.
//!
//! The log does all its input and output through [`Disk`] and [`File`], so that the same code runs
//! on a real file system ([`real`]) and on a simulated disk that can crash and lie ([`sim`]). What
//! each call guarantees is stated here, once; `sim` gives no more than that.
//!
//! **What is durable after what.** Bytes written to a file are durable once a later
//! [`File::sync_data`] of that file, or [`Disk::sync_all`], has returned `Ok`; those of a
//! [`File::write_durable_at`] once it has itself. A file's length is
//! durable with its bytes. A name (created, renamed, removed) is durable once a later
//! [`Disk::sync_dir`] of its directory, or `sync_all`, has returned `Ok`. Until then a crash may
//! keep any subset of it: of a write, any subset of its 512-byte sectors; of names, any subset.
//! A sector is never torn itself.
//!
//! **After an error.** A failed barrier is final: what it should have covered may be lost although
//! reads still show it, and a later barrier may succeed without it. Nobody retries one.

mod error;
mod path;
mod random;
mod read_only;
pub mod real;
pub mod sim;

use std::fmt::Debug;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

pub use error::{DiskError, DiskResult, ErrorKind};
pub use highwater_sys::buffer::AlignedBuf;
pub use highwater_sys::memory::prefer_large_pages;
pub use highwater_sys::published::{PublishedReader, PublishedWeak, PublishedWriter};
pub use read_only::ReadOnly;

/// Bytes of the smallest unit that is written whole or not at all.
pub const SECTOR_BYTES: u64 = 512;

/// Alignment of offset, length and memory that [`Access::Direct`] asks for at most, bytes.
pub const DIRECT_ALIGN: u64 = 4096;

/// A path below the root of a [`Disk`]: components of ASCII letters, digits, `-`, `_` and `.`,
/// joined by `/`, neither empty nor `.` nor `..`.
pub type PathStr = str;

/// How a file is read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Through the page cache: any offset and length.
    Buffered,
    /// Past the page cache: offset, length and memory aligned to [`DIRECT_ALIGN`]. Reads show what
    /// the device holds. A real disk that refuses direct access falls back to `Buffered`, and
    /// [`File::access`] says so.
    Direct,
}

/// What [`Disk::list`] finds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Last component of its path.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// A directory tree on one or more devices.
///
/// Every call may fail in the ways of [`ErrorKind`]; a badly formed path is
/// [`ErrorKind::BadPath`]. `LOCK` in the root is the lock's own: no call takes it or lists it, nor
/// lists names that no path can hold.
#[expect(clippy::missing_errors_doc, reason = "the kinds of failure are told once, for all calls")]
pub trait Disk: Debug + Send + Sync {
    /// Creates a file that must not exist, for reading and writing.
    fn create(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>>;

    /// Opens an existing file, for reading and writing.
    fn open(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>>;

    /// Makes a directory that must not exist; its parent must.
    fn create_dir(&self, path: &PathStr) -> DiskResult<()>;

    /// Lists a directory, sorted by name. The empty path is the root.
    fn list(&self, path: &PathStr) -> DiskResult<Vec<Entry>>;

    /// Gives a file another name in one step, replacing a file of that name. Durable only after
    /// `sync_dir` of the directories of both.
    fn rename(&self, from: &PathStr, to: &PathStr) -> DiskResult<()>;

    /// Removes a file's name. Open files stay usable.
    fn remove(&self, path: &PathStr) -> DiskResult<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &PathStr) -> DiskResult<()>;

    /// Makes everything on the device that holds this directory durable: bytes, lengths, names
    /// (`syncfs`). An error of any file's writeback since the last call is reported here.
    fn sync_all(&self, path: &PathStr) -> DiskResult<()>;

    /// Takes a lock: one holder at a time, released by drop or by the process's end. The empty path
    /// is the lock of the root; any other one a file that is there, whatever names lead to it.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`] while another holds it.
    fn lock(&self, path: &PathStr) -> DiskResult<Box<dyn Lock>>;

    /// Bytes that can still be allocated.
    fn free_bytes(&self) -> DiskResult<u64>;
}

/// A lock of a disk's root, or of a file.
pub trait Lock: Debug + Send + Sync {}

/// An open file. All calls take the file by reference and may be made from several threads.
///
/// Every call may fail in the ways of [`ErrorKind`]; a failed write has written any part of its
/// bytes.
#[expect(clippy::missing_errors_doc, reason = "the kinds of failure are told once, for all calls")]
pub trait File: Debug + Send + Sync {
    /// How it was opened, in the end.
    fn access(&self) -> Access;

    /// Writes all bytes at an offset, growing the file if need be. Not durable.
    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()>;

    /// Writes all bytes at an offset; they are durable when this returns `Ok`, with all that is
    /// needed to read them. No other bytes are: it is a barrier for its own write alone.
    ///
    /// # Errors
    /// As a write's and a barrier's, and final as a barrier's: of its bytes any part may be there,
    /// although reads show all of them. [`ErrorKind::Unsupported`] where there is no such call.
    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> DiskResult<()>;

    /// Fills the buffer from an offset.
    ///
    /// # Errors
    /// [`ErrorKind::EndOfFile`] when the file ends before; the buffer's content is then undefined.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> DiskResult<()>;

    /// Sends bytes from an offset to a socket, without a copy where the system can; gives how many,
    /// one at least, or nothing where a socket that does not block takes none now. What is sent is
    /// what reads would show.
    ///
    /// # Errors
    /// As [`File::read_at`]; [`ErrorKind::HungUp`] when the other end is gone.
    fn send(&self, socket: BorrowedFd<'_>, offset: u64, len: u64) -> DiskResult<Option<u64>> {
        real::send_copy(self, socket, offset, len)
    }

    /// Makes all bytes written before this call, and the length, durable.
    fn sync_data(&self) -> DiskResult<()>;

    /// Reserves space up to a length, so that writes below it do not fail for lack of space, and
    /// sets the length if it was shorter.
    fn allocate(&self, len: u64) -> DiskResult<()>;

    /// Length, bytes.
    fn len(&self) -> DiskResult<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> DiskResult<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file to a length, or grows it with zeros. Durable after `sync_data`.
    fn truncate(&self, len: u64) -> DiskResult<()>;
}

/// Time.
pub trait Clock: Debug + Send + Sync {
    /// Time since an arbitrary fixed moment; never goes back.
    fn monotonic(&self) -> Duration;

    /// Time since 1970, UTC; may jump.
    fn wall(&self) -> Duration;
}

/// Randomness that need not be secret.
pub trait Rng: Debug + Send {
    /// The next 64 bits.
    fn next_u64(&mut self) -> u64;
}
