//! Commits: takes what is sealed, writes it, waits for the barrier, publishes.
//!
//! A failed write or barrier is final (I10): the lane is poisoned, nothing is retried, and nothing
//! that was at risk is acknowledged.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use highwater_disk::{DiskResult, File, PublishedReader};

use super::segment::{to_u64, to_usize};
use super::staging::Sealed;
pub use super::ticket::Ticket;
use super::waiters::Waiter;
use super::{Committer, Haste, Lane, PANICKED, State, Wanted};
use crate::error::LogError;
use crate::ids::Lsn;
use crate::options::{Durability, WriteBarrier};
#[cfg(feature = "planted")]
use crate::planted::Planted;
use crate::sync::MutexGuard;
#[cfg(feature = "planted")]
use crate::sync::thread;

/// What one commit writes.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(super) frames: Vec<Sealed>,
    writes: Vec<Write>,
    pub(super) end: Lsn,
    /// How long its first record waited for this commit.
    pub(super) waited: Duration,
}

impl Batch {
    pub(super) fn records(&self) -> u64 {
        self.frames.iter().map(|frame| to_u64(frame.touched.len())).sum()
    }
}

/// How long a batch's way to the disk took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    /// Absent where a write is durable by itself.
    pub write: Option<Duration>,
    pub barrier: Duration,
    pub barriers: u64,
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

/// Watches over a commit: if whoever is at it panics, the lane is turned down, since nobody else
/// could go on.
struct Watch<'a> {
    lane: &'a Lane,
    is_over: bool,
}

impl Watch<'_> {
    fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Not `Lane::lock`, which panics itself after a panic with the lock held.
        let mut state = self.lane.state.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = state.poison("whoever committed panicked".to_owned());
        drop(state);
        woken.into_iter().for_each(Waiter::wake);
        self.lane.work.notify_all();
    }
}

impl Lane {
    /// Commits what is staged, unless somebody is at it; gives whether this call did.
    ///
    /// A step of the committer, of a waiting thread, or of a test that drives the lane by hand.
    pub fn commit_step(&self) -> bool {
        let Some(batch) = self.take_batch(&mut self.lock()) else { return false };
        let watch = Watch { lane: self, is_over: false };
        let written = self.write(&batch);
        #[cfg(feature = "planted")]
        let early = (self.options.planted == Some(Planted::AckBeforeBarrier))
            .then(|| batch.writes.iter().map(|write| Arc::clone(&write.file)).collect::<Vec<_>>());
        let published = self.publish(batch, written);
        watch.end();
        if published.calls {
            self.work.notify_one();
        }
        self.wake(published.woken);
        #[cfg(feature = "planted")]
        if let Some(files) = early {
            // Others may act on what they were told before the barrier.
            thread::yield_now();
            return files.iter().all(|file| file.sync_data().is_ok());
        }
        true
    }

    /// Runs the committer until the lane is stopped: commits whatever nobody else does.
    pub(crate) fn run_committer(&self) {
        loop {
            let mut state = self.lock();
            while state.is_committing || !state.is_due() || state.poisoned.is_some() {
                if state.is_stopping && (state.staging.is_empty() || state.poisoned.is_some()) {
                    state.committer = Committer::Absent;
                    return;
                }
                state = self.wait_for_work(state);
            }
            state.committer = Committer::Awake;
            if let Some(within) = self.relaxed_within() {
                state = self.wait_for_due_time(state, within / 2);
            }
            drop(state);
            self.commit_step();
        }
    }

    /// Waits half of what is promised, so that the barrier is done before all of it is gone; not
    /// where somebody waits for the commit, or the lane is stopped.
    fn wait_for_due_time<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        wait: Duration,
    ) -> MutexGuard<'a, State> {
        let due = self.clock.monotonic().saturating_add(wait);
        while state.haste == Haste::InDueTime && !state.is_stopping {
            let left = due.saturating_sub(self.clock.monotonic());
            let (again, timeout) = self.work.wait_timeout(state, left).expect(PANICKED);
            state = again;
            if timeout.timed_out() || self.clock.monotonic() >= due {
                break;
            }
        }
        state
    }

    /// Stages a witness if one is due, or waits to be called. A thread that commits for itself
    /// calls nobody, so the committer looks by itself when a witness may be due.
    fn wait_for_work<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.committer = Committer::Waiting;
        let wait = self.until_witness(&state);
        if !wait.is_zero() {
            return self.work.wait_timeout(state, wait).expect(PANICKED).0;
        }
        if self.stage_witness(&mut state) {
            state.wanted = Wanted::Yes;
            return state;
        }
        drop(state);
        self.wake_left();
        self.lock()
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
        state.wanted = Wanted::No;
        state.haste = Haste::InDueTime;
        state.gates.begin(end);
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
        // Each segment's barrier, in order: a frame is only found behind the ones before it.
        batch.writes.iter().try_for_each(|write| write.file.sync_data())?;
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
