//! What a log does when nothing goes wrong.

use std::sync::Arc;

use highwater_disk::real::{RealDisk, SystemClock, SystemRng};
use highwater_log::error::{LogError, Rejection};
use highwater_log::ids::Offset;
use highwater_log::options::Options;
use highwater_log::request::{Append, AppendOutcome, CreateOutcome, End};
use highwater_log::{Driver, Log, Machine};

use crate::support::*;

#[test]
fn readers_see_exactly_what_is_durable() {
    // I1, I2
    let log = open(&disk(1), &small()).unwrap();
    let created = create(&log, "s").unwrap();
    assert!(log.info("s").is_none(), "a stream shows when it is durable");
    created.wait().unwrap();
    let first = append(&log, "s", b"hello ").unwrap();
    let second = append(&log, "s", b"world").unwrap();
    assert_eq!(read_all(&log, "s").unwrap(), b"");
    assert_eq!(second.wait().unwrap().tail, Offset(11));
    assert_eq!(first.wait().unwrap().tail, Offset(6));
    assert_eq!(read_all(&log, "s").unwrap(), b"hello world");
    assert_eq!(log.read("s", Offset(3), 4).unwrap().to_vec(), b"lo w");
    let beyond = log.read("s", Offset(12), 1).unwrap_err();
    assert!(matches!(beyond, LogError::Rejected(Rejection::BeyondTail { .. })));
}

#[test]
fn a_log_comes_back_with_streams_ends_producers_and_sequences() {
    // I4, I5
    let disk = disk(2);
    let log = open(&disk, &small()).unwrap();
    for name in ["a", "b", "c"] {
        create(&log, name).unwrap().wait().unwrap();
    }
    for number in 0..500_u64 {
        let payload = vec![b'x'; usize::try_from(number % 700).unwrap() + 1];
        log.append(&produced("a", &payload, 1, number)).unwrap().wait().unwrap();
    }
    log.append(&Append { end: End::Close, sequence: Some(b"9"), ..plain("b", b"last") })
        .unwrap()
        .wait()
        .unwrap();
    log.delete("c").unwrap().wait().unwrap();
    let content = read_all(&log, "a").unwrap();
    drop(log);

    let log = open(&disk, &small()).unwrap();
    assert_eq!(read_all(&log, "a").unwrap(), content);
    assert_eq!(log.list("", None, 10), ["a", "b"]);
    assert!(log.info("b").unwrap().is_closed);
    let again = log.append(&produced("a", b"x", 1, 499)).unwrap().wait().unwrap();
    assert_eq!(again.outcome, AppendOutcome::Duplicate { highest: 499 });
    let gap = log.append(&produced("a", b"x", 1, 501)).unwrap_err();
    assert!(matches!(gap, LogError::Rejected(Rejection::ProducerGap { expected: 500, .. })));
    let closed = append(&log, "b", b"more").unwrap_err();
    assert_eq!(closed, LogError::Rejected(Rejection::Closed { tail: Offset(4) }));
    create(&log, "c").unwrap().wait().unwrap();
    assert_eq!(read_all(&log, "c").unwrap(), b"");
}

#[test]
fn the_same_create_again_is_no_change_and_another_one_is_refused() {
    let log = open(&disk(3), &small()).unwrap();
    let made = create(&log, "s").unwrap().wait().unwrap();
    let again = create(&log, "s").unwrap().wait().unwrap();
    assert_eq!((again.id, again.outcome), (made.id, CreateOutcome::Existing));
    let mut other = text();
    other.content_type = "application/json".to_owned();
    let request =
        highwater_log::request::Create { name: "s", config: &other, payload: b"", end: End::Open };
    assert_eq!(log.create(&request).unwrap_err(), LogError::Rejected(Rejection::Exists));
}

#[test]
fn what_is_too_large_or_too_much_is_refused_and_changes_nothing() {
    let log = open(&disk(4), &small()).unwrap();
    create(&log, "s").unwrap().wait().unwrap();
    let large = append(&log, "s", &vec![0; (8 << 10) + 1]).unwrap_err();
    assert!(matches!(large, LogError::Rejected(Rejection::TooLarge { .. })));
    let mut staged = Vec::new();
    let busy = loop {
        match append(&log, "s", &[1; 8 << 10]) {
            Ok(ticket) => staged.push(ticket),
            Err(error) => break error,
        }
    };
    assert!(matches!(busy, LogError::Busy(_)), "{busy}");
    let count = staged.len() as u64;
    for ticket in staged {
        ticket.wait().unwrap();
    }
    assert_eq!(log.info("s").unwrap().tail, Offset(count * (8 << 10)));
    append(&log, "s", b"again").unwrap().wait().unwrap();
    for name in ["", &"n".repeat(5000)] {
        assert!(create(&log, name).is_err());
    }
}

#[test]
fn a_log_that_is_open_is_not_opened_again() {
    let disk = disk(5);
    drop(open(&disk, &small()).unwrap());
    let first = open(&disk, &small()).unwrap();
    assert!(open(&disk, &small()).unwrap_err().to_string().contains("another process"));
    drop(first);
}

#[test]
fn many_threads_append_to_a_real_directory_and_nothing_is_lost_or_mixed_up() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = Options {
        segment_bytes: 1 << 20,
        max_payload_bytes: 64 << 10,
        frame_bytes: 64 << 10,
        ..Options::default()
    };
    let open = || {
        let machine = Machine {
            disk: Arc::new(RealDisk::open(dir.path()).unwrap()),
            clock: Arc::new(SystemClock::new()),
            rng: Box::new(SystemRng::new()),
        };
        Log::open(machine, &options, Driver::Threads).unwrap()
    };
    let log = open();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let log = &log;
            scope.spawn(move || {
                let name = format!("stream/{thread}");
                create(log, &name).unwrap().wait().unwrap();
                for number in 0..100_u64 {
                    let payload = format!("{thread}:{number};");
                    append(log, &name, payload.as_bytes()).unwrap().wait().unwrap();
                }
            });
        }
    });
    let expected = |thread: u64| -> String {
        let parts: Vec<String> = (0..100).map(|number| format!("{thread}:{number};")).collect();
        parts.concat()
    };
    let check = |log: &Log| {
        for thread in 0..8 {
            let found = read_all(log, &format!("stream/{thread}")).unwrap();
            assert_eq!(String::from_utf8(found).unwrap(), expected(thread));
        }
    };
    check(&log);
    drop(log);
    check(&open());
}

#[test]
fn a_checkpoint_moves_bytes_home_frees_segments_and_changes_nothing_for_readers() {
    // R1
    let disk = disk(6);
    let log = open(&disk, &small()).unwrap();
    let mut expected = std::collections::BTreeMap::new();
    for number in 0..400_u32 {
        let name = format!("s{}", number % 7);
        if number < 7 {
            create(&log, &name).unwrap().wait().unwrap();
        }
        let payload = vec![u8::try_from(number % 256).unwrap(); 1500];
        append(&log, &name, &payload).unwrap().wait().unwrap();
        expected.entry(name).or_insert_with(Vec::new).extend(payload);
        if number % 90 == 89 {
            let before = listed(&disk, "wal/0");
            assert!(log.checkpoint().unwrap(), "a checkpoint frees segments");
            assert_eq!(listed(&disk, "wal/0"), before, "segments are used again, not thrown away");
        }
    }
    log.delete("s6").unwrap().wait().unwrap();
    expected.remove("s6");
    log.checkpoint().unwrap();
    let check = |log: &Log| {
        for (name, bytes) in &expected {
            assert_eq!(&read_all(log, name).unwrap(), bytes, "{name}");
        }
        assert!(log.info("s6").is_none());
    };
    check(&log);
    drop(log);
    let segments = || listed(&disk, "wal/0").len();
    let before = segments();
    for number in 0..60_u8 {
        let log = open(&disk, &small()).unwrap();
        check(&log);
        create(&log, "t").unwrap().wait().unwrap();
        for _ in 0..10 {
            append(&log, "t", &[number; 4000]).unwrap().wait().unwrap();
        }
        log.delete("t").unwrap().wait().unwrap();
        log.checkpoint().unwrap();
    }
    assert!(segments() <= before + 1, "no file is forgotten when a log is closed");
    assert_eq!(listed(&disk, "streams/0").len(), 6);
}
