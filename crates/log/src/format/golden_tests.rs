//! The bytes of version 1 of each structure, kept in `tests/golden`: what was written once is read
//! for ever, and written the same.
//!
//! `cargo test -p highwater-log golden -- --ignored` writes the files anew. That is right only for
//! a structure that no release has written yet; any other change needs a new version and its own
//! file beside the old one.

use std::path::PathBuf;

use super::extension::Extensions;
use super::snapshot::read_section;
use super::testing;
use super::{
    FrameHeader, Label, Manifest, Records, SegmentHeader, SnapshotHeader, Verify, superblock,
};

/// Every kept file, and what it should hold.
fn files() -> Vec<(&'static str, Vec<u8>)> {
    let fields = testing::full_extensions();
    let mut extensions = vec![0; fields.encoded_len().unwrap()];
    fields.encode_into(&mut extensions);
    vec![
        ("segment-v1", testing::segment().encode().to_vec()),
        ("frame-v1", testing::frame()),
        ("records-v1", testing::body_of(&testing::records())),
        ("extensions-v1", extensions),
        ("super-v1", testing::super_file(2..5)),
        ("label-v1", testing::label().encode().to_vec()),
        ("manifest-v1", testing::manifest().encode().unwrap()),
        ("snapshot-v1", testing::snapshot_file()),
    ]
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.bin"))
}

fn kept(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap_or_else(|error| panic!("{}: {error}", path(name).display()))
}

#[test]
fn what_is_written_is_byte_for_byte_what_was_kept() {
    for (name, bytes) in files() {
        let kept = kept(name);
        let differs = kept.iter().zip(&bytes).position(|(kept, new)| kept != new);
        assert!(kept == bytes, "{name}: {} bytes, differs from byte {differs:?}", kept.len());
    }
}

#[test]
fn what_was_kept_is_read() {
    assert_eq!(SegmentHeader::decode(&kept("segment-v1")), Ok(testing::segment()));
    assert_eq!(Extensions::decode(&kept("extensions-v1")), Ok(testing::full_extensions()));
    assert_eq!(Label::decode(&kept("label-v1")), Ok(testing::label()));
    assert_eq!(Manifest::decode(&kept("manifest-v1")), Ok(testing::manifest()));
    let choice = superblock::choose(&kept("super-v1")).unwrap();
    assert_eq!((choice.newest, choice.damaged), (testing::superblock(4), vec![]));
    let frame = kept("frame-v1");
    let header = FrameHeader::decode(&frame).unwrap();
    let body = header.check_body(&frame[FrameHeader::LEN..]).unwrap();
    assert_eq!(body, kept("records-v1"));
    let records = Records::new(body, header.record_count, Verify::Payloads);
    let payloads: Vec<_> = records.map(|record| record.unwrap().payload.to_vec()).collect();
    assert_eq!(payloads, testing::records().map(|record| record.payload.to_vec()));
    let snapshot = kept("snapshot-v1");
    let (header, sections) = snapshot.split_at(SnapshotHeader::LEN);
    let (header, chain) = SnapshotHeader::decode(header).unwrap();
    assert_eq!(header, testing::snapshot_header());
    let (full, empty) = sections.split_at(testing::section_of(&testing::entries()).len());
    for (section, entries) in [(full, &testing::entries()[..]), (empty, &[])] {
        let mut left = entries.iter();
        let read = read_section(section, chain, |entry| {
            assert_eq!(Some(&entry), left.next());
            Ok(())
        });
        let (header, _) = read.unwrap();
        let expected = testing::section_header();
        assert_eq!((header.first, header.stamp, header.kind), (42, expected.stamp, expected.kind));
        assert_eq!(left.next(), None);
    }
}

#[test]
#[ignore = "writes the kept files; see the head of this file"]
fn golden_files_are_written() {
    for (name, bytes) in files() {
        std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        std::fs::write(path(name), bytes).unwrap();
    }
}
