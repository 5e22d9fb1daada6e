//! Copies bytes from the log to their home.
//!
//! The lane's lock is held for a few bytes at a time: appends go on meanwhile.

use super::super::segment::to_u64;
use super::super::{Lane, State};
use crate::error::LogResult;
use crate::home::{Absorb, Home};
use crate::ids::{Offset, StreamId};
use crate::table::SlotNo;
use crate::table::slot::{Flags, Slot};

/// Bytes that a home is given as one group, about.
const GROUP_BYTES: u64 = 8 << 20;
/// Bytes of one stream in a group, about; what it has beyond comes with the next ones.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes, and streams, that are looked up while the lane's lock is held.
const HELD: (u64, usize) = (256 << 10, 256);
/// Streams that are noted while the lane's lock is held.
const NOTED_AT_ONCE: usize = 1024;

/// What a stream's home will have once the barrier is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    slot: SlotNo,
    stream: StreamId,
    /// Up to where it has been absorbed.
    end: Offset,
    /// Up to where it is to be.
    goal: Offset,
    region_crc: u32,
}

impl Moved {
    /// All that a stream has to move, nothing of it moved yet.
    fn begin(slot: SlotNo, state: &State) -> Self {
        let Slot { id, absorbed, durable, region_crc, .. } = *state.table.slot(slot);
        Self { slot, stream: id, end: absorbed, goal: durable, region_crc }
    }
}

impl Lane {
    /// Copies what is durable and not absorbed to the home, group by group.
    pub(super) fn absorb(&self, home: &dyn Home) -> LogResult<Vec<Moved>> {
        let pending = std::mem::take(&mut self.lock().unabsorbed);
        // Nothing is lost: the log still has the bytes, and the next time tries again.
        self.absorb_all(home, &pending).inspect_err(|_| self.lock().unabsorbed.extend(&pending))
    }

    fn absorb_all(&self, home: &dyn Home, pending: &[SlotNo]) -> LogResult<Vec<Moved>> {
        let mut moved = Vec::new();
        let mut queue = Queue { unfinished: Vec::new(), pending: pending.iter() };
        loop {
            let (group, mut moving) = self.group(&mut queue)?;
            if group.is_empty() {
                return Ok(moved);
            }
            let crcs = home.absorb(&group)?;
            let counters = &mut self.lock().checkpoints;
            counters.home_writes += to_u64(group.len());
            counters.home_bytes += group.iter().map(Absorb::len).sum::<u64>();
            for ((moving, absorb), region_crc) in moving.iter_mut().zip(&group).zip(crcs) {
                moving.end = Offset(absorb.from.0 + absorb.len());
                moving.region_crc = region_crc;
            }
            let (done, unfinished): (Vec<_>, Vec<_>) =
                moving.into_iter().partition(|moving| moving.end == moving.goal);
            moved.extend(done);
            queue.unfinished = unfinished;
        }
    }

    /// Collects bytes of streams until a group is full; each stream is in it once.
    fn group(&self, queue: &mut Queue<'_>) -> LogResult<(Vec<Absorb>, Vec<Moved>)> {
        let (mut group, mut moving) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while bytes < GROUP_BYTES && !queue.is_empty() {
            let state = self.lock();
            let (mut held_bytes, mut looked_at) = (0, 0);
            while held_bytes < HELD.0 {
                let Some(next) = queue.next(&state, &mut looked_at) else { break };
                let absorb = state.piece(&next)?;
                held_bytes += absorb.len();
                group.push(absorb);
                moving.push(next);
            }
            bytes += held_bytes;
        }
        Ok((group, moving))
    }

    /// R1: what was copied stays to be moved, since no barrier came behind it. Were it forgotten,
    /// the next checkpoint would give back the segments that alone have it.
    pub(super) fn keep_unabsorbed(&self, moved: &[Moved]) {
        let mut state = self.lock();
        for moved in moved {
            if state.table.by_id(moved.stream) == Some(moved.slot) {
                state.unabsorbed.push(moved.slot);
            }
        }
    }

    /// The home has these bytes, behind its barrier.
    pub(super) fn note_absorbed(&self, moved: &[Moved]) -> LogResult<()> {
        for some in moved.chunks(NOTED_AT_ONCE) {
            let mut state = self.lock();
            state.check_healthy()?;
            for moved in some {
                state.note_absorbed(moved);
            }
        }
        Ok(())
    }

    /// Streams of these that are gone: what the home has of them is of no use once the table that
    /// comes next is durable.
    pub(super) fn gone(&self, in_home: &[StreamId]) -> Vec<StreamId> {
        let mut gone = Vec::new();
        for some in in_home.chunks(NOTED_AT_ONCE) {
            let state = self.lock();
            gone.extend(some.iter().filter(|stream| state.table.by_id(**stream).is_none()));
        }
        gone
    }
}

/// Streams that have bytes to move: those with more than fits a group come first.
struct Queue<'a> {
    unfinished: Vec<Moved>,
    pending: std::slice::Iter<'a, SlotNo>,
}

impl Queue<'_> {
    fn is_empty(&self) -> bool {
        self.unfinished.is_empty() && self.pending.len() == 0
    }

    /// Gives the next that has something to move, unless enough have been looked at.
    fn next(&mut self, state: &State, looked_at: &mut usize) -> Option<Moved> {
        while *looked_at < HELD.1 {
            *looked_at += 1;
            let next = match self.unfinished.pop() {
                Some(moving) => moving,
                None => Moved::begin(*self.pending.next()?, state),
            };
            let is_there = state.table.by_id(next.stream) == Some(next.slot);
            if is_there && next.end < next.goal {
                return Some(next);
            }
        }
        None
    }
}

impl State {
    /// Gives the next bytes of a stream that is moving.
    fn piece(&self, moving: &Moved) -> LogResult<Absorb> {
        let (from, region_crc) = (moving.end, moving.region_crc);
        let to = Offset((from.0 + PIECE_BYTES).min(moving.goal.0));
        let slices = self.slices(moving.slot, from, to)?;
        Ok(Absorb { stream: moving.stream, from, slices, region_crc })
    }

    /// The home has a stream's bytes, behind its barrier.
    fn note_absorbed(&mut self, moved: &Moved) {
        if self.table.by_id(moved.stream) != Some(moved.slot) {
            return;
        }
        let slot = self.table.slot_mut(moved.slot);
        slot.absorbed = moved.end;
        slot.region_crc = moved.region_crc;
        slot.flags.clear(Flags::UNABSORBED);
        if slot.durable > slot.absorbed {
            slot.flags.set(Flags::UNABSORBED);
            self.unabsorbed.push(moved.slot);
        }
        if self.table.rare(moved.slot).is_some() {
            let rare = self.table.rare_mut(moved.slot);
            rare.marks.retain(|mark| mark.offset >= moved.end);
        }
        self.table.note_change(moved.slot);
    }
}
