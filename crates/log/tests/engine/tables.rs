//! Table snapshots: what a checkpoint writes follows what changed, and a crash or failure at any
//! step of it loses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use highwater_disk::sim::{
    CrashMode, CrashSide, Fault, OperationKind, PlannedFault, SimClock, SimDisk, SimOptions,
    SimRng, TraceMode, When,
};
use highwater_disk::{Access, Disk, ReadOnly};
use highwater_log::check::{Verdict, check};
use highwater_log::error::{LogError, LogResult, Rejection};
use highwater_log::ids::Offset;
use highwater_log::options::Options;
use highwater_log::request::{
    Append, AppendOutcome, Config, Create, End, Expiry, Fork, Info, Producer,
};
use highwater_log::{Driver, Log, Machine};

use crate::support::*;

/// Partitions of three streams, so that a few make several.
fn tiny(lanes: u16) -> Options {
    Options { lanes, partition_streams: 3, ..small() }
}

fn wait_all<T>(
    tickets: impl IntoIterator<Item = LogResult<highwater_log::lane::commit::Ticket<T>>>,
) {
    for ticket in tickets.into_iter().collect::<Vec<_>>() {
        ticket.unwrap().wait().unwrap();
    }
}

fn by<'a>(name: &'a str, id: &'a str, sequence: u64) -> Append<'a> {
    Append { producer: Some(Producer { id, epoch: 1, sequence }), ..plain(name, b"by a producer ") }
}

fn fork<'a>(name: &'a str, source: &'a str, config: &'a Config) -> Fork<'a> {
    let (offset, payload, end) = (Some(Offset(2)), &b"its own"[..], End::Open);
    Fork { name, source, offset, source_id: None, config, payload, end }
}

/// Streams in every state that there is.
fn first_half(log: &Log) {
    let names: Vec<String> = (0..14).map(|number| format!("s{number}")).collect();
    wait_all(names.iter().map(|name| create(log, name)));
    wait_all(names.iter().map(|name| append(log, name, name.as_bytes())));
    for sequence in 0..3 {
        wait_all(["s1", "s2"].map(|name| log.append(&by(name, "p", sequence))));
    }
    wait_all([log.append(&Append { sequence: Some(b"m"), ..plain("s3", b"in sequence") })]);
    wait_all([log.append(&Append { end: End::Close, ..by("s4", "closer", 0) })]);
    let expiry = Some(Expiry::Sliding { ttl_ms: 1 << 40 });
    let config = Config { expiry, metadata: b"of the layer above".to_vec(), ..text() };
    wait_all([log.fork(&fork("fork", "s5", &config))]);
    wait_all(["s5", "s6", "s7"].map(|name| log.delete(name)));
}

/// And what becomes of some of them.
fn second_half(log: &Log) {
    // A name is another stream's now.
    let renamed = Config { content_type: "other/type".to_owned(), ..Config::default() };
    let again = Create { name: "s6", config: &renamed, payload: b"anew", end: End::Open };
    wait_all([log.create(&again)]);
    wait_all([log.append(&by("s1", "p", 3)), log.append(&by("s1", "q", 0))]);
    wait_all([log.append(&Append { sequence: Some(b"n"), ..plain("s3", b", more") })]);
    wait_all([log.append(&Append { end: End::Close, ..plain("s8", b"") })]);
    log.touch("fork").unwrap();
    wait_all([log.fork(&fork("second fork", "fork", &text()))]);
    wait_all(["s2", "s9", "fork"].map(|name| log.delete(name)));
    // Made and gone between two checkpoints.
    wait_all([create(log, "short")]);
    wait_all([log.delete("short")]);
    wait_all([create(log, "last")]);
}

/// What readers see of every stream.
type State = BTreeMap<String, (Info, Vec<u8>)>;

fn state(log: &Log) -> State {
    let all = log.list("", None, 1000).into_iter();
    let seen = |name: String| {
        let info = log.info(&name).unwrap();
        // A fork's own bytes may have a source that nobody can name any more.
        let bytes = read_all(log, &name).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, (info, bytes))
    };
    all.map(seen).collect()
}

/// What writers are told, which changes nothing.
fn assert_writers_are_known(log: &Log) {
    let known = |append: Append<'_>, highest| {
        let outcome = log.append(&append).unwrap().wait().unwrap().outcome;
        assert_eq!(outcome, AppendOutcome::Duplicate { highest }, "{append:?}");
    };
    known(by("s1", "p", 1), 3);
    known(by("s1", "q", 0), 0);
    known(Append { end: End::Close, ..by("s4", "closer", 0) }, 0);
    let rejected = |append: Append<'_>| match log.append(&append) {
        Err(LogError::Rejected(rejection)) => rejection,
        other => panic!("{append:?}: {other:?}"),
    };
    let old = Append { sequence: Some(b"n"), ..plain("s3", b"x") };
    assert_eq!(rejected(old), Rejection::Sequence);
    assert_eq!(rejected(by("s1", "p", 5)), Rejection::ProducerGap { expected: 4, received: 5 });
    assert!(matches!(rejected(plain("s8", b"x")), Rejection::Closed { .. }));
    assert_eq!(rejected(plain("s5", b"x")), Rejection::SoftDeleted);
    assert_eq!(rejected(plain("fork", b"x")), Rejection::SoftDeleted);
    assert_eq!(rejected(plain("s2", b"x")), Rejection::NotFound);
    assert_eq!(rejected(plain("short", b"x")), Rejection::NotFound);
}

fn assert_is_clean(disk: &SimDisk, context: &str) {
    let report = check(&ReadOnly::over(Arc::new(disk.clone())), &mut |_| {}).unwrap();
    assert_eq!(report.damage, [], "{context}");
    assert_ne!(report.verdict(), Verdict::Damaged, "{context}");
}

#[test]
fn a_crash_at_any_step_of_a_checkpoint_keeps_every_stream_as_it_was() {
    // I5, I7, R1
    for lanes in [1, 3] {
        let options = tiny(lanes);
        let clean = disk(61);
        let log = open(&clean, &options).unwrap();
        first_half(&log);
        log.checkpoint().unwrap();
        second_half(&log);
        let expected = state(&log);
        drop(log);
        let mut steps = 0;
        for nth in 1.. {
            let disk = clean.fork();
            let log = open(&disk, &options).unwrap();
            disk.crash_at(nth, if nth % 2 == 0 { CrashSide::Before } else { CrashSide::After });
            let ended = log.checkpoint().is_ok();
            drop(log);
            let mut seed = nth;
            for survivor in [
                disk.crash_with(|_| true),
                disk.crash_with(|_| false),
                disk.crash_with(|change| change % 2 == 0),
                disk.crash(),
            ] {
                seed += 1000;
                let context = format!("{lanes} lanes, crash at call {nth}, survivor {seed}");
                assert_is_clean(&survivor, &context);
                for _ in 0..2 {
                    let log =
                        open(&survivor, &options).unwrap_or_else(|e| panic!("{context}: {e}"));
                    assert_eq!(state(&log), expected, "{context}");
                    assert_writers_are_known(&log);
                    log.checkpoint().unwrap_or_else(|e| panic!("{context}: {e}"));
                }
                assert_is_clean(&survivor, &context);
            }
            steps = nth;
            if ended {
                break;
            }
        }
        assert!(steps > 8 * u64::from(lanes), "{steps} steps");
    }
}

#[test]
fn a_call_that_fails_in_a_checkpoint_costs_nothing_and_the_next_one_writes_it_again() {
    // R1, I5
    use OperationKind as Kind;
    let options = tiny(1);
    for fault in [Fault::Enospc, Fault::Eio] {
        for (kind, path) in [
            (Kind::Create, "tables"),
            (Kind::WriteAt, "tables"),
            (Kind::SyncData, "tables"),
            (Kind::SyncDir, "tables"),
            (Kind::Create, "manifest"),
            (Kind::WriteAt, "manifest"),
            (Kind::SyncDir, "manifest"),
            (Kind::Remove, "tables"),
        ] {
            for nth in 1..6 {
                let disk = disk(62);
                let log = open(&disk, &options).unwrap();
                first_half(&log);
                log.checkpoint().unwrap();
                second_half(&log);
                let expected = state(&log);
                let (path_prefix, when) = (path.to_owned(), When::Nth(nth));
                disk.plan(PlannedFault { kind, path_prefix, when, fault: fault.clone() });
                let failed = log.checkpoint().is_err();
                disk.clear_faults();
                let context = format!("{kind:?} {nth} of {path}: {fault:?}, failed: {failed}");
                // What a lack of space stops before a barrier goes on by itself.
                let passes = !failed
                    || matches!(fault, Fault::Enospc)
                        && !matches!(kind, Kind::SyncData | Kind::SyncDir);
                let appended = append(&log, "s10", b"goes on").map(|ticket| ticket.wait().unwrap());
                assert_eq!(appended.is_ok(), passes, "{context}: {appended:?}");
                assert!(passes || matches!(appended, Err(LogError::ReadOnly(_))), "{context}");
                let more = state(&log);
                assert_eq!(log.checkpoint().is_ok(), passes, "{context}");
                drop(log);
                let survivor = disk.crash();
                assert_is_clean(&survivor, &context);
                let named = survivor.list("tables").unwrap().len();
                assert!(named <= 3, "{context}: {named} files");
                let log = open(&survivor, &options).unwrap_or_else(|e| panic!("{context}: {e}"));
                assert_eq!(state(&log), more, "{context}");
                assert_eq!(more == expected, !passes, "{context}");
                assert_writers_are_known(&log);
                if !failed {
                    break;
                }
            }
        }
    }
}

/// Calls and bytes that reached files below a path.
fn calls(trace: &[String], path: &str) -> (BTreeMap<String, u64>, u64) {
    let (mut kinds, mut bytes) = (BTreeMap::new(), 0);
    for line in trace {
        let words: Vec<&str> = line.split(' ').collect();
        if !words[2].starts_with(path) {
            continue;
        }
        *kinds.entry(words[1].to_owned()).or_default() += 1;
        if words[1] == "write_at" {
            let len = words[3].split_once('+').unwrap().1;
            bytes += len.parse::<u64>().unwrap();
        }
    }
    (kinds, bytes)
}

#[test]
fn a_checkpoint_after_ten_of_100_000_streams_changed_writes_a_few_kilobytes_in_one_file() {
    let streams = 100_000;
    let sim =
        SimOptions { trace: TraceMode::Kept, crash: CrashMode::KeepAll, ..SimOptions::seeded(63) };
    let disk = SimDisk::new(sim);
    let options = Options { segment_bytes: 4 << 20, checkpoint_wal_bytes: 64 << 20, ..small() };
    let log = open(&disk, &options).unwrap();
    for number in 0..streams {
        drop(create(&log, &format!("stream/{number:06}")).unwrap());
        if number % 1000 == 999 {
            log.step();
        }
    }
    let written = |log: &Log| {
        let before = disk.trace().len();
        log.checkpoint().unwrap();
        disk.trace()[before..].to_vec()
    };
    let first = calls(&written(&log), "tables");
    assert!(first.1 > 80 * streams, "{first:?}");
    assert_eq!(first.0["create"], 1, "one file, whatever its size");
    let touch = |log: &Log, from: u64| {
        for number in (from..streams).step_by(10_000) {
            append(log, &format!("stream/{number:06}"), b"ten bytes.").unwrap().wait().unwrap();
        }
    };
    touch(&log, 17);
    let trace = written(&log);
    let (tables, table_bytes) = calls(&trace, "tables");
    // A header, and ten sections of one stream each.
    assert!(table_bytes < 4096 + 10 * 200, "{table_bytes} bytes");
    for (kind, count) in [("create", 1), ("sync_data", 1), ("sync_dir", 1), ("write_at", 11)] {
        assert_eq!(tables[kind], count, "{kind}: {tables:?}");
    }
    let (manifest, manifest_bytes) = calls(&trace, "manifest");
    assert!(manifest_bytes <= 8192, "{manifest_bytes} bytes");
    assert_eq!((manifest["create"], manifest["sync_data"]), (1, 1));
    assert_eq!(calls(&trace, "super").0["sync_data"], 1);
    assert_eq!(disk.list("tables").unwrap().len(), 2, "the base, and what changed");
    // Whatever streams they are, however often, it stays so.
    for round in 1..60 {
        touch(&log, round * 151 % 10_000);
        let bytes = calls(&written(&log), "tables").1;
        assert!(bytes < 4096 + 10 * 200 * 20, "round {round}: {bytes} bytes");
    }
    let files = disk.list("tables").unwrap().len();
    assert!(files <= 26, "{files} files");
    drop(log);
    let log = open(&disk, &options).unwrap();
    assert_eq!(log.list("stream/0", None, 20_000).len(), 20_000);
    assert_eq!(log.info("stream/000017").unwrap().tail, Offset(10));
}

#[test]
fn lanes_that_write_their_tables_at_once_leave_each_others_files_alone() {
    let options = tiny(2);
    let disk = disk(64);
    let log = Arc::new(open(&disk, &options).unwrap());
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    wait_all(names.iter().map(|name| create(&log, name)));
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (log, names) = (Arc::clone(&log), &names);
            scope.spawn(move || {
                for name in names.iter().cycle().skip(thread).step_by(2).take(200) {
                    append(&log, name, b"more").unwrap().wait().unwrap();
                    log.checkpoint().unwrap();
                }
            });
        }
    });
    let expected = state(&log);
    drop(log);
    assert_is_clean(&disk, "two threads");
    assert_eq!(state(&open(&disk.crash(), &options).unwrap()), expected);
}

#[test]
fn streams_that_come_and_go_while_checkpoints_run_are_found_as_they_were() {
    // I1, I5: partitions are as of different moments.
    for seed in 0..6 {
        let (options, disk) = (tiny(1), disk(65 + seed));
        let log = Arc::new(open(&disk, &options).unwrap());
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (checkpointing, is_done) = (Arc::clone(&log), &is_done);
            scope.spawn(move || {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    checkpointing.checkpoint().unwrap();
                }
            });
            for round in 0..400_u64 {
                let name = format!("s{}", round * 7 % 23);
                let pick = (round * 31 + seed) % 5;
                match log.info(&name) {
                    None => drop(create(&log, &name).unwrap()),
                    Some(_) if pick == 0 => log.delete(&name).unwrap().wait().unwrap(),
                    Some(_) => drop(append(&log, &name, name.as_bytes()).unwrap()),
                }
            }
            log.step();
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let expected = state(&log);
        drop(log);
        let survivor = disk.crash();
        assert_is_clean(&survivor, &format!("seed {seed}"));
        assert_eq!(state(&open(&survivor, &options).unwrap()), expected, "seed {seed}");
    }
}

#[test]
fn a_stream_with_as_many_producers_as_may_be_comes_back_with_all_of_them() {
    // I4
    let options = Options { max_producers: 1024, ..small() };
    let disk = disk(66);
    let log = open(&disk, &options).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    let id = |number: u64| format!("{number:0>256}");
    for number in 0..1024 {
        log.append(&by("s", &id(number), 0)).unwrap().wait().unwrap();
    }
    log.checkpoint().unwrap();
    drop(log);
    let log = open(&disk, &options).unwrap();
    for number in [0, 511, 1023] {
        let outcome = log.append(&by("s", &id(number), 0)).unwrap().wait().unwrap().outcome;
        assert_eq!(outcome, AppendOutcome::Duplicate { highest: 0 });
    }
}

#[test]
fn a_table_file_of_another_lane_or_store_is_told_and_refused() {
    // I6
    let options = tiny(2);
    let make = |seed| {
        let disk = disk(seed);
        let machine = Machine {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(SimClock::new()),
            rng: Box::new(SimRng::new(seed)),
        };
        let log = Log::open(machine, &options, Driver::Caller).unwrap();
        first_half(&log);
        log.checkpoint().unwrap();
        disk
    };
    let (clean, other) = (make(67), make(68));
    let read = |disk: &SimDisk, path: &str| {
        let file = disk.open(path, Access::Buffered).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    for bytes in [read(&clean, "tables/2"), read(&other, "tables/1")] {
        let mixed = clean.fork();
        mixed.remove("tables/1").unwrap();
        mixed.create("tables/1", Access::Buffered).unwrap().write_at(&bytes, 0).unwrap();
        let report = check(&ReadOnly::over(Arc::new(mixed.clone())), &mut |_| {}).unwrap();
        assert!(report.reaches_acknowledged(), "{report:?}");
        assert_eq!((report.damage[0].file.as_str(), report.damage[0].offset), ("tables/1", 0));
        assert!(open(&mixed, &options).is_err());
    }
}
