//! What streams may take in memory (I11): what is beyond a bound is refused, and changes nothing.

use std::sync::Arc;
use std::time::Duration;

use highwater_disk::sim::{SimClock, SimDisk};
use highwater_log::error::{LogError, LogResult, Rejection};
use highwater_log::ids::Offset;
use highwater_log::lane::commit::Ticket;
use highwater_log::options::Options;
use highwater_log::request::{Append, Config, Create, End, Expiry, Fork, Producer};
use highwater_log::{Driver, Log};

use super::support::{append, create, disk, machine, open, open_at, plain, read_all, small};

fn create_with(log: &Log, name: &str, config: &Config) -> LogResult<()> {
    let request = Create { name, config, payload: b"", end: End::Open };
    log.create(&request)?.wait().map(drop)
}

fn table_bytes(log: &Log) -> u64 {
    log.metrics().iter().map(|lane| lane.table_bytes).sum()
}

fn by(id: &str, sequence: u64) -> Append<'_> {
    Append { producer: Some(Producer { id, epoch: 0, sequence }), ..plain("a", b"x") }
}

#[test]
fn names_and_metadata_beyond_their_bounds_are_refused_and_change_nothing() {
    let options = Options { max_name_bytes: 10, max_metadata_bytes: 4, ..small() };
    let log = open(&disk(1), &options).unwrap();
    let config = |len| Config { metadata: vec![7; len], ..Config::default() };
    create_with(&log, "ten bytes.", &config(4)).unwrap();
    let before = (log.metrics(), log.usage());
    let refused = |name: &str, len| match create_with(&log, name, &config(len)) {
        Err(LogError::Rejected(Rejection::TooLarge { what, size, limit })) => (what, size, limit),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("eleven byte", 0), ("the name", 11, 10));
    assert_eq!(refused("b", 5), ("the metadata", 5, 4));
    assert_eq!((log.metrics(), log.usage()), before);
    assert_eq!(log.list("", None, 9), ["ten bytes."]);
}

#[test]
fn the_longest_that_a_format_holds_is_taken_by_default() {
    let log = open(&disk(2), &small()).unwrap();
    let config =
        Config { content_type: "t".repeat(256), metadata: vec![7; 16 << 10], ..Config::default() };
    create_with(&log, &"n".repeat(4096), &config).unwrap();
    let longer = create_with(&log, &"n".repeat(4097), &config);
    assert!(matches!(longer, Err(LogError::Rejected(Rejection::TooLarge { .. }))), "{longer:?}");
    let config = Config { content_type: "t".repeat(257), ..Config::default() };
    let longer = create_with(&log, "n", &config);
    assert!(matches!(longer, Err(LogError::Rejected(Rejection::TooLarge { .. }))), "{longer:?}");
}

#[test]
fn streams_beyond_their_memory_are_refused_until_others_are_deleted() {
    let options = Options { max_table_bytes: Options::LEAST_TABLE_BYTES, ..small() };
    let disk = disk(3);
    let log = open(&disk, &options).unwrap();
    let name = |number: u32| format!("{number}/{}", "n".repeat(1000));
    let mut made = 0;
    let refused = loop {
        match create(&log, &name(made)) {
            Ok(ticket) => made += ticket.wait().map(|_| 1).unwrap(),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&refused, LogError::Full(full) if full.why.contains("max_table_bytes")),
        "{refused}"
    );
    assert!((50..70).contains(&made), "{made}");
    assert!(table_bytes(&log) <= options.max_table_bytes);
    append(&log, &name(0), b"goes on").unwrap().wait().unwrap();
    assert!(create(&log, &name(made)).is_err());
    log.delete(&name(1)).unwrap().wait().unwrap();
    create(&log, &name(made)).unwrap().wait().unwrap();
    drop(log);
    // What is there already is opened under a lower bound, too; only nothing is added.
    let wide = Options { max_table_bytes: 1 << 20, ..options.clone() };
    let log = open(&disk, &wide).unwrap();
    (made + 1..2 * made).for_each(|number| create(&log, &name(number)).map(drop).unwrap());
    log.close().unwrap();
    drop(log);
    let log = open(&disk, &options).unwrap();
    assert!(table_bytes(&log) > options.max_table_bytes);
    assert!(create(&log, "b").is_err());
    assert_eq!(read_all(&log, &name(0)).unwrap(), b"goes on");
}

#[test]
fn a_producer_that_is_new_is_refused_where_there_is_no_memory_and_known_ones_go_on() {
    let options =
        Options { max_table_bytes: Options::LEAST_TABLE_BYTES, max_producers: 1024, ..small() };
    let disk = disk(4);
    let log = open(&disk, &options).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    let id = |number: u32| format!("{number}/{}", "p".repeat(250));
    let mut known = 0;
    let refused = loop {
        match log.append(&by(&id(known), 0)) {
            Ok(ticket) => known += ticket.wait().map(|_| 1).unwrap(),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, LogError::Full(_)), "{refused}");
    assert!((150..220).contains(&known), "{known}");
    let tail = log.info("a").unwrap().tail;
    log.append(&by(&id(0), 1)).unwrap().wait().unwrap();
    assert_eq!(log.info("a").unwrap().tail.0, tail.0 + 1);
    // Replayed from the log, and read from a table, it is the same.
    let bytes = table_bytes(&log);
    drop(log);
    for _ in 0..2 {
        let log = open(&disk, &options).unwrap();
        assert_eq!(table_bytes(&log), bytes);
        assert!(log.append(&by(&id(known), 0)).is_err());
        log.checkpoint().unwrap();
    }
    let log = open(&disk, &options).unwrap();
    log.delete("a").unwrap().wait().unwrap();
    assert_eq!(table_bytes(&log), 0);
}

#[test]
fn streams_that_are_deleted_long_before_their_time_leave_nothing_behind() {
    let (disk, clock): (SimDisk, _) = (disk(5), SimClock::new());
    let options = Options { checkpoint_wal_bytes: 64 << 10, ..small() };
    let log = open_at(&disk, &options, &clock).unwrap();
    let expiry = Some(Expiry::Sliding { ttl_ms: 1 << 40 });
    let config = Config { expiry, ..Config::default() };
    for number in 0..5000 {
        create_with(&log, "short-lived", &config).unwrap();
        log.delete("short-lived").unwrap().wait().unwrap();
        if number % 50 == 0 {
            log.checkpoint().unwrap();
        }
    }
    assert!(log.metrics()[0].expiries <= 1025, "{}", log.metrics()[0].expiries);
    assert_eq!(table_bytes(&log), 0);
}

fn content_bytes(log: &Log) -> u64 {
    log.metrics().iter().map(|lane| lane.content_bytes).sum()
}

fn is_full<T>(outcome: LogResult<T>, why: &str) -> bool {
    outcome.is_err_and(|error| matches!(error, LogError::Full(full) if full.why.contains(why)))
}

fn fork_at(log: &Log, name: &str, offset: u64, payload: &[u8]) -> LogResult<()> {
    let config = Config::default();
    let (source, offset, end) = ("a", Some(Offset(offset)), End::Open);
    let fork = Fork { name, source, offset, source_id: None, config: &config, payload, end };
    log.fork(&fork)?.wait().map(drop)
}

#[test]
fn a_stream_takes_as_many_bytes_as_it_may_what_it_inherits_included() {
    let log = open(&disk(11), &Options { max_stream_bytes: 10, ..small() }).unwrap();
    create(&log, "a").unwrap().wait().unwrap();
    append(&log, "a", b"1234567").unwrap().wait().unwrap();
    assert!(is_full(append(&log, "a", b"8901"), "10 bytes at most"));
    append(&log, "a", b"890").unwrap().wait().unwrap();
    assert!(is_full(fork_at(&log, "b", 8, b"xyz"), "10 bytes"), "with its first content, too");
    fork_at(&log, "b", 8, b"xy").unwrap();
    assert!(is_full(append(&log, "b", b"z"), "10 bytes"));
    let end = Append { end: End::Close, ..plain("b", b"") };
    log.append(&end).unwrap().wait().unwrap();
    log.delete("b").unwrap().wait().unwrap();
    fork_at(&log, "b", 8, b"").expect("what was refused holds nothing back");
}

#[test]
fn all_streams_together_take_as_many_bytes_as_they_may_until_some_are_deleted() {
    for lanes in [1, 3] {
        let options = Options { max_total_bytes: 100, lanes, ..small() };
        let disk = disk(12);
        let log = open(&disk, &options).unwrap();
        for name in ["a", "b", "c", "d"] {
            create(&log, name).unwrap().wait().unwrap();
        }
        append(&log, "a", &[1; 60]).unwrap().wait().unwrap();
        let first = Append { name: "b", payload: &[2; 30], ..by("p", 0) };
        log.append(&first).unwrap().wait().unwrap();
        assert!(is_full(append(&log, "c", &[3; 11]), "max_total_bytes"));
        log.append(&first).unwrap().wait().expect("what is there already is no more");
        // What a fork inherits is its source's, which stays as long as the fork does.
        fork_at(&log, "f", 60, &[4; 10]).unwrap();
        assert_eq!(content_bytes(&log), 100);
        log.delete("a").unwrap().wait().unwrap();
        assert!(is_full(append(&log, "c", &[3]), "max_total_bytes"));
        log.checkpoint().unwrap();
        drop(log);
        let log = open(&disk, &options).unwrap();
        assert_eq!(content_bytes(&log), 100, "after an opening");
        assert!(is_full(append(&log, "c", &[3]), "max_total_bytes"));
        log.delete("f").unwrap().wait().unwrap();
        while log.step() {}
        assert_eq!(content_bytes(&log), 30, "the source has gone with its last fork");
        append(&log, "c", &[3; 70]).unwrap().wait().unwrap();
        log.checkpoint().unwrap();
        log.delete("b").unwrap().wait().unwrap();
        append(&log, "d", &[5; 7]).unwrap().wait().unwrap();
        assert_eq!(content_bytes(&open(&disk.crash(), &options).unwrap()), 77);
    }
}

#[test]
fn streams_of_whoever_has_the_log_are_counted_and_not_refused() {
    let bounds = Options { max_stream_bytes: 50, max_total_bytes: 60, ..small() };
    let log = open(&disk(14), &Options { unbounded_prefix: Some("own/"), ..bounds }).unwrap();
    for name in ["a", "own/a"] {
        create(&log, name).unwrap().wait().unwrap();
    }
    append(&log, "own/a", &[1; 55]).unwrap().wait().unwrap();
    assert!(is_full(append(&log, "a", &[1; 6]), "max_total_bytes"));
    append(&log, "own/a", &[1; 55]).unwrap().wait().unwrap();
}

#[test]
fn streams_are_as_many_as_may_be_over_all_lanes() {
    let log = open(&disk(13), &Options { max_streams: 6, lanes: 3, ..small() }).unwrap();
    let made = |number: u32| create(&log, &format!("s{number}")).map(Ticket::wait);
    for number in 0..6 {
        made(number).unwrap().unwrap();
    }
    assert!(is_full(made(6), "6 streams"));
    log.delete("s0").unwrap().wait().unwrap();
    made(6).unwrap().unwrap();
}

#[test]
fn room_that_a_stream_takes_whose_time_is_over_is_there_as_soon_as_somebody_lacks_it() {
    let clock = SimClock::new();
    let machine = machine(Arc::new(disk(15)), &clock, 15);
    let log = Log::open(machine, &Options { max_streams: 1, ..small() }, Driver::Threads).unwrap();
    let expiry = Some(Expiry::Sliding { ttl_ms: 10_000 });
    create_with(&log, "short", &Config { expiry, ..Config::default() }).unwrap();
    assert!(is_full(create(&log, "next"), "1 streams"));
    clock.advance(Duration::from_secs(20));
    // Nothing else makes the log look before a minute is over.
    while is_full(create(&log, "next").map(Ticket::wait), "1 streams") {
        std::thread::yield_now();
    }
}
