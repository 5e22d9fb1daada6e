//! Which table snapshots count, and where each lane's replay starts: the manifest, and the
//! superblock that names it.
//!
//! A manifest is a new file each time. It counts from the moment the superblock that names it is
//! durable; until then the one before does. Files that no manifest names are removed later.

use std::sync::{Arc, Mutex};

use highwater_disk::{Access, Disk, DiskResult, ErrorKind};

use crate::error::OpenError;
use crate::format::{
    FormatError, LaneStart, Manifest, SnapshotFile, StoreId, Structure, SuperBlock,
};
use crate::ids::LaneId;
use crate::lane::segment::to_usize;

const SUPER: &str = "super";
pub(crate) const MANIFESTS: &str = "manifest";
pub(crate) const TABLES: &str = "tables";

/// The catalog.
#[derive(Debug)]
pub struct Catalog {
    disk: Arc<dyn Disk>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    block: SuperBlock,
    manifest: Manifest,
    next_table: u64,
    /// Whether the superblock on disk may name a manifest that this does not know of.
    is_uncertain: bool,
}

/// What a lane's checkpoint makes durable.
#[derive(Debug)]
pub struct LaneTable {
    /// Where its replay starts from now on.
    pub start: LaneStart,
    /// Its whole table.
    pub snapshot: SnapshotFile,
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
            Manifest { store_id, number: 0, lanes: Vec::new(), snapshots: Vec::new() }
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
        let used = manifest.snapshots.iter().map(|snapshot| snapshot.number);
        let next_table = used.chain(numbers_in(&*disk, TABLES)?).max().map_or(1, |last| last + 1);
        let inner = Inner { block, manifest, next_table, is_uncertain: false };
        Ok(Self { disk, inner: Mutex::new(inner) })
    }

    /// Where a lane's replay starts, and its table then.
    pub fn lane(&self, lane: LaneId) -> Option<(LaneStart, Vec<SnapshotFile>)> {
        let inner = self.lock();
        let start = inner.manifest.lanes.iter().find(|start| start.lane == lane)?;
        let snapshots = inner.manifest.snapshots.iter().filter(|file| file.lane == lane);
        Some((*start, snapshots.copied().collect()))
    }

    /// The store that it is of.
    pub fn store_id(&self) -> StoreId {
        self.lock().block.store_id
    }

    /// Gives a number that no table snapshot has had.
    pub fn next_table(&self) -> u64 {
        let mut inner = self.lock();
        inner.next_table += 1;
        inner.next_table - 1
    }

    /// Writes a table snapshot's file and makes it durable; no manifest names it yet.
    ///
    /// # Errors
    /// The disk's.
    pub fn write_table(&self, number: u64, bytes: &[u8]) -> DiskResult<()> {
        self.write_new(TABLES, number, bytes)
    }

    /// Reads a table snapshot's file.
    ///
    /// # Errors
    /// The disk's.
    pub fn read_table(&self, file: &SnapshotFile) -> DiskResult<Vec<u8>> {
        read_table(&*self.disk, file)
    }

    /// Whether a write of the superblock has failed: nothing can be published any more.
    pub fn is_uncertain(&self) -> bool {
        self.lock().is_uncertain
    }

    /// Makes a lane's new table the one that counts. When this returns, a crash starts from it.
    ///
    /// # Errors
    /// The disk's: the manifest before still counts.
    pub fn publish(&self, table: &LaneTable) -> Result<(), OpenError> {
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
        manifest.snapshots.retain(|file| file.lane != lane);
        manifest.snapshots.push(table.snapshot);
        manifest.snapshots.sort_by_key(|file| (file.lane, file.partition, file.number));
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
        let file = self.disk.open(SUPER, Access::Buffered)?;
        // Whether a failed write is there after a crash, nobody knows: what it names has to stay.
        let written = file.write_at(&block.encode()[..], block.slot_offset());
        if written.is_err() {
            // Half a slot would be taken for a newer one that was lost.
            file.write_at(&[0; SuperBlock::LEN], block.slot_offset()).ok();
        }
        let written = written.and_then(|()| file.sync_data());
        inner.is_uncertain = written.is_err();
        written?;
        inner.block = block;
        inner.manifest = manifest;
        self.remove_unnamed(&inner)?;
        Ok(())
    }

    /// Removes files that no manifest of a readable superblock slot can name any more: all older
    /// than the one before this.
    fn remove_unnamed(&self, inner: &Inner) -> Result<(), OpenError> {
        for number in numbers_in(&*self.disk, MANIFESTS)? {
            if number < inner.manifest.number {
                self.remove(MANIFESTS, number)?;
            }
        }
        for number in numbers_in(&*self.disk, TABLES)? {
            let is_named = inner.manifest.snapshots.iter().any(|file| file.number == number);
            // A newer one is being written by another lane.
            let newest = inner.manifest.snapshots.iter().map(|file| file.number).max();
            if !is_named && Some(number) < newest {
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

/// Reads the file of a table snapshot as far as the manifest says that it goes.
pub(crate) fn read_table(disk: &dyn Disk, file: &SnapshotFile) -> DiskResult<Vec<u8>> {
    let opened = disk.open(&path(TABLES, file.number), Access::Buffered)?;
    let mut bytes = vec![0; to_usize(file.len)];
    opened.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

pub(crate) fn numbers_in(disk: &dyn Disk, dir: &str) -> DiskResult<Vec<u64>> {
    let entries = disk.list(dir)?;
    Ok(entries.iter().filter_map(|entry| entry.name.parse().ok()).collect())
}

pub(crate) fn path(dir: &str, number: u64) -> String {
    format!("{dir}/{number}")
}
