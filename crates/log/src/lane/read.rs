//! Answers readers: what is durable, and nothing else. The lane's lock is held to find out where
//! bytes are; images are shared as they are, and a home is read without the lock.

use std::ops::Range;
use std::sync::Arc;

use highwater_disk::{ErrorKind, PublishedReader};

use super::segment::{self, Segment, to_u64, to_usize};
use super::{Lane, State, commit::Ticket};
use crate::error::{LogError, LogResult, Rejection};
use crate::format::{FormatError, RecordRef, Structure, Verify};
use crate::home::{Extent, Lent};
use crate::ids::{Lsn, Offset, SegmentNo, StreamId};
use crate::table::SlotNo;
use crate::table::slot::Flags;

/// Bytes that one answer has of a home at most: the rest comes with the next read.
const HOME_BYTES: u64 = 8 << 20;
/// Of the memory that images may take, readers may hold one part in so many that nothing else
/// needs. Beyond that they get copies.
const HELD_SHARE: u64 = 4;

/// Consecutive bytes of a stream.
#[derive(Debug, Clone)]
pub enum Slice {
    /// In a segment's image, without a copy. The whole image stays in memory meanwhile.
    Image {
        /// The image.
        image: PublishedReader,
        /// The bytes.
        range: Range<usize>,
    },
    /// Copied: from the stream's home, or from an image when readers hold too many.
    Copied(Arc<Vec<u8>>),
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

/// Where bytes of a stream are.
#[derive(Debug)]
pub struct Located {
    /// The bytes, in order.
    pub pieces: Vec<Piece>,
    /// Offset behind them.
    pub next: Offset,
    /// The stream's durable tail.
    pub tail: Offset,
    /// Whether the stream is durably closed at its tail.
    pub is_closed: bool,
}

/// Consecutive bytes of a stream, or where they are.
#[derive(Debug)]
pub enum Piece {
    /// In memory.
    Memory(Slice),
    /// In the stream's home: to be read or sent from there when they are needed.
    Home(HomeRange),
}

/// Bytes in a stream's home. Holds neither memory nor an open file: whoever sends to a slow client
/// can keep it for as long as that takes. When the stream is deleted meanwhile, it is gone.
#[derive(Debug, Clone)]
pub struct HomeRange {
    lane: Arc<Lane>,
    extent: Extent,
    from: Offset,
    to: Offset,
}

impl Slice {
    /// Gives the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Image { image, range } => &image.bytes()[range.clone()],
            Self::Copied(bytes) => bytes,
        }
    }

    /// Lets go of the image.
    fn copy(self) -> Self {
        Self::Copied(Arc::new(self.bytes().to_vec()))
    }
}

impl Answer {
    /// Joins the slices into one vector.
    pub fn to_vec(&self) -> Vec<u8> {
        self.slices.iter().flat_map(|slice| slice.bytes().iter().copied()).collect()
    }
}

impl Located {
    /// Reads what is not in memory.
    ///
    /// # Errors
    /// As [`HomeRange::read`].
    pub fn load(self) -> LogResult<Answer> {
        let Self { pieces, next, tail, is_closed } = self;
        let load = |piece| match piece {
            Piece::Memory(slice) => Ok(slice),
            Piece::Home(mut range) => {
                let mut bytes = vec![0; to_usize(range.len())];
                range.read(&mut bytes)?;
                Ok(Slice::Copied(Arc::new(bytes)))
            }
        };
        let slices = pieces.into_iter().map(load).collect::<LogResult<_>>()?;
        Ok(Answer { slices, next, tail, is_closed })
    }
}

impl HomeRange {
    /// How many bytes are left.
    pub fn len(&self) -> u64 {
        self.to.0 - self.from.0
    }

    /// Whether none are left.
    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Reads the next bytes, as many as fit, each held against its checksum now, and goes on behind
    /// them; gives how many. A buffer of 64 KiB or more that is used again costs least.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`Rejection::NotFound`] when the stream is gone, and the disk's.
    pub fn read(&mut self, into: &mut [u8]) -> LogResult<usize> {
        // Up to where a region ends, so that none is read twice.
        let most = to_u64(into.len()).min(self.len());
        let end = self.from.0 + most;
        let whole = end - end % crate::home::REGION_BYTES;
        let to = if end < self.to.0 && whole > self.from.0 { whole } else { end };
        let len = to_usize(to - self.from.0);
        if len > 0 {
            let read = self.lane.home.read(self.extent, self.from, &mut into[..len]);
            read.map_err(|error| self.explain(error))?;
            self.from = Offset(to);
        }
        Ok(len)
    }

    /// Takes the next bytes to be sent from where they lie, about `most`, and goes on behind them.
    /// They are held against their checksums now, or were lately
    /// ([`crate::options::Options::recheck_after`]); the kernel may read them from the device again
    /// before it sends them. Nothing where they have to be read: as many files as may be are held
    /// by others, or the home has no such files.
    ///
    /// # Errors
    /// As [`HomeRange::read`].
    pub fn lend(&mut self, most: u64) -> LogResult<Option<Lent>> {
        if self.is_empty() {
            return Ok(None);
        }
        let to = Offset(self.from.0.saturating_add(most.max(1)).min(self.to.0));
        let lent = self.lane.home.lend(self.extent, self.from, to);
        let lent = lent.map_err(|error| self.explain(error))?;
        self.from.0 += lent.as_ref().map_or(0, Lent::len);
        Ok(lent)
    }

    /// A file that is not there is gone with its stream, or lost.
    fn explain(&self, error: LogError) -> LogError {
        let is_missing =
            matches!(&error, LogError::Disk(error) if error.kind == ErrorKind::NotFound);
        let is_gone = is_missing && self.lane.lock().table.by_id(self.extent.stream).is_none();
        if is_gone { Rejection::NotFound.into() } else { error }
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
pub(crate) enum Found {
    /// Where the bytes are.
    Here(Located),
    /// They are the source's: up to `to` at most.
    Inherited {
        /// The source.
        source: StreamId,
        /// Behind the last byte that is the source's.
        to: Offset,
        /// The fork's tail and end, without bytes.
        own: Located,
    },
}

impl Lane {
    /// Finds bytes from an offset on, about `max_bytes` at most, one byte at least if there is one.
    ///
    /// # Errors
    /// [`Rejection::NotFound`], [`Rejection::BeyondTail`], [`LogError::Damaged`].
    pub(crate) fn locate(
        self: &Arc<Self>,
        target: Target<'_>,
        from: Offset,
        max_bytes: u64,
    ) -> LogResult<Found> {
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
        let located = |pieces, next| Located { pieces, next, tail, is_closed };
        let to = Offset(from.0.saturating_add(max_bytes.max(1)).min(tail.0));
        if from == to {
            return Ok(Found::Here(located(Vec::new(), to)));
        }
        let parent = state.table.rare(at).and_then(|rare| rare.parent);
        let start = own_start(&state, at);
        if let Some(parent) = parent.filter(|parent| from < parent.offset) {
            let (source, to) = (parent.stream, to.min(parent.offset));
            return Ok(Found::Inherited { source, to, own: located(Vec::new(), from) });
        }
        if from >= slot.absorbed {
            let slices = state.slices(at, from, to)?;
            let is_held = state.held_by_readers() > self.options.max_image_bytes / HELD_SHARE;
            drop(state);
            let slices = slices.into_iter().map(|slice| if is_held { slice.copy() } else { slice });
            return Ok(Found::Here(located(slices.map(Piece::Memory).collect(), to)));
        }
        // What the home has of the range comes first, the rest with the next read.
        let (end, region_crc) = (slot.absorbed, slot.region_crc);
        let extent = Extent { stream: slot.id, start, end, region_crc };
        let to = to.min(end).min(Offset(from.0 + HOME_BYTES));
        let range = HomeRange { lane: Arc::clone(self), extent, from, to };
        Ok(Found::Here(located(vec![Piece::Home(range)], to)))
    }

    /// Gives what to wait for until everything that was acknowledged of a stream can be read:
    /// nothing where acknowledgements do not run ahead, or this one's have not.
    pub(crate) fn settle(self: &Arc<Self>, name: &str) -> Option<Ticket<()>> {
        self.relaxed_within()?;
        let state = self.lock();
        let slot = state.table.slot(state.table.by_name(name)?);
        // What is held up has not been acknowledged.
        let last = slot.last?.lsn().min(Lsn(state.held.from.0.saturating_sub(1)));
        let is_behind = last >= state.durable && state.check_healthy().is_ok();
        is_behind.then(|| Ticket::until_visible(self, last, ()))
    }

    /// The same for all streams of the lane.
    pub(crate) fn settle_all(self: &Arc<Self>) -> Option<Ticket<()>> {
        self.relaxed_within()?;
        let state = self.lock();
        let last = state.staging.stamp().min(state.held.from).0.checked_sub(1)?;
        let is_behind = Lsn(last) >= state.durable && state.check_healthy().is_ok();
        is_behind.then(|| Ticket::until_visible(self, Lsn(last), ()))
    }

    /// Gives what to wait for until all that is staged of a stream can be seen, acknowledged or
    /// not; nothing where it can. A lane that has failed says so to whoever waits.
    pub(crate) fn unseen(self: &Arc<Self>, name: &str) -> Option<Ticket<()>> {
        let state = self.lock();
        let last = state.table.slot(state.table.by_name(name)?).last?.lsn();
        (last >= state.durable).then(|| Ticket::until_visible(self, last, ()))
    }

    /// Says whether a stream is deleted, and kept for its forks, where the end of the last one may
    /// have been acknowledged ahead of its barrier.
    pub(crate) fn is_kept_for_forks(&self, name: &str) -> bool {
        if self.relaxed_within().is_none() {
            return false;
        }
        let state = self.lock();
        let at = state.table.by_name(name);
        at.is_some_and(|at| state.table.slot(at).flags.has(Flags::SOFT_DELETED))
    }

    /// Says whether bytes of a stream at an offset would have to be read from a home.
    pub(crate) fn is_at_home(&self, name: &str, from: Offset) -> bool {
        let state = self.lock();
        let Ok(at) = self.visible(&state, name) else { return false };
        let slot = state.table.slot(at);
        // What a fork has of its source is as good as at home: where it is, is not looked up here.
        from < slot.durable && from < slot.absorbed.max(own_start(&state, at))
    }
}

/// First byte of a stream that is its own.
fn own_start(state: &State, at: SlotNo) -> Offset {
    let parent = state.table.rare(at).and_then(|rare| rare.parent);
    parent.map_or(Offset(0), |parent| parent.offset)
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
        Err(self.no_chain(at, from))
    }

    /// The records of a stream do not lead back to an offset.
    pub(super) fn no_chain(&self, at: SlotNo, from: Offset) -> LogError {
        let place = format!("{} of stream {}", from, self.table.slot(at).id);
        let (structure, field) = (Structure::Record, "chain of the stream");
        LogError::Damaged { place, source: FormatError::Misfit { structure, field } }
    }

    /// Where to begin walking back: the first mark at or behind the end of the range, or the last
    /// record.
    pub(super) fn chain_start(&self, at: SlotNo, to: Offset) -> Option<Lsn> {
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
    pub(super) fn record(&self, lsn: Lsn) -> LogResult<(Link, Range<usize>)> {
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
pub(super) struct Link {
    pub offset: u64,
    pub len: u64,
    pub prev: Option<Lsn>,
}
