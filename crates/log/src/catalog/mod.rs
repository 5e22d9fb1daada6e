//! Which table snapshots count, and where each lane's replay starts: the manifest, and the
//! superblock that names it.
//!
//! A manifest is a new file each time. It counts from the moment the superblock that names it is
//! durable; until then the one before does. Files that no manifest names are removed later. A
//! `table_file` is what a lane writes before, and reads when it is opened.

mod table_file;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use highwater_disk::{Access, Disk, DiskResult, ErrorKind};

use crate::error::OpenError;
use crate::format::{
    FormatError, LaneStart, Manifest, Section, SnapshotHeader, StoreId, Structure, SuperBlock,
};
use crate::ids::{LaneId, Lsn};
use crate::lane::segment::to_usize;
use table_file::Fate;
pub(crate) use table_file::TableReader;
pub use table_file::{Place, TableFile};

const SUPER: &str = "super";
pub(crate) const MANIFESTS: &str = "manifest";
pub(crate) const TABLES: &str = "tables";

/// The catalog.
#[derive(Debug)]
pub struct Catalog {
    disk: Arc<dyn Disk>,
    /// What manifests that do not count vouch for.
    vouched: BTreeMap<LaneId, Lsn>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    block: SuperBlock,
    manifest: Manifest,
    next_table: u64,
    /// Numbers of table files that no manifest names yet.
    being_written: BTreeSet<u64>,
    /// Whether the superblock on disk may name a manifest that this does not know of.
    is_uncertain: bool,
}

/// What a lane's checkpoint makes durable.
#[derive(Debug)]
pub struct LaneTable {
    /// Where its replay starts from now on.
    pub start: LaneStart,
    /// Its whole table, by partition and file.
    pub sections: Vec<Section>,
}

impl Catalog {
    /// Reads the manifest that the superblock names; an empty one where it names none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(disk: Arc<dyn Disk>, block: SuperBlock) -> Result<Self, OpenError> {
        for dir in [MANIFESTS, TABLES] {
            match disk.create_dir(dir) {
                Err(error) if error.kind != ErrorKind::Exists => return Err(error.into()),
                _ => {}
            }
        }
        disk.sync_dir("")?;
        let manifest = if block.manifest == 0 {
            let store_id = block.store_id;
            Manifest { store_id, number: 0, lanes: Vec::new(), sections: Vec::new() }
        } else {
            let manifest = read_manifest(&*disk, block.manifest)?;
            if manifest.store_id != block.store_id || manifest.number != block.manifest {
                let (structure, field) = (Structure::Manifest, "store or number of the manifest");
                let file = path(MANIFESTS, block.manifest);
                return Err(OpenError::Format {
                    file,
                    source: FormatError::Misfit { structure, field },
                });
            }
            manifest
        };
        let vouched = vouched_by_newer(&*disk, &block)?;
        let used = manifest.sections.iter().map(|section| section.number);
        let next_table = used.chain(numbers_in(&*disk, TABLES)?).max().map_or(1, |last| last + 1);
        let being_written = BTreeSet::new();
        let inner = Inner { block, manifest, next_table, being_written, is_uncertain: false };
        Ok(Self { disk, vouched, inner: Mutex::new(inner) })
    }

    /// Where a lane's replay starts, and its table then.
    pub fn lane(&self, lane: LaneId) -> Option<(LaneStart, Vec<Section>)> {
        let inner = self.lock();
        let start = inner.manifest.lanes.iter().find(|start| start.lane == lane)?;
        let sections = inner.manifest.sections.iter().filter(|section| section.lane == lane);
        Some((*start, sections.copied().collect()))
    }

    /// A lane's log was durable to here when the catalog was opened, whatever is found of it now.
    pub fn durable(&self, lane: LaneId) -> Lsn {
        let start = self.lane(lane).map_or(Lsn(0), |(start, _)| start.durable_lsn);
        start.max(self.vouched.get(&lane).copied().unwrap_or(Lsn(0)))
    }

    /// The store that it is of.
    pub fn store_id(&self) -> StoreId {
        self.lock().block.store_id
    }

    /// The disk that it is on.
    pub fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// Begins a file for a lane's table, of a number that none has had.
    pub fn begin_table(&self, lane: LaneId) -> TableFile<'_> {
        let mut inner = self.lock();
        let number = inner.next_table;
        inner.next_table += 1;
        inner.being_written.insert(number);
        let store_id = inner.block.store_id;
        drop(inner);
        TableFile::new(self, SnapshotHeader { store_id, lane, number })
    }

    /// Whether a write of the superblock has failed: nothing can be published any more.
    pub fn is_uncertain(&self) -> bool {
        self.lock().is_uncertain
    }

    /// Makes a lane's new table the one that counts; `file` has what was written of it. When this
    /// returns, a crash starts from it.
    ///
    /// # Errors
    /// The disk's: the manifest before still counts, or nobody knows which does.
    pub fn publish(&self, table: &LaneTable, mut file: TableFile<'_>) -> Result<(), OpenError> {
        let mut inner = self.lock();
        if inner.is_uncertain {
            let why = "a write of the superblock has failed: open the log again".to_owned();
            return Err(OpenError::Settings(why));
        }
        let lane = table.start.lane;
        let mut manifest = inner.manifest.clone();
        manifest.number = inner.block.manifest + 1;
        manifest.lanes.retain(|start| start.lane != lane);
        manifest.lanes.push(table.start);
        manifest.lanes.sort_by_key(|start| start.lane);
        manifest.sections.retain(|section| section.lane != lane);
        manifest.sections.extend(&table.sections);
        // Each lane's are in order.
        manifest.sections.sort_by_key(|section| section.lane);
        let bytes = manifest.encode().map_err(|source| OpenError::Format {
            file: path(MANIFESTS, manifest.number),
            source,
        })?;
        // A crash may have left a file of this number that no superblock names.
        self.remove(MANIFESTS, manifest.number)?;
        self.write_new(MANIFESTS, manifest.number, &bytes)?;
        let block = SuperBlock {
            generation: inner.block.generation + 1,
            manifest: manifest.number,
            ..inner.block
        };
        let root = self.disk.open(SUPER, Access::Buffered)?;
        // Whether a failed write is there after a crash, nobody knows: what it names has to stay.
        file.fate = Fate::Kept;
        let written = root.write_at(&block.encode()[..], block.slot_offset());
        if written.is_err() {
            // Half a slot would be taken for a newer one that was lost.
            root.write_at(&[0; SuperBlock::LEN], block.slot_offset()).ok();
        }
        let written = written.and_then(|()| root.sync_data());
        inner.is_uncertain = written.is_err();
        written?;
        inner.block = block;
        inner.manifest = manifest;
        let removed = self.remove_unnamed(&inner);
        drop(inner);
        drop(file);
        removed
    }

    /// Removes files that no manifest of a readable superblock slot can name any more: all older
    /// than the one before this.
    fn remove_unnamed(&self, inner: &Inner) -> Result<(), OpenError> {
        for number in numbers_in(&*self.disk, MANIFESTS)? {
            if number < inner.manifest.number {
                self.remove(MANIFESTS, number)?;
            }
        }
        let named: BTreeSet<u64> =
            inner.manifest.sections.iter().map(|section| section.number).collect();
        for number in numbers_in(&*self.disk, TABLES)? {
            // Other lanes are writing theirs.
            if !named.contains(&number) && !inner.being_written.contains(&number) {
                self.remove(TABLES, number)?;
            }
        }
        Ok(())
    }

    fn write_new(&self, dir: &str, number: u64, bytes: &[u8]) -> DiskResult<()> {
        let write = || {
            let file = self.disk.create(&path(dir, number), Access::Buffered)?;
            file.write_at(bytes, 0)?;
            file.sync_data()?;
            self.disk.sync_dir(dir)
        };
        // A full disk has no room for files that will never count.
        write().inspect_err(|_| drop(self.disk.remove(&path(dir, number))))
    }

    fn remove(&self, dir: &str, number: u64) -> DiskResult<()> {
        match self.disk.remove(&path(dir, number)) {
            Err(error) if error.kind != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics with the catalog's lock held")
    }
}

pub(crate) fn read_manifest(disk: &dyn Disk, number: u64) -> Result<Manifest, OpenError> {
    let path = path(MANIFESTS, number);
    let file = disk.open(&path, Access::Buffered)?;
    let mut bytes = vec![0; to_usize(file.len()?)];
    file.read_at(&mut bytes, 0)?;
    Manifest::decode(&bytes).map_err(|source| OpenError::Format { file: path, source })
}

/// How far lanes were durable, as manifests say that are newer than the one that counts. A crash
/// leaves one before its superblock is written; or a device has lost that superblock. Either way
/// the log had been durable to where the manifest says before it was written.
///
/// # Errors
/// The disk's.
pub(crate) fn vouched_by_newer(
    disk: &dyn Disk,
    block: &SuperBlock,
) -> DiskResult<BTreeMap<LaneId, Lsn>> {
    let mut vouched = BTreeMap::new();
    let newer = numbers_in(disk, MANIFESTS)?.into_iter().filter(|number| *number > block.manifest);
    for number in newer {
        let manifest = match read_manifest(disk, number) {
            Ok(manifest) => manifest,
            Err(OpenError::Disk(error)) if error.kind == ErrorKind::Io => return Err(error),
            // It was never whole.
            Err(_) => continue,
        };
        if manifest.store_id != block.store_id || manifest.number != number {
            continue;
        }
        for start in &manifest.lanes {
            let durable = vouched.entry(start.lane).or_insert(start.durable_lsn);
            *durable = start.durable_lsn.max(*durable);
        }
    }
    Ok(vouched)
}

pub(crate) fn numbers_in(disk: &dyn Disk, dir: &str) -> DiskResult<Vec<u64>> {
    let entries = disk.list(dir)?;
    Ok(entries.iter().filter_map(|entry| entry.name.parse().ok()).collect())
}

pub(crate) fn path(dir: &str, number: u64) -> String {
    format!("{dir}/{number}")
}

#[cfg(test)]
mod tests;
