//! Ctrl-C: what was measured is kept, and the measured directory is as it was.

use std::path::PathBuf;

use highwater_report::results::CaseStatus;

use super::ENDLESS;
use crate::program::{Measured, Place, entries, highwater, read};

fn rows(place: &Place) -> usize {
    let run = place.run_dirs().pop();
    let text = run.and_then(|run| std::fs::read_to_string(run.join("rounds.csv")).ok());
    text.map_or(0, |text| text.matches('\n').count())
}

#[test]
fn an_interrupted_run_keeps_its_results_and_can_be_reported() {
    for signal in ["INT", "TERM"] {
        let place = Place::new();
        let mut run = place.start(ENDLESS);
        run.wait_until("two rounds are measured", || rows(&place) > 13);
        run.signal(signal);
        let answer = run.answer().expect_code(130);
        assert!(answer.stderr.contains("stopped early"), "{}", answer.stderr);
        assert_eq!(entries(place.dir()), Vec::<PathBuf>::new(), "SIG{signal}");
        let kept = place.newest_run();
        let measured = Measured::read(&kept);
        measured.expect_all_measured();
        assert!(measured.results.interrupted);
        assert_eq!(measured.outcome.as_ref().map(|outcome| outcome.interrupted), Some(true));
        assert!(measured.results.cases.iter().all(|case| case.commit.is_some()));
        let before = read(&kept.join("results.json"));
        let answer = highwater(&format!("report {} --json", kept.display())).expect_code(0);
        assert_eq!(answer.stdout, before);
    }
}

#[test]
fn a_case_that_an_interrupt_kept_from_running_says_so() {
    let place = Place::new();
    // The first case alone takes far longer than to begin it, and 1 GB of room.
    let words = "bench --barrier fsync,fdatasync --iterations 2000000 --max-bytes 1024TiB \
                 --block 512 --rounds 1";
    let mut run = place.start(words);
    run.wait_until("the first case has begun", || {
        place.work_dirs().first().is_some_and(|dir| !entries(dir).is_empty())
    });
    run.signal("INT");
    let answer = run.answer().expect_code(130);
    let measured = Measured::read(&place.newest_run());
    for case in &measured.results.cases {
        let reason = case.reason.as_deref().unwrap_or_default();
        assert_eq!(case.status, CaseStatus::NotRun, "{}", answer.stderr);
        assert!(reason.contains("stopped"), "{reason}");
    }
    assert_eq!(entries(place.dir()), Vec::<PathBuf>::new());
}

/// Whoever waits for what such a run would do, waits for nothing.
#[test]
#[should_panic(expected = "highwater: the largest case needs")]
fn a_run_that_finds_no_room_ends_the_wait_for_it_with_what_it_lacks() {
    let place = Place::new();
    let words = "bench --iterations 30000000 --block 1MiB --max-bytes 1024TiB --rounds 1";
    place.start(words).wait_until("it works", || false);
}
