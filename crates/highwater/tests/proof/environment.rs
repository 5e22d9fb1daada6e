//! What this machine lacks, said aloud: a test that cannot run here is never a silent pass.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// Where system programs lie that a user's `PATH` may leave out.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Notes that a test did not run here, and why: one line per test.
#[expect(clippy::print_stderr, reason = "people watching the tests must see it")]
pub fn not_run(what: &str, reason: &str) {
    let line = format!("NOT RUN: {what}: {}", reason.trim().replace('\n', "; "));
    eprintln!("{line}");
    let Some(notes) = std::env::var_os("HIGHWATER_NOT_RUN_FILE") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(notes);
    // One write, so that lines of tests side by side stay whole.
    file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
        .expect("the file for tests that did not run can be written");
}

/// Finds a program, on `PATH` or among the system's.
pub fn tool(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    let mut files = folders.map(|folder| folder.join(name));
    files.find(|file| file.is_file()).ok_or_else(|| format!("{name} is not installed"))
}

/// Makes sure that these tests run as root.
pub fn root() -> Result<(), String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    // Real, effective, saved, file system: the second decides.
    match uids.split_ascii_whitespace().nth(1) {
        Some("0") => Ok(()),
        _ => Err("not root".to_owned()),
    }
}

/// Runs a system program; gives its standard output, or what it said about failing.
pub fn system(name: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(tool(name)?)
        .args(arguments)
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{name} {}: {}", arguments.join(" "), said.trim()))
    }
}
