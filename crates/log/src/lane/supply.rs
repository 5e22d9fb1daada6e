//! Files for the next segments: made ready ahead of need and without the lane's lock, so that an
//! append that fills a segment goes on in the next one without touching the disk.
//!
//! A file is made, its header is made durable, and then it waits. Within an epoch a number is given
//! to one file only: of two an opening could take the wrong one. So whoever needs the next segment
//! while its header is being written waits for that, and takes no other (I1).

use std::sync::{PoisonError, TryLockError};

use highwater_disk::{DiskError, ErrorKind};

use super::room::Claim;
use super::segment::{self, FileNo, Spare, to_usize};
use super::{Lane, State};
use crate::error::{Busy, Full, LogError, LogResult, Scarce};
use crate::format::{BLOCK_BYTES, SegmentHeader};
use crate::ids::SegmentNo;
use crate::sync::MutexGuard;

/// What has become of the next segment. Whoever wants to look at it takes the lane's lock first;
/// whoever makes it ready holds it without that one.
#[derive(Debug, Default)]
pub(super) enum Next {
    /// Nobody has made it ready.
    #[default]
    Absent,
    /// Its header is durable.
    Ready(Spare, SegmentNo),
    /// Its header may be durable or not: nobody may go on.
    Failed(DiskError),
}

/// What is not there yet.
enum Lack<'a> {
    Nothing,
    /// A file of this number.
    File(FileNo),
    /// The header of the next segment, to be written to a file.
    Header(Spare, SegmentHeader, MutexGuard<'a, Next>),
}

/// Bytes of the active image behind what is staged that have memory before they are needed: as many
/// as are staged, within these bounds. A lane that rests keeps little, one that is busy soon has
/// much. More is added when less than half is left.
const AHEAD_BYTES: (usize, usize) = (256 << 10, 8 << 20);

fn ahead_bytes(staged: usize, least: usize) -> usize {
    staged.clamp(AHEAD_BYTES.0.max(least), AHEAD_BYTES.1)
}

/// How far the active segment's image has memory.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Present {
    /// Up to here, as far as the lane has seen to it.
    to: usize,
    /// Whether more was asked for.
    is_asked: bool,
    /// Bytes ahead at least: a lane that filled a segment is busy.
    least: usize,
}

impl Present {
    /// Of a segment that follows a full one.
    pub(super) fn rolled() -> Self {
        Self { least: AHEAD_BYTES.1, ..Self::default() }
    }
}

impl Lane {
    /// Asks for memory for what is staged next, where little is left.
    pub(super) fn ask_for_memory(&self, state: &mut State) {
        let staged = state.staging.end();
        let wanted = staged.saturating_add(ahead_bytes(staged, state.present.least) / 2);
        let wanted = wanted.min(to_usize(self.identity.segment_bytes));
        if state.present.to < wanted && !state.present.is_asked {
            state.present.is_asked = true;
            self.maintenance.ask_for_files();
        }
    }

    /// Has the kernel give memory to what is staged next, without the lock: a page that is touched
    /// for the first time costs about what an append does, and a large payload touches hundreds.
    pub(crate) fn populate_ahead(&self) {
        let (image, number, range) = {
            let mut state = self.lock();
            state.present.is_asked = false;
            let active = state.segments.back().expect("a lane has a segment");
            let (image, number) = (active.image.clone(), active.number);
            let end = state.staging.end() / BLOCK_BYTES * BLOCK_BYTES;
            let to =
                end.saturating_add(ahead_bytes(end, state.present.least)).min(image.capacity());
            let from = state.present.to.max(end);
            (image, number, from..to)
        };
        if range.is_empty() {
            return;
        }
        // Where it cannot be had so, whoever touches the pages gets it: nobody asks again.
        let is_done = image.populate(range.clone()).unwrap_or(false);
        let mut state = self.lock();
        if state.staging.segment() == number {
            state.present.to = if is_done { range.end } else { image.capacity() };
        }
    }

    /// Gives the next segment's file, its header durable. Only what gives room back gets the file
    /// in reserve.
    pub(super) fn next_segment(&self, state: &mut State, claim: Claim) -> LogResult<Spare> {
        state.keep_reserve();
        if state.upcoming.is_some() {
            assert!(state.reserve.is_some(), "I11: there is a file in reserve before any other");
            return self.take_next(state);
        }
        let spare = self.spare_file(state, claim)?;
        let header = self.next_header(state);
        segment::write_header(&*spare.file, &header)?;
        state.commits.segments += 1;
        state.commits.segments_unready += 1;
        Ok(spare)
    }

    /// Takes the segment that is ready, or about to be.
    fn take_next(&self, state: &mut State) -> LogResult<Spare> {
        let mut waited = 0;
        let mut next = match self.next.try_lock() {
            Ok(next) => next,
            Err(TryLockError::WouldBlock) => {
                waited = 1;
                // Whoever has it does not need the lane's lock to finish.
                self.next.lock().unwrap_or_else(PoisonError::into_inner)
            }
            Err(TryLockError::Poisoned(next)) => next.into_inner(),
        };
        match std::mem::take(&mut *next) {
            Next::Ready(spare, number) => {
                assert_eq!(
                    number.0,
                    state.staging.segment().0 + 1,
                    "I1: a segment's file carries the number that it is found by"
                );
                state.upcoming = None;
                state.commits.segments += 1;
                state.commits.segments_unready += waited;
                Ok(spare)
            }
            Next::Failed(error) => Err(error.into()),
            Next::Absent => Err(LogError::Poisoned("making a segment ready panicked".to_owned())),
        }
    }

    /// Up to where the active image has memory.
    #[cfg(test)]
    pub(crate) fn present_to(&self) -> usize {
        self.lock().present.to
    }

    fn next_header(&self, state: &State) -> SegmentHeader {
        SegmentHeader {
            store_id: self.identity.store,
            lane: self.identity.lane,
            epoch: state.staging.epoch(),
            segno: SegmentNo(state.staging.segment().0 + 1),
            segment_bytes: self.identity.segment_bytes,
            time_ms: self.now_ms(),
        }
    }

    /// Gives a file that is part of no log.
    fn spare_file(&self, state: &mut State, claim: Claim) -> LogResult<Spare> {
        if let Some(spare) = state.spares.pop_front() {
            return Ok(spare);
        }
        if claim == Claim::Relief
            && let Some(reserve) = state.reserve.take()
        {
            return Ok(reserve);
        }
        self.make_spare(state)
    }

    fn make_spare(&self, state: &mut State) -> LogResult<Spare> {
        let file_no = state.next_file;
        let (lane, segment_bytes) = (self.identity.lane, self.identity.segment_bytes);
        let access = self.write_path.path.access;
        match segment::make_file(&*self.disk, lane, file_no, segment_bytes, access) {
            Ok(file) => {
                state.next_file = FileNo(file_no.0 + 1);
                Ok(Spare { file_no, file })
            }
            // What its making has left has no header, and is part of no log.
            Err(error) if segment::lost_names(&error) => Err(error.into()),
            Err(error) if error.kind == ErrorKind::Full => {
                self.maintenance.ask();
                let why = format!("no room for another segment of the log: {error}");
                Err(LogError::Full(Full::of_all(why)))
            }
            Err(error) if error.kind == ErrorKind::TooManyFiles => {
                // Whoever asks again has it made again: no barrier has failed.
                self.maintenance.ask();
                let why = format!("no segment of the log could be made: {error}");
                Err(LogError::Busy(Busy { of: Scarce::Files, why }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes files ready ahead of need, without the lock: one in reserve, and the next segment.
    ///
    /// # Errors
    /// The disk's. Where a file cannot be made, whoever needs it gets the error; where its header
    /// cannot be, or the barrier of their directory fails, the lane is turned down (I10).
    pub(crate) fn prepare_files(&self) -> LogResult<()> {
        let (lane, segment_bytes) = (self.identity.lane, self.identity.segment_bytes);
        loop {
            self.populate_ahead();
            match self.lack()? {
                Lack::Nothing => return Ok(()),
                Lack::File(file_no) => {
                    let access = self.write_path.path.access;
                    let disk = &*self.disk;
                    let made = segment::make_file(disk, lane, file_no, segment_bytes, access);
                    // The name of a file that is made for an append just now may be lost with it.
                    let file = made.inspect_err(|error| {
                        if segment::lost_names(error) {
                            self.fail(&error.to_string());
                        }
                    })?;
                    self.lock().spares.push_back(Spare { file_no, file });
                }
                Lack::Header(spare, header, mut next) => {
                    let written = segment::write_header(&*spare.file, &header);
                    let Err(error) = written else {
                        *next = Next::Ready(spare, header.segno);
                        continue;
                    };
                    *next = Next::Failed(error.clone());
                    drop(next);
                    self.fail(&format!("the next segment's header: {error}"));
                    return Err(error.into());
                }
            }
        }
    }

    fn lack(&self) -> LogResult<Lack<'_>> {
        // What may be in use, and one ahead.
        let most = self.options.max_wal_bytes / self.identity.segment_bytes + 1;
        let mut state = self.lock();
        state.check_writable()?;
        state.keep_reserve();
        if state.reserve.is_some() && state.upcoming.is_some() {
            return Ok(Lack::Nothing);
        }
        if state.reserve.is_some()
            && let Some(spare) = state.spares.pop_front()
        {
            state.upcoming = Some(spare.file_no);
            let header = self.next_header(&state);
            let next = self.next.lock().expect("it was never left half done");
            return Ok(Lack::Header(spare, header, next));
        }
        if state.files() >= most {
            return Ok(Lack::Nothing);
        }
        let file_no = state.next_file;
        state.next_file = FileNo(file_no.0 + 1);
        Ok(Lack::File(file_no))
    }
}
