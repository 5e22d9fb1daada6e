//! From a file system down to the leaf disks: partitions, loop devices, device-mapper, md, and the
//! file systems between them, which hold loop devices' files and overlays' upper directories.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use highwater_report::machine::Device;
use highwater_sys::fsinfo::{self, DeviceNumber};

use super::counters::Counters;
use super::mounts::{Mount, mount_of, options_in_force};

/// Kind of a chain's entry that is a file system; its type and options stand as the model.
pub const FILE_SYSTEM: &str = "file system";
/// Kind of a disk whose driver takes requests as they come, without the block layer's queue.
pub const UNQUEUED_DISK: &str = "disk without a queue";
/// Kinds whose flushes the kernel counts: those with a request queue of their own. Device-mapper,
/// md and other drivers that take bios (`brd`, `zram`, `NVMe` multipath) always show 0.
/// Source: `blk_account_io_done` and `blk_flush_complete_seq` in the kernel's `block/`.
pub const COUNTS_FLUSHES: &[&str] = &["disk", "loop"];

/// Deeper stacks than this do not exist; a cycle through loop devices might.
const MAX_DEPTH: u32 = 16;

/// The devices under a file system.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chain {
    /// Every device met, from the file system's own down, and every file system between two.
    pub devices: Vec<Device>,
    /// sysfs directories of the file system's own devices: whole disks, since partitions count no
    /// flushes.
    pub top: Vec<PathBuf>,
    /// sysfs directories of the leaf disks.
    pub leaves: Vec<PathBuf>,
}

/// One reading of the counters at both ends of a chain, device by device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChainReading {
    top: Option<Vec<Counters>>,
    leaf: Option<Vec<Counters>>,
}

/// What was counted at both ends of a chain between two readings.
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
        for device in chain.own_devices(mount, 0) {
            let top = chain.descend(&device, &mut seen, 0);
            if let Some(top) = top.filter(|top| !chain.top.contains(top)) {
                chain.top.push(top);
            }
        }
        chain
    }

    /// Reads the counters at both ends.
    pub fn read(&self) -> ChainReading {
        ChainReading {
            top: Counters::read_each(&self.top),
            leaf: Counters::read_each(&self.leaves),
        }
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
        let reading = self.read();
        let counters = [reading.top, reading.leaf].into_iter().flatten().flatten();
        counters.map(|counters| counters.in_flight).sum()
    }

    /// sysfs directories of the devices that a file system is made of: an overlay's are those of
    /// the file system that holds its upper directory.
    fn own_devices(&mut self, mount: &Mount, depth: u32) -> Vec<PathBuf> {
        match upper_mount(mount) {
            Some(upper) if depth < MAX_DEPTH => self.enter(&upper, depth + 1),
            _ => block_devices(mount),
        }
    }

    /// Adds a file system that lies below another; gives its devices.
    fn enter(&mut self, mount: &Mount, depth: u32) -> Vec<PathBuf> {
        let layer = file_system(mount);
        if !self.devices.contains(&layer) {
            self.devices.push(layer);
        }
        self.own_devices(mount, depth)
    }

    /// Adds a device and all below it; gives the whole device whose counters stand for it.
    fn descend(
        &mut self,
        sysfs: &Path,
        seen: &mut BTreeSet<PathBuf>,
        depth: u32,
    ) -> Option<PathBuf> {
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
        let holder = if kind == "loop" { backing_mount(&sysfs) } else { None };
        let at = self.devices.len();
        self.devices.push(describe(&sysfs, kind));
        let below = match &holder {
            Some(mount) => self.enter(mount, depth + 1),
            None => slaves(&sysfs),
        };
        if below.is_empty() {
            self.devices[at].leaf = true;
            self.leaves.push(sysfs.clone());
        }
        for lower in below {
            self.descend(&lower, seen, depth + 1);
        }
        Some(sysfs)
    }
}

impl ChainReading {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> ChainCounters {
        let sum = |now: &Option<Vec<Counters>>, then: &Option<Vec<Counters>>| {
            Counters::sum_since(now.as_ref()?, then.as_ref()?)
        };
        ChainCounters { top: sum(&self.top, &earlier.top), leaf: sum(&self.leaf, &earlier.leaf) }
    }
}

/// sysfs directories of the block devices of a file system that lies on such.
fn block_devices(mount: &Mount) -> Vec<PathBuf> {
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

/// The mount that holds an overlay's upper directory, where this mount namespace shows it: inside
/// a container that path leads nowhere, or back to the overlay itself.
fn upper_mount(mount: &Mount) -> Option<Mount> {
    if mount.kind != "overlay" {
        return None;
    }
    let upper = mount.options.iter().find_map(|option| option.strip_prefix("upperdir="))?;
    let upper = Path::new(upper).canonicalize().ok()?;
    mount_of(&upper).filter(|holder| holder != mount)
}

/// The mount that holds the file behind a loop device.
fn backing_mount(sysfs: &Path) -> Option<Mount> {
    mount_of(Path::new(&read_line(&sysfs.join("loop/backing_file"))?))
}

/// Describes a file system that lies between two devices.
fn file_system(mount: &Mount) -> Device {
    let options = options_in_force(mount).join(",");
    Device {
        name: mount.mount_point.display().to_string(),
        kind: FILE_SYSTEM.to_owned(),
        model: Some(format!("{} {options}", mount.kind)),
        ..Device::default()
    }
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
    } else if sysfs.join("mq").exists() {
        "disk"
    } else {
        UNQUEUED_DISK
    }
}

/// sysfs directories of the devices that a stacked one is made of.
fn slaves(sysfs: &Path) -> Vec<PathBuf> {
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
        let disk = device(&root, "sda", &["mq"]);
        let partition = device(&root, "sda/sda1", &["partition"]);
        let other = device(&root, "nvme0n1", &["mq"]);
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
        assert_eq!(chain.read().since(&chain.read()), ChainCounters::default());
    }

    #[test]
    fn a_driver_without_a_request_queue_is_told_from_a_disk_whose_flushes_are_counted() {
        let sysfs = tempfile::tempdir().unwrap();
        let root = sysfs.path().canonicalize().unwrap();
        for (name, marks, kind) in [
            ("vda", &["mq"][..], "disk"),
            ("loop0", &["mq", "loop"], "loop"),
            ("zram0", &[], UNQUEUED_DISK),
            ("dm-0", &["dm"], "device-mapper"),
            ("md0", &["md"], "md"),
        ] {
            let device = device(&root, name, marks);
            let mut chain = Chain::default();
            chain.descend(&device, &mut BTreeSet::new(), 0);
            assert_eq!((&*chain.devices[0].kind, chain.devices[0].leaf), (kind, true));
            let counts = COUNTS_FLUSHES.contains(&kind);
            assert_eq!(counts, ["vda", "loop0"].contains(&name), "{name}");
        }
    }

    #[test]
    fn the_file_system_that_holds_a_loop_devices_file_is_part_of_the_chain() {
        let sysfs = tempfile::tempdir().unwrap();
        let root = sysfs.path().canonicalize().unwrap();
        let upper = device(&root, "loop0", &["mq", "loop"]);
        // No block device lies under /proc, as none lies under tmpfs.
        std::fs::write(upper.join("loop/backing_file"), "/proc/image\n").unwrap();
        let mut chain = Chain::default();
        chain.descend(&upper, &mut BTreeSet::new(), 0);
        let [device, holder] = &chain.devices[..] else { panic!("{:?}", chain.devices) };
        assert_eq!((&*device.name, device.leaf), ("loop0", true));
        assert_eq!((&*holder.name, &*holder.kind, holder.leaf), ("/proc", FILE_SYSTEM, false));
        assert!(holder.model.as_ref().unwrap().starts_with("proc rw"), "{holder:?}");
        assert_eq!(chain.leaves, [upper]);
    }
}
