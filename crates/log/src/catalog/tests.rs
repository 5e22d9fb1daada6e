//! Files of tables stay as long as they may count, and no longer.

use super::*;
use crate::format::superblock::HomeKind;
use crate::format::{SectionHeader, SectionKind, SectionWriter};
use crate::ids::{Epoch, Lsn};
use highwater_disk::sim::{Fault, OperationKind, PlannedFault, SimDisk, SimOptions, When};

fn catalog(disk: &SimDisk) -> Catalog {
    let block = SuperBlock {
        store_id: StoreId([7; 16]),
        generation: 0,
        manifest: 0,
        lanes: 2,
        stream_lanes: 1,
        home: HomeKind::Files,
        segment_bytes: 64 << 10,
        created_ms: 0,
    };
    let file = disk.create(SUPER, Access::Buffered).unwrap();
    file.write_at(&block.encode()[..], block.slot_offset()).unwrap();
    Catalog::open(Arc::new(disk.clone()), block).unwrap()
}

/// Adds an empty base to a file; gives what a lane publishes then.
fn write(file: &mut TableFile<'_>) -> LaneTable {
    let Place { number, position, lane, chain } = file.place();
    let (first, stamp, kind) = (0, Lsn(4096), SectionKind::Base);
    let mut out = SectionWriter::default();
    let header = SectionHeader { first, stamp, kind, entries: 0, body_len: 0 };
    let crc = out.finish(&header, chain);
    file.append(out.bytes()).unwrap();
    file.sync().unwrap();
    let (len, entries) = (u32::try_from(out.bytes().len()).unwrap(), 0);
    let section = Section { number, position, lane, first, kind, stamp, entries, len, crc };
    let start = LaneStart {
        lane,
        epoch: Epoch(1),
        replay_from: Lsn(4096),
        durable_lsn: Lsn(4096),
        next_stream: 0,
        prev_crc: None,
    };
    LaneTable { start, sections: vec![section] }
}

fn files(disk: &SimDisk) -> Vec<String> {
    disk.list(TABLES).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn a_lane_that_publishes_leaves_the_file_of_one_that_still_writes() {
    let disk = SimDisk::new(SimOptions::seeded(1));
    let catalog = catalog(&disk);
    let mut slow = catalog.begin_table(LaneId(0));
    let slow_table = write(&mut slow);
    let mut fast = catalog.begin_table(LaneId(1));
    let fast_table = write(&mut fast);
    catalog.publish(&fast_table, fast).unwrap();
    assert_eq!(files(&disk), ["1", "2"]);
    catalog.publish(&slow_table, slow).unwrap();
    assert_eq!(files(&disk), ["1", "2"]);
    for (lane, table) in [(LaneId(0), slow_table), (LaneId(1), fast_table)] {
        assert_eq!(catalog.lane(lane), Some((table.start, table.sections)));
    }
}

#[test]
fn a_file_that_counts_no_more_is_removed_and_so_is_one_that_never_will() {
    let disk = SimDisk::new(SimOptions::seeded(2));
    let catalog = catalog(&disk);
    for number in 1..4 {
        let mut file = catalog.begin_table(LaneId(0));
        let table = write(&mut file);
        catalog.publish(&table, file).unwrap();
        assert_eq!(files(&disk), [number.to_string()]);
    }
    let mut file = catalog.begin_table(LaneId(0));
    write(&mut file);
    assert_eq!(files(&disk), ["3", "4"]);
    drop(file);
    assert_eq!(files(&disk), ["3"]);
}

#[test]
fn a_file_that_a_superblock_may_name_stays() {
    let disk = SimDisk::new(SimOptions::seeded(3));
    let catalog = catalog(&disk);
    let mut file = catalog.begin_table(LaneId(0));
    let table = write(&mut file);
    let (kind, path_prefix, when) = (OperationKind::SyncData, SUPER.to_owned(), When::Nth(1));
    disk.plan(PlannedFault { kind, path_prefix, when, fault: Fault::Eio });
    assert!(catalog.publish(&table, file).is_err() && catalog.is_uncertain());
    assert_eq!(files(&disk), ["1"]);
}
