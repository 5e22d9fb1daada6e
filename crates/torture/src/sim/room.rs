//! When the log may say that it is full.
//!
//! Counts from above what the log may have staged and written since a checkpoint left it empty. A
//! log that refuses what must fit is stuck, and that is a finding too.

use highwater_log::options::Options;

/// What a record may take besides its payload, in memory.
const RECORD_BYTES: u64 = 500;
/// And in the log, where it may stand in a frame of its own.
const FRAME_BYTES: u64 = RECORD_BYTES + 64 + 4096;
/// What may stay empty at a segment's end, and what its header takes.
const UNUSED_BYTES: u64 = (16 << 10) + 4096;
/// Records that the log may add on its own: ends of streams that are over, one for each name.
const OWN_RECORDS: u64 = 8;

/// How full a log is at most.
#[derive(Debug)]
pub(super) struct Room {
    max_staged: u64,
    segment_bytes: u64,
    /// Segments of a lane that records may take which do not give room back.
    lane_segments: u64,
    /// Segments of all lanes in memory.
    images: u64,
    max_streams: u64,
    lanes: Vec<Lane>,
}

#[derive(Debug, Clone, Copy)]
struct Lane {
    staged: u64,
    /// Bytes logged since a checkpoint; not known before the first one.
    logged: Option<u64>,
}

impl Room {
    /// Knows nothing of the log yet.
    pub(super) fn new(options: &Options) -> Self {
        Self {
            max_staged: options.max_staged_bytes,
            segment_bytes: options.segment_bytes,
            lane_segments: options.max_wal_bytes / options.segment_bytes - 1,
            images: options.max_image_bytes / options.segment_bytes,
            max_streams: options.max_streams,
            lanes: vec![Lane { staged: 0, logged: None }; usize::from(options.lanes)],
        }
    }

    /// A record was staged.
    pub(super) fn staged(&mut self, lane: u16, payload: u64) {
        let lane = &mut self.lanes[usize::from(lane)];
        lane.staged += RECORD_BYTES + payload;
        if let Some(logged) = &mut lane.logged {
            *logged += FRAME_BYTES + payload;
        }
    }

    /// All that was staged is committed.
    pub(super) fn committed(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.staged = 0);
    }

    /// A checkpoint has moved everything, but for what was staged when it began.
    pub(super) fn checkpointed(&mut self) {
        for lane in &mut self.lanes {
            lane.logged = Some(OWN_RECORDS * FRAME_BYTES + 10 * lane.staged);
        }
    }

    /// Segments that a lane has at most, and would have with another record.
    fn segments(&self, lane: Lane, payload: u64) -> Option<u64> {
        let logged = lane.logged? + FRAME_BYTES + payload;
        // The one that it has, the next one, since that may be all but full, and what fits these.
        Some(2 + logged / (self.segment_bytes - UNUSED_BYTES))
    }

    /// Whether a record may be refused while readers hold so many answers.
    pub(super) fn may_be_full(&self, lane: u16, payload: u64, held: usize) -> bool {
        let own = self.lanes[usize::from(lane)];
        let staged = own.staged + OWN_RECORDS * RECORD_BYTES + RECORD_BYTES + payload;
        let in_lane = self.segments(own, payload);
        let in_all: Option<u64> = self.lanes.iter().map(|lane| self.segments(*lane, payload)).sum();
        let held = u64::try_from(held).expect("usize fits u64");
        staged > self.max_staged
            || in_lane.is_none_or(|segments| segments > self.lane_segments)
            || in_all.is_none_or(|segments| segments + held > self.images)
    }

    /// Whether a stream may be refused where there may be so many.
    pub(super) fn may_have_enough(&self, streams: usize) -> bool {
        u64::try_from(streams).expect("usize fits u64") >= self.max_streams
    }
}
