//! A scene: something measured that is no closed loop, such as an opening or a checkpoint.

use std::path::Path;

use crate::measure::{Around, Limits, NotMeasured};

/// Something measured once in each round.
pub trait Scene: Send + Sync {
    /// Short name, by which it is asked for.
    fn name(&self) -> &'static str;

    /// What it does, with its sizes.
    fn about(&self, limits: &Limits) -> String;

    /// Bytes that it writes at most.
    fn most_bytes(&self, limits: &Limits) -> u64;

    /// Runs in an empty directory.
    ///
    /// # Errors
    /// Why there is no number.
    fn run(&self, dir: &Path, around: &Around<'_>) -> Result<Vec<Figure>, NotMeasured>;
}

/// A figure of a scene.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it is; the same in every round.
    pub name: String,
    /// Its unit; empty for a ratio.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
}

impl Figure {
    /// Names a value.
    pub fn new(name: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self { name: name.into(), unit, value }
    }
}
