//! Where numbers may be shown, but a verdict about durability would be a lie.

use highwater_report::machine::{Device, Machine};

use crate::disk::chain::FILE_SYSTEM;

/// A barrier on a device faster than this reached no medium: no flush command returns so soon.
pub const TOO_FAST_NS: u64 = 2_000;

/// Names of block devices that are memory, followed by a number: `brd`, zram, the null device.
const MEMORY_DEVICES: &[&str] = &["ram", "zram", "nullb"];

/// Lists the reasons to refuse a verdict on this machine; none when one may be given.
pub fn reasons(machine: &Machine) -> Vec<String> {
    let own = &machine.filesystem;
    let mut reasons: Vec<String> =
        about_file_system(&own.kind, &own.options, None).into_iter().collect();
    for device in &machine.devices {
        reasons.extend(match layer(device) {
            Some((kind, options)) => about_file_system(kind, &options, Some(&device.name)),
            None => about_device(device),
        });
    }
    for library in &machine.preloads {
        reasons.push(format!(
            "{library} is preloaded: it turns fsync and fdatasync of programs here into no-ops. \
             Take it out of LD_PRELOAD or /etc/ld.so.preload."
        ));
    }
    reasons
}

/// Type and options of a chain's entry that is a file system.
fn layer(device: &Device) -> Option<(&str, Vec<String>)> {
    if device.kind != FILE_SYSTEM {
        return None;
    }
    let (kind, options) = device.model.as_deref()?.split_once(' ')?;
    Some((kind, options.split(',').map(str::to_owned).collect()))
}

/// The reason against a file system: the measured one, or one below it at a mount point.
fn about_file_system(kind: &str, options: &[String], below_at: Option<&str>) -> Option<String> {
    let has = |option: &str| options.iter().any(|known| known == option);
    let place = below_at.map_or_else(String::new, |point| {
        format!(" It lies below the measured file system, at {point}.")
    });
    match kind {
        "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" => Some(format!(
            "{kind} keeps files in memory: nothing here survives a power cut.{place} Measure in a \
             directory on a disk."
        )),
        "overlay" if has("volatile") => Some(format!(
            "this overlay is mounted `volatile`: the kernel turns every barrier into a \
             no-op.{place} Measure in a directory outside it."
        )),
        "ext3" | "ext4" | "reiserfs" | "xfs" | "btrfs" | "f2fs"
            if has("nobarrier") || has("barrier=0") =>
        {
            Some(format!(
                "{kind} is mounted with `nobarrier`: barriers do not flush the device's \
                 cache.{place} Remount with `barrier`, unless the cache is battery-backed and you \
                 accept its word."
            ))
        }
        _ => None,
    }
}

fn about_device(device: &Device) -> Option<String> {
    let is_memory = MEMORY_DEVICES.iter().any(|prefix| {
        let number = device.name.strip_prefix(prefix);
        number.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    });
    is_memory.then(|| {
        format!(
            "{} is memory that looks like a disk: nothing here survives a power cut. Measure in a \
             directory on a disk.",
            device.name
        )
    })
}

/// The reason to refuse when the fastest durable commit is faster than any device.
pub fn too_fast(p50_ns: u64) -> Option<String> {
    (p50_ns < TOO_FAST_NS).then(|| {
        format!(
            "a durable commit took {p50_ns} ns at the median: faster than any device answers a \
             flush. The barrier reached no device, or something in between answers for it."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(kind: &str, options: &[&str]) -> Machine {
        let mut machine = Machine::default();
        machine.filesystem.kind = kind.to_owned();
        machine.filesystem.options = options.iter().map(|&option| option.to_owned()).collect();
        machine
    }

    #[test]
    fn memory_volatile_overlay_missing_barriers_and_preloads_are_refused() {
        for (machine, word) in [
            (on("tmpfs", &["rw"]), "memory"),
            (on("overlay", &["rw", "volatile"]), "volatile"),
            (on("ext4", &["rw", "nobarrier"]), "nobarrier"),
            (on("ext4", &["rw", "barrier=0"]), "nobarrier"),
            (
                Machine { preloads: vec!["libeatmydata.so".to_owned()], ..on("xfs", &[]) },
                "libeatmydata",
            ),
        ] {
            let reasons = reasons(&machine);
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(reasons[0].contains(word), "{reasons:?}");
        }
    }

    /// A disk's ext4 on a chain with one more entry.
    fn above(name: &str, kind: &str, model: Option<&str>) -> Machine {
        let entry = Device {
            name: name.to_owned(),
            kind: kind.to_owned(),
            model: model.map(str::to_owned),
            ..Device::default()
        };
        Machine { devices: vec![Device::default(), entry], ..on("ext4", &["rw"]) }
    }

    #[test]
    fn every_layer_below_is_asked_too_and_disks_made_of_memory_are_refused() {
        for (machine, word) in [
            (above("/mnt", FILE_SYSTEM, Some("tmpfs rw,size=1g")), "memory"),
            (above("/mnt", FILE_SYSTEM, Some("overlay rw,volatile")), "volatile"),
            (above("/mnt", FILE_SYSTEM, Some("ext4 rw,nobarrier")), "nobarrier"),
            (above("zram0", "disk without a queue", None), "zram0"),
            (above("ram3", "disk without a queue", None), "ram3"),
            (on("btrfs", &["rw", "nobarrier"]), "nobarrier"),
            (on("f2fs", &["rw", "nobarrier"]), "nobarrier"),
        ] {
            let reasons = reasons(&machine);
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(reasons[0].contains(word), "{reasons:?}");
        }
        for machine in [
            above("/", FILE_SYSTEM, Some("ext4 rw,relatime")),
            above("vda", "disk", Some("ram disk of somebody")),
            above("ramdisk", "disk", None),
            above("md0", "md", None),
        ] {
            assert_eq!(reasons(&machine), Vec::<String>::new());
        }
    }

    #[test]
    fn ordinary_file_systems_are_not_refused() {
        for machine in [
            on("ext4", &["rw", "barrier"]),
            on("overlay", &["rw"]),
            on("xfs", &[]),
            on("btrfs", &[]),
        ] {
            assert_eq!(reasons(&machine), Vec::<String>::new());
        }
        assert!(too_fast(400).is_some() && too_fast(9_000).is_none());
    }
}
