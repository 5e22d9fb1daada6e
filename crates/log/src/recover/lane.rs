//! Opens a lane: reads its segments, replays them into the table, begins a new epoch.

use std::collections::VecDeque;
use std::sync::Arc;

use highwater_disk::{DiskResult, File, PublishedWriter};

use super::find::{
    ByNumber, Found, by_number, find_segments, is_outrun, make_first, refuse_lost, spares,
};
use super::scan::{Bad, NoFrame, Reading, Stretch, judge};
use super::table::{Known, load};
use crate::catalog::Catalog;
use crate::error::OpenError;
use crate::format::{
    BLOCK_BYTES, FormatError, FrameContext, FrameHeader, RecordKind, Records, Structure, Verify,
};
use crate::ids::{Epoch, LaneId, Lsn, SegmentNo, StreamId};
use crate::lane::apply::{Effect, apply};
use crate::lane::segment::{self, FileNo, Segment, to_u64, to_usize};
use crate::lane::staging::{Identity, Resume, Staging};
use crate::lane::{Around, Lane, Parts};
use crate::metrics::{Laps, RecoveryMetrics};
use crate::options::Options;
use crate::table::slot::{Flags, Position, Slot};
use crate::table::{SlotNo, Table};
use crate::write_path::{Chosen, settle};

/// What replaying gives.
struct Replayed {
    table: Table,
    next_stream: u64,
    segments: VecDeque<Segment>,
    /// Image of the last segment, to go on in.
    image: PublishedWriter,
    context: FrameContext,
    unabsorbed: Vec<SlotNo>,
    dead: Vec<StreamId>,
    recovery: RecoveryMetrics,
}

/// Opens a lane.
///
/// # Errors
/// [`OpenError::Damaged`] when acknowledged bytes cannot be read, and the disk's.
pub(crate) fn open_lane(
    around: &Around,
    catalog: &Catalog,
    options: &Options,
    identity: Identity,
) -> Result<Arc<Lane>, OpenError> {
    let (disk, clock) = (&around.disk, &around.clock);
    let mut laps = Laps::new(&**clock);
    let known = load(catalog, identity.lane, options)?;
    let table = laps.lap();
    #[cfg(feature = "planted")]
    let known = super::planted::unhide(super::planted::forget_producers(known, options), options);
    let found = find_segments(&**disk, identity)?;
    let next_file = found.iter().map(|found| found.file_no.0 + 1).max().unwrap_or(0);
    let (mut by_number, headless) = by_number(found);
    let mut next_file = FileNo(next_file);
    if by_number.is_empty() && known.start.is_none() {
        refuse_lost(&headless, identity.lane)?;
        let first = make_first(&**disk, &**clock, identity, next_file)?;
        next_file = FileNo(next_file.0 + 1);
        by_number.insert(SegmentNo(0), first);
    }
    let find = laps.lap();
    let replayed = replay(&by_number, &headless, known, options, identity)?;
    let recovery = RecoveryMetrics { table, find, replay: laps.lap(), ..replayed.recovery };
    // A segment is activated before its first frame: an opening whose frames are all lost has left
    // its epoch there, and no epoch may be used twice (I9).
    let activated = by_number.values().map(|(header, _)| header.epoch).max().unwrap_or_default();
    let epoch = Epoch(replayed.context.epoch_at_least.max(activated).0 + 1);
    let spares = spares(by_number, headless, &replayed.segments);
    // The log has been judged: from here on something may be changed.
    let write_path = settle(around, options, identity.lane, &replayed.segments)?;
    let mut parts = resume(identity, replayed, epoch, next_file);
    parts.spares = spares;
    parts.recovery = recovery;
    parts.write_along(write_path, &**disk, identity.lane)?;
    #[cfg(feature = "planted")]
    super::planted::use_all(&mut parts.table, options, &**clock);
    let lane = Lane::new(identity, options.clone(), around.clone(), parts);
    let lane = Arc::new(lane);
    // The epoch's first frame is durable before anybody may append (I9).
    lane.start_epoch().map_err(|error| OpenError::Settings(error.to_string()))?;
    lane.commit_step();
    lane.sync_segments().map_err(|error| OpenError::Settings(error.to_string()))?;
    lane.check().map_err(|error| OpenError::Settings(error.to_string()))?;
    lane.note_epoch_begun(laps.lap());
    Ok(lane)
}

/// Reads all frames in order, and applies their records.
fn replay(
    by_number: &ByNumber,
    headless: &[Found],
    known: Known,
    options: &Options,
    identity: Identity,
) -> Result<Replayed, OpenError> {
    let segment_bytes = identity.segment_bytes;
    let from = known.start.map_or(Lsn(to_u64(BLOCK_BYTES)), |start| start.replay_from);
    let (first, _) = segment::split(from, segment_bytes);
    if !by_number.contains_key(&first) {
        return Err(OpenError::Damaged {
            lane: identity.lane,
            from,
            durable: known.must_reach.max(from),
            why: "its segment is missing".to_owned(),
        });
    }
    let mut context = FrameContext {
        store_tag: identity.store.tag(),
        lane: identity.lane,
        epoch_at_least: Epoch(0),
        expected_lsn: from,
        prev_crc: known.start.map_or(Some(0), |start| start.prev_crc),
    };
    let next_stream = known.start.map_or(0, |start| start.next_stream);
    let Known { table, must_reach, .. } = known;
    let recovery = RecoveryMetrics::default();
    let mut replay =
        Replay { table, next_stream, dead: Vec::new(), proven: Lsn(0), options, recovery };
    let mut segments = VecDeque::new();
    let mut number = first;
    loop {
        let (_, found) = &by_number[&number];
        let mut reading = Reading::new(&*found.file, segment::image(segment_bytes));
        let prev_crc = context.prev_crc.unwrap_or(0);
        let bad = replay.segment(&mut reading, &mut context)?;
        #[cfg(feature = "planted")]
        super::planted::take_stale(&mut context, options);
        let next = SegmentNo(number.0 + 1);
        let end = context.expected_lsn;
        let next_start = Lsn(segment::start(next, segment_bytes).0 + to_u64(BLOCK_BYTES));
        // The log goes on in the next segment when that one begins with the next frame: the last
        // frames of a segment leave less room than the next one needed.
        let first_of_next = FrameContext { expected_lsn: next_start, ..context };
        let goes_on = goes_on_in(next, by_number, &first_of_next)?;
        let why = bad.map_or_else(|| "the log ends there".to_owned(), |NoFrame(why)| why);
        if !goes_on {
            let store_tag = identity.store.tag();
            let bad = Bad { lane: identity.lane, store_tag, at: end, why: &why };
            #[cfg(feature = "planted")]
            let bad = super::planted::without_evidence(bad, options);
            judge_from(number, by_number, headless, (segment_bytes, &bad))?;
        }
        let image = reading.into_image();
        let segment = Segment {
            number,
            file_no: found.file_no,
            file: Arc::clone(&found.file),
            image: image.reader(),
            prev_crc,
        };
        segments.push_back(segment);
        if !goes_on {
            // I5: everything that was durable when the table was written has to be there.
            if end < must_reach {
                let (lane, durable) = (identity.lane, must_reach);
                return Err(OpenError::Damaged { lane, from: end, durable, why });
            }
            index_names(&mut replay.table, identity.lane)?;
            write_again(&segments, replay.proven.max(must_reach), segment_bytes)?;
            return Ok(replay.finish(segments, image, context));
        }
        context.expected_lsn = next_start;
        number = next;
    }
}

/// Looks for proof that a place where no frame could be read is no end: in its segment and in every
/// later one, since one batch may have filled several; a file whose header is lost, or the one of
/// its last use, may be any.
fn judge_from(
    number: SegmentNo,
    by_number: &ByNumber,
    headless: &[Found],
    (segment_bytes, bad): (u64, &Bad<'_>),
) -> Result<(), OpenError> {
    for (number, (_, found)) in by_number.range(number..) {
        let start = Some(segment::start(*number, segment_bytes));
        judge(&Stretch { file: &*found.file, start, segment_bytes, from: bad.at }, bad)?;
    }
    for (header, found) in by_number.range(..number).map(|(_, segment)| segment) {
        if is_outrun(&*found.file, header)? {
            let file = &*found.file;
            judge(&Stretch { file, start: None, segment_bytes, from: bad.at }, bad)?;
        }
    }
    for found in headless {
        judge(&Stretch { file: &*found.file, start: None, segment_bytes, from: bad.at }, bad)?;
    }
    Ok(())
}

/// Writes again, from its image, what no frame says to be durable, and waits for the barrier. After
/// a failed barrier the page cache may show bytes that the device does not have and that no later
/// barrier would write; nobody acknowledged them then, but from now on readers see them.
fn write_again(
    segments: &VecDeque<Segment>,
    proven: Lsn,
    segment_bytes: u64,
) -> Result<(), OpenError> {
    for segment in segments {
        let start = segment::start(segment.number, segment_bytes);
        if proven.0 <= start.0 + to_u64(BLOCK_BYTES) {
            let mut header = segment::zeroed(to_u64(BLOCK_BYTES));
            segment.file.read_at(&mut header, 0)?;
            segment.file.write_at(&header, 0)?;
            segment.file.sync_data()?;
        }
        let from = proven.0.saturating_sub(start.0).max(to_u64(BLOCK_BYTES));
        if let Some(bytes) = segment.image.bytes().get(to_usize(from)..)
            && !bytes.is_empty()
        {
            segment.file.write_at(bytes, from)?;
            segment.file.sync_data()?;
        }
    }
    Ok(())
}

/// Whether the log goes on in this segment.
fn goes_on_in(next: SegmentNo, all: &ByNumber, context: &FrameContext) -> DiskResult<bool> {
    all.get(&next).map_or(Ok(false), |(_, found)| begins_with(&*found.file, context))
}

/// Whether a segment's first frame is the one that has to come next.
///
/// # Errors
/// The disk's: what cannot be read is no end of the log.
pub(crate) fn begins_with(file: &dyn File, context: &FrameContext) -> DiskResult<bool> {
    let mut block = segment::zeroed(to_u64(BLOCK_BYTES));
    file.read_at(&mut block, to_u64(BLOCK_BYTES))?;
    Ok(FrameHeader::decode(&block).is_ok_and(|header| context.judge(&header).is_ok()))
}

/// A replay under way.
pub(crate) struct Replay<'a> {
    pub table: Table,
    pub next_stream: u64,
    /// Streams deleted in what is replayed: their home may still have their bytes.
    pub dead: Vec<StreamId>,
    /// Everything before it is durable, as frames say.
    pub proven: Lsn,
    pub options: &'a Options,
    /// What was replayed.
    pub recovery: RecoveryMetrics,
}

impl Replay<'_> {
    /// Ends it where the log ends.
    fn finish(
        self,
        segments: VecDeque<Segment>,
        image: PublishedWriter,
        context: FrameContext,
    ) -> Replayed {
        let Self { mut table, next_stream, dead, recovery, .. } = self;
        let unabsorbed = list_unabsorbed(&mut table);
        Replayed { table, next_stream, segments, image, context, unabsorbed, dead, recovery }
    }

    /// Applies a segment's frames; gives why there was no further one, unless the segment is full.
    fn segment(
        &mut self,
        reading: &mut Reading<'_>,
        context: &mut FrameContext,
    ) -> Result<Option<NoFrame>, OpenError> {
        while !reading.is_at_end() {
            #[cfg(feature = "planted")]
            super::planted::take_stale(context, self.options);
            let start = reading.image.published();
            let header = match reading.next(context)? {
                Ok(header) => header,
                Err(no_frame) => return Ok(Some(no_frame)),
            };
            let reader = reading.image.reader();
            let body_at = start + FrameHeader::LEN;
            let body = &reader.bytes()[body_at..body_at + to_usize(header.body_len.into())];
            self.frame(&header, body)?;
            self.recovery.frames += 1;
            self.recovery.records += u64::from(header.record_count);
            self.recovery.bytes += header.frame_len();
            self.proven = self.proven.max(header.durable_lsn);
            *context = context.after(&header);
        }
        Ok(None)
    }

    /// Applies a frame's records.
    ///
    /// # Errors
    /// When one does not fit the table.
    pub fn frame(&mut self, frame: &FrameHeader, body: &[u8]) -> Result<(), OpenError> {
        let damaged = |source| OpenError::Format {
            file: format!("frame at {} of lane {}", frame.lsn, frame.lane),
            source,
        };
        for record in Records::new(body, frame.record_count, Verify::Payloads) {
            let record = record.map_err(damaged)?;
            let fields = record.extensions().map_err(damaged)?;
            let at = Lsn(frame.lsn.0 + to_u64(FrameHeader::LEN + record.at));
            let max_producers = self.options.max_producers;
            let header = &record.header;
            if header.kind == RecordKind::Touch && planted!(self.options, UsesForgotten) {
                continue;
            }
            if header.kind.is_of_no_stream() {
                continue;
            }
            self.next_stream = self.next_stream.max(header.stream.in_lane() + 1);
            if header.kind == RecordKind::Delete {
                self.dead.push(header.stream);
            }
            if at < self.table.stamp(header.stream) {
                self.relink(at, header.stream);
                continue;
            }
            let effect = Effect { at, header, fields: &fields, max_producers };
            if let Some(slot) = apply(&mut self.table, &effect)? {
                publish(&mut self.table, slot);
            }
        }
        Ok(())
    }

    /// A record that the table has already: its place in the log is all that is learnt from it.
    fn relink(&mut self, at: Lsn, stream: StreamId) {
        if let Some(slot) = self.table.by_id(stream) {
            let slot = self.table.slot_mut(slot);
            slot.last = Some(Position::new(at));
            slot.last_durable = slot.last;
        }
    }
}

/// Lets streams be found by name, now that all are as of one moment.
fn index_names(table: &mut Table, lane: LaneId) -> Result<(), OpenError> {
    table.index_names().map_err(|(one, other)| OpenError::Format {
        file: format!("table of lane {lane}, streams {one} and {other}"),
        source: FormatError::Misfit { structure: Structure::SnapshotEntry, field: "name" },
    })
}

/// Lists the streams whose home lacks bytes.
fn list_unabsorbed(table: &mut Table) -> Vec<SlotNo> {
    let lacking = |(at, slot): (SlotNo, &Slot)| (slot.durable > slot.absorbed).then_some(at);
    let list: Vec<SlotNo> = table.iter().filter_map(lacking).collect();
    for at in &list {
        table.slot_mut(*at).flags.set(Flags::UNABSORBED);
    }
    list
}

/// What was replayed is durable.
fn publish(table: &mut Table, at: SlotNo) {
    let slot = table.slot_mut(at);
    slot.durable = slot.tail;
    slot.last_durable = slot.last;
    slot.flags.set(Flags::VISIBLE);
    if slot.flags.has(Flags::CLOSED) {
        slot.flags.set(Flags::CLOSED_VISIBLE);
    }
}

/// Goes on right behind the last good frame, in a new epoch: whatever else stands there belongs to
/// an older one from now on.
fn resume(identity: Identity, replayed: Replayed, epoch: Epoch, next_file: FileNo) -> Parts {
    let resume = Resume {
        epoch,
        segment: replayed.segments.back().expect("a lane has a segment").number,
        image: replayed.image,
        prev_crc: replayed.context.prev_crc.unwrap_or(0),
    };
    let durable = replayed.context.expected_lsn;
    let staging = Staging::new(identity, resume);
    Parts {
        table: replayed.table,
        staging,
        segments: replayed.segments,
        spares: VecDeque::new(),
        next_file,
        next_stream: replayed.next_stream,
        durable,
        unabsorbed: replayed.unabsorbed,
        dead: replayed.dead,
        recovery: replayed.recovery,
        write_path: Chosen::default(),
    }
}

/// The lane of a name; fixed for a store, since streams do not move.
pub(crate) fn lane_of(name: &str, lanes: u16) -> LaneId {
    let hash = crc32c::crc32c(name.as_bytes());
    LaneId(u16::try_from(hash % u32::from(lanes)).expect("smaller than the number of lanes"))
}
