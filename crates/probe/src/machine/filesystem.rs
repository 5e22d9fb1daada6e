//! The file system under a directory: options, journal, space, direct I/O.

use std::path::Path;

use highwater_report::machine::Filesystem;
use highwater_sys::file::File;
use highwater_sys::fsinfo;

use crate::disk::chain::read_line;
use crate::disk::mounts::{Mount, device_name, options_in_force};
use crate::error::ProbeError;

/// Describes the file system that a directory is on.
///
/// # Errors
/// When free space cannot be read.
pub fn capture(dir: &Path, mount: &Mount) -> Result<Filesystem, ProbeError> {
    let options = options_in_force(mount);
    let free_bytes = File::open_read(dir)
        .and_then(|open| fsinfo::free_bytes(&open))
        .map_err(|error| ProbeError::at(dir, &error))?;
    let dio = dio_align(dir);
    Ok(Filesystem {
        kind: mount.kind.clone(),
        mount_point: mount.mount_point.display().to_string(),
        source: mount.source.clone(),
        journal: journal(mount, &options),
        options,
        free_bytes,
        dio_memory_align: dio.map(|align| align.memory),
        dio_offset_align: dio.map(|align| align.offset),
    })
}

/// Asks with an unnamed file how direct I/O must be aligned; nothing appears in the directory.
fn dio_align(dir: &Path) -> Option<fsinfo::DioAlign> {
    let file = File::unnamed(dir).ok()?;
    fsinfo::dio_align(&file).ok()?
}

/// Describes the journal in words.
fn journal(mount: &Mount, options: &[String]) -> Option<String> {
    match mount.kind.as_str() {
        "ext3" | "ext4" => {
            let name = device_name(mount)?;
            let journal_thread = read_line(Path::new(&format!("/sys/fs/ext4/{name}/journal_task")));
            if journal_thread.as_deref() == Some("<none>") {
                return Some("none".to_owned());
            }
            let mode = options.iter().find(|option| option.starts_with("data="));
            Some(format!("jbd2, {}", mode.map_or("data=ordered", String::as_str)))
        }
        "xfs" => Some(match options.iter().find(|option| option.starts_with("logdev=")) {
            Some(external) => format!("xfs log, {external}"),
            None => "xfs log, internal".to_owned(),
        }),
        "btrfs" => Some("copy-on-write tree log".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::mounts::mount_of;

    #[test]
    fn capturing_creates_nothing_in_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let mount = mount_of(&path).unwrap();
        let filesystem = capture(&path, &mount).unwrap();
        assert!(!filesystem.kind.is_empty() && filesystem.free_bytes > 0);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    }
}
