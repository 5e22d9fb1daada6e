//! What machine this is, and why a verdict about its disk would be a lie.
//!
//! `host` reads CPU, kernel and limits, `filesystem` what the directory is on, `refusal` decides
//! where numbers may be shown but no advice given.

pub mod filesystem;
pub mod host;
pub mod refusal;

use std::path::Path;

use highwater_report::machine::Machine;
use highwater_sys::time;

use crate::disk::chain::Chain;
use crate::disk::mounts::Mount;
use crate::error::ProbeError;

/// Captures the machine as seen from a directory.
///
/// # Errors
/// When the directory's free space cannot be read.
pub fn capture(dir: &Path, mount: &Mount, chain: &Chain) -> Result<Machine, ProbeError> {
    Ok(Machine {
        kernel: host::kernel(),
        cpu: host::cpu_model(),
        cpus: host::cpus(),
        governor: host::governor(),
        clock_source: host::clock_source(),
        timer_cost_ns: time::timer_cost_ns(),
        memory_bytes: host::memory_bytes(),
        virtualisation: host::virtualisation(),
        filesystem: filesystem::capture(dir, mount)?,
        devices: chain.devices.clone(),
        io_limits: host::io_limits(),
        pressure: host::pressure(),
        preloads: host::preloads(),
    })
}
