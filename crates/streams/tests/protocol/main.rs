//! Claims about streams, against the real log on a simulated disk.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod appends;
mod creates;
mod crowds;
mod following;
mod forks;
mod lifetimes;
mod live;
mod messages;
mod producers;
mod reads;
mod support;
