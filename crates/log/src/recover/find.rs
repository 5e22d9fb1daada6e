//! Finds a lane's segment files, and tells those of its log from those that are free.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use highwater_disk::{Access, Clock, Disk, DiskResult, File};

use crate::error::OpenError;
use crate::format::{BLOCK_BYTES, FormatError, FrameHeader, SegmentHeader, Structure};
use crate::ids::{Epoch, LaneId, SegmentNo};
use crate::lane::segment::{self, FileNo, Segment, Spare, to_u64};
use crate::lane::staging::Identity;

/// A segment file found in a lane's directory.
pub(super) struct Found {
    pub file_no: FileNo,
    pub file: Arc<dyn File>,
    /// Its header; absent for a file that is part of no log yet.
    pub header: Option<SegmentHeader>,
    /// Why something that is no header stands in its place.
    pub unreadable: Option<FormatError>,
}

/// Reads the headers of all segment files of a lane.
pub(super) fn find_segments(disk: &dyn Disk, identity: Identity) -> Result<Vec<Found>, OpenError> {
    let dir = segment::lane_dir(identity.lane);
    // A process that was killed may have left a name that only the kernel has.
    disk.sync_dir(&dir)?;
    let mut found = Vec::new();
    for entry in disk.list(&dir)? {
        let Some(file_no) = segment::file_no_of(&entry.name) else { continue };
        let path = segment::path(identity.lane, file_no);
        let file = disk.open(&path, Access::Direct)?;
        // What the page cache shows is only trusted once the device has it.
        file.sync_data()?;
        let len = file.len()?;
        let mut block = segment::zeroed(to_u64(BLOCK_BYTES));
        if len >= to_u64(BLOCK_BYTES) {
            file.read_at(&mut block, 0)?;
        }
        let is_blank = block.iter().all(|byte| *byte == 0);
        if len < identity.segment_bytes && !is_blank {
            let (structure, needed) = (Structure::Segment, identity.segment_bytes);
            let source = FormatError::WrongLength { structure, needed, got: len };
            return Err(OpenError::Format { file: path, source });
        }
        if len < identity.segment_bytes {
            // Its making was cut short: it has no header, and was never part of the log.
            disk.remove(&path)?;
            continue;
        }
        let decoded = SegmentHeader::decode(&block);
        let unreadable = decoded.clone().err().filter(|_| !is_blank);
        let header = decoded.ok().filter(|header| is_part_of(header, identity));
        found.push(Found { file_no, file, header, unreadable });
    }
    Ok(found)
}

/// Whether a segment is one of a lane's log.
pub(crate) fn is_part_of(header: &SegmentHeader, identity: Identity) -> bool {
    header.store_id == identity.store
        && header.lane == identity.lane
        && header.segment_bytes == identity.segment_bytes
}

/// Whether a segment's first frame is of a later use than its header: then the header that was
/// written when it was used again never reached the device.
///
/// # Errors
/// The disk's: what cannot be read proves nothing either way.
pub(crate) fn is_outrun(file: &dyn File, header: &SegmentHeader) -> DiskResult<bool> {
    let mut block = segment::zeroed(to_u64(BLOCK_BYTES));
    file.read_at(&mut block, to_u64(BLOCK_BYTES))?;
    Ok(FrameHeader::decode(&block).is_ok_and(|frame| {
        let is_ours = frame.lane == header.lane && frame.store_tag == header.store_id.tag();
        is_ours && segment::split(frame.lsn, header.segment_bytes).0 > header.segno
    }))
}

/// Segments by number.
pub(super) type ByNumber = BTreeMap<SegmentNo, (SegmentHeader, Found)>;

/// Sorts segments by number; the rest has no header, or one that a newer epoch has replaced.
pub(super) fn by_number(found: Vec<Found>) -> (ByNumber, Vec<Found>) {
    let mut by_number = ByNumber::new();
    let mut rest = Vec::new();
    for found in found {
        let Some(header) = found.header else {
            rest.push(found);
            continue;
        };
        match by_number.get(&header.segno) {
            Some((other, _)) if other.epoch >= header.epoch => rest.push(found),
            _ => rest.extend(by_number.insert(header.segno, (header, found)).map(|(_, old)| old)),
        }
    }
    (by_number, rest)
}

/// Files that no segment of the log uses. Those behind the log's end come first, and in order: each
/// becomes the very segment that its stale header names, so that no number is there twice. Those
/// given back before the log was closed come last.
pub(super) fn spares(
    by_number: ByNumber,
    headless: Vec<Found>,
    segments: &VecDeque<Segment>,
) -> VecDeque<Spare> {
    let last = segments.back().map(|segment| segment.number);
    let is_used = |number: &SegmentNo| segments.iter().any(|segment| segment.number == *number);
    let unused = by_number.into_iter().filter(|(number, _)| !is_used(number));
    // Those before the log's beginning were to be used again when the log was closed.
    let (behind, before): (Vec<_>, Vec<_>) = unused.partition(|(number, _)| Some(*number) > last);
    let behind = behind.into_iter().chain(before).map(|(_, (_, found))| found);
    let spare = |found: Found| Spare { file_no: found.file_no, file: found.file };
    behind.chain(headless).map(spare).collect()
}

/// A lane without a segment is new, unless a file there had a header once (I6).
pub(super) fn refuse_lost(headless: &[Found], lane: LaneId) -> Result<(), OpenError> {
    for found in headless {
        if let Some(source) = &found.unreadable {
            let file = segment::path(lane, found.file_no);
            return Err(OpenError::Format { file, source: source.clone() });
        }
    }
    Ok(())
}

/// Makes a new lane's first segment.
pub(super) fn make_first(
    disk: &dyn Disk,
    clock: &dyn Clock,
    identity: Identity,
    file_no: FileNo,
) -> Result<(SegmentHeader, Found), OpenError> {
    let (lane, segment_bytes) = (identity.lane, identity.segment_bytes);
    let file = segment::make_file(disk, lane, file_no, segment_bytes, Access::Direct)?;
    let header = SegmentHeader {
        store_id: identity.store,
        lane,
        epoch: Epoch(0),
        segno: SegmentNo(0),
        segment_bytes,
        time_ms: u64::try_from(clock.wall().as_millis()).unwrap_or(u64::MAX),
    };
    segment::write_header(&*file, &header)?;
    Ok((header, Found { file_no, file, header: Some(header), unreadable: None }))
}
