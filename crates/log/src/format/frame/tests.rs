//! Claims about frames.

use proptest::prelude::*;

use super::*;
use crate::format::testing::{STORE, assert_flips_rejected, edits, frame, scribble};

fn header() -> FrameHeader {
    FrameHeader::decode(&frame()).unwrap()
}

/// Header and body of a frame.
fn whole(bytes: &[u8]) -> Result<FrameHeader, FormatError> {
    let header = FrameHeader::decode(bytes)?;
    header.check_body(&bytes[FrameHeader::LEN..])?;
    Ok(header)
}

#[test]
fn every_flipped_bit_of_a_frame_is_noticed() {
    assert_flips_rejected(&frame(), whole);
}

#[test]
fn every_cut_of_a_frame_is_refused_and_what_follows_it_is_not_read() {
    let frame = frame();
    for len in 0..frame.len() {
        assert!(whole(&frame[..len]).is_err(), "{len} bytes");
    }
    assert_eq!(whole(&[frame, vec![0xff; 5000]].concat()), Ok(header()));
}

#[test]
fn frames_end_on_blocks() {
    for (body_len, padded) in
        [(32, 4096), (4032, 4096), (4040, 8192), (u32::MAX - 7, (1 << 32) + 4096)]
    {
        assert_eq!(FrameHeader::padded_len(body_len), padded, "{body_len}");
    }
    assert_eq!(header().end(), Lsn(8 * 4096));
}

#[test]
fn headers_that_make_no_frame_are_refused() {
    let good = header();
    for bad in [
        FrameHeader { lsn: Lsn(4097), ..good },
        FrameHeader { record_count: 0, ..good },
        FrameHeader { record_count: u32::MAX, ..good },
        FrameHeader { body_len: 32 * good.record_count - 8, ..good },
        FrameHeader { body_len: good.body_len + 1, ..good },
        FrameHeader { durable_lsn: Lsn(good.lsn.0 + 1), ..good },
    ] {
        let mut bytes = [0; FrameHeader::LEN];
        bad.encode_into(&mut bytes);
        assert!(FrameHeader::decode(&bytes).is_err(), "{bad:?}");
    }
}

#[test]
fn a_frame_that_announces_more_than_there_is_is_cut_off() {
    let long = FrameHeader { body_len: u32::MAX - 7, ..header() };
    let error = long.check_body(&frame()[FrameHeader::LEN..]).unwrap_err();
    assert!(matches!(error, FormatError::WrongLength { structure: Structure::Frame, .. }));
}

#[test]
fn the_reason_why_a_frame_is_not_the_next_is_named() {
    let good = header();
    let context = FrameContext {
        store_tag: STORE.tag(),
        lane: good.lane,
        epoch_at_least: good.epoch,
        expected_lsn: good.lsn,
        prev_crc: Some(good.prev_crc),
    };
    let judge = |header: FrameHeader| context.judge(&header);
    assert_eq!(judge(good), Ok(()));
    assert_eq!(judge(FrameHeader { epoch: Epoch(good.epoch.0 + 1), ..good }), Ok(()));
    let wrong_place = judge(FrameHeader { lsn: Lsn(4096), ..good });
    assert!(matches!(wrong_place, Err(FrameRejection::WrongPlace { .. })));
    let foreign_store = judge(FrameHeader { store_tag: 1, ..good });
    assert!(matches!(foreign_store, Err(FrameRejection::ForeignStore { .. })));
    let foreign_lane = judge(FrameHeader { lane: LaneId(1), ..good });
    assert!(matches!(foreign_lane, Err(FrameRejection::ForeignLane { .. })));
    let old_epoch = judge(FrameHeader { epoch: Epoch(good.epoch.0 - 1), ..good });
    assert!(matches!(old_epoch, Err(FrameRejection::OldEpoch { .. })));
    let unchained = FrameHeader { prev_crc: 0, ..good };
    assert!(matches!(judge(unchained), Err(FrameRejection::BrokenChain { .. })));
    assert_eq!(FrameContext { prev_crc: None, ..context }.judge(&unchained), Ok(()));
}

#[test]
fn a_chain_of_frames_holds_and_none_can_be_left_out() {
    let first = FrameHeader { lsn: Lsn(4096), prev_crc: 0, durable_lsn: Lsn(0), ..header() };
    let next = |before: &FrameHeader| FrameHeader {
        lsn: before.end(),
        prev_crc: before.header_crc(),
        ..first
    };
    let (second, other_first) = (next(&first), FrameHeader { time_ms: 1, ..first });
    let context = FrameContext {
        store_tag: STORE.tag(),
        lane: first.lane,
        epoch_at_least: first.epoch,
        expected_lsn: Lsn(4096),
        prev_crc: Some(0),
    };
    assert_eq!(context.judge(&first), Ok(()));
    assert_eq!(context.after(&first).judge(&second), Ok(()));
    let judged = context.after(&other_first).judge(&second);
    assert!(matches!(judged, Err(FrameRejection::BrokenChain { .. })), "{judged:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_frame_header_survives_encoding(
        block in 0..(1_u64 << 52),
        behind: u64,
        store_tag: u64,
        lane: u16,
        numbers: [u32; 3],
        record_count in 1..1000_u32,
        more in 0..1000_u32,
        time_ms: u64,
    ) {
        let [epoch, prev_crc, body_crc] = numbers;
        let header = FrameHeader {
            lsn: Lsn(block * 4096),
            store_tag,
            lane: LaneId(lane),
            epoch: Epoch(epoch),
            prev_crc,
            body_crc,
            body_len: 32 * record_count + 8 * more,
            record_count,
            durable_lsn: Lsn((block * 4096).saturating_sub(behind)),
            time_ms,
        };
        let mut bytes = [0; FrameHeader::LEN];
        let crc = header.encode_into(&mut bytes);
        prop_assert_eq!(crc, header.header_crc());
        prop_assert_eq!(crc, u32_at(&bytes, HEADER_CRC_AT));
        prop_assert_eq!(FrameHeader::decode(&bytes), Ok(header));
    }

    #[test]
    fn what_is_accepted_as_a_frame_header_encodes_to_the_same(edits in edits()) {
        let mut bytes = frame()[..FrameHeader::LEN].to_vec();
        scribble(&mut bytes, LSN_AT..FrameHeader::LEN, &edits);
        let crc = checksum(&bytes);
        put(&mut bytes, HEADER_CRC_AT, &crc.to_le_bytes());
        if let Ok(header) = FrameHeader::decode(&bytes) {
            let mut again = [0; FrameHeader::LEN];
            header.encode_into(&mut again);
            prop_assert_eq!(&again[..], &bytes);
            // However long it says it is, nothing is read that is not there.
            prop_assert!(header.check_body(&[0; 100]).is_err());
        }
    }

    #[test]
    fn random_bytes_are_no_frame(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(FrameHeader::decode(&bytes).is_err());
    }
}
