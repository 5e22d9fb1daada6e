//! What moves bytes home: one keeper for the whole log. Files are `supplier`'s, by a thread of its
//! own: a checkpoint may take longer than a segment lasts.
//!
//! A checkpoint of a lane is due when its segments have grown past a threshold, when an interval is
//! over, or when all lanes' images take too much memory. Lanes differ in threshold and in the
//! moment of their interval, so that they take turns; one checkpoint is under way at a time.
//!
//! What a failure means is decided here, in one place. A full disk passes: the log still has the
//! bytes, and the keeper tries again, each time a little later. Any other failure turns the lane
//! read-only: its bytes stay in the log, and are never given up for bytes that a home may have lost
//! (R1). A panic turns it down for good: what the table says may no longer be so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use highwater_disk::{Clock, DiskError, ErrorKind};

use crate::catalog::Catalog;
use crate::error::{LogError, LogResult, OpenError};
use crate::home::Home;
use crate::lane::{Hold, Images, Lane};
use crate::log::tend;
use crate::options::Options;

/// Shortest and longest time from a failure that passes to the next try.
pub(crate) const RETRY: (Duration, Duration) =
    (Duration::from_millis(200), Duration::from_secs(10));

/// Asks for maintenance, and for its end.
#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    state: Mutex<Asked>,
    changed: Condvar,
    /// Held by the checkpoint under way.
    alone: Mutex<()>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Asked {
    checkpoints: bool,
    files: bool,
    end: bool,
}

/// Who waits to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worker {
    /// Who runs checkpoints.
    Keeper,
    /// Who makes files ready.
    Supplier,
}

impl Asked {
    fn of(&mut self, worker: Worker) -> &mut bool {
        match worker {
            Worker::Keeper => &mut self.checkpoints,
            Worker::Supplier => &mut self.files,
        }
    }
}

impl Maintenance {
    /// Asks for a look at all lanes soon.
    pub fn ask(&self) {
        {
            let mut asked = self.lock();
            (asked.checkpoints, asked.files) = (true, true);
        }
        self.changed.notify_all();
    }

    /// Asks for files and memory for what is staged next.
    pub fn ask_for_files(&self) {
        self.lock().files = true;
        self.changed.notify_all();
    }

    /// Asks the threads to end.
    pub fn end(&self) {
        self.lock().end = true;
        self.changed.notify_all();
    }

    /// Waits until no other checkpoint is under way: two of a lane would absorb the same bytes, and
    /// two of different lanes would take turns at the disk.
    pub fn alone(&self) -> MutexGuard<'_, ()> {
        // It guards nothing that a panic could leave half done; the lane that panicked is down.
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until asked, or for a while; gives false at the end.
    pub fn wait(&self, worker: Worker, longest: Duration) -> bool {
        let asked = self.lock();
        let idle = |asked: &mut Asked| !*asked.of(worker) && !asked.end;
        let (mut asked, _) = self
            .changed
            .wait_timeout_while(asked, longest, idle)
            .expect("nobody panics with this lock held");
        *asked.of(worker) = false;
        !asked.end
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.state.lock().expect("nobody panics with this lock held")
    }
}

/// Runs a checkpoint of a lane, and draws the conclusion from a failure.
///
/// # Errors
/// The disk's; afterwards the lane goes on, if the failure passes, or is read-only.
pub(crate) fn checkpoint(lane: &Lane, home: &dyn Home, catalog: &Catalog) -> LogResult<bool> {
    let run = || lane.checkpoint(home, catalog);
    let done = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let why = "a checkpoint panicked".to_owned();
        lane.fail(&why);
        Err(LogError::Poisoned(why))
    });
    match &done {
        Ok(_) => lane.hold(Hold::FromMark),
        Err(LogError::ReadOnly(_) | LogError::Poisoned(_) | LogError::Closed) => {}
        // Nobody waits for room that does not come.
        Err(error) if passes(error) => lane.hold(Hold::Nothing),
        Err(error) => lane.make_read_only(&format!("a checkpoint failed: {error}")),
    }
    done
}

/// Whether a failure is over when there is space again.
fn passes(error: &LogError) -> bool {
    let of_disk = |error: &DiskError| {
        // A barrier that found no space may have lost what it should have covered.
        !error.is_barrier() && matches!(error.kind, ErrorKind::Full | ErrorKind::TooManyFiles)
    };
    match error {
        LogError::Full(_) | LogError::Busy(_) => true,
        LogError::Disk(error) | LogError::Open(OpenError::Disk(error)) => of_disk(error),
        _ => false,
    }
}

/// Looks after all lanes.
#[derive(Debug)]
pub(crate) struct Keeper {
    lanes: Vec<Arc<Lane>>,
    paces: Vec<Pace>,
    home: Arc<dyn Home>,
    catalog: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    images: Arc<Images>,
    asked: Arc<Maintenance>,
    interval: Duration,
    max_image_bytes: u64,
    /// How long nothing is due, unless somebody asks.
    next_look: Duration,
}

/// When a lane's checkpoint is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pace {
    /// Bytes of segments beyond which it is.
    wal_bytes: u64,
    /// When its interval is over.
    next: Duration,
    /// Not before this, after a failure.
    not_before: Duration,
    /// Failures one after the other.
    failures: u32,
}

/// What a keeper stands on.
#[derive(Debug)]
pub(crate) struct Kept {
    pub lanes: Vec<Arc<Lane>>,
    pub home: Arc<dyn Home>,
    pub catalog: Arc<Catalog>,
    pub clock: Arc<dyn Clock>,
    pub images: Arc<Images>,
    pub asked: Arc<Maintenance>,
}

impl Keeper {
    /// Makes one, lanes in step with each other from the first interval on.
    pub fn new(kept: Kept, options: &Options) -> Self {
        let Kept { lanes, home, catalog, clock, images, asked } = kept;
        let now = clock.monotonic();
        let count = u32::try_from(lanes.len()).expect("lanes have 16 bits");
        let paces = (0..count).map(|number| Pace::of(number, count, (now, options))).collect();
        let (interval, max_image_bytes) = (options.checkpoint_interval, options.max_image_bytes);
        Self {
            lanes,
            paces,
            home,
            catalog,
            clock,
            images,
            asked,
            interval,
            max_image_bytes,
            next_look: Duration::ZERO,
        }
    }

    /// Says that checkpoints come by themselves from now on: before the thread is started, since
    /// writers may outrun its first moment.
    pub fn begin(&self) {
        for lane in &self.lanes {
            lane.hold(Hold::Begin);
        }
    }

    /// Runs until the end is asked for; whoever waits for a checkpoint then waits no longer.
    pub fn run(mut self) {
        let (lanes, asked) = (self.lanes.clone(), Arc::clone(&self.asked));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            while asked.wait(Worker::Keeper, self.next_look) {
                self.look();
            }
        }));
        for lane in &lanes {
            let end = || {
                if ended.is_err() {
                    lane.fail("the keeper panicked");
                }
                lane.hold(Hold::End);
            };
            // A lane whose lock a panic has closed is down already.
            catch_unwind(AssertUnwindSafe(end)).ok();
        }
    }

    /// Looks after every lane once.
    pub fn look(&mut self) {
        tend(&self.lanes);
        for at in 0..self.lanes.len() {
            self.lanes[at].count_images();
            if self.is_due(at) {
                self.checkpoint(at);
            }
        }
        self.relieve_memory();
        let now = self.clock.monotonic();
        let due = self.paces.iter().map(Pace::wakes_at).min().unwrap_or(Duration::MAX);
        self.next_look = due.saturating_sub(now).max(RETRY.0);
    }

    fn is_due(&mut self, at: usize) -> bool {
        let (lane, pace, now) = (&self.lanes[at], &mut self.paces[at], self.clock.monotonic());
        if now < pace.not_before || lane.check_writable().is_err() {
            return false;
        }
        if pace.failures > 0 || lane.wal_bytes() > pace.wal_bytes {
            return true;
        }
        let is_over = now >= pace.next;
        if is_over {
            pace.next = now.saturating_add(self.interval);
            lane.forget_idle_order();
        }
        is_over && lane.has_unabsorbed()
    }

    /// Runs a lane's checkpoint; gives whether it freed anything.
    fn checkpoint(&mut self, at: usize) -> bool {
        let done = checkpoint(&self.lanes[at], &*self.home, &self.catalog);
        let now = self.clock.monotonic();
        let pace = &mut self.paces[at];
        pace.next = now.saturating_add(self.interval);
        pace.failures = if done.is_ok() { 0 } else { pace.failures.saturating_add(1) };
        pace.not_before = now;
        if done.is_err() {
            let shift = pace.failures.min(16) - 1;
            let pause = RETRY.0.saturating_mul(1 << shift).min(RETRY.1);
            pace.not_before = now.saturating_add(pause);
        }
        done.is_ok_and(|freed| freed)
    }

    /// Has the lane with most to give back do so, until images take half of what they may.
    fn relieve_memory(&mut self) {
        while self.images.bytes() > self.max_image_bytes / 2 {
            let now = self.clock.monotonic();
            let can = |at: &usize| {
                let lane = &self.lanes[*at];
                now >= self.paces[*at].not_before && lane.check_writable().is_ok()
            };
            let most =
                (0..self.lanes.len()).filter(can).max_by_key(|at| self.lanes[*at].wal_bytes());
            if !most.is_some_and(|at| self.checkpoint(at)) {
                return;
            }
        }
    }
}

impl Pace {
    /// That of one of so many lanes.
    fn of(number: u32, count: u32, (now, options): (Duration, &Options)) -> Self {
        let most = options.trigger_wal_bytes();
        let share = options.checkpoint_interval / count;
        Self {
            wal_bytes: most - most / 2 / u64::from(count) * u64::from(number),
            next: now.saturating_add(share.saturating_mul(number + 1)),
            not_before: Duration::ZERO,
            failures: 0,
        }
    }

    /// When to look at it unasked.
    fn wakes_at(&self) -> Duration {
        if self.failures > 0 { self.not_before } else { self.next }
    }
}

#[cfg(test)]
#[path = "maintenance_tests.rs"]
mod tests;
