//! The disk itself, and what a test can do to it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::faults::{Fault, OperationKind, PlannedFault, When};
use super::file::SimFile;
use super::names::FileId;
use super::state::{Call, Detail, State};
use super::survival::draw;
use super::volume::{Refusal, Volume};
use super::{CrashMode, CrashSide, DirectIo, SimOptions, TraceMode};
use crate::path::{check, check_dir};
use crate::{Access, Disk, DiskResult, Entry, ErrorKind, File, Lock, PathStr};

/// A handle on a simulated disk; all clones are the same disk, until it crashes.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// Makes an empty disk.
    pub fn new(options: SimOptions) -> Self {
        Self::of(State::new(options))
    }

    /// Crashes the machine as the options say, and gives the disk as found at the next start. This
    /// disk and its files are dead from now on; asked again, it crashes the same state once more,
    /// with another draw if the survivors are random.
    #[must_use]
    pub fn crash(&self) -> Self {
        let mut state = self.state();
        match state.options.crash {
            CrashMode::LoseAllUnsynced => Self::restart(&mut state, |_| false),
            CrashMode::KeepAll => Self::restart(&mut state, |_| true),
            CrashMode::Explicit(bits) => {
                Self::restart(&mut state, |index| index < 64 && bits & (1 << index) != 0)
            }
            CrashMode::Random => {
                let whole = state.volume.clone();
                let State { volume, random, options, .. } = &mut *state;
                let kept = draw(volume, options.names, random);
                let survivor = Self::restart(&mut state, |index| kept[index]);
                // The draw shortens growths; the dead disk stays as it died.
                state.volume = whole;
                survivor
            }
        }
    }

    /// Crashes the machine, keeping those unsynced changes (by their place in
    /// [`SimDisk::pending`]) for which `keep` says so; otherwise as [`SimDisk::crash`].
    #[must_use]
    pub fn crash_with(&self, keep: impl FnMut(usize) -> bool) -> Self {
        Self::restart(&mut self.state(), keep)
    }

    /// Copies the disk as it is now, unsynced changes included, for a second course of events.
    /// Files opened on one are not open on the other.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut copy = self.state().clone();
        copy.locked.clear();
        copy.volume.close_all();
        Self::of(copy)
    }

    /// Number of unsynced changes: sector writes, length changes, changes of names.
    pub fn pending_count(&self) -> usize {
        let state = self.state();
        let in_files = state.volume.files.values().map(|file| file.pending.len());
        state.volume.pending_names.len() + in_files.sum::<usize>()
    }

    /// Each unsynced change in words, in the order of their bits.
    pub fn pending(&self) -> Vec<String> {
        self.state().volume.pending()
    }

    /// Number of mutating calls in this life of the disk, the failed ones included.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Makes the n-th mutating call from now (counted from one) the last: it fails, with or
    /// without its effect as the seed has it, and so does every call after it. Zero crashes now.
    pub fn crash_after_operations(&self, nth: u64) {
        self.crash_at(nth, CrashSide::Seeded);
    }

    /// As [`SimDisk::crash_after_operations`], on the given side of the effect.
    pub fn crash_at(&self, nth: u64, side: CrashSide) {
        self.state().crash_at(nth, side);
    }

    /// Whether the machine has crashed.
    pub fn is_crashed(&self) -> bool {
        self.state().is_crashed()
    }

    /// Makes the n-th call of a kind from now (counted from one) go wrong.
    pub fn fail_next(&self, kind: OperationKind, nth: u64, fault: Fault) {
        let when = When::Nth(nth);
        self.plan(PlannedFault { kind, path_prefix: String::new(), when, fault });
    }

    /// Plans a fault. Plans outlive a crash: a bad device stays one.
    ///
    /// # Panics
    /// When such a fault cannot strike such a call.
    pub fn plan(&self, fault: PlannedFault) {
        self.state().plans.add(fault);
    }

    /// Cancels all planned faults.
    pub fn clear_faults(&self) {
        self.state().plans.clear();
    }

    /// Flips a bit (0 to 7) of a byte of a file, in what is durable and in what reads show.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is no such file.
    pub fn flip_bit(&self, path: &PathStr, byte: u64, bit: u8) -> DiskResult<()> {
        let mut state = self.state();
        let call = Call::new(OperationKind::Open, path);
        let file = state.volume.find(path).map_err(|refusal| call.error(refusal))?;
        state.volume.file(file).flip_bit(byte, bit);
        Ok(())
    }

    /// Puts an empty directory, and all that will be made below it, on a device of its own:
    /// `sync_all` elsewhere does not cover it, and no rename crosses its border. Space is common.
    ///
    /// # Panics
    /// When it is not a directory, or not empty.
    pub fn mount(&self, path: &PathStr) {
        self.state().volume.mount(path);
    }

    /// The calls so far, if the options ask for a trace, those of earlier lives included.
    pub fn trace(&self) -> Vec<String> {
        self.state().trace.clone()
    }

    /// A hash of all that is durable: names, lengths, bytes. The same in every version.
    pub fn durable_hash(&self) -> u64 {
        self.state().volume.durable_hash()
    }

    fn of(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn restart(state: &mut State, mut keep: impl FnMut(usize) -> bool) -> Self {
        state.die();
        let (mut asked, mut kept) = (0, 0_u64);
        let survivor = state.volume.survivor(|| {
            let keeps = keep(asked);
            asked += 1;
            kept += u64::from(keeps);
            keeps
        });
        let mut restarted = state.restarted(survivor);
        if restarted.options.trace == TraceMode::Kept {
            let hash = restarted.volume.durable_hash();
            restarted.trace.push(format!("crash kept {kept} of {asked} -> {hash:016x}"));
        }
        Self::of(restarted)
    }

    fn file(
        &self,
        call: &Call<'_>,
        access: Access,
        find: impl FnOnce(&mut Volume) -> Result<FileId, Refusal>,
    ) -> DiskResult<Arc<dyn File>> {
        check(call.kind.name(), call.path)?;
        let mut state = self.state();
        let id = state.run(call, |state, _| find(&mut state.volume))?;
        let access = match state.options.direct {
            DirectIo::Supported => access,
            DirectIo::Refused => Access::Buffered,
        };
        Ok(Arc::new(SimFile::new(Arc::clone(&self.state), id, call.path, access)))
    }
}

impl Disk for SimDisk {
    fn create(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        let call = Call::new(OperationKind::Create, path);
        self.file(&call, access, |volume| volume.create(path))
    }

    fn open(&self, path: &PathStr, access: Access) -> DiskResult<Arc<dyn File>> {
        let call = Call::new(OperationKind::Open, path);
        self.file(&call, access, |volume| volume.open(path))
    }

    fn create_dir(&self, path: &PathStr) -> DiskResult<()> {
        check("create_dir", path)?;
        let call = Call::new(OperationKind::CreateDir, path);
        self.state().run(&call, |state, _| state.volume.create_dir(path))
    }

    fn list(&self, path: &PathStr) -> DiskResult<Vec<Entry>> {
        check_dir("list", path)?;
        let call = Call::new(OperationKind::List, path);
        self.state().run(&call, |state, _| state.volume.list(path))
    }

    fn rename(&self, from: &PathStr, to: &PathStr) -> DiskResult<()> {
        check("rename", from)?;
        check("rename", to)?;
        let call = Call { kind: OperationKind::Rename, path: from, detail: Detail::Target(to) };
        self.state().run(&call, |state, _| state.volume.rename(from, to))
    }

    fn remove(&self, path: &PathStr) -> DiskResult<()> {
        check("remove", path)?;
        let call = Call::new(OperationKind::Remove, path);
        self.state().run(&call, |state, _| state.volume.remove(path))
    }

    fn sync_dir(&self, path: &PathStr) -> DiskResult<()> {
        check_dir("sync_dir", path)?;
        let call = Call::new(OperationKind::SyncDir, path);
        self.state().run(&call, |state, fault| state.sync_dir(path, fault.as_ref()))
    }

    fn sync_all(&self, path: &PathStr) -> DiskResult<()> {
        check_dir("sync_all", path)?;
        let call = Call::new(OperationKind::SyncAll, path);
        self.state().run(&call, |state, fault| state.sync_all(path, fault.as_ref()))
    }

    fn lock(&self, path: &PathStr) -> DiskResult<Box<dyn Lock>> {
        check_dir("lock", path)?;
        let call = Call::new(OperationKind::Lock, path);
        self.state().run(&call, |state, _| {
            if !path.is_empty() {
                state.volume.find(path)?;
            }
            if !state.locked.insert(path.to_owned()) {
                return Err((ErrorKind::Locked, "another process holds the lock"));
            }
            Ok(())
        })?;
        Ok(Box::new(SimLock { state: Arc::clone(&self.state), path: path.to_owned() }))
    }

    fn free_bytes(&self) -> DiskResult<u64> {
        let call = Call::new(OperationKind::FreeBytes, "");
        self.state().run(&call, |state, _| Ok(state.volume.free_bytes()))
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        formatter
            .debug_struct("SimDisk")
            .field("seed", &state.options.seed)
            .field("operations", &state.operations)
            .finish_non_exhaustive()
    }
}

struct SimLock {
    state: Arc<Mutex<State>>,
    path: String,
}

impl Lock for SimLock {}

impl fmt::Debug for SimLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SimLock")
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        lock(&self.state).locked.remove(&self.path);
    }
}

/// Takes the state even after a panic elsewhere: a test that fails should fail for its own reason.
pub(super) fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
