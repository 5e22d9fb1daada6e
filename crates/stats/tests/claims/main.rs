//! What the crate claims, checked on synthetic data whose answer is known.
//!
//! Every random draw is seeded, so a failure repeats with
//! `cargo test -p highwater-stats --test claims NAME`.

mod drift;
mod fit;
mod histogram;
mod modes;
mod ratio;
mod synthetic;
mod units;
