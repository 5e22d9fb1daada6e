//! The file `label` in each directory that may lie on a device of its own: whose the directory is,
//! and which. An empty mount point, or a link to the wrong device, has none or another one.

use super::StoreId;
use super::block::{BLOCK_BYTES, Block, BlockKind, FIELDS_AT};
use super::bytes::{array_at, check_zero, put, u16_at};
use super::error::{FormatError, Structure};

const LANE_AT: usize = FIELDS_AT;
const PLACE_AT: usize = LANE_AT + 2;
const ZERO_AT: usize = PLACE_AT + 1;
const STORE_ID_AT: usize = ZERO_AT + 1;
const CRC_AT: usize = STORE_ID_AT + StoreId::LEN;
const _: () = assert!(CRC_AT + 4 == 36, "a label has 36 bytes");

const KIND: BlockKind =
    BlockKind { structure: Structure::Label, magic: *b"HWLABL\0\x01", version: 1, crc_at: CRC_AT };

/// What a directory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Segments of a lane of the log.
    Log,
    /// Files of a lane of the home.
    Home,
}

/// Whose a directory is, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// The store.
    pub store_id: StoreId,
    /// What it holds.
    pub place: Place,
    /// Number of the log's lane, or of the home's.
    pub lane: u16,
}

impl Label {
    /// Length of the file, bytes.
    pub const LEN: usize = BLOCK_BYTES;
    /// Name of the file.
    pub const NAME: &str = "label";

    /// Encodes it.
    pub fn encode(&self) -> Block {
        let place = match self.place {
            Place::Log => 1,
            Place::Home => 2,
        };
        let mut block = KIND.start();
        put(&mut block, LANE_AT, &self.lane.to_le_bytes());
        put(&mut block, PLACE_AT, &[place]);
        put(&mut block, STORE_ID_AT, &self.store_id.0);
        KIND.seal(&mut block);
        block
    }

    /// Decodes exactly one file.
    ///
    /// # Errors
    /// When the bytes are not one that this release has written.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let structure = Structure::Label;
        KIND.check(bytes)?;
        check_zero(&bytes[ZERO_AT..STORE_ID_AT], structure, "padding")?;
        let place = match bytes[PLACE_AT] {
            1 => Place::Log,
            2 => Place::Home,
            other => {
                let (field, stored) = ("place", u64::from(other));
                return Err(FormatError::UnknownValue { structure, field, stored });
            }
        };
        let store_id = StoreId(array_at(bytes, STORE_ID_AT));
        Ok(Self { store_id, place, lane: u16_at(bytes, LANE_AT) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::testing::{
        assert_flips_rejected, assert_only_this_length, edits, label, scribble,
    };
    use proptest::prelude::*;

    #[test]
    fn a_label_of_another_length_or_with_a_flipped_bit_is_refused() {
        assert_only_this_length(&label().encode(), Label::decode);
        assert_flips_rejected(&label().encode(), Label::decode);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn a_label_survives_encoding(store_id: [u8; 16], lane: u16, is_home: bool) {
            let place = if is_home { Place::Home } else { Place::Log };
            let label = Label { store_id: StoreId(store_id), place, lane };
            prop_assert_eq!(Label::decode(&label.encode()), Ok(label));
        }

        #[test]
        fn what_is_accepted_as_a_label_encodes_to_the_same(edits in edits()) {
            let mut block = label().encode();
            scribble(&mut block, 0..CRC_AT, &edits);
            KIND.seal(&mut block);
            if let Ok(label) = Label::decode(&block) {
                prop_assert_eq!(label.encode(), block);
            }
        }

        #[test]
        fn random_bytes_are_no_label(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert!(Label::decode(&bytes).is_err());
        }
    }
}
