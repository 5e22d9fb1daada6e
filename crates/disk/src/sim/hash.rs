//! A hash that is the same in every version: FNV-1a, 64 bits.
//!
//! Source: Fowler, Noll, Vo; draft-eastlake-fnv.

/// A running hash.
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }

    pub(super) fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// Text, with its length, so that neighbours cannot run together.
    pub(super) fn text(&mut self, text: &str) {
        self.number(u64::try_from(text.len()).expect("usize fits u64"));
        self.bytes(text.as_bytes());
    }

    pub(super) const fn finish(&self) -> u64 {
        self.0
    }
}

/// Hashes bytes at once.
pub(super) fn of(bytes: &[u8]) -> u64 {
    let mut hash = Fnv::new();
    hash.bytes(bytes);
    hash.finish()
}

#[cfg(test)]
mod tests {
    #[test]
    fn known_answers() {
        assert_eq!(super::of(b""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(super::of(b"foobar"), 0x8594_4171_F739_67E8);
    }
}
