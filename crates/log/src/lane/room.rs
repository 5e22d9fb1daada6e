//! Room in the log: its next segment, its files, memory, and the bounds of all.
//!
//! Growth is refused one segment before the log's bound. That last one is for records that give
//! room back (deletes), and a file is kept in reserve for it, so that neither a log that may not
//! grow nor a disk that is full stands in their way. I11: the log's files and images stay in their
//! bounds, whatever is asked and whatever readers hold on to.

use std::sync::atomic::{AtomicU64, Ordering};

use highwater_disk::{PublishedReader, PublishedWriter};

use super::segment::{self, Segment, Spare, to_u64};
use super::supply::Present;
use super::{Lane, State, Waiter};
use crate::error::{Busy, Full, LogError, LogResult, Scarce};
use crate::format::RecordKind;
use crate::ids::{Lsn, SegmentNo};

/// What a record does to the log's room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It takes some, until its bytes have moved home.
    Growth,
    /// It gives room back, or is needed before anything can.
    Relief,
}

impl Claim {
    /// What a record of this kind does.
    pub(super) fn of(kind: RecordKind) -> Self {
        match kind {
            RecordKind::Delete | RecordKind::SoftDelete | RecordKind::EpochStart => Self::Relief,
            RecordKind::Create
            | RecordKind::Append
            | RecordKind::Close
            | RecordKind::Fork
            | RecordKind::Touch
            | RecordKind::Witness => Self::Growth,
        }
    }
}

/// Whether acknowledgements wait for checkpoints, once the log has grown far beyond where one
/// begins: whoever writes faster than bytes move home is slowed down before it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Checkpoints come by themselves from now on.
    Begin,
    /// One is done: from here on the next is waited for.
    FromMark,
    /// One has found no space: nobody waits until one is done.
    Nothing,
    /// None come any more.
    End,
}

/// Whether bytes can move home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moving {
    /// As far as is known.
    Goes,
    /// The last checkpoint found no space, or no room for another open file.
    LacksSpace,
}

/// Which acknowledgements wait for a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// Those of operations from here on.
    pub from: Lsn,
    /// Whether checkpoints come by themselves, so that any can wait for one.
    may_be: bool,
}

impl Default for Held {
    /// None.
    fn default() -> Self {
        Self { from: Lsn(u64::MAX), may_be: false }
    }
}

/// Memory of all lanes' segments.
#[derive(Debug, Default)]
pub(crate) struct Images {
    bytes: AtomicU64,
}

impl Images {
    /// Bytes of images that are in use, or that readers hold.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// What a lane uses of what it may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of segments whose bytes have not all moved home.
    pub wal_bytes: u64,
    /// Bytes staged and not durable.
    pub staged_bytes: u64,
    /// Bytes of images of segments, those included that only readers hold.
    pub image_bytes: u64,
    /// Bytes of the log that only deletes can use now.
    pub relief_bytes: u64,
    /// Why nothing is taken in any more, if so.
    pub read_only: Option<String>,
    /// Why nothing is acknowledged any more, if so.
    pub poisoned: Option<String>,
}

impl Lane {
    /// Says what it uses of what it may.
    pub fn usage(&self) -> Usage {
        let mut state = self.lock();
        state.count_images(&self.images);
        let segment_bytes = self.identity.segment_bytes;
        let block = to_u64(crate::format::BLOCK_BYTES);
        let may_grow = state.wal_bytes() + segment_bytes <= self.options.max_wal_bytes;
        let has_file = state.reserve.is_some() || state.ready_files() > 0;
        let next = if may_grow && has_file { segment_bytes - block } else { 0 };
        Usage {
            wal_bytes: state.wal_bytes(),
            staged_bytes: state.staged_bytes,
            image_bytes: state.counted_images,
            relief_bytes: state.staging.room() + next,
            read_only: state.read_only.clone(),
            poisoned: state.poisoned.clone(),
        }
    }

    /// Bytes of segments beyond which the log takes only what gives room back.
    fn growth_bytes(&self) -> u64 {
        self.options.max_wal_bytes - self.identity.segment_bytes
    }

    /// Makes room for a record in the active segment: seals, and rolls to the next one if need be.
    pub(super) fn make_room(
        &self,
        state: &mut State,
        record_len: usize,
        claim: Claim,
    ) -> LogResult<()> {
        if claim == Claim::Growth && state.wal_bytes() > self.growth_bytes() {
            return Err(self.full(state));
        }
        if !state.staging.fits_open_frame(record_len) {
            state.staging.seal(state.synced, self.now_ms());
        }
        if state.staging.has_room(record_len) {
            return Ok(());
        }
        state.staging.seal(state.synced, self.now_ms());
        let image = self.activate_next(state, claim).inspect_err(|error| {
            if !error.is_lack_of_room() {
                // Woken without the lock: by whoever gets this error.
                let woken = state.poison(error.to_string());
                state.ended.extend(woken);
            }
        })?;
        state.staging.roll(image);
        state.present = Present::rolled();
        Ok(())
    }

    /// Makes the next segment part of the log.
    fn activate_next(&self, state: &mut State, claim: Claim) -> LogResult<PublishedWriter> {
        let segment_bytes = self.identity.segment_bytes;
        let most = match claim {
            Claim::Growth => self.growth_bytes(),
            Claim::Relief => self.options.max_wal_bytes,
        };
        if state.wal_bytes() + segment_bytes > most {
            return Err(self.full(state));
        }
        if claim == Claim::Growth {
            self.check_memory(state)?;
        }
        let number = SegmentNo(state.staging.segment().0 + 1);
        let Spare { file_no, file } = self.next_segment(state, claim)?;
        let image = segment::image(segment_bytes);
        let prev_crc = state.staging.prev_crc();
        let reader = image.reader();
        state.segments.push_back(Segment { number, file_no, file, image: reader, prev_crc });
        state.count_images(&self.images);
        assert!(
            state.wal_bytes() <= self.options.max_wal_bytes,
            "I11: the log stays in its bound, whoever asks"
        );
        // For the next file, and perhaps for a checkpoint.
        self.maintenance.ask();
        Ok(image)
    }

    /// Whether another image may be made.
    fn check_memory(&self, state: &mut State) -> LogResult<()> {
        state.count_images(&self.images);
        let (bytes, most) = (self.images.bytes(), self.options.max_image_bytes);
        if bytes + self.identity.segment_bytes <= most {
            return Ok(());
        }
        self.maintenance.ask();
        Err(state.lack(
            Scarce::Images,
            &format!("{bytes} bytes of the log are in memory, and {most} may be"),
        ))
    }

    fn full(&self, state: &State) -> LogError {
        self.maintenance.ask();
        state.lack(
            Scarce::Wal,
            &format!("{} bytes of the log wait to be moved home", state.wal_bytes()),
        )
    }

    /// Bytes of segments whose bytes have not all moved home.
    pub(crate) fn wal_bytes(&self) -> u64 {
        self.lock().wal_bytes()
    }

    /// Whether a checkpoint would move anything, or give anything back.
    pub(crate) fn has_unabsorbed(&self) -> bool {
        let state = self.lock();
        let has_bytes = !state.unabsorbed.is_empty() || !state.dead.is_empty();
        has_bytes || state.table.partitions().are_touched()
    }

    /// The memory that it counts its images in.
    #[cfg(test)]
    pub(crate) fn images(&self) -> std::sync::Arc<Images> {
        std::sync::Arc::clone(&self.images)
    }

    /// Forgets images that readers have let go of.
    pub(crate) fn count_images(&self) {
        self.lock().count_images(&self.images);
    }

    /// Has acknowledgements wait for checkpoints, or not; whoever no longer waits is woken.
    pub(crate) fn hold(&self, hold: Hold) {
        let mut woken = Vec::new();
        let mut state = self.lock();
        state.moving = match hold {
            Hold::Nothing => Moving::LacksSpace,
            Hold::FromMark => Moving::Goes,
            Hold::Begin | Hold::End => state.moving,
        };
        state.held.may_be = match hold {
            Hold::Begin => true,
            Hold::End => false,
            Hold::FromMark | Hold::Nothing => state.held.may_be,
        };
        state.held.from = if state.held.may_be && hold != Hold::Nothing {
            let first = segment::start(state.segments[0].number, state.segment_bytes);
            let mark = Lsn(first.0 + self.options.delay_wal_bytes());
            // Nobody waits for more than one checkpoint: what is staged by now goes on.
            mark.max(state.staging.next_record())
        } else {
            Held::default().from
        };
        let done = state.acknowledged();
        self.acked.fetch_max(done.0, Ordering::Release);
        state.waiters.take_before(done, &mut woken);
        drop(state);
        woken.into_iter().for_each(Waiter::wake);
    }

    /// Whether an operation that begins at a position may be acknowledged.
    pub(super) fn may_acknowledge(&self, state: &State, at: Lsn) -> bool {
        // Ahead of the barrier, unless too much is staged already.
        let runs_ahead = self.relaxed_within().is_some()
            && state.staged_bytes <= self.options.delay_staged_bytes()
            && at < state.held.from;
        at < state.acknowledged() || runs_ahead
    }
}

impl State {
    /// What the next checkpoint mends, unless the last one found no space.
    fn lack(&self, of: Scarce, what: &str) -> LogError {
        match self.moving {
            Moving::Goes => {
                let why = format!("{what}: try again when a checkpoint is done");
                LogError::Busy(Busy { of, why })
            }
            Moving::LacksSpace => {
                LogError::Full(Full::of_all(format!("{what}, and there is no space for them")))
            }
        }
    }

    /// Bytes of segments in use.
    pub(super) fn wal_bytes(&self) -> u64 {
        to_u64(self.segments.len()) * self.segment_bytes
    }

    /// Bytes of images that only readers hold.
    pub(super) fn held_by_readers(&self) -> u64 {
        let held = self.lingering.iter().filter(|image| image.is_held()).count();
        to_u64(held) * self.segment_bytes
    }

    /// Files of segments, used or not.
    pub(super) fn files(&self) -> u64 {
        to_u64(self.segments.len()) + self.ready_files() + u64::from(self.reserve.is_some())
    }

    /// Files for the next segments, but for the one in reserve.
    pub(super) fn ready_files(&self) -> u64 {
        to_u64(self.spares.len()) + u64::from(self.upcoming.is_some())
    }

    /// Puts a file in reserve, before any other use of it.
    pub(super) fn keep_reserve(&mut self) {
        if self.reserve.is_none() {
            self.reserve = self.spares.pop_back();
        }
    }

    /// Takes a segment back whose bytes are all at home; gives its image, to be dropped without the
    /// lock: the kernel takes its time over that much memory.
    pub(super) fn give_back(&mut self, segment: Segment) -> PublishedReader {
        let Segment { file_no, file, image, .. } = segment;
        self.lingering.push(image.downgrade());
        self.spares.push_back(Spare { file_no, file });
        image
    }

    /// Counts images that are in use, and those that only readers hold.
    pub(super) fn count_images(&mut self, images: &Images) {
        self.lingering.retain(highwater_disk::PublishedWeak::is_held);
        let bytes = self.wal_bytes() + to_u64(self.lingering.len()) * self.segment_bytes;
        images.bytes.fetch_add(bytes, Ordering::Relaxed);
        images.bytes.fetch_sub(self.counted_images, Ordering::Relaxed);
        self.counted_images = bytes;
    }
}
