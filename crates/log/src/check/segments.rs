//! The segment files of a lane: which hold its log, which wait to be used, which are not right.

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater_disk::{Access, Disk, ErrorKind, File, ReadOnly};

use super::{CheckError, CheckReport, Damage, Leftover, Reach, is_loss};
use crate::error::OpenError;
use crate::format::{BLOCK_BYTES, FrameHeader, Label, SegmentHeader};
use crate::ids::{Epoch, Lsn, SegmentNo};
use crate::lane::segment::{self, to_u64};
use crate::lane::staging::Identity;
use crate::recover::{Stands, Stretch, headers, is_outrun, is_part_of};
use crate::write_path::SCRATCH;

/// Bytes read at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// A segment's file.
pub(super) struct SegmentFile {
    pub path: String,
    pub file: Arc<dyn File>,
    epoch: Epoch,
}

/// The files of a lane.
#[derive(Default)]
pub(super) struct Segments {
    /// Those that may hold its log, by number.
    pub by_number: BTreeMap<SegmentNo, SegmentFile>,
    /// Files that wait to be used.
    pub spares: u64,
}

/// Looks at all files of a lane. Replay starts at `from`.
pub(super) fn survey(
    disk: &ReadOnly,
    identity: Identity,
    from: Lsn,
    report: &mut CheckReport,
) -> Result<Segments, CheckError> {
    let dir = segment::lane_dir(identity.lane);
    let (first, _) = segment::split(from, identity.segment_bytes);
    let entries = match disk.list(&dir) {
        Err(error) if error.kind == ErrorKind::NotFound => {
            let what = "the directory of the lane's segments is missing".to_owned();
            report.damage.push(Damage::serious(&dir, (0, 0), what));
            return Ok(Segments::default());
        }
        listed => listed?,
    };
    let mut segments = Segments::default();
    for entry in entries {
        let path = format!("{dir}/{}", entry.name);
        if entry.name == Label::NAME {
            continue;
        }
        if segment::file_no_of(&entry.name).is_none() || entry.is_dir {
            let what = match entry.name.as_str() {
                SCRATCH => "a measurement that was cut short; the next opening removes it",
                _ => "not a segment; left alone",
            };
            report.leftovers.push(Leftover { file: path, what });
            continue;
        }
        let file = disk.open(&path, Access::Direct)?;
        if file.len()? < identity.segment_bytes {
            let what = "a segment whose making was cut short; the next opening removes it";
            report.leftovers.push(Leftover { file: path, what });
            continue;
        }
        match number(&*file, &path, (identity, first), report)? {
            Some((number, epoch)) if number >= first => {
                add(&mut segments, number, SegmentFile { path, file, epoch }, report);
            }
            _ => segments.spares += 1,
        }
    }
    Ok(segments)
}

/// Adds a file; of two of one number that of the newer epoch counts.
fn add(segments: &mut Segments, number: SegmentNo, found: SegmentFile, report: &mut CheckReport) {
    let Some(other) = segments.by_number.get(&number) else {
        segments.by_number.insert(number, found);
        return;
    };
    if other.epoch == found.epoch {
        report.damage.push(Damage {
            file: found.path,
            offset: 0,
            len_bytes: to_u64(BLOCK_BYTES),
            what: format!("segment {number} of epoch {} is {} already", found.epoch, other.path),
            reach: Reach::Acknowledged,
            advice: "find out which of the two files a copy brought in, and move it away",
        });
        return;
    }
    segments.spares += 1;
    if found.epoch > other.epoch {
        segments.by_number.insert(number, found);
    }
}

/// Finds which part of the log a file holds, from its header or else from its frames.
fn number(
    file: &dyn File,
    path: &str,
    (identity, first): (Identity, SegmentNo),
    report: &mut CheckReport,
) -> Result<Option<(SegmentNo, Epoch)>, CheckError> {
    let mut block = segment::zeroed(to_u64(BLOCK_BYTES));
    let error = match file.read_at(&mut block, 0) {
        Err(error) if is_loss(&error) => error.to_string(),
        Err(error) => return Err(error.into()),
        // Made, and used by no segment yet.
        Ok(()) if block.iter().all(|byte| *byte == 0) => String::new(),
        Ok(()) => match SegmentHeader::decode(&block) {
            Ok(header) if is_part_of(&header, identity) => {
                let is_outrun =
                    if header.segno < first { is_outrun(file, &header) } else { Ok(false) };
                match is_outrun {
                    Ok(false) => return Ok(Some((header.segno, header.epoch))),
                    Ok(true) => {
                        format!("the header is of an earlier use, segment {}", header.segno)
                    }
                    Err(error) if is_loss(&error) => error.to_string(),
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(header) => {
                report.damage.push(foreign(path, &header));
                return Ok(None);
            }
            Err(error) => error.to_string(),
        },
    };
    let found = number_from_frames(file, identity)?;
    let found = found.filter(|(number, _)| *number >= first);
    let what = match (&found, error.is_empty()) {
        (None, true) => return Ok(None),
        (_, true) => "the segment's header is zero, and frames stand behind it".to_owned(),
        (_, false) => error,
    };
    let block = (0, to_u64(BLOCK_BYTES));
    report.damage.push(match found {
        Some((number, _)) => Damage::serious(
            path,
            block,
            format!("{what}; its frames are those of segment {number}"),
        ),
        None => Damage {
            reach: Reach::Nothing,
            advice: "nothing: no part of the log is in it, and opening uses the file again",
            ..Damage::serious(path, block, what)
        },
    });
    Ok(found)
}

/// A frame knows its place, and so its segment.
fn number_from_frames(
    file: &dyn File,
    identity: Identity,
) -> Result<Option<(SegmentNo, Epoch)>, CheckError> {
    let mut chunk = segment::zeroed(CHUNK_BYTES.min(identity.segment_bytes));
    let mut newest = None;
    for start in (0..identity.segment_bytes).step_by(chunk.len()) {
        let len = to_u64(chunk.len()).min(identity.segment_bytes - start);
        let bytes = &mut chunk[..segment::to_usize(len)];
        match file.read_at(bytes, start) {
            Err(error) if is_loss(&error) => continue,
            read => read?,
        }
        for (block, at) in bytes.chunks_exact(BLOCK_BYTES).zip((start..).step_by(BLOCK_BYTES)) {
            let Ok(header) = FrameHeader::decode(block) else { continue };
            let (number, offset) = segment::split(header.lsn, identity.segment_bytes);
            if is_of(&header, identity) && offset == at {
                newest = newest.max(Some((number, header.epoch)));
            }
        }
    }
    Ok(newest)
}

fn is_of(header: &FrameHeader, identity: Identity) -> bool {
    header.lane == identity.lane && header.store_tag == identity.store.tag()
}

fn foreign(path: &str, header: &SegmentHeader) -> Damage {
    Damage {
        file: path.to_owned(),
        offset: 0,
        len_bytes: header.segment_bytes,
        what: format!(
            "a segment of store {:016x}, lane {}, {} bytes: not of this lane",
            header.store_id.tag(),
            header.lane,
            header.segment_bytes
        ),
        reach: Reach::Nothing,
        advice: "move the file away: opening would take it for a spare segment and write over it",
    }
}

/// What stands in the segments from a position on.
#[derive(Default)]
pub(super) struct Behind {
    /// Headers of the frames that stand at their own place.
    pub frames: Vec<FrameHeader>,
    /// How far the log was durable, as any frame says, wherever it stands.
    pub durable: Lsn,
}

/// Collects what frames say from a position on.
pub(super) fn frames_from(
    segments: &Segments,
    identity: Identity,
    from: Lsn,
    report: &mut CheckReport,
) -> Result<Behind, CheckError> {
    let (first, _) = segment::split(from, identity.segment_bytes);
    let mut behind = Behind::default();
    for (number, found) in segments.by_number.range(first..) {
        let stretch = Stretch {
            file: &*found.file,
            start: Some(segment::start(*number, identity.segment_bytes)),
            segment_bytes: identity.segment_bytes,
            from,
        };
        let read = headers(&stretch, |header, stands| {
            if is_of(&header, identity) {
                behind.durable = behind.durable.max(header.durable_lsn);
                behind.frames.extend((stands == Stands::AtHome).then_some(header));
            }
            Ok(())
        });
        match read {
            Ok(()) => {}
            Err(OpenError::Disk(error)) if is_loss(&error) => {
                let whole = (0, identity.segment_bytes);
                report.damage.push(Damage::serious(&found.path, whole, error.to_string()));
            }
            Err(OpenError::Disk(error)) => return Err(error.into()),
            Err(other) => unreachable!("the visitor refuses nothing: {other}"),
        }
    }
    Ok(behind)
}
