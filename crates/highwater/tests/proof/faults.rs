//! A call that fails ends its case and the run (M1): no retry, no number, nothing after it.

use std::path::PathBuf;

use highwater_report::results::{CaseResult, CaseStatus};

use crate::environment::not_run;
use crate::program::{Measured, Place, highwater};
use crate::strace::{Trace, is, usable};

/// Barriers and writes before the loops: fsync of the file, fsync of the directory.
const SET_UP_FSYNCS: u64 = 2;
const WARMUP: u64 = 3;

/// A case that meets a planted error.
struct Fault {
    /// Barrier of the case.
    barrier: &'static str,
    /// What fails, and which of its calls.
    inject: String,
    /// The call as the reason names it.
    named: &'static str,
    /// The record that the reason names.
    record: u64,
}

fn faults() -> Vec<Fault> {
    let fault = |barrier, call: &str, nth: u64, named, record| Fault {
        barrier,
        inject: format!("{call}:error=EIO:when={nth}"),
        named,
        record,
    };
    vec![
        fault("fdatasync", "fdatasync", WARMUP + 4, "fdatasync", WARMUP + 3),
        fault("fdatasync", "fdatasync", 2, "fdatasync", 1),
        fault("fsync", "fsync", SET_UP_FSYNCS + WARMUP + 4, "fsync", WARMUP + 3),
        fault("fdatasync", "pwrite64", WARMUP + 6, "pwrite", WARMUP + 5),
        fault("o_dsync", "pwrite64", WARMUP + 6, "pwrite", WARMUP + 5),
        fault("rwf_dsync", "pwritev2", WARMUP + 1, "pwritev2", WARMUP),
        fault("sync_file_range", "sync_file_range", WARMUP + 1, "sync_file_range", WARMUP),
        fault("syncfs", "syncfs", 1 + WARMUP + 2, "syncfs", WARMUP + 1),
    ]
}

/// Runs the failing case and another one after it, under strace.
fn fail(place: &Place, barrier: &str, inject: &str, rounds: u32) -> Trace {
    let words = format!(
        "bench --state append --barrier {barrier},none --iterations 10 --warmup {WARMUP} \
         --rounds {rounds}"
    );
    Trace::run(place, &words, &[inject])
}

/// Asserts that the case failed and shows no number.
#[track_caller]
fn assert_failed(case: &CaseResult, words: &[&str]) {
    let reason = case.reason.as_deref().unwrap_or_default();
    assert_eq!(case.status, CaseStatus::Failed, "{}: {reason}", case.label);
    assert!(words.iter().all(|word| reason.contains(word)), "{words:?} are not all in: {reason}");
    assert!(case.commit.is_none() && case.write.is_none() && case.barrier.is_none());
    assert!(case.receipt.is_none() && case.attribution.is_none() && case.trial_ms.is_empty());
    assert!(case.commits_per_second.is_none() && case.records_at_risk.is_none());
}

#[test]
fn a_failed_call_ends_the_run_with_the_call_and_record_named_and_no_retry() {
    if let Err(reason) = usable() {
        return not_run("planted errors", &reason);
    }
    for fault in faults() {
        let place = Place::new();
        let trace = fail(&place, fault.barrier, &fault.inject, 2);
        let what = format!("{} on {}", fault.inject, fault.barrier);
        assert_eq!(trace.answer.code, Some(1), "{what}: {}", trace.answer.stderr);
        let run = Measured::read(&place.newest_run());
        let record = format!("record {}", fault.record);
        let [failed, after] = &run.results.cases[..] else { panic!("two cases") };
        assert_failed(failed, &[fault.named, "nput/output error", &record]);
        assert_eq!(after.status, CaseStatus::NotRun, "{what}");
        let reason = after.reason.as_deref().unwrap_or_default();
        assert!(reason.contains("failed") && reason.contains(&failed.id), "{what}: {reason}");
        assert_eq!(run.rounds, [], "{what}");
        assert_nothing_after(&trace, &what);
        assert_eq!(place.work_dirs(), Vec::<PathBuf>::new(), "{what}");
    }
}

/// Asserts that after the planted error the file was neither written nor synced again.
#[track_caller]
fn assert_nothing_after(trace: &Trace, what: &str) {
    let at = trace.calls.iter().position(|call| call.contains("(INJECTED)"));
    let at = at.unwrap_or_else(|| panic!("{what}: no error was planted"));
    let touches = |call: &&String| {
        let names = ["pwrite64", "pwritev2", "fsync", "fdatasync", "syncfs", "sync_file_range"];
        names.iter().any(|name| is(call, name))
    };
    let later: Vec<_> = trace.calls[at + 1..].iter().filter(touches).collect();
    assert!(later.is_empty(), "{what}: {later:?}");
}

#[test]
fn a_case_that_fails_late_loses_the_numbers_of_its_earlier_rounds() {
    if let Err(reason) = usable() {
        return not_run("a planted error in a later round", &reason);
    }
    let place = Place::new();
    let in_second_round = WARMUP + 10 + WARMUP + 5;
    let inject = format!("fdatasync:error=EIO:when={in_second_round}");
    let trace = fail(&place, "fdatasync", &inject, 3);
    assert_eq!(trace.answer.code, Some(1), "{}", trace.answer.stderr);
    let run_dir = place.newest_run();
    let run = Measured::read(&run_dir);
    let [failed, other] = &run.results.cases[..] else { panic!("two cases") };
    assert_failed(failed, &["fdatasync", "record 7"]);
    assert_eq!(other.status, CaseStatus::Measured, "{:?}", other.reason);
    assert!(other.commit.is_some());
    assert!(run.results.comparisons.is_empty(), "{:?}", run.results.comparisons);
    // The row of its good round stays in the data, and stays out of what is derived from it.
    assert!(run.rounds.iter().any(|row| row.case_id == failed.id));
    let kept = std::fs::read(run_dir.join("results.json")).expect("results.json");
    highwater(&format!("report {}", run_dir.display())).expect_code(0);
    let rebuilt = std::fs::read(run_dir.join("results.json")).expect("results.json");
    assert!(kept == rebuilt, "a failed case's numbers came back with the report");
}

#[test]
fn a_write_that_moves_fewer_bytes_is_a_failure() {
    if let Err(reason) = usable() {
        return not_run("a planted short write", &reason);
    }
    for (barrier, call) in [("fdatasync", "pwrite64"), ("rwf_dsync", "pwritev2")] {
        let place = Place::new();
        let inject = format!("{call}:retval=512:when={}", WARMUP + 2);
        let trace = fail(&place, barrier, &inject, 1);
        assert_eq!(trace.answer.code, Some(1), "{}", trace.answer.stderr);
        let run = Measured::read(&place.newest_run());
        assert_failed(&run.results.cases[0], &["fewer bytes", "record 4"]);
    }
}

#[test]
fn an_error_in_set_up_says_so_and_ends_the_run() {
    if let Err(reason) = usable() {
        return not_run("planted errors in set-up", &reason);
    }
    for (state, inject, named) in [
        ("allocated", "fallocate:error=EIO:when=1", "fallocate"),
        ("allocated", "fallocate:error=ENOSPC:when=1", "o space left"),
        ("initialised", "pwrite64:error=EIO:when=1", "pwrite"),
        ("append", "fsync:error=EIO:when=1", "fsync"),
        ("append", "fsync:error=EIO:when=2", "fsync"),
        ("append", "syncfs:error=EIO:when=1", "syncfs"),
    ] {
        let place = Place::new();
        let words = format!("bench --state {state} --barrier fdatasync,none --iterations 5");
        let trace = Trace::run(&place, &words, &[inject]);
        assert_eq!(trace.answer.code, Some(1), "{inject}: {}", trace.answer.stderr);
        let run = Measured::read(&place.newest_run());
        assert_failed(&run.results.cases[0], &["set-up", named]);
        assert_eq!(run.results.cases[1].status, CaseStatus::NotRun);
        assert_eq!(place.work_dirs(), Vec::<PathBuf>::new(), "{inject}");
    }
}

#[test]
fn a_path_that_is_not_offered_is_unsupported_and_the_others_are_measured() {
    if let Err(reason) = usable() {
        return not_run("planted refusals", &reason);
    }
    for (words, inject, named) in [
        ("--state allocated,append", "fallocate:error=EOPNOTSUPP", "fallocate"),
        ("--barrier rwf_dsync,fdatasync", "pwritev2:error=EOPNOTSUPP", "pwritev2"),
        ("--barrier uring,fdatasync", "io_uring_setup:error=EPERM", "io_uring"),
    ] {
        let place = Place::new();
        let words = format!("bench {words} --iterations 5 --warmup 0 --rounds 1");
        let mut trace = Trace::run(&place, &words, &[inject]);
        trace.answer = trace.answer.expect_code(0);
        let run = Measured::read(&place.newest_run());
        let [refused, other] = &run.results.cases[..] else { panic!("two cases") };
        let reason = refused.reason.as_deref().unwrap_or_default();
        assert_eq!(refused.status, CaseStatus::Unsupported, "{inject}: {reason}");
        assert!(reason.contains(named), "{reason}");
        assert_eq!(other.status, CaseStatus::Measured, "{inject}: {:?}", other.reason);
    }
}

#[test]
fn one_writer_s_failed_barrier_ends_all_writers_of_its_group() {
    if let Err(reason) = usable() {
        return not_run("a planted error among many writers", &reason);
    }
    let place = Place::new();
    let words = "bench --state initialised --barrier fdatasync --writers 4 --sharing shared \
                 --iterations 200 --warmup 0 --rounds 1";
    // strace counts calls per thread: every writer's third barrier would fail, the first ends all.
    let trace = Trace::run(&place, words, &["fdatasync:error=EIO:when=3+"]);
    assert_eq!(trace.answer.code, Some(1), "{}", trace.answer.stderr);
    let run = Measured::read(&place.newest_run());
    assert_failed(run.only_case(), &["fdatasync", "nput/output error"]);
    assert_eq!(trace.planted, 1, "{}", trace.calls.join("\n"));
    assert_eq!(place.work_dirs(), Vec::<PathBuf>::new());
}

#[test]
fn an_initialised_file_needs_no_allocation() {
    if let Err(reason) = usable() {
        return not_run("initialised files without fallocate", &reason);
    }
    let place = Place::new();
    let words = "bench --state initialised --barrier fdatasync --iterations 5 --rounds 1";
    let trace = Trace::run(&place, words, &["fallocate:error=EOPNOTSUPP"]);
    assert!(trace.planted > 0, "{}", trace.calls.join("\n"));
    trace.answer.expect_code(0);
    Measured::read(&place.newest_run()).expect_all_measured();
}

/// Threads that already wait for the others must not wait for ever.
#[test]
fn a_thread_that_cannot_be_started_ends_the_case_in_words() {
    if let Err(reason) = usable() {
        return not_run("threads that cannot be started", &reason);
    }
    for words in [
        "--barrier fdatasync --writers 4 --sharing own",
        "--barrier fdatasync --writers 4 --sharing shared",
        "--preset files --barrier fdatasync --files 8 --writers 4",
    ] {
        let place = Place::new();
        let words = format!("bench {words} --iterations 40 --rounds 1");
        let trace = Trace::run(&place, &words, &["clone,clone3:error=EAGAIN:when=3+"]);
        assert!(trace.planted > 0, "{words}: {}", trace.answer.stderr);
        trace.answer.expect_code(1);
        let run = Measured::read(&place.newest_run());
        let named = ["set-up", "thread 3 of 4", "--writers"];
        assert_failed(run.only_case(), &named);
        assert_eq!(place.work_dirs(), Vec::<PathBuf>::new(), "{words}");
    }
}

#[test]
fn a_ring_that_takes_nothing_in_is_a_failure_and_at_the_first_batch_a_path_not_offered() {
    if let Err(reason) = usable() {
        return not_run("planted errors of io_uring_enter", &reason);
    }
    for (inject, status, code) in [
        ("io_uring_enter:error=EINVAL", CaseStatus::Unsupported, 0),
        ("io_uring_enter:error=EAGAIN:when=2", CaseStatus::Failed, 1),
        ("io_uring_enter:error=EINVAL:when=2", CaseStatus::Failed, 1),
    ] {
        let place = Place::new();
        let words =
            "bench --barrier uring,fdatasync --every 4 --iterations 16 --warmup 0 --rounds 1";
        let trace = Trace::run(&place, words, &[inject]);
        let run = Measured::read(&place.newest_run());
        let case = &run.results.cases[0];
        let reason = case.reason.as_deref().unwrap_or_default();
        if reason.contains("io_uring_setup") {
            return not_run("planted errors of io_uring_enter", reason);
        }
        trace.answer.expect_code(code);
        assert_eq!(case.status, status, "{inject}: {reason}");
        assert!(reason.contains("io_uring_enter"), "{reason}");
        let other = &run.results.cases[1];
        assert_eq!(other.status == CaseStatus::Measured, code == 0, "{:?}", other.reason);
    }
}
