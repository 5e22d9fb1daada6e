//! `--csv`: a name that cannot be used costs no time, and no row of a failed case gets in.

use std::path::PathBuf;

use highwater_report::data::RoundRow;

use crate::environment::not_run;
use crate::program::{Place, entries, read};
use crate::strace::{Trace, usable};

fn rows(path: &std::path::Path) -> Vec<RoundRow> {
    let mut reader = csv::Reader::from_path(path).expect("a csv file");
    reader.deserialize().map(|row| row.expect("a row")).collect()
}

#[test]
fn a_csv_that_cannot_be_made_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let kept = Place::new();
    let existing = kept.dir().join("mine.csv");
    std::fs::write(&existing, "mine").expect("a file");
    for (path, say) in [
        (kept.dir().join("absent/rows.csv"), "cannot be made"),
        (existing.clone(), "not overwritten"),
        (kept.dir().to_owned(), "not overwritten"),
    ] {
        let words = format!("bench --iterations 3 --rounds 1 --csv {}", path.display());
        place.run(&words).expect_error(&["--csv", say]);
        assert_eq!(entries(place.dir()), Vec::<PathBuf>::new());
        assert_eq!(place.run_dirs(), Vec::<PathBuf>::new());
    }
    assert_eq!(read(&existing), "mine");
    // A run that is refused leaves no file behind.
    let path = kept.dir().join("refused.csv");
    place.run(&format!("bench --rounds 0 --csv {}", path.display())).expect_code(2);
    assert!(!path.exists());
}

#[test]
fn the_csv_holds_the_rows_of_the_run() {
    let place = Place::new();
    let kept = Place::new();
    let path = kept.dir().join("rows.csv");
    place.run(&format!("bench --iterations 3 --rounds 3 --csv {}", path.display())).expect_code(0);
    assert_eq!(read(&path), read(&place.newest_run().join("rounds.csv")));
    assert_eq!(rows(&path).len(), 3);
}

#[test]
fn no_row_of_a_failed_case_is_in_the_csv_and_the_message_says_where_they_stay() {
    if let Err(reason) = usable() {
        return not_run("the csv of a failed case", &reason);
    }
    let place = Place::new();
    let kept = Place::new();
    let path = kept.dir().join("rows.csv");
    let words = format!(
        "bench --barrier fdatasync,none --iterations 10 --warmup 0 --rounds 3 --csv {}",
        path.display()
    );
    // The first round is good, the second is not.
    let trace = Trace::run(&place, &words, &["fdatasync:error=EIO:when=15"]);
    assert_eq!(trace.answer.code, Some(1), "{}", trace.answer.stderr);
    let failed = |row: &RoundRow| row.case_id == "c001";
    assert!(!rows(&path).is_empty() && !rows(&path).iter().any(failed));
    let raw = rows(&place.newest_run().join("rounds.csv"));
    assert!(raw.iter().any(failed));
    assert!(trace.answer.stderr.contains("stay in rounds.csv"), "{}", trace.answer.stderr);
}

#[test]
fn where_nothing_was_measured_no_csv_is_left() {
    if let Err(reason) = usable() {
        return not_run("the csv of a run without numbers", &reason);
    }
    let place = Place::new();
    let kept = Place::new();
    let path = kept.dir().join("rows.csv");
    let words = format!("bench --barrier uring --iterations 3 --csv {}", path.display());
    let trace = Trace::run(&place, &words, &["io_uring_setup:error=EPERM"]);
    assert_eq!(trace.answer.code, Some(0), "{}", trace.answer.stderr);
    assert!(trace.answer.stderr.contains("is not kept"), "{}", trace.answer.stderr);
    assert!(!path.exists());
}
