//! Segment files and their images in memory.
//!
//! A segment is made once: reserved, written with zeros, synced, its directory synced. After that
//! it is only written in place. Its image holds the same bytes in memory: batches are built in it,
//! written from it, and read from it until their streams' home has them.

use std::sync::Arc;

use highwater_disk::{Access, Disk, DiskError, DiskResult, File, PublishedReader, PublishedWriter};

use crate::format::{BLOCK_BYTES, SegmentHeader};
use crate::ids::{LaneId, Lsn, SegmentNo};

/// Zeros are written in chunks of this many bytes.
const ZERO_CHUNK_BYTES: u64 = 1 << 20;

/// Number of a segment's file; the file is used again for later segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileNo(pub u64);

/// A segment that is part of the log.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Which part of the log.
    pub number: SegmentNo,
    /// Its file's number.
    pub file_no: FileNo,
    /// Its file.
    pub file: Arc<dyn File>,
    /// Its bytes, as far as frames are sealed.
    pub image: PublishedReader,
    /// Checksum of the last frame's header before it.
    pub prev_crc: u32,
}

/// A file that is part of no log: made, and not used, or used by what was never acknowledged.
#[derive(Debug, Clone)]
pub struct Spare {
    /// Its number.
    pub file_no: FileNo,
    /// The file.
    pub file: Arc<dyn File>,
}

/// Path of a lane's directory.
pub fn lane_dir(lane: LaneId) -> String {
    format!("wal/{lane}")
}

/// Path of a segment's file.
pub fn path(lane: LaneId, file_no: FileNo) -> String {
    format!("{}/{}.seg", lane_dir(lane), file_no.0)
}

/// Number of a segment's file, from its name.
pub fn file_no_of(name: &str) -> Option<FileNo> {
    name.strip_suffix(".seg")?.parse().ok().map(FileNo)
}

/// Makes a segment's file: initialised, durable, and without a header, so that it is part of no
/// log.
///
/// # Errors
/// Any of the disk's; the file is then removed as far as that is possible.
pub fn make_file(
    disk: &dyn Disk,
    lane: LaneId,
    file_no: FileNo,
    segment_bytes: u64,
    access: Access,
) -> DiskResult<Arc<dyn File>> {
    let path = path(lane, file_no);
    let file = disk.create(&path, access)?;
    let filled = fill(&*file, segment_bytes).and_then(|()| disk.sync_dir(&lane_dir(lane)));
    if let Err(error) = filled {
        // What cannot be removed now has no header, and is found and removed at the next opening.
        disk.remove(&path).ok();
        return Err(error);
    }
    Ok(file)
}

/// Whether the barrier of a directory failed: the names of other new files may be lost, although
/// their own barrier succeeds after it.
pub fn lost_names(error: &DiskError) -> bool {
    error.is_barrier() && error.operation == "sync_dir"
}

/// Initialises a file: writes all of it with zeros, and waits until they are durable.
///
/// # Errors
/// Any of the disk's.
pub fn fill(file: &dyn File, len: u64) -> DiskResult<()> {
    file.allocate(len)?;
    let chunk_bytes = ZERO_CHUNK_BYTES.min(len);
    let zeros = zeroed(chunk_bytes);
    let mut at = 0;
    while at < len {
        let len = chunk_bytes.min(len - at);
        file.write_at(&zeros[..to_usize(len)], at)?;
        at += len;
    }
    file.sync_data()
}

/// Makes a file the next segment of its lane: its header is durable when this returns, so that
/// frames written to it can be found.
///
/// # Errors
/// Any of the disk's.
pub fn write_header(file: &dyn File, header: &SegmentHeader) -> DiskResult<()> {
    let mut block = zeroed(to_u64(BLOCK_BYTES));
    block.copy_from_slice(&header.encode()[..]);
    file.write_at(&block, 0)?;
    file.sync_data()
}

/// Makes an empty image of a segment, its header's block left out of sight.
pub fn image(segment_bytes: u64) -> PublishedWriter {
    let mut image = PublishedWriter::new(to_usize(segment_bytes), BLOCK_BYTES);
    image.publish(BLOCK_BYTES);
    image
}

/// Memory that direct access accepts.
pub fn zeroed(len: u64) -> highwater_disk::AlignedBuf {
    highwater_disk::AlignedBuf::zeroed(to_usize(len), BLOCK_BYTES)
}

/// Splits a position into segment and offset.
pub fn split(lsn: Lsn, segment_bytes: u64) -> (SegmentNo, u64) {
    (SegmentNo(lsn.0 / segment_bytes), lsn.0 % segment_bytes)
}

/// First position of a segment: its header's.
pub fn start(number: SegmentNo, segment_bytes: u64) -> Lsn {
    Lsn(number.0 * segment_bytes)
}

/// Turns a length into an index.
pub fn to_usize(value: u64) -> usize {
    usize::try_from(value).expect("this program needs 64-bit addresses")
}

/// Turns an index into a length.
pub fn to_u64(value: usize) -> u64 {
    u64::try_from(value).expect("usize fits u64")
}
