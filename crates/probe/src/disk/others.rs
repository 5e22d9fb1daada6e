//! What other processes write while a case is measured: `/proc/<pid>/io`, as far as we may read.
//!
//! Kernel threads are left out: what they write is written for somebody, often for this run. The
//! kernel does not say to which disk a process wrote. When a process ends and is waited for, all it
//! ever wrote is added to its parent's count: that much is taken off again.

use std::collections::BTreeMap;

/// Bytes written so far, by process.
#[derive(Debug, Clone, Default)]
pub struct OtherIo {
    processes: BTreeMap<u32, Process>,
}

/// One process at the time of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: u32,
    /// Tells it from another one that was given the same id later.
    start_ticks: u64,
    is_kernel_thread: bool,
    /// Bytes written by it and by the children it has waited for; absent where we may not read it.
    written: Option<u64>,
}

/// What others wrote between two snapshots, to whatever disk.
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
        let mut processes = BTreeMap::new();
        for entry in std::fs::read_dir("/proc").ok()?.flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let Some(pid) = pid.filter(|pid| *pid != own) else { continue };
            if let Some(process) = Process::read(pid) {
                processes.insert(pid, process);
            }
        }
        let any = processes.values().any(|process| process.written.is_some());
        any.then_some(Self { processes })
    }

    /// Compares with an earlier snapshot. A process that ended in between and was not waited for
    /// goes unseen.
    pub fn since(&self, earlier: &Self) -> OtherWrites {
        let inherited = self.inherited_since(earlier);
        let mut writes = OtherWrites::default();
        let mut most = 0;
        for (pid, now) in &self.processes {
            let Some(written) = now.written.filter(|_| !now.is_kernel_thread) else { continue };
            let before = earlier.same(*pid, now).and_then(|process| process.written).unwrap_or(0);
            let inherited = inherited.get(pid).copied().unwrap_or(0);
            let grown = written.saturating_sub(before).saturating_sub(inherited);
            if grown == 0 {
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

    /// What processes that are gone had written before `earlier`, by the nearest ancestor that
    /// still is there: whoever was waited for by one that is gone as well went the same way.
    fn inherited_since(&self, earlier: &Self) -> BTreeMap<u32, u64> {
        let mut inherited: BTreeMap<u32, u64> = BTreeMap::new();
        let is_here = |pid: u32, then: &Process| self.same(pid, then).is_some();
        for (pid, gone) in earlier.processes.iter().filter(|(pid, then)| !is_here(**pid, then)) {
            let Some(written) = gone.written else { continue };
            let mut heir = gone.parent;
            // As many steps as there are processes: ids used again could make a circle.
            for _ in 0..earlier.processes.len() {
                match earlier.processes.get(&heir) {
                    Some(parent) if heir != *pid && !is_here(heir, parent) => heir = parent.parent,
                    _ => break,
                }
            }
            *inherited.entry(heir).or_default() += written;
        }
        inherited
    }

    /// The process of this id, when it is still that very one.
    fn same(&self, pid: u32, process: &Process) -> Option<&Process> {
        self.processes.get(&pid).filter(|found| found.start_ticks == process.start_ticks)
    }
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        const PF_KTHREAD: u64 = 0x0020_0000;
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The command name, in parentheses, may itself hold spaces and parentheses.
        let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().collect();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            start_ticks: fields.get(19)?.parse().ok()?,
            is_kernel_thread: fields.get(6)?.parse::<u64>().ok()? & PF_KTHREAD != 0,
            written: write_bytes(pid),
        })
    }
}

fn write_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?;
    line.trim().parse().ok()
}

fn name(pid: u32) -> String {
    let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} ({})", String::from_utf8_lossy(&name).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot of processes: id, parent, bytes written. Ids above all real ones.
    fn at(processes: &[(u32, u32, u64)]) -> OtherIo {
        let process = |parent, written| Process {
            parent: u32::MAX - parent,
            start_ticks: 5,
            is_kernel_thread: false,
            written: Some(written),
        };
        let processes = processes.iter();
        OtherIo { processes: processes.map(|p| (u32::MAX - p.0, process(p.1, p.2))).collect() }
    }

    #[test]
    fn growth_is_summed_and_the_largest_writer_is_named() {
        let earlier = at(&[(1, 0, 10), (2, 1, 5)]);
        let mut now = at(&[(1, 0, 110), (2, 1, 8), (3, 1, 7)]);
        let writes = now.since(&earlier);
        assert_eq!(writes.bytes, 110);
        assert!(writes.most.unwrap().starts_with(&(u32::MAX - 1).to_string()));
        now.processes.get_mut(&(u32::MAX - 1)).unwrap().is_kernel_thread = true;
        assert_eq!(now.since(&earlier).bytes, 10);
    }

    #[test]
    fn what_an_ended_child_wrote_long_ago_is_not_its_parents_writing_now() {
        // 2 ended: it had written 1000, and 40 more meanwhile, which count.
        let earlier = at(&[(1, 0, 10), (2, 1, 1000)]);
        assert_eq!(at(&[(1, 0, 1050)]).since(&earlier).bytes, 40);
        // Not waited for yet, or by nobody whose count we see: nothing is below nothing.
        assert_eq!(at(&[(1, 0, 10)]).since(&earlier), OtherWrites::default());
        // A whole line of descendants ended: all of it arrives at who is left.
        let line = at(&[(1, 0, 10), (2, 1, 100), (3, 2, 1000), (4, 3, 10_000)]);
        assert_eq!(at(&[(1, 0, 11_117)]).since(&line).bytes, 7);
        // The id was used again: the new process has written all of it meanwhile.
        let mut reused = at(&[(1, 0, 1010), (2, 1, 30)]);
        reused.processes.get_mut(&(u32::MAX - 2)).unwrap().start_ticks = 6;
        assert_eq!(reused.since(&earlier).bytes, 30);
    }

    #[test]
    fn a_child_that_ends_between_two_snapshots_leaves_its_parent_innocent() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = dir.path().join("written");
        // A shell that writes 8 MiB to the disk, waits to be told, and ends; its parent is a shell
        // that waits for it and lives on.
        let script = format!(
            "sh -c 'head -c 8388608 /dev/zero > {0}; sync {0}; echo; read _' ; echo; read _",
            path.display()
        );
        let mut parent = std::process::Command::new("sh")
            .args(["-c", &script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = parent.stdin.take().unwrap();
        let mut says = std::io::BufReader::new(parent.stdout.take().unwrap());
        let mut hear = || std::io::BufRead::read_line(&mut says, &mut String::new()).unwrap();
        hear();
        let before = OtherIo::snapshot().unwrap();
        std::io::Write::write_all(&mut told, b"\n").unwrap();
        hear();
        let after = OtherIo::snapshot().unwrap();
        drop(told);
        parent.wait().unwrap();
        let grown =
            after.processes[&parent.id()].written.zip(before.processes[&parent.id()].written);
        let inherited = after.inherited_since(&before);
        let inherited = inherited.get(&parent.id()).copied().unwrap_or(0);
        // Nothing else of this parent writes, so all of its growth is inheritance.
        let (now, then) = grown.unwrap();
        assert!(now - then <= inherited, "{} grown, {inherited} inherited", now - then);
    }
}
