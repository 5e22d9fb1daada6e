//! Builds frames in the image of the active segment.
//!
//! A record is copied once, from the request into the image; the image is what is written, and what
//! readers read until the stream's home has the bytes. One frame is open at a time; sealed frames
//! wait for the next commit.

use highwater_disk::PublishedWriter;

use crate::format::{FrameHeader, NewRecord, StoreId};
use crate::ids::{Epoch, LaneId, Lsn, SegmentNo};
use crate::lane::segment::{self, to_u64, to_usize};
use crate::table::SlotNo;

/// Elements of the largest list whose memory is kept.
const MOST_SPARE: usize = 4096;

/// What a lane's frames have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The store.
    pub store: StoreId,
    /// The lane.
    pub lane: LaneId,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes at which a frame is sealed.
    pub frame_bytes: u64,
}

/// A stream that a frame changes: what becomes visible when the frame is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touched {
    /// Its slot.
    pub slot: SlotNo,
    /// Its number: the slot may be another stream's by then.
    pub id: crate::ids::StreamId,
    /// Where its record begins.
    pub at: Lsn,
    /// Its tail.
    pub tail: crate::ids::Offset,
    /// Whether it ends there.
    pub closes: bool,
    /// Whether it is gone.
    pub deletes: bool,
    /// The source that it no longer forks, when it is gone.
    pub releases: Option<crate::ids::StreamId>,
}

/// A frame that waits to be written.
#[derive(Debug)]
pub struct Sealed {
    /// Its segment.
    pub segment: SegmentNo,
    /// Its first byte in the segment.
    pub start: u64,
    /// Its length with its padding, bytes.
    pub len: u64,
    /// Position behind it.
    pub end: Lsn,
    /// Streams it changes.
    pub touched: Vec<Touched>,
}

/// The frame being filled. It begins where the image's unpublished part does.
#[derive(Debug, Default)]
struct Open {
    body_len: usize,
    records: u32,
    touched: Vec<Touched>,
}

/// The builder.
#[derive(Debug)]
pub struct Staging {
    identity: Identity,
    epoch: Epoch,
    segment: SegmentNo,
    image: PublishedWriter,
    prev_crc: u32,
    open: Open,
    sealed: Vec<Sealed>,
    /// Memory to use again.
    spare_touched: Vec<Touched>,
    spare_frames: Vec<Sealed>,
}

/// Where a lane goes on.
#[derive(Debug)]
pub struct Resume {
    /// Its epoch.
    pub epoch: Epoch,
    /// The active segment.
    pub segment: SegmentNo,
    /// Its image, published up to where the next frame begins.
    pub image: PublishedWriter,
    /// Checksum of the last frame's header.
    pub prev_crc: u32,
}

impl Staging {
    /// Goes on where a lane ended.
    pub fn new(identity: Identity, resume: Resume) -> Self {
        Self {
            identity,
            epoch: resume.epoch,
            segment: resume.segment,
            image: resume.image,
            prev_crc: resume.prev_crc,
            open: Open::default(),
            sealed: Vec::new(),
            spare_touched: Vec::new(),
            spare_frames: Vec::new(),
        }
    }

    /// The lane's epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The active segment.
    pub fn segment(&self) -> SegmentNo {
        self.segment
    }

    /// Checksum of the last sealed frame's header.
    pub fn prev_crc(&self) -> u32 {
        self.prev_crc
    }

    /// Whether anything waits to be committed.
    pub fn is_empty(&self) -> bool {
        self.open.records == 0 && self.sealed.is_empty()
    }

    /// Position where the next record would begin.
    pub fn next_record(&self) -> Lsn {
        let start = segment::start(self.segment, self.identity.segment_bytes);
        Lsn(start.0 + to_u64(self.end()))
    }

    /// Where what is staged ends in the active segment.
    pub fn end(&self) -> usize {
        self.image.published() + FrameHeader::LEN + self.open.body_len
    }

    /// Position that is behind every record so far, and before every later one; everything before
    /// it is durable once all frames so far are.
    pub fn stamp(&self) -> Lsn {
        if self.open.records > 0 {
            return self.next_record();
        }
        let start = segment::start(self.segment, self.identity.segment_bytes);
        Lsn(start.0 + to_u64(self.image.published()))
    }

    /// Whether a record of this length fits into the active segment, in the open frame or the next.
    pub fn has_room(&self, record_len: usize) -> bool {
        let open_end = self.image.published() + frame_len(self.open.body_len);
        let in_open = self.image.published() + frame_len(self.open.body_len + record_len);
        let in_next = open_end + frame_len(record_len);
        let end = if self.fits_open_frame(record_len) { in_open } else { in_next };
        end <= self.image.capacity()
    }

    /// Bytes of the active segment behind the open frame.
    pub fn room(&self) -> u64 {
        let open_len = if self.open.records == 0 { 0 } else { frame_len(self.open.body_len) };
        to_u64(self.image.capacity() - self.image.published() - open_len)
    }

    /// Whether the frame stays below its bound; the first record always may.
    pub fn fits_open_frame(&self, record_len: usize) -> bool {
        let len = frame_len(self.open.body_len + record_len);
        self.open.records == 0 || to_u64(len) <= self.identity.frame_bytes
    }

    /// Adds a record of a known length to the open frame, copying it. There must be room.
    pub fn add(&mut self, record: &NewRecord<'_>, len: usize, touched: Touched) {
        let at = FrameHeader::LEN + self.open.body_len;
        record.encode_into(&mut self.image.unpublished()[at..at + len]);
        self.open.body_len += len;
        self.open.records += 1;
        self.open.touched.push(touched);
    }

    /// Seals the open frame, if it holds a record.
    pub fn seal(&mut self, durable: Lsn, time_ms: u64) {
        if self.open.records == 0 {
            return;
        }
        let touched = std::mem::take(&mut self.spare_touched);
        let open = std::mem::replace(&mut self.open, Open { touched, ..Open::default() });
        let start = self.image.published();
        let lsn = segment::start(self.segment, self.identity.segment_bytes).0 + to_u64(start);
        let frame = &mut self.image.unpublished()[..frame_len(open.body_len)];
        let (used, padding) = frame.split_at_mut(FrameHeader::LEN + open.body_len);
        padding.fill(0);
        let body = &used[FrameHeader::LEN..];
        let header = FrameHeader {
            lsn: Lsn(lsn),
            store_tag: self.identity.store.tag(),
            lane: self.identity.lane,
            epoch: self.epoch,
            prev_crc: self.prev_crc,
            body_crc: crc32c::crc32c(body),
            body_len: u32::try_from(open.body_len).expect("a frame fits its segment"),
            record_count: open.records,
            durable_lsn: durable,
            time_ms,
        };
        self.prev_crc = header.encode_into(frame);
        let len = header.frame_len();
        self.image.publish(to_usize(len));
        self.sealed.push(Sealed {
            segment: self.segment,
            start: to_u64(start),
            len,
            end: header.end(),
            touched: open.touched,
        });
    }

    /// Goes on in the next segment. The open frame must be sealed.
    pub fn roll(&mut self, image: PublishedWriter) {
        assert_eq!(self.open.records, 0, "a frame never crosses a segment's end");
        self.segment = SegmentNo(self.segment.0 + 1);
        self.image = image;
    }

    /// Takes the sealed frames, in order.
    pub fn take_sealed(&mut self) -> Vec<Sealed> {
        std::mem::replace(&mut self.sealed, std::mem::take(&mut self.spare_frames))
    }

    /// Takes frames back that are published, to use their memory again.
    pub fn give_back(&mut self, mut frames: Vec<Sealed>) {
        for frame in frames.drain(..) {
            let mut touched = frame.touched;
            let is_larger = touched.capacity() > self.spare_touched.capacity();
            if is_larger && touched.capacity() <= MOST_SPARE {
                touched.clear();
                self.spare_touched = touched;
            }
        }
        if frames.capacity() <= MOST_SPARE {
            self.spare_frames = frames;
        }
    }
}

fn frame_len(body_len: usize) -> usize {
    let body_len = u32::try_from(body_len).expect("a frame fits its segment");
    to_usize(FrameHeader::padded_len(body_len))
}
