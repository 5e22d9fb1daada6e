//! The case: one point in the matrix of write paths.
//!
//! A case says what is written, how, and when a barrier is asked for. It is the vocabulary that
//! the runner, the run directory and every table share; text forms parse back to the same value.

use std::fmt;
use std::str::FromStr;

use highwater_stats::units;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value of a dimension that cannot be read from text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {text:?} is not known; use one of: {choices}")]
pub struct ParseCaseError {
    /// The dimension, as in `barrier`.
    pub what: &'static str,
    /// What was given.
    pub text: String,
    /// What would have been accepted.
    pub choices: String,
}

/// Declares a dimension with a fixed list of values and one text form for each.
macro_rules! dimension {
    (
        $(#[$meta:meta])* $name:ident, $what:literal,
        { $($(#[$vmeta:meta])* $variant:ident => $text:literal),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The text form, as typed on the command line and stored in run directories.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.pad(self.as_str()) }
        }

        impl FromStr for $name {
            type Err = ParseCaseError;
            fn from_str(text: &str) -> Result<Self, ParseCaseError> {
                match text { $($text => Ok($name::$variant),)+ _ => Err(ParseCaseError {
                    what: $what, text: text.to_owned(), choices: [$($text),+].join(", "),
                }) }
            }
        }
    };
}

dimension!(
    /// What the file looks like when the first measured write arrives.
    FileState, "state", {
        /// Empty; every write moves the end of file.
        Append => "append",
        /// Full length reserved with `fallocate`; first writes convert unwritten extents.
        Allocated => "allocated",
        /// Full length really written with zeros and synced; writes change data only.
        Initialised => "initialised",
    }
);

dimension!(
    /// How bytes travel to the device.
    IoMode, "I/O mode", {
        /// Through the page cache.
        Buffered => "buffered",
        /// `O_DIRECT`, aligned as statx reports.
        Direct => "direct",
    }
);

dimension!(
    /// What makes the written bytes durable, or is at least called for it.
    Barrier, "barrier", {
        /// `fsync(2)` after the write.
        Fsync => "fsync",
        /// `fdatasync(2)` after the write.
        Fdatasync => "fdatasync",
        /// `syncfs(2)` after the write: the whole file system.
        Syncfs => "syncfs",
        /// The file is open with `O_SYNC`: each write returns durable, with all metadata.
        OSync => "o_sync",
        /// The file is open with `O_DSYNC`: each write returns durable.
        ODsync => "o_dsync",
        /// `pwritev2(2)` with `RWF_DSYNC`: this write returns durable.
        RwfDsync => "rwf_dsync",
        /// One `io_uring` submission: the write, linked to its fdatasync.
        Uring => "uring",
        /// `sync_file_range(2)`, all three flags: NOT DURABLE, no device flush, no metadata.
        SyncFileRange => "sync_file_range",
        /// No barrier at all: NOT DURABLE.
        None => "none",
    }
);

dimension!(
    /// How several writers share files.
    Sharing, "sharing", {
        /// Each writer has a file of its own and its own barriers.
        Own => "own",
        /// All writers append to one file; one barrier at a time covers whoever has written.
        Shared => "shared",
    }
);

impl Barrier {
    /// Whether POSIX or Linux documents this as making the bytes durable.
    pub const fn promises_durability(self) -> bool {
        !matches!(self, Self::SyncFileRange | Self::None)
    }

    /// Whether the barrier is part of the write call itself, so it covers that write only.
    pub const fn is_part_of_write(self) -> bool {
        matches!(self, Self::OSync | Self::ODsync | Self::RwfDsync)
    }
}

/// When the barrier follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Every {
    /// After this many writes.
    Writes(u64),
    /// After this many bytes; the run ends with a barrier for the rest.
    Bytes(u64),
    /// Once, after the last write.
    End,
    /// Never: NOT DURABLE.
    Never,
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writes(n) => f.pad(&n.to_string()),
            Self::Bytes(n) => f.pad(&units::bytes_exact(*n)),
            Self::End => f.pad("end"),
            Self::Never => f.pad("never"),
        }
    }
}

impl FromStr for Every {
    type Err = ParseCaseError;
    /// Reads `1000` (writes), `16KiB` (bytes: a number with a unit), `end` or `never`.
    fn from_str(text: &str) -> Result<Self, ParseCaseError> {
        let bad = || ParseCaseError {
            what: "interval",
            text: text.to_owned(),
            choices: "a number of writes (100), a size with its unit (16KiB), end, never"
                .to_owned(),
        };
        match text {
            "end" => return Ok(Self::End),
            "never" => return Ok(Self::Never),
            _ => {}
        }
        if let Ok(writes) = text.parse::<u64>() {
            return if writes == 0 { Err(bad()) } else { Ok(Self::Writes(writes)) };
        }
        match units::parse_bytes(text) {
            Ok(bytes) if bytes > 0 => Ok(Self::Bytes(bytes)),
            _ => Err(bad()),
        }
    }
}

/// When operations start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Arrival {
    /// Each writer starts the next operation when its last one is done.
    Closed,
    /// Operations are due at this total rate; latency counts from when each was due.
    Open {
        /// Operations per second over all writers.
        per_second: u64,
    },
}

impl fmt::Display for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.pad("closed"),
            Self::Open { per_second } => f.pad(&format!("open:{per_second}")),
        }
    }
}

impl FromStr for Arrival {
    type Err = ParseCaseError;
    /// Reads `closed`, or `open:2000` for 2000 operations per second.
    fn from_str(text: &str) -> Result<Self, ParseCaseError> {
        if text == "closed" {
            return Ok(Self::Closed);
        }
        match text.strip_prefix("open:").map(str::parse::<u64>) {
            Some(Ok(per_second)) if per_second > 0 => Ok(Self::Open { per_second }),
            _ => Err(ParseCaseError {
                what: "arrival",
                text: text.to_owned(),
                choices: "closed, open:RATE (operations per second, as in open:2000)".to_owned(),
            }),
        }
    }
}

/// Gives a type with a text form its serde and schema shape: a string.
macro_rules! stored_as_text {
    ($($name:ident),+) => {$(
        impl From<$name> for String {
            fn from(value: $name) -> Self { value.to_string() }
        }
        impl TryFrom<String> for $name {
            type Error = ParseCaseError;
            fn try_from(text: String) -> Result<Self, ParseCaseError> { text.parse() }
        }
        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string" })
            }
        }
    )+};
}

stored_as_text!(Every, Arrival);

/// One point in the matrix.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Case {
    /// State of the file.
    pub state: FileState,
    /// Page cache or direct.
    pub io: IoMode,
    /// The barrier.
    pub barrier: Barrier,
    /// Bytes per write.
    pub block: u64,
    /// Writes, or bytes, between barriers.
    pub every: Every,
    /// Threads that write; for `files` > 1, threads that make files durable.
    pub writers: u32,
    /// One file each, or one for all.
    pub sharing: Sharing,
    /// Closed or open loop.
    pub arrival: Arrival,
    /// Small files made dirty and then made durable as one batch; 1 for every other kind of case.
    pub files: u32,
}

impl Case {
    /// The common default of applications: append, page cache, fsync after each 4 KiB write.
    pub const DEFAULT: Self = Self {
        state: FileState::Append,
        io: IoMode::Buffered,
        barrier: Barrier::Fsync,
        block: 4096,
        every: Every::Writes(1),
        writers: 1,
        sharing: Sharing::Own,
        arrival: Arrival::Closed,
        files: 1,
    };

    /// Whether an acknowledged commit of this case is promised to survive a power cut.
    pub fn promises_durability(&self) -> bool {
        self.barrier.promises_durability() && self.every != Every::Never
    }
}

impl fmt::Display for Case {
    /// Names the case in full, as in `initialised direct fdatasync 4KiB`; dimensions at their
    /// usual value are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = units::bytes_exact(self.block);
        write!(f, "{} {} {} {block}", self.state, self.io, self.barrier)?;
        if self.every != Every::Writes(1) {
            write!(f, " every {}", self.every)?;
        }
        if self.files > 1 {
            write!(f, " x {} files", self.files)?;
        }
        if self.writers > 1 {
            write!(f, " {} {} writers", self.writers, self.sharing)?;
        }
        if self.arrival != Arrival::Closed {
            write!(f, " {}", self.arrival)?;
        }
        if !self.promises_durability() {
            write!(f, " (NOT DURABLE)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_form_parses_back_to_its_value() {
        for every in
            [Every::Writes(1), Every::Bytes(16 << 10), Every::Bytes(1000), Every::End, Every::Never]
        {
            assert_eq!(every.to_string().parse::<Every>(), Ok(every));
        }
        for arrival in [Arrival::Closed, Arrival::Open { per_second: 2000 }] {
            assert_eq!(arrival.to_string().parse::<Arrival>(), Ok(arrival));
        }
        for barrier in Barrier::ALL {
            assert_eq!(barrier.as_str().parse::<Barrier>(), Ok(*barrier));
        }
    }

    #[test]
    fn zero_and_unknown_values_are_refused_with_the_choices() {
        for text in ["0", "0KiB", "sometimes", "-1", ""] {
            let error = text.parse::<Every>().unwrap_err();
            assert!(error.to_string().contains("16KiB"), "{error}");
        }
        assert!("open:0".parse::<Arrival>().is_err());
        assert!("flush".parse::<Barrier>().unwrap_err().to_string().contains("rwf_dsync"));
    }
}
