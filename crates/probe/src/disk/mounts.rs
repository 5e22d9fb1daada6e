//! The mount a path is on, from `/proc/self/mountinfo` (proc(5)).

use std::path::{Path, PathBuf};

use highwater_sys::fsinfo::DeviceNumber;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Device number of the mounted file system.
    pub device: DeviceNumber,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// File system type.
    pub kind: String,
    /// What is mounted.
    pub source: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
}

/// Finds the mount that an absolute, canonical path is on.
pub fn mount_of(path: &Path) -> Option<Mount> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    mount_in(&table, path)
}

/// Picks the mount from the table: the deepest mount point above the path, the last one mounted
/// where several share it.
fn mount_in(table: &str, path: &Path) -> Option<Mount> {
    table
        .lines()
        .filter_map(parse_line)
        .filter(|mount| path.starts_with(&mount.mount_point))
        .enumerate()
        .max_by_key(|(order, mount)| (mount.mount_point.components().count(), *order))
        .map(|(_, mount)| mount)
}

fn parse_line(line: &str) -> Option<Mount> {
    // id parent major:minor root mount-point options [optional...] - type source super-options
    let (before, after) = line.split_once(" - ")?;
    let mut left = before.split(' ').skip(2);
    let (major, minor) = left.next()?.split_once(':')?;
    let mount_point = unescape(left.nth(1)?);
    let mut options: Vec<String> = left.next()?.split(',').map(str::to_owned).collect();
    let mut right = after.split(' ');
    let kind = right.next()?.to_owned();
    let source = unescape(right.next()?);
    for option in right.next().unwrap_or_default().split(',') {
        if !option.is_empty() && !options.iter().any(|known| known == option) {
            options.push(option.to_owned());
        }
    }
    let device = DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? };
    Some(Mount { device, mount_point: PathBuf::from(mount_point), kind, source, options })
}

/// Undoes the octal escapes of the kernel: space, tab, newline and backslash.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
28 27 0:25 / /mnt/a\\040b ro,nosuid - tmpfs tmpfs rw,size=4k
29 27 7:0 / /data rw,noatime shared:1 master:2 - xfs /dev/loop0 rw,attr2
30 29 7:1 / /data rw - ext4 /dev/loop1 rw,nobarrier
";

    #[test]
    fn the_deepest_and_latest_mount_wins() {
        let of = |path: &str| mount_in(TABLE, Path::new(path)).unwrap();
        assert_eq!(of("/home/x").source, "/dev/vda");
        assert_eq!(of("/mnt/a b/c").kind, "tmpfs");
        assert_eq!(of("/database").source, "/dev/vda");
        let data = of("/data/x");
        assert_eq!((data.kind.as_str(), data.device.minor), ("ext4", 1));
        assert!(data.options.iter().any(|option| option == "nobarrier"));
    }

    #[test]
    fn the_real_table_has_the_root() {
        assert!(mount_of(Path::new("/")).is_some());
    }
}
