//! Claims about snapshots.

use proptest::collection::vec;
use proptest::prelude::*;

use super::entry::MAX_PRODUCERS;
use super::section::{FULL_SECTION_LEN, MAX_SECTION_LEN};
use super::*;
use crate::format::error::FormatError;
use crate::format::extension::{Expiry, ForkParent, Producer};
use crate::format::testing::{
    OwnedExtensions, any_extensions, assert_flips_rejected, assert_only_this_length, edits,
    entries, scribble, section_header, section_of, snapshot_header,
};
use crate::ids::{LaneId, Lsn, Offset, StreamId};

fn chain() -> u32 {
    snapshot_header().encode().1
}

/// Reads a section into a list of (stream, tail) and its header.
fn read(section: &[u8]) -> Result<(Vec<(StreamId, Offset)>, SectionHeader), FormatError> {
    let mut streams = Vec::new();
    let read = read_section(section, chain(), |entry| {
        streams.push((entry.stream, entry.tail));
        Ok(())
    });
    read.map(|(header, _)| (streams, header))
}

fn encode(entry: &Entry<'_>) -> Vec<u8> {
    let mut bytes = vec![0xee; entry.encoded_len().unwrap()];
    entry.encode_into(&mut bytes);
    bytes
}

/// A section as it is, with a checksum that is right.
fn resealed(mut section: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c_append(chain(), &section[4..]);
    section[..4].copy_from_slice(&crc.to_le_bytes());
    section
}

#[test]
fn a_snapshot_of_another_length_is_refused() {
    assert_only_this_length(&snapshot_header().encode().0, SnapshotHeader::decode);
    assert_only_this_length(&section_of(&entries()), read);
    assert_only_this_length(&section_of(&[]), read);
    let long = resealed([&section_of(&[])[..], &vec![0; MAX_SECTION_LEN]].concat());
    assert!(matches!(read(&long), Err(FormatError::OutOfRange { .. })));
}

#[test]
fn every_flipped_bit_of_a_snapshot_is_noticed() {
    assert_flips_rejected(&snapshot_header().encode().0, SnapshotHeader::decode);
    assert_flips_rejected(&section_of(&entries()), read);
}

#[test]
fn a_section_of_another_file_is_refused() {
    let other = SnapshotHeader { number: 13, ..snapshot_header() };
    let read = read_section(&section_of(&entries()), other.encode().1, |_| Ok(()));
    assert!(matches!(read, Err(FormatError::WrongCrc { .. })), "{read:?}");
}

#[test]
fn every_cut_of_an_entry_is_refused() {
    for entry in entries() {
        let bytes = encode(&entry);
        for len in 0..bytes.len() {
            assert!(Entry::decode(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
        }
        let longer = [&bytes[..], &[0xff; 9]].concat();
        assert_eq!(Entry::decode(&longer), Ok((entry, bytes.len())));
    }
}

#[test]
fn entries_that_make_no_stream_are_refused() {
    let [good, ..] = entries();
    let id = vec![7; 257];
    let producer = |len: usize| Producer { id: &id[..len], epoch: 1, seq: 2 };
    let gone = Entry { stream: good.stream, flags: EntryFlags::DELETED, ..Entry::default() };
    let flags = EntryFlags::DELETED | EntryFlags::CLOSED;
    let full_list = vec![producer(256); MAX_PRODUCERS];
    for (what, bad) in [
        ("absorbed before its base", Entry { absorbed: Offset(4710), ..good.clone() }),
        ("absorbed behind its tail", Entry { tail: Offset(4999), ..good.clone() }),
        ("a producer without a name", Entry { producers: vec![producer(0)], ..good.clone() }),
        ("a producer's long name", Entry { producers: vec![producer(257)], ..good.clone() }),
        (
            "too many producers",
            Entry { producers: [&full_list[..], &[producer(1)]].concat(), ..good.clone() },
        ),
        ("an empty name", Entry { name: Some(""), ..good.clone() }),
        ("no name", Entry { name: None, ..good.clone() }),
        ("a deleted one with a name", Entry { name: Some("x"), ..gone.clone() }),
        ("a deleted one that is closed", Entry { flags, ..gone.clone() }),
        ("a deleted one with bytes", Entry { tail: Offset(1), ..gone }),
    ] {
        assert!(bad.encoded_len().is_err(), "{what}");
        let mut writer = SectionWriter::default();
        assert!(writer.push(&bad).is_err(), "{what}");
        writer.finish(&section_header(), chain());
        assert_eq!(read(writer.bytes()).unwrap().1.entries, 0, "the section goes on without it");
    }
}

#[test]
fn sections_whose_streams_do_not_belong_there_are_refused() {
    let [a, b, gone] = entries();
    let mut writer = SectionWriter::default();
    for (entry, is_next) in [(&b, true), (&b, false), (&a, false), (&gone, true)] {
        assert_eq!(writer.push(entry).is_ok(), is_next);
    }
    let section = section_of(&[b.clone(), gone.clone()]);
    let (head, both) = section.split_at(SectionHeader::LEN);
    let (one, other) = both.split_at(encode(&b).len());
    let swapped = [head, other, one].concat();
    assert!(matches!(read(&resealed(swapped)), Err(FormatError::OutOfOrder { .. })));
    for (header, is_right) in [
        (SectionHeader { kind: SectionKind::Base, ..section_header() }, false),
        (SectionHeader { first: 43, ..section_header() }, true),
        (SectionHeader { first: 44, ..section_header() }, false),
    ] {
        let mut writer = SectionWriter::default();
        writer.push(&b).unwrap();
        writer.push(&gone).unwrap();
        writer.finish(&header, chain());
        assert_eq!(read(writer.bytes()).is_ok(), is_right, "{header:?}");
    }
}

#[test]
fn a_full_section_takes_one_more_of_the_longest_entries_and_is_not_too_long() {
    let (text, bytes) = ("x".repeat(4096), vec![7; 16 << 10]);
    let producer = Producer { id: &bytes[..256], epoch: 1, seq: 2 };
    let longest = |number| Entry {
        stream: StreamId::new(LaneId(2), number),
        name: Some(&text),
        content_type: Some(&text[..256]),
        expiry: Some(Expiry::Sliding { ttl_ms: 1 }),
        fork_parent: Some(ForkParent { stream: StreamId(1), offset: Offset(0) }),
        sequence: Some(&bytes[..1024]),
        closed_by: Some(producer),
        metadata: Some(&bytes),
        producers: vec![producer; MAX_PRODUCERS],
        ..Entry::default()
    };
    let mut writer = SectionWriter::default();
    let mut numbers = 42..;
    while !writer.is_full() {
        writer.push(&longest(numbers.next().unwrap())).unwrap();
    }
    writer.finish(&section_header(), chain());
    assert!((FULL_SECTION_LEN..MAX_SECTION_LEN).contains(&writer.bytes().len()));
    let mut numbers = 42..;
    let read = read_section(writer.bytes(), chain(), |entry| {
        assert_eq!(entry, longest(numbers.next().unwrap()));
        Ok(())
    });
    assert_eq!(read.unwrap().0.entries, writer.entries());
}

#[test]
fn a_writer_that_begins_anew_has_forgotten_the_section_before() {
    let [a, b, _] = entries();
    let mut writer = SectionWriter::default();
    writer.push(&b).unwrap();
    writer.finish(&section_header(), chain());
    writer.clear();
    writer.push(&a).unwrap();
    writer.finish(&section_header(), chain());
    assert_eq!(writer.bytes(), section_of(&[a]));
}

/// What an entry is made of, owned.
type Parts = (OwnedExtensions, [u64; 3], u32, u64, u8, Vec<(Vec<u8>, u64, u64)>);

fn any_parts() -> impl Strategy<Value = Parts> {
    let producers = vec((vec(any::<u8>(), 1..50), any::<u64>(), any::<u64>()), 0..4);
    let offsets = any::<[u64; 3]>();
    (any_extensions(), offsets, any::<u32>(), any::<u64>(), 0..8_u8, producers)
}

fn entry((ext, offsets, crc, number, flags, producers): &Parts) -> Entry<'_> {
    let (ext, mut offsets) = (ext.borrowed(), *offsets);
    offsets.sort_unstable();
    let stream = StreamId::new(LaneId(2), 42 + number % StreamId::MAX_IN_LANE / 2);
    let all = [EntryFlags::CLOSED, EntryFlags::SOFT_DELETED];
    let flags_of = all.into_iter().zip(0..).filter(|(_, bit)| flags & (1 << bit) != 0);
    if flags & 4 != 0 {
        return Entry { stream, flags: EntryFlags::DELETED, ..Entry::default() };
    }
    Entry {
        stream,
        flags: flags_of.fold(EntryFlags::default(), |flags, (flag, _)| flags | flag),
        absorbed: Offset(offsets[1]),
        tail: Offset(offsets[2]),
        region_crc: *crc,
        last_touched_ms: number.rotate_left(9),
        name: ext.name.or(Some("no name")),
        content_type: ext.content_type,
        expiry: ext.expiry,
        fork_parent: ext.fork_parent.map(|p| ForkParent { offset: Offset(offsets[0]), ..p }),
        sequence: ext.sequence,
        closed_by: ext.producer,
        metadata: ext.metadata,
        producers: producers
            .iter()
            .map(|(id, epoch, seq)| Producer { id, epoch: *epoch, seq: *seq })
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_section_survives_encoding(parts in vec(any_parts(), 0..40), stamp: u64) {
        let mut entries: Vec<_> = parts.iter().map(entry).collect();
        entries.sort_by_key(|entry| entry.stream);
        entries.dedup_by_key(|entry| entry.stream);
        let mut writer = SectionWriter::default();
        for entry in &entries {
            writer.push(entry).unwrap();
        }
        let header = SectionHeader { stamp: Lsn(stamp), ..section_header() };
        let crc = writer.finish(&header, chain());
        let mut left = entries.iter();
        let (read, read_crc) = read_section(writer.bytes(), chain(), |entry| {
            assert_eq!(Some(&entry), left.next());
            Ok(())
        }).unwrap();
        prop_assert!(left.next().is_none());
        let (entries, body_len) = (read.entries, read.body_len);
        prop_assert_eq!((read, read_crc), (SectionHeader { entries, body_len, ..header }, crc));
        prop_assert_eq!(entries, writer.entries());
    }

    #[test]
    fn what_is_accepted_as_an_entry_encodes_to_the_same(parts in any_parts(), edits in edits()) {
        let mut bytes = encode(&entry(&parts));
        let all = 0..bytes.len();
        scribble(&mut bytes, all, &edits);
        if let Ok((entry, len)) = Entry::decode(&bytes) {
            prop_assert_eq!(&encode(&entry), &bytes[..len]);
        }
    }

    #[test]
    fn what_is_accepted_as_a_section_encodes_to_the_same(edits in edits()) {
        let mut bytes = section_of(&entries());
        let all = 0..bytes.len();
        scribble(&mut bytes, all, &edits);
        let bytes = resealed(bytes);
        let mut writer = SectionWriter::default();
        if let Ok((header, crc)) = read_section(&bytes, chain(), |entry| writer.push(&entry)) {
            prop_assert_eq!(writer.finish(&header, chain()), crc);
            prop_assert_eq!(writer.bytes(), bytes);
        }
    }

    #[test]
    fn random_bytes_are_no_snapshot(bytes in vec(any::<u8>(), 0..9000)) {
        prop_assert!(read(&bytes).is_err());
        prop_assert!(SnapshotHeader::decode(&bytes).is_err());
        if bytes.len() >= SectionHeader::LEN {
            prop_assert!(read(&resealed(bytes)).is_err());
        }
    }
}
