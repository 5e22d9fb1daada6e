//! Claims about the file `super`.

use proptest::prelude::*;

use super::*;
use crate::format::testing::{
    assert_flips_rejected, assert_only_this_length, edits, scribble, super_file, superblock,
};

#[test]
fn a_superblock_of_another_length_is_refused() {
    assert_only_this_length(&superblock(4).encode(), SuperBlock::decode);
    for len in [0, SuperBlock::LEN, SuperBlock::FILE_LEN - 1, SuperBlock::FILE_LEN + 1] {
        let mut file = super_file(0..4);
        file.resize(len, 0);
        assert!(choose(&file).is_err(), "{len}");
    }
}

#[test]
fn every_flipped_bit_of_a_superblock_is_noticed() {
    assert_flips_rejected(&superblock(4).encode(), SuperBlock::decode);
}

#[test]
fn the_newest_valid_slot_is_chosen() {
    for newest in 0..10_u64 {
        let choice = choose(&super_file(newest.saturating_sub(3)..newest + 1)).unwrap();
        assert_eq!(choice.newest, superblock(newest));
        assert_eq!(choice.damaged, vec![], "empty slots are not damaged ones");
        assert!(!choice.may_miss_a_newer_one());
    }
}

#[test]
fn a_damaged_slot_is_passed_over_and_named() {
    for damaged in 3..7 {
        let mut file = super_file(3..7);
        let slot = superblock(damaged).slot();
        file[slot * SuperBlock::LEN + GENERATION_AT] ^= 1;
        let choice = choose(&file).unwrap();
        let newest = if damaged == 6 { 5 } else { 6 };
        assert_eq!(choice.newest.generation, newest);
        assert_eq!(choice.damaged.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [slot]);
        // Generation 3 shares its slot with 7, which a crash cannot have half written.
        assert_eq!(choice.may_miss_a_newer_one(), damaged == 6 || damaged == 3, "{damaged}");
    }
}

#[test]
fn a_superblock_in_the_slot_of_another_generation_does_not_count() {
    let mut file = super_file(3..6);
    file[2 * SuperBlock::LEN..3 * SuperBlock::LEN].copy_from_slice(&superblock(8).encode());
    let choice = choose(&file).unwrap();
    assert_eq!((choice.newest.generation, choice.damaged.len()), (5, 1));
}

#[test]
fn without_a_valid_slot_each_slot_says_why() {
    let mut file = super_file(0..4);
    for slot in 0..SuperBlock::SLOTS {
        file[slot * SuperBlock::LEN + CRC_AT] ^= 1;
    }
    let error = choose(&file).unwrap_err().to_string();
    for slot in 0..SuperBlock::SLOTS {
        assert!(error.contains(&format!("slot {slot}: superblock: checksum")), "{error}");
    }
    assert!(matches!(choose(&[0; SuperBlock::FILE_LEN]), Err(FormatError::NoSlot { .. })));
}

#[test]
fn slots_of_two_stores_are_refused() {
    let mut file = super_file(0..4);
    let foreign = SuperBlock { store_id: StoreId([1; 16]), ..superblock(2) };
    file[2 * SuperBlock::LEN..3 * SuperBlock::LEN].copy_from_slice(&foreign.encode());
    assert!(matches!(choose(&file), Err(FormatError::Disagrees { field: "store", .. })));
}

#[test]
fn counts_that_make_no_store_are_refused() {
    let good = superblock(1);
    for bad in [
        SuperBlock { lanes: 0, ..good },
        SuperBlock { stream_lanes: 0, ..good },
        SuperBlock { segment_bytes: 4096, ..good },
    ] {
        assert!(SuperBlock::decode(&bad.encode()).is_err(), "{bad:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_superblock_survives_encoding(
        store_id: [u8; 16],
        numbers: [u64; 3],
        lanes in 1..=u16::MAX,
        stream_lanes in 1..=u16::MAX,
        blocks in 2..=(1_u64 << 20),
    ) {
        let [generation, manifest, created_ms] = numbers;
        let block = SuperBlock {
            store_id: StoreId(store_id),
            generation,
            manifest,
            lanes,
            stream_lanes,
            home: HomeKind::Files,
            segment_bytes: blocks * 4096,
            created_ms,
        };
        prop_assert_eq!(SuperBlock::decode(&block.encode()), Ok(block));
    }

    #[test]
    fn what_is_accepted_as_a_superblock_encodes_to_the_same(edits in edits()) {
        let mut block = superblock(4).encode();
        scribble(&mut block, 0..CRC_AT, &edits);
        KIND.seal(&mut block);
        if let Ok(decoded) = SuperBlock::decode(&block) {
            prop_assert_eq!(decoded.encode(), block);
        }
    }

    #[test]
    fn random_bytes_are_no_root(seed: [u8; 32], len in 0..=SuperBlock::FILE_LEN) {
        let bytes: Vec<u8> = seed.into_iter().cycle().take(len).collect();
        prop_assert!(choose(&bytes).is_err());
    }
}
