//! What the tests of the formats share: one example of each structure, generators, and the claims
//! that hold for all of them.

use std::fmt::Debug;
use std::ops::Range;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::extension::{Expiry, Extensions, ForkParent, Producer};
use super::manifest::{LaneStart, Manifest, Section};
use super::snapshot::{
    Entry, EntryFlags, SectionHeader, SectionKind, SectionWriter, SnapshotHeader,
};
use super::superblock::{HomeKind, SuperBlock};
use super::{FrameHeader, Label, NewRecord, Place, RecordKind, SegmentHeader, StoreId};
use crate::ids::{Epoch, LaneId, Lsn, Offset, SegmentNo, StreamId};

/// Checks that every single flipped bit is noticed.
pub(super) fn assert_flips_rejected<T: Debug, E>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, E>,
) {
    assert!(decode(bytes).is_ok(), "the bytes are valid before the flip");
    let mut flipped = bytes.to_vec();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            flipped[at] ^= 1 << bit;
            let decoded = decode(&flipped);
            assert!(decoded.is_err(), "byte {at}, bit {bit}: {:?}", decoded.ok());
            flipped[at] ^= 1 << bit;
        }
    }
}

/// Checks that every shorter length is refused, and a longer one.
pub(super) fn assert_only_this_length<T: Debug, E>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, E>,
) {
    assert!(decode(bytes).is_ok(), "the bytes are valid at their own length");
    for len in 0..bytes.len() {
        let decoded = decode(&bytes[..len]);
        assert!(decoded.is_err(), "{len} of {} bytes: {:?}", bytes.len(), decoded.ok());
    }
    for more in [1, 8, 4096] {
        let longer = [bytes, &vec![0; more]].concat();
        assert!(decode(&longer).is_err(), "{more} bytes too many");
    }
}

/// Overwrites some bytes, for making nearly valid input.
pub(super) fn scribble(bytes: &mut [u8], within: Range<usize>, edits: &[(usize, u8)]) {
    for (at, value) in edits {
        let at = within.start + at % within.len();
        bytes[at] = *value;
    }
}

/// A few edits for [`scribble`].
pub(super) fn edits() -> impl Strategy<Value = Vec<(usize, u8)>> {
    // Small values are lengths and kinds that make sense more often.
    vec((any::<usize>(), prop_oneof![0..9_u8, any::<u8>()]), 0..4)
}

/// Fields that own their bytes.
#[derive(Debug, Clone)]
pub(super) struct OwnedExtensions {
    name: Option<String>,
    content_type: Option<String>,
    expiry: Option<Expiry>,
    producer: Option<(Vec<u8>, u64, u64)>,
    sequence: Option<Vec<u8>>,
    fork_parent: Option<ForkParent>,
    touched_ms: Option<u64>,
    metadata: Option<Vec<u8>>,
}

impl OwnedExtensions {
    pub(super) fn borrowed(&self) -> Extensions<'_> {
        let producer = self.producer.as_ref();
        Extensions {
            name: self.name.as_deref(),
            content_type: self.content_type.as_deref(),
            expiry: self.expiry,
            producer: producer.map(|(id, epoch, seq)| Producer { id, epoch: *epoch, seq: *seq }),
            sequence: self.sequence.as_deref(),
            fork_parent: self.fork_parent,
            touched_ms: self.touched_ms,
            metadata: self.metadata.as_deref(),
        }
    }
}

pub(super) fn any_extensions() -> impl Strategy<Value = OwnedExtensions> {
    let expiry = prop_oneof![
        any::<u64>().prop_map(|ttl_ms| Expiry::Sliding { ttl_ms }),
        any::<u64>().prop_map(|at_ms| Expiry::Absolute { at_ms }),
    ];
    let fork_parent = (any::<u64>(), any::<u64>()).prop_map(|(stream, offset)| ForkParent {
        stream: StreamId(stream),
        offset: Offset(offset),
    });
    let fields = (
        option::of("\\PC{1,40}"),
        option::of("[a-z]{1,9}/[a-z]{1,9}"),
        option::of(expiry),
        option::of((vec(any::<u8>(), 1..40), any::<u64>(), any::<u64>())),
        option::of(vec(any::<u8>(), 1..40)),
        option::of(fork_parent),
        option::of(any::<u64>()),
        option::of(vec(any::<u8>(), 0..40)),
    );
    fields.prop_map(|fields| OwnedExtensions {
        name: fields.0,
        content_type: fields.1,
        expiry: fields.2,
        producer: fields.3,
        sequence: fields.4,
        fork_parent: fields.5,
        touched_ms: fields.6,
        metadata: fields.7,
    })
}

pub(super) fn any_kind() -> impl Strategy<Value = RecordKind> {
    proptest::sample::select(RecordKind::ALL.to_vec())
}

/// Encodes records one behind the other.
pub(super) fn body_of(records: &[NewRecord<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for record in records {
        let start = body.len();
        body.resize(start + record.encoded_len().unwrap(), 0xee);
        record.encode_into(&mut body[start..]);
    }
    body
}

pub(super) const STORE: StoreId = StoreId(*b"a store of tests");

pub(super) fn segment() -> SegmentHeader {
    SegmentHeader {
        store_id: STORE,
        lane: LaneId(0x0102),
        epoch: Epoch(0x0304_0506),
        segno: SegmentNo(0x0708_090a_0b0c_0d0e),
        segment_bytes: 64 << 20,
        time_ms: 1_767_225_600_000,
    }
}

pub(super) fn label() -> Label {
    Label { store_id: STORE, place: Place::Home, lane: 0x0102 }
}

pub(super) fn full_extensions() -> Extensions<'static> {
    Extensions {
        name: Some("/orders/42"),
        content_type: Some("text/plain"),
        expiry: Some(Expiry::Sliding { ttl_ms: 86_400_000 }),
        producer: Some(Producer { id: b"worker-7", epoch: 3, seq: 1001 }),
        sequence: Some(b"2026-01-01T00:00:00Z"),
        fork_parent: Some(ForkParent { stream: StreamId(41), offset: Offset(4711) }),
        touched_ms: Some(1_767_225_600_001),
        metadata: Some(b"\x00\x01\x02\x03\x04"),
    }
}

/// A record that belongs to no stream.
pub(super) fn of_no_stream(kind: RecordKind, lane: LaneId) -> NewRecord<'static> {
    NewRecord {
        kind,
        closes: false,
        stream: StreamId::new(lane, 0),
        offset: Offset(0),
        prev: 0,
        extensions: Extensions::default(),
        payload: b"",
        payload_crc: None,
    }
}

pub(super) fn records() -> [NewRecord<'static>; 5] {
    let append = NewRecord {
        kind: RecordKind::Append,
        closes: true,
        stream: StreamId::new(LaneId(2), 42),
        offset: Offset(1 << 33),
        prev: 0,
        extensions: Extensions { producer: full_extensions().producer, ..Extensions::default() },
        payload: b"thirteen byte",
        payload_crc: None,
    };
    let bare = NewRecord { closes: false, extensions: Extensions::default(), ..append };
    [
        NewRecord { kind: RecordKind::Create, extensions: full_extensions(), ..bare },
        append,
        NewRecord { prev: 13, payload: b"twenty-four bytes of it.", ..bare },
        NewRecord { kind: RecordKind::Delete, payload: b"", ..bare },
        of_no_stream(RecordKind::Witness, LaneId(2)),
    ]
}

pub(super) fn frame() -> Vec<u8> {
    let records = records();
    let body = body_of(&records);
    let header = FrameHeader {
        lsn: Lsn(7 * 4096),
        store_tag: STORE.tag(),
        lane: LaneId(2),
        epoch: Epoch(5),
        prev_crc: 0x1234_5678,
        body_crc: crc32c::crc32c(&body),
        body_len: u32::try_from(body.len()).unwrap(),
        record_count: u32::try_from(records.len()).unwrap(),
        durable_lsn: Lsn(6 * 4096),
        time_ms: 1_767_225_600_002,
    };
    let mut frame = vec![0; usize::try_from(header.frame_len()).unwrap()];
    header.encode_into(&mut frame);
    frame[FrameHeader::LEN..][..body.len()].copy_from_slice(&body);
    frame
}

pub(super) fn superblock(generation: u64) -> SuperBlock {
    SuperBlock {
        store_id: STORE,
        generation,
        manifest: 90 + generation,
        lanes: 2,
        stream_lanes: 16,
        home: HomeKind::Files,
        segment_bytes: 64 << 20,
        created_ms: 1_767_225_600_003,
    }
}

/// A file `super` with these generations.
pub(super) fn super_file(generations: Range<u64>) -> Vec<u8> {
    let mut file = vec![0; SuperBlock::FILE_LEN];
    for block in generations.map(superblock) {
        file[block.slot() * SuperBlock::LEN..][..SuperBlock::LEN].copy_from_slice(&block.encode());
    }
    file
}

pub(crate) fn manifest() -> Manifest {
    let lane = |lane, prev_crc| LaneStart {
        lane: LaneId(lane),
        epoch: Epoch(3),
        replay_from: Lsn(4096),
        durable_lsn: Lsn(1 << 40),
        next_stream: 1_000_001,
        prev_crc,
    };
    let section = |number, first, kind| Section {
        number,
        position: 0x1_0000 + number,
        lane: LaneId(2),
        first,
        kind,
        stamp: Lsn(0x1000 * number),
        entries: 77,
        len: 8192,
        crc: 0xcafe_f00d,
    };
    Manifest {
        store_id: STORE,
        number: 93,
        lanes: vec![lane(0, Some(0)), lane(2, Some(0x1234_5678)), lane(3, None)],
        sections: vec![
            section(12, 0, SectionKind::Base),
            section(14, 0, SectionKind::Delta),
            section(13, 4096, SectionKind::Base),
        ],
    }
}

pub(super) fn snapshot_header() -> SnapshotHeader {
    SnapshotHeader { store_id: STORE, lane: LaneId(2), number: 12 }
}

pub(super) fn section_header() -> SectionHeader {
    let (first, stamp, kind) = (42, Lsn(7 * 4096), SectionKind::Delta);
    SectionHeader { first, stamp, kind, entries: 0, body_len: 0 }
}

pub(super) fn entries() -> [Entry<'static>; 3] {
    let full = full_extensions();
    let producers =
        vec![full.producer.unwrap(), Producer { id: b"x", epoch: u64::MAX, seq: u64::MAX }];
    [
        Entry {
            stream: StreamId::new(LaneId(2), 42),
            flags: EntryFlags::CLOSED | EntryFlags::SOFT_DELETED,
            absorbed: Offset(5000),
            tail: Offset(1 << 33),
            region_crc: 0x1122_3344,
            last_touched_ms: 1_767_225_600_004,
            name: full.name,
            content_type: full.content_type,
            expiry: Some(Expiry::Absolute { at_ms: 1_767_225_600_005 }),
            fork_parent: full.fork_parent,
            sequence: full.sequence,
            closed_by: full.producer,
            metadata: full.metadata,
            producers,
        },
        Entry { stream: StreamId::new(LaneId(2), 43), name: Some("b"), ..Entry::default() },
        Entry {
            stream: StreamId::new(LaneId(2), 44),
            flags: EntryFlags::DELETED,
            ..Entry::default()
        },
    ]
}

/// A section of these entries, in the file of [`snapshot_header`].
pub(super) fn section_of(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut writer = SectionWriter::default();
    for entry in entries {
        writer.push(entry).unwrap();
    }
    writer.finish(&section_header(), snapshot_header().encode().1);
    writer.bytes().to_vec()
}

/// A whole file with two sections.
pub(super) fn snapshot_file() -> Vec<u8> {
    let header = snapshot_header().encode().0;
    [&header[..], &section_of(&entries()), &section_of(&[])].concat()
}
