//! The directory that a campaign works in: made anew, taken down whatever happens, and recognised
//! when its owner died.
//!
//! Its owner holds a lock on it. A later campaign takes down one whose lock is free: everything
//! mounted below it is unmounted, then it is removed. What is kept for people to look at has a file
//! that says so, and is left alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use highwater_sys::dir::{self, DirLock};
use highwater_sys::time::sleep;

use crate::campaign::{CampaignError, CampaignResult};
use crate::verdict::Layer;

const PREFIX: &str = "highwater-torture-";
/// Says that a directory is to be left alone.
const KEPT: &str = "KEPT";
/// Tries to unmount what is still busy.
const TRIES: u32 = 50;

/// The directory.
#[derive(Debug)]
pub(crate) struct Yard {
    path: PathBuf,
    is_kept: bool,
    _lock: DirLock,
}

impl Yard {
    /// Takes down what dead campaigns left below `parent`, and makes a directory there.
    pub(crate) fn make(parent: &Path, layer: Layer) -> CampaignResult<Self> {
        reap(parent)?;
        let path = parent.join(format!("{PREFIX}{}-{}", layer.name(), std::process::id()));
        let failed = |why: String| CampaignError::machine(path.display().to_string(), &why);
        dir::create_new(&path).map_err(|error| failed(error.to_string()))?;
        let lock = DirLock::try_take(&path).map_err(|error| failed(error.to_string()))?;
        let lock = lock.ok_or_else(|| failed("somebody else has locked it".to_owned()))?;
        Ok(Self { path, is_kept: false, _lock: lock })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it for people to look at.
    pub(crate) fn keep(&mut self) {
        // A mark that cannot be made is no reason to lose the directory now.
        self.is_kept = true;
        drop(std::fs::write(self.path.join(KEPT), b"left by a campaign that failed\n"));
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        unmount_below(&self.path);
        if !self.is_kept && mounted_below(&self.path).is_empty() {
            // What stays is removed by the next campaign.
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

/// Takes down what dead campaigns left.
fn reap(parent: &Path) -> CampaignResult<()> {
    let failed =
        |why: &dyn std::fmt::Display| CampaignError::machine(parent.display().to_string(), why);
    let entries = std::fs::read_dir(parent).map_err(|error| failed(&error))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.starts_with(PREFIX) || path.join(KEPT).exists() || path.is_symlink() {
            continue;
        }
        // Held by its owner as long as that lives.
        let Ok(Some(lock)) = DirLock::try_take(&path) else { continue };
        unmount_below(&path);
        if mounted_below(&path).is_empty() {
            std::fs::remove_dir_all(&path).map_err(|error| failed(&error))?;
        }
        drop(lock);
    }
    Ok(())
}

fn unmount_below(path: &Path) {
    // The last that was mounted goes first.
    for point in mounted_below(path).iter().rev() {
        if unmount(point).is_err() {
            drop(run("umount", &["--lazy", &point.display().to_string()]));
        }
    }
}

/// Unmounts, and waits for processes that were killed to go away.
pub(crate) fn unmount(point: &Path) -> Result<(), String> {
    let mut answer = Ok(());
    for _ in 0..TRIES {
        answer = run("umount", &[&point.display().to_string()]);
        if answer.is_ok() {
            break;
        }
        sleep(std::time::Duration::from_millis(100));
    }
    answer
}

/// Mount points below a directory, in the order in which they were mounted.
fn mounted_below(path: &Path) -> Vec<PathBuf> {
    let Ok(path) = path.canonicalize() else { return Vec::new() };
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = text.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape);
    points.filter(|point| point.starts_with(&path)).collect()
}

/// Blanks and the like are written as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let plain = text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n");
    PathBuf::from(plain.replace("\\134", "\\"))
}

/// Runs a program of the system's; gives what it said about failing.
pub(crate) fn run(name: &str, arguments: &[&str]) -> Result<(), String> {
    use std::os::unix::process::CommandExt;
    let found = |path: &str| Command::new(path).args(arguments).process_group(0).output();
    // A user's search path may leave out where these lie.
    let places = [name.to_owned(), format!("/usr/sbin/{name}"), format!("/sbin/{name}")];
    let mut answer = Err(std::io::Error::from(std::io::ErrorKind::NotFound));
    for place in &places {
        answer = found(place);
        if !answer.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            break;
        }
    }
    match answer {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(format!("{name} is not installed"))
        }
        Err(error) => Err(format!("{name}: {error}")),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            Err(format!("{name}: {said}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dead_campaigns_left_is_taken_down_and_the_rest_stays() {
        let parent = tempfile::tempdir().unwrap();
        let mut alive = Yard::make(parent.path(), Layer::Kill).unwrap();
        let at = |name: &str| parent.path().join(name);
        for name in ["highwater-torture-full-1", "highwater-torture-full-2", "other"] {
            std::fs::create_dir_all(at(name).join("inner")).unwrap();
        }
        std::fs::write(at("highwater-torture-full-2").join(KEPT), b"").unwrap();
        reap(parent.path()).unwrap();
        assert!(alive.path().exists());
        assert!(!at("highwater-torture-full-1").exists());
        assert!(at("highwater-torture-full-2").exists() && at("other").exists());
        let path = alive.path().to_owned();
        alive.keep();
        drop(alive);
        assert!(path.exists());
        reap(parent.path()).unwrap();
        assert!(path.join(KEPT).exists());
    }

    #[test]
    fn a_program_that_is_not_there_is_told_from_one_that_fails() {
        assert_eq!(run("highwater-absent", &[]), Err("highwater-absent is not installed".into()));
        assert!(run("false", &[]).unwrap_err().starts_with("false: "));
        assert_eq!(run("true", &[]), Ok(()));
    }
}
