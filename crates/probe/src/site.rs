//! The place a run measures: a directory, its file system, its devices, the machine.

use std::path::{Path, PathBuf};

use highwater_report::machine::Machine;
use highwater_sys::process;

use crate::disk::chain::Chain;
use crate::disk::mounts::mount_of;
use crate::error::ProbeError;
use crate::machine;
use crate::work_dir::{self, Reaped};

/// A directory that can be measured.
#[derive(Debug)]
pub struct Site {
    /// The directory, absolute and without links.
    pub dir: PathBuf,
    /// Devices below it.
    pub chain: Chain,
    /// The machine as seen from it.
    pub machine: Machine,
    /// What runs that died had left here.
    pub reaped: Reaped,
    /// Files that this process may have open at once.
    pub open_files: u64,
}

impl Site {
    /// Looks at a directory, and removes what runs that died left in it. Raises this process's
    /// limit of open files as far as it may: each writer can need a file of its own.
    ///
    /// # Errors
    /// When the directory is absent, not a directory, or cannot be listed.
    pub fn open(dir: &Path) -> Result<Self, ProbeError> {
        let refuse = |reason: String| ProbeError::Directory { path: dir.to_owned(), reason };
        let canonical = dir
            .canonicalize()
            .map_err(|error| refuse(format!("{error}; name a directory that exists")))?;
        if !canonical.is_dir() {
            return Err(refuse("not a directory; name the directory to measure in".to_owned()));
        }
        let mount = mount_of(&canonical)
            .ok_or_else(|| refuse("its mount is not in /proc/self/mountinfo".to_owned()))?;
        let reaped = work_dir::reap_dead(&canonical)?;
        let chain = Chain::find(&mount);
        let machine = machine::capture(&canonical, &mount, &chain)?;
        let open_files = process::raise_open_file_limit();
        Ok(Self { dir: canonical, chain, machine, reaped, open_files })
    }

    /// Alignment of memory for direct I/O, bytes; a page where the kernel does not tell.
    pub fn memory_align(&self) -> u32 {
        match self.machine.filesystem.dio_memory_align {
            Some(align) if align > 0 => align,
            _ => 4096,
        }
    }

    /// Alignment of offsets and lengths for direct I/O, bytes; `None` when it is refused here.
    pub fn offset_align(&self) -> Option<u32> {
        match self.machine.filesystem.dio_offset_align {
            Some(0) => None,
            Some(align) => Some(align),
            // An old kernel does not tell: the logical block is what it would have said.
            None => Some(self.machine.leaf().and_then(|leaf| leaf.logical_block).unwrap_or(4096)),
        }
    }
}
