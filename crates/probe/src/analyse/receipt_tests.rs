//! Whose counters a verdict rests on, by the kinds of devices in the chain.

use std::collections::BTreeMap;

use highwater_report::data::{Manifest, SCHEMA_VERSION, Settings};
use highwater_report::machine::Machine;

use super::*;

const BARRIERS: u64 = 100;

fn device(name: &str, kind: &str, leaf: bool) -> Device {
    Device {
        name: name.to_owned(),
        kind: kind.to_owned(),
        leaf,
        write_cache: Some("write back".to_owned()),
        fua: Some(false),
        ..Device::default()
    }
}

/// Judges append + fsync on a chain of devices, with flushes counted at its two ends.
fn receipt(devices: Vec<Device>, top_flushes: u64, leaf_flushes: u64) -> Receipt {
    let planned = PlannedCase {
        id: "c001".to_owned(),
        group: "paths".to_owned(),
        case: Case::DEFAULT,
        iterations: BARRIERS,
        warmup: 0,
        capacity: 0,
        refused: None,
    };
    let manifest = Manifest {
        schema_version: SCHEMA_VERSION,
        method_version: 1,
        highwater_version: String::new(),
        name: String::new(),
        preset: String::new(),
        question: String::new(),
        started: String::new(),
        command: Vec::new(),
        directory: String::new(),
        settings: Settings { rounds: 1, seconds: None, seed: 1, max_bytes: None },
        machine: Machine { devices, ..Machine::default() },
        groups: Vec::new(),
        cases: vec![planned.clone()],
        planned_bytes: 0,
    };
    let row = RoundRow {
        elapsed_ns: 1_000_000,
        writes: BARRIERS,
        barriers: BARRIERS,
        top_flushes: Some(top_flushes),
        leaf_flushes: Some(leaf_flushes),
        ..with_counters()
    };
    let data = RunData {
        manifest,
        outcome: None,
        rounds: Vec::new(),
        series: Vec::new(),
        samples: BTreeMap::new(),
    };
    judge(&data, &planned, &[&row])
}

fn with_counters() -> RoundRow {
    let some = Some(BARRIERS);
    RoundRow {
        top_flush_ms: some,
        top_writes: some,
        top_write_ms: some,
        top_sectors: some,
        top_reads: some,
        top_queue_ms: some,
        leaf_flush_ms: some,
        leaf_writes: some,
        leaf_write_ms: some,
        leaf_sectors: some,
        leaf_reads: some,
        leaf_queue_ms: some,
        ..RoundRow::default()
    }
}

#[test]
fn a_stacked_device_that_counts_no_flushes_is_judged_by_the_disk_below_it() {
    for kind in ["device-mapper", "md"] {
        let chain = || vec![device("up", kind, false), device("sda", "disk", true)];
        let arrived = receipt(chain(), 0, 2 * BARRIERS);
        assert_eq!(arrived.verdict, ReceiptVerdict::Issued, "{kind}: {:?}", arrived.reasons);
        // A dash with its reason, not a 0 that was never counted.
        assert_eq!(arrived.top, None);
        assert_eq!(arrived.leaf.map(|leaf| (leaf.device, leaf.flushes)), Some(("sda".into(), 2.0)));
        assert!(arrived.reasons[0].contains("counts no flushes of up"), "{:?}", arrived.reasons);
        assert_eq!(receipt(chain(), 0, 0).verdict, ReceiptVerdict::Absent, "{kind}");
    }
}

#[test]
fn a_loop_device_or_disk_on_top_has_to_show_the_flushes_itself() {
    for kind in ["loop", "disk"] {
        let chain = || vec![device("up", kind, false), device("sda", "disk", true)];
        let of = |top, leaf| receipt(chain(), top, leaf).verdict;
        assert_eq!(of(BARRIERS, BARRIERS), ReceiptVerdict::Issued, "{kind}");
        assert_eq!(of(0, 5 * BARRIERS), ReceiptVerdict::Absent, "{kind}: others' flushes below");
        assert_eq!(of(BARRIERS, 0), ReceiptVerdict::Absent, "{kind}");
    }
}

#[test]
fn a_leaf_whose_flushes_nobody_counts_is_neither_absent_nor_issued() {
    for kind in ["disk without a queue", "device-mapper"] {
        let found = receipt(vec![device("pmem0", kind, true)], 0, 0);
        assert_eq!(found.verdict, ReceiptVerdict::NoCounters, "{kind}");
        assert_eq!((found.top, found.leaf), (None, None));
        assert!(found.reasons[0].contains("counts no flushes of pmem0"), "{:?}", found.reasons);
    }
}

#[test]
fn file_systems_and_partitions_in_a_chain_are_not_taken_for_its_ends() {
    let chain = vec![
        device("sda1", "partition", false),
        device("loop0", "loop", false),
        device("/mnt", FILE_SYSTEM, false),
        device("vda", "disk", true),
    ];
    let found = receipt(chain, BARRIERS, BARRIERS);
    assert_eq!(found.verdict, ReceiptVerdict::Issued, "{:?}", found.reasons);
    assert_eq!(found.top.map(|top| top.device), Some("loop0".to_owned()));
    assert_eq!(found.leaf.map(|leaf| leaf.device), Some("vda".to_owned()));
}
