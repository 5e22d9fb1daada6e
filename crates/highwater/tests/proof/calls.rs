//! Every barrier that is asked for is called exactly once, and none of set-up's is counted (M3).

use highwater_report::data::RoundRow;

use crate::environment::not_run;
use crate::program::{Measured, Place};
use crate::strace::{Trace, every_call, is, usable};

const ROUNDS: u64 = 2;
const WARMUP: u64 = 3;
const WRITES: u64 = 12;

/// A run under strace that must end well.
fn traced(words: &str, claim: &str) -> Option<(Trace, Measured)> {
    if let Err(reason) = usable() {
        not_run(claim, &reason);
        return None;
    }
    let place = Place::new();
    let mut trace = Trace::run(&place, words, &[]);
    trace.answer = trace.answer.expect_code(0);
    Some((trace, Measured::read(&place.newest_run())))
}

fn bench(barrier: &str, more: &str) -> String {
    format!(
        "bench --state append --barrier {barrier} --iterations {WRITES} --warmup {WARMUP} \
         --rounds {ROUNDS} {more}"
    )
}

fn sum(measured: &Measured, count: impl Fn(&RoundRow) -> u64) -> u64 {
    measured.rounds.iter().map(count).sum()
}

/// Asserts that the trace holds a barrier call for each that the rows count, and only those.
#[track_caller]
fn assert_every_barrier_counted(trace: &Trace, measured: &Measured, in_loops: u64) {
    let asked = sum(measured, |row| row.barriers + row.warmup_barriers);
    assert_eq!(in_loops, asked, "{}", trace.calls.join("\n"));
}

/// Asserts what set-up calls in each round: fsync of the file and of its directory, and syncfs.
#[track_caller]
fn assert_set_up(trace: &Trace, measured: &Measured, files: u64) {
    assert_eq!(trace.on_directories("fsync"), ROUNDS);
    assert_eq!(trace.on_directories("syncfs"), ROUNDS);
    assert_eq!(sum(measured, |row| row.setup_barriers), ROUNDS * (files + 2));
}

#[test]
fn each_fsync_fdatasync_syncfs_and_sync_file_range_asked_for_is_called_once() {
    for barrier in ["fsync", "fdatasync", "syncfs", "sync_file_range"] {
        let claim = format!("counting calls of {barrier}");
        let Some((trace, measured)) = traced(&bench(barrier, ""), &claim) else { return };
        let set_up = if barrier == "fsync" { ROUNDS } else { 0 };
        let in_loops = trace.on_files(barrier) - set_up;
        assert_eq!(in_loops, ROUNDS * (WRITES + WARMUP), "{barrier}");
        assert_every_barrier_counted(&trace, &measured, in_loops);
        assert_set_up(&trace, &measured, 1);
        for other in ["fsync", "fdatasync", "syncfs", "sync_file_range"] {
            let expected = if other == "fsync" { ROUNDS } else { 0 };
            assert!(other == barrier || trace.on_files(other) == expected, "{other} for {barrier}");
        }
        assert_eq!(trace.on_files("pwrite64"), ROUNDS * (WRITES + WARMUP));
    }
}

#[test]
fn a_barrier_that_is_part_of_the_write_is_asked_for_by_its_own_flag_and_no_other_call() {
    let flags = [("o_sync", "pwrite64", "|O_SYNC|"), ("o_dsync", "pwrite64", "|O_DSYNC|")];
    let flags = flags.into_iter().chain([("rwf_dsync", "pwritev2", "|")]);
    for (barrier, write, flag) in flags {
        let claim = format!("counting writes with {barrier}");
        let Some((trace, measured)) = traced(&bench(barrier, ""), &claim) else { return };
        let writes = trace.on_files(write);
        assert_eq!(writes, ROUNDS * (WRITES + WARMUP), "{barrier}");
        assert_every_barrier_counted(&trace, &measured, writes);
        assert_set_up(&trace, &measured, 1);
        assert_eq!(trace.on_files("fsync") + trace.on_files("fdatasync"), ROUNDS, "set-up's only");
        let opened = trace.count(|call| {
            call.starts_with("open") && call.contains(flag) && {
                call.contains("/hw-0\"") && call.contains("O_NOFOLLOW")
            }
        });
        assert_eq!(opened, ROUNDS, "{barrier}: {}", trace.calls.join("\n"));
        if barrier == "rwf_dsync" {
            let flagged = trace.count(|call| is(call, "pwritev2") && call.contains("RWF_DSYNC"));
            assert_eq!(flagged, writes);
        }
    }
}

#[test]
fn a_linked_write_and_its_sync_enter_the_ring_once() {
    let Some((trace, measured)) = traced(&bench("uring", ""), "counting io_uring_enter") else {
        return;
    };
    let case = measured.only_case();
    if let Some(reason) = &case.reason {
        return not_run("counting io_uring_enter", reason);
    }
    let entered = trace.count(|call| is(call, "io_uring_enter"));
    assert_eq!(entered, ROUNDS * (WRITES + WARMUP));
    assert_every_barrier_counted(&trace, &measured, entered);
    assert_set_up(&trace, &measured, 1);
    assert_eq!(trace.on_files("pwrite64") + trace.on_files("fdatasync"), 0);
}

#[test]
fn a_batch_ends_with_one_barrier_and_no_barrier_means_none() {
    for (every, per_round) in [("4", 3), ("16KiB", 3), ("end", 1), ("never", 0)] {
        let words = bench("fdatasync", &format!("--every {every} --warmup 0"));
        let words = words.replace(&format!("--warmup {WARMUP}"), "");
        let Some((trace, measured)) = traced(&words, "counting batches") else { return };
        assert_eq!(trace.on_files("fdatasync"), ROUNDS * per_round, "every {every}");
        assert_every_barrier_counted(&trace, &measured, ROUNDS * per_round);
        assert_set_up(&trace, &measured, 1);
    }
    let Some((trace, measured)) = traced(&bench("none", ""), "counting no barriers") else {
        return;
    };
    assert_every_barrier_counted(&trace, &measured, 0);
    assert_eq!(trace.on_files("fdatasync") + trace.on_files("syncfs"), 0);
    assert_eq!(trace.on_files("fsync"), ROUNDS, "set-up's only");
}

/// M9, seen from outside: the kernel was asked as often as the group says that it led.
#[test]
fn writers_that_share_a_file_call_as_many_barriers_as_their_group_counted() {
    let words = bench("fdatasync", "--writers 4 --sharing shared,own");
    let Some((trace, measured)) = traced(&words, "counting barriers of groups") else { return };
    assert_every_barrier_counted(&trace, &measured, trace.on_files("fdatasync"));
    let own = 4 + 2;
    let shared = 1 + 2;
    assert_eq!(sum(&measured, |row| row.setup_barriers), ROUNDS * (own + shared));
    assert_eq!(trace.on_files("fsync"), ROUNDS * (4 + 1));
}

/// A leader's own writes are not all that it answers for.
#[test]
fn a_ranged_barrier_of_a_group_covers_the_whole_file() {
    let words = bench("sync_file_range", "--writers 4 --sharing shared");
    let Some((trace, measured)) = traced(&words, "ranges of sync_file_range") else { return };
    assert_every_barrier_counted(&trace, &measured, trace.on_files("sync_file_range"));
    let asked = sum(&measured, |row| row.barriers);
    let whole = trace.count(|call| is(call, "sync_file_range") && call.contains(">, 0, 0, "));
    // Warm-up is one writer's, and so are its ranges.
    assert!(whole >= asked, "{whole} of {asked}: {}", trace.calls.join("\n"));
}

#[test]
fn many_files_are_synced_once_each_or_all_at_once() {
    let words = format!("bench --preset files --files 7 --writers 1,2 --rounds {ROUNDS}");
    let Some((trace, measured)) = traced(&words, "counting barriers of many files") else { return };
    let by_file: Vec<_> = measured.results.cases.iter().map(|case| case.case.writers).collect();
    assert!(by_file.contains(&2), "{by_file:?}");
    let measured_cases = |barrier: &str| -> u64 {
        let cases = measured.results.cases.iter();
        let rows = cases
            .filter(|case| case.case.barrier.as_str() == barrier)
            .flat_map(|case| measured.rounds_of(case));
        rows.map(|row| row.barriers).sum()
    };
    assert_eq!(trace.on_files("fdatasync"), measured_cases("fdatasync"));
    assert_eq!(measured_cases("fdatasync"), ROUNDS * 2 * 7);
    assert_eq!(measured_cases("syncfs"), ROUNDS);
    // Set-up makes the new files durable by one syncfs per case and round.
    assert_eq!(trace.on_directories("syncfs"), ROUNDS * 3 + measured_cases("syncfs"));
    assert_eq!(trace.on_files("fsync"), 0);
}

/// M5: an allocation that needs memory, a line printed or a counter read would show as a call.
#[test]
fn a_timed_loop_makes_no_call_but_its_writes_and_barriers() {
    if let Err(reason) = usable() {
        return not_run("calls within a timed loop", &reason);
    }
    let words = "bench --state initialised --io direct --barrier fdatasync --iterations 400 \
                 --warmup 0 --rounds 1";
    let calls = every_call(&Place::new(), words);
    // Set-up's zeros are written before its syncfs, and the loop begins after it.
    let set_up = calls.iter().rposition(|call| is(call, "syncfs")).expect("set-up ends with it");
    let in_loop = |call: &String| is(call, "pwrite64") && call.contains("/hw-0");
    let first = calls[set_up..].iter().position(in_loop).expect("a first write") + set_up;
    let last = calls.iter().rposition(|call| is(call, "fdatasync")).expect("a last barrier");
    let looped = &calls[first..=last];
    // A clock that the kernel does not map into programs is read by a call.
    let timed = looped.iter().filter(|call| !is(call, "clock_gettime"));
    let names: Vec<_> = timed.filter_map(|call| call.split('(').next()).collect();
    assert_eq!(names, ["pwrite64", "fdatasync"].repeat(400));
}
