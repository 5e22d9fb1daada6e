//! A lane: one independent log, its streams, and whoever commits.
//!
//! All state is behind one lock, held for lookup, checks and one copy. The disk is only touched
//! without it. A commit takes what is sealed, writes it, waits for the barrier, and publishes: by
//! whichever thread waits for its own record first, or by the lane's committer when nobody does.
//!
//! Walk: `staging` builds frames, `apply` changes the table, `commit` writes, `publish` shows,
//! `ticket` waits, `reactor` gathers tasks that wait, `read` answers readers, `boundary` says where
//! appends end, `room` keeps the log in its bounds, `supply` has files ready, `segment` says what
//! they are, `holdings` what all lanes hold together, `waiters`, `gate` and `watchers` those who
//! wait, `witness` what vouches for the last commit.

pub mod apply;
mod boundary;
mod checkpoint;
pub mod commit;
mod forks;
pub mod gate;
mod holdings;
mod lifetime;
mod list;
#[cfg(all(test, loom))]
mod models;
mod publish;
pub mod reactor;
mod read;
mod room;
pub mod segment;
pub mod staging;
mod streams;
mod supply;
mod ticket;
pub mod waiters;
mod watchers;
mod witness;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use highwater_disk::{Access, Clock, Disk, DiskResult, PublishedWeak};

use crate::error::{LogError, LogResult};
use crate::home::Home;
use crate::ids::{LaneId, Lsn, StreamId};
use crate::maintenance::Maintenance;
use crate::metrics::{
    CheckpointMetrics, CommitMetrics, Histogram, LaneMetrics, RecoveryMetrics, nanos,
};
use crate::options::Options;
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard};
use crate::table::{SlotNo, Table};
use crate::write_path::Chosen;
use gate::Gates;
use segment::{FileNo, Segment, Spare};
use staging::{Identity, Staging};
use supply::{Next, Present};
use waiters::{Waiter, Waiters};
use watchers::Watchers;

pub(crate) use boundary::Boundary;
pub(crate) use holdings::{Amount, Holdings};
pub use read::{Answer, HomeRange, Located, Piece, Slice};
pub(crate) use read::{Found, Target};
pub use room::Usage;
pub(crate) use room::{Claim, Hold, Images};
use room::{Held, Moving};
pub use watchers::Watch;

const PANICKED: &str = "a thread panicked with the lane's lock held";

/// A lane.
#[derive(Debug)]
pub struct Lane {
    identity: Identity,
    options: Options,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    home: Arc<dyn Home>,
    maintenance: Arc<Maintenance>,
    images: Arc<Images>,
    holdings: Arc<Holdings>,
    write_path: Chosen,
    state: Mutex<State>,
    /// The next segment, where `State::upcoming` names its file.
    next: Mutex<Next>,
    /// Calls the committer.
    work: Condvar,
    /// What `State::acknowledged` was at the last look: whoever waits for less need not take the
    /// lock.
    acked: AtomicU64,
    /// How long waking took, ns; recorded where the lane's lock is not held.
    wakes: Mutex<Histogram>,
}

/// What the committer's thread is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Committer {
    /// There is none.
    Absent,
    /// It waits to be called.
    Waiting,
    /// It has been called or is at work, and will look once more.
    Awake,
}

/// Whether something vouches for the last frame that holds anything of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vouched {
    /// What is behind it, or what will be when it is committed.
    Yes,
    /// Nothing.
    No,
}

/// Whether somebody has asked for a commit of what is staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Nobody yet: whoever staged it asks later.
    No,
    /// The committer commits as soon as it can.
    Yes,
}

/// When a commit comes whose records are acknowledged already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Haste {
    /// When the time that was promised is half over.
    InDueTime,
    /// Now: somebody waits for it all the same.
    AtOnce,
}

/// Everything behind the lane's lock.
#[derive(Debug)]
pub(crate) struct State {
    pub table: Table,
    segment_bytes: u64,
    staging: Staging,
    /// Segments whose bytes may be read from memory, oldest first; the active one is last.
    segments: VecDeque<Segment>,
    /// Files for the next segments, in the order they are to be used.
    spares: VecDeque<Spare>,
    /// The next segment's file, where it is ready or somebody is making it so.
    upcoming: Option<FileNo>,
    present: Present,
    /// A file for records that give room back: nothing else takes it.
    reserve: Option<Spare>,
    /// Images of segments that were given back, as long as readers hold them.
    lingering: Vec<PublishedWeak>,
    /// What `Images` knows of this lane.
    counted_images: u64,
    next_file: FileNo,
    next_stream: u64,
    /// Everything before it is as durable as the log promises, and visible.
    durable: Lsn,
    /// Everything before it is behind a barrier: what frames may say of it.
    synced: Lsn,
    is_committing: bool,
    committer: Committer,
    wanted: Wanted,
    /// Records of the last commit.
    last_records: u64,
    /// How long its write and barrier took.
    last_took: Duration,
    /// Bytes staged and not durable.
    staged_bytes: u64,
    /// Streams whose home lacks durable bytes.
    unabsorbed: Vec<SlotNo>,
    /// Streams durably deleted, whose home still has their bytes.
    dead: Vec<StreamId>,
    /// Whether the home has nothing of streams that are gone, but for the dead.
    has_no_orphans: bool,
    /// Sources whose fork is durably gone: each counts one less.
    released: Vec<StreamId>,
    /// Hidden sources that nobody forks any more, and whose end is not logged yet.
    unread: Vec<StreamId>,
    /// Streams with an expiry, soonest first; an entry may be out of date.
    expiries: BinaryHeap<Reverse<(u64, SlotNo, StreamId)>>,
    waiters: Waiters,
    gates: Gates,
    watchers: Watchers,
    /// How often it was asked since somebody needed the order of names.
    order_idle: u32,
    /// Watchers of streams that ended, or of a lane that failed: to be woken by whoever comes next,
    /// without the lock, since wakers may take it.
    ended: Vec<Waiter>,
    held: Held,
    moving: Moving,
    poisoned: Option<String>,
    /// Why nothing is taken in any more, although the log itself is sound.
    read_only: Option<String>,
    is_stopping: bool,
    vouched: Vouched,
    /// When the last commit was done.
    last_commit: Duration,
    /// When the next commit is to come, in `Relaxed`.
    haste: Haste,
    /// When the first record was staged that no commit has taken.
    waiting_since: Duration,
    commits: CommitMetrics,
    checkpoints: CheckpointMetrics,
    recovery: RecoveryMetrics,
}

/// What a lane stands on.
#[derive(Debug, Clone)]
pub(crate) struct Around {
    pub disk: Arc<dyn Disk>,
    pub clock: Arc<dyn Clock>,
    pub home: Arc<dyn Home>,
    pub maintenance: Arc<Maintenance>,
    pub images: Arc<Images>,
    pub holdings: Arc<Holdings>,
}

/// What a lane is made of when it is opened.
pub(crate) struct Parts {
    pub table: Table,
    pub staging: Staging,
    pub segments: VecDeque<Segment>,
    pub spares: VecDeque<Spare>,
    pub next_file: FileNo,
    pub next_stream: u64,
    pub durable: Lsn,
    pub unabsorbed: Vec<SlotNo>,
    pub dead: Vec<StreamId>,
    pub recovery: RecoveryMetrics,
    pub write_path: Chosen,
}

impl Parts {
    /// Has the lane write along a path: files that were read past the page cache are opened again
    /// where they are to be written through it.
    ///
    /// # Errors
    /// The disk's.
    pub fn write_along(&mut self, chosen: Chosen, disk: &dyn Disk, lane: LaneId) -> DiskResult<()> {
        self.write_path = chosen;
        if chosen.path.access == Access::Direct {
            return Ok(());
        }
        let spares = self.spares.iter_mut().map(|spare| (&mut spare.file, spare.file_no));
        let segments = self.segments.iter_mut().map(|one| (&mut one.file, one.file_no));
        for (file, file_no) in segments.chain(spares) {
            if file.access() == Access::Direct {
                *file = disk.open(&segment::path(lane, file_no), Access::Buffered)?;
            }
        }
        Ok(())
    }
}

impl Lane {
    pub(crate) fn new(identity: Identity, options: Options, around: Around, parts: Parts) -> Self {
        let Around { disk, clock, home, maintenance, images, holdings } = around;
        let mut state = State {
            table: parts.table,
            segment_bytes: identity.segment_bytes,
            staging: parts.staging,
            segments: parts.segments,
            spares: parts.spares,
            upcoming: None,
            present: Present::default(),
            reserve: None,
            lingering: Vec::new(),
            counted_images: 0,
            next_file: parts.next_file,
            next_stream: parts.next_stream,
            durable: parts.durable,
            synced: parts.durable,
            is_committing: false,
            committer: Committer::Absent,
            wanted: Wanted::No,
            last_records: 0,
            last_took: Duration::ZERO,
            staged_bytes: 0,
            unabsorbed: parts.unabsorbed,
            dead: parts.dead,
            has_no_orphans: false,
            released: Vec::new(),
            unread: Vec::new(),
            expiries: BinaryHeap::new(),
            waiters: Waiters::default(),
            gates: Gates::default(),
            watchers: Watchers::default(),
            order_idle: 0,
            ended: Vec::new(),
            held: Held::default(),
            moving: Moving::Goes,
            poisoned: None,
            read_only: None,
            is_stopping: false,
            vouched: Vouched::Yes,
            last_commit: Duration::ZERO,
            haste: Haste::InDueTime,
            waiting_since: Duration::ZERO,
            commits: CommitMetrics::default(),
            checkpoints: CheckpointMetrics::default(),
            recovery: parts.recovery,
        };
        state.keep_reserve();
        state.count_images(&images);
        holdings.set(identity.lane, Amount::of(&state.table));
        Self {
            identity,
            options,
            disk,
            clock,
            home,
            maintenance,
            images,
            holdings,
            write_path: parts.write_path,
            state: Mutex::new(state),
            next: Mutex::default(),
            work: Condvar::new(),
            acked: AtomicU64::new(0),
            wakes: Mutex::default(),
        }
    }

    /// Its number.
    pub fn id(&self) -> LaneId {
        self.identity.lane
    }

    /// How it writes, and why so.
    pub fn write_path(&self) -> Chosen {
        self.write_path
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) => self.lock_contended(),
            // A panic with the lock held leaves a state that nobody may build on.
            Err(TryLockError::Poisoned(_)) => panic!("{PANICKED}"),
        }
    }

    #[cold]
    fn lock_contended(&self) -> MutexGuard<'_, State> {
        let begun = self.clock.monotonic();
        let mut state = self.state.lock().expect(PANICKED);
        let waited = self.clock.monotonic().saturating_sub(begun);
        state.commits.lock_ns.record(nanos(waited));
        state
    }

    /// Says what the lane has done since it was opened.
    pub fn metrics(&self) -> LaneMetrics {
        let wake_ns = self.wakes.lock().expect("nobody panics with this lock held").clone();
        let state = self.lock();
        LaneMetrics {
            lane: self.id(),
            streams: state.table.len(),
            table_bytes: state.table.bytes(),
            producers_forgotten: state.table.producers_forgotten(),
            content_bytes: state.table.content_bytes(),
            expiries: segment::to_u64(state.expiries.len()),
            watches: segment::to_u64(state.watchers.len()),
            staged_bytes: state.staged_bytes,
            segments: segment::to_u64(state.segments.len()),
            spare_segments: state.ready_files(),
            commits: CommitMetrics { wake_ns, ..state.commits.clone() },
            checkpoints: state.checkpoints.clone(),
            recovery: state.recovery,
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.wall().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes how long beginning the epoch took.
    pub(crate) fn note_epoch_begun(&self, took: Duration) {
        self.lock().recovery.epoch = took;
    }

    /// Turns the lane down for good.
    pub(crate) fn fail(&self, why: &str) {
        let woken = self.lock().poison(why.to_owned());
        woken.into_iter().for_each(Waiter::wake);
        self.work.notify_all();
    }

    /// Wakes those whom a failed operation has left to be woken.
    pub(crate) fn wake_left(&self) {
        let woken = std::mem::take(&mut self.lock().ended);
        woken.into_iter().for_each(Waiter::wake);
    }

    /// Takes nothing in any more, since bytes cannot move home: the log keeps those that it has.
    /// Reads go on, and what is staged is committed.
    pub(crate) fn make_read_only(&self, why: &str) {
        let mut state = self.lock();
        state.read_only.get_or_insert_with(|| why.to_owned());
        drop(state);
        self.hold(Hold::End);
    }

    /// Whether anything may be changed.
    ///
    /// # Errors
    /// [`LogError::Poisoned`], [`LogError::ReadOnly`], [`LogError::Closed`].
    pub(crate) fn check_writable(&self) -> LogResult<()> {
        self.lock().check_writable()
    }

    /// Takes nothing more in, and ends the committer once everything staged is committed.
    pub(crate) fn stop(&self) {
        // A committer that panicked has ended.
        if let Ok(mut state) = self.state.lock() {
            state.is_stopping = true;
        }
        self.work.notify_all();
    }

    /// Longest time a relaxed acknowledgement runs ahead of its barrier.
    fn relaxed_within(&self) -> Option<Duration> {
        match self.options.durability {
            crate::options::Durability::Relaxed { within } => Some(within),
            _ => None,
        }
    }
}

impl State {
    /// Notes when the next commit's first record is staged.
    fn note_waiting(&mut self, now: Duration) {
        if self.staging.is_empty() {
            self.waiting_since = now;
        }
    }

    /// Operations before it may be acknowledged.
    fn acknowledged(&self) -> Lsn {
        self.durable.min(self.held.from)
    }

    /// Turns the lane down for good; wakes everybody who waits.
    fn poison(&mut self, why: String) -> Vec<Waiter> {
        self.poisoned.get_or_insert(why);
        // What is durable is acknowledged: no checkpoint comes any more.
        self.held = Held::default();
        let mut woken = std::mem::take(&mut self.ended);
        self.waiters.take_all(&mut woken);
        self.watchers.take_all(&mut woken);
        woken
    }

    fn check_healthy(&self) -> LogResult<()> {
        match &self.poisoned {
            Some(why) => Err(LogError::Poisoned(why.clone())),
            None => Ok(()),
        }
    }

    fn check_writable(&self) -> LogResult<()> {
        self.check_healthy()?;
        if self.is_stopping {
            return Err(LogError::Closed);
        }
        match &self.read_only {
            Some(why) => Err(LogError::ReadOnly(why.clone())),
            None => Ok(()),
        }
    }
}
