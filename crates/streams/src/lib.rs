//! What the Durable Streams protocol means, on the log: streams, their content, and who follows
//! them. No HTTP.
//!
//! Fields are read from text by [`path`], [`offset`], [`fields`], [`content`], [`cursor`] and
//! [`etag`]; [`json`] is how messages are stored; [`service`] has the operations;
//! [`live`] follows streams, [`sse`] writes what is followed as events.

pub mod content;
pub mod cursor;
pub mod error;
pub mod etag;
pub mod fields;
pub mod json;
pub mod live;
pub mod offset;
pub mod path;
pub mod service;
pub mod sse;
pub mod subscriptions;
