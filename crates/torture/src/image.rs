//! File systems in image files, mounted through loop devices that go away with their mounts.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use highwater_sys::file::{Cache, File, NewFile, WriteSync};
use serde::Serialize;

use crate::campaign::{CampaignError, CampaignResult};
use crate::yard::{run, unmount};

/// Images are filled in chunks of this many bytes.
const CHUNK_BYTES: u64 = 1 << 20;

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FileSystem {
    /// Names on the command line.
    pub const NAMES: [&str; 3] = ["ext4", "xfs", "btrfs"];
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Smallest image that has some room in it, bytes.
    pub(crate) const fn small_bytes(self) -> u64 {
        match self {
            Self::Ext4 => 40 << 20,
            // Its mkfs refuses less.
            Self::Xfs => 300 << 20,
            Self::Btrfs => 160 << 20,
        }
    }

    /// Blocks are not given back to the device, and nothing is left to be initialised later.
    fn mkfs(self) -> &'static [&'static str] {
        match self {
            Self::Ext4 => &[
                "-q",
                "-F",
                "-b",
                "4096",
                "-m",
                "0",
                "-E",
                "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
            ],
            Self::Xfs => &["-q", "-f", "-K"],
            Self::Btrfs => &["-q", "-f", "-K", "-m", "dup", "-d", "single"],
        }
    }
}

impl FromStr for FileSystem {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|kind| kind.name() == name);
        named.ok_or_else(|| format!("{name:?} is none of {}", Self::NAMES.join(", ")))
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// A file system in an image, unmounted when dropped.
#[derive(Debug)]
pub(crate) struct Image {
    kind: FileSystem,
    image: PathBuf,
    point: PathBuf,
    is_mounted: bool,
}

impl Image {
    /// Makes a file system in a new sparse file, and mounts it in a new directory.
    ///
    /// # Errors
    /// [`CampaignError::NotRun`] where this machine lacks what is needed.
    pub(crate) fn make(
        kind: FileSystem,
        image: PathBuf,
        len: u64,
        point: PathBuf,
    ) -> CampaignResult<Self> {
        let file = new_file(&image)?;
        file.truncate(len).map_err(|error| CampaignError::machine("an image", &error))?;
        Self::on(kind, image, point)
    }

    /// As [`Image::make`], in a file that is there.
    pub(crate) fn on(kind: FileSystem, image: PathBuf, point: PathBuf) -> CampaignResult<Self> {
        if !highwater_sys::process::is_root() {
            return Err(CampaignError::NotRun("mounting needs root".to_owned()));
        }
        std::fs::create_dir(&point)
            .map_err(|error| CampaignError::machine("a mount point", &error))?;
        let mut made = Self { kind, image, point, is_mounted: false };
        made.format().and_then(|()| made.mount_now()).map_err(CampaignError::NotRun)?;
        Ok(made)
    }

    /// Where it is mounted.
    pub(crate) fn point(&self) -> &Path {
        &self.point
    }

    /// Makes it anew, empty.
    pub(crate) fn renew(&mut self) -> CampaignResult<()> {
        self.unmount()?;
        let made = self.format().and_then(|()| self.mount_now());
        made.map_err(|why| CampaignError::machine(format!("a new {}", self.kind), &why))
    }

    /// Mounts it again.
    pub(crate) fn mount(&mut self) -> CampaignResult<()> {
        let mounted = self.mount_now();
        mounted.map_err(|why| CampaignError::machine(format!("mounting {}", self.kind), &why))
    }

    /// Unmounts it.
    pub(crate) fn unmount(&mut self) -> CampaignResult<()> {
        if self.is_mounted {
            let done = unmount(&self.point);
            done.map_err(|why| CampaignError::machine(format!("unmounting {}", self.kind), &why))?;
            self.is_mounted = false;
        }
        Ok(())
    }

    fn format(&self) -> Result<(), String> {
        let image = self.image.display().to_string();
        let arguments = [self.kind.mkfs(), &[&image]].concat();
        run(&format!("mkfs.{}", self.kind), &arguments)
    }

    fn mount_now(&mut self) -> Result<(), String> {
        let (image, point) = (self.image.display().to_string(), self.point.display().to_string());
        let kind = self.kind.name();
        run("mount", &["-t", kind, "-o", "loop,nodiscard", &image, &point])?;
        self.is_mounted = true;
        Ok(())
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Where this fails, the yard tries harder.
        if self.is_mounted {
            drop(unmount(&self.point));
        }
    }
}

/// Makes a file all of whose blocks are written and durable: what is written to it later changes no
/// metadata.
pub(crate) fn initialised(path: &Path, len: u64) -> CampaignResult<()> {
    let file = new_file(path)?;
    let zeros = vec![0; usize::try_from(CHUNK_BYTES).expect("a small constant")];
    let filled = (0..len / CHUNK_BYTES)
        .try_for_each(|chunk| file.write_whole_at(&zeros, chunk * CHUNK_BYTES))
        .and_then(|()| file.fsync());
    filled.map_err(|error| CampaignError::machine("filling an image", &error))
}

fn new_file(path: &Path) -> CampaignResult<File> {
    let options = NewFile { cache: Cache::Buffered, write_sync: WriteSync::None };
    let made = File::create_new(path, options);
    made.map_err(|error| CampaignError::machine(path.display().to_string(), &error))
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
