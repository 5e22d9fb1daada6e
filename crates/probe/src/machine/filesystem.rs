//! The file system under a directory: options, journal, space, direct I/O.

use std::path::Path;

use highwater_report::machine::Filesystem;
use highwater_sys::file::File;
use highwater_sys::fsinfo;

use crate::disk::chain::read_line;
use crate::disk::mounts::Mount;
use crate::error::ProbeError;

/// Describes the file system that a directory is on.
///
/// # Errors
/// When free space cannot be read.
pub fn capture(dir: &Path, mount: &Mount) -> Result<Filesystem, ProbeError> {
    let mut options = mount.options.clone();
    let hidden = hidden_options(mount);
    options.extend(hidden.into_iter().filter(|option| !mount.options.contains(option)));
    let free_bytes = fsinfo::free_bytes(dir).map_err(|error| ProbeError::at(dir, &error))?;
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

/// Options in force that the mount table leaves out: ext4 shows all of them elsewhere.
fn hidden_options(mount: &Mount) -> Vec<String> {
    let Some(name) = device_name(mount) else { return Vec::new() };
    let path = format!("/proc/fs/ext4/{name}/options");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter(|line| line.contains("barrier") || line.starts_with("data="))
        .map(str::to_owned)
        .collect()
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

fn device_name(mount: &Mount) -> Option<String> {
    let number = mount.device;
    let link =
        std::fs::read_link(format!("/sys/dev/block/{}:{}", number.major, number.minor)).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
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
