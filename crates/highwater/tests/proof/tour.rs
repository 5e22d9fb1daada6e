//! A probe says what it will write before it writes, keeps to it, and ends at the first failure.

use std::path::{Path, PathBuf};
use std::process::Command;

use highwater_report::data::{Manifest, StopReason};
use highwater_report::results::CaseStatus;

use crate::environment::{not_run, tool};
use crate::program::{Answer, Measured, PROGRAM, Place, entries, highwater, read, temporary};
use crate::strace::{Trace, is, usable};

/// Sections of a probe on a terminal, in order.
const SECTIONS: [&str; 6] = [
    "\nWhat a durable commit costs\n",
    "\nWhat batching buys\n",
    "\nWhat concurrency buys\n",
    "\nWhat size costs\n",
    "\nReceipts: what reached the device, per barrier\n",
    "\nAdvice\n",
];

fn manifest(run: &Path) -> Manifest {
    serde_json::from_str(&read(&run.join("manifest.json"))).expect("manifest.json")
}

#[test]
fn a_failure_while_paths_are_tried_ends_the_run_with_nothing_measured() {
    // M1
    if let Err(reason) = usable() {
        return not_run("planted errors in a probe", &reason);
    }
    for inject in [
        "fdatasync:error=EIO:when=5",
        "fsync:error=EIO:when=9",
        "syncfs:error=EIO:when=2",
        "pwrite64:error=EIO:when=40",
        "pwritev2:error=EIO:when=3",
        "fallocate:error=ENOSPC:when=1",
    ] {
        let place = Place::new();
        let trace = Trace::run(&place, "probe --seconds 2", &[inject]);
        assert_eq!(trace.answer.code, Some(1), "{inject}: {}", trace.answer.stderr);
        assert!(trace.answer.stderr.contains("a case failed"), "{inject}: {}", trace.answer.stderr);
        let run_dir = place.newest_run();
        let run = Measured::read(&run_dir);
        let outcome = run.outcome.expect("the run has an end");
        let failed: Vec<_> =
            outcome.stopped.values().filter(|r| matches!(r, StopReason::Failed(_))).collect();
        assert_eq!(failed.len(), 1, "{inject}: {failed:?}");
        assert!(!outcome.interrupted && run.rounds.is_empty(), "{inject}");
        let measured = run.results.cases.iter().filter(|c| c.status == CaseStatus::Measured);
        assert_eq!(measured.count(), 0, "{inject}");
        assert!(run.results.advice.is_none_or(|advice| advice.path.is_none()), "{inject}");
        assert!(!run_dir.join("profile.toml").exists(), "{inject}");
        let planted = trace.calls.iter().position(|call| call.contains("(INJECTED)"));
        let later = &trace.calls[planted.expect("an error was planted") + 1..];
        let writes = |call: &&String| is(call, "pwrite64") || is(call, "pwritev2");
        assert_eq!(later.iter().find(writes), None, "{inject}");
        assert_eq!(entries(place.dir()), Vec::<PathBuf>::new(), "{inject}");
    }
}

#[test]
fn all_that_a_probe_writes_is_announced_and_allowed() {
    if let Err(reason) = usable() {
        return not_run("bytes written by a probe", &reason);
    }
    let place = Place::new();
    let bytes = written_bytes(&place, "probe --seconds 2 --max-bytes 300MiB");
    let planned = manifest(&place.newest_run()).planned_bytes;
    assert!(bytes > 0 && bytes <= planned, "{bytes} of {planned}");
    assert!(planned <= 300 << 20, "{planned}");
}

/// Runs the program and adds up what its positioned writes moved. Other calls go untraced, since
/// the tour makes very many.
fn written_bytes(place: &Place, words: &str) -> u64 {
    let kept = temporary();
    let log = kept.path().join("trace");
    let mut strace = Command::new(tool("strace").expect("asked for before"));
    strace.args(["--follow-forks", "--seccomp-bpf", "--quiet=all", "--string-limit=0"]);
    strace.args(["--trace=pwrite64,pwritev2", "--output"]).arg(&log);
    let output = strace.arg(PROGRAM).args(place.arguments(words)).output();
    Answer::from(output.expect("strace starts")).expect_code(0);
    let moved = |call: &str| call.rsplit_once("= ")?.1.trim().parse::<u64>().ok();
    read(&log).lines().filter_map(moved).sum()
}

#[test]
fn a_probe_announces_its_bytes_before_it_writes_and_names_only_flags_it_has() {
    let place = Place::new();
    let answer = place.run("probe --seconds 2 --max-bytes 1MiB");
    let answer = answer.expect_error(&["--max-bytes", "1 MiB"]);
    for flag in ["--iterations", "--rounds", "--block"] {
        assert!(!answer.stderr.contains(flag), "{}", answer.stderr);
    }
    assert_eq!(entries(place.dir()), Vec::<PathBuf>::new());
    assert_eq!(place.run_dirs(), Vec::<PathBuf>::new());
    let answer = place.run("probe --seconds 2 --max-bytes 1GiB").expect_code(0);
    let at = |words: &str| answer.stderr.find(words);
    let (first, then) = (at("trying each"), at("cases, up to"));
    assert!(first.is_some() && first < then, "{}", answer.stderr);
    assert!(answer.stderr.contains("1 GiB at most"), "{}", answer.stderr);
}

#[test]
fn a_probe_is_readable_on_a_terminal_and_ends_with_its_advice() {
    let place = Place::new();
    let (runs, dir) = (place.runs().display(), place.dir().display());
    let answer = highwater(&format!("probe --quiet --seconds 2 --runs {runs} {dir}"));
    let text = answer.expect_code(0).stdout;
    let at: Vec<_> = SECTIONS.iter().map(|title| text.find(title)).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{at:?}\n{text}");
    assert!(text.find("\nWarnings\n").is_none_or(|warnings| Some(warnings) < at[5]), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let receipts = &text[at[4].unwrap()..at[5].unwrap()];
    let receipts = receipts.split("\nWarnings").next().unwrap_or_default();
    assert!(receipts.lines().count() < 16, "{receipts}");
    // The whole of it is a command away.
    let run = place.newest_run();
    let whole = highwater(&format!("report {}", run.display())).expect_code(0).stdout;
    assert!(whole.lines().count() > text.lines().count());
}
