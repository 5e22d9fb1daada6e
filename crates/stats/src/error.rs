//! What can be wrong with the data or text handed in.

use thiserror::Error;

/// Says why samples gave no answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum StatsError {
    /// There are not enough observations for the question.
    #[error("{what}: {have} given, at least {need} needed")]
    TooFew {
        /// What was counted.
        what: &'static str,
        /// How many there are.
        have: usize,
        /// How many there must be.
        need: usize,
    },
    /// An observation is outside its range.
    #[error("{what} number {index} is {value}: it must be {must_be}")]
    BadValue {
        /// Which observation.
        what: &'static str,
        /// Its place, from 0.
        index: usize,
        /// Its value.
        value: f64,
        /// The range it must be in.
        must_be: &'static str,
    },
    /// A setting is outside its range.
    #[error("setting {setting} is {value}: it must be {must_be}")]
    BadSetting {
        /// Its name.
        setting: &'static str,
        /// Its value.
        value: f64,
        /// The range it must be in.
        must_be: &'static str,
    },
    /// Bytes are not a histogram that this crate writes.
    #[error("not a latency histogram: {reason}; read the file as it was written by the run")]
    BadEncoding {
        /// What was found against what was expected.
        reason: String,
    },
}

/// Says why text is no size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnitError {
    /// It does not start with a whole number.
    #[error("`{text}` is no size: write a whole number and a unit, as in 4096, 16KiB or 1GiB")]
    NoNumber {
        /// The text.
        text: String,
    },
    /// Its unit is not known.
    #[error(
        "`{text}` has the unknown unit `{unit}`: write B, KiB, MiB, GiB or TiB (or K, M, G, T)"
    )]
    UnknownUnit {
        /// The text.
        text: String,
        /// Its unit.
        unit: String,
    },
    /// Its unit means 1000 to some and 1024 to others.
    #[error(
        "`{text}` could mean powers of 1000 or of 1024: write {number}{binary} for powers of 1024, \
         or the plain number of bytes"
    )]
    Ambiguous {
        /// The text.
        text: String,
        /// Its number.
        number: String,
        /// The unit that is not ambiguous.
        binary: &'static str,
    },
    /// It does not fit into 64 bits.
    #[error("`{text}` is too large: the limit is {} bytes", u64::MAX)]
    TooLarge {
        /// The text.
        text: String,
    },
}
