//! Loads a lane's table as its checkpoints left it: each partition as of its own stamp.

use std::collections::BTreeMap;

use highwater_disk::{Disk, DiskResult};

use crate::catalog::{Catalog, TableReader};
use crate::error::OpenError;
use crate::format::{FormatError, LaneStart, Section, StoreId, Structure};
use crate::ids::{LaneId, Lsn};
use crate::options::Options;
use crate::table::Table;
use crate::table::stored::Restorer;

/// What is known of a lane before its log is read.
pub(crate) struct Known {
    /// Where replay starts; absent for a lane without a checkpoint.
    pub start: Option<LaneStart>,
    /// Everything before it was durable.
    pub must_reach: Lsn,
    /// Its table, still without names.
    pub table: Table,
}

/// Loads it.
///
/// # Errors
/// When a section cannot be read, or is not the one that the manifest names.
pub(super) fn load(catalog: &Catalog, lane: LaneId, options: &Options) -> Result<Known, OpenError> {
    let table = Table::unnamed(options.partition_streams);
    let must_reach = catalog.durable(lane);
    let Some((start, sections)) = catalog.lane(lane) else {
        return Ok(Known { start: None, must_reach, table });
    };
    let mut loader = Loader::new(catalog.disk(), (catalog.store_id(), lane), table);
    for part in partitions(&sections) {
        loader.begin(&part);
        for section in part.sections {
            loader.section(section, &part)?;
        }
    }
    Ok(Known { start: Some(start), must_reach, table: loader.finish()? })
}

/// A partition, as a manifest names it.
pub(crate) struct Part<'a> {
    /// Its sections, base first.
    pub sections: &'a [Section],
    /// Behind the largest number that belongs to it.
    end: u64,
}

/// Splits the sections of a lane by partition.
pub(crate) fn partitions(sections: &[Section]) -> impl Iterator<Item = Part<'_>> {
    let mut parts = sections.chunk_by(|a, b| a.first == b.first).peekable();
    std::iter::from_fn(move || {
        let sections = parts.next()?;
        let end = parts.peek().map_or(u64::MAX, |next| next[0].first);
        Some(Part { sections, end })
    })
}

/// A table being loaded.
pub(crate) struct Loader<'a> {
    disk: &'a dyn Disk,
    /// The store and the lane that it is of.
    of: (StoreId, LaneId),
    files: BTreeMap<u64, TableReader>,
    table: Table,
    restorer: Restorer,
}

impl<'a> Loader<'a> {
    /// Begins with an empty table.
    pub fn new(disk: &'a dyn Disk, of: (StoreId, LaneId), table: Table) -> Self {
        Self { disk, of, files: BTreeMap::new(), table, restorer: Restorer::default() }
    }

    /// Begins a partition: the one behind the last.
    pub fn begin(&mut self, part: &Part<'_>) {
        self.table.partitions_mut().load(part.sections.to_vec());
    }

    /// Opens a file of sections.
    ///
    /// # Errors
    /// When its header cannot be read, or is another file's.
    pub fn open(&mut self, number: u64) -> Result<(), OpenError> {
        if !self.files.contains_key(&number) {
            self.files.insert(number, TableReader::open(self.disk, self.of, number)?);
        }
        Ok(())
    }

    /// Adds a section's streams to the partition begun last.
    ///
    /// # Errors
    /// When it cannot be read, or is not the one that the manifest names.
    pub fn section(&mut self, section: &Section, part: &Part<'_>) -> Result<(), OpenError> {
        self.open(section.number)?;
        let Self { of, files, table, restorer, .. } = self;
        let file = &files[&section.number];
        let level = part.sections.iter().position(|other| other == section);
        let level = level.and_then(|level| u8::try_from(level).ok());
        let structure = Structure::SnapshotSection;
        file.section(section, |entry| {
            let (stream, number) = (entry.stream, entry.stream.in_lane());
            let level = level.filter(|level| *level < Table::MAX_LEVELS);
            let Some(level) = level.filter(|_| stream.lane() == of.1 && number < part.end) else {
                return Err(FormatError::Misfit { structure, field: "stream of a partition" });
            };
            restorer.restore(table, &entry, level)
        })
    }

    /// Ends; notes how long the files are.
    ///
    /// # Errors
    /// The disk's.
    pub fn finish(mut self) -> DiskResult<Table> {
        for (number, file) in &self.files {
            self.table.partitions_mut().files.insert(*number, file.len()?);
        }
        Ok(self.table)
    }
}
