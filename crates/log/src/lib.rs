//! A durable log for a million append-only streams on one disk.
//!
//! An append that was acknowledged is readable at its offset, byte for byte, after any crash; a
//! reader never sees a byte that can vanish. What an acknowledgement means in each mode, and what
//! it rests on, is in `docs/durability.md`; the bytes on disk are in `docs/formats.md`.
//!
//! [`Log::open`] opens a directory, or makes a log in an empty one. Requests ([`request`]) give a
//! ticket ([`lane::commit::Ticket`]) that a thread waits for, or a task awaits. [`Log::read`] and
//! [`Log::locate`] give durable bytes, [`Log::watch`] says when there are more, [`Log::close`] ends
//! a log in order. Offsets and sizes are in bytes, times in milliseconds or
//! [`std::time::Duration`]s; bounds and modes are [`options::Options`], and everything that can go
//! wrong is in [`error`]. A request that is refused has changed nothing.
//!
//! ```
//! use std::sync::Arc;
//!
//! use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
//! use highwater_log::ids::Offset;
//! use highwater_log::options::Options;
//! use highwater_log::request::{Append, Config, Create, End};
//! use highwater_log::{Driver, Log, Machine};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let machine = Machine {
//!     disk: Arc::new(RealDisk::open(dir.path())?),
//!     clock: Arc::new(SystemClock::new()),
//!     rng: Box::new(SystemRng::new()),
//! };
//! // Small, for a small example.
//! let options = Options {
//!     segment_bytes: 1 << 20,
//!     max_payload_bytes: 64 << 10,
//!     frame_bytes: 64 << 10,
//!     ..Options::default()
//! };
//! let log = Log::open(machine, &options, Driver::Threads)?;
//! let config = Config { content_type: "text/plain".to_owned(), ..Config::default() };
//! log.create(&Create { name: "a", config: &config, payload: b"", end: End::Open })?.wait()?;
//! let append = Append {
//!     name: "a",
//!     payload: b"durable",
//!     end: End::Open,
//!     content_type: None,
//!     producer: None,
//!     sequence: None,
//! };
//! // Done when the bytes are behind a barrier.
//! assert_eq!(log.append(&append)?.wait()?.tail, Offset(7));
//! assert_eq!(log.read("a", Offset(0), 1 << 20)?.to_vec(), b"durable");
//! log.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! Whole programs are in `examples`: `append`, `recover`, `tail`, `group_commit`, `many_streams`.

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
mod sync;
mod table;
pub mod write_path;

pub use log::{Driver, Log, Machine};
