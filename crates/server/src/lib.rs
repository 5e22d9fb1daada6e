//! HTTP for durable streams: the protocol's requests, carried out on a log.
//!
//! `settings` is all that can be set. `server` opens the log, listens and ends; `files` shares out
//! what may be open; `net` has the connections and their limits; `operator` names what is there
//! beside the streams; `access` who may do what, `rate` how often; `http` takes requests apart and
//! puts answers together; `webhook` drives subscriptions; `metrics` counts; `lines` keeps clients
//! from filling the log; `traces`, where it is built in, sends a span for each request to a
//! collector. What the protocol means is not decided here but in `highwater-streams`. Flags and the
//! environment are the program's.

mod access;
mod app;
mod error;
mod files;
mod http;
mod lines;
mod metrics;
mod net;
mod operator;
mod rate;
mod server;
pub mod settings;
#[cfg(feature = "otlp")]
mod traces;
mod watched;
mod webhook;

pub use access::tokens::token_hash;
pub use error::ServeError;
pub use lines::Lines;
pub use server::Server;
#[cfg(feature = "otlp")]
pub use traces::Traces;
