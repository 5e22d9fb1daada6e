//! The engine's claims, on the simulated disk and on the real one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod basics;
mod boundaries;
mod bounds;
mod check;
mod closing;
mod crash;
mod ends;
mod formats;
mod homes;
mod hooked;
mod lies;
mod lifetimes;
mod limits;
mod lists;
mod metrics;
mod plain;
mod reactor;
mod relaxed;
mod restarts;
mod rolling;
mod support;
mod tables;
mod waiting;
mod watching;
mod write_paths;
