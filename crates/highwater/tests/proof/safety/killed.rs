//! Runs that die without a word: the next one removes exactly what they left (M7), and says so.

use std::path::{Path, PathBuf};
use std::time::Duration;

use highwater_report::results::Results;
use highwater_sys::process::{self, ProcessId};
use highwater_sys::time::sleep;

use super::ENDLESS;
use crate::program::{Measured, Place, entries, highwater, read, rounds, temporary, wait_until};

/// A run too short to notice.
const SHORT: &str = "bench --iterations 2 --warmup 0 --rounds 1";

#[test]
fn the_next_run_removes_exactly_what_a_killed_one_left() {
    const SEED: u64 = 7;
    let place = Place::new();
    for name in ["keep.txt", "highwater-work.txt"] {
        std::fs::write(place.dir().join(name), name).expect("a file");
    }
    let foreign = place.dir().join("highwater-work.1.2.3");
    std::fs::create_dir(&foreign).expect("a directory");
    let mut living = place.start(ENDLESS);
    let pid = living.pid();
    living.wait_until("the living run works", || !place.work_dirs_of(pid).is_empty());
    let living_dir = place.work_dirs_of(living.pid());
    // Made by a process that lives, this one, but not locked yet: a run has just begun.
    let unlocked = named_by_this_process(&living_dir[0]);
    std::fs::create_dir(&unlocked).expect("a directory");
    let before = entries(place.dir());

    let mut random = fastrand::Rng::with_seed(SEED);
    let mut left_behind = 0;
    for kill in 0..12 {
        let dying = place.start(ENDLESS);
        let pid = dying.pid();
        sleep(Duration::from_millis(random.u64(5..250)));
        dying.kill();
        let left = place.work_dirs_of(pid);
        left_behind += left.len();
        let answer = place.run(SHORT).expect_code(0);
        let what = format!("kill {kill} with seed {SEED}: {}", answer.stderr);
        assert_eq!(entries(place.dir()), before, "{what}");
        for dir in &left {
            assert!(answer.stderr.contains(&dir.display().to_string()), "{what}");
        }
        let said = answer.stderr.matches("removed what a run that died had left").count();
        assert_eq!(said, left.len(), "{what}");
        assert_eq!(place.work_dirs_of(living.pid()), living_dir, "{what}");
    }
    assert!(left_behind > 0, "no kill hit a run at work: choose another seed");

    living.signal("INT");
    living.answer().expect_code(130);
    let mut kept = vec![foreign, unlocked, place.dir().join("highwater-work.txt")];
    kept.sort();
    assert_eq!(place.work_dirs(), kept);
}

/// The name of a working directory of this very process, made from another process's.
fn named_by_this_process(other: &Path) -> PathBuf {
    let ProcessId { pid, start_ticks } = process::current();
    let name = other.file_name().expect("a name").to_string_lossy().into_owned();
    let [_, _, _, namespace, boot] = name.split('.').collect::<Vec<_>>()[..] else {
        panic!("{name} is not named as a working directory")
    };
    other.with_file_name(format!("highwater-work.{pid}.{start_ticks}.{namespace}.{boot}"))
}

#[test]
fn a_killed_run_can_still_be_reported_as_far_as_it_came() {
    let place = Place::new();
    let run = {
        let mut dying = place.start(ENDLESS);
        dying.wait_until("some rounds are measured", || {
            place.run_dirs().first().is_some_and(|run| rounds_whole(run) >= 8)
        });
        dying.kill();
        place.newest_run()
    };
    assert!(!run.join("outcome.json").exists());
    let report = format!("report {} --json", run.display());
    let once = highwater(&report).expect_code(0);
    let kept = read(&run.join("results.json"));
    assert_eq!(once.stdout, kept);
    assert!(run.join("report.html").is_file());
    highwater(&report).expect_code(0);
    assert_eq!(read(&run.join("results.json")), kept, "the second report differs from the first");
    let results: Results = serde_json::from_str(&kept).expect("results.json is what it says");
    assert!(results.interrupted);
    let measured = results.cases.iter().filter(|case| case.rounds > 0).count();
    assert_eq!(measured, results.cases.len(), "every case had come once");
    place.run(SHORT).expect_code(0);
    assert_eq!(place.work_dirs(), Vec::<PathBuf>::new());
}

/// Whole rows of a run that is still being written.
fn rounds_whole(run: &Path) -> usize {
    let text = std::fs::read_to_string(run.join("rounds.csv")).unwrap_or_default();
    text.matches('\n').count().saturating_sub(1)
}

#[test]
fn a_report_of_a_run_killed_in_the_middle_of_a_row_leaves_that_row_out() {
    let place = Place::new();
    place.measure("bench --iterations 5 --rounds 3");
    let run = place.newest_run();
    std::fs::remove_file(run.join("outcome.json")).expect("the outcome");
    let text = read(&run.join("rounds.csv"));
    std::fs::write(run.join("rounds.csv"), &text[..text.len() - 9]).expect("a torn row");
    let answer = highwater(&format!("report {} --json", run.display())).expect_code(0);
    let results: Results = serde_json::from_str(&answer.stdout).expect("results");
    assert_eq!((results.interrupted, results.cases[0].rounds), (true, 2));
}

#[test]
fn a_link_that_is_named_like_a_working_directory_is_not_followed() {
    let place = Place::new();
    let mut dying = place.start(ENDLESS);
    let pid = dying.pid();
    dying.wait_until("the run works in a case", || {
        place.work_dirs_of(pid).first().is_some_and(|dir| !entries(dir).is_empty())
    });
    dying.kill();
    let dead = place.work_dirs_of(pid).pop().expect("what the killed run left");
    // A name of a dead owner that points at somebody's files, in all places where it could stand.
    let (run_like, case_like) = (temporary(), temporary());
    std::fs::create_dir(run_like.path().join("case-0")).expect("a directory");
    std::fs::write(run_like.path().join("case-0/hw-0"), "mine").expect("a file");
    std::fs::write(case_like.path().join("hw-7"), "mine").expect("a file");
    let linked = dead.with_file_name(format!("highwater-work.{pid}.1.4026531836.00000000"));
    std::os::unix::fs::symlink(run_like.path(), &linked).expect("a link");
    std::os::unix::fs::symlink(case_like.path(), dead.join("case-99")).expect("a link");
    let answer = place.run(SHORT).expect_code(0);
    assert_eq!(read(&run_like.path().join("case-0/hw-0")), "mine");
    assert_eq!(read(&case_like.path().join("hw-7")), "mine");
    assert!(linked.is_symlink() && dead.join("case-99").is_symlink(), "{}", answer.stderr);
    assert!(answer.stderr.contains("left alone"), "{}", answer.stderr);
    assert!(answer.stderr.contains("case-99") && answer.stderr.contains("by hand"));
}

#[test]
fn a_run_whose_working_directory_vanishes_says_so() {
    let place = Place::new();
    let mut run = place.start(ENDLESS);
    run.wait_until("some rounds are measured", || {
        place.run_dirs().first().is_some_and(|run| !rounds(run).is_empty())
    });
    for dir in place.work_dirs() {
        // The run makes files meanwhile: removing goes on until nothing is left.
        wait_until("it can be removed", || {
            drop(std::fs::remove_dir_all(&dir));
            !dir.exists()
        });
    }
    let answer = run.answer().expect_code(1);
    assert!(answer.stderr.contains("a case failed"), "{}", answer.stderr);
    let measured = Measured::read(&place.newest_run());
    let reasons: Vec<_> = measured.results.cases.iter().filter_map(|c| c.reason.clone()).collect();
    let clear = reasons.iter().any(|reason| reason.contains("No such file or directory"));
    assert!(clear, "{reasons:?}");
    assert_eq!(entries(place.dir()), Vec::<PathBuf>::new());
}
