//! Claims about records.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::format::Extensions;
use crate::format::testing::{
    OwnedExtensions, any_extensions, any_kind, body_of, edits, of_no_stream, records, scribble,
};
use crate::ids::LaneId;

fn read(body: &[u8], count: u32) -> Result<Vec<RecordRef<'_>>, FormatError> {
    Records::new(body, count, Verify::Payloads).collect()
}

/// Makes the record again from what was read.
fn again<'a>(record: &RecordRef<'a>, extensions: Extensions<'a>) -> NewRecord<'a> {
    let RecordHeader { kind, closes, stream, offset, prev, payload_crc, .. } = record.header;
    let (payload, payload_crc) = (record.payload, Some(payload_crc));
    NewRecord { kind, closes, stream, offset, prev, extensions, payload, payload_crc }
}

#[test]
fn records_of_a_body_come_back_in_order() {
    let written = records();
    let body = body_of(&written);
    let read = read(&body, 5).unwrap();
    assert_eq!(read.len(), written.len());
    let mut at = 0;
    for (read, written) in read.iter().zip(&written) {
        assert_eq!(read.at, at);
        assert_eq!(read.extensions(), Ok(written.extensions));
        assert_eq!((read.header.kind, read.header.closes), (written.kind, written.closes));
        assert_eq!((read.header.stream, read.header.offset), (written.stream, written.offset));
        assert_eq!(read.payload, written.payload);
        at += read.header.record_len();
    }
    assert_eq!(at, body.len());
}

#[test]
fn a_body_holds_exactly_its_records() {
    let body = body_of(&records());
    for count in [0, 1, 2, 3, 4, 6, u32::MAX] {
        assert!(read(&body, count).is_err(), "{count} records");
    }
    for len in 0..body.len() {
        assert!(read(&body[..len], 5).is_err(), "{len} bytes");
    }
    for more in [1, 8, 32, 40] {
        let longer = [&body[..], &vec![0; more]].concat();
        assert!(read(&longer, 5).is_err(), "{more} bytes more");
    }
    assert_eq!(read(&[], 0), Ok(vec![]));
}

#[test]
fn reading_ends_after_the_first_error() {
    let body = body_of(&records());
    let mut records = Records::new(&body[..body.len() - 8], 5, Verify::Structure);
    assert_eq!(records.by_ref().flatten().count(), 4);
    assert_eq!(records.next(), None);
}

#[test]
fn a_record_whose_checksum_flag_does_not_fit_is_refused() {
    let body = body_of(&records());
    let header = RecordHeader::decode(&body).unwrap();
    let without = RecordHeader { payload_len: 0, payload_crc: 0, ..header };
    for header in [header, without] {
        let mut bytes = header.encode();
        bytes[FLAGS_AT] ^= HAS_CRC;
        let error = RecordHeader::decode(&bytes).unwrap_err();
        assert!(matches!(error, FormatError::Misfit { .. }), "{error}");
    }
}

#[test]
fn headers_that_make_no_record_are_refused() {
    let good = RecordHeader {
        kind: RecordKind::Append,
        ..RecordHeader::decode(&body_of(&records())).unwrap()
    };
    let bare = RecordHeader { payload_len: 0, payload_crc: 0, closes: false, ..good };
    assert_eq!(RecordHeader::decode(&bare.encode()), Ok(bare));
    for bad in [
        RecordHeader { ext_len: 4, ..good },
        RecordHeader { ext_len: 65528, ..good },
        RecordHeader { payload_len: u32::MAX, ..good },
        RecordHeader { payload_crc: 1, ..bare },
        RecordHeader { kind: RecordKind::Delete, closes: true, ..bare },
        RecordHeader { kind: RecordKind::Touch, ..good },
    ] {
        assert!(RecordHeader::decode(&bad.encode()).is_err(), "{bad:?}");
    }
    for kind in [0, 10, 255] {
        let mut bytes = bare.encode();
        bytes[KIND_AT] = kind;
        assert!(RecordHeader::decode(&bytes).is_err(), "kind {kind}");
    }
}

#[test]
fn a_record_of_no_stream_carries_its_lane_and_nothing_else() {
    for kind in RecordKind::ALL.into_iter().filter(|kind| kind.is_of_no_stream()) {
        let body = body_of(&[of_no_stream(kind, LaneId(7))]);
        assert_eq!(body.len(), RecordHeader::LEN);
        let good = RecordHeader::decode(&body).unwrap();
        assert_eq!((good.kind, good.stream), (kind, StreamId::new(LaneId(7), 0)));
        for bad in [
            RecordHeader { stream: StreamId::new(LaneId(7), 1), ..good },
            RecordHeader { offset: Offset(1), ..good },
            RecordHeader { prev: 1, ..good },
            RecordHeader { ext_len: 8, ..good },
            RecordHeader { payload_len: 8, ..good },
            RecordHeader { closes: true, ..good },
        ] {
            assert!(RecordHeader::decode(&bad.encode()).is_err(), "{bad:?}");
        }
    }
}

#[test]
fn a_payload_is_checked_when_asked_for() {
    let [_, append, ..] = records();
    let mut body = body_of(&[append]);
    let at = body.len() - 16;
    body[at] ^= 0x40;
    assert!(RecordRef::decode(&body, 0, Verify::Structure).is_ok());
    let error = RecordRef::decode(&body, 0, Verify::Payloads).unwrap_err();
    assert!(matches!(error, FormatError::WrongCrc { structure: Structure::Record, .. }));
}

#[test]
fn padding_that_is_not_zero_is_refused() {
    let [_, append, ..] = records();
    let mut body = body_of(&[append]);
    for back in 1..=3 {
        let at = body.len() - back;
        body[at] = 1;
        let error = RecordRef::decode(&body, 0, Verify::Payloads).unwrap_err();
        assert!(matches!(error, FormatError::NotZero { .. }), "{error}");
        body[at] = 0;
    }
    assert!(RecordRef::decode(&body, 0, Verify::Payloads).is_ok());
}

#[test]
#[should_panic = "announced wrongly"]
fn a_record_is_not_written_into_more_space_than_it_announces() {
    let len = records()[1].encoded_len().unwrap();
    records()[1].encode_into(&mut vec![0; len + 8]);
}

#[test]
fn a_long_payload_is_copied_and_checksummed_as_one() {
    for len in [(24 << 10) - 1, 24 << 10, (24 << 10) + 1, 100_000] {
        let payload: Vec<u8> = (0..=250).cycle().take(len).collect();
        let record = NewRecord { payload: &payload, ..records()[2] };
        let body = body_of(&[record]);
        let read = read(&body, 1).unwrap();
        assert_eq!(read[0].payload, payload);
        assert_eq!(read[0].header.payload_crc, crc32c::crc32c(&payload), "{len}");
    }
}

#[test]
fn the_way_back_to_the_previous_record_is_found() {
    let header = RecordHeader::decode(&body_of(&records())).unwrap();
    let from = |prev, own| RecordHeader { prev, ..header }.prev_lsn(Lsn(own));
    for (own, prev) in [(4160, 4096), (1 << 50, (1 << 50) - 8), (1 << 40, (1 << 40) - (1 << 34))] {
        let distance = RecordHeader::distance(Lsn(own), Lsn(prev));
        assert_eq!(from(distance, own), Some(Lsn(prev)));
    }
    assert_eq!(RecordHeader::distance(Lsn(1 << 50), Lsn(0)), 0, "too far to say");
    assert_eq!(from(0, 4160), None);
    assert_eq!(from(1000, 4160), None, "before the log");
}

/// What a record is made of, owned.
type Parts = (RecordKind, bool, [u64; 2], u32, OwnedExtensions, Vec<u8>);

fn any_parts() -> impl Strategy<Value = Parts> {
    let payload = vec(any::<u8>(), 0..100);
    (any_kind(), any::<bool>(), any::<[u64; 2]>(), any::<u32>(), any_extensions(), payload)
}

fn record((kind, closes, [stream, offset], prev, extensions, payload): &Parts) -> NewRecord<'_> {
    if kind.is_of_no_stream() {
        return of_no_stream(*kind, StreamId(*stream).lane());
    }
    NewRecord {
        kind: *kind,
        closes: *closes && kind.adds_bytes(),
        stream: StreamId(*stream),
        offset: Offset(*offset),
        prev: *prev,
        extensions: extensions.borrowed(),
        payload: if kind.adds_bytes() { payload } else { &[] },
        payload_crc: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn records_survive_encoding(parts in vec(any_parts(), 1..6)) {
        let written: Vec<_> = parts.iter().map(record).collect();
        let body = body_of(&written);
        let read = read(&body, u32::try_from(written.len()).unwrap()).unwrap();
        for (read, written) in read.iter().zip(&written) {
            let extensions = read.extensions().unwrap();
            prop_assert_eq!(extensions, written.extensions);
            prop_assert_eq!(read.payload, written.payload);
            let again = again(read, extensions);
            prop_assert_eq!(body_of(&[again]), body_of(&[*written]));
        }
    }

    #[test]
    fn what_is_accepted_as_records_encodes_to_the_same(parts in any_parts(), edits in edits()) {
        let mut body = body_of(&[record(&parts), records()[2]]);
        let all = 0..body.len();
        scribble(&mut body, all, &edits);
        let Ok(read) = read(&body, 2) else { return Ok(()) };
        let extensions: Result<Vec<_>, _> = read.iter().map(RecordRef::extensions).collect();
        let Ok(extensions) = extensions else { return Ok(()) };
        let again: Vec<_> = read.iter().zip(extensions).map(|(r, e)| again(r, e)).collect();
        prop_assert_eq!(body_of(&again), body);
    }

    #[test]
    fn random_bytes_never_panic_as_records(bytes in vec(any::<u8>(), 0..300), count in 0..9_u32) {
        for verify in [Verify::Payloads, Verify::Structure] {
            let steps = Records::new(&bytes, count, verify).count();
            prop_assert!(steps <= bytes.len() + 1);
        }
    }
}
