//! The root of a store: superblock, manifest, and the tables that it names.

use std::collections::{BTreeMap, BTreeSet};

use highwater_disk::{Access, Disk, ErrorKind, Lock, ReadOnly};

use super::report::RESTORE;
use super::{CheckError, CheckReport, Damage, Reach, StoreRoot, is_loss};
use crate::catalog::{self, MANIFESTS, TABLES};
use crate::error::OpenError;
use crate::format::superblock::choose;
use crate::format::{BLOCK_BYTES, Label, LaneStart, Manifest, Section, SnapshotHeader, SuperBlock};
use crate::ids::{LaneId, Lsn};
use crate::lane::segment::to_u64;
use crate::options::Options;
use crate::recover::{Loader, check_label, directories, partitions, refuse_orphans};
use crate::table::Table;

const SUPER: &str = "super";

/// What the rest is read by.
pub(super) struct Root {
    pub block: SuperBlock,
    /// Absent before the first checkpoint.
    pub manifest: Option<Manifest>,
    /// How far lanes were durable, as newer manifests say.
    pub vouched: BTreeMap<LaneId, Lsn>,
}

/// What is known of a lane before its log is read.
pub(super) struct Known {
    /// Where replay starts; absent for a lane without a checkpoint.
    pub start: Option<LaneStart>,
    /// Everything before it was durable.
    pub must_reach: Lsn,
    /// Its table, still without names.
    pub table: Table,
    /// Whether the table is all there.
    pub whole: Whole,
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
    let vouched = match catalog::vouched_by_newer(disk, &block) {
        Err(error) if error.kind == ErrorKind::NotFound => BTreeMap::new(),
        vouched => vouched?,
    };
    if block.manifest == 0 {
        return Ok(Some(Root { block, manifest: None, vouched }));
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
    Ok(Some(Root { block, manifest: Some(manifest), vouched }))
}

/// Locks each directory: the store's root may be a copy, and its links lead to another one's.
pub(super) fn lock(disk: &ReadOnly, block: &SuperBlock) -> Result<Vec<Box<dyn Lock>>, CheckError> {
    let labels = directories(block).map(|(dir, _)| format!("{dir}/{}", Label::NAME));
    let taken = labels.map(|label| match disk.lock(&label) {
        Ok(lock) => Ok(Some(lock)),
        Err(error) if error.kind == ErrorKind::Locked => Err(CheckError::Locked),
        // What is wrong with it has been told as damage.
        Err(error) if is_loss(&error) => Ok(None),
        Err(error) => Err(error.into()),
    });
    taken.filter_map(Result::transpose).collect()
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

/// Reads the table of a lane, section by section.
pub(super) fn lane_table(
    disk: &ReadOnly,
    root: &Root,
    lane: LaneId,
    report: &mut CheckReport,
) -> Result<Known, CheckError> {
    let table = Table::unnamed(Options::default().partition_streams);
    let vouched = root.vouched.get(&lane).copied().unwrap_or(Lsn(0));
    let Some(manifest) = &root.manifest else {
        let must_reach = vouched;
        return Ok(Known { start: None, must_reach, table, whole: Whole::Yes });
    };
    let start = manifest.lanes.iter().find(|start| start.lane == lane).copied();
    let of_lane = manifest.sections.iter().filter(|section| section.lane == lane);
    let sections: Vec<Section> = of_lane.copied().collect();
    let mut loader = Loader::new(disk, (root.block.store_id, lane), table);
    let numbers: BTreeSet<u64> = sections.iter().map(|section| section.number).collect();
    let mut lost = BTreeSet::new();
    for number in numbers {
        if let Err(error) = loader.open(number) {
            let (path, header) = (catalog::path(TABLES, number), to_u64(SnapshotHeader::LEN));
            report.damage.push(Damage::serious(&path, (0, header), said(error)?));
            lost.insert(number);
        }
    }
    let mut whole = if lost.is_empty() { Whole::Yes } else { Whole::No };
    for part in partitions(&sections) {
        loader.begin(&part);
        for section in part.sections.iter().filter(|section| !lost.contains(&section.number)) {
            if let Err(error) = loader.section(section, &part) {
                whole = Whole::No;
                report.damage.push(section_damage(section, said(error)?));
            }
        }
    }
    let must_reach = start.map_or(Lsn(0), |start| start.durable_lsn).max(vouched);
    Ok(Known { start, must_reach, table: loader.finish()?, whole })
}

/// Gives what an error says of stored bytes.
fn said(error: OpenError) -> Result<String, CheckError> {
    match error {
        OpenError::Disk(error) if !is_loss(&error) => Err(error.into()),
        OpenError::Format { source, .. } => Ok(source.to_string()),
        error => Ok(error.to_string()),
    }
}

/// Damage to a section of a table.
pub(super) fn section_damage(section: &Section, what: String) -> Damage {
    let path = catalog::path(TABLES, section.number);
    Damage::serious(&path, (section.position, section.len.into()), what)
}

/// Length of a file, for what is said of it; 0 where it is missing.
fn len_of(disk: &ReadOnly, path: &str) -> u64 {
    disk.open(path, Access::Buffered).and_then(|file| file.len()).unwrap_or(0)
}
