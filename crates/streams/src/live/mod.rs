//! Live readers: everything durable, in order, as it comes, until the stream ends or is gone.
//!
//! Readers of one stream share a hub. The log wakes it once for a commit; it reads what is new
//! once and encodes it once, however many wait. Who has fallen behind further than the hub keeps
//! reads from the log by itself until it has caught up, so what a slow reader costs is bounded.
//!
//! Walk: `follower` is one reader, `hub` what readers of a stream share, `ring` the parcels that it
//! keeps, `parcel` one of them, `framed` its bytes, `piece` what is read for one, `registry` finds
//! hubs, `relay` wakes readers a thread at a time. Nothing here waits by itself: a follower gives
//! what there is, and wakes a task when there is more ([`Follower::poll_next`]).

mod follower;
mod framed;
mod hub;
mod parcel;
mod piece;
mod registry;
mod relay;
mod ring;

pub use follower::{Event, Follower, Next};
pub(crate) use registry::Registry;
pub use relay::{Relay, relay};
