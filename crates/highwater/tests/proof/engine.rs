//! `bench --preset engine`, run small: every subject and scene gives figures whose structure makes
//! sense.

use std::path::PathBuf;

use highwater_engine_bench::results::{Results, SubjectResult};
use serde_json::from_str;

use crate::program::{Answer, Place, entries, highwater, read};

const SMALL: &str = "bench --preset engine --seconds 0.2 --rounds 2 --writers 1,3 --streams 7 \
                     --many-streams 500 --retained 1MiB";

#[track_caller]
fn results(answer: &Answer) -> Results {
    from_str(&answer.stdout).expect("results are printed as JSON")
}

/// Rows of a CSV file by the values of two columns.
fn rows_by(text: &str, columns: [&str; 2]) -> Vec<(String, String)> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().expect("a head").clone();
    let at = columns.map(|name| head.iter().position(|found| found == name).expect("the column"));
    let row = |row: csv::StringRecord| (row[at[0]].to_owned(), row[at[1]].to_owned());
    reader.records().map(|record| row(record.expect("a row"))).collect()
}

#[track_caller]
fn assert_sane(subject: &SubjectResult, writers: u32) {
    let name = &subject.subject;
    assert_eq!((subject.stopped.as_deref(), subject.rounds), (None, 2), "{name}");
    let latency = subject.latency.as_ref().expect("appends were timed");
    assert!(latency.n > 0 && latency.min_ns > 0, "{name}");
    let median = |spread: Option<highwater_engine_bench::results::Spread>| {
        let spread = spread.unwrap_or_else(|| panic!("{name} lacks a figure"));
        assert!(spread.lowest <= spread.median && spread.median <= spread.highest, "{name}");
        spread.median
    };
    assert!(median(subject.appends_per_s) > 0.0, "{name}");
    assert!(median(subject.commits_per_s) > 0.0, "{name}");
    assert!(median(subject.cpu_us) > 0.0, "{name}");
    assert!(median(subject.creates_per_s) > 0.0, "{name}");
    // A commit acknowledges one append of each writer at most; counters are read a moment apart.
    let per_commit = median(subject.appends_per_commit);
    let most = if name == "bare" { 1.0 } else { f64::from(writers) };
    assert!(per_commit > 0.9 && per_commit < most * 1.2 + 0.1, "{name}: {per_commit}");
    assert!(median(subject.open_files) >= 1.0, "{name}");
}

#[test]
fn the_engine_preset_measures_every_subject_in_every_round_and_leaves_nothing_behind() {
    let place = Place::new();
    let answer = place.run(SMALL).expect_code(0);
    assert!(answer.stderr.contains("writes at most"), "{}", answer.stderr);
    assert_eq!(entries(place.dir()), Vec::<PathBuf>::new());
    let results = results(&answer);
    let shape: Vec<(u32, usize)> =
        results.cases.iter().map(|case| (case.case.writers, case.subjects.len())).collect();
    assert_eq!(shape, [(1, 3), (3, 3)]);
    for case in &results.cases {
        for subject in &case.subjects {
            assert_sane(subject, case.case.writers);
            let is_baseline = subject.subject == "bare";
            assert_eq!(subject.rate_ratio.is_none(), is_baseline, "{}", subject.subject);
        }
    }

    let run = place.newest_run();
    let rounds = rows_by(&read(&run.join("rounds.csv")), ["case_id", "subject"]);
    for case in ["c01", "c02"] {
        for subject in ["bare", "threads", "futures"] {
            let row = (case.to_owned(), subject.to_owned());
            assert_eq!(rounds.iter().filter(|found| **found == row).count(), 2, "{row:?}");
            assert!(run.join(format!("{case}.{subject}.hdr")).is_file());
        }
    }
    assert_eq!(read(&run.join("results.json")), answer.stdout);
    let rebuilt = highwater(&format!("report {} --json", run.display())).expect_code(0);
    assert_eq!(rebuilt.stdout, answer.stdout);
    let run = run.display();
    highwater(&format!("compare {run} {run}")).expect_error(&["preset engine", "report"]);
}

#[test]
fn scenes_give_every_figure_in_every_round() {
    let place = Place::new();
    let answer = place.run(&format!("{SMALL} --only staging,checkpoint,table,replay"));
    let results = results(&answer.expect_code(0));
    assert!(results.cases.is_empty());
    let names: Vec<&str> = results.scenes.iter().map(|scene| scene.name.as_str()).collect();
    assert_eq!(names, ["staging", "checkpoint", "table", "replay"]);
    for scene in &results.scenes {
        assert!(scene.figures.len() >= 4, "{scene:?}");
        for figure in &scene.figures {
            assert_eq!(figure.rounds, 2, "{}: {}", scene.name, figure.name);
        }
    }
    let figure = |scene: &str, name: &str| {
        let scene = results.scenes.iter().find(|found| found.name == scene).expect("the scene");
        let figure = scene.figures.iter().find(|found| found.name == name);
        figure.unwrap_or_else(|| panic!("{name} is missing")).value.lowest
    };
    assert!(figure("replay", "log retained") >= 1.0);
    assert!(figure("checkpoint", "appends during") > 0.0);
    assert!(figure("table", "streams made") > 0.0);
    let scenes = rows_by(&read(&place.newest_run().join("scenes.csv")), ["scene", "round"]);
    assert!(scenes.contains(&("staging".to_owned(), "1".to_owned())));
}

#[test]
fn options_of_one_preset_are_refused_with_another() {
    let place = Place::new();
    place.run("bench --preset wal --streams 5").expect_error(&["preset engine"]);
    place.run("bench --preset engine --block 4K").expect_error(&["preset engine"]);
    place.run("bench --preset engine --only nothing").expect_error(&["nothing", "replay", "bare"]);
    let tight = place.run("bench --preset engine --max-bytes 1MiB");
    tight.expect_error(&["--max-bytes", "--seconds"]);
    assert_eq!(entries(place.dir()), Vec::<PathBuf>::new());
    assert_eq!(entries(place.runs()), Vec::<PathBuf>::new());
    assert!(highwater("bench --help").expect_code(0).stdout.contains("engine"));
}

#[test]
fn an_interrupted_run_of_the_engine_removes_its_stores() {
    let place = Place::new();
    // More rounds than anybody waits for, each of which needs little room.
    let words = "bench --preset engine --seconds 1 --rounds 1000 --writers 2 \
                 --only writers,threads --max-bytes 1024TiB";
    let mut run = place.start(words);
    run.wait_until("a store is there", || {
        place
            .work_dirs()
            .first()
            .is_some_and(|dir| entries(dir).iter().any(|entry| entry.join("wal").is_dir()))
    });
    run.signal("INT");
    let answer = run.answer().expect_code(130);
    assert!(answer.stderr.contains("stopped early"), "{}", answer.stderr);
    assert_eq!(entries(place.dir()), Vec::<PathBuf>::new());
    let kept = read(&place.newest_run().join("results.json"));
    assert!(from_str::<Results>(&kept).expect("results are JSON").was_interrupted);
}
