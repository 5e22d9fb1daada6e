//! Full disks: refused beforehand where that can be known, and a plain failure where it cannot.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use highwater_report::results::CaseStatus;
use highwater_sys::time::sleep;

use crate::environment::not_run;
use crate::image::{EXT4, Image, Recipe};
use crate::program::{Measured, Place, rounds, wait_until};

const SMALL: Recipe = Recipe { mib: 160, ..EXT4 };

#[test]
fn what_does_not_fit_is_refused_before_anything_is_made() {
    let image = match Image::new(SMALL) {
        Ok(image) => image,
        Err(reason) => return not_run("a run larger than the file system", &reason),
    };
    let place = Place::at(image.path());
    for words in [
        "bench --state allocated --iterations 5 --capacity 1GiB",
        "bench --state append --iterations 100000",
        "bench --preset files --files 200000",
    ] {
        place.run(words).expect_error(&["free", "the largest case"]);
        assert_eq!(place.work_dirs(), Vec::<PathBuf>::new(), "{words}");
        assert_eq!(place.run_dirs(), Vec::<PathBuf>::new(), "{words}");
    }
}

#[test]
fn a_disk_that_fills_up_meanwhile_fails_the_case_and_leaves_nothing() {
    let image = match Image::new(SMALL) {
        Ok(image) => image,
        Err(reason) => return not_run("a disk that fills up", &reason),
    };
    let place = Place::at(image.path());
    let mut run = place.start(
        "bench --state allocated --barrier fdatasync,none --iterations 10 --warmup 0 \
         --rounds 100000 --capacity 16MiB --max-bytes 1024TiB",
    );
    run.wait_until("a round is measured", || {
        place.run_dirs().first().is_some_and(|run| !rounds(run).is_empty())
    });
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| fill(&image.path().join("filler"), &ended));
        wait_until("the run ends", || !run.is_running());
        ended.store(true, Ordering::Relaxed);
    });
    let answer = run.answer().expect_code(1);
    assert!(answer.stderr.contains("a case failed"), "{}", answer.stderr);
    let measured = Measured::read(&place.newest_run());
    let failed: Vec<_> =
        measured.results.cases.iter().filter(|case| case.status == CaseStatus::Failed).collect();
    assert_eq!(failed.len(), 1, "{:?}", measured.results.cases);
    let reason = failed[0].reason.as_deref().unwrap_or_default();
    assert!(reason.contains("No space left"), "{reason}");
    assert!(failed[0].commit.is_none());
    assert_eq!(place.work_dirs(), Vec::<PathBuf>::new());
}

/// Takes whatever space there is, until told that it is enough.
fn fill(path: &Path, enough: &AtomicBool) {
    let mut file = File::create_new(path).expect("a new file");
    let mut chunk = 1 << 20;
    while !enough.load(Ordering::Relaxed) {
        // Zeros suffice: ext4 gives them blocks of their own.
        if file.write(&vec![0; chunk]).is_err() {
            chunk = (chunk / 2).max(4096);
            sleep(Duration::from_millis(1));
        }
    }
}
