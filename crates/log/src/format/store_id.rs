//! The name of a store, in each of its files.

use std::fmt;

/// Names a store: 16 random bytes, drawn when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StoreId(pub [u8; StoreId::LEN]);

impl StoreId {
    /// Length, bytes.
    pub const LEN: usize = 16;

    /// Its first 8 bytes, as frames carry them.
    pub fn tag(self) -> u64 {
        let (tag, _) = self.0.split_first_chunk().expect("16 bytes begin with 8");
        u64::from_le_bytes(*tag)
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
