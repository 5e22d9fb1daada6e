//! From a file system down to the leaf disks: partitions, loop devices, device-mapper, md.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use highwater_report::machine::Device;
use highwater_sys::fsinfo::{self, DeviceNumber};

use super::counters::Counters;
use super::mounts::{Mount, mount_of};

/// The devices under a file system.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chain {
    /// Every device met, from the file system's own down.
    pub devices: Vec<Device>,
    /// sysfs directories of the file system's own devices: whole disks, since partitions count no
    /// flushes.
    pub top: Vec<PathBuf>,
    /// sysfs directories of the leaf disks.
    pub leaves: Vec<PathBuf>,
}

/// Counters at both ends of a chain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainCounters {
    /// The file system's own devices.
    pub top: Option<Counters>,
    /// The leaf disks.
    pub leaf: Option<Counters>,
}

impl Chain {
    /// Finds the devices under a mount; empty where the file system has none that we can see.
    pub fn find(mount: &Mount) -> Self {
        let mut chain = Self::default();
        let mut seen = BTreeSet::new();
        for device in own_devices(mount) {
            let top = chain.descend(&device, &mut seen, 0);
            if let Some(top) = top.filter(|top| !chain.top.contains(top)) {
                chain.top.push(top);
            }
        }
        chain
    }

    /// Reads the counters at both ends.
    pub fn read(&self) -> ChainCounters {
        ChainCounters { top: Counters::read_sum(&self.top), leaf: Counters::read_sum(&self.leaves) }
    }

    /// Names of the file system's own devices, joined by `+`.
    pub fn top_name(&self) -> String {
        joined(&self.top)
    }

    /// Names of the leaf disks, joined by `+`.
    pub fn leaf_name(&self) -> String {
        joined(&self.leaves)
    }

    /// Requests in flight on any device of the chain.
    pub fn in_flight(&self) -> u64 {
        let counters = self.read();
        [counters.top, counters.leaf].iter().flatten().map(|counters| counters.in_flight).sum()
    }

    /// Adds a device and all below it; gives the whole device whose counters stand for it.
    fn descend(
        &mut self,
        sysfs: &Path,
        seen: &mut BTreeSet<PathBuf>,
        depth: u32,
    ) -> Option<PathBuf> {
        /// Deeper stacks than this do not exist; a cycle through loop devices might.
        const MAX_DEPTH: u32 = 16;
        let sysfs = sysfs.canonicalize().ok()?;
        if sysfs.join("partition").exists() {
            if seen.insert(sysfs.clone()) {
                self.devices.push(describe(&sysfs, "partition"));
            }
            return self.descend(sysfs.parent()?, seen, depth + 1);
        }
        if depth > MAX_DEPTH || !seen.insert(sysfs.clone()) {
            return Some(sysfs);
        }
        let kind = kind_of(&sysfs);
        let below = below(&sysfs, kind);
        let mut device = describe(&sysfs, kind);
        device.leaf = below.is_empty();
        if device.leaf {
            self.leaves.push(sysfs.clone());
        }
        self.devices.push(device);
        for lower in below {
            self.descend(&lower, seen, depth + 1);
        }
        Some(sysfs)
    }
}

impl ChainCounters {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let both = |now: Option<Counters>, then: Option<Counters>| Some(now?.since(then?));
        Self { top: both(self.top, earlier.top), leaf: both(self.leaf, earlier.leaf) }
    }
}

/// sysfs directories of the devices that a file system is made of.
fn own_devices(mount: &Mount) -> Vec<PathBuf> {
    let number = if mount.device.major == 0 {
        // btrfs and others show an anonymous number: the source names the device node.
        fsinfo::node_number(Path::new(&mount.source)).ok()
    } else {
        Some(mount.device)
    };
    let Some(first) = number.filter(|number| number.major != 0).map(sysfs_of) else {
        return Vec::new();
    };
    let siblings = if mount.kind == "btrfs" { btrfs_siblings(&first) } else { None };
    siblings.unwrap_or_else(|| vec![first])
}

/// All devices of the btrfs that one of them belongs to.
fn btrfs_siblings(device: &Path) -> Option<Vec<PathBuf>> {
    let device = device.canonicalize().ok()?;
    for pool in std::fs::read_dir("/sys/fs/btrfs").ok()?.flatten() {
        let Ok(members) = std::fs::read_dir(pool.path().join("devices")) else { continue };
        let members: Vec<PathBuf> =
            members.flatten().filter_map(|member| member.path().canonicalize().ok()).collect();
        if members.contains(&device) {
            return Some(members);
        }
    }
    None
}

fn sysfs_of(number: DeviceNumber) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", number.major, number.minor))
}

fn kind_of(sysfs: &Path) -> &'static str {
    if sysfs.join("loop").exists() {
        "loop"
    } else if sysfs.join("dm").exists() {
        "device-mapper"
    } else if sysfs.join("md").exists() {
        "md"
    } else {
        "disk"
    }
}

/// sysfs directories of the devices directly below one.
fn below(sysfs: &Path, kind: &str) -> Vec<PathBuf> {
    if kind == "loop" {
        let backing = read_line(&sysfs.join("loop/backing_file"));
        return backing
            .and_then(|path| mount_of(Path::new(&path)))
            .map(|mount| own_devices(&mount))
            .unwrap_or_default();
    }
    let slaves = std::fs::read_dir(sysfs.join("slaves"));
    slaves.map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

fn describe(sysfs: &Path, kind: &str) -> Device {
    // A partition's queue is its disk's.
    let queue = [sysfs.join("queue"), sysfs.join("../queue")].into_iter().find(|dir| dir.exists());
    let setting = |name: &str| queue.as_ref().and_then(|dir| read_line(&dir.join(name)));
    let number = |name: &str| setting(name).and_then(|text| text.parse().ok());
    let flag = |name: &str| setting(name).map(|text| text == "1");
    Device {
        name: base_name(sysfs),
        kind: kind.to_owned(),
        leaf: false,
        model: read_line(&sysfs.join("device/model")),
        size_bytes: read_line(&sysfs.join("size"))
            .and_then(|text| text.parse::<u64>().ok())
            .and_then(|sectors| sectors.checked_mul(512)),
        rotational: flag("rotational"),
        scheduler: setting("scheduler").map(|text| chosen(&text)),
        write_cache: setting("write_cache"),
        fua: flag("fua"),
        logical_block: number("logical_block_size"),
        physical_block: number("physical_block_size"),
    }
}

/// The choice in brackets of a sysfs list such as `none [mq-deadline] kyber`.
fn chosen(list: &str) -> String {
    let inside = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or_else(|| list.to_owned(), |(choice, _)| choice.to_owned())
}

fn base_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| base_name(path)).collect::<Vec<_>>().join("+")
}

/// First line of a small file, trimmed; `None` when absent or empty.
pub(crate) fn read_line(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_scheduler_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
    }

    /// Makes a device directory as sysfs has them.
    fn device(root: &Path, path: &str, marks: &[&str]) -> PathBuf {
        let dir = root.join(path);
        std::fs::create_dir_all(&dir).unwrap();
        for mark in marks {
            std::fs::create_dir_all(dir.join(mark)).unwrap();
        }
        dir
    }

    #[test]
    fn stacked_devices_lead_down_to_each_leaf_once_and_partitions_to_their_disk() {
        let sysfs = tempfile::tempdir().unwrap();
        let root = sysfs.path().canonicalize().unwrap();
        // An LVM volume over an md mirror of two disks, one of them by its partition.
        let volume = device(&root, "dm-0", &["dm", "slaves"]);
        let mirror = device(&root, "md0", &["md", "slaves"]);
        let disk = device(&root, "sda", &[]);
        let partition = device(&root, "sda/sda1", &["partition"]);
        let other = device(&root, "nvme0n1", &[]);
        let link = |upper: &Path, lower: &Path| {
            let name = lower.file_name().unwrap();
            std::os::unix::fs::symlink(lower, upper.join("slaves").join(name)).unwrap();
        };
        link(&volume, &mirror);
        link(&mirror, &partition);
        link(&mirror, &other);
        let mut chain = Chain::default();
        let top = chain.descend(&volume, &mut BTreeSet::new(), 0);
        assert_eq!(top, Some(volume));
        chain.leaves.sort();
        assert_eq!(chain.leaves, [other, disk]);
        let kinds: BTreeSet<(&str, &str, bool)> = chain
            .devices
            .iter()
            .map(|device| (device.name.as_str(), device.kind.as_str(), device.leaf))
            .collect();
        let expected = [
            ("dm-0", "device-mapper", false),
            ("md0", "md", false),
            ("sda1", "partition", false),
            ("sda", "disk", true),
            ("nvme0n1", "disk", true),
        ];
        assert_eq!(kinds, BTreeSet::from(expected));
    }

    #[test]
    fn a_file_system_without_a_device_has_an_empty_chain() {
        let proc = mount_of(Path::new("/proc")).unwrap();
        let chain = Chain::find(&proc);
        assert_eq!(chain, Chain::default());
        assert_eq!(chain.read(), ChainCounters::default());
    }
}
