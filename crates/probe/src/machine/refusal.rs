//! Where numbers may be shown, but a verdict about durability would be a lie.

use highwater_report::machine::Machine;

/// A barrier on a device faster than this reached no medium: no flush command returns so soon.
pub const TOO_FAST_NS: u64 = 2_000;

/// Lists the reasons to refuse a verdict on this machine; none when one may be given.
pub fn reasons(machine: &Machine) -> Vec<String> {
    let filesystem = &machine.filesystem;
    let has = |option: &str| filesystem.options.iter().any(|known| known == option);
    let mut reasons = Vec::new();
    match filesystem.kind.as_str() {
        "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" => reasons.push(format!(
            "{} keeps files in memory: nothing here survives a power cut. Measure in a directory \
             on a disk.",
            filesystem.kind
        )),
        "overlay" if has("volatile") => reasons.push(
            "this overlay is mounted `volatile`: the kernel turns every barrier into a no-op. \
             Measure in a directory outside it."
                .to_owned(),
        ),
        "ext3" | "ext4" | "reiserfs" | "xfs" if has("nobarrier") || has("barrier=0") => {
            reasons.push(format!(
                "{} is mounted with `nobarrier`: barriers do not flush the device's cache. \
                 Remount with `barrier=1`, unless the cache is battery-backed and you accept its \
                 word.",
                filesystem.kind
            ));
        }
        _ => {}
    }
    for library in &machine.preloads {
        reasons.push(format!(
            "{library} is preloaded: it turns fsync and fdatasync of programs here into no-ops. \
             Take it out of LD_PRELOAD or /etc/ld.so.preload."
        ));
    }
    reasons
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
