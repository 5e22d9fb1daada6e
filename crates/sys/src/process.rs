//! Which processes are alive, told apart even when a process id is used again, and what this one
//! has used.

use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::error::{SysError, SysResult, last_error, named};

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

/// Ends a process at once, as `kill -9` does.
///
/// # Errors
/// `ESRCH` when it is gone, `EPERM` when it belongs to somebody else.
pub fn kill(pid: u32) -> SysResult<()> {
    signal(pid, Signal::KILL)
}

/// Stops a process where it is, as `kill -STOP` does: calls that it has made go on in the kernel,
/// and none returns to it.
///
/// # Errors
/// As of [`kill`].
pub fn suspend(pid: u32) -> SysResult<()> {
    signal(pid, Signal::STOP)
}

fn signal(pid: u32, signal: Signal) -> SysResult<()> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = raw.ok_or_else(|| SysError::new("kill", Errno::SRCH))?;
    named("kill", rustix::process::kill_process(pid, signal))
}

/// Whether this process acts as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Gives how many files this process may have open.
pub fn open_file_limit() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(u64::MAX)
}

/// Raises the limit of open files to what the system allows, and gives it.
pub fn raise_open_file_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let in_force = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    in_force.current.unwrap_or(u64::MAX)
}

/// What all threads of this process have used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time in the program.
    pub user: Duration,
    /// CPU time in the kernel on its behalf.
    pub system: Duration,
    /// Times that a thread gave up its CPU to wait.
    pub voluntary_switches: u64,
    /// Times that a thread lost its CPU to another.
    pub involuntary_switches: u64,
}

/// Reads what this process has used. Source: getrusage(2).
///
/// # Errors
/// As the man page; none is expected for a process that asks for itself.
pub fn usage() -> SysResult<Usage> {
    let mut raw = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writes of the structure that the call fills.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_SELF, raw.as_mut_ptr()) };
    if answer != 0 {
        return Err(last_error("getrusage"));
    }
    // SAFETY: all of it was zeroed, which is a valid value of each of its integers.
    let raw = unsafe { raw.assume_init() };
    Ok(Usage {
        user: duration(raw.ru_utime),
        system: duration(raw.ru_stime),
        voluntary_switches: u64::try_from(raw.ru_nvcsw).unwrap_or(0),
        involuntary_switches: u64::try_from(raw.ru_nivcsw).unwrap_or(0),
    })
}

/// CPU time that the calling thread has used. Source: `clock_gettime(2)`.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Memory of this process in RAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Now, bytes.
    pub resident_bytes: u64,
    /// At most since the start or [`reset_peak_memory`], bytes.
    pub peak_bytes: u64,
}

/// Reads this process's memory; `None` where `/proc` does not tell.
pub fn memory() -> Option<Memory> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    Some(Memory {
        resident_bytes: kib_field(&status, "VmRSS:")?,
        peak_bytes: kib_field(&status, "VmHWM:")?,
    })
}

/// Gives memory that was freed back to the system, and lets the peak begin anew. Source:
/// proc(5), `clear_refs`.
///
/// # Errors
/// When the kernel refuses to reset the peak; it then stays what it was.
pub fn reset_peak_memory() -> std::io::Result<()> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes no pointer, and only returns free memory to the system.
        unsafe { libc::malloc_trim(0) };
    }
    std::fs::write("/proc/self/clear_refs", "5")
}

/// Counts the files that this process has open; `None` where `/proc` does not tell.
pub fn open_files() -> Option<u64> {
    // The listing itself is one of them.
    u64::try_from(std::fs::read_dir("/proc/self/fd").ok()?.count()).ok()?.checked_sub(1)
}

/// Bytes that this process has handed to the block layer, or made dirty for it to write later.
/// Source: proc(5), `io`. `None` where `/proc` does not tell.
pub fn written_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.trim().parse().ok())
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
}

fn kib_field(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
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

    #[test]
    fn work_memory_and_files_show_in_what_the_process_has_used() {
        let (before, thread_before) = (usage().unwrap(), thread_cpu_time());
        let mut sum = 0_u64;
        while thread_cpu_time() < thread_before + Duration::from_millis(20) {
            sum = std::hint::black_box(sum + 1);
        }
        let after = usage().unwrap();
        assert!(after.user + after.system > before.user + before.system);

        reset_peak_memory().unwrap();
        let base = memory().unwrap();
        let block = vec![1_u8; 64 << 20];
        assert!(memory().unwrap().resident_bytes >= base.resident_bytes + (32 << 20));
        drop(std::hint::black_box(block));
        assert!(memory().unwrap().peak_bytes >= base.peak_bytes + (32 << 20));

        let files = open_files().unwrap();
        let held: Vec<_> = (0..9).map(|_| std::fs::File::open("/proc/self/stat")).collect();
        assert!(open_files().unwrap() >= files + 5, "{}", held.len());
        assert!(open_file_limit() >= files, "the limit is not below what is open");
        assert!(written_bytes().is_some());
    }

    #[test]
    fn memory_is_read_from_the_kernels_lines() {
        let status = "Name:\tx\nVmHWM:\t   10240 kB\nVmRSS:\t    9 kB\n";
        assert_eq!(kib_field(status, "VmHWM:"), Some(10240 << 10));
        assert_eq!(kib_field(status, "VmRSS:"), Some(9 << 10));
        assert_eq!(kib_field(status, "VmSwap:"), None);
    }

    #[test]
    fn a_process_is_killed_and_one_that_is_gone_is_an_error() {
        use std::os::unix::process::ExitStatusExt;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        kill(child.id()).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(kill(0).unwrap_err().errno, Errno::SRCH);
        assert_eq!(kill(u32::MAX).unwrap_err().errno, Errno::SRCH);
    }

    #[test]
    fn a_process_that_is_suspended_says_nothing_more_and_can_be_killed() {
        use std::io::{BufRead as _, BufReader};
        use std::process::{Command, Stdio};
        let mut child =
            Command::new("yes").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut String::new()).unwrap();
        suspend(child.id()).unwrap();
        // Behind the name, which ends with a parenthesis, stands how it is.
        let is_stopped = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T')
        };
        while !is_stopped() {
            std::thread::yield_now();
        }
        kill(child.id()).unwrap();
        child.wait().unwrap();
    }
}
