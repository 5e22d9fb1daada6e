//! Writes what changed of a lane's table, one partition at a time: the lane's lock is held while
//! one is encoded, and given back while its bytes are written.
//!
//! Partitions are as of different moments then, each as of its own stamp. Replay applies a record
//! only at or after the stamp of its partition, which it finds by the ranges in the manifest: so
//! the list of sections is taken, under the lock, when every partition has one.

use std::collections::BTreeSet;

use super::super::{Lane, State};
use super::section;
use crate::catalog::TableFile;
use crate::error::{LogError, LogResult};
use crate::format::{LaneStart, Section, SectionWriter};
use crate::ids::Lsn;
use crate::table::files::to_empty;
use crate::table::partition::Write;
use crate::table::partitions::Partitions;

/// Bytes that one checkpoint copies from file to file, besides as many as it writes anew.
const COPIED_BYTES: u64 = 4 << 20;

/// A table that has been written, and counts once the log is durable past its stamp.
#[derive(Debug)]
pub struct Written {
    /// Every section that counts.
    pub sections: Vec<Section>,
    /// All stamps are at or before it.
    pub stamp: Lsn,
    /// Where replay starts.
    pub start: LaneStart,
}

/// Chooses a partition, and what is written of it.
pub type Choose<'a> = &'a dyn Fn(&Partitions) -> Option<(usize, Write)>;

/// Who writes sections to a file.
pub trait Sections {
    /// Writes the section that is chosen, if any; gives from where the next is looked for.
    ///
    /// # Errors
    /// The disk's, and when the lane is poisoned.
    fn write(&mut self, choose: Choose<'_>) -> LogResult<Option<u64>>;

    /// Length of the file so far, bytes.
    fn len(&self) -> u64;

    /// Older files that are to be emptied.
    fn to_empty(&self) -> BTreeSet<u64>;
}

/// Writes all that changed: partitions with records since their stamp; then, as far as that is in
/// proportion, what counts in files that are to be emptied; then partitions made meanwhile.
///
/// # Errors
/// What writing a section gives.
pub fn write_all(sections: &mut impl Sections) -> LogResult<()> {
    let mut from = 0;
    while let Some(next) = sections.write(&|parts| parts.next_due(from))? {
        from = next;
    }
    let (files, most) = (sections.to_empty(), 2 * sections.len() + COPIED_BYTES);
    let mut from = 0;
    while sections.len() < most {
        let choose = |parts: &Partitions| parts.next_within(from, &files);
        let Some(next) = sections.write(&choose)? else { break };
        from = next;
    }
    while sections.write(&Partitions::next_bare)?.is_some() {}
    Ok(())
}

/// A lane's sections, and their file.
pub struct Tables<'a, 'c> {
    lane: &'a Lane,
    file: &'a mut TableFile<'c>,
    out: SectionWriter,
}

impl<'a, 'c> Tables<'a, 'c> {
    /// Begins.
    pub fn new(lane: &'a Lane, file: &'a mut TableFile<'c>) -> Self {
        Self { lane, file, out: SectionWriter::default() }
    }

    /// Writes all that changed. Everything before `absorbed_to` is in its home.
    ///
    /// # Errors
    /// The disk's, and when the lane is poisoned.
    pub fn write_all(mut self, absorbed_to: Lsn) -> LogResult<Written> {
        write_all(&mut self)?;
        loop {
            let state = self.lane.lock();
            if state.table.partitions().next_bare().is_none() {
                let stamp = state.staging.stamp();
                let sections = state.table.partitions().sections().copied().collect();
                let start = self.lane.lane_start(&state, absorbed_to, stamp);
                return Ok(Written { sections, stamp, start });
            }
            drop(state);
            // Made just now, between two locks.
            self.write(&Partitions::next_bare)?;
        }
    }
}

impl Sections for Tables<'_, '_> {
    fn write(&mut self, choose: Choose<'_>) -> LogResult<Option<u64>> {
        let next = {
            let mut state = self.lane.lock();
            state.check_healthy()?;
            let State { table, staging, .. } = &mut *state;
            let Some(chosen) = choose(table.partitions()) else { return Ok(None) };
            let at = (staging.stamp(), &self.file.place());
            section::write(table, chosen, at, &mut self.out).map_err(|source| {
                LogError::Damaged { place: format!("table of lane {}", self.lane.id()), source }
            })?
        };
        self.file.append(self.out.bytes())?;
        Ok(Some(next))
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn to_empty(&self) -> BTreeSet<u64> {
        let state = self.lane.lock();
        let parts = state.table.partitions();
        to_empty(&parts.files, parts.sections())
    }
}
