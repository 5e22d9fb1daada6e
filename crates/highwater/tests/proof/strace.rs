//! The program under strace: which system calls it makes, and what it does when one fails.

use std::process::Command;

use crate::environment::tool;
use crate::program::{Answer, PROGRAM, Place, read, temporary};

/// Calls that make something durable, or may carry a barrier, those that open files and those that
/// start threads.
const TRACED: &str = "open,openat,fallocate,pwrite64,pwritev2,fsync,fdatasync,syncfs,\
                      sync_file_range,io_uring_setup,io_uring_enter,clone,clone3";

/// Makes sure that strace is here and may trace.
pub fn usable() -> Result<(), String> {
    let output = Command::new(tool("strace")?)
        .args(["-o", "/dev/null", PROGRAM, "--version"])
        .output()
        .map_err(|error| format!("strace: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("strace may not trace here: {said}")) }
}

/// What the program did in its working directory.
#[derive(Debug)]
pub struct Trace {
    /// How it ended.
    pub answer: Answer,
    /// A line per call, in order of their beginning.
    pub calls: Vec<String>,
    /// Errors planted.
    pub planted: usize,
}

impl Trace {
    /// Runs the program under strace, with strace's own options for planting errors.
    pub fn run(place: &Place, words: &str, inject: &[&str]) -> Self {
        let mut options = vec![format!("--trace={TRACED}")];
        options.extend(inject.iter().map(|what| format!("--inject={what}")));
        let (answer, log) = strace(place, words, &options);
        let planted = log.matches("(INJECTED)").count();
        let ours =
            |call: &&str| call.contains("/highwater-work.") || call.starts_with("io_uring_enter(");
        let calls = calls(&log).filter(ours).map(ToOwned::to_owned).collect();
        Self { answer, calls, planted }
    }

    /// Counts calls of this name on the measured files.
    pub fn on_files(&self, name: &str) -> u64 {
        self.count(|call| is(call, name) && call.contains("/hw-"))
    }

    /// Counts calls of this name on case directories themselves.
    pub fn on_directories(&self, name: &str) -> u64 {
        self.count(|call| is(call, name) && !call.contains("/hw-"))
    }

    /// Counts calls.
    pub fn count(&self, which: impl Fn(&str) -> bool) -> u64 {
        let count = self.calls.iter().filter(|call| which(call)).count();
        u64::try_from(count).expect("a count of lines")
    }
}

/// Whether a line is a call of this name.
pub fn is(line: &str, name: &str) -> bool {
    line.strip_prefix(name).is_some_and(|rest| rest.starts_with('('))
}

/// Every system call of a run, whatever it is about.
pub fn every_call(place: &Place, words: &str) -> Vec<String> {
    let (answer, log) = strace(place, words, &[]);
    answer.expect_code(0);
    calls(&log).map(ToOwned::to_owned).collect()
}

fn strace(place: &Place, words: &str, options: &[String]) -> (Answer, String) {
    let folder = temporary();
    let log = folder.path().join("trace");
    let mut command = Command::new(tool("strace").expect("asked for before"));
    command.args(["--follow-forks", "--decode-fds=path", "--string-limit=8", "--quiet=all"]);
    command.args(options).arg("--output").arg(&log);
    let output = command.arg(PROGRAM).args(place.arguments(words)).output();
    (output.expect("strace starts").into(), read(&log))
}

/// Calls without the process id before them. The second half of a call that another thread
/// interrupted in the log is left out.
fn calls(log: &str) -> impl Iterator<Item = &str> {
    log.lines()
        .map(|line| line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start())
        .filter(|call| !call.starts_with('<'))
}
