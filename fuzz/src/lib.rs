//! What must hold for any bytes whatever: no decoder of a stored structure panics, and what one
//! accepts encodes to the same bytes again.
//!
//! One function for each structure. Random bytes seldom have a right checksum, so each function
//! decodes its input as it is, and then once more with magic, version and checksums put right; the
//! constants here say a second time where those stand. `cargo +nightly fuzz run NAME` searches for
//! inputs; `crates/log/tests/engine/formats.rs` replays the kept ones in every test run.

use highwater_log::format::extension::Extensions;
use highwater_log::format::frame::FrameHeader;
use highwater_log::format::label::Label;
use highwater_log::format::manifest::Manifest;
use highwater_log::format::record::{NewRecord, RecordRef, Records, Verify};
use highwater_log::format::segment::SegmentHeader;
use highwater_log::format::snapshot::{
    Entry, SectionHeader, SectionWriter, SnapshotHeader, read_section,
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
const SNAPSHOT_CRC_AT: usize = 40;
const SECTION_BODY_LEN_AT: usize = 4;

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

/// Decodes a snapshot file: the 44 bytes of its header, then one section.
pub fn snapshot(data: &[u8]) {
    let (header, section) = data.split_at(data.len().min(BLOCK));
    whole_snapshot(header, section);
    let (fields, section) = data.split_at(data.len().min(SNAPSHOT_CRC_AT + 4));
    let header = sealed(fields, *b"HWTABL\0\x01", SNAPSHOT_CRC_AT);
    let chain = u32_at(&header, SNAPSHOT_CRC_AT);
    let mut section = section.to_vec();
    if let Some(body_len) = section.len().checked_sub(SectionHeader::LEN) {
        let body_len = u32::try_from(body_len).expect("inputs are shorter than 4 GiB");
        put(&mut section, SECTION_BODY_LEN_AT, &body_len.to_le_bytes());
        let crc = crc32c::crc32c_append(chain, &section[4..]);
        put(&mut section, 0, &crc.to_le_bytes());
    }
    whole_snapshot(&header, &section);
}

/// Reads a header and a section, and writes them again.
fn whole_snapshot(header: &[u8], section: &[u8]) {
    let Ok((decoded, chain)) = SnapshotHeader::decode(header) else { return };
    assert_eq!((decoded.encode().0[..].to_vec(), decoded.encode().1), (header.to_vec(), chain));
    let mut writer = SectionWriter::default();
    let read = read_section(section, chain, |entry| {
        writer.push(&entry).expect("it was decoded");
        Ok(())
    });
    let Ok((header, crc)) = read else { return };
    assert_eq!(writer.entries(), header.entries);
    assert_eq!(writer.finish(&header, chain), crc);
    assert_eq!(writer.bytes(), section);
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
