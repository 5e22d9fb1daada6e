//! A durable log for a million append-only streams on one disk.

// First: its macro is used by those below.
#[macro_use]
pub mod planted;

mod catalog;
pub mod check;
pub mod error;
pub mod format;
pub mod home;
pub mod ids;
pub mod lane;
mod log;
mod maintenance;
pub mod metrics;
pub mod options;
mod recover;
pub mod request;
mod supplier;
mod table;
pub mod write_path;

pub use log::{Driver, Log, Machine};
