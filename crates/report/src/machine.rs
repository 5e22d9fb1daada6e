//! The machine a run was measured on, as recorded in its manifest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was found out about the machine; a field that could not be read is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Kernel release, as in `6.18.1`.
    pub kernel: String,
    /// CPU model name.
    pub cpu: Option<String>,
    /// CPUs this process may run on.
    pub cpus: u32,
    /// Frequency governor of CPU 0.
    pub governor: Option<String>,
    /// Kernel clock source.
    pub clock_source: Option<String>,
    /// Cost of reading the clock once, nanoseconds (median of many).
    pub timer_cost_ns: f64,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Hypervisor or container, where one was recognised.
    pub virtualisation: Option<String>,
    /// The file system under the measured directory.
    pub filesystem: Filesystem,
    /// Block devices from the file system's own down to the leaf disk.
    pub devices: Vec<Device>,
    /// cgroup I/O limits in force on this process, as the kernel prints them.
    pub io_limits: Vec<String>,
    /// Pressure (PSI) lines `some` for cpu, io and memory at the start.
    pub pressure: Vec<String>,
    /// Libraries preloaded into programs here that turn barriers into no-ops.
    pub preloads: Vec<String>,
}

/// The file system under the measured directory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Filesystem {
    /// Type, as in `ext4`.
    pub kind: String,
    /// Mount point.
    pub mount_point: String,
    /// Mounted source, as in `/dev/vda1`.
    pub source: String,
    /// Mount and superblock options.
    pub options: Vec<String>,
    /// The journal, in words, as in `jbd2, data=ordered` or `none`.
    pub journal: Option<String>,
    /// Free space for this user, bytes.
    pub free_bytes: u64,
    /// Memory alignment that direct I/O asks for, bytes; absent where it is refused or unknown.
    pub dio_memory_align: Option<u32>,
    /// File offset alignment that direct I/O asks for, bytes.
    pub dio_offset_align: Option<u32>,
}

/// One block device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Kernel name, as in `nvme0n1`.
    pub name: String,
    /// What it is: `partition`, `loop`, `device-mapper`, `md` or `disk`.
    pub kind: String,
    /// Whether this is a leaf: nothing the kernel knows of lies below.
    pub leaf: bool,
    /// Model name.
    pub model: Option<String>,
    /// Size, bytes.
    pub size_bytes: Option<u64>,
    /// Whether the kernel calls it rotational.
    pub rotational: Option<bool>,
    /// I/O scheduler in use.
    pub scheduler: Option<String>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Whether writes may carry FUA.
    pub fua: Option<bool>,
    /// Logical block, bytes.
    pub logical_block: Option<u32>,
    /// Physical block, bytes.
    pub physical_block: Option<u32>,
}

impl Machine {
    /// The leaf disk, where one was found; the last of several.
    pub fn leaf(&self) -> Option<&Device> {
        self.leaves().next_back()
    }

    /// All leaf disks: a file system may lie on several.
    pub fn leaves(&self) -> impl DoubleEndedIterator<Item = &Device> {
        self.devices.iter().filter(|device| device.leaf)
    }
}
