//! Drives logs within one process, and says what an acknowledged append costs.
//!
//! Walk: `case` (one point in the matrix), `subject` (what is measured: a log that opens stores),
//! `subjects` (ours: the log by threads, the log by futures, a bare file), `load` (the closed
//! loop), `executor` (the reactor for futures), `counting` (a disk that counts what a log asks of
//! it), `measure` (one case once), `scene` and `scenes` (openings, checkpoints, staging), `plan`
//! (what is measured), `session` (a run as a whole), `runner` (its rounds), `data` (what it
//! leaves), `results` (what that says), `table`, `reload` (a kept run again).
//!
//! Other logs can be measured the same way: whoever implements [`subject::Subject`] for them hands
//! them to [`plan::Plan`].

pub mod case;
pub mod counting;
pub mod data;
pub mod executor;
pub mod load;
pub mod measure;
pub mod plan;
mod random;
pub mod reload;
pub mod results;
pub mod runner;
pub mod scene;
pub mod scenes;
pub mod session;
pub mod subject;
pub mod subjects;
pub mod table;
