//! The log: its lanes, and the threads that commit when nobody waits.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use highwater_disk::{Clock, Disk, Lock, Rng};

use crate::catalog::Catalog;
use crate::error::{LogError, LogResult, OpenError};
use crate::home::Home;
use crate::home::files::{Files, FilesSettings};
use crate::ids::{LaneId, Offset, StreamId};
use crate::lane::commit::Ticket;
use crate::lane::staging::Identity;
use crate::lane::waiters::Waiter;
use crate::lane::{
    Answer, Around, Boundary, Found, Holdings, Images, Lane, Located, Target, Usage, Watch,
};
use crate::maintenance::{self, Keeper, Kept, Maintenance};
use crate::metrics::LaneMetrics;
use crate::options::Options;
use crate::recover::{lane_of, lock_directories, open_lane, open_store};
use crate::request::{Append, Appended, Create, CreateOutcome, Created, Fork, Info, Walk};
use crate::supplier::Supplier;
use crate::write_path::Chosen;

/// Streams that one step of a walk looks at.
const WALKED: usize = 4096;

const UNPANICKED: &str = "nobody panics with this lock held";

/// Who drives the lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// Threads of the log's own.
    Threads,
    /// The caller, by [`Log::step`]: for tests that decide what happens when.
    Caller,
}

/// What a log stands on.
#[derive(Debug)]
pub struct Machine {
    /// Where its files are.
    pub disk: Arc<dyn Disk>,
    /// Its clock.
    pub clock: Arc<dyn Clock>,
    /// Its randomness.
    pub rng: Box<dyn Rng>,
}

/// A log.
#[derive(Debug)]
pub struct Log {
    lanes: Vec<Arc<Lane>>,
    home: Arc<dyn Home>,
    catalog: Arc<Catalog>,
    maintenance: Arc<Maintenance>,
    /// Where no threads of the log's own have them.
    by_hand: Option<Mutex<(Supplier, Keeper)>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    // Released after the threads have ended.
    _locks: Vec<Box<dyn Lock>>,
}

impl Log {
    /// Opens a log, or makes one in an empty directory.
    ///
    /// # Errors
    /// An [`OpenError`] that says what is wrong and what to do; nothing was changed.
    pub fn open(
        mut machine: Machine,
        options: &Options,
        driver: Driver,
    ) -> Result<Self, OpenError> {
        options.check()?;
        let lock = machine.disk.lock("").map_err(|error| match error.kind {
            highwater_disk::ErrorKind::Locked => OpenError::Locked,
            _ => error.into(),
        })?;
        let now_ms = u64::try_from(machine.clock.wall().as_millis()).unwrap_or(u64::MAX);
        let block = open_store(&*machine.disk, options, &mut *machine.rng, now_ms)?;
        let mut locks = vec![lock];
        locks.extend(lock_directories(&*machine.disk, &block)?);
        let (disk, clock) = (machine.disk, machine.clock);
        let catalog = Catalog::open(Arc::clone(&disk), block)?;
        let open_files = usize::try_from(options.max_open_files).unwrap_or(usize::MAX);
        let settings = FilesSettings {
            stream_lanes: block.stream_lanes,
            barrier: options.file_barrier,
            max_open_files: open_files,
            recheck_after: options.recheck_after,
        };
        let files = Files::open(Arc::clone(&disk), Arc::clone(&clock), settings)?;
        let home: Arc<dyn Home> = Arc::new(files);
        let maintenance = Arc::new(Maintenance::default());
        let images = Arc::new(Images::default());
        let holdings = Arc::new(Holdings::new(block.lanes));
        let around = Around { disk, clock, home, maintenance, images, holdings };
        let mut lanes = Vec::new();
        for lane in 0..block.lanes {
            let identity = Identity {
                store: block.store_id,
                lane: LaneId(lane),
                segment_bytes: block.segment_bytes,
                frame_bytes: options.frame_bytes,
            };
            lanes.push(open_lane(&around, &catalog, options, identity)?);
        }
        count_forks(&lanes)?;
        let Around { home, maintenance, clock, images, .. } = around;
        let (catalog, threads) = (Arc::new(catalog), Mutex::default());
        let kept = Kept {
            lanes: lanes.clone(),
            home: Arc::clone(&home),
            catalog: Arc::clone(&catalog),
            clock,
            images,
            asked: Arc::clone(&maintenance),
        };
        let asked = Arc::clone(&maintenance);
        let supplier = Supplier::new(&lanes, Arc::clone(&kept.clock), asked);
        let keeper = Keeper::new(kept, options);
        let mut log =
            Self { lanes, home, catalog, maintenance, by_hand: None, threads, _locks: locks };
        match driver {
            Driver::Threads => log.start_threads(supplier, keeper)?,
            Driver::Caller => log.by_hand = Some(Mutex::new((supplier, keeper))),
        }
        Ok(log)
    }

    fn start_threads(&mut self, supplier: Supplier, keeper: Keeper) -> Result<(), OpenError> {
        for lane in self.lanes.clone() {
            self.start(format!("commit-{}", lane.id()), move || lane.run_committer())?;
        }
        keeper.begin();
        self.maintenance.ask();
        self.start("files".to_owned(), move || supplier.run())?;
        self.start("checkpoint".to_owned(), move || keeper.run())
    }

    fn start(
        &mut self,
        name: String,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), OpenError> {
        let started = std::thread::Builder::new().name(name).spawn(body);
        let started = started
            .map_err(|error| OpenError::Settings(format!("cannot start a thread: {error}")))?;
        self.threads.lock().expect(UNPANICKED).push(started);
        Ok(())
    }

    /// Makes a stream. See [`Create`].
    ///
    /// # Errors
    /// See [`crate::error::Rejection`] and [`crate::error::LogError`].
    pub fn create(&self, request: &Create<'_>) -> LogResult<Ticket<Created>> {
        let lane = self.lane(request.name);
        lane.create(request).inspect_err(|error| wake_left(lane, error))
    }

    /// Makes a stream that begins as another's prefix. See [`Fork`].
    ///
    /// # Errors
    /// See [`crate::error::Rejection`] and [`crate::error::LogError`].
    pub fn fork(&self, request: &Fork<'_>) -> LogResult<Ticket<Created>> {
        let (source, lane) = (self.lane(request.source), self.lane(request.name));
        let parent = source.reserve_fork(request)?;
        // I8: each lane comes back as far as its own barriers reach, so what is read of another is
        // behind one first.
        let ready = if source.id() == lane.id() { Ok(()) } else { source.sync_shared() };
        let made = ready.and_then(|()| lane.create_fork(request, parent));
        let made = made.inspect_err(|error| wake_left(lane, error));
        let is_new =
            |made: &Ticket<Created>| made.is(|created| created.outcome == CreateOutcome::New);
        if !made.as_ref().is_ok_and(is_new) {
            source.release_fork(parent.stream);
        }
        made
    }

    /// Notes that a stream was used: a sliding expiry begins anew.
    ///
    /// # Errors
    /// [`crate::error::Rejection::NotFound`] and [`crate::error::LogError`].
    pub fn touch(&self, name: &str) -> LogResult<()> {
        let lane = self.lane(name);
        lane.touch(name).inspect_err(|error| wake_left(lane, error))
    }

    /// Appends to a stream, closes it, or both. See [`Append`].
    ///
    /// # Errors
    /// See [`crate::error::Rejection`] and [`crate::error::LogError`].
    pub fn append(&self, request: &Append<'_>) -> LogResult<Ticket<Appended>> {
        let lane = self.lane(request.name);
        lane.append(request).inspect_err(|error| wake_left(lane, error))
    }

    /// Deletes a stream.
    ///
    /// # Errors
    /// [`crate::error::Rejection::NotFound`] and [`crate::error::LogError`].
    pub fn delete(&self, name: &str) -> LogResult<Ticket<()>> {
        let lane = self.lane(name);
        lane.delete(name).inspect_err(|error| wake_left(lane, error))
    }

    /// Reads durable bytes from an offset, about `max_bytes` at most.
    ///
    /// # Errors
    /// See [`crate::error::Rejection`] and [`crate::error::LogError`].
    pub fn read(&self, name: &str, from: Offset, max_bytes: u64) -> LogResult<Answer> {
        self.locate(name, from, max_bytes)?.load()
    }

    /// Finds durable bytes from an offset, about `max_bytes` at most: those in memory as they are,
    /// those at home as ranges to be read, or sent without a copy, when they are needed.
    ///
    /// # Errors
    /// See [`crate::error::Rejection`] and [`crate::error::LogError`].
    pub fn locate(&self, name: &str, from: Offset, max_bytes: u64) -> LogResult<Located> {
        let mut found = self.lane(name).locate(Target::Name(name), from, max_bytes)?;
        let mut outer: Option<Located> = None;
        loop {
            match found {
                Found::Here(located) => {
                    let Some(outer) = outer else { return Ok(located) };
                    return Ok(Located { pieces: located.pieces, next: located.next, ..outer });
                }
                // What is the source's is read there: sources never forget what forks read.
                Found::Inherited { source, to, own } => {
                    outer.get_or_insert(own);
                    let lane = &self.lanes[usize::from(source.lane().0)];
                    found = lane.locate(Target::Id(source), from, to.0 - from.0)?;
                }
            }
        }
    }

    /// Finds the end of the append that has the byte at an offset; none at the tail. The log knows
    /// it exactly. A home has bytes and no appends: of bytes there it is the nearest end behind
    /// them that is known, which is where the log takes over, or where a fork begins.
    ///
    /// # Errors
    /// See [`crate::error::Rejection`] and [`crate::error::LogError`].
    pub fn append_end(&self, name: &str, from: Offset) -> LogResult<Option<Offset>> {
        let mut found = self.lane(name).append_end(Target::Name(name), from)?;
        let mut inherited: Option<Offset> = None;
        loop {
            match found {
                Boundary::Here(end) => return Ok(end.into_iter().chain(inherited).min()),
                Boundary::Inherited { source, to } => {
                    inherited = inherited.into_iter().chain([to]).min();
                    let lane = &self.lanes[usize::from(source.lane().0)];
                    found = lane.append_end(Target::Id(source), from)?;
                }
            }
        }
    }

    /// Gives what to wait for until everything that was acknowledged of a stream can be read. Only
    /// where acknowledgements run ahead of the barrier is there anything; what is staged is then
    /// committed at once. A deleted source is gone a moment later, if its last fork is.
    pub fn settle(&self, name: &str) -> Option<Ticket<()>> {
        let lane = self.lane(name);
        let settled = lane.settle(name);
        if settled.is_none() && lane.is_kept_for_forks(name) {
            // It ends when the end of its last fork is durable, in whichever lane that was.
            self.lanes.iter().for_each(|lane| lane.hasten());
        }
        settled
    }

    /// Gives what to wait for until everything that was acknowledged of any stream can be seen.
    /// Only where acknowledgements run ahead of the barrier is there anything.
    pub fn settle_all(&self) -> Vec<Ticket<()>> {
        self.lanes.iter().filter_map(Lane::settle_all).collect()
    }

    /// Gives what to wait for until all that is staged of a stream can be seen, whether or not it
    /// was acknowledged: for those who are refused because of what nobody sees yet. Nothing where
    /// all of it can be seen, or there is no such stream.
    pub fn unseen(&self, name: &str) -> Option<Ticket<()>> {
        self.lane(name).unseen(name)
    }

    /// Has what is staged in a stream's lane committed at once, where that would be put off: for
    /// those who wait for what was acknowledged, and look at it later.
    pub fn hasten(&self, name: &str) {
        self.lane(name).hasten();
    }

    /// Says whether bytes of a stream from an offset on would be read from the disk: a thread that
    /// must not block lets another one read them.
    pub fn is_at_home(&self, name: &str, from: Offset) -> bool {
        self.lane(name).is_at_home(name, from)
    }

    /// Arranges that a waiter is woken, once, when a stream's durable tail is no longer `seen`, or
    /// the stream ends; gives nothing when that is so already. The watch is over when it is
    /// dropped: keep it as long as anybody waits. A waiter may be woken for nothing, so look again.
    ///
    /// # Errors
    /// [`crate::error::Rejection::NotFound`], [`crate::error::Rejection::SoftDeleted`],
    /// [`crate::error::LogError::Poisoned`].
    pub fn watch(&self, name: &str, seen: Offset, waiter: Waiter) -> LogResult<Option<Watch>> {
        self.lane(name).watch(name, seen, waiter)
    }

    /// Says what is known of a stream, as far as it is durable.
    pub fn info(&self, name: &str) -> Option<Info> {
        self.lane(name).info(name)
    }

    /// Names of streams that begin so, behind a name, in order.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let mut names: Vec<String> =
            self.lanes.iter().flat_map(|lane| lane.list(prefix, after, limit)).collect();
        names.sort_unstable();
        names.truncate(limit);
        names
    }

    /// Names of streams that begin so, in no order, a few at a time: those that were there all the
    /// while from the first call to the last come exactly once. Costs the same for each stream, and
    /// holds no lock for long.
    pub fn walk(&self, prefix: &str, walk: Walk) -> (Vec<String>, Option<Walk>) {
        let Some(lane) = self.lanes.get(walk.lane) else { return (Vec::new(), None) };
        let (names, next) = lane.walk(prefix, walk.slot, WALKED);
        let next = match next {
            Some(slot) => Some(Walk { slot, ..walk }),
            None => Some(Walk { lane: walk.lane + 1, slot: 0 }),
        };
        (names, next.filter(|next| next.lane < self.lanes.len()))
    }

    /// Whether all lanes take appends.
    ///
    /// # Errors
    /// [`crate::error::LogError::Poisoned`] when a write or barrier of one has failed.
    pub fn check(&self) -> LogResult<()> {
        self.lanes.iter().try_for_each(|lane| lane.check())
    }

    /// Commits what is staged, or a witness where one is due; gives whether there was anything. For
    /// [`Driver::Caller`].
    pub fn step(&self) -> bool {
        tend(&self.lanes);
        for lane in &self.lanes {
            lane.stage_due_witness();
        }
        // Every lane takes its turn, whatever the others did.
        self.lanes.iter().filter(|lane| lane.commit_step()).count() > 0
    }

    /// Looks after files, checkpoints and memory once, as far as anything is due. For
    /// [`Driver::Caller`].
    pub fn maintain(&self) {
        if let Some(by_hand) = &self.by_hand {
            let mut both = by_hand.lock().expect(UNPANICKED);
            both.0.look();
            both.1.look();
        }
    }

    /// Runs a checkpoint of every lane: bytes go to their home, the tables are made durable, and
    /// segments are used again. Gives whether any was freed.
    ///
    /// # Errors
    /// The first lane's that failed. A full disk passes: the log goes on with the segments it has.
    /// After any other failure the lane is read-only.
    pub fn checkpoint(&self) -> LogResult<bool> {
        let run = |lane: &Arc<Lane>| maintenance::checkpoint(lane, &*self.home, &self.catalog);
        let done: Vec<_> = self.lanes.iter().map(run).collect();
        done.into_iter().try_fold(false, |freed, lane| Ok(freed | lane?))
    }

    /// Closes the log: takes no further change, commits what is staged, and puts a witness behind
    /// the last commit of each lane, so that damage to that commit can be told from one that was
    /// cut short. A checkpoint that is under way is waited for. Reads, and tickets that were given
    /// before, are answered afterwards too; the directory stays locked until the log is dropped.
    /// Dropping a log whose lanes have threads closes it, and tells nobody how that went. Closing
    /// again does nothing more.
    ///
    /// # Errors
    /// [`crate::error::LogError::Poisoned`] when a write or barrier has failed: what was
    /// acknowledged is durable, the rest may be lost. [`crate::error::LogError::ReadOnly`] when a
    /// barrier of the home has failed and commits have none of their own: what was acknowledged
    /// without a barrier may be lost.
    pub fn close(&self) -> LogResult<()> {
        self.end();
        // Every lane is finished, whatever becomes of the others.
        let finished: Vec<LogResult<()>> = self.lanes.iter().map(|lane| lane.finish()).collect();
        finished.into_iter().collect()
    }

    /// Stops the lanes, and ends the threads.
    fn end(&self) {
        for lane in &self.lanes {
            lane.stop();
        }
        self.maintenance.end();
        let threads = std::mem::take(&mut *self.threads.lock().expect(UNPANICKED));
        for thread in threads {
            // A committer that panicked has said why; there is nobody left to tell.
            thread.join().ok();
        }
    }

    /// Says what each lane uses of what it may, and whether it takes changes.
    pub fn usage(&self) -> Vec<Usage> {
        self.lanes.iter().map(|lane| lane.usage()).collect()
    }

    /// What a keeper of a test's own stands on.
    #[cfg(test)]
    pub(crate) fn kept(&self, clock: Arc<dyn Clock>) -> Kept {
        let (lanes, images) = (self.lanes.clone(), self.lanes[0].images());
        let (home, catalog) = (Arc::clone(&self.home), Arc::clone(&self.catalog));
        Kept { lanes, home, catalog, clock, images, asked: Arc::clone(&self.maintenance) }
    }

    /// Says how each lane writes, and why so.
    pub fn write_paths(&self) -> Vec<Chosen> {
        self.lanes.iter().map(|lane| lane.write_path()).collect()
    }

    /// Says what each lane has done since the log was opened.
    pub fn metrics(&self) -> Vec<LaneMetrics> {
        self.lanes.iter().map(|lane| lane.metrics()).collect()
    }

    fn lane(&self, name: &str) -> &Arc<Lane> {
        let lanes = u16::try_from(self.lanes.len()).expect("lanes have 16 bits");
        let lane = lane_of(name, lanes);
        &self.lanes[usize::from(lane.0)]
    }
}

/// Wakes those who wait on a lane that an operation has found to fail.
fn wake_left(lane: &Lane, error: &LogError) {
    if !matches!(error, LogError::Rejected(_)) && !error.is_lack_of_room() {
        lane.wake_left();
    }
}

/// Counts who forks whom, and ends what nobody forks any more.
fn count_forks(lanes: &[Arc<Lane>]) -> Result<(), OpenError> {
    for source in lanes.iter().flat_map(|lane| lane.sources()) {
        let lane = lanes.get(usize::from(source.lane().0)).ok_or_else(|| {
            OpenError::Settings(format!("stream {source} is of a lane that is not there"))
        })?;
        lane.count_fork(source).map_err(|error| OpenError::Settings(error.to_string()))?;
    }
    for lane in lanes {
        lane.schedule_all();
        lane.end_all_unread();
        lane.check().map_err(|error| OpenError::Settings(error.to_string()))?;
    }
    Ok(())
}

/// Ends streams whose time is over, and sources whose last fork is gone. What cannot be done now
/// (the log is full, say) is done at the next occasion.
pub(crate) fn tend(lanes: &[Arc<Lane>]) {
    for lane in lanes {
        while lane.expire_step().is_ok_and(|has_more| has_more) {}
        let released = lane.take_released();
        let is_elsewhere = |source: &StreamId| source.lane() != lane.id();
        // I8: a source in another lane must not be gone while a power cut can bring its fork back.
        if released.iter().any(is_elsewhere) && lane.sync_segments().is_err() {
            lane.return_released(released);
            continue;
        }
        for source in released {
            lanes[usize::from(source.lane().0)].release_fork(source);
        }
    }
    for lane in lanes {
        lane.end_unread();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A caller that drives the lanes and drops the log leaves what a killed process does.
        let has_threads = self.by_hand.is_none();
        if has_threads && !std::thread::panicking() {
            // What went wrong has turned the lane down; there is nobody left to tell.
            self.close().ok();
        } else {
            self.end();
        }
    }
}
