//! File systems made for one test: an image file behind a loop device, or memory. All of it is
//! taken down when dropped, after a panic too, and only what was made here is ever taken down.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use highwater_sys::time::sleep;
use tempfile::TempDir;

use crate::environment::{root, system, tool};
use crate::program::temporary;

/// How an image is made and mounted.
#[derive(Debug, Clone, Copy)]
pub struct Recipe {
    /// File system type.
    pub kind: &'static str,
    /// Arguments of its mkfs.
    pub mkfs: &'static [&'static str],
    /// Mount options.
    pub options: &'static str,
    /// Size of the image; the file is sparse.
    pub mib: u64,
}

/// ext4 as it comes for disks, in 4 KiB blocks. For ten minutes its journal commits only when
/// asked, so that a commit of its own does not fall into the counts.
pub const EXT4: Recipe =
    Recipe { kind: "ext4", mkfs: &["-q", "-b", "4096"], options: "commit=600", mib: 512 };
/// XFS as it comes.
pub const XFS: Recipe = Recipe { kind: "xfs", mkfs: &["-q"], options: "defaults", mib: 512 };
/// btrfs as it comes since btrfs-progs 5.15, older ones told so.
pub const BTRFS: Recipe = Recipe {
    kind: "btrfs",
    mkfs: &["-q", "-m", "dup", "-d", "single", "-n", "16384"],
    options: "commit=600",
    mib: 512,
};

/// A mounted image. Fields are dropped in order: unmounted, detached, deleted.
#[derive(Debug)]
pub struct Image {
    mount: Mount,
    device: LoopDevice,
    _file: TempDir,
}

impl Image {
    /// Makes an image and mounts it, or says what this machine lacks.
    pub fn new(recipe: Recipe) -> Result<Self, String> {
        Self::kept_in(temporary(), recipe)
    }

    /// As [`Image::new`], with the image file in this folder.
    pub fn kept_in(folder: TempDir, recipe: Recipe) -> Result<Self, String> {
        root()?;
        tool(&format!("mkfs.{}", recipe.kind))?;
        let file = folder.path().join("image");
        sparse(&file, recipe.mib);
        let device = LoopDevice::attach(&file, &[])?;
        make_file_system(&device.node, recipe)?;
        let mount = Mount::new(&device.node, recipe.kind, recipe.options)?;
        Ok(Self { mount, device, _file: folder })
    }

    /// As [`Image::new`], on the only partition of the image.
    pub fn partitioned(recipe: Recipe) -> Result<Self, String> {
        root()?;
        let folder = temporary();
        let file = folder.path().join("image");
        sparse(&file, recipe.mib);
        partition(&file, recipe.mib);
        let device = LoopDevice::attach(&file, &["--partscan"])?;
        let node = PathBuf::from(format!("{}p1", device.node.display()));
        if !node.exists() {
            return Err("the kernel shows no partitions of loop devices".to_owned());
        }
        make_file_system(&node, recipe)?;
        let mount = Mount::new(&node, recipe.kind, recipe.options)?;
        Ok(Self { mount, device, _file: folder })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mount.point.path()
    }

    /// Kernel name of its loop device.
    pub fn device(&self) -> &str {
        let name = self.device.node.file_name().and_then(|name| name.to_str());
        name.expect("a loop device has a plain name")
    }

    /// Forbids writing from now on.
    pub fn make_read_only(&self) -> Result<(), String> {
        system("mount", &["-o", "remount,ro", &self.path().display().to_string()]).map(drop)
    }
}

/// A mounted file system.
#[derive(Debug)]
pub struct Mount {
    point: TempDir,
}

impl Mount {
    /// Mounts in a new directory.
    pub fn new(source: &Path, kind: &str, options: &str) -> Result<Self, String> {
        root()?;
        let point = temporary();
        let (from, to) = (source.display().to_string(), point.path().display().to_string());
        system("mount", &["-t", kind, "-o", options, &from, &to])?;
        Ok(Self { point })
    }

    /// Where.
    pub fn path(&self) -> &Path {
        self.point.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let point = self.point.path().display().to_string();
        for _ in 0..50 {
            if system("umount", &[&point]).is_ok() {
                return;
            }
            // Busy while a process that was just killed still goes away.
            sleep(Duration::from_millis(100));
        }
        drop(system("umount", &["--lazy", &point]));
    }
}

#[derive(Debug)]
struct LoopDevice {
    node: PathBuf,
}

impl LoopDevice {
    fn attach(file: &Path, options: &[&str]) -> Result<Self, String> {
        let file = file.display().to_string();
        let arguments = [options, &["--find", "--show", &file]].concat();
        let node = system("losetup", &arguments)?;
        Ok(Self { node: PathBuf::from(node) })
    }

    fn name(&self) -> String {
        self.node.display().to_string()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        drop(system("losetup", &["--detach", &self.name()]));
    }
}

fn make_file_system(node: &Path, recipe: Recipe) -> Result<(), String> {
    let node = node.display().to_string();
    let arguments = [recipe.mkfs, &[&node]].concat();
    system(&format!("mkfs.{}", recipe.kind), &arguments).map(drop)
}

fn sparse(path: &Path, mib: u64) {
    let file = File::create_new(path).expect("a new image file");
    file.set_len(mib << 20).expect("a sparse image file");
}

/// Writes a partition table with one partition from 1 MiB to the end: the master boot record's
/// first entry, and its signature.
fn partition(path: &Path, mib: u64) {
    const ENTRY_AT: usize = 446;
    const FIRST_SECTOR: u32 = 2048;
    let sectors = u32::try_from(mib << 11).expect("a small image") - FIRST_SECTOR;
    let mut record = [0_u8; 512];
    record[ENTRY_AT + 4] = 0x83; // a Linux file system
    record[ENTRY_AT + 8..ENTRY_AT + 12].copy_from_slice(&FIRST_SECTOR.to_le_bytes());
    record[ENTRY_AT + 12..ENTRY_AT + 16].copy_from_slice(&sectors.to_le_bytes());
    record[510..].copy_from_slice(&[0x55, 0xAA]);
    let mut file = File::options().write(true).open(path).expect("the image file");
    file.write_all(&record).expect("a partition table");
}
