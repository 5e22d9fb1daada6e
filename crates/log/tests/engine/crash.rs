//! What a log keeps when the disk loses power, fails, or lies.

use std::collections::BTreeMap;

use highwater_disk::Rng;
use highwater_disk::sim::{Fault, OperationKind, SimDisk, SimRng};
use highwater_log::Log;
use highwater_log::error::{LogError, OpenError};

use crate::support::*;

/// What the outside knows: for each stream, what was acknowledged, and what may be there besides.
#[derive(Default)]
struct Oracle {
    acked: BTreeMap<String, Vec<u8>>,
    /// Everything asked for, in order; the log may hold any prefix that covers what was acked.
    asked: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Oracle {
    /// I3: a recovered stream is what was acked and then whole unacked appends, in order.
    fn check(&self, log: &Log, context: &str) {
        for (name, acked) in &self.acked {
            let found =
                read_all(log, name).unwrap_or_else(|error| panic!("{context}: {name}: {error}"));
            assert!(found.starts_with(acked), "{context}: {name} lost acknowledged bytes");
            let mut whole = Vec::new();
            let mut lengths = vec![0];
            for payload in &self.asked[name] {
                whole.extend_from_slice(payload);
                lengths.push(whole.len());
            }
            assert!(whole.starts_with(&found), "{context}: {name} holds bytes nobody asked for");
            assert!(lengths.contains(&found.len()), "{context}: {name} holds half an append");
        }
    }

    /// After recovery, what is there is what counts.
    fn adopt(&mut self, log: &Log) {
        for (name, asked) in &mut self.asked {
            let found = read_all(log, name).unwrap_or_default();
            let mut len = 0;
            asked.retain(|payload| {
                len += payload.len();
                len <= found.len()
            });
            self.acked.insert(name.clone(), found);
        }
    }
}

fn pick(rng: &mut SimRng, below: u64) -> u64 {
    rng.next_u64() % below
}

/// Appends at random until the disk dies; tickets of one batch are waited for in any order.
fn work(log: &Log, rng: &mut SimRng, oracle: &mut Oracle, steps: u64) -> Result<(), LogError> {
    for step in 0..steps {
        if pick(rng, 8) == 0 {
            log.checkpoint()?;
        }
        let mut tickets = Vec::new();
        for _ in 0..=pick(rng, 4) {
            let name = format!("s{}", pick(rng, 5));
            if !oracle.acked.contains_key(&name) {
                create(log, &name)?.wait()?;
                oracle.acked.insert(name.clone(), Vec::new());
                oracle.asked.insert(name.clone(), Vec::new());
            }
            let len = usize::try_from(pick(rng, 5000)).unwrap() + 1;
            let fill = u8::try_from(step % 251).unwrap();
            let payload = vec![fill; len];
            oracle.asked.get_mut(&name).unwrap().push(payload.clone());
            tickets.push((name.clone(), append(log, &name, &payload)?));
        }
        for (name, ticket) in tickets {
            let appended = ticket.wait()?;
            let all = oracle.asked[&name].concat();
            let acked = all[..usize::try_from(appended.tail.0).unwrap()].to_vec();
            let entry = oracle.acked.get_mut(&name).unwrap();
            if acked.len() > entry.len() {
                *entry = acked;
            }
        }
    }
    Ok(())
}

#[test]
fn acknowledged_appends_survive_crashes_at_any_moment() {
    // I1, I3, I5, I7, I9
    for seed in 0..150 {
        let mut rng = SimRng::new(seed);
        let mut disk = disk(seed);
        let mut oracle = Oracle::default();
        for life in 0..4 {
            let context = format!("seed {seed}, life {life}");
            disk.crash_after_operations(disk.operations() + 1 + pick(&mut rng, 120));
            match open(&disk, &small()) {
                Ok(log) => {
                    oracle.check(&log, &context);
                    oracle.adopt(&log);
                    let ended = work(&log, &mut rng, &mut oracle, 30);
                    assert!(ended.is_ok() || disk.is_crashed(), "{context}: {ended:?}");
                }
                Err(error) => assert!(disk.is_crashed(), "{context}: {error}"),
            }
            disk = disk.crash();
        }
        let log = open(&disk, &small()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        oracle.check(&log, &format!("seed {seed}, at last"));
    }
}

#[test]
fn after_a_failed_barrier_nothing_is_acknowledged_any_more() {
    // I10
    for fault in [Fault::Eio, Fault::FailedBarrierDropsPages] {
        let disk = disk(11);
        let log = open(&disk, &small()).unwrap();
        create(&log, "s").unwrap().wait().unwrap();
        append(&log, "s", b"kept").unwrap().wait().unwrap();
        disk.fail_next(OperationKind::SyncData, 1, fault);
        let failed = append(&log, "s", b"lost").unwrap().wait().unwrap_err();
        assert!(matches!(failed, LogError::Poisoned(_)), "{failed}");
        assert!(matches!(append(&log, "s", b"more"), Err(LogError::Poisoned(_))));
        assert_eq!(read_all(&log, "s").unwrap(), b"kept");
        drop(log);
        let log = open(&disk.crash(), &small()).unwrap();
        assert!(read_all(&log, "s").unwrap().starts_with(b"kept"));
    }
}

/// A log with some acknowledged appends, closed.
fn written(disk: &SimDisk) -> Vec<u8> {
    let log = open(disk, &small()).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    for number in 0..40_u8 {
        append(&log, "s", &[number; 900]).unwrap().wait().unwrap();
    }
    read_all(&log, "s").unwrap()
}

#[test]
fn damage_to_acknowledged_bytes_is_refused_and_never_taken_for_a_torn_tail() {
    // I6
    let clean = disk(21);
    let content = written(&clean);
    for at in (4096_u64..40 * 4096).step_by(4096 + 613) {
        let disk = clean.fork();
        disk.flip_bit("wal/0/0.seg", at, 3).unwrap();
        match open(&disk, &small()) {
            Err(OpenError::Damaged { from, durable, .. }) => assert!(from < durable),
            Err(other) => panic!("bit at {at}: {other}"),
            // A bit in padding that no checksum covers cannot be; one behind the log's end can.
            Ok(log) => assert_eq!(read_all(&log, "s").unwrap(), content, "bit at {at}"),
        }
    }
}

/// A log over several segments, never checkpointed.
fn long(disk: &SimDisk) -> u64 {
    let log = open(disk, &small()).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    for number in 0..80_u8 {
        append(&log, "s", &[number; 4000]).unwrap().wait().unwrap();
    }
    log.info("s").unwrap().tail.0
}

#[test]
fn a_segment_that_is_missing_or_has_lost_its_header_is_damage_wherever_it_stood() {
    // I6
    let clean = disk(41);
    long(&clean);
    let segments = listed(&clean, "wal/0").len();
    assert!(segments > 4);
    for number in 0..segments - 1 {
        let path = format!("wal/0/{number}.seg");
        let headless = clean.fork();
        headless.flip_bit(&path, 9, 2).unwrap();
        let missing = clean.fork();
        highwater_disk::Disk::remove(&missing, &path).unwrap();
        for (disk, what) in [(headless, "headless"), (missing, "missing")] {
            assert!(open(&disk, &small()).is_err(), "{path} {what}");
        }
    }
}

#[test]
fn a_lane_whose_only_segment_lost_its_header_is_not_taken_for_new() {
    // I6
    let disk = disk(42);
    written(&disk);
    disk.flip_bit("wal/0/0.seg", 20, 0).unwrap();
    assert!(open(&disk, &small()).is_err());
}

#[test]
fn a_failed_barrier_of_the_home_is_final_and_loses_nothing() {
    // R1, I10
    for kind in [OperationKind::SyncAll, OperationKind::SyncData] {
        let mut options = small();
        if kind == OperationKind::SyncData {
            options.file_barrier = highwater_log::options::FileBarrier::Files;
        }
        let disk = disk(43);
        let log = open(&disk, &options).unwrap();
        create(&log, "s").unwrap().wait().unwrap();
        for number in 0..80_u8 {
            append(&log, "s", &[number; 4000]).unwrap().wait().unwrap();
        }
        let content = read_all(&log, "s").unwrap();
        disk.fail_next(kind, 1, Fault::FailedBarrierDropsPages);
        assert!(log.checkpoint().is_err());
        assert!(log.checkpoint().is_err(), "a failed barrier is final");
        assert!(append(&log, "s", b"x").is_err());
        assert_eq!(read_all(&log, "s").unwrap(), content);
        drop(log);
        let log = open(&disk.crash(), &options).unwrap();
        assert_eq!(read_all(&log, "s").unwrap(), content);
    }
}
