//! Finds what the checks need, and installs it through apt where it may.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use super::steps::succeeds;
use crate::report::{StepReport, Verdict};
use crate::workspace::output_of;

/// A program that some checks need.
struct Tool {
    program: &'static str,
    /// Debian's package.
    package: &'static str,
    /// Checks that do not run without it.
    used_by: &'static str,
}

const TOOLS: [Tool; 8] = [
    Tool {
        program: "strace",
        package: "strace",
        used_by: "traces of system calls, planted errors",
    },
    Tool { program: "mkfs.xfs", package: "xfsprogs", used_by: "tests on an XFS image" },
    Tool { program: "mkfs.btrfs", package: "btrfs-progs", used_by: "tests on a btrfs image" },
    Tool { program: "mkfs.ext4", package: "e2fsprogs", used_by: "tests on an ext4 image" },
    Tool { program: "fio", package: "fio", used_by: "figures held against fio's" },
    Tool {
        program: "chromium",
        package: "chromium",
        used_by: "report pages and clients in a browser",
    },
    Tool { program: "curl", package: "curl", used_by: "the server with curl" },
    Tool { program: "nginx", package: "nginx-light", used_by: "the server behind nginx" },
];

/// Components of the Rust toolchain, with the command that shows each is there.
const COMPONENTS: [(&str, &str); 2] = [("rustfmt", "fmt"), ("clippy", "clippy")];

/// Where system programs lie that a user's `PATH` may leave out.
const SYSTEM_FOLDERS: [&str; 2] = ["/usr/sbin", "/sbin"];

/// Finds a program on `PATH` or among the system's.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Makes sure that everything is there; what cannot be had is named with what it is for.
pub(super) fn ensure() -> Result<StepReport> {
    for (component, command) in COMPONENTS {
        if !has_component(command) {
            succeeds(Command::new("rustup").args(["component", "add", component]))?;
        }
        if !has_component(command) {
            return Ok(StepReport::failed(format!("the toolchain has no {component}")));
        }
    }
    let missing = missing();
    let hindrance = if missing.is_empty() { None } else { install(&missing)? };
    let still_missing = self::missing();
    let mut report = StepReport::passed();
    report.notes.extend(hindrance.clone());
    if still_missing.is_empty() {
        return Ok(report);
    }
    report = StepReport::one(Verdict::NotRun, report.notes);
    let why = hindrance.unwrap_or_else(|| "apt-get did not bring it".to_owned());
    for tool in still_missing {
        let (program, used_by) = (tool.program, tool.used_by);
        report.not_run.push(format!("{used_by}: {program} is not installed ({why})"));
    }
    Ok(report)
}

/// Whether cargo has the command.
fn has_component(command: &str) -> bool {
    output_of(Command::new("cargo").args([command, "--version"])).is_ok()
}

/// Lists what is not there.
fn missing() -> Vec<&'static Tool> {
    TOOLS.iter().filter(|tool| find(tool.program).is_none()).collect()
}

/// Installs Debian's packages; returns why that could not be done, if it could not.
fn install(tools: &[&Tool]) -> Result<Option<String>> {
    if find("apt-get").is_none() {
        return Ok(Some("no apt-get here".to_owned()));
    }
    if output_of(Command::new("id").arg("-u"))?.trim() != "0" {
        return Ok(Some("not root, so nothing was installed".to_owned()));
    }
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("-qq");
        command.args([
            "-o",
            "Dpkg::Use-Pty=0",
            "-o",
            "Acquire::Retries=3",
            "-o",
            "DPkg::Lock::Timeout=120",
        ]);
        succeeds(command.args(arguments))
    };
    let packages: Vec<&str> = tools.iter().map(|tool| tool.package).collect();
    println!("    installing {}", packages.join(" "));
    let updated = apt_get(&["update"])?;
    // One by one: a package that cannot be had must not keep the others away.
    let mut refused = Vec::new();
    for package in packages {
        let installed = apt_get(&["install", "--yes", "--no-install-recommends", package])?;
        if installed.verdict == Verdict::Failed {
            refused.push(package);
        }
    }
    let hindrance = format!("apt-get failed for {}", refused.join(", "));
    let hindrance = if updated.verdict == Verdict::Failed {
        format!("apt-get update failed; {hindrance}")
    } else {
        hindrance
    };
    Ok((!refused.is_empty()).then_some(hindrance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_on_the_path_and_an_invented_one_is_not() {
        assert!(find("cargo").is_some());
        assert_eq!(find("no-such-program-anywhere"), None);
    }
}
