//! The checkpoint: bytes move to their home, the table is made durable, segments are used again.
//!
//! R1: a segment is used again only when all its bytes are behind a barrier of their home and the
//! table that names them is durable. Every setting changes when this sequence runs, never what.
//!
//! Walk: `absorb` moves bytes home, `tables` writes what changed of the table, `section` a single
//! partition of it.

mod absorb;
mod section;
mod tables;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::segment::{self, to_u64};
use super::{Lane, State};
use crate::catalog::{Catalog, LaneTable};
use crate::error::{LogError, LogResult};
use crate::format::LaneStart;
use crate::home::Home;
use crate::ids::{Lsn, StreamId};
use crate::metrics::{Laps, nanos};
use crate::options::Durability;
use tables::Tables;

impl Lane {
    /// Runs one checkpoint; gives whether it freed a segment.
    ///
    /// # Errors
    /// The disk's. The log keeps its segments, which have every byte. After a failed barrier
    /// nothing may be taken for absorbed any more: the lane is read-only, and no segment is given
    /// back.
    pub(crate) fn checkpoint(&self, home: &dyn Home, catalog: &Catalog) -> LogResult<bool> {
        // One at a time: two would absorb the same bytes.
        let _alone = self.maintenance.alone();
        let done = self.checkpoint_alone(home, catalog);
        let counters = &mut self.lock().checkpoints;
        counters.checkpoints += u64::from(done.is_ok());
        counters.failures += u64::from(done.is_err());
        done
    }

    fn checkpoint_alone(&self, home: &dyn Home, catalog: &Catalog) -> LogResult<bool> {
        self.check_writable()?;
        let mut laps = Laps::new(&*self.clock);
        self.remove_dead(home)?;
        let removal = laps.lap();
        let in_home = self.all_in_home(home)?;
        let absorbed_to = self.lock().durable;
        let moved = self.absorb(home)?;
        let absorb = laps.lap();
        self.home_barrier(home).inspect_err(|_| self.keep_unabsorbed(&moved))?;
        let barrier = laps.lap();
        {
            let counters = &mut self.lock().checkpoints;
            counters.absorb_ns.record(nanos(absorb));
            counters.barrier_ns.record(nanos(barrier));
        }
        self.note_absorbed(&moved)?;
        let orphans = self.gone(&in_home);
        let published = self.write_table(catalog, absorbed_to, &mut laps);
        let mut state = self.lock();
        let replay_from = match published {
            Ok(replay_from) => replay_from,
            Err(error) => {
                state.table.partitions_mut().give_up();
                return Err(error);
            }
        };
        state.table.partitions_mut().settle();
        state.forget_orphans(orphans);
        drop(state);
        let freed = self.retire(replay_from);
        self.remove_dead(home)?;
        let retire = removal + laps.lap();
        self.lock().checkpoints.retire_ns.record(nanos(retire));
        Ok(freed)
    }

    /// Makes what was absorbed durable.
    fn home_barrier(&self, home: &dyn Home) -> LogResult<()> {
        let done = home.barrier();
        #[cfg(feature = "planted")]
        let done = match self.options.planted {
            Some(crate::planted::Planted::HomeFailureIgnored) => Ok(()),
            _ => done,
        };
        done.map_err(|error| {
            if error.is_barrier() {
                self.make_read_only(&format!("a barrier of the home failed: {error}"));
            }
            error.into()
        })
    }

    /// Makes what changed of the table durable, and has it counted; gives where replay starts then.
    fn write_table(
        &self,
        catalog: &Catalog,
        absorbed_to: Lsn,
        laps: &mut Laps<'_>,
    ) -> LogResult<Lsn> {
        let mut file = catalog.begin_table(self.identity.lane);
        let written = Tables::new(self, &mut file).write_all(absorbed_to)?;
        file.sync()?;
        let snapshot = laps.lap();
        // The table holds what was staged by then: it counts only once all of that is durable.
        self.wait_until_durable(written.stamp)?;
        self.sync_segments()?;
        let (number, len, mut start) = (file.number(), file.len(), written.start);
        {
            let mut state = self.lock();
            start.durable_lsn = state.synced;
            assert!(
                written.stamp <= start.durable_lsn || planted!(self.options, TableAhead),
                "R1: the log is durable past every stamp"
            );
            state.table.partitions_mut().files.insert(number, len);
        }
        #[cfg(feature = "planted")]
        if self.options.planted == Some(crate::planted::Planted::RecycledEarly) {
            return Ok(start.replay_from);
        }
        let table = LaneTable { start, sections: written.sections };
        catalog.publish(&table, file).map_err(|error| {
            if catalog.is_uncertain() {
                self.make_read_only(&format!("the superblock: {error}"));
            }
            LogError::from(error)
        })?;
        let publish = laps.lap();
        let counters = &mut self.lock().checkpoints;
        counters.table_bytes += len;
        counters.snapshot_ns.record(nanos(snapshot));
        counters.publish_ns.record(nanos(publish));
        Ok(start.replay_from)
    }

    /// Streams of this lane that the home has anything of; nothing after the first checkpoint. A
    /// crash between a table without a stream and the removal of its bytes leaves them behind.
    fn all_in_home(&self, home: &dyn Home) -> LogResult<Vec<StreamId>> {
        if self.lock().has_no_orphans {
            return Ok(Vec::new());
        }
        let mut streams = home.streams()?;
        streams.retain(|stream| stream.lane() == self.identity.lane);
        Ok(streams)
    }

    /// Where replay starts once everything before `absorbed_to` is in its home.
    fn lane_start(&self, state: &State, absorbed_to: Lsn, stamp: Lsn) -> LaneStart {
        let segment_bytes = self.identity.segment_bytes;
        let (number, _) = segment::split(absorbed_to, segment_bytes);
        let first = state.find_segment(number).or(state.segments.back());
        let first = first.expect("a lane has a segment");
        let block = to_u64(crate::format::BLOCK_BYTES);
        LaneStart {
            lane: self.identity.lane,
            epoch: state.staging.epoch(),
            replay_from: Lsn(segment::start(first.number, segment_bytes).0 + block),
            durable_lsn: stamp,
            next_stream: state.next_stream,
            prev_crc: Some(first.prev_crc),
        }
    }

    fn wait_until_durable(&self, stamp: Lsn) -> LogResult<()> {
        loop {
            let state = self.lock();
            state.check_healthy()?;
            if planted!(self.options, TableAhead) {
                return Ok(());
            }
            if state.durable >= stamp {
                return Ok(());
            }
            drop(state);
            if !self.commit_step() {
                // Somebody else is at it.
                crate::sync::thread::yield_now();
            }
        }
    }

    /// Puts the log behind a barrier where commits do not: a table must not outlive the records
    /// that it stands on, nor an epoch's records its start.
    ///
    /// # Errors
    /// The disk's, and final.
    pub(crate) fn sync_segments(&self) -> LogResult<()> {
        if self.options.durability != Durability::Memory {
            return Ok(());
        }
        let (files, written) = {
            let state = self.lock();
            // A barrier that failed is not tried again.
            state.check_healthy()?;
            let files = state.segments.iter().map(|segment| Arc::clone(&segment.file));
            (files.collect::<Vec<_>>(), state.durable)
        };
        let synced = files.iter().try_for_each(|file| file.sync_data());
        synced.inspect_err(|error| self.fail(&format!("the log's barrier: {error}")))?;
        // A barrier of the home may cover all of a device. If it failed before, what was written
        // without a barrier may be lost, and the log's own barrier knows nothing of it.
        if let Err(error) = self.home.check() {
            let why = format!("the home's barrier: {error}");
            self.make_read_only(&why);
            return Err(LogError::ReadOnly(why));
        }
        let mut state = self.lock();
        state.synced = state.synced.max(written);
        Ok(())
    }

    /// Gives back the segments before a position; says whether there were any.
    fn retire(&self, replay_from: Lsn) -> bool {
        let segment_bytes = self.identity.segment_bytes;
        let mut state = self.lock();
        let mut images = Vec::new();
        while state.segments.len() > 1 {
            let end = segment::start(state.segments[0].number, segment_bytes).0 + segment_bytes;
            if end > replay_from.0 {
                break;
            }
            let first = state.segments.pop_front().expect("there is more than one");
            images.push(state.give_back(first));
            state.checkpoints.freed_segments += 1;
        }
        assert!(
            state.segments[0].number.0 * segment_bytes <= replay_from.0,
            "R1: no segment that replay needs is used again"
        );
        state.keep_reserve();
        drop(state);
        let freed = !images.is_empty();
        drop(images);
        self.count_images();
        freed
    }

    /// Gives back the space of streams whose end is durable: before anything else, since a full
    /// disk has no room for the rest. Replay finds the record of their end, or the table is
    /// without them.
    fn remove_dead(&self, home: &dyn Home) -> LogResult<()> {
        // Whoever dies from here on waits for the next time: the barrier is not for them.
        let mut dead = std::mem::take(&mut self.lock().dead);
        if dead.is_empty() {
            return Ok(());
        }
        let removed = self.remove_from(home, &mut dead);
        self.lock().dead.append(&mut dead);
        removed
    }

    /// Removes streams from the home, one after the other, behind a barrier of their end.
    fn remove_from(&self, home: &dyn Home, dead: &mut Vec<StreamId>) -> LogResult<()> {
        // I5: a power cut must not bring back a stream whose bytes are gone.
        if !planted!(self.options, DeadTooEarly) {
            self.sync_segments()?;
        }
        while let Some(stream) = dead.last() {
            home.remove(*stream)?;
            dead.pop();
        }
        Ok(())
    }
}

impl State {
    /// Has streams removed from the home that a durable table does not have.
    fn forget_orphans(&mut self, orphans: Vec<StreamId>) {
        self.dead.extend(orphans);
        self.has_no_orphans = true;
    }
}
