//! The second home of every byte: where a stream's bytes go when their segments are to be used
//! again.
//!
//! A home takes bytes stream by stream, in order, many streams at a time; makes all it took durable
//! with one barrier; and gives ranges back, checked. `files` keeps a file per stream. The trait is
//! shaped for a second kind that packs many streams into large sorted files: it never names a file,
//! and absorbing is a group operation, so that such a home can sort and write a group as one.

pub mod files;
mod layout;
mod open_files;

use std::fmt::Debug;
use std::sync::Arc;

use highwater_disk::DiskResult;

use crate::error::LogResult;
use crate::ids::{Offset, StreamId};

/// Bytes of one stream that its home does not have yet.
#[derive(Debug)]
pub struct Absorb {
    /// The stream.
    pub stream: StreamId,
    /// Where they begin: behind what the home has.
    pub from: Offset,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Checksum of the unfinished region before `from`.
    pub region_crc: u32,
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
    /// The disk's, and final.
    fn barrier(&self) -> DiskResult<()>;

    /// Reads bytes `from..to` of a stream, checked against their checksums.
    ///
    /// # Errors
    /// [`crate::error::LogError::Damaged`] when they are not what was absorbed.
    fn read(&self, extent: Extent, from: Offset, to: Offset) -> LogResult<Arc<[u8]>>;

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
