//! `profile.toml`: the advised write path as settings, for programs that write along it.

use highwater_report::case::{Barrier, FileState, IoMode};
use highwater_report::data::RunData;
use highwater_report::results::Results;
use serde::{Deserialize, Serialize};

/// Version of the profile's layout.
pub const PROFILE_VERSION: u32 = 1;

/// The advised write path and what it was measured on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Version of this layout.
    pub profile_version: u32,
    /// The path.
    pub write_path: ProfilePath,
    /// What it was measured on: a profile of another disk is not to be trusted.
    pub measured: ProfileMeasured,
}

/// Settings of the write path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfilePath {
    /// Prepare files so.
    pub state: FileState,
    /// Write them so.
    pub io: IoMode,
    /// Make them durable so.
    pub barrier: Barrier,
    /// Align offsets, lengths and memory to, bytes.
    pub align_bytes: u32,
    /// Records per barrier beyond which batching gains little.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knee_records: Option<f64>,
    /// Path that the batches were measured along, where it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knee_measured_on: Option<String>,
}

/// Where the settings come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileMeasured {
    /// Run it was taken from.
    pub run: String,
    /// Start of the run, RFC 3339.
    pub started: String,
    /// Version of the method.
    pub method_version: u32,
    /// File system type.
    pub filesystem: String,
    /// Leaf disk.
    pub device: String,
    /// Block measured, bytes.
    pub block_bytes: u64,
    /// Median commit, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
}

impl Profile {
    /// Takes the profile out of a run's results; `None` where no path was advised.
    pub fn of(data: &RunData, results: &Results) -> Option<Self> {
        let path = results.advice.as_ref()?.path.as_ref()?;
        let case = results.cases.iter().find(|case| case.id == path.case_id)?;
        let machine = &data.manifest.machine;
        let knee = super::Knee::of(results, case).filter(|knee| knee.label != case.label);
        Some(Self {
            profile_version: PROFILE_VERSION,
            write_path: ProfilePath {
                state: path.state,
                io: path.io,
                barrier: path.barrier,
                align_bytes: path.align_bytes,
                knee_records: path.knee_records.map(|knee| (knee * 10.0).round() / 10.0),
                knee_measured_on: knee.map(|knee| knee.label),
            },
            measured: ProfileMeasured {
                run: results.name.clone(),
                started: results.started.clone(),
                method_version: results.method_version,
                filesystem: machine.filesystem.kind.clone(),
                device: machine
                    .leaf()
                    .map_or_else(|| "unknown".to_owned(), |leaf| leaf.name.clone()),
                block_bytes: case.case.block,
                p50_ns: path.p50_ns,
                p99_ns: path.p99_ns,
            },
        })
    }

    /// Writes it as TOML, with a comment that says what it is.
    pub fn to_toml(&self) -> String {
        let body = toml::to_string(self).expect("a profile holds nothing that TOML cannot say");
        format!(
            "# The write path that `highwater probe` advises for this disk. Valid for the disk, \
             file system\n# and mount options it was measured on; measure again after changing any \
             of them.\n{body}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_reads_back_and_refuses_unknown_keys() {
        let profile = Profile {
            profile_version: PROFILE_VERSION,
            write_path: ProfilePath {
                state: FileState::Initialised,
                io: IoMode::Direct,
                barrier: Barrier::RwfDsync,
                align_bytes: 4096,
                knee_records: Some(36.5),
                knee_measured_on: Some("initialised buffered fdatasync 4KiB".to_owned()),
            },
            measured: ProfileMeasured {
                run: "probe".to_owned(),
                started: "2026-11-30T08:33:25Z".to_owned(),
                method_version: 1,
                filesystem: "ext4".to_owned(),
                device: "vda".to_owned(),
                block_bytes: 4096,
                p50_ns: 118_000,
                p99_ns: 301_000,
            },
        };
        let text = profile.to_toml();
        assert!(text.contains("barrier = \"rwf_dsync\""), "{text}");
        assert_eq!(toml::from_str::<Profile>(&text).unwrap(), profile);
        assert!(toml::from_str::<Profile>(&format!("{text}\nspeed = 1\n")).is_err());
    }
}
