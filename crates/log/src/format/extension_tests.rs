//! Claims about tagged fields.

use proptest::prelude::*;

use super::*;
use crate::format::testing::{any_extensions, edits, full_extensions, scribble};

fn encode(fields: &Extensions<'_>) -> Vec<u8> {
    // Not zero before, so that padding that is not written shows.
    let mut area = vec![0xee; fields.encoded_len().unwrap()];
    fields.encode_into(&mut area);
    area
}

/// A field by hand.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let [low, high] = u16::try_from(bytes.len()).unwrap().to_le_bytes();
    let mut field = [&[tag, 0, low, high], bytes].concat();
    field.resize(round_up(field.len(), FIELD_ALIGN), 0);
    field
}

fn area(fields: &[Vec<u8>]) -> Vec<u8> {
    let mut area = fields.concat();
    area.resize(round_up(area.len(), AREA_ALIGN), 0);
    area
}

#[test]
fn no_fields_take_no_bytes() {
    assert_eq!(encode(&Extensions::default()), Vec::<u8>::new());
    assert_eq!(Extensions::decode(&[]), Ok(Extensions::default()));
}

#[test]
fn every_cut_of_an_area_is_refused_or_is_one_of_fewer_fields() {
    let whole = encode(&full_extensions());
    for len in 0..whole.len() {
        if let Ok(fewer) = Extensions::decode(&whole[..len]) {
            assert_ne!(fewer, full_extensions());
            assert_eq!(encode(&fewer), whole[..len], "an area ends where a field ends");
        }
    }
}

#[test]
fn fields_have_bounds_in_both_directions() {
    let (long, bytes) = ("x".repeat(20_000), vec![b'x'; 20_000]);
    let of_len = |tag, len: usize| {
        let (text, bytes, mut fields) = (&long[..len], &bytes[..len], Extensions::default());
        match tag {
            NAME => fields.name = Some(text),
            CONTENT_TYPE => fields.content_type = Some(text),
            PRODUCER => fields.producer = Some(Producer { id: bytes, epoch: 1, seq: 2 }),
            SEQUENCE => fields.sequence = Some(bytes),
            _ => fields.metadata = Some(bytes),
        }
        fields
    };
    for (tag, least, most, head) in [
        (NAME, 1, MAX_NAME_LEN, 0),
        (CONTENT_TYPE, 1, MAX_CONTENT_TYPE_LEN, 0),
        (PRODUCER, 1, MAX_PRODUCER_ID_LEN, PRODUCER_HEAD_LEN),
        (SEQUENCE, 1, MAX_SEQUENCE_LEN, 0),
        (METADATA, 0, MAX_METADATA_LEN, 0),
    ] {
        for len in [least, most] {
            let fields = of_len(tag, len);
            assert_eq!(Extensions::decode(&encode(&fields)), Ok(fields), "tag {tag}, {len}");
        }
        for len in [usize::checked_sub(least, 1), Some(most + 1)].into_iter().flatten() {
            assert!(of_len(tag, len).encoded_len().is_err(), "tag {tag}, {len}");
            let by_hand = area(&[field(tag, &bytes[..head + len])]);
            assert!(Extensions::decode(&by_hand).is_err(), "tag {tag}, {len}");
        }
    }
}

#[test]
fn all_fields_at_their_longest_fill_the_longest_area() {
    let (name, bytes) = ("x".repeat(MAX_NAME_LEN), vec![7; MAX_METADATA_LEN]);
    let fields = Extensions {
        name: Some(&name),
        content_type: Some(&name[..MAX_CONTENT_TYPE_LEN]),
        producer: Some(Producer { id: &bytes[..MAX_PRODUCER_ID_LEN], epoch: 1, seq: 2 }),
        sequence: Some(&bytes[..MAX_SEQUENCE_LEN]),
        metadata: Some(&bytes),
        ..full_extensions()
    };
    assert_eq!(fields.encoded_len(), Ok(MAX_EXTENSIONS_LEN));
    assert_eq!(Extensions::decode(&encode(&fields)), Ok(fields));
}

#[test]
fn areas_that_no_encoder_writes_are_refused() {
    let ms = 5_u64.to_le_bytes();
    let touched = field(TOUCHED, &ms);
    for (what, area) in [
        ("a tag twice", area(&[touched.clone(), touched.clone()])),
        ("tags out of order", area(&[touched.clone(), field(NAME, b"a")])),
        ("an unknown tag", area(&[field(9, b"a")])),
        ("tag 0", area(&[field(0, b"abc")])),
        ("only padding", vec![0; 8]),
        ("too much padding", area(&[touched.clone(), vec![0; 8]])),
        ("an unknown kind of expiry", area(&[field(EXPIRY, &[&[3][..], &ms].concat())])),
        ("a short expiry", area(&[field(EXPIRY, &ms)])),
        ("a long touch", area(&[field(TOUCHED, &[0; 9])])),
        ("a name that is no text", area(&[field(NAME, b"\xff\xfe")])),
        ("a field that goes on behind the area", area(&[field(NAME, b"abcdefgh")])[..8].to_vec()),
        ("an area of 12 bytes", touched.clone()),
    ] {
        assert!(Extensions::decode(&area).is_err(), "{what}: {area:?}");
    }
    for (what, at) in [("head", ZERO_AT), ("padding of the area", HEAD_LEN + 8)] {
        let mut area = area(std::slice::from_ref(&touched));
        assert!(Extensions::decode(&area).is_ok());
        area[at] = 1;
        assert!(Extensions::decode(&area).is_err(), "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn fields_survive_encoding(owned in any_extensions()) {
        let fields = owned.borrowed();
        let area = encode(&fields);
        prop_assert_eq!(area.len() % AREA_ALIGN, 0);
        prop_assert_eq!(Extensions::decode(&area), Ok(fields));
    }

    #[test]
    fn what_is_accepted_as_fields_encodes_to_the_same(owned in any_extensions(), edits in edits()) {
        let mut area = encode(&owned.borrowed());
        if !area.is_empty() {
            let all = 0..area.len();
            scribble(&mut area, all, &edits);
        }
        if let Ok(fields) = Extensions::decode(&area) {
            prop_assert_eq!(encode(&fields), area);
        }
    }

    #[test]
    fn random_bytes_never_panic_as_fields(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(fields) = Extensions::decode(&bytes) {
            prop_assert_eq!(encode(&fields), bytes);
        }
    }
}
