//! Loads a lane's table as its last checkpoint left it.

use crate::catalog::Catalog;
use crate::error::OpenError;
use crate::format::snapshot::{EntryFlags, read_snapshot};
use crate::format::{Entry, FormatError, LaneStart, SnapshotFile, SnapshotHeader, Structure};
use crate::ids::{LaneId, Lsn};
use crate::request::Config;
use crate::table::Table;
use crate::table::rare::{ClosedBy, Parent, ProducerState};
use crate::table::slot::Flags;

/// What is known of a lane before its log is read.
pub(crate) struct Known {
    /// Where replay starts; absent for a lane without a checkpoint.
    pub start: Option<LaneStart>,
    /// Its table.
    pub table: Table,
    /// Records before it are in the table.
    pub stamp: Lsn,
}

/// Loads it.
///
/// # Errors
/// When a table file cannot be read, or is not the one that the manifest names.
pub(super) fn load(catalog: &Catalog, lane: LaneId) -> Result<Known, OpenError> {
    let mut known = Known { start: None, table: Table::default(), stamp: Lsn(0) };
    let Some((start, files)) = catalog.lane(lane) else { return Ok(known) };
    known.start = Some(start);
    for file in &files {
        let name = format!("tables/{}", file.number);
        let bytes = catalog.read_table(file)?;
        let format = |source| OpenError::Format { file: name.clone(), source };
        let header = add_file(&mut known.table, file, &bytes).map_err(format)?;
        if header.store_id != catalog.store_id() {
            let (structure, field) = (Structure::SnapshotHeader, "store");
            return Err(format(FormatError::Misfit { structure, field }));
        }
        known.stamp = file.stamp;
    }
    Ok(known)
}

/// Adds the streams of a table file, which has to be the one that the manifest names.
///
/// # Errors
/// When it is not, or cannot be read.
pub(crate) fn add_file(
    table: &mut Table,
    file: &SnapshotFile,
    bytes: &[u8],
) -> Result<SnapshotHeader, FormatError> {
    let mut refused = None;
    let (header, summary) = read_snapshot(bytes, |entry| {
        if let Err(error) = insert(table, &entry) {
            refused.get_or_insert(error);
        }
    })?;
    if let Some(source) = refused {
        return Err(source);
    }
    let is_named = header.number == file.number
        && header.lane == file.lane
        && header.stamp == file.stamp
        && (summary.len, summary.crc) == (file.len, file.crc);
    if !is_named {
        let structure = Structure::SnapshotHeader;
        return Err(FormatError::Misfit { structure, field: "file of the manifest" });
    }
    Ok(header)
}

fn insert(table: &mut Table, entry: &Entry<'_>) -> Result<(), FormatError> {
    let misfit = |field| FormatError::Misfit { structure: Structure::SnapshotEntry, field };
    let name = entry.name.ok_or_else(|| misfit("name"))?;
    if table.by_name(name).is_some() || table.by_id(entry.stream).is_some() {
        return Err(misfit("name or number, which is there twice"));
    }
    let config = Config {
        content_type: entry.content_type.unwrap_or_default().to_owned(),
        expiry: entry.expiry,
        metadata: entry.metadata.unwrap_or_default().to_vec(),
    };
    let at = table.insert(name, entry.stream, &config);
    let slot = table.slot_mut(at);
    (slot.tail, slot.durable, slot.absorbed) = (entry.tail, entry.tail, entry.absorbed);
    slot.region_crc = entry.region_crc;
    slot.flags.set(Flags::VISIBLE);
    if entry.flags.contains(EntryFlags::CLOSED) {
        slot.flags.set(Flags::CLOSED | Flags::CLOSED_VISIBLE);
    }
    if entry.flags.contains(EntryFlags::SOFT_DELETED) {
        slot.flags.set(Flags::SOFT_DELETED);
    }
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| misfit("producer"));
    // They stand in the order of their last use, and every record lies behind these numbers.
    for (producer, at_least) in entry.producers.iter().zip(0..) {
        let (epoch, sequence) = (producer.epoch, producer.seq);
        let state = ProducerState { epoch, sequence, at: Lsn(at_least) };
        table.rare_mut(at).producers.insert(text(producer.id)?.into(), state);
    }
    if let Some(by) = entry.closed_by {
        let (id, epoch, sequence) = (text(by.id)?.into(), by.epoch, by.seq);
        table.rare_mut(at).closed_by = Some(ClosedBy { id, epoch, sequence });
    }
    if let Some(sequence) = entry.sequence {
        table.rare_mut(at).sequence = Some(sequence.into());
    }
    if let Some(parent) = entry.fork_parent {
        let parent = Parent { stream: parent.stream, offset: parent.offset };
        table.rare_mut(at).parent = Some(parent);
    }
    if entry.last_touched_ms > 0 {
        table.rare_mut(at).touched_ms = entry.last_touched_ms;
    }
    Ok(())
}
