//! Campaigns that try to break the log, and an oracle that stands outside it.
//!
//! The oracle knows nothing of segments or frames. It keeps, for each lane, what was asked for in
//! the order in which it was taken in, and how far the log has vouched for it: by an
//! acknowledgement, or by showing it to a reader. Whatever happens to the disk, the log must come
//! back as a prefix of what was asked that covers what was vouched for (I1 to I5, I9); twice the
//! same (I7); or say what is damaged (I6).
//!
//! Layers, each with a header of its own: [`sim`] (seeded histories on a disk that crashes and
//! fails), [`small`] (every small history, every crash), [`flip`] (a bit of every field),
//! [`planted`] (bugs that `sim` must catch); and with real processes on real directories
//! ([`real`]): [`kill`] (the process is killed), [`shutdown`] (its file system loses power),
//! [`syscall`] (calls of the system fail), [`full`] (the disk fills up), [`serve`] (the process is
//! a server, and killed). They share [`model`] (what streams mean), `oracle`, `meddle` (a disk that
//! watches, and skips barriers on request), `dice` and [`verdict`]; those on real directories
//! `campaign`, `yard` (their directory) and `image` (file systems).
//!
//! The protocol above the log is the business of [`serve`] alone.

mod campaign;
mod dice;
pub mod flip;
pub mod full;
mod image;
pub mod kill;
mod meddle;
pub mod model;
mod oracle;
mod pause;
pub mod planted;
pub mod real;
pub mod serve;
pub mod shutdown;
pub mod sim;
pub mod small;
pub mod syscall;
pub mod verdict;
mod yard;

pub use campaign::{Campaign, CampaignError};
pub use image::FileSystem;
pub use real::Program;
pub use verdict::{Failure, Layer, Verdict, Violation};
