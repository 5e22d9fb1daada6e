//! What all lanes hold together: streams, and bytes of them. Each lane says what it has, under its
//! own lock; whoever is to stay within a limit adds up what all have said.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{LogError, LogResult};
use crate::ids::LaneId;
use crate::table::Table;

/// What all lanes hold.
#[derive(Debug)]
pub(crate) struct Holdings {
    lanes: Box<[Holding]>,
}

/// What one lane holds.
#[derive(Debug, Default)]
struct Holding {
    streams: AtomicU64,
    bytes: AtomicU64,
}

impl Holdings {
    /// Begins with nothing.
    pub fn new(lanes: u16) -> Self {
        Self { lanes: (0..lanes).map(|_| Holding::default()).collect() }
    }

    /// Notes what a lane has now.
    pub fn set(&self, lane: LaneId, table: &Table) {
        let holding = &self.lanes[usize::from(lane.0)];
        holding.streams.store(table.len(), Ordering::Relaxed);
        holding.bytes.store(table.content_bytes(), Ordering::Relaxed);
    }

    /// Refuses another stream where there are as many as may be.
    ///
    /// # Errors
    /// [`LogError::Full`].
    pub fn check_stream(&self, most: u64) -> LogResult<()> {
        if self.sum(|holding| &holding.streams) < most {
            return Ok(());
        }
        Err(LogError::Full(format!("{most} streams are the limit: delete some")))
    }

    /// Refuses so many bytes more where streams would hold too many then.
    ///
    /// # Errors
    /// [`LogError::Full`].
    pub fn check_bytes(&self, len: u64, most: u64) -> LogResult<()> {
        if most == u64::MAX {
            return Ok(());
        }
        let held = self.sum(|holding| &holding.bytes);
        if held.saturating_add(len) <= most {
            return Ok(());
        }
        Err(LogError::Full(format!(
            "streams hold {held} bytes, and {most} may be: delete some, or raise max_total_bytes"
        )))
    }

    fn sum(&self, of: fn(&Holding) -> &AtomicU64) -> u64 {
        self.lanes
            .iter()
            .fold(0_u64, |sum, one| sum.saturating_add(of(one).load(Ordering::Relaxed)))
    }
}
