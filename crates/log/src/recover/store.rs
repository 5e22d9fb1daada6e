//! The store itself: its superblock and its directories.

use highwater_disk::{Access, Disk, ErrorKind, Rng};

use crate::error::OpenError;
use crate::format::superblock::{HomeKind, choose};
use crate::format::{StoreId, SuperBlock};
use crate::ids::LaneId;
use crate::lane::segment::{self, to_u64};
use crate::options::Options;

const SUPER: &str = "super";
/// The superblock before it has its name: of no store yet.
const SUPER_NEW: &str = "super.new";
const WAL: &str = "wal";

/// Reads the store's superblock, or makes a new store.
///
/// # Errors
/// When the superblock is unreadable, when it is missing although segments are there, when a number
/// fixed at creation differs, or when the disk fails.
pub(crate) fn open_store(
    disk: &dyn Disk,
    options: &Options,
    rng: &mut dyn Rng,
    now_ms: u64,
) -> Result<SuperBlock, OpenError> {
    match disk.open(SUPER, Access::Buffered) {
        Ok(file) => {
            let mut bytes = vec![0; SuperBlock::FILE_LEN];
            file.read_at(&mut bytes, 0)?;
            let chosen = choose(&bytes)
                .map_err(|source| OpenError::Format { file: SUPER.to_owned(), source })?;
            if chosen.may_miss_a_newer_one() {
                // The segments that an older manifest needs may be in use again.
                let (slot, source) = chosen.damaged[0].clone();
                return Err(OpenError::Format { file: format!("{SUPER}, slot {slot}"), source });
            }
            check_fixed("lanes", chosen.newest.lanes.into(), options.lanes.into())?;
            check_fixed("segment bytes", chosen.newest.segment_bytes, options.segment_bytes)?;
            // After a failed barrier the page cache may show a slot that the device does not have:
            // what it makes free must not be used before it is durable.
            file.write_at(&chosen.newest.encode()[..], chosen.newest.slot_offset())?;
            file.sync_data()?;
            Ok(chosen.newest)
        }
        Err(error) if error.kind == ErrorKind::NotFound => make(disk, options, rng, now_ms),
        Err(error) => Err(error.into()),
    }
}

fn check_fixed(what: &'static str, stored: u64, asked: u64) -> Result<(), OpenError> {
    if stored == asked { Ok(()) } else { Err(OpenError::Mismatch { what, stored, asked }) }
}

/// Makes a store. Its superblock gets its name last: until then there is none.
fn make(
    disk: &dyn Disk,
    options: &Options,
    rng: &mut dyn Rng,
    now_ms: u64,
) -> Result<SuperBlock, OpenError> {
    refuse_orphans(disk)?;
    ensure_dir(disk, WAL)?;
    for lane in 0..options.lanes {
        ensure_dir(disk, &segment::lane_dir(LaneId(lane)))?;
    }
    disk.sync_dir(WAL)?;
    // Names become durable in any order: what the superblock stands for comes before its name.
    disk.sync_dir("")?;
    let mut id = [0; StoreId::LEN];
    id[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
    id[8..].copy_from_slice(&rng.next_u64().to_le_bytes());
    let block = SuperBlock {
        store_id: StoreId(id),
        generation: 0,
        manifest: 0,
        lanes: options.lanes,
        stream_lanes: 1,
        home: HomeKind::Files,
        segment_bytes: options.segment_bytes,
        created_ms: now_ms,
    };
    match disk.remove(SUPER_NEW) {
        Err(error) if error.kind != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = disk.create(SUPER_NEW, Access::Buffered)?;
    file.allocate(to_u64(SuperBlock::FILE_LEN))?;
    file.write_at(&block.encode()[..], block.slot_offset())?;
    file.sync_data()?;
    disk.rename(SUPER_NEW, SUPER)?;
    disk.sync_dir("")?;
    Ok(block)
}

/// A superblock that is missing while segments are there is a loss, not a new store.
pub(crate) fn refuse_orphans(disk: &dyn Disk) -> Result<(), OpenError> {
    let lanes = match disk.list(WAL) {
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    for lane in lanes.iter().filter(|entry| entry.is_dir) {
        let dir = format!("{WAL}/{}", lane.name);
        if let Some(file) = disk.list(&dir)?.first() {
            return Err(OpenError::Settings(format!(
                "{dir}/{} is there, but no superblock: the file `super` is lost. Restore it from a \
                 copy, or choose an empty directory",
                file.name
            )));
        }
    }
    Ok(())
}

fn ensure_dir(disk: &dyn Disk, path: &str) -> Result<(), OpenError> {
    match disk.create_dir(path) {
        Err(error) if error.kind != ErrorKind::Exists => Err(error.into()),
        _ => Ok(()),
    }
}
