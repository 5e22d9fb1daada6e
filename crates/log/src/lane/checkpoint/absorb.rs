//! Copies bytes from the log to their home.

use super::super::segment::to_u64;
use super::super::{Lane, Slice, State};
use crate::error::LogResult;
use crate::home::{Absorb, Home};
use crate::ids::{Offset, StreamId};
use crate::table::SlotNo;
use crate::table::slot::Flags;

/// Bytes absorbed as one group, about: what is copied at a time.
const GROUP_BYTES: u64 = 8 << 20;
/// Streams that are noted while the lane's lock is held.
const NOTED_AT_ONCE: usize = 1024;

/// What a stream's home will have once the barrier is done.
pub(super) struct Moved {
    slot: SlotNo,
    stream: StreamId,
    end: Offset,
    region_crc: u32,
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
        let mut rest = pending;
        while !rest.is_empty() {
            let (group, taken) = self.lock().group(rest)?;
            rest = &rest[taken..];
            let crcs = home.absorb(&group)?;
            let mut state = self.lock();
            let counters = &mut state.checkpoints;
            counters.home_writes += to_u64(group.len());
            counters.home_bytes += group.iter().map(|one| to_u64(one.bytes.len())).sum::<u64>();
            moved.extend(group.iter().zip(crcs).filter_map(|(absorb, region_crc)| {
                let slot = state.table.by_id(absorb.stream)?;
                let end = Offset(absorb.from.0 + to_u64(absorb.bytes.len()));
                Some(Moved { slot, stream: absorb.stream, end, region_crc })
            }));
        }
        Ok(moved)
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

impl State {
    /// Takes streams from the front of a list until a group is full; gives how many.
    fn group(&self, pending: &[SlotNo]) -> LogResult<(Vec<Absorb>, usize)> {
        let mut group = Vec::new();
        let (mut bytes, mut taken) = (0, 0);
        for at in pending {
            if bytes >= GROUP_BYTES {
                break;
            }
            taken += 1;
            let slot = self.table.slot(*at);
            if slot.flags.has(Flags::VACANT) || slot.durable <= slot.absorbed {
                continue;
            }
            let slices = self.slices(*at, slot.absorbed, slot.durable)?;
            let parts: Vec<&[u8]> = slices.iter().map(Slice::bytes).collect();
            let joined = parts.concat();
            bytes += to_u64(joined.len());
            group.push(Absorb {
                stream: slot.id,
                from: slot.absorbed,
                bytes: joined,
                region_crc: slot.region_crc,
            });
        }
        Ok((group, taken))
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
