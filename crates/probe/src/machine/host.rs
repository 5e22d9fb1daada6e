//! Kernel, CPU, limits and surroundings of this process, from `/proc` and `/sys`.

use std::path::Path;

use crate::disk::chain::read_line;

/// Libraries known to turn barriers of the programs they are loaded into into no-ops.
const NO_OP_SYNC_LIBRARIES: &[&str] = &["eatmydata", "nosync", "libfakesync"];

/// Kernel release.
pub fn kernel() -> String {
    line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned())
}

/// CPU model name.
pub fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// CPUs this process may run on.
pub fn cpus() -> u32 {
    std::thread::available_parallelism()
        .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX))
}

/// Frequency governor of CPU 0.
pub fn governor() -> Option<String> {
    line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
}

/// Clock source in use.
pub fn clock_source() -> Option<String> {
    line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// Memory, bytes.
pub fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Hypervisor or container, where one is recognised.
pub fn virtualisation() -> Option<String> {
    let container = if Path::new("/.dockerenv").exists() {
        Some("docker container".to_owned())
    } else {
        line("/run/systemd/container").map(|kind| format!("{kind} container"))
    };
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let guest = cpuinfo
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    let maker = ["/sys/class/dmi/id/sys_vendor", "/sys/class/dmi/id/product_name"]
        .iter()
        .filter_map(|path| line(path))
        .collect::<Vec<_>>()
        .join(" ");
    let machine = guest.then(|| match (line("/sys/hypervisor/type"), maker.is_empty()) {
        (Some(kind), _) => format!("virtual machine ({kind})"),
        (None, false) => format!("virtual machine ({maker})"),
        (None, true) => "virtual machine".to_owned(),
    });
    match (machine, container) {
        (Some(machine), Some(container)) => Some(format!("{container} in a {machine}")),
        (machine, container) => machine.or(container),
    }
}

/// cgroup I/O limits on this process: version 2 `io.max`, version 1 `blkio.throttle.*`.
pub fn io_limits() -> Vec<String> {
    let cgroups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut limits = Vec::new();
    for entry in cgroups.lines() {
        let mut fields = entry.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let files: &[(&str, &str)] = if controllers.is_empty() {
            &[("/sys/fs/cgroup", "io.max"), ("/sys/fs/cgroup/unified", "io.max")]
        } else if controllers.split(',').any(|name| name == "blkio") {
            &[
                ("/sys/fs/cgroup/blkio", "blkio.throttle.write_bps_device"),
                ("/sys/fs/cgroup/blkio", "blkio.throttle.write_iops_device"),
            ]
        } else {
            &[]
        };
        for (root, file) in files {
            limits.extend(limits_up(Path::new(root), path.trim_start_matches('/'), file));
        }
    }
    limits
}

/// Limits in one cgroup and all above it: the tightest of them holds.
fn limits_up(root: &Path, path: &str, file: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut dir = root.join(path);
    loop {
        let text = std::fs::read_to_string(dir.join(file)).unwrap_or_default();
        found.extend(
            text.lines().filter(|line| !line.is_empty()).map(|line| format!("{file}: {line}")),
        );
        if dir == root || !dir.pop() {
            return found;
        }
    }
}

/// Pressure (PSI): the `some` line of each resource.
pub fn pressure() -> Vec<String> {
    ["cpu", "io", "memory"]
        .iter()
        .filter_map(|what| Some(format!("{what}: {}", line(&format!("/proc/pressure/{what}"))?)))
        .collect()
}

/// Share of the last 10 s in which some task waited for a CPU, percent.
pub fn cpu_pressure_percent() -> Option<f64> {
    let text = line("/proc/pressure/cpu")?;
    text.split_ascii_whitespace().find_map(|field| field.strip_prefix("avg10=")?.parse().ok())
}

/// Libraries loaded here, or preloaded for every program, that make barriers no-ops.
pub fn preloads() -> Vec<String> {
    // Names need not be UTF-8: one such library must not hide all others.
    let text = |path| std::fs::read(path).unwrap_or_default();
    let (maps, global) = (text("/proc/self/maps"), text("/etc/ld.so.preload"));
    no_op_libraries(&String::from_utf8_lossy(&maps), &String::from_utf8_lossy(&global))
}

fn no_op_libraries(maps: &str, global: &str) -> Vec<String> {
    let mapped = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    let global =
        global.split(|c: char| c.is_whitespace() || c == ':').filter(|name| !name.is_empty());
    let mut found: Vec<String> = mapped
        .chain(global)
        .filter(|path| {
            let name = path.rsplit('/').next().unwrap_or_default();
            NO_OP_SYNC_LIBRARIES.iter().any(|library| name.contains(library))
        })
        .map(str::to_owned)
        .collect();
    found.sort();
    found.dedup();
    found
}

fn line(path: &str) -> Option<String> {
    read_line(Path::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_op_sync_libraries_are_found_mapped_or_preloaded_for_all() {
        let maps =
            "7f0-7f1 r-xp 00000000 fe:00 1 /usr/lib/libeatmydata.so\n7f2-7f3 rw-p 0 00:00 0\n";
        assert_eq!(no_op_libraries(maps, ""), ["/usr/lib/libeatmydata.so"]);
        assert_eq!(no_op_libraries("", "/opt/libnosync.so.1\n"), ["/opt/libnosync.so.1"]);
        assert!(no_op_libraries("7f0-7f1 r-xp 0 fe:00 1 /home/eatmydata/libc.so\n", "").is_empty());
    }

    #[test]
    fn the_host_is_described() {
        assert!(kernel().contains('.'));
        assert!(cpus() >= 1);
    }
}
