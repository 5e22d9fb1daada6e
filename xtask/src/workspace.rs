//! Where things lie: the root, the target directory, cargo's description and git's file list.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The checkout that this program was started from.
pub(crate) struct Workspace {
    /// Folder of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo builds; everything this program writes goes below it.
    pub(crate) target: PathBuf,
    /// `cargo metadata` of the workspace's own packages.
    pub(crate) metadata: Value,
}

impl Workspace {
    /// Finds the workspace around this package.
    pub(crate) fn find() -> Result<Self> {
        // Cargo sets the variable when it starts the program; the path compiled in may be another
        // checkout's where two share a target directory.
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let mut command = Command::new("cargo");
        command.current_dir(&package).args(["metadata", "--no-deps", "--format-version", "1"]);
        let metadata: Value = serde_json::from_str(&output_of(&mut command)?)
            .context("`cargo metadata` printed something that is not JSON")?;
        let path = |key: &str| -> Result<PathBuf> {
            let text = metadata[key].as_str();
            Ok(text.with_context(|| format!("`cargo metadata` has no {key}"))?.into())
        };
        let (root, target) = (path("workspace_root")?, path("target_directory")?);
        Ok(Self { root, target, metadata })
    }

    /// Prepares a command of cargo's in the root.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(&self.root).args(arguments);
        command
    }

    /// Lists the files that git tracks, and new ones it does not ignore, relative to the root.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        let mut command = Command::new("git");
        // A checkout made by another user is still ours to read.
        command.current_dir(&self.root).args(["-c", "safe.directory=*", "ls-files", "-z"]);
        command.args(["--cached", "--others", "--exclude-standard", "--deduplicate"]);
        let listed = output_of(&mut command)?;
        let files = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
        // A tracked file deleted in the work tree is still listed.
        Ok(files.filter(|file| self.root.join(file).is_file()).collect())
    }

    /// Shows a path relative to the root where it lies below it.
    pub(crate) fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

/// Runs a command to its end and returns what it printed; anything but success is an error.
pub(crate) fn output_of(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {}", output.status, errors.trim());
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed no UTF-8"))
}

/// Removes a folder if it is there.
pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
