//! Claims about segment headers.

use proptest::prelude::*;

use super::*;
use crate::format::testing::{
    assert_flips_rejected, assert_only_this_length, edits, scribble, segment,
};

#[test]
fn a_segment_header_of_another_length_is_refused() {
    assert_only_this_length(&segment().encode(), SegmentHeader::decode);
}

#[test]
fn every_flipped_bit_of_a_segment_header_is_noticed() {
    assert_flips_rejected(&segment().encode(), SegmentHeader::decode);
}

#[test]
fn a_segment_header_of_a_newer_version_says_so() {
    let mut block = segment().encode();
    block[8] = 2;
    let (structure, stored, known) = (Structure::Segment, 2, 1);
    let error = FormatError::UnknownVersion { structure, stored, known };
    assert_eq!(SegmentHeader::decode(&block), Err(error));
}

#[test]
fn a_segment_has_whole_blocks_within_bounds() {
    for (segment_bytes, valid) in [
        (0, false),
        (4096, false),
        (8192, true),
        (8193, false),
        (MAX_SEGMENT_BYTES, true),
        (MAX_SEGMENT_BYTES + 4096, false),
        (u64::MAX, false),
    ] {
        let block = SegmentHeader { segment_bytes, ..segment() }.encode();
        assert_eq!(SegmentHeader::decode(&block).is_ok(), valid, "{segment_bytes}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_segment_header_survives_encoding(
        store_id: [u8; 16],
        lane: u16,
        epoch: u32,
        segno: u64,
        blocks in 2..=(MAX_SEGMENT_BYTES / 4096),
        time_ms: u64,
    ) {
        let header = SegmentHeader {
            store_id: StoreId(store_id),
            lane: LaneId(lane),
            epoch: Epoch(epoch),
            segno: SegmentNo(segno),
            segment_bytes: blocks * 4096,
            time_ms,
        };
        prop_assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }

    #[test]
    fn what_is_accepted_as_a_segment_header_encodes_to_the_same(edits in edits()) {
        let mut block = segment().encode();
        scribble(&mut block, 0..CRC_AT, &edits);
        KIND.seal(&mut block);
        if let Ok(header) = SegmentHeader::decode(&block) {
            prop_assert_eq!(header.encode(), block);
        }
    }

    #[test]
    fn random_bytes_are_no_segment_header(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000),
    ) {
        prop_assert!(SegmentHeader::decode(&bytes).is_err());
    }
}
