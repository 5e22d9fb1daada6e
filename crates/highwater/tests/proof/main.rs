//! Proof that the built program does what it says: it is run as a user would run it, on file
//! systems made for the purpose, and what it leaves is held against what the kernel shows.
//!
//! Walk: `structure` (what reaches the device on ext4, XFS and btrfs), `devices` (partitions,
//! memory, disks without barriers), `calls` (system calls counted by strace), `faults` (errors
//! planted by strace), `safety` (what is never touched, and what is left after a kill), `tour` (a
//! probe's bytes, failures and text), `surroundings` (odd paths, readers and signals), `csv` (rows
//! in a file of one's own), `check` (stores, sound and damaged), `profile` (advice that a log can
//! follow), `torture` (campaigns on real file systems), `serve` (the server, its settings and
//! signals), `operating` (what it says to who runs it, and how it ends among its clients), `abuse`
//! (what rude clients cost it), `lines` (what they can have it log), `open_files` (what it does
//! when the system allows few), `packaging` (what image, unit and manual name is there), `presets`
//! and `words` (what can be typed).
//! `program` runs it, `image` makes file systems, `environment` says what this machine lacks: such
//! a test prints `NOT RUN: what: reason` and is never silently passed.
//!
//! No test asserts a time. One of them alone: `cargo test -p highwater --test proof NAME`.

mod abuse;
mod calls;
mod check;
mod csv;
mod devices;
mod engine;
mod environment;
mod faults;
mod image;
mod lines;
mod open_files;
mod operating;
#[cfg(feature = "otlp")]
mod otlp;
mod packaging;
mod presets;
mod profile;
mod program;
mod safety;
mod serve;
mod strace;
mod structure;
mod surroundings;
mod torture;
mod tour;
mod words;
