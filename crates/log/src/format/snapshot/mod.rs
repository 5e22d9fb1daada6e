//! A file `tables/<n>`: what one checkpoint wrote of a lane's table.
//!
//! A header block ([`header`]), then sections one behind the other ([`section`]): each is a base or
//! a delta of one partition, as of its own stamp; each entry in it is one stream ([`entry`]). The
//! manifest names the sections that count by file, place, length and checksum. A section's checksum
//! goes on from the header's, so a section cannot stand in another file.

pub mod entry;
pub mod header;
pub mod section;

pub use entry::{Entry, EntryFlags};
pub use header::SnapshotHeader;
pub use section::{SectionHeader, SectionKind, SectionWriter, read_section};

#[cfg(test)]
mod tests;
