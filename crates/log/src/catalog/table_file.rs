//! A file `tables/<n>`, being written or read.

use std::sync::Arc;

use highwater_disk::{Access, Disk, DiskResult, File};

use super::{Catalog, TABLES, path};
use crate::error::OpenError;
use crate::format::snapshot::read_section;
use crate::format::{Entry, FormatError, Section, SnapshotHeader, StoreId, Structure};
use crate::ids::LaneId;
use crate::lane::segment::{to_u64, to_usize};

/// Where a section is going to stand.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Number of its file.
    pub number: u64,
    /// Where it begins in the file.
    pub position: u64,
    /// The lane whose streams it holds.
    pub lane: LaneId,
    /// Checksum of the file's header.
    pub chain: u32,
}

/// A file being written. It is removed when it is dropped before a manifest may name it.
#[derive(Debug)]
pub struct TableFile<'a> {
    catalog: &'a Catalog,
    header: SnapshotHeader,
    chain: u32,
    /// Made with the first section.
    file: Option<Arc<dyn File>>,
    len: u64,
    pub(super) fate: Fate,
}

/// What becomes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// No manifest names it.
    Removed,
    /// A manifest names it, which counts or may count.
    Kept,
}

impl<'a> TableFile<'a> {
    pub(super) fn new(catalog: &'a Catalog, header: SnapshotHeader) -> Self {
        let (_, chain) = header.encode();
        let len = to_u64(SnapshotHeader::LEN);
        Self { catalog, header, chain, file: None, len, fate: Fate::Removed }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// Its length so far, bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Where the next section is going to stand.
    pub fn place(&self) -> Place {
        let SnapshotHeader { lane, number, .. } = self.header;
        Place { number, position: self.len, lane, chain: self.chain }
    }

    /// Adds a section.
    ///
    /// # Errors
    /// The disk's.
    pub fn append(&mut self, section: &[u8]) -> DiskResult<()> {
        let file = if let Some(file) = &self.file {
            file
        } else {
            let file = self.catalog.disk.create(&path(TABLES, self.number()), Access::Buffered)?;
            let file = self.file.insert(file);
            file.write_at(&self.header.encode().0, 0)?;
            file
        };
        file.write_at(section, self.len)?;
        self.len += to_u64(section.len());
        Ok(())
    }

    /// Makes it durable, if it has a section.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&self) -> DiskResult<()> {
        let Some(file) = &self.file else { return Ok(()) };
        file.sync_data()?;
        self.catalog.disk.sync_dir(TABLES)
    }
}

impl Drop for TableFile<'_> {
    fn drop(&mut self) {
        self.catalog.lock().being_written.remove(&self.number());
        if self.fate == Fate::Removed && self.file.is_some() {
            // What cannot be removed now is removed with the next manifest.
            self.catalog.disk.remove(&path(TABLES, self.number())).ok();
        }
    }
}

/// A file to be read.
#[derive(Debug)]
pub(crate) struct TableReader {
    file: Arc<dyn File>,
    path: String,
    chain: u32,
}

impl TableReader {
    /// Opens it, and checks that it is a lane's of this store.
    ///
    /// # Errors
    /// When it cannot be read, or is another file.
    pub fn open(
        disk: &dyn Disk,
        (store_id, lane): (StoreId, LaneId),
        number: u64,
    ) -> Result<Self, OpenError> {
        let path = path(TABLES, number);
        let file = disk.open(&path, Access::Buffered)?;
        let mut block = [0; SnapshotHeader::LEN];
        file.read_at(&mut block, 0)?;
        let format = |source| OpenError::Format { file: path.clone(), source };
        let (header, chain) = SnapshotHeader::decode(&block).map_err(format)?;
        if header != (SnapshotHeader { store_id, lane, number }) {
            let structure = Structure::SnapshotHeader;
            return Err(format(FormatError::Misfit { structure, field: "store, lane or number" }));
        }
        Ok(Self { file, path, chain })
    }

    /// Its length, bytes.
    ///
    /// # Errors
    /// The disk's.
    pub fn len(&self) -> DiskResult<u64> {
        self.file.len()
    }

    /// Reads a section, which has to be the one that the manifest names, stream by stream.
    ///
    /// # Errors
    /// When it is not, or cannot be read, and what `visit` gives.
    pub fn section(
        &self,
        section: &Section,
        visit: impl FnMut(Entry<'_>) -> Result<(), FormatError>,
    ) -> Result<(), OpenError> {
        let mut bytes = vec![0; to_usize(section.len.into())];
        self.file.read_at(&mut bytes, section.position)?;
        let format = |source| OpenError::Format { file: self.path.clone(), source };
        let (header, crc) = read_section(&bytes, self.chain, visit).map_err(format)?;
        if !section.is_of(&header) || section.crc != crc {
            let (structure, field) = (Structure::SnapshotSection, "section of the manifest");
            return Err(format(FormatError::Misfit { structure, field }));
        }
        Ok(())
    }
}
