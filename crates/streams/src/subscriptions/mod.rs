//! Subscriptions: cursors that wake a worker, by a webhook or by a message in a stream, when
//! streams have more than was acknowledged.
//!
//! What a subscription is and what happens to it is pure: `config`, `glob`, `state`, `machine`, and
//! `url_policy` for where webhooks may go. `journal` keeps it in the log, one event a line; `keys`
//! signs, `store` keeps what it signs with, and `rotation` changes that. `hub` holds all
//! subscriptions, each in an `entry`; `index` finds who follows a stream, by its `patterns`.
//! `requests` takes requests, whose bodies are `wire`, and `page` shows what is followed; `links`
//! looks at the streams that are followed within the `budget`, `search` finds those that had no
//! room there; `notes` has those that changed, `settling` finds out what that means. `driver` says
//! what is to be sent. Sending is somebody else's.
//!
//! A link is in memory only where it says something: that it was named, that something of its
//! stream is acknowledged, or that it is pending and among the next to be told. All others follow
//! from the pattern and the stream, and are found again by looking at all names.

mod budget;
pub mod config;
mod driver;
mod entry;
pub mod glob;
mod hub;
mod index;
mod journal;
pub mod keys;
mod links;
pub mod machine;
mod moment;
mod notes;
mod page;
#[cfg(test)]
mod passed_over_tests;
mod patterns;
pub mod refusal;
mod requests;
mod rotation;
mod search;
mod settling;
pub mod state;
mod store;
pub mod url_policy;
mod wire;

pub use driver::{Due, Webhook};
pub use hub::{Settings, SubscriptionLimits, Subscriptions};
pub use keys::Rotation;
pub use machine::Delivered;
pub use page::{MOST_STREAMS_OF_A_PAGE, Page};
pub use refusal::Refusal;
pub use requests::named_streams;
pub use store::open_keys;
pub use wire::says_done;
