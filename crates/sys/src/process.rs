//! Which processes are alive, told apart even when a process id is used again.

use std::path::Path;

/// Identity of a process: its id and when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessId {
    /// Process id.
    pub pid: u32,
    /// Start, clock ticks after boot (field 22 of `/proc/<pid>/stat`).
    pub start_ticks: u64,
}

/// Gives this process's identity.
///
/// # Panics
/// When `/proc` is not mounted.
pub fn current() -> ProcessId {
    let pid = std::process::id();
    let start_ticks = start_ticks(pid).expect("/proc/self/stat is readable");
    ProcessId { pid, start_ticks }
}

/// Whether that very process still exists in this process namespace.
pub fn is_alive(process: ProcessId) -> bool {
    start_ticks(process.pid) == Some(process.start_ticks)
}

/// Raises the limit of open files to what the system allows, and gives it.
pub fn raise_open_file_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let in_force = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    in_force.current.unwrap_or(u64::MAX)
}

fn start_ticks(pid: u32) -> Option<u64> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(Path::new(&path)).ok()?;
    // The command name, in parentheses, may itself hold spaces and parentheses.
    let fields = &text[text.rfind(')')? + 1..];
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_a_reused_id_is_not_mistaken_for_it() {
        let me = current();
        assert!(is_alive(me));
        assert!(!is_alive(ProcessId { start_ticks: me.start_ticks + 1, ..me }));
        assert!(!is_alive(ProcessId { pid: u32::MAX, start_ticks: 1 }));
    }
}
