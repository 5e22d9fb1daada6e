//! What this crate measures itself: the log, driven in two ways, and a bare file.

mod bare;
mod log;

pub use bare::Bare;
pub use log::{LogStore, LogSubject, OpenLog, Style};
