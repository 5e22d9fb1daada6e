//! The instruments: what a durable write costs here, and which write path to use.
//!
//! Walk: `site` (where), `preset` and `tour` (what), `plan` (judged beforehand), `runner` (rounds),
//! `trial` (one case once: the timed loops), `record` (rows), `analyse` (what the rows say),
//! `advice`. `disk` and `machine` give the surroundings, `work_dir` the place that vanishes
//! afterwards.

pub mod advice;
pub mod analyse;
pub mod disk;
pub mod error;
pub mod machine;
pub mod plan;
pub mod preset;
mod record;
pub mod runner;
pub mod site;
pub mod tour;
pub mod trial;
pub mod work_dir;

pub use record::timestamp;

/// Version of the measuring method: runs of different methods are not compared.
pub const METHOD_VERSION: u32 = 1;
