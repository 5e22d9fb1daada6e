//! Walks a lane's log frame by frame, past damage too.
//!
//! At a place without the next frame the question is the one that opening asks: does anything say
//! that the log was durable beyond? If so the range up to the next frame is damaged, and the walk
//! goes on there, without a chain and without the table, which lacks records from then on.

use std::sync::Arc;

use super::ledger::{Ledger, Line};
use super::report::RESTORE;
use super::root::{Known, Whole, section_damage};
use super::segments::{Behind, Segments, frames_from};
use super::{CheckError, CheckReport, Damage, LaneReport, Reach, Seen, TornTail, is_loss};
use crate::error::OpenError;
use crate::format::{BLOCK_BYTES, FrameContext, FrameHeader, Records, Verify};
use crate::ids::{Epoch, Lsn, SegmentNo, StreamId};
use crate::lane::segment::{self, to_u64, to_usize};
use crate::lane::staging::Identity;
use crate::metrics::RecoveryMetrics;
use crate::options::Options;
use crate::recover::{NoFrame, Reading, Replay, begins_with};
use crate::table::Table;

/// A lane to be walked.
pub(super) struct Lane<'s> {
    pub identity: Identity,
    pub known: Known,
    pub segments: Segments,
    pub see: &'s mut dyn FnMut(&Seen<'_>),
}

/// A lane that has been walked.
pub(super) struct Walked {
    pub lane: LaneReport,
    /// Its table, replayed as far as nothing was amiss.
    pub table: Table,
    /// Whether that is as far as the log goes.
    pub whole: Whole,
    pub ledger: Ledger,
    /// Streams deleted in its log: their home may still have their bytes.
    pub dead: Vec<StreamId>,
}

/// Why no further frame was read.
enum Stop {
    /// The segment has no room for another.
    Full,
    /// What stands there is not the next frame.
    NoFrame(String),
    /// The medium has lost it.
    Lost(String),
}

struct Walk<'a, 's> {
    identity: Identity,
    segments: Segments,
    see: &'s mut dyn FnMut(&Seen<'_>),
    replay: Replay<'a>,
    ledger: Ledger,
    whole: Whole,
    context: FrameContext,
    /// Everything before it was durable, as the manifest says.
    must_reach: Lsn,
    /// Everything before it was durable, as the manifest or a frame says.
    vouched_to: Lsn,
    /// Behind the last frame that holds anything of a stream.
    changed_to: Lsn,
    /// Frames that stand anywhere behind the first fault.
    behind: Option<Behind>,
    lane: LaneReport,
    report: &'a mut CheckReport,
}

/// Walks it.
pub(super) fn walk(
    lane: Lane<'_>,
    options: &Options,
    report: &mut CheckReport,
) -> Result<Walked, CheckError> {
    let Lane { identity, known, segments, see } = lane;
    let from = known.from();
    let start = known.start;
    let Known { table, whole, must_reach, .. } = known;
    let context = FrameContext {
        store_tag: identity.store.tag(),
        lane: identity.lane,
        epoch_at_least: Epoch(0),
        expected_lsn: from,
        prev_crc: start.map_or(Some(0), |start| start.prev_crc),
    };
    let next_stream = start.map_or(0, |start| start.next_stream);
    let lane = LaneReport {
        lane: identity.lane,
        replay_from: from,
        end: from,
        spares: segments.spares,
        ..LaneReport::default()
    };
    let is_new = start.is_none() && segments.by_number.is_empty();
    let mut walk = Walk {
        identity,
        segments,
        see,
        replay: Replay {
            table,
            next_stream,
            dead: Vec::new(),
            proven: Lsn(0),
            options,
            recovery: RecoveryMetrics::default(),
        },
        ledger: Ledger::default(),
        whole,
        context,
        must_reach,
        vouched_to: must_reach,
        changed_to: Lsn(0),
        behind: None,
        lane,
        report,
    };
    // A lane without any segment has been made, and never been opened to the end.
    if !is_new {
        walk.run()?;
    }
    walk.settle();
    let Walk { replay, ledger, whole, vouched_to, changed_to, mut lane, .. } = walk;
    lane.streams = replay.table.len();
    lane.is_vouched = changed_to <= vouched_to;
    Ok(Walked { lane, table: replay.table, whole, ledger, dead: replay.dead })
}

impl Walk<'_, '_> {
    fn run(&mut self) -> Result<(), CheckError> {
        let segment_bytes = self.identity.segment_bytes;
        let (mut number, _) = segment::split(self.context.expected_lsn, segment_bytes);
        loop {
            let stop = self.segment(number)?;
            self.lane.end = self.context.expected_lsn;
            let next = SegmentNo(number.0 + 1);
            let next_start = Lsn(segment::start(next, segment_bytes).0 + to_u64(BLOCK_BYTES));
            let context = FrameContext { expected_lsn: next_start, ..self.context };
            let following = self.segments.by_number.get(&next);
            if let Some(following) = following
                && begins_with(&*following.file, &context)?
            {
                self.context = context;
                number = next;
                continue;
            }
            let Some(resume) = self.judge(number, &stop)? else { return Ok(()) };
            self.context.expected_lsn = resume;
            self.context.prev_crc = None;
            (number, _) = segment::split(resume, segment_bytes);
        }
    }

    /// Reads a segment's frames from the expected position on; gives why there was no further one.
    fn segment(&mut self, number: SegmentNo) -> Result<Stop, CheckError> {
        let Some(found) = self.segments.by_number.get(&number) else {
            return Ok(Stop::Lost(format!("no file holds segment {number}")));
        };
        let (file, path) = (Arc::clone(&found.file), found.path.clone());
        self.lane.segments += 1;
        (self.see)(&Seen::Segment { lane: self.identity.lane, number, file: &path });
        let segment_bytes = self.identity.segment_bytes;
        let begin = self.context.expected_lsn.0 - segment::start(number, segment_bytes).0;
        let mut image = segment::image(segment_bytes);
        image.publish(to_usize(begin) - BLOCK_BYTES);
        let mut reading = Reading::new(&*file, image);
        while !reading.is_at_end() {
            let body_at = reading.image.published() + FrameHeader::LEN;
            let header = match reading.next(&self.context) {
                Ok(Ok(header)) => header,
                Ok(Err(NoFrame(why))) => return Ok(Stop::NoFrame(why)),
                Err(OpenError::Disk(error)) if !is_loss(&error) => return Err(error.into()),
                Err(error) => return Ok(Stop::Lost(error.to_string())),
            };
            let reader = reading.image.reader();
            let body = &reader.bytes()[body_at..][..to_usize(header.body_len.into())];
            self.frame(&header, body, &path);
            self.context = self.context.after(&header);
        }
        Ok(Stop::Full)
    }

    /// Takes a good frame in.
    fn frame(&mut self, frame: &FrameHeader, body: &[u8], path: &str) {
        self.lane.frames += 1;
        self.lane.records += u64::from(frame.record_count);
        self.lane.log_bytes += frame.frame_len();
        self.lane.epoch = frame.epoch;
        self.vouched_to = self.vouched_to.max(frame.durable_lsn);
        (self.see)(&Seen::Frame(frame));
        let offset = frame.lsn.0 % self.identity.segment_bytes;
        if let Err(what) = self.records(frame, body) {
            self.report.damage.push(Damage::serious(path, (offset, frame.frame_len()), what));
            self.whole = Whole::No;
        }
    }

    fn records(&mut self, frame: &FrameHeader, body: &[u8]) -> Result<(), String> {
        for record in Records::new(body, frame.record_count, Verify::Structure) {
            let record = record.map_err(|error| error.to_string())?;
            let fields = record.extensions().map_err(|error| error.to_string())?;
            let at = Lsn(frame.lsn.0 + to_u64(FrameHeader::LEN + record.at));
            if !record.header.kind.is_of_no_stream() {
                self.changed_to = frame.end();
            }
            (self.see)(&Seen::Record { at, record: &record, name: fields.name });
            if self.whole == Whole::Yes {
                let line = Line { at, header: &record.header, fields: &fields };
                self.ledger.enter(&line, &self.replay.table)?;
            }
        }
        if self.whole == Whole::Yes {
            self.replay.frame(frame, body).map_err(|error| match error {
                OpenError::Format { file, source } => format!("{file}: {source}"),
                error => error.to_string(),
            })?;
        }
        Ok(())
    }

    /// Tells where the snapshots of the table are not what the records say that they were made of,
    /// and which streams have one name.
    fn settle(&mut self) {
        if self.whole == Whole::No {
            return;
        }
        let table = &mut self.replay.table;
        for (stream, what) in self.ledger.settle(table) {
            let section = table.partitions().of(stream.in_lane()).sections().last();
            let place = format!("lane {}", self.identity.lane);
            let whole_lane = |what| Damage::serious(&place, (0, 0), what);
            self.report.damage.push(match section {
                Some(section) => section_damage(section, what),
                None => whole_lane(what),
            });
        }
        if let Err((one, other)) = table.index_names() {
            let what = format!("streams {one} and {other} have the same name");
            let place = format!("lane {}", self.identity.lane);
            self.report.damage.push(Damage::serious(&place, (0, 0), what));
        }
    }

    /// Judges a place without a frame: torn tail and clean end give nothing, damage gives where the
    /// walk goes on.
    fn judge(&mut self, number: SegmentNo, stop: &Stop) -> Result<Option<Lsn>, CheckError> {
        let end = self.context.expected_lsn;
        if self.behind.is_none() {
            self.behind = Some(frames_from(&self.segments, self.identity, end, self.report)?);
        }
        let found = self.behind.as_ref().expect("looked for above");
        let proof = found.durable.max(self.must_reach);
        let behind = found.frames.iter().filter(|header| header.lsn >= end);
        // Frames of an older epoch are left from what an opening has cut off.
        let of_epoch = behind.filter(|header| header.epoch >= self.context.epoch_at_least);
        let of_epoch: Vec<FrameHeader> = of_epoch.copied().collect();
        let why = match stop {
            Stop::NoFrame(_) | Stop::Full if proof <= end => {
                self.lane.torn = self.torn(number, stop, &of_epoch);
                return Ok(None);
            }
            Stop::Lost(why) | Stop::NoFrame(why) => why,
            Stop::Full => "the next segment does not begin with the next frame",
        };
        let resume = of_epoch.iter().map(|header| header.lsn).find(|lsn| *lsn > end);
        let segment_end = segment::start(SegmentNo(number.0 + 1), self.identity.segment_bytes);
        let to = resume.unwrap_or(if proof > end { proof } else { segment_end });
        let what = if proof > end {
            format!("{why}, although the log was durable to {proof}")
        } else {
            why.to_owned()
        };
        self.damaged((end, to), &what);
        self.whole = Whole::No;
        Ok(resume)
    }

    /// Notes a range of the log as damaged, file by file.
    fn damaged(&mut self, (from, to): (Lsn, Lsn), what: &str) {
        let segment_bytes = self.identity.segment_bytes;
        let block = to_u64(BLOCK_BYTES);
        let before = self.report.damage.len();
        let mut at = from;
        while at < to {
            let (number, offset) = segment::split(at, segment_bytes);
            let start = segment::start(number, segment_bytes).0;
            let offset = offset.max(block);
            let len = (to.0 - start).min(segment_bytes).saturating_sub(offset);
            let found = self.segments.by_number.get(&number);
            if let (Some(found), true) = (found, len > 0) {
                let place = (offset, len);
                self.report.damage.push(Damage::serious(&found.path, place, what.to_owned()));
            } else if found.is_none() {
                let what = format!("no file holds segment {number}: {what}");
                let dir = segment::lane_dir(self.identity.lane);
                self.report.damage.push(Damage::serious(&dir, (0, segment_bytes), what));
            }
            at = Lsn(start + segment_bytes);
        }
        if self.report.damage.len() == before {
            // The frame at the end of the range is the one that does not follow.
            let (number, offset) = segment::split(to, segment_bytes);
            let found = self.segments.by_number.get(&number);
            let dir = || segment::lane_dir(self.identity.lane);
            let file = found.map_or_else(dir, |found| found.path.clone());
            let (what, reach) = (what.to_owned(), Reach::Acknowledged);
            let advice = RESTORE;
            self.report.damage.push(Damage { file, offset, len_bytes: block, what, reach, advice });
        }
    }

    /// Finds out whether a commit was cut off at the end of the log. `of_epoch` are frames of the
    /// last epoch that stand there or behind.
    fn torn(&self, number: SegmentNo, stop: &Stop, of_epoch: &[FrameHeader]) -> Option<TornTail> {
        let end = self.context.expected_lsn;
        let segment_bytes = self.identity.segment_bytes;
        let next = SegmentNo(number.0 + 1);
        let next_start = Lsn(segment::start(next, segment_bytes).0 + to_u64(BLOCK_BYTES));
        let reach = of_epoch.iter().map(FrameHeader::end).max();
        let first = of_epoch.iter().map(|header| header.lsn).min();
        let here = Lsn(end.0 + to_u64(BLOCK_BYTES));
        let (from, to) = if let (Some(first), Some(reach)) = (first, reach) {
            // What was written to the next segment only begins there.
            (if first >= next_start { first } else { end }, reach)
        } else if self.resembles(number, end) {
            (end, here)
        } else if self.resembles(next, next_start) {
            (next_start, Lsn(next_start.0 + to_u64(BLOCK_BYTES)))
        } else {
            return None;
        };
        let (number, offset) = segment::split(from, segment_bytes);
        let why = match stop {
            Stop::NoFrame(why) if from == end => why.clone(),
            _ => "the commit ends in this segment, and its frame there is not whole".to_owned(),
        };
        let file = self.segments.by_number.get(&number)?.path.clone();
        Some(TornTail { file, offset, len_bytes: to.0 - from.0, why })
    }

    /// Whether the block at a position looks like a damaged header of a frame of that position.
    fn resembles(&self, number: SegmentNo, at: Lsn) -> bool {
        let segment_bytes = self.identity.segment_bytes;
        let Some(found) = self.segments.by_number.get(&number) else { return false };
        let offset = at.0 - segment::start(number, segment_bytes).0;
        let mut block = segment::zeroed(to_u64(BLOCK_BYTES));
        let is_read = offset < segment_bytes && found.file.read_at(&mut block, offset).is_ok();
        is_read
            && FrameHeader::decode(&block).is_err()
            && FrameHeader::resembles(&block, at, self.identity.store.tag())
    }
}
