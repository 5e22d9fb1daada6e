//! Answers readers from the segments' images: what is durable, and nothing else.

use std::ops::Range;
use std::sync::Arc;

use highwater_disk::PublishedReader;

use super::segment::{self, Segment, to_u64, to_usize};
use super::waiters::Waiter;
use super::{Lane, State};
use crate::error::{LogError, LogResult, Rejection};
use crate::format::{FormatError, RecordRef, Structure, Verify};
use crate::home::Extent;
use crate::ids::{Lsn, Offset, SegmentNo, StreamId};
use crate::table::SlotNo;
use crate::table::slot::Flags;

/// Consecutive bytes of a stream, without a copy.
#[derive(Debug, Clone)]
pub enum Slice {
    /// In a segment's image.
    Image {
        /// The image.
        image: PublishedReader,
        /// The bytes.
        range: Range<usize>,
    },
    /// Read from the stream's home.
    Home(Arc<[u8]>),
}

/// What a read gives.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The bytes, in order.
    pub slices: Vec<Slice>,
    /// Offset behind them.
    pub next: Offset,
    /// The stream's durable tail.
    pub tail: Offset,
    /// Whether the stream is durably closed at its tail.
    pub is_closed: bool,
}

impl Slice {
    /// Gives the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Image { image, range } => &image.bytes()[range.clone()],
            Self::Home(bytes) => bytes,
        }
    }
}

impl Answer {
    /// Joins the slices into one vector.
    pub fn to_vec(&self) -> Vec<u8> {
        self.slices.iter().flat_map(|slice| slice.bytes().iter().copied()).collect()
    }
}

/// Which stream is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    /// One that readers may see.
    Name(&'a str),
    /// A fork's source, hidden or not.
    Id(StreamId),
}

/// What a lane can say of a range.
#[derive(Debug)]
pub(crate) enum Read {
    /// The bytes.
    Bytes(Answer),
    /// They are the source's: up to `to` at most.
    Inherited {
        /// The source.
        source: StreamId,
        /// Behind the last byte that is the source's.
        to: Offset,
        /// The fork's tail and end, without bytes.
        own: Answer,
    },
}

impl Lane {
    /// Reads from an offset, about `max_bytes` at most, one byte at least if there is one.
    ///
    /// # Errors
    /// [`Rejection::NotFound`], [`Rejection::BeyondTail`], [`LogError::Damaged`].
    pub(crate) fn read(&self, target: Target<'_>, from: Offset, max_bytes: u64) -> LogResult<Read> {
        let state = self.lock();
        let at = match target {
            Target::Name(name) => self.visible(&state, name)?,
            Target::Id(id) => state.table.by_id(id).ok_or(Rejection::NotFound)?,
        };
        let slot = state.table.slot(at);
        let tail = slot.durable;
        if from > tail {
            return Err(Rejection::BeyondTail { offset: from, tail }.into());
        }
        let is_closed = slot.flags.has(Flags::CLOSED_VISIBLE);
        let to = Offset(from.0.saturating_add(max_bytes.max(1)).min(tail.0));
        let answer = |slices, next| Answer { slices, next, tail, is_closed };
        if from == to {
            return Ok(Read::Bytes(answer(Vec::new(), to)));
        }
        let parent = state.table.rare(at).and_then(|rare| rare.parent);
        let start = parent.map_or(Offset(0), |parent| parent.offset);
        if let Some(parent) = parent.filter(|parent| from < parent.offset) {
            let (source, to) = (parent.stream, to.min(parent.offset));
            return Ok(Read::Inherited { source, to, own: answer(Vec::new(), from) });
        }
        if from >= slot.absorbed {
            return Ok(Read::Bytes(answer(state.slices(at, from, to)?, to)));
        }
        let (end, region_crc) = (slot.absorbed, slot.region_crc);
        let extent = Extent { stream: slot.id, start, end, region_crc };
        // The home is read without the lock; what it has of the range comes first, the rest with
        // the next read.
        drop(state);
        let next = to.min(end);
        let bytes = self.home.read(extent, from, next).map_err(|error| {
            // Its file goes with the stream.
            let is_gone = self.lock().table.by_id(extent.stream).is_none();
            if is_gone { Rejection::NotFound.into() } else { error }
        })?;
        Ok(Read::Bytes(answer(vec![Slice::Home(bytes)], next)))
    }

    /// Arranges to be woken when a stream's durable tail is no longer `seen`, or it ends; gives
    /// false when that is so already.
    ///
    /// # Errors
    /// [`Rejection::NotFound`], [`LogError::Poisoned`].
    pub fn watch(&self, name: &str, seen: Offset, waiter: Waiter) -> LogResult<bool> {
        let mut state = self.lock();
        let at = self.visible(&state, name)?;
        let slot = state.table.slot(at);
        if slot.durable > seen || slot.flags.has(Flags::CLOSED_VISIBLE) {
            return Ok(false);
        }
        // Nothing more comes on a lane that failed.
        state.check_healthy()?;
        let slot = state.table.slot_mut(at);
        slot.flags.set(Flags::WATCHED);
        state.watchers.entry(at).or_default().push(waiter);
        Ok(true)
    }
}

impl State {
    /// Gives a segment that is in memory.
    pub(super) fn segment(&self, number: SegmentNo) -> &Segment {
        self.find_segment(number).expect("a staged frame's segment is in memory")
    }

    pub(super) fn find_segment(&self, number: SegmentNo) -> Option<&Segment> {
        let first = self.segments.front()?.number;
        self.segments.get(to_usize(number.0.checked_sub(first.0)?))
    }

    /// Collects the bytes of a range from the images, walking the stream's chain back.
    pub(super) fn slices(&self, at: SlotNo, from: Offset, to: Offset) -> LogResult<Vec<Slice>> {
        let mut slices = Vec::new();
        let mut next = self.chain_start(at, to);
        while let Some(lsn) = next {
            let (record, slice) = self.record(lsn)?;
            let (start, end) = (record.offset, record.offset + record.len);
            if start < to.0 && end > from.0 {
                let cut_front = to_usize(from.0.saturating_sub(start));
                let cut_back = to_usize(end.saturating_sub(to.0));
                let range = slice.start + cut_front..slice.end - cut_back;
                let image = self.image_of(lsn)?.clone();
                slices.push(Slice::Image { image, range });
            }
            if start <= from.0 {
                slices.reverse();
                let found: usize = slices.iter().map(|slice| slice.bytes().len()).sum();
                assert_eq!(to_u64(found), to.0 - from.0, "I1: a range has no hole");
                return Ok(slices);
            }
            next = record.prev;
        }
        let place = format!("{} of stream {}", from, self.table.slot(at).id);
        let (structure, field) = (Structure::Record, "chain of the stream");
        Err(LogError::Damaged { place, source: FormatError::Misfit { structure, field } })
    }

    /// Where to begin walking back: the first mark at or behind the end of the range, or the last
    /// record.
    fn chain_start(&self, at: SlotNo, to: Offset) -> Option<Lsn> {
        let marks = self.table.rare(at).map_or(&[][..], |rare| &rare.marks);
        let behind = marks.partition_point(|mark| mark.offset < to);
        match marks.get(behind) {
            Some(mark) if mark.at < self.durable => Some(mark.at),
            _ => self.table.slot(at).last_durable.map(crate::table::slot::Position::lsn),
        }
    }

    fn image_of(&self, lsn: Lsn) -> LogResult<&PublishedReader> {
        let segment_bytes = self.segment_bytes;
        let (number, _) = segment::split(lsn, segment_bytes);
        let segment = self.find_segment(number).ok_or_else(|| LogError::Damaged {
            place: format!("position {lsn}"),
            source: FormatError::Misfit { structure: Structure::Record, field: "segment" },
        })?;
        Ok(&segment.image)
    }

    /// Reads a record's numbers from its image, and where its payload is in it.
    fn record(&self, lsn: Lsn) -> LogResult<(Link, Range<usize>)> {
        let image = self.image_of(lsn)?;
        let bytes = image.bytes();
        let at = to_usize(lsn.0 % self.segment_bytes);
        let record = RecordRef::decode(bytes, at, Verify::Structure)
            .map_err(|source| LogError::Damaged { place: format!("position {lsn}"), source })?;
        let end = at + record.header.record_len();
        let padded = record.payload.len().next_multiple_of(crate::format::RecordHeader::ALIGN);
        let start = end - padded;
        let link = Link {
            offset: record.header.offset.0,
            len: to_u64(record.payload.len()),
            prev: record.header.prev_lsn(lsn),
        };
        Ok((link, start..start + record.payload.len()))
    }
}

/// A record in its stream's chain.
struct Link {
    offset: u64,
    len: u64,
    prev: Option<Lsn>,
}
