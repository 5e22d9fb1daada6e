//! Claims about streams, against the real log on a simulated disk.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod appends;
mod corpus;
mod creates;
mod crowds;
mod documented;
mod following;
mod forks;
mod hooked;
mod interleaved;
mod lifetimes;
mod live;
mod messages;
mod producers;
mod reads;
mod room;
mod subscribing;
mod subscription_bounds;
mod subscription_faults;
mod subscription_storage;
mod subscriptions;
mod support;
mod turns;
