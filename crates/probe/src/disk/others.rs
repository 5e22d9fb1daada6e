//! What other processes write while a case is measured: `/proc/<pid>/io`, as far as we may read.
//!
//! Kernel threads are left out: what they write is written for somebody, often for this run.

use std::collections::BTreeMap;

/// Bytes written so far, by process.
#[derive(Debug, Clone, Default)]
pub struct OtherIo {
    written: BTreeMap<u32, u64>,
}

/// What others wrote between two snapshots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherWrites {
    /// Bytes, all processes together.
    pub bytes: u64,
    /// The process that wrote most, as in `1234 (rsync)`.
    pub most: Option<String>,
}

impl OtherIo {
    /// Takes a snapshot; `None` when `/proc` shows no other process's I/O at all.
    pub fn snapshot() -> Option<Self> {
        let own = std::process::id();
        let mut written = BTreeMap::new();
        for entry in std::fs::read_dir("/proc").ok()?.flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let Some(pid) = pid.filter(|pid| *pid != own) else { continue };
            if let Some(bytes) = write_bytes(pid) {
                written.insert(pid, bytes);
            }
        }
        (!written.is_empty()).then_some(Self { written })
    }

    /// Compares with an earlier snapshot. A process that ended in between goes unseen.
    pub fn since(&self, earlier: &Self) -> OtherWrites {
        let mut writes = OtherWrites::default();
        let mut most = 0;
        for (pid, now) in &self.written {
            let before = earlier.written.get(pid).copied().unwrap_or(0);
            let grown = now.saturating_sub(before);
            if grown == 0 || is_kernel_thread(*pid) {
                continue;
            }
            writes.bytes += grown;
            if grown > most {
                most = grown;
                writes.most = Some(name(*pid));
            }
        }
        writes
    }
}

fn write_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?;
    line.trim().parse().ok()
}

fn is_kernel_thread(pid: u32) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rfind(')').map_or("", |end| &stat[end + 1..]);
    let flags = fields.split_ascii_whitespace().nth(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

fn name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} ({})", name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_summed_and_the_largest_writer_is_named() {
        let at = |pairs: &[(u32, u64)]| OtherIo { written: pairs.iter().copied().collect() };
        let own = std::process::id();
        let earlier = at(&[(own, 10), (u32::MAX, 5)]);
        let writes = at(&[(own, 110), (u32::MAX, 8), (u32::MAX - 1, 7)]).since(&earlier);
        assert_eq!(writes.bytes, 110);
        assert!(writes.most.unwrap().starts_with(&own.to_string()));
    }
}
