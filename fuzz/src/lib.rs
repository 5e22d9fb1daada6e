//! What must hold for any bytes whatever: no decoder of a stored structure panics, and what one
//! accepts encodes to the same bytes again.
//!
//! One function for each structure. Random bytes seldom have a right checksum, so each function
//! decodes its input as it is, and then once more with magic, version and checksums put right; the
//! constants here say a second time where those stand. `cargo +nightly fuzz run NAME` searches for
//! inputs; `crates/log/tests/claims/formats.rs` replays the kept ones in every test run.

use highwater_log::format::extension::Extensions;
use highwater_log::format::frame::FrameHeader;
use highwater_log::format::label::Label;
use highwater_log::format::manifest::Manifest;
use highwater_log::format::record::{NewRecord, RecordRef, Records, Verify};
use highwater_log::format::segment::SegmentHeader;
use highwater_log::format::snapshot::{
    Entry, Part, SnapshotHeader, SnapshotReader, SnapshotWriter, read_snapshot,
};
use highwater_log::format::superblock::{SuperBlock, choose};

/// Decodes bytes and checks what came out.
pub type Target = fn(&[u8]);

/// Every function here, by the name of its folder in `corpus/`.
pub const TARGETS: [(&str, Target); 9] = [
    ("segment", segment),
    ("frame", frame),
    ("records", records),
    ("extensions", extensions),
    ("superblock", superblock),
    ("label", label),
    ("manifest", manifest),
    ("snapshot", snapshot),
    ("entry", entry),
];

const BLOCK: usize = 4096;
const SEGMENT_CRC_AT: usize = 60;
const SUPER_CRC_AT: usize = 68;
const LABEL_CRC_AT: usize = 32;
const MANIFEST_BODY_CRC_AT: usize = 44;
const MANIFEST_CRC_AT: usize = 48;
const SNAPSHOT_CRC_AT: usize = 52;
const SNAPSHOT_FIELDS_LEN: usize = 56;
const BLOCK_HEAD_LEN: usize = 12;

/// Decodes the first block of a segment.
pub fn segment(data: &[u8]) {
    let block = sealed(data, *b"HWSEGM\0\x01", SEGMENT_CRC_AT);
    for bytes in [data, &block] {
        if let Ok(header) = SegmentHeader::decode(bytes) {
            assert_eq!(header.encode()[..], *bytes);
        }
    }
}

/// Decodes a frame: its header, and its records if its checksum is right.
pub fn frame(data: &[u8]) {
    whole_frame(data);
    let mut bytes = fit(data, data.len().max(FrameHeader::LEN).next_multiple_of(BLOCK));
    let body_len = u32_at(&bytes, 40).try_into().unwrap_or(usize::MAX);
    let body = bytes[FrameHeader::LEN..].get(..body_len).map(crc32c::crc32c);
    put(&mut bytes, 36, &body.unwrap_or(0).to_le_bytes());
    put(&mut bytes, 0, b"HWFR");
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), &bytes[8..FrameHeader::LEN]);
    put(&mut bytes, 4, &crc.to_le_bytes());
    whole_frame(&bytes);
}

fn whole_frame(bytes: &[u8]) {
    let Ok(header) = FrameHeader::decode(bytes) else { return };
    let mut again = [0; FrameHeader::LEN];
    assert_eq!(header.encode_into(&mut again), header.header_crc());
    assert_eq!(again, bytes[..FrameHeader::LEN]);
    if let Ok(body) = header.check_body(&bytes[FrameHeader::LEN..]) {
        read_records(body, header.record_count);
    }
}

/// Decodes records: the first byte is their number.
pub fn records(data: &[u8]) {
    if let Some((count, body)) = data.split_first() {
        read_records(body, u32::from(*count));
    }
}

fn read_records(body: &[u8], count: u32) {
    for verify in [Verify::Payloads, Verify::Structure] {
        let records: Vec<_> = Records::new(body, count, verify).collect();
        assert!(records.len() <= body.len() + 1);
        for record in records.into_iter().flatten() {
            write_record_again(body, &record);
        }
    }
}

fn write_record_again(body: &[u8], record: &RecordRef<'_>) {
    let Ok(extensions) = record.extensions() else { return };
    let header = record.header;
    let again = NewRecord {
        kind: header.kind,
        closes: header.closes,
        stream: header.stream,
        offset: header.offset,
        prev: header.prev,
        extensions,
        payload: record.payload,
        payload_crc: Some(header.payload_crc),
    };
    let mut bytes = vec![0xee; again.encoded_len().expect("it was decoded")];
    assert_eq!(again.encode_into(&mut bytes), header);
    assert_eq!(bytes, body[record.at..][..header.record_len()]);
}

/// Decodes tagged fields.
pub fn extensions(data: &[u8]) {
    if let Ok(fields) = Extensions::decode(data) {
        let mut again = vec![0xee; fields.encoded_len().expect("they were decoded")];
        fields.encode_into(&mut again);
        assert_eq!(again, data);
    }
}

/// Decodes the file `super`: its slots one behind the other, each of 72 bytes.
pub fn superblock(data: &[u8]) {
    let used = SUPER_CRC_AT + 4;
    let slots = (0..SuperBlock::SLOTS).map(|slot| {
        let fields = data.get(slot * used..).unwrap_or_default();
        let fields = &fields[..fields.len().min(used)];
        // An empty slot stays one.
        if fields.iter().all(|byte| *byte == 0) {
            return vec![0; BLOCK];
        }
        sealed(fields, *b"HWSUPR\0\x01", SUPER_CRC_AT)
    });
    let file = slots.collect::<Vec<_>>().concat();
    for file in [data, &file] {
        if let Ok(choice) = choose(file) {
            let slot = &file[choice.newest.slot() * BLOCK..][..BLOCK];
            assert_eq!(choice.newest.encode()[..], *slot);
            assert!(choice.damaged.len() < SuperBlock::SLOTS);
        }
    }
}

/// Decodes a directory's label.
pub fn label(data: &[u8]) {
    let block = sealed(data, *b"HWLABL\0\x01", LABEL_CRC_AT);
    for bytes in [data, &block] {
        if let Ok(label) = Label::decode(bytes) {
            assert_eq!(label.encode()[..], *bytes);
        }
    }
}

/// Decodes a manifest: the 52 bytes of its header, then its lists.
pub fn manifest(data: &[u8]) {
    let fields = MANIFEST_CRC_AT + 4;
    let lists = data.get(fields..).unwrap_or_default();
    let mut header = fit(&data[..data.len().min(fields)], BLOCK);
    put(&mut header, MANIFEST_BODY_CRC_AT, &crc32c::crc32c(lists).to_le_bytes());
    let header = sealed(&header, *b"HWMANI\0\x01", MANIFEST_CRC_AT);
    let lists = fit(lists, lists.len().next_multiple_of(BLOCK));
    for file in [data, &[header, lists].concat()] {
        if let Ok(manifest) = Manifest::decode(file) {
            assert_eq!(manifest.encode().expect("it was decoded"), file);
        }
    }
}

/// Decodes a snapshot file: the 56 bytes of its header, then its blocks without an end.
pub fn snapshot(data: &[u8]) {
    whole_snapshot(data);
    let fields = &data[..data.len().min(SNAPSHOT_FIELDS_LEN)];
    let mut file = sealed(fields, *b"HWTABL\0\x01", SNAPSHOT_CRC_AT);
    let mut chain = u32_at(&file, SNAPSHOT_CRC_AT);
    let mut entries = 0;
    let mut rest = data.get(SNAPSHOT_FIELDS_LEN..).unwrap_or_default();
    while rest.len() > BLOCK_HEAD_LEN {
        let len = usize::try_from(u32_at(rest, 0)).unwrap_or(usize::MAX);
        let count = u32_at(rest, 4);
        let body = &rest[BLOCK_HEAD_LEN..][..len.min(rest.len() - BLOCK_HEAD_LEN)];
        chain = push_block(&mut file, chain, count, body);
        entries += u64::from(count);
        rest = &rest[BLOCK_HEAD_LEN + body.len()..];
    }
    let len = (file.len() + BLOCK_HEAD_LEN + 16).next_multiple_of(BLOCK);
    let file_len = u64::try_from(len).expect("files of 64 bits");
    push_block(&mut file, chain, 0, &[entries.to_le_bytes(), file_len.to_le_bytes()].concat());
    file.resize(len, 0);
    whole_snapshot(&file);
}

/// Appends a block with a right checksum, which it returns.
fn push_block(file: &mut Vec<u8>, chain: u32, entries: u32, body: &[u8]) -> u32 {
    let len = u32::try_from(body.len()).expect("inputs are shorter than 4 GiB");
    let head = [len.to_le_bytes(), entries.to_le_bytes()].concat();
    let crc = crc32c::crc32c_append(crc32c::crc32c_append(chain, &head), body);
    file.extend_from_slice(&head);
    file.extend_from_slice(&crc.to_le_bytes());
    file.extend_from_slice(body);
    crc
}

/// Reads a file as a whole and in pieces, and writes it again.
fn whole_snapshot(file: &[u8]) {
    let mut again = Vec::new();
    let Ok(header) = SnapshotHeader::decode(file.get(..BLOCK).unwrap_or(file)) else { return };
    let mut writer = SnapshotWriter::new(&header, &mut again);
    let mut count = 0;
    let read = read_snapshot(file, |entry| {
        count += 1;
        writer.push(&entry, &mut again).expect("it was decoded");
    });
    let Ok((_, summary)) = read else { return };
    assert_eq!(summary.entries, count);
    assert_eq!(writer.finish(&mut again).entries, count);
    // Where a file is cut into blocks is the writer's choice, so only the entries are the same.
    let mut copies = 0;
    read_snapshot(&again, |_| copies += 1).expect("it was just written");
    assert_eq!(copies, count);
    assert_eq!(crc_from_pieces(file), summary.crc);
}

/// Reads a valid file with as few bytes at hand as it needs, and returns its checksum.
fn crc_from_pieces(file: &[u8]) -> u32 {
    let mut reader = SnapshotReader::new(&file[..BLOCK]).expect("it was read as a whole");
    let (mut at, mut have) = (BLOCK, 0);
    loop {
        match reader.next_part(&file[at..at + have]).expect("it was read as a whole") {
            Part::Block { len, .. } => (at, have) = (at + len, 0),
            Part::More { needed } => {
                assert!(needed > have);
                have = needed;
            }
            Part::End { summary, .. } => return summary.crc,
        }
    }
}

/// Decodes one entry of a snapshot.
pub fn entry(data: &[u8]) {
    if let Ok((entry, len)) = Entry::decode(data) {
        let mut again = vec![0xee; entry.encoded_len().expect("it was decoded")];
        entry.encode_into(&mut again);
        assert_eq!(again, data[..len]);
    }
}

/// Makes a block of the fields: magic, version and checksum right, zeros behind.
fn sealed(fields: &[u8], magic: [u8; 8], crc_at: usize) -> Vec<u8> {
    let mut block = fit(&fields[..fields.len().min(crc_at)], BLOCK);
    put(&mut block, 0, &magic);
    put(&mut block, 8, &1_u32.to_le_bytes());
    let crc = crc32c::crc32c(&block[..crc_at]);
    put(&mut block, crc_at, &crc.to_le_bytes());
    block
}

/// Cuts bytes to a length, or fills them up with zeros.
fn fit(data: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = data[..data.len().min(len)].to_vec();
    bytes.resize(len, 0);
    bytes
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}
