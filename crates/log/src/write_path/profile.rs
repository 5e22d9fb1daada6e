//! Reads the write path out of a `profile.toml`, as the instruments write it.
//!
//! A profile is good for the disk and file system that it was measured on and for no other; what
//! cannot be followed is refused, never replaced by something near.

use highwater_disk::Access;
use toml::{Table, Value};

use super::{WriteBarrier, WritePath};

/// The version of profiles that this reads.
const VERSION: i64 = 1;

/// Where a log is: what a profile has to have been measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// Type of the file system, as in `ext4`.
    pub filesystem: &'a str,
    /// Name of the leaf disk, as in `nvme0n1`.
    pub device: &'a str,
}

/// Why a profile cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// It is not TOML, or lacks something.
    #[error("the profile cannot be read: {0}; have `highwater probe` write it anew")]
    Unreadable(String),
    /// Of another layout.
    #[error("the profile is of version {0}, this release reads version 1: measure again")]
    Version(i64),
    /// Measured elsewhere.
    #[error(
        "the profile was measured on {measured_filesystem} on {measured_device}, and the log is on \
         {filesystem} on {device}: run `highwater probe` in the log's directory"
    )]
    Foreign {
        /// File system of the profile.
        measured_filesystem: String,
        /// Leaf disk of the profile.
        measured_device: String,
        /// File system of the log.
        filesystem: String,
        /// Leaf disk of the log.
        device: String,
    },
    /// It names something that a log cannot do.
    #[error("the profile advises {field} {value:?}, which the log does not have: set a write path")]
    NotHad {
        /// Which setting.
        field: &'static str,
        /// Its value.
        value: String,
    },
}

/// Gives the write path that a profile advises for a place. `state` is not followed: segments are
/// always initialised. `fsync` is taken as `fdatasync`, which promises the same of the bytes of an
/// initialised file.
///
/// # Errors
/// When the profile cannot be read, was measured elsewhere, or advises what a log does not have.
pub fn of_profile(text: &str, place: Place<'_>) -> Result<WritePath, ProfileError> {
    let table: Table =
        text.parse().map_err(|error: toml::de::Error| unreadable(error.message()))?;
    match table.get("profile_version").and_then(Value::as_integer) {
        None => return Err(unreadable("it has no profile_version")),
        Some(VERSION) => {}
        Some(other) => return Err(ProfileError::Version(other)),
    }
    let (filesystem, device) =
        (text_of(&table, "measured", "filesystem")?, text_of(&table, "measured", "device")?);
    if (filesystem, device) != (place.filesystem, place.device) {
        return Err(ProfileError::Foreign {
            measured_filesystem: filesystem.to_owned(),
            measured_device: device.to_owned(),
            filesystem: place.filesystem.to_owned(),
            device: place.device.to_owned(),
        });
    }
    let access = match text_of(&table, "write_path", "io")? {
        "direct" => Access::Direct,
        "buffered" => Access::Buffered,
        other => return Err(ProfileError::NotHad { field: "io", value: other.to_owned() }),
    };
    let barrier = match text_of(&table, "write_path", "barrier")? {
        "fdatasync" | "fsync" => WriteBarrier::Fdatasync,
        "rwf_dsync" | "o_dsync" => WriteBarrier::Dsync,
        other => return Err(ProfileError::NotHad { field: "barrier", value: other.to_owned() }),
    };
    Ok(WritePath { access, barrier })
}

fn text_of<'a>(table: &'a Table, section: &str, key: &str) -> Result<&'a str, ProfileError> {
    let found = table.get(section).and_then(|section| section.get(key)).and_then(Value::as_str);
    found.ok_or_else(|| unreadable(&format!("it has no text {section}.{key}")))
}

fn unreadable(why: &str) -> ProfileError {
    ProfileError::Unreadable(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Place<'static> = Place { filesystem: "ext4", device: "vda" };

    fn profile(io: &str, barrier: &str) -> String {
        format!(
            "profile_version = 1\n[write_path]\nstate = \"initialised\"\nio = \"{io}\"\n\
             barrier = \"{barrier}\"\nalign_bytes = 4096\n\
             [measured]\nfilesystem = \"ext4\"\ndevice = \"vda\"\n"
        )
    }

    #[test]
    fn the_advised_path_is_taken() {
        let path = |access, barrier| Ok(WritePath { access, barrier });
        let read = |io, barrier| of_profile(&profile(io, barrier), HERE);
        assert_eq!(read("direct", "fdatasync"), Ok(WritePath::DEFAULT));
        assert_eq!(read("direct", "rwf_dsync"), path(Access::Direct, WriteBarrier::Dsync));
        assert_eq!(read("buffered", "fsync"), path(Access::Buffered, WriteBarrier::Fdatasync));
    }

    #[test]
    fn what_the_log_does_not_have_is_refused_by_name() {
        for barrier in ["none", "sync_file_range", "uring", "syncfs"] {
            let refused = of_profile(&profile("direct", barrier), HERE).unwrap_err().to_string();
            assert!(refused.contains(barrier), "{refused}");
        }
        assert!(of_profile(&profile("mapped", "fdatasync"), HERE).is_err());
    }

    #[test]
    fn a_profile_of_another_place_or_version_is_refused() {
        let text = profile("direct", "rwf_dsync");
        let elsewhere = Place { device: "nvme0n1", ..HERE };
        let refused = of_profile(&text, elsewhere).unwrap_err().to_string();
        assert!(refused.contains("on ext4 on vda") && refused.contains("nvme0n1"), "{refused}");
        assert!(of_profile(&text, Place { filesystem: "xfs", ..HERE }).is_err());
        let newer = text.replace("profile_version = 1", "profile_version = 2");
        assert_eq!(of_profile(&newer, HERE), Err(ProfileError::Version(2)));
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        for text in ["", "profile_version = 1", "profile_version = \"1\"", "a = ", "[[[["] {
            assert!(matches!(of_profile(text, HERE), Err(ProfileError::Unreadable(_))), "{text}");
        }
    }
}
