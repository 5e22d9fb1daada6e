//! The checkpoint: bytes move to their home, the table is made durable, segments are used again.
//!
//! R1: a segment is used again only when all its bytes are behind a barrier of their home and the
//! table that names them is durable. Every setting changes when this sequence runs, never what.

use std::sync::Arc;

use super::segment::{self, to_u64};
use super::{Lane, State};
use crate::catalog::{Catalog, LaneTable};
use crate::error::{LogError, LogResult};
use crate::format::snapshot::EntryFlags;
use crate::format::{
    Entry, ForkParent, LaneStart, Producer, SnapshotFile, SnapshotHeader, SnapshotKind,
    SnapshotWriter,
};
use crate::home::{Absorb, Home};
use crate::ids::{Lsn, Offset, StreamId};
use crate::metrics::{Laps, nanos};
use crate::options::Durability;
use crate::table::slot::{Flags, Slot};
use crate::table::{SlotNo, Table};

/// Bytes absorbed as one group, about: what is copied at a time.
const GROUP_BYTES: u64 = 8 << 20;

/// What a stream's home will have once the barrier is done.
struct Moved {
    slot: SlotNo,
    stream: StreamId,
    end: Offset,
    region_crc: u32,
}

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
        let number = catalog.next_table();
        let in_home = self.all_in_home(home)?;
        let absorbed_to = self.lock().durable;
        let moved = self.absorb(home)?;
        let absorb = laps.lap();
        self.home_barrier(home)?;
        let barrier = laps.lap();
        let (stamp, bytes, snapshot, start, orphans) = {
            let mut state = self.lock();
            state.check_healthy()?;
            state.checkpoints.absorb_ns.record(nanos(absorb));
            state.checkpoints.barrier_ns.record(nanos(barrier));
            for moved in &moved {
                state.note_absorbed(moved);
            }
            let stamp = state.staging.next_record();
            let header = SnapshotHeader {
                store_id: self.identity.store,
                number,
                lane: self.identity.lane,
                partition: 0,
                kind: SnapshotKind::Base,
                stamp,
            };
            let (bytes, summary) = encode(&state.table, &header)?;
            let start = self.lane_start(&state, absorbed_to, stamp);
            let snapshot = SnapshotFile {
                number,
                lane: self.identity.lane,
                partition: 0,
                kind: SnapshotKind::Base,
                stamp,
                len: summary.0,
                crc: summary.1,
            };
            let is_gone = |stream: &StreamId| state.table.by_id(*stream).is_none();
            let orphans: Vec<StreamId> = in_home.into_iter().filter(is_gone).collect();
            (stamp, bytes, snapshot, start, orphans)
        };
        let snapshot_took = laps.lap();
        catalog.write_table(number, &bytes)?;
        // The table holds what was staged by then: it counts only once all of that is durable.
        self.wait_until_durable(stamp)?;
        self.sync_segments()?;
        let durable_lsn = self.lock().synced;
        let start = LaneStart { durable_lsn, ..start };
        #[cfg(feature = "planted")]
        if self.options.planted == Some(crate::planted::Planted::RecycledEarly) {
            return Ok(self.retire(start.replay_from));
        }
        catalog.publish(&LaneTable { start, snapshot }).map_err(|error| {
            if catalog.is_uncertain() {
                self.make_read_only(&format!("the superblock: {error}"));
            }
            LogError::from(error)
        })?;
        let publish = laps.lap();
        self.lock().forget_orphans(orphans);
        let freed = self.retire(start.replay_from);
        self.remove_dead(home)?;
        let retire = removal + laps.lap();
        let counters = &mut self.lock().checkpoints;
        counters.table_bytes += to_u64(bytes.len());
        counters.snapshot_ns.record(nanos(snapshot_took));
        counters.publish_ns.record(nanos(publish));
        counters.retire_ns.record(nanos(retire));
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
            self.make_read_only(&format!("a barrier of the home failed: {error}"));
            error.into()
        })
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

    /// Copies what is durable and not absorbed to the home, group by group.
    fn absorb(&self, home: &dyn Home) -> LogResult<Vec<Moved>> {
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
            if state.staging.is_empty() && !state.is_committing {
                return Ok(());
            }
            if state.durable >= stamp {
                return Ok(());
            }
            drop(state);
            if !self.commit_step() {
                // Somebody else is at it.
                std::thread::yield_now();
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
        let mut state = self.lock();
        state.synced = state.synced.max(written);
        Ok(())
    }

    /// Gives back the segments before a position; says whether there were any.
    fn retire(&self, replay_from: Lsn) -> bool {
        let segment_bytes = self.identity.segment_bytes;
        let mut state = self.lock();
        let mut freed = false;
        while state.segments.len() > 1 {
            let end = segment::start(state.segments[0].number, segment_bytes).0 + segment_bytes;
            if end > replay_from.0 {
                break;
            }
            let first = state.segments.pop_front().expect("there is more than one");
            state.give_back(first);
            state.checkpoints.freed_segments += 1;
            freed = true;
        }
        assert!(
            state.segments[0].number.0 * segment_bytes <= replay_from.0,
            "R1: no segment that replay needs is used again"
        );
        state.keep_reserve();
        state.count_images(&self.images);
        freed
    }

    /// Gives back the space of streams whose end is durable: before anything else, since a full
    /// disk has no room for the rest. Replay finds the record of their end, or the table is
    /// without them.
    fn remove_dead(&self, home: &dyn Home) -> LogResult<()> {
        if self.lock().dead.is_empty() {
            return Ok(());
        }
        // I5: a power cut must not bring back a stream whose bytes are gone.
        self.sync_segments()?;
        let dead = std::mem::take(&mut self.lock().dead);
        for (at, stream) in dead.iter().enumerate() {
            if let Err(error) = home.remove(*stream) {
                self.lock().dead.extend(&dead[at..]);
                return Err(error.into());
            }
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
            let parts: Vec<&[u8]> = slices.iter().map(super::Slice::bytes).collect();
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
    }
}

/// Encodes the whole table; gives its length and checksum besides.
fn encode(table: &Table, header: &SnapshotHeader) -> LogResult<(Vec<u8>, (u64, u32))> {
    let mut bytes = Vec::new();
    let mut writer = SnapshotWriter::new(header, &mut bytes);
    for (at, slot) in table.iter() {
        let entry = entry(table, at, slot);
        writer
            .push(&entry, &mut bytes)
            .map_err(|source| LogError::Damaged { place: format!("stream {}", slot.id), source })?;
    }
    let summary = writer.finish(&mut bytes);
    Ok((bytes, (summary.len, summary.crc)))
}

fn entry<'a>(table: &'a Table, at: SlotNo, slot: &'a Slot) -> Entry<'a> {
    let rare = table.rare(at);
    let mut flags = EntryFlags::default();
    if slot.flags.has(Flags::CLOSED) {
        flags = flags | EntryFlags::CLOSED;
    }
    if slot.flags.has(Flags::SOFT_DELETED) {
        flags = flags | EntryFlags::SOFT_DELETED;
    }
    let config = &slot.config;
    let text = Some(config.content_type.as_str()).filter(|text| !text.is_empty());
    let metadata = Some(config.metadata.as_slice()).filter(|bytes| !bytes.is_empty());
    let parent = rare.and_then(|rare| rare.parent);
    let mut by_use: Vec<_> = rare.into_iter().flat_map(|rare| &rare.producers).collect();
    by_use.sort_by_key(|(_, state)| state.at);
    let producers = by_use
        .into_iter()
        .map(|(id, state)| Producer { id: id.as_bytes(), epoch: state.epoch, seq: state.sequence })
        .collect();
    let closed_by = rare.and_then(|rare| rare.closed_by.as_ref());
    Entry {
        stream: slot.id,
        flags,
        base: parent.map_or(Offset(0), |parent| parent.offset),
        absorbed: slot.absorbed,
        tail: slot.tail,
        region_crc: slot.region_crc,
        forks: rare.map_or(0, |rare| rare.forks),
        last_touched_ms: rare.map_or(0, |rare| rare.touched_ms),
        name: Some(&slot.name),
        content_type: text,
        expiry: config.expiry,
        fork_parent: parent.map(|p| ForkParent { stream: p.stream, offset: p.offset }),
        sequence: rare.and_then(|rare| rare.sequence.as_deref()),
        closed_by: closed_by.map(|closed_by| Producer {
            id: closed_by.id.as_bytes(),
            epoch: closed_by.epoch,
            seq: closed_by.sequence,
        }),
        metadata,
        producers,
    }
}
