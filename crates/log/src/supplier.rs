//! Keeps lanes in files and memory: what they need next is made ready before they need it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use highwater_disk::Clock;

use crate::lane::Lane;
use crate::maintenance::{Maintenance, RETRY, Worker};

/// Makes files ready for all lanes.
#[derive(Debug)]
pub(crate) struct Supplier {
    /// Each with the time before which it is left alone, after a failure.
    lanes: Vec<(Arc<Lane>, Duration)>,
    clock: Arc<dyn Clock>,
    asked: Arc<Maintenance>,
}

impl Supplier {
    /// Makes one.
    pub fn new(lanes: &[Arc<Lane>], clock: Arc<dyn Clock>, asked: Arc<Maintenance>) -> Self {
        let lanes = lanes.iter().map(|lane| (Arc::clone(lane), Duration::ZERO)).collect();
        Self { lanes, clock, asked }
    }

    /// Runs until the end is asked for.
    pub fn run(mut self) {
        let asked = Arc::clone(&self.asked);
        let lanes: Vec<_> = self.lanes.iter().map(|(lane, _)| Arc::clone(lane)).collect();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            while asked.wait(Worker::Supplier, RETRY.1) {
                self.look();
            }
        }));
        if ended.is_err() {
            for lane in lanes {
                // A lane whose lock a panic has closed is down already.
                catch_unwind(AssertUnwindSafe(|| lane.fail("the supplier panicked"))).ok();
            }
        }
    }

    /// Looks after every lane once.
    pub fn look(&mut self) {
        for (lane, not_before) in &mut self.lanes {
            lane.populate_ahead();
            let now = self.clock.monotonic();
            // Whoever needs a file that could not be made gets the error.
            if now >= *not_before && lane.prepare_files().is_err() {
                *not_before = now.saturating_add(RETRY.0);
            }
        }
    }
}
