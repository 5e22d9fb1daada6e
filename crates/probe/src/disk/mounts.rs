//! The mount a path is on, from `/proc/self/mountinfo` (proc(5)).

use std::path::{Path, PathBuf};

use highwater_sys::fsinfo::{self, DeviceNumber};

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
    // Names need not be UTF-8: one such mount must not hide all others.
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    let device = fsinfo::device_number(path).ok();
    mount_in(&String::from_utf8_lossy(&table), path, device)
}

/// Options in force, those that the mount table leaves out included: ext4 shows all of its own
/// elsewhere.
pub fn options_in_force(mount: &Mount) -> Vec<String> {
    let mut options = mount.options.clone();
    let Some(name) = device_name(mount) else { return options };
    let text = std::fs::read_to_string(format!("/proc/fs/ext4/{name}/options")).unwrap_or_default();
    for line in text.lines() {
        let tells = line.contains("barrier") || line.starts_with("data=");
        if tells && !options.iter().any(|known| known == line) {
            options.push(line.to_owned());
        }
    }
    options
}

/// Kernel name of the block device that a file system is on.
pub fn device_name(mount: &Mount) -> Option<String> {
    let number = mount.device;
    let link =
        std::fs::read_link(format!("/sys/dev/block/{}:{}", number.major, number.minor)).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

/// Picks the mount from the table: the deepest mount point above the path, the last one mounted
/// where several share it. A mount that another one hides has another device than the path; where
/// no mount has the path's (btrfs gives each subvolume a number of its own) any may be it.
fn mount_in(table: &str, path: &Path, device: Option<DeviceNumber>) -> Option<Mount> {
    let above = table
        .lines()
        .filter_map(parse_line)
        .filter(|mount| path.starts_with(&mount.mount_point))
        .enumerate();
    let rank = |(order, mount): &(usize, Mount)| {
        (Some(mount.device) == device, mount.mount_point.components().count(), *order)
    };
    above.max_by_key(rank).map(|(_, mount)| mount)
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
        let of = |path: &str| mount_in(TABLE, Path::new(path), None).unwrap();
        assert_eq!(of("/home/x").source, "/dev/vda");
        assert_eq!(of("/mnt/a b/c").kind, "tmpfs");
        assert_eq!(of("/database").source, "/dev/vda");
        let data = of("/data/x");
        assert_eq!((data.kind.as_str(), data.device.minor), ("ext4", 1));
        assert!(data.options.iter().any(|option| option == "nobarrier"));
    }

    #[test]
    fn a_mount_that_another_one_hides_is_not_taken_for_the_path_s_own() {
        // /srv was mounted over after /srv/data: what /srv/data now names lies on the later one.
        let table = "\
27 1 254:0 / / rw - ext4 /dev/vda rw
40 27 7:0 / /srv/data rw - xfs /dev/loop0 rw
41 27 7:1 / /srv rw - ext4 /dev/loop1 rw
";
        let of = |minor| {
            let device = DeviceNumber { major: 7, minor };
            mount_in(table, Path::new("/srv/data/x"), Some(device)).unwrap().source
        };
        assert_eq!(of(1), "/dev/loop1");
        assert_eq!(of(0), "/dev/loop0");
        // Nobody's number: the deepest, as before.
        assert_eq!(of(9), "/dev/loop0");
    }

    #[test]
    fn a_name_that_is_not_utf8_hides_no_other_mount() {
        let table = [b"28 1 0:25 / /mnt/\xff rw - tmpfs tmpfs rw\n".as_slice(), TABLE.as_bytes()];
        let table = table.concat();
        let found = mount_in(&String::from_utf8_lossy(&table), Path::new("/home"), None);
        assert_eq!(found.unwrap().source, "/dev/vda");
    }

    #[test]
    fn the_real_table_has_the_root() {
        assert!(mount_of(Path::new("/")).is_some());
    }
}
