//! Publishes: a batch that is durable becomes visible, and whoever waited for it is woken.
//!
//! The walk is over the batch's own list of what it changes: it does not depend on anybody who
//! asked for it being there still.

use std::sync::atomic::Ordering;
use std::time::Duration;

use highwater_disk::DiskResult;

use super::commit::{Batch, Spent};
use super::segment::to_u64;
use super::staging::Touched;
use super::waiters::Waiter;
use super::{Committer, Lane, State, Wanted};
use crate::metrics::{CommitMetrics, nanos};
use crate::options::{Durability, Options};
use crate::table::slot::{Flags, Position};

/// What is left to do, without the lock, when a batch is published.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// Whom to wake.
    pub woken: Vec<Waiter>,
    /// Whether the committer is to be called: more is staged, and it waits.
    pub calls: bool,
}

impl Lane {
    /// Makes a written batch visible, or poisons the lane.
    pub(super) fn publish(&self, batch: Batch, written: DiskResult<Spent>) -> Published {
        if planted!(self.options, MarkedBeforeShown) && written.is_ok() {
            self.acked.fetch_max(batch.end.0, Ordering::Release);
        }
        let mut state = self.lock();
        let begun = self.clock.monotonic();
        state.is_committing = false;
        state.gates.done();
        let spent = match written {
            Ok(spent) => spent,
            Err(error) => {
                let woken = state.poison(error.to_string());
                drop(state);
                self.work.notify_all();
                return Published { woken, calls: false };
            }
        };
        assert!(batch.end > state.durable, "I2: what is durable only grows");
        state.durable = batch.end;
        if self.options.durability != Durability::Memory {
            state.synced = batch.end;
        }
        let mut woken = std::mem::take(&mut state.ended);
        for touched in batch.frames.iter().flat_map(|frame| &frame.touched) {
            state.show(touched, &self.options, &mut woken);
        }
        if !state.released.is_empty() {
            self.maintenance.ask();
        }
        let done = state.acknowledged();
        self.acked.fetch_max(done.0, Ordering::Release);
        state.waiters.take_before(done, &mut woken);
        state.last_records = batch.records();
        state.last_commit = begun;
        state.last_took = spent.barrier.saturating_add(spent.write.unwrap_or_default());
        let publish = self.clock.monotonic().saturating_sub(begun);
        count(&mut state.commits, &batch, spent, publish);
        state.staging.give_back(batch.frames);
        self.ask_for_memory(&mut state);
        let calls = state.committer == Committer::Waiting
            && state.wanted == Wanted::Yes
            && !state.staging.is_empty()
            && !planted!(self.options, CommitterForgotten);
        if calls {
            state.committer = Committer::Awake;
        }
        Published { woken, calls }
    }

    /// Wakes, without the lock.
    pub(super) fn wake(&self, woken: Vec<Waiter>) {
        if woken.is_empty() {
            return;
        }
        let begun = self.clock.monotonic();
        woken.into_iter().for_each(Waiter::wake);
        let took = self.clock.monotonic().saturating_sub(begun);
        self.wakes.lock().expect("nobody panics with this lock held").record(nanos(took));
    }
}

impl State {
    /// Shows readers what a record did.
    fn show(&mut self, touched: &Touched, options: &Options, woken: &mut Vec<Waiter>) {
        if touched.deletes {
            self.dead.push(touched.id);
            if !planted!(options, ReleasedEarly) {
                self.released.extend(touched.releases);
            }
        }
        // The slot may be another stream's by now.
        let is_its = self.table.is_at(touched.slot, touched.id);
        #[cfg(feature = "planted")]
        let is_its = is_its || planted!(options, SlotMistaken) && self.table.has(touched.slot);
        if !is_its {
            return;
        }
        let slot = self.table.slot_mut(touched.slot);
        slot.durable = slot.durable.max(touched.tail);
        slot.last_durable = Some(Position::new(touched.at));
        slot.flags.set(Flags::VISIBLE);
        if touched.closes {
            slot.flags.set(Flags::CLOSED_VISIBLE);
        }
        let is_watched = slot.flags.has(Flags::WATCHED);
        slot.flags.clear(Flags::WATCHED);
        if slot.durable > slot.absorbed && !slot.flags.has(Flags::UNABSORBED) {
            slot.flags.set(Flags::UNABSORBED);
            self.unabsorbed.push(touched.slot);
        }
        if is_watched {
            self.watchers.take(touched.slot, woken);
        }
    }
}

/// Counts a commit that is durable.
fn count(metrics: &mut CommitMetrics, batch: &Batch, spent: Spent, publish: Duration) {
    let records = batch.records();
    metrics.commits += 1;
    metrics.frames += to_u64(batch.frames.len());
    metrics.records += records;
    metrics.bytes += batch.frames.iter().map(|frame| frame.len).sum::<u64>();
    metrics.barriers += spent.barriers;
    metrics.batch_records.record(records);
    metrics.wait_ns.record(nanos(batch.waited));
    if let Some(write) = spent.write {
        metrics.write_ns.record(nanos(write));
    }
    if spent.barriers > 0 {
        metrics.barrier_ns.record(nanos(spent.barrier));
    }
    metrics.publish_ns.record(nanos(publish));
}
