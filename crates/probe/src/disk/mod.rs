//! The block devices under a directory, and their counters.
//!
//! `mounts` finds the file system, `chain` the devices below it down to the leaf disks, `counters`
//! reads what they did, `others` what other processes wrote meanwhile.

pub mod chain;
pub mod counters;
pub mod mounts;
pub mod others;
