//! System calls as safe functions: the only unsafe code of the workspace.
//!
//! Every answer of the kernel is returned as a [`SysError`] that names the call. Nothing here
//! retries a barrier, and nothing interprets a failure.
//!
//! Walk: `buffer` (aligned memory), `memory` (advice, and what only the start needed), `file`
//! (open, write, barriers), `uring` (a write linked to fdatasync), `extent` (FIEMAP), `dir`
//! (exclusive directories, locks), `place` (where paths begin), `fsinfo` (statfs), `shutdown` (the
//! end of a file system), `process` and `time`.
#![expect(unsafe_code, reason = "this crate is the one place where system calls are wrapped")]

pub mod buffer;
pub mod dir;
mod error;
pub mod extent;
pub mod file;
pub mod fsinfo;
pub mod memory;
pub mod place;
pub mod process;
pub mod published;
pub mod shutdown;
pub mod time;
pub mod uring;

pub use error::{SysError, SysResult};
pub use rustix::io::Errno;
