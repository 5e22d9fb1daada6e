//! The second home of every byte: where a stream's bytes go when their segments are to be used
//! again.
//!
//! A home takes bytes stream by stream, in order, many streams at a time; makes all it took durable
//! with one barrier; and gives ranges back, checked. [`files`] keeps a file per stream.
//!
//! The trait is shaped for a second kind, which packs the bytes of many streams, sorted and side by
//! side for each, into few large files that are merged now and then; only fat streams would get a
//! file. So nothing in it names a file or knows where a byte lies:
//!
//! - [`Home::absorb`] takes a *group* of streams and may order, pack and write it as one. A group
//!   is as large as the caller can hold; what such a home would rather write in larger pieces, it
//!   keeps until the barrier.
//! - [`Home::barrier`] covers everything absorbed before, whoever's it is. That is where packed
//!   bytes, and whatever says where they are, become durable together.
//! - What a home must remember of each stream beyond its bytes is four bytes, `region_crc`, which
//!   the table keeps for it. One that checks in another way leaves them alone.
//! - [`Home::read`] may gather a range from anywhere. [`Home::lend`] is for a home whose bytes lie
//!   in a file as they are sent; it may always say no.
//! - [`Home::remove`] forgets a stream; giving its space back may wait for a merge.
//!
//! Walk: `files` (the home), `layout` (where a byte stands), `gather` (slices into writes and
//! checksums), `regions` (reading, checked), `checked` (what was checked lately), `open_files` (the
//! bound on them).

mod checked;
pub mod files;
mod gather;
mod layout;
mod open_files;
mod regions;

use std::fmt::Debug;
use std::os::fd::BorrowedFd;

use highwater_disk::DiskResult;

use crate::error::LogResult;
use crate::ids::{Offset, StreamId};
use crate::lane::Slice;
use crate::lane::segment::to_u64;
pub use layout::REGION_BYTES;
use open_files::LentFile;

/// Bytes of one stream that its home does not have yet.
#[derive(Debug)]
pub struct Absorb {
    /// The stream.
    pub stream: StreamId,
    /// Where they begin: behind what the home has.
    pub from: Offset,
    /// The bytes, in order, as they stand in the log's images.
    pub slices: Vec<Slice>,
    /// Checksum of the unfinished region before `from`.
    pub region_crc: u32,
}

impl Absorb {
    /// How many bytes they are.
    pub fn len(&self) -> u64 {
        self.slices.iter().map(|slice| to_u64(slice.bytes().len())).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slices.iter().all(|slice| slice.bytes().is_empty())
    }
}

/// What a home has of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The stream.
    pub stream: StreamId,
    /// Its first byte: 0, but for forks.
    pub start: Offset,
    /// Behind its last byte.
    pub end: Offset,
    /// Checksum of its unfinished last region.
    pub region_crc: u32,
}

impl Extent {
    fn assert_has(self, from: Offset, to: Offset) {
        let has = self.start <= from && from < to && to <= self.end;
        assert!(has, "a home is asked for what it has");
    }
}

/// Bytes of a stream that lie in a file as they are, to be sent from there. The file stays open.
#[derive(Debug)]
pub struct Lent {
    file: LentFile,
    position: u64,
    len: u64,
}

impl Lent {
    /// How many bytes they are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether none are left.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sends some of them to a socket, and goes on behind them; gives how many, or nothing where a
    /// socket that does not block takes none now.
    ///
    /// # Errors
    /// The disk's, and [`highwater_disk::ErrorKind::HungUp`].
    ///
    /// # Panics
    /// When none are left.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> DiskResult<Option<u64>> {
        assert!(self.len > 0, "nothing is left to be sent");
        let sent = self.file.file().send(socket, self.position, self.len)?;
        self.position += sent.unwrap_or(0);
        self.len -= sent.unwrap_or(0);
        Ok(sent)
    }
}

/// A home.
pub trait Home: Debug + Send + Sync {
    /// Takes the bytes of many streams; gives, for each, the checksum of its unfinished last
    /// region. Nothing is durable before [`Home::barrier`].
    ///
    /// # Errors
    /// The disk's: some of the group may have been taken, and is taken again the next time.
    fn absorb(&self, group: &[Absorb]) -> DiskResult<Vec<u32>>;

    /// Makes everything absorbed so far durable.
    ///
    /// # Errors
    /// The disk's, and final where a barrier failed.
    fn barrier(&self) -> DiskResult<()>;

    /// Says whether a barrier has failed: it may have lost what others wrote to its device, and
    /// nothing tells those who asked for no barrier then. One that is under way is not waited
    /// for: whoever asks for a barrier beside it hears of what both should have written.
    ///
    /// # Errors
    /// The barrier's, once one has failed.
    fn check(&self) -> DiskResult<()>;

    /// Fills a buffer with a stream's bytes from an offset on, checked against their checksums.
    ///
    /// # Errors
    /// [`crate::error::LogError::Damaged`] when they are not what was absorbed.
    fn read(&self, extent: Extent, from: Offset, into: &mut [u8]) -> LogResult<()>;

    /// Lends bytes `from..to` of a stream, or the first of them, to be sent from where they lie:
    /// checked lately, if not now. Nothing where they have to be read.
    ///
    /// # Errors
    /// As [`Home::read`].
    fn lend(&self, extent: Extent, from: Offset, to: Offset) -> LogResult<Option<Lent>>;

    /// Forgets a stream and gives its space back.
    ///
    /// # Errors
    /// The disk's.
    fn remove(&self, stream: StreamId) -> DiskResult<()>;

    /// Streams that it holds anything of.
    ///
    /// # Errors
    /// The disk's.
    fn streams(&self) -> DiskResult<Vec<StreamId>>;
}
