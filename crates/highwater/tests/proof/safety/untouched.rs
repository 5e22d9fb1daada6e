//! What exists is neither opened for writing nor overwritten (M2).

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::program::{Measured, Place, entries, highwater, read};

/// Path, bytes and time of change of every file below a directory.
fn snapshot(dir: &Path) -> Vec<(PathBuf, Vec<u8>, SystemTime)> {
    let mut found = Vec::new();
    for path in entries(dir) {
        if path.is_dir() {
            found.extend(snapshot(&path));
        } else {
            let changed =
                path.metadata().and_then(|meta| meta.modified()).expect("a time of change");
            found.push((path.clone(), std::fs::read(&path).expect("a readable file"), changed));
        }
    }
    found
}

#[test]
fn files_in_the_measured_directory_keep_their_bytes_and_times() {
    let place = Place::new();
    for name in ["data.db", "hw-0", "case-0", "highwater-work.", "highwater-work.1.2.3.4"] {
        std::fs::write(place.dir().join(name), name.repeat(1000)).expect("a file");
    }
    let sub = place.dir().join("case-1");
    std::fs::create_dir(&sub).expect("a directory");
    std::fs::write(sub.join("hw-0"), b"not ours").expect("a file");
    let before = snapshot(place.dir());
    place.measure("bench --preset wal --iterations 5 --warmup 1 --rounds 1").expect_all_measured();
    place.measure("bench --preset files --files 10 --rounds 1").expect_all_measured();
    assert_eq!(snapshot(place.dir()), before);
}

#[test]
fn an_existing_csv_file_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let csv = place.runs().join("kept.csv");
    std::fs::write(&csv, "mine").expect("a file");
    let words = format!("bench --iterations 5 --csv {}", csv.display());
    place.run(&words).expect_error(&["kept.csv", "not overwritten"]);
    assert_eq!(read(&csv), "mine");
    assert_eq!(place.run_dirs(), [csv], "a run directory was made");
    assert_eq!(entries(place.dir()), Vec::<PathBuf>::new());
}

#[test]
fn a_new_csv_file_holds_the_rounds() {
    let place = Place::new();
    let csv = place.dir().join("rounds-copy.csv");
    place.measure(&format!("bench --iterations 5 --rounds 2 --csv {}", csv.display()));
    assert_eq!(read(&csv), read(&place.newest_run().join("rounds.csv")));
    assert_eq!(read(&csv).lines().count(), 1 + 2);
}

#[test]
fn a_second_run_of_the_same_name_gets_a_directory_of_its_own() {
    let place = Place::new();
    place.measure("bench --name twice --iterations 5 --rounds 1");
    let first = place.newest_run();
    let before = snapshot(&first);
    place.measure("bench --name twice --iterations 6 --rounds 1");
    assert_eq!(place.run_dirs().len(), 2);
    assert_eq!(snapshot(&first), before);
    assert!(place.newest_run().display().to_string().ends_with("-twice-2"));
}

/// M10.
#[test]
fn a_report_changes_derived_files_only_and_twice_to_the_same_bytes() {
    let place = Place::new();
    place.measure("bench --preset batch --every 1,10 --iterations 40 --rounds 4");
    let run = place.newest_run();
    let derived = |path: &Path| {
        ["results.json", "report.html", "profile.toml"].iter().any(|name| path.ends_with(name))
    };
    let bytes = |of: &[(PathBuf, Vec<u8>, SystemTime)]| -> Vec<(PathBuf, Vec<u8>)> {
        of.iter().map(|(path, bytes, _)| (path.clone(), bytes.clone())).collect()
    };
    let before = snapshot(&run);
    highwater(&format!("report {}", run.display())).expect_code(0);
    let once = snapshot(&run);
    highwater(&format!("report {}", run.display())).expect_code(0);
    let twice = snapshot(&run);
    assert!(bytes(&before) == bytes(&once) && bytes(&once) == bytes(&twice));
    let data = |of: &[(PathBuf, Vec<u8>, SystemTime)]| {
        of.iter().filter(|(path, ..)| !derived(path)).cloned().collect::<Vec<_>>()
    };
    assert!(data(&before) == data(&twice), "a data file was written to");
}

#[test]
fn man_pages_are_not_written_over() {
    let place = Place::new();
    let page = place.dir().join("highwater-bench.1");
    std::fs::write(&page, "mine").expect("a file");
    highwater(&format!("man {}", place.dir().display())).expect_error(&["highwater-bench.1"]);
    assert_eq!(read(&page), "mine");
}

#[test]
fn what_a_run_says_as_json_is_what_it_keeps() {
    let place = Place::new();
    let answer = place.run("bench --iterations 5 --rounds 2").expect_code(0);
    let run = place.newest_run();
    assert_eq!(answer.stdout, read(&run.join("results.json")));
    let again = highwater(&format!("report {} --json", run.display())).expect_code(0);
    assert_eq!(again.stdout, answer.stdout);
    let measured = Measured::read(&run);
    assert_eq!(measured.outcome.map(|outcome| outcome.interrupted), Some(false));
}
