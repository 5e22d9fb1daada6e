//! Commits: takes what is sealed, writes it, waits for the barrier, publishes.
//!
//! A failed write or barrier is final (I10): the lane is poisoned, nothing is retried, and nothing
//! that was at risk is acknowledged.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use highwater_disk::{DiskResult, File, PublishedReader};

use super::segment::{to_u64, to_usize};
use super::staging::Sealed;
use super::waiters::Waiter;
use super::{Lane, State};
use crate::error::{LogError, LogResult};
use crate::ids::Lsn;
use crate::metrics::{CommitMetrics, nanos};
use crate::options::{Durability, WriteBarrier};
#[cfg(feature = "planted")]
use crate::planted::Planted;
use crate::table::slot::{Flags, Position};

/// What one commit writes.
#[derive(Debug)]
pub(crate) struct Batch {
    frames: Vec<Sealed>,
    writes: Vec<Write>,
    end: Lsn,
    /// How long its first record waited for this commit.
    waited: Duration,
}

/// How long a batch's way to the disk took.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    /// Absent where a write is durable by itself.
    write: Option<Duration>,
    barrier: Duration,
    barriers: u64,
}

/// One contiguous write.
#[derive(Debug)]
struct Write {
    file: Arc<dyn File>,
    image: PublishedReader,
    start: u64,
    len: u64,
}

impl Write {
    fn bytes(&self) -> &[u8] {
        &self.image.bytes()[to_usize(self.start)..to_usize(self.start + self.len)]
    }
}

/// A promise of an acknowledgement.
#[derive(Debug)]
#[must_use = "an operation is acknowledged when its ticket is done"]
pub struct Ticket<T> {
    lane: Arc<Lane>,
    /// Done when the log is durable beyond this.
    at: Lsn,
    value: Option<T>,
}

impl<T> Ticket<T> {
    pub(super) fn new(lane: &Arc<Lane>, at: Lsn, value: T) -> Self {
        Self { lane: Arc::clone(lane), at, value: Some(value) }
    }

    /// Waits until the operation is as durable as the log promises, and gives its answer.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when a write or barrier failed before.
    pub fn wait(mut self) -> LogResult<T> {
        let value = self.value.take().expect("a ticket is waited for once");
        self.lane.wait_for(self.at)?;
        Ok(value)
    }
}

impl<T> Ticket<T> {
    /// Whether the answer to come fulfils a condition.
    pub(crate) fn is(&self, condition: impl FnOnce(&T) -> bool) -> bool {
        self.value.as_ref().is_some_and(condition)
    }
}

impl<T: Unpin> Future for Ticket<T> {
    type Output = LogResult<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ticket = self.get_mut();
        match ticket.lane.poll_for(ticket.at, context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) => {
                let value = ticket.value.take().expect("a ticket is not polled after it was done");
                Poll::Ready(Ok(value))
            }
        }
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        // Whoever walks away leaves the work to the committer: the record is staged, and readers
        // wait for it.
        if self.value.is_some() {
            self.lane.kick();
        }
    }
}

impl Lane {
    /// Commits what is staged, unless somebody is at it; gives whether this call did.
    ///
    /// A step of the committer, of a waiting thread, or of a test that drives the lane by hand.
    pub fn commit_step(&self) -> bool {
        let Some(batch) = self.take_batch(&mut self.lock()) else { return false };
        let written = self.write(&batch);
        #[cfg(feature = "planted")]
        let written = if self.options.planted == Some(Planted::AckBeforeBarrier) {
            let (woken, _) = self.publish(&batch, written);
            woken.into_iter().for_each(Waiter::wake);
            return Self::sync(&batch).is_ok();
        } else {
            written
        };
        let (woken, has_more) = self.publish(&batch, written);
        self.wake(woken);
        if has_more {
            self.work.notify_one();
        }
        true
    }

    /// Runs the committer until the lane is stopped: commits whatever nobody else does.
    pub(crate) fn run_committer(&self) {
        loop {
            let mut state = self.lock();
            while state.is_committing || state.staging.is_empty() || state.poisoned.is_some() {
                if state.is_stopping && (state.staging.is_empty() || state.poisoned.is_some()) {
                    return;
                }
                state = self.work.wait(state).expect("nobody panics with the lane's lock held");
            }
            drop(state);
            if let Some(within) = self.relaxed_within() {
                // Half of what is promised, so that the barrier is done before all of it is gone.
                std::thread::park_timeout(within / 2);
            }
            self.commit_step();
        }
    }

    /// Waits until the log is durable beyond a position, committing itself if nobody does.
    fn wait_for(&self, at: Lsn) -> LogResult<()> {
        if self.relaxed_within().is_some() {
            self.kick();
            let state = self.lock();
            if self.may_acknowledge(&state, at) {
                return state.check_healthy();
            }
        }
        loop {
            let mut state = self.lock();
            if self.may_acknowledge(&state, at) {
                return Ok(());
            }
            state.check_healthy()?;
            // Who is durable and still waits, waits for a checkpoint.
            if state.is_committing || state.durable > at {
                state.waiters.add(at, Waiter::Thread(std::thread::current()));
                drop(state);
                std::thread::park();
                continue;
            }
            drop(state);
            self.commit_step();
        }
    }

    fn poll_for(&self, at: Lsn, context: &Context<'_>) -> Poll<LogResult<()>> {
        let mut state = self.lock();
        if self.may_acknowledge(&state, at) {
            self.work.notify_one();
            // What is durable stays so, whatever failed since.
            let is_durable = state.durable > at;
            return Poll::Ready(if is_durable { Ok(()) } else { state.check_healthy() });
        }
        if let Err(error) = state.check_healthy() {
            return Poll::Ready(Err(error));
        }
        state.waiters.add(at, Waiter::Task(context.waker().clone()));
        let is_idle = !state.is_committing;
        drop(state);
        if is_idle {
            self.work.notify_one();
        }
        Poll::Pending
    }

    /// Tells the committer that something is staged that nobody waits for.
    pub(super) fn kick(&self) {
        let state = self.lock();
        if !state.is_committing && !state.staging.is_empty() {
            self.work.notify_one();
        }
    }

    fn take_batch(&self, state: &mut State) -> Option<Batch> {
        if state.is_committing || state.poisoned.is_some() {
            return None;
        }
        state.staging.seal(state.synced, self.now_ms());
        let frames = state.staging.take_sealed();
        let end = frames.last()?.end;
        let mut writes: Vec<Write> = Vec::new();
        let mut last_segment = None;
        for frame in &frames {
            match writes.last_mut() {
                // Frames of one segment lie behind each other.
                Some(write) if last_segment == Some(frame.segment) => write.len += frame.len,
                _ => {
                    let segment = state.segment(frame.segment);
                    writes.push(Write {
                        file: Arc::clone(&segment.file),
                        image: segment.image.clone(),
                        start: frame.start,
                        len: frame.len,
                    });
                    last_segment = Some(frame.segment);
                }
            }
        }
        state.is_committing = true;
        state.staged_bytes = 0;
        let waited = self.clock.monotonic().saturating_sub(state.waiting_since);
        Some(Batch { frames, writes, end, waited })
    }

    fn write(&self, batch: &Batch) -> DiskResult<Spent> {
        let begun = self.clock.monotonic();
        if self.writes_durably() {
            // Each segment's write in order: a frame is only found behind the ones before it.
            for write in &batch.writes {
                write.file.write_durable_at(write.bytes(), write.start)?;
            }
            let barrier = self.clock.monotonic().saturating_sub(begun);
            let barriers = to_u64(batch.writes.len());
            return Ok(Spent { barrier, barriers, write: None });
        }
        for write in &batch.writes {
            write.file.write_at(write.bytes(), write.start)?;
        }
        let written = self.clock.monotonic();
        let spent = Spent { write: Some(written.saturating_sub(begun)), ..Spent::default() };
        if self.options.durability == Durability::Memory {
            return Ok(spent);
        }
        #[cfg(feature = "planted")]
        if self.options.planted == Some(Planted::AckBeforeBarrier) {
            return Ok(spent);
        }
        Self::sync(batch)?;
        let barrier = self.clock.monotonic().saturating_sub(written);
        Ok(Spent { barrier, barriers: to_u64(batch.writes.len()), ..spent })
    }

    /// Whether a write is its own barrier.
    fn writes_durably(&self) -> bool {
        #[cfg(feature = "planted")]
        if self.options.planted == Some(Planted::AckBeforeBarrier) {
            return false;
        }
        self.write_path.path.barrier == WriteBarrier::Dsync
            && self.options.durability != Durability::Memory
    }

    /// Each segment's barrier, in order: a frame is only found behind the ones before it.
    fn sync(batch: &Batch) -> DiskResult<()> {
        batch.writes.iter().try_for_each(|write| write.file.sync_data())
    }

    /// Makes a written batch visible, or poisons the lane; gives whom to wake, and whether more
    /// is staged.
    fn publish(&self, batch: &Batch, written: DiskResult<Spent>) -> (Vec<Waiter>, bool) {
        let mut state = self.lock();
        let begun = self.clock.monotonic();
        state.is_committing = false;
        let spent = match written {
            Ok(spent) => spent,
            Err(error) => {
                let woken = state.poison(error.to_string());
                drop(state);
                self.work.notify_all();
                return (woken, false);
            }
        };
        assert!(batch.end > state.durable, "I2: what is durable only grows");
        state.durable = batch.end;
        if self.options.durability != Durability::Memory {
            state.synced = batch.end;
        }
        let mut woken = std::mem::take(&mut state.ended);
        for touched in batch.frames.iter().flat_map(|frame| &frame.touched) {
            if touched.deletes {
                state.dead.push(touched.id);
                state.released.extend(touched.releases);
            }
            let is_same = state.table.by_id(touched.id) == Some(touched.slot);
            if !is_same {
                continue;
            }
            let slot = state.table.slot_mut(touched.slot);
            slot.durable = slot.durable.max(touched.tail);
            slot.last_durable = Some(Position::new(touched.at));
            slot.flags.set(Flags::VISIBLE);
            if touched.closes {
                slot.flags.set(Flags::CLOSED_VISIBLE);
            }
            let is_new = slot.durable > slot.absorbed && !slot.flags.has(Flags::UNABSORBED);
            if is_new {
                slot.flags.set(Flags::UNABSORBED);
            }
            let is_watched = slot.flags.has(Flags::WATCHED);
            if is_new {
                state.unabsorbed.push(touched.slot);
            }
            let slot = state.table.slot_mut(touched.slot);
            if is_watched {
                slot.flags.clear(Flags::WATCHED);
                woken.extend(state.watchers.remove(&touched.slot).unwrap_or_default());
            }
        }
        if !state.released.is_empty() {
            self.maintenance.ask();
        }
        let done = state.acknowledged();
        state.waiters.take_before(done, &mut woken);
        let publish = self.clock.monotonic().saturating_sub(begun);
        count(&mut state.commits, batch, spent, publish);
        (woken, !state.staging.is_empty())
    }

    /// Wakes, without the lock; how long it took is counted under it.
    fn wake(&self, woken: Vec<Waiter>) {
        if woken.is_empty() {
            return;
        }
        let begun = self.clock.monotonic();
        woken.into_iter().for_each(Waiter::wake);
        let took = self.clock.monotonic().saturating_sub(begun);
        self.wakes.lock().expect("nobody panics with this lock held").record(nanos(took));
    }

    /// Everything before it is durable.
    pub fn durable(&self) -> Lsn {
        self.lock().durable
    }

    /// Whether a write or barrier has failed.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when one has.
    pub fn check(&self) -> Result<(), LogError> {
        self.lock().check_healthy()
    }
}

/// Counts a commit that is durable.
fn count(metrics: &mut CommitMetrics, batch: &Batch, spent: Spent, publish: Duration) {
    let records = batch.frames.iter().map(|frame| to_u64(frame.touched.len())).sum();
    metrics.commits += 1;
    metrics.frames += to_u64(batch.frames.len());
    metrics.records += records;
    metrics.bytes += batch.writes.iter().map(|write| write.len).sum::<u64>();
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
