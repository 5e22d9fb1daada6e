//! Claims about manifests.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::format::testing::{
    STORE, assert_flips_rejected, assert_only_this_length, edits, manifest, scribble,
};
use crate::ids::{Epoch, LaneId, Lsn};

#[test]
fn a_manifest_of_another_length_is_refused() {
    assert_only_this_length(&manifest().encode().unwrap(), Manifest::decode);
}

#[test]
fn every_flipped_bit_of_a_manifest_is_noticed() {
    assert_flips_rejected(&manifest().encode().unwrap(), Manifest::decode);
}

#[test]
fn a_first_frame_and_an_unknown_chain_are_told_apart() {
    let mut manifest = manifest();
    for prev_crc in [None, Some(0), Some(7)] {
        manifest.lanes[1].prev_crc = prev_crc;
        let read = Manifest::decode(&manifest.encode().unwrap()).unwrap();
        assert_eq!(read.lanes[1].prev_crc, prev_crc);
    }
}

/// Breaks a manifest.
type Break = fn(&mut Manifest);

#[test]
fn manifests_that_make_no_sense_are_not_even_written() {
    let breaks: [(&str, Break); 15] = [
        ("no lane", |m| m.lanes.clear()),
        ("a lane twice", |m| m.lanes[1].lane = m.lanes[0].lane),
        ("lanes out of order", |m| m.lanes.swap(0, 1)),
        ("replay from what is not durable", |m| m.lanes[0].replay_from.0 = u64::MAX),
        ("too many streams", |m| m.lanes[0].next_stream = u64::MAX),
        ("a section twice", |m| m.sections[1] = m.sections[0]),
        ("sections out of order", |m| m.sections.swap(1, 2)),
        ("a section of no lane", |m| m.sections[2].lane = LaneId(9)),
        ("changes without a base", |m| m.sections[0].kind = SectionKind::Delta),
        ("a second base", |m| m.sections[1].kind = SectionKind::Base),
        ("streams before the first partition", |m| m.sections.drain(..2).for_each(drop)),
        ("an older delta behind a newer one", |m| m.sections[1].stamp = Lsn(0)),
        ("a section of what is not durable", |m| m.sections[1].stamp = Lsn(1 << 41)),
        ("a section of nothing", |m| m.sections[2].len = 31),
        ("a section in its file's header", |m| m.sections[2].position = 4095),
    ];
    for (what, break_it) in breaks {
        let mut manifest = manifest();
        break_it(&mut manifest);
        assert!(manifest.encode().is_err(), "{what}");
    }
}

/// Makes valid lists of random numbers.
fn lists(lanes: &[(u64, u64, u32)], sections: &[(u64, u64)]) -> Manifest {
    let lanes = lanes.iter().zip(0_u16..);
    let lanes = lanes.map(|((replay, more, crc), lane)| LaneStart {
        lane: LaneId(lane),
        epoch: Epoch(*crc),
        replay_from: Lsn(*replay),
        durable_lsn: Lsn(replay.saturating_add(*more)),
        next_stream: *more % StreamId::MAX_IN_LANE,
        prev_crc: Some(*crc).filter(|crc| crc % 2 == 0),
    });
    let lanes: Vec<_> = lanes.collect();
    let mut all: Vec<Section> = Vec::new();
    for ((bits, partition), number) in sections.iter().zip(0..) {
        let first = partition - sections[0].1;
        let before = all.last().filter(|before| before.first == first);
        let kind = if before.is_none() { SectionKind::Base } else { SectionKind::Delta };
        let stamp = Lsn(before.map_or(0, |before| before.stamp.0 + 1));
        let [crc, entries] = [*bits, bits >> 32].map(|bits| u32::try_from(bits & 0xffff).unwrap());
        let (position, len, lane) = (4096 + (bits >> 8), 32 + entries, LaneId(0));
        all.push(Section { number, position, lane, first, kind, stamp, entries, len, crc });
    }
    let durable = lanes[0].durable_lsn.0;
    for section in &mut all {
        section.stamp.0 = section.stamp.0.min(durable);
    }
    Manifest { store_id: STORE, number: 1, lanes, sections: all }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_manifest_survives_encoding(
        lanes in vec(any::<(u64, u64, u32)>(), 1..5),
        mut sections in vec((any::<u64>(), 0..9_u64), 0..200),
    ) {
        sections.sort_by_key(|(_, partition)| *partition);
        let manifest = lists(&lanes, &sections);
        let file = manifest.encode().unwrap();
        prop_assert_eq!(file.len(), manifest.encoded_len());
        prop_assert_eq!(Manifest::decode(&file), Ok(manifest));
    }

    #[test]
    fn what_is_accepted_as_a_manifest_encodes_to_the_same(
        header_edits in edits(),
        body_edits in edits(),
    ) {
        let mut file = manifest().encode().unwrap();
        let body = BLOCK_BYTES..BLOCK_BYTES + 3 * LaneStart::LEN + 3 * Section::LEN;
        scribble(&mut file, FIELDS_AT..BODY_CRC_AT, &header_edits);
        scribble(&mut file, body.clone(), &body_edits);
        let body_crc = crc32c::crc32c(&file[body]);
        put(&mut file, BODY_CRC_AT, &body_crc.to_le_bytes());
        let crc = crc32c::crc32c(&file[..CRC_AT]);
        put(&mut file, CRC_AT, &crc.to_le_bytes());
        if let Ok(manifest) = Manifest::decode(&file) {
            prop_assert_eq!(manifest.encode(), Ok(file));
        }
    }

    #[test]
    fn random_bytes_are_no_manifest(bytes in vec(any::<u8>(), 0..9000)) {
        prop_assert!(Manifest::decode(&bytes).is_err());
    }
}
