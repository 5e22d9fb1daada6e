//! The thread that keeps lanes supplied with segments and moves bytes home: one for the whole log,
//! so that one checkpoint is under way at a time.
//!
//! A full disk is tried again at the next occasion: the log still has the bytes. Any other failure,
//! or a panic, turns the lane down: what the table says may no longer be so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use highwater_disk::ErrorKind;

use crate::catalog::Catalog;
use crate::error::{LogError, LogResult};
use crate::home::Home;
use crate::lane::Lane;
use crate::log::tend;

/// Asks for maintenance, and for its end.
#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    state: Mutex<Asked>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Asked {
    work: bool,
    end: bool,
}

impl Maintenance {
    /// Asks for a look at all lanes soon.
    pub fn ask(&self) {
        self.lock().work = true;
        self.changed.notify_one();
    }

    /// Asks the thread to end.
    pub fn end(&self) {
        self.lock().end = true;
        self.changed.notify_one();
    }

    /// Waits until asked, or for a while; gives false at the end.
    fn wait(&self, longest: Duration) -> bool {
        let asked = self.lock();
        let idle = |asked: &mut Asked| !asked.work && !asked.end;
        let (mut asked, _) = self
            .changed
            .wait_timeout_while(asked, longest, idle)
            .expect("nobody panics with this lock held");
        asked.work = false;
        !asked.end
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Asked> {
        self.state.lock().expect("nobody panics with this lock held")
    }
}

/// What the thread looks after.
pub(crate) struct Keeper {
    pub lanes: Vec<Arc<Lane>>,
    pub home: Arc<dyn Home>,
    pub catalog: Arc<Catalog>,
    pub interval: Duration,
    pub asked: Arc<Maintenance>,
}

impl Keeper {
    /// Runs until the end is asked for.
    pub fn run(&self) {
        loop {
            let begun = std::time::Instant::now();
            if !self.asked.wait(self.interval) {
                return;
            }
            let is_due = begun.elapsed() >= self.interval;
            tend(&self.lanes);
            for lane in &self.lanes {
                self.look_after(lane, is_due);
            }
        }
    }

    fn look_after(&self, lane: &Lane, is_due: bool) {
        let done = catch_unwind(AssertUnwindSafe(|| -> LogResult<()> {
            lane.prepare_spare()?;
            if lane.wants_checkpoint() || (is_due && lane.has_unabsorbed()) {
                lane.checkpoint(&*self.home, &self.catalog)?;
            }
            Ok(())
        }));
        match done {
            Ok(Ok(()) | Err(LogError::Full(_) | LogError::Poisoned(_))) => {}
            Ok(Err(LogError::Disk(error))) if error.kind == ErrorKind::Full => {}
            Ok(Err(error)) => lane.fail(&format!("the checkpoint failed: {error}")),
            Err(_) => lane.fail("the checkpoint panicked"),
        }
    }
}
