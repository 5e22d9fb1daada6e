//! What a probe advises is what a log can be opened with.

use highwater_log::write_path::{Place, ProfileError, WriteBarrier, of_profile};
use highwater_probe::advice::profile::{PROFILE_VERSION, Profile, ProfileMeasured, ProfilePath};
use highwater_report::case::{Barrier, FileState, IoMode};

fn profile(io: IoMode, barrier: Barrier) -> Profile {
    Profile {
        profile_version: PROFILE_VERSION,
        write_path: ProfilePath {
            state: FileState::Initialised,
            io,
            barrier,
            align_bytes: 4096,
            knee_records: Some(36.5),
            knee_measured_on: None,
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
    }
}

#[test]
fn every_profile_that_a_probe_writes_is_followed_or_refused_by_name() {
    let here = Place { filesystem: "ext4", device: "vda" };
    for io in IoMode::ALL {
        for barrier in Barrier::ALL {
            let text = profile(*io, *barrier).to_toml();
            match (of_profile(&text, here), barrier) {
                (Ok(path), Barrier::Fsync | Barrier::Fdatasync) => {
                    assert_eq!(path.barrier, WriteBarrier::Fdatasync);
                }
                (Ok(path), Barrier::ODsync | Barrier::RwfDsync) => {
                    assert_eq!(path.barrier, WriteBarrier::Dsync);
                }
                (Err(ProfileError::NotHad { field, value }), _) => {
                    assert_eq!((field, value.as_str()), ("barrier", barrier.as_str()));
                }
                (other, _) => panic!("{io} {barrier}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_profile_of_another_disk_is_refused() {
    let text = profile(IoMode::Direct, Barrier::Fdatasync).to_toml();
    let elsewhere = Place { filesystem: "ext4", device: "nvme0n1" };
    assert!(matches!(of_profile(&text, elsewhere), Err(ProfileError::Foreign { .. })));
}
