//! What stands on disk: one file per stored structure, each with its length, encoder and decoder.
//!
//! docs/formats.md is the contract; the constants here prove its sizes. Read [`block`] first, then
//! a store from its root: [`superblock`], [`manifest`], [`snapshot`], and the log's [`segment`],
//! [`frame`], [`record`], [`extension`]; and beside them [`label`].
//!
//! Decoders never panic, take no length on trust, and accept only what an encoder writes: what they
//! accept encodes to the same bytes again. They do not know where the bytes came from, so errors
//! carry no place, and whether bytes are the *right* ones (store, lane, position) is for the caller
//! to ask; for frames [`frame::FrameContext`] does it.

pub mod block;
mod bytes;
pub mod error;
pub mod extension;
pub mod frame;
pub mod label;
pub mod manifest;
pub mod record;
pub mod segment;
pub mod snapshot;
mod store_id;
pub mod superblock;

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
pub(crate) mod testing;

pub use block::{BLOCK_BYTES, Block};
pub use error::{FormatError, Structure};
pub use extension::{Expiry, Extensions, ForkParent, Producer};
pub use frame::{FrameContext, FrameHeader, FrameRejection};
pub use label::{Label, Place};
pub use manifest::{LaneStart, Manifest, Section};
pub use record::{NewRecord, RecordHeader, RecordKind, RecordRef, Records, Verify};
pub use segment::SegmentHeader;
pub use snapshot::{Entry, SectionHeader, SectionKind, SectionWriter, SnapshotHeader};
pub use store_id::StoreId;
pub use superblock::SuperBlock;
