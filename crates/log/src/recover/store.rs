//! The store itself: its superblock and its directories.

use highwater_disk::{Access, Disk, ErrorKind, Lock, Rng};

use crate::error::OpenError;
use crate::format::superblock::{HomeKind, choose};
use crate::format::{Label, Place, StoreId, SuperBlock};
use crate::home::files;
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
            check_settings(&chosen.newest, options)?;
            for (dir, label) in directories(&chosen.newest) {
                check_label(disk, &dir, label)?;
            }
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

/// Compares what is fixed when a store is made with what is asked for.
fn check_settings(made: &SuperBlock, asked: &Options) -> Result<(), OpenError> {
    check_fixed("lanes", made.lanes.into(), asked.lanes.into())?;
    check_fixed("stream_lanes", made.stream_lanes.into(), asked.stream_lanes.into())?;
    check_fixed("segment_bytes", made.segment_bytes, asked.segment_bytes)
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
    let mut id = [0; StoreId::LEN];
    id[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
    id[8..].copy_from_slice(&rng.next_u64().to_le_bytes());
    let block = SuperBlock {
        store_id: StoreId(id),
        generation: 0,
        manifest: 0,
        lanes: options.lanes,
        stream_lanes: options.stream_lanes,
        home: HomeKind::Files,
        segment_bytes: options.segment_bytes,
        created_ms: now_ms,
    };
    for parent in [WAL, files::ROOT] {
        ensure_dir(disk, parent)?;
    }
    for (dir, label) in directories(&block) {
        ensure_dir(disk, &dir)?;
        write_label(disk, &dir, label)?;
    }
    // Names become durable in any order: what the superblock stands for comes before its name.
    for parent in [WAL, files::ROOT, ""] {
        disk.sync_dir(parent)?;
    }
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

/// The directories that may lie on devices of their own, and their labels.
pub(crate) fn directories(block: &SuperBlock) -> impl Iterator<Item = (String, Label)> {
    let store_id = block.store_id;
    let label = move |place, lane| Label { store_id, place, lane };
    let log = (0..block.lanes)
        .map(move |lane| (segment::lane_dir(LaneId(lane)), label(Place::Log, lane)));
    let home =
        (0..block.stream_lanes).map(move |lane| (files::dir(lane), label(Place::Home, lane)));
    log.chain(home)
}

/// Locks the directories that may lie on devices of their own: a copy of a store whose links were
/// copied as links has a root of its own, and these are another log's.
///
/// # Errors
/// [`OpenError::InUse`] when another log has one of them, and as [`check_label`]: one that is being
/// made in it meanwhile puts another label there.
pub(crate) fn lock_directories(
    disk: &dyn Disk,
    block: &SuperBlock,
) -> Result<Vec<Box<dyn Lock>>, OpenError> {
    let locked = |(dir, label): (String, Label)| {
        let lock = lock_directory(disk, &dir)?;
        check_label(disk, &dir, label)?;
        Ok(lock)
    };
    directories(block).map(locked).collect()
}

/// Locks a directory by its label.
fn lock_directory(disk: &dyn Disk, dir: &str) -> Result<Box<dyn Lock>, OpenError> {
    disk.lock(&format!("{dir}/{}", Label::NAME)).map_err(|error| match error.kind {
        ErrorKind::Locked => OpenError::InUse { dir: dir.to_owned() },
        _ => error.into(),
    })
}

/// Writes a directory's label. One that is there was left by a making that a crash cut short.
fn write_label(disk: &dyn Disk, dir: &str, label: Label) -> Result<(), OpenError> {
    let path = format!("{dir}/{}", Label::NAME);
    // Or it is one that a log has open.
    match lock_directory(disk, dir) {
        Err(OpenError::Disk(error)) if error.kind == ErrorKind::NotFound => {}
        lock => drop(lock?),
    }
    match disk.remove(&path) {
        Err(error) if error.kind != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let file = disk.create(&path, Access::Buffered)?;
    file.write_at(&label.encode()[..], 0)?;
    file.sync_data()?;
    Ok(disk.sync_dir(dir)?)
}

/// Checks that a directory is the one that the store was made with: an empty mount point would be
/// taken for a lane without records, and filled anew.
///
/// # Errors
/// [`OpenError::Elsewhere`] when it is another one, [`OpenError::Format`] when its label is
/// damaged, and the disk's.
pub(crate) fn check_label(disk: &dyn Disk, dir: &str, label: Label) -> Result<(), OpenError> {
    let path = format!("{dir}/{}", Label::NAME);
    let elsewhere = |why: String| Err(OpenError::Elsewhere { dir: dir.to_owned(), why });
    let file = match disk.open(&path, Access::Buffered) {
        Err(error) if error.kind == ErrorKind::NotFound => {
            return elsewhere(format!("it has no file `{}`", Label::NAME));
        }
        opened => opened?,
    };
    // One more than it has: a longer one is refused.
    let mut bytes = vec![0; (Label::LEN + 1).min(segment::to_usize(file.len()?))];
    file.read_at(&mut bytes, 0)?;
    let found = Label::decode(&bytes).map_err(|source| OpenError::Format { file: path, source })?;
    if found.store_id != label.store_id {
        return elsewhere(format!("it is of store {}", found.store_id));
    }
    if found != label {
        return elsewhere(format!("it is lane {} of the {}", found.lane, named(found.place)));
    }
    Ok(())
}

fn named(place: Place) -> &'static str {
    match place {
        Place::Log => "log",
        Place::Home => "home",
    }
}

/// A superblock that is missing while segments or streams are there is a loss, not a new store.
pub(crate) fn refuse_orphans(disk: &dyn Disk) -> Result<(), OpenError> {
    for parent in [WAL, files::ROOT] {
        let lanes = match disk.list(parent) {
            Err(error) if error.kind == ErrorKind::NotFound => continue,
            listed => listed?,
        };
        for lane in lanes.iter().filter(|entry| entry.is_dir) {
            let dir = format!("{parent}/{}", lane.name);
            // A making that was cut short leaves labels.
            let listed = disk.list(&dir)?;
            if let Some(file) = listed.iter().find(|entry| entry.name != Label::NAME) {
                return Err(OpenError::Settings(format!(
                    "{dir}/{} is there, but no superblock: the file `super` is lost. Restore it \
                     from a copy, or choose an empty directory",
                    file.name
                )));
            }
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
