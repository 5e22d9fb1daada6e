//! Records that contradict each other, or the table, are told; those that follow are not.

use super::*;
use crate::format::{Producer, Section};
use crate::ids::LaneId;
use crate::request::Config;

fn header(kind: RecordKind, offset: u64, payload_len: u32) -> RecordHeader {
    RecordHeader {
        kind,
        closes: false,
        ext_len: 0,
        payload_len,
        stream: StreamId::new(LaneId(0), 7),
        offset: Offset(offset),
        payload_crc: 0,
        prev: 0,
    }
}

fn enter(ledger: &mut Ledger, at: u64, header: &RecordHeader) -> Result<(), String> {
    let fields = Extensions::default();
    ledger.enter(&Line { at: Lsn(at), header, fields: &fields }, &Table::default())
}

fn produce(ledger: &mut Ledger, id: &[u8], epoch: u64, seq: u64) -> Result<(), String> {
    let fields = Extensions { producer: Some(Producer { id, epoch, seq }), ..Default::default() };
    let header = header(RecordKind::Append, 0, 0);
    ledger.enter(&Line { at: Lsn(8), header: &header, fields: &fields }, &Table::default())
}

#[test]
fn offsets_follow_each_other_and_nothing_follows_an_end() {
    let mut ledger = Ledger::default();
    enter(&mut ledger, 4160, &header(RecordKind::Create, 0, 10)).unwrap();
    enter(&mut ledger, 4240, &header(RecordKind::Append, 10, 5)).unwrap();
    let hole = enter(&mut ledger, 4320, &header(RecordKind::Append, 16, 5)).unwrap_err();
    assert!(hole.contains("offset 16, expected 15"), "{hole}");
    let prev = RecordHeader { prev: 1, ..header(RecordKind::Append, 15, 1) };
    assert!(enter(&mut ledger, 4320, &prev).unwrap_err().contains("point back"));
    let prev = RecordHeader { prev: 10, ..prev };
    enter(&mut ledger, 4320, &prev).unwrap();
    enter(&mut ledger, 4400, &header(RecordKind::Close, 16, 0)).unwrap();
    let closed = enter(&mut ledger, 4480, &header(RecordKind::Append, 16, 5)).unwrap_err();
    assert!(closed.contains("closed"), "{closed}");
    enter(&mut ledger, 4480, &header(RecordKind::Delete, 16, 0)).unwrap();
    let gone = enter(&mut ledger, 4560, &header(RecordKind::Append, 16, 5)).unwrap_err();
    assert!(gone.contains("deleted"), "{gone}");
    assert_eq!(ledger.first(StreamId::new(LaneId(0), 7)), Some(Offset(0)));
}

#[test]
fn a_producer_neither_skips_nor_repeats_nor_goes_back() {
    let mut ledger = Ledger::default();
    for (epoch, seq) in [(3, 0), (3, 1), (5, 0), (5, 1)] {
        produce(&mut ledger, b"p", epoch, seq).unwrap();
    }
    for (epoch, seq) in [(5, 1), (5, 3), (4, 0), (6, 1), (5, 0)] {
        let wrong = produce(&mut ledger, b"p", epoch, seq).unwrap_err();
        assert!(wrong.contains("after epoch 5 sequence 1"), "{wrong}");
    }
    // Another one may have pushed it out of the stream's memory.
    produce(&mut ledger, b"q", 0, 0).unwrap();
    produce(&mut ledger, b"p", 2, 0).unwrap();
}

/// A table whose snapshots have the records before a stamp.
fn table(stamp: u64) -> Table {
    let mut table = Table::default();
    let stamp = Lsn(stamp);
    let base = Section { stamp, ..crate::format::testing::manifest().sections[0] };
    table.partitions_mut().load(vec![Section { first: 0, ..base }]);
    table
}

#[test]
fn a_table_that_is_not_what_its_records_say_is_told() {
    let id = StreamId::new(LaneId(0), 7);
    let insert = |table: &mut Table, tail| {
        let at = table.insert("s", id, &Config::default());
        table.slot_mut(at).tail = Offset(tail);
    };
    let created = || {
        let mut ledger = Ledger::default();
        let (header, fields) = (header(RecordKind::Create, 0, 10), Extensions::default());
        let line = Line { at: Lsn(4160), header: &header, fields: &fields };
        ledger.enter(&line, &table(9000)).unwrap();
        ledger
    };
    let what = "stream 7 is not in the table, though its records are in the log".to_owned();
    assert_eq!(created().settle(&table(9000)), [(id, what)]);
    let mut right = table(9000);
    insert(&mut right, 10);
    assert_eq!(created().settle(&right), []);
    let mut wrong = table(9000);
    insert(&mut wrong, 9);
    let mut ledger = created();
    let what = "stream 7 ends at 9 in the table, at 10 in the log".to_owned();
    assert_eq!(ledger.settle(&wrong), [(id, what)]);
    assert_eq!(ledger.settle(&wrong), [], "it is asked once");
}

#[test]
fn a_record_behind_the_stamp_is_not_held_against_the_snapshot() {
    let (header, fields) = (header(RecordKind::Create, 0, 10), Extensions::default());
    let mut ledger = Ledger::default();
    let line = Line { at: Lsn(9000), header: &header, fields: &fields };
    ledger.enter(&line, &table(9000)).unwrap();
    assert_eq!(ledger.settle(&table(9000)), [], "replay would have applied it");
}
