//! Subscriptions: cursors that wake a worker, by a webhook or by a message in a stream, when
//! streams have more than was acknowledged.
//!
//! What a subscription is and what happens to it is pure: `config`, `glob`, `state`, `machine`, and
//! `url_policy` for where webhooks may go. `journal` keeps it in the log, one event a line; `keys`
//! signs, `store` keeps what it signs with. `hub` holds all of them, `requests` takes requests,
//! whose bodies are `wire`; `links` looks at the streams that are followed, `notes` has those that
//! changed, `settling` finds out what that means. `driver` says what is to be sent. Sending is
//! somebody else's.

pub mod config;
mod driver;
pub mod glob;
mod hub;
mod journal;
pub mod keys;
mod links;
pub mod machine;
mod notes;
pub mod refusal;
mod requests;
mod settling;
pub mod state;
mod store;
pub mod url_policy;
mod wire;

pub use driver::Webhook;
pub use hub::{Settings, SubscriptionLimits, Subscriptions};
pub use machine::Delivered;
pub use refusal::Refusal;
pub use store::{open_keys, rotate_keys};
pub use wire::says_done;
