//! Claims about snapshot files.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::format::error::FormatError;
use crate::format::extension::Producer;
use crate::format::testing::{
    OwnedExtensions, any_extensions, assert_flips_rejected, assert_only_this_length, edits,
    entries, scribble, snapshot_header, snapshot_of,
};
use crate::ids::{Offset, StreamId};

/// Reads a file into a list of (stream, tail) and its summary.
fn read(file: &[u8]) -> Result<(Vec<(StreamId, Offset)>, SnapshotSummary), FormatError> {
    let mut streams = Vec::new();
    let read = read_snapshot(file, |entry| streams.push((entry.stream, entry.tail)));
    read.map(|(_, summary)| (streams, summary))
}

/// Reads the same from pieces of this length.
fn read_in_pieces(file: &[u8], piece: usize) -> (Vec<(StreamId, Offset)>, SnapshotSummary) {
    let (header, mut unread) = file.split_at(SnapshotHeader::LEN);
    let mut reader = SnapshotReader::new(header).unwrap();
    let (mut buffer, mut streams) = (Vec::new(), Vec::new());
    loop {
        let used = match reader.next_part(&buffer).unwrap() {
            Part::Block { entries, len } => {
                streams.extend(entries.map(Result::unwrap).map(|entry| (entry.stream, entry.tail)));
                len
            }
            Part::End { summary, len } => {
                assert_eq!((len, unread.len()), (buffer.len(), 0));
                return (streams, summary);
            }
            Part::More { needed } => {
                assert!(needed > buffer.len(), "more is needed than there is");
                let (more, rest) = unread.split_at(piece.min(unread.len()));
                assert!(!more.is_empty(), "the file ends with its end");
                buffer.extend_from_slice(more);
                unread = rest;
                0
            }
        };
        buffer.drain(..used);
    }
}

fn encode(entry: &Entry<'_>) -> Vec<u8> {
    let mut bytes = vec![0xee; entry.encoded_len().unwrap()];
    entry.encode_into(&mut bytes);
    bytes
}

#[test]
fn a_snapshot_of_another_length_is_refused() {
    assert_only_this_length(&snapshot_header().encode(), SnapshotHeader::decode);
    let file = snapshot_of(&entries());
    let summary = read(&file).unwrap().1;
    for len in 0..file.len() {
        assert!(read(&file[..len]).is_err(), "{len} of {} bytes", file.len());
    }
    assert!(read(&[&file[..], &[0; 4096]].concat()).is_err());
    assert_eq!(summary.entries, 3);
}

#[test]
fn every_flipped_bit_of_a_snapshot_is_noticed() {
    assert_flips_rejected(&snapshot_header().encode(), SnapshotHeader::decode);
    assert_flips_rejected(&snapshot_of(&entries()), read);
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
    for (what, bad) in [
        ("absorbed before its base", Entry { absorbed: Offset(4710), ..good.clone() }),
        ("absorbed behind its tail", Entry { tail: Offset(4999), ..good.clone() }),
        ("a producer without a name", Entry { producers: vec![producer(0)], ..good.clone() }),
        ("a producer's long name", Entry { producers: vec![producer(257)], ..good.clone() }),
        ("too many producers", Entry { producers: vec![producer(256); 150], ..good.clone() }),
        ("no name", Entry { name: Some(""), ..good }),
    ] {
        assert!(bad.encoded_len().is_err(), "{what}");
        let mut file = Vec::new();
        let mut writer = SnapshotWriter::new(&snapshot_header(), &mut file);
        assert!(writer.push(&bad, &mut file).is_err(), "{what}");
        assert_eq!(writer.finish(&mut file).entries, 0);
        assert!(read(&file).is_ok(), "the file goes on without it");
    }
}

#[test]
fn the_longest_entries_fit_one_in_a_block() {
    let (text, bytes) = ("x".repeat(4096), vec![7; 16 << 10]);
    let producer = Producer { id: &bytes[..256], epoch: 1, seq: 2 };
    let [full, ..] = entries();
    let longest = Entry {
        name: Some(&text),
        content_type: Some(&text[..256]),
        sequence: Some(&bytes[..1024]),
        closed_by: Some(producer),
        metadata: Some(&bytes),
        producers: vec![producer; 144],
        ..full
    };
    let file = snapshot_of(&vec![longest.clone(); 3]);
    let mut count = 0;
    let read = read_snapshot(&file, |entry| {
        assert_eq!(entry, longest);
        count += 1;
    });
    assert_eq!((count, read.unwrap().1.entries), (3, 3));
}

#[test]
fn a_block_is_filled_up_to_its_limit_and_no_further() {
    let bytes = vec![7; 16 << 10];
    let long = Entry { metadata: Some(&bytes), ..Entry::default() };
    // Three long entries, and a last one that fills the block to 65520 or 65528 of 65524 bytes.
    for (last, first_block) in [(16_116, 4), (16_124, 3)] {
        let last = Entry { metadata: Some(&bytes[..last]), ..Entry::default() };
        let file = snapshot_of(&[long.clone(), long.clone(), long.clone(), last]);
        let mut reader = SnapshotReader::new(&file[..SnapshotHeader::LEN]).unwrap();
        match reader.next_part(&file[SnapshotHeader::LEN..]).unwrap() {
            Part::Block { entries, .. } => assert_eq!(entries.count(), first_block),
            part => panic!("{part:?}"),
        }
        assert_eq!(read(&file).unwrap().1.entries, 4);
    }
}

#[test]
fn blocks_cannot_be_left_out_repeated_or_moved_to_another_file() {
    // Entries so long that each fills a block.
    let bytes = vec![7; 16 << 10];
    let entry = |stream| Entry {
        stream: StreamId(stream),
        metadata: Some(&bytes),
        producers: vec![Producer { id: &bytes[..200], epoch: 1, seq: 2 }; 150],
        ..Entry::default()
    };
    let file = snapshot_of(&[entry(1), entry(2), entry(3)]);
    let block = HEAD_LEN + entry(1).encoded_len().unwrap();
    let (start, end) = (SnapshotHeader::LEN, SnapshotHeader::LEN + 3 * block);
    assert_eq!(read(&file).unwrap().0.len(), 3);
    let blocks: Vec<&[u8]> = file[start..end].chunks(block).collect();
    for order in [&[0, 1][..], &[0, 2], &[1, 2], &[0, 2, 1], &[0, 1, 2, 2], &[0, 0, 1, 2]] {
        let blocks: Vec<&[u8]> = order.iter().map(|at| blocks[*at]).collect();
        let moved = [&file[..start], &blocks.concat(), &file[end..]].concat();
        assert!(read(&moved).is_err(), "{order:?}");
    }
    let other = SnapshotHeader { number: 13, ..snapshot_header() }.encode();
    assert!(read(&[&other, &file[start..]].concat()).is_err(), "another file's header");
}

#[test]
fn a_block_that_announces_more_than_a_block_is_refused_before_it_is_waited_for() {
    let mut reader = SnapshotReader::new(&snapshot_header().encode()).unwrap();
    assert!(reader.next_part(&[0xff; HEAD_LEN]).is_err());
}

/// What an entry is made of, owned.
type Parts = (OwnedExtensions, [u64; 3], [u32; 2], u64, u8, Vec<(Vec<u8>, u64, u64)>);

fn any_parts() -> impl Strategy<Value = Parts> {
    let producers = vec((vec(any::<u8>(), 1..50), any::<u64>(), any::<u64>()), 0..4);
    let (offsets, numbers) = (any::<[u64; 3]>(), any::<[u32; 2]>());
    (any_extensions(), offsets, numbers, any::<u64>(), 0..8_u8, producers)
}

fn entry((ext, offsets, numbers, stream, flags, producers): &Parts) -> Entry<'_> {
    let (ext, mut offsets) = (ext.borrowed(), *offsets);
    offsets.sort_unstable();
    let all = [EntryFlags::CLOSED, EntryFlags::DELETED, EntryFlags::SOFT_DELETED];
    let flags = all.into_iter().zip(0..).filter(|(_, bit)| flags & (1 << bit) != 0);
    Entry {
        stream: StreamId(*stream),
        flags: flags.fold(EntryFlags::default(), |flags, (flag, _)| flags | flag),
        base: Offset(offsets[0]),
        absorbed: Offset(offsets[1]),
        tail: Offset(offsets[2]),
        region_crc: numbers[0],
        forks: numbers[1],
        last_touched_ms: stream.rotate_left(9),
        name: ext.name,
        content_type: ext.content_type,
        expiry: ext.expiry,
        fork_parent: ext.fork_parent,
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
    fn a_snapshot_survives_encoding(parts in vec(any_parts(), 0..40), piece in 1..5000_usize) {
        let entries: Vec<_> = parts.iter().map(entry).collect();
        let file = snapshot_of(&entries);
        let mut left = entries.iter();
        let whole = read_snapshot(&file, |entry| assert_eq!(Some(&entry), left.next())).unwrap();
        prop_assert!(left.next().is_none());
        prop_assert_eq!(whole.0, snapshot_header());
        prop_assert_eq!(read_in_pieces(&file, piece), read(&file).unwrap());
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
    fn random_bytes_are_no_snapshot(bytes in vec(any::<u8>(), 0..9000)) {
        prop_assert!(read(&bytes).is_err());
        let mut reader = SnapshotReader::new(&snapshot_header().encode()).unwrap();
        let part = reader.next_part(&bytes);
        let is_no_part = matches!(part, Err(_) | Ok(Part::More { .. }));
        prop_assert!(is_no_part);
    }
}
