//! The server over real sockets on loopback: what clients see, and what it costs to be rude.

#![expect(clippy::unwrap_used, clippy::format_collect, reason = "tests may")]

mod abuse;
mod access;
mod answers;
mod bodies;
mod cold;
mod connections;
mod handover;
mod limits;
mod lingering;
mod live;
mod operation;
mod pages;
mod protocol;
mod stopping;
mod support;
mod targets;
mod tls;
mod untaken;
mod webhooks;
