//! Lists files that no part of the store uses: what a crash left, and what is not the store's.

use std::collections::BTreeSet;

use highwater_disk::{Disk, DiskResult, Entry, ErrorKind, ReadOnly};

use super::root::Root;
use super::streams::Alive;
use super::{CheckError, CheckReport, Leftover};
use crate::catalog::{self, MANIFESTS, TABLES, numbers_in};
use crate::home::Home;
use crate::home::files::Files;

/// What stands in the root of a store.
const OWN: [&str; 5] = ["super", "wal", "streams", MANIFESTS, TABLES];

/// Lists them.
pub(super) fn list(
    disk: &ReadOnly,
    root: &Root,
    alive: &Alive,
    report: &mut CheckReport,
) -> Result<(), CheckError> {
    let mut note = |file: String, what| report.leftovers.push(Leftover { file, what });
    for entry in disk.list("")? {
        if !OWN.contains(&entry.name.as_str()) {
            note(entry.name, "not the store's; left alone");
        }
    }
    for number in or_none(numbers_in(disk, MANIFESTS))? {
        if root.manifest.as_ref().is_none_or(|manifest| manifest.number != number) {
            let what = "a manifest that no superblock names; a later checkpoint removes it";
            note(catalog::path(MANIFESTS, number), what);
        }
    }
    let named = root.manifest.iter().flat_map(|manifest| &manifest.sections);
    let named: BTreeSet<u64> = named.map(|section| section.number).collect();
    for number in or_none(numbers_in(disk, TABLES))? {
        if !named.contains(&number) {
            let what = "a table that no manifest names; a later checkpoint removes it";
            note(catalog::path(TABLES, number), what);
        }
    }
    let home = Files::existing(std::sync::Arc::new(disk.clone()), root.block.stream_lanes);
    for stream in or_none(home.streams())? {
        let is_known = alive.streams.contains_key(&stream) || alive.dead.contains(&stream);
        if !is_known && !alive.unsure.contains(&stream.lane()) {
            let what = "bytes of a stream that is gone; nothing reads them";
            note(home.path(stream), what);
        }
    }
    for lane in or_none(disk.list("wal"))?.into_iter().filter(|lane| is_beyond(lane, root)) {
        note(format!("wal/{}", lane.name), "not a lane of this store; left alone");
    }
    Ok(())
}

fn is_beyond(entry: &Entry, root: &Root) -> bool {
    let number = entry.name.parse::<u16>().ok();
    !entry.is_dir || number.is_none_or(|number| number >= root.block.lanes)
}

/// A directory that is missing has nothing in it.
fn or_none<T>(listed: DiskResult<Vec<T>>) -> DiskResult<Vec<T>> {
    match listed {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
    }
}
