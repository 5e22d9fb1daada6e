//! What the samples say: histograms, comparison, drift, modes, fits, units.
//!
//! How to walk through it, in the order a measurement passes:
//!
//! 1. `histogram`: every sample of a case goes into a [`LatencyHistogram`]; a [`Summary`] is read
//!    from it, never from averaged percentiles. `encoding` is its form on disk.
//! 2. `ratio`: one case against another, [`bootstrap_ratio`] over paired rounds, then [`judge`].
//! 3. `drift`: [`change_point`], a lasting change of level during a run.
//! 4. `modes`: [`modes()`], the separate humps that a mean would hide.
//! 5. `fit`: [`fit_line`], time = fixed cost + cost per unit, and the knee between them.
//! 6. [`units`]: how sizes, times and rates are read and written.
//!
//! Below these lie `sample` (order statistics of plain numbers), `random` (the seeded generator)
//! and `distribution` (normal and Student's t).
//!
//! Everything here is a pure function of its arguments: no clock, no files, no global state. What
//! draws random numbers takes a seed, so one set of data gives one answer.

mod distribution;
mod drift;
mod encoding;
mod error;
mod fit;
mod histogram;
mod modes;
mod random;
mod ratio;
mod sample;
pub mod units;

pub use drift::{ChangePoint, ChangePointSettings, change_point};
pub use error::{StatsError, UnitError};
pub use fit::{LineFit, fit_line};
pub use histogram::{HIGHEST_NS, LatencyHistogram, Summary};
pub use modes::{Mode, modes};
pub use ratio::{BootstrapSettings, RatioInterval, Verdict, bootstrap_ratio, judge};
pub use sample::{geometric_mean, median, quantile_sorted};
