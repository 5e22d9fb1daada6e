//! Where appends end, as far as the log can tell.

use highwater_log::Log;
use highwater_log::ids::Offset;
use highwater_log::options::Options;
use highwater_log::request::{End, Fork};

use super::support::{append, create, disk, open, small, text};

/// Ends of appends as they were made, held against what the log says of every offset.
fn check(log: &Log, name: &str, ends: &[u64]) {
    let tail = ends.last().copied().unwrap_or(0);
    for from in 0..tail {
        let end = ends.iter().find(|end| **end > from).map(|end| Offset(*end));
        assert_eq!(log.append_end(name, Offset(from)).unwrap(), end, "{name} {from}");
    }
    for beyond in [tail, tail + 1, u64::MAX] {
        assert_eq!(log.append_end(name, Offset(beyond)).unwrap(), None, "{name} {beyond}");
    }
}

fn fork(log: &Log, name: &str, source: &str, offset: u64) {
    let config = text();
    let (payload, end) = (&b""[..], End::Open);
    let offset = Some(Offset(offset));
    log.fork(&Fork { name, source, offset, source_id: None, config: &config, payload, end })
        .unwrap()
        .wait()
        .unwrap();
}

fn extend(log: &Log, name: &str, lens: &[usize]) -> Vec<u64> {
    let appends = lens.iter().map(|len| append(log, name, &vec![b'x'; *len]));
    appends.map(|ticket| ticket.unwrap().wait().unwrap().tail.0).collect()
}

#[test]
fn every_append_in_the_log_is_known_by_its_end_after_a_restart_too() {
    let disk = disk(1);
    let log = open(&disk, &small()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    check(&log, "a", &[]);
    // Others stand between, and the marks that save readers a long walk.
    create(&log, "b").unwrap().wait().unwrap();
    let mut ends = Vec::new();
    for len in [1, 700, 8000, 3, 8000, 8000, 1] {
        ends.extend(extend(&log, "a", &[len]));
        extend(&log, "b", &[5]);
    }
    check(&log, "a", &ends);
    drop(log);
    check(&open(&disk, &small()).unwrap(), "a", &ends);
}

#[test]
fn of_bytes_at_home_the_end_is_known_where_the_log_takes_over() {
    let disk = disk(2);
    let log = open(&disk, &small()).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    let home = *extend(&log, "a", &[10, 20, 30]).last().unwrap();
    log.checkpoint().unwrap();
    check(&log, "a", &[home]);
    let ends = extend(&log, "a", &[7, 9]);
    check(&log, "a", &[home, ends[0], ends[1]]);
    drop(log);
    check(&open(&disk, &small()).unwrap(), "a", &[home, ends[0], ends[1]]);
}

#[test]
fn what_a_fork_inherits_ends_where_its_sources_appends_did_or_where_it_begins() {
    for lanes in [1, 3] {
        let log = open(&disk(3), &Options { lanes, ..small() }).unwrap();
        create(&log, "a").unwrap().wait().unwrap();
        extend(&log, "a", &[10, 10]);
        fork(&log, "b", "a", 15);
        extend(&log, "b", &[5, 5]);
        fork(&log, "c", "b", 22);
        extend(&log, "c", &[1]);
        log.delete("a").unwrap().wait().unwrap();
        check(&log, "b", &[10, 15, 20, 25]);
        check(&log, "c", &[10, 15, 20, 22, 23]);
        assert!(log.append_end("a", Offset(0)).is_err(), "it is hidden");
        log.checkpoint().unwrap();
        extend(&log, "c", &[4]);
        check(&log, "c", &[15, 22, 23, 27]);
    }
}
