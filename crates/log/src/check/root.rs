//! The root of a store: superblock, manifest, and the tables that it names.

use highwater_disk::{Access, Disk, ErrorKind, ReadOnly};

use super::report::RESTORE;
use super::{CheckError, CheckReport, Damage, Reach, StoreRoot, is_loss};
use crate::catalog::{self, MANIFESTS, TABLES};
use crate::error::OpenError;
use crate::format::superblock::choose;
use crate::format::{
    BLOCK_BYTES, FormatError, Label, LaneStart, Manifest, SnapshotFile, SuperBlock,
};
use crate::ids::{LaneId, Lsn};
use crate::lane::segment::to_u64;
use crate::recover::{add_file, check_label, directories, refuse_orphans};
use crate::table::Table;

const SUPER: &str = "super";

/// What the rest is read by.
pub(super) struct Root {
    pub block: SuperBlock,
    /// Absent before the first checkpoint.
    pub manifest: Option<Manifest>,
}

/// What is known of a lane before its log is read.
pub(super) struct Known {
    /// Where replay starts; absent for a lane without a checkpoint.
    pub start: Option<LaneStart>,
    /// Its table.
    pub table: Table,
    /// Records before it are in the table.
    pub stamp: Lsn,
    /// Whether the table is all there.
    pub whole: Whole,
    /// The table's file, for what is said of it.
    pub file: Option<SnapshotFile>,
}

/// Whether a table is all there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    Yes,
    No,
}

impl Known {
    /// Where the lane's replay starts.
    pub fn from(&self) -> Lsn {
        self.start.map_or(Lsn(to_u64(BLOCK_BYTES)), |start| start.replay_from)
    }
}

/// Reads superblock and manifest. Gives nothing when one is damaged: what counts is then not known.
pub(super) fn read(disk: &ReadOnly, report: &mut CheckReport) -> Result<Option<Root>, CheckError> {
    let Some(block) = superblock(disk, report)? else { return Ok(None) };
    report.store = Some(StoreRoot {
        store_id: block.store_id,
        generation: block.generation,
        manifest: block.manifest,
        lanes: block.lanes,
        segment_bytes: block.segment_bytes,
    });
    labels(disk, &block, report)?;
    if block.manifest == 0 {
        return Ok(Some(Root { block, manifest: None }));
    }
    let path = catalog::path(MANIFESTS, block.manifest);
    let manifest = match catalog::read_manifest(disk, block.manifest) {
        Ok(manifest) => manifest,
        Err(OpenError::Disk(error)) if !is_loss(&error) => return Err(error.into()),
        Err(error) => {
            let what = format!("the manifest that the superblock names cannot be read: {error}");
            report.damage.push(Damage::serious(&path, (0, len_of(disk, &path)), what));
            return Ok(None);
        }
    };
    let lanes = manifest.lanes.iter().all(|start| start.lane.0 < block.lanes);
    if manifest.store_id != block.store_id || manifest.number != block.manifest || !lanes {
        let what = "the manifest is another store's, or another one of this store".to_owned();
        report.damage.push(Damage::serious(&path, (0, to_u64(manifest.encoded_len())), what));
        return Ok(None);
    }
    Ok(Some(Root { block, manifest: Some(manifest) }))
}

/// Checks that each directory is the one that the store was made with.
fn labels(disk: &ReadOnly, block: &SuperBlock, report: &mut CheckReport) -> Result<(), CheckError> {
    for (dir, label) in directories(block) {
        let what = match check_label(disk, &dir, label) {
            Ok(()) => continue,
            Err(OpenError::Disk(error)) if !is_loss(&error) => return Err(error.into()),
            Err(error) => error.to_string(),
        };
        report.damage.push(Damage {
            file: format!("{dir}/{}", Label::NAME),
            offset: 0,
            len_bytes: to_u64(Label::LEN),
            what,
            reach: Reach::Acknowledged,
            advice: "mount the directory's device or put its link right; where the rest of the \
                     directory is sound, restore this file from a copy",
        });
    }
    Ok(())
}

fn superblock(disk: &ReadOnly, report: &mut CheckReport) -> Result<Option<SuperBlock>, CheckError> {
    let whole = (0, to_u64(SuperBlock::FILE_LEN));
    let mut lost = |what: String| report.damage.push(Damage::serious(SUPER, whole, what));
    let mut bytes = vec![0; SuperBlock::FILE_LEN];
    let file = match disk.open(SUPER, Access::Buffered) {
        Err(error) if error.kind == ErrorKind::NotFound => {
            return match refuse_orphans(disk) {
                Ok(()) => Err(CheckError::NoStore),
                Err(OpenError::Disk(error)) => Err(error.into()),
                Err(error) => {
                    lost(error.to_string());
                    Ok(None)
                }
            };
        }
        opened => opened?,
    };
    match file.read_at(&mut bytes, 0) {
        Err(error) if is_loss(&error) => {
            lost(error.to_string());
            return Ok(None);
        }
        read => read?,
    }
    let chosen = match choose(&bytes) {
        Ok(chosen) => chosen,
        Err(error) => {
            lost(error.to_string());
            return Ok(None);
        }
    };
    let may_miss = chosen.may_miss_a_newer_one();
    for (slot, error) in &chosen.damaged {
        let (reach, advice) = if may_miss {
            (Reach::Acknowledged, RESTORE)
        } else {
            (Reach::Nothing, "nothing: a newer superblock counts, and the slot is written again")
        };
        report.damage.push(Damage {
            file: SUPER.to_owned(),
            offset: to_u64(slot * SuperBlock::LEN),
            len_bytes: to_u64(SuperBlock::LEN),
            what: format!("slot {slot}: {error}"),
            reach,
            advice,
        });
    }
    // Without the newest root it is not known which tables and segments count.
    Ok((!may_miss).then_some(chosen.newest))
}

/// Reads the tables of a lane.
pub(super) fn lane_table(
    disk: &ReadOnly,
    root: &Root,
    lane: LaneId,
    report: &mut CheckReport,
) -> Result<Known, CheckError> {
    let (table, whole) = (Table::default(), Whole::Yes);
    let mut known = Known { start: None, table, stamp: Lsn(0), whole, file: None };
    let Some(manifest) = &root.manifest else { return Ok(known) };
    known.start = manifest.lanes.iter().find(|start| start.lane == lane).copied();
    for file in manifest.snapshots.iter().filter(|file| file.lane == lane) {
        let path = catalog::path(TABLES, file.number);
        known.stamp = file.stamp;
        known.file = Some(*file);
        if let Err(what) = table_file(disk, root, file, &mut known.table)? {
            known.whole = Whole::No;
            report.damage.push(Damage::serious(&path, (0, file.len), what));
        }
    }
    Ok(known)
}

/// Adds a table's file; gives what is wrong with it.
fn table_file(
    disk: &ReadOnly,
    root: &Root,
    file: &SnapshotFile,
    table: &mut Table,
) -> Result<Result<(), String>, CheckError> {
    let bytes = match catalog::read_table(disk, file) {
        Err(error) if is_loss(&error) => return Ok(Err(error.to_string())),
        read => read?,
    };
    Ok(match add_file(table, file, &bytes) {
        Err(error) => Err(error.to_string()),
        Ok(header) if header.store_id != root.block.store_id => {
            Err("the table is another store's".to_owned())
        }
        Ok(header) if (header.partition, header.kind) != (file.partition, file.kind) => {
            let structure = crate::format::Structure::SnapshotHeader;
            Err(FormatError::Misfit { structure, field: "partition or kind" }.to_string())
        }
        Ok(_) if len_of(disk, &catalog::path(TABLES, file.number)) != file.len => {
            Err("the file is longer than the manifest says".to_owned())
        }
        Ok(_) => Ok(()),
    })
}

/// Length of a file, for what is said of it; 0 where it is missing.
fn len_of(disk: &ReadOnly, path: &str) -> u64 {
    disk.open(path, Access::Buffered).and_then(|file| file.len()).unwrap_or(0)
}
