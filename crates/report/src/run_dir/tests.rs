//! Claims about run directories: what is written comes back, and nothing is overwritten.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::sample;

const DATE: &str = "2026-11-30";

fn written() -> (TempDir, PathBuf, RunData) {
    let (data, _) = sample::run();
    let parent = TempDir::new().unwrap();
    let mut run = RunDir::create(parent.path(), "x", DATE).unwrap();
    run.write_manifest(&data.manifest).unwrap();
    for row in &data.rounds {
        run.append_round(row).unwrap();
    }
    run.finish(data.outcome.as_ref().unwrap(), &data.series, &data.samples).unwrap();
    let path = run.path().to_owned();
    (parent, path, data)
}

fn loaded(path: &Path) -> Result<RunData, RunError> {
    RunDir::open(path)?.load()
}

#[test]
fn a_finished_run_reads_back_as_it_was() {
    let (_parent, path, data) = written();
    let read = loaded(&path).unwrap();
    assert_eq!(read.manifest, data.manifest);
    assert_eq!(read.outcome, data.outcome);
    assert_eq!(read.rounds, data.rounds);
    assert_eq!(read.series, data.series);
    assert!(read.samples.keys().eq(data.samples.keys()));
    for (id, samples) in &data.samples {
        assert_eq!(read.samples[id].commit, samples.commit, "{id}");
        assert_eq!(read.samples[id].write, samples.write, "{id}");
        assert_eq!(read.samples[id].barrier, samples.barrier, "{id}");
    }
}

#[test]
fn a_run_never_gets_a_directory_that_exists() {
    let parent = TempDir::new().unwrap();
    let below = parent.path().join("runs");
    let names: Vec<String> = (0..3)
        .map(|_| {
            let run = RunDir::create(&below, "db_1.a", DATE).unwrap();
            run.path().file_name().unwrap().to_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(names, ["2026-11-30-db_1.a", "2026-11-30-db_1.a-2", "2026-11-30-db_1.a-3"]);
}

#[test]
fn names_and_dates_that_could_lead_elsewhere_are_refused() {
    let parent = TempDir::new().unwrap();
    let too_long = "x".repeat(65);
    for name in ["", ".", "..", ".hidden", "a/b", "a b", "ä", "a\n", too_long.as_str()] {
        let error = RunDir::create(parent.path(), name, DATE).unwrap_err();
        assert!(matches!(error, RunError::BadName { .. }), "{name:?}: {error}");
    }
    for date in ["", "2026-13-01", "../2026-11-30", "20261130", "2026-11-30T00:00"] {
        let error = RunDir::create(parent.path(), "x", date).unwrap_err();
        assert!(matches!(error, RunError::BadDate(_)), "{date:?}: {error}");
    }
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn a_killed_run_keeps_every_row_but_the_torn_one() {
    let (_parent, path, data) = written();
    fs::remove_file(path.join(OUTCOME)).unwrap();
    fs::remove_file(path.join(SERIES)).unwrap();
    fs::remove_dir_all(path.join(SAMPLES)).unwrap();
    let whole = fs::read(path.join(ROUNDS)).unwrap();
    let last_line = whole[..whole.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    for cut in [whole.len() - 1, last_line + 5, last_line] {
        fs::write(path.join(ROUNDS), &whole[..cut]).unwrap();
        let read = loaded(&path).unwrap();
        assert_eq!(read.rounds, data.rounds[..data.rounds.len() - 1], "cut at {cut}");
        assert_eq!(read.outcome, None);
        assert!(read.series.is_empty() && read.samples.is_empty());
    }
    for cut in [0, 10] {
        fs::write(path.join(ROUNDS), &whole[..cut]).unwrap();
        assert!(loaded(&path).unwrap().rounds.is_empty());
    }
    fs::remove_file(path.join(ROUNDS)).unwrap();
    assert!(loaded(&path).unwrap().rounds.is_empty());
}

#[test]
fn a_run_killed_while_writing_its_last_files_counts_as_killed() {
    let (_parent, path, _) = written();
    let outcome = fs::read(path.join(OUTCOME)).unwrap();
    fs::write(path.join(OUTCOME), &outcome[..outcome.len() / 2]).unwrap();
    fs::write(path.join("samples/c01.commit.hdr"), b"half").unwrap();
    let read = loaded(&path).unwrap();
    assert_eq!(read.outcome, None);
    assert!(!read.samples.contains_key("c01") && read.samples.contains_key("c02"));
}

#[test]
fn damage_names_the_file_and_the_line_and_what_to_do() {
    let (_parent, path, _) = written();
    let rounds = fs::read_to_string(path.join(ROUNDS)).unwrap();
    let damaged: Vec<String> = rounds
        .lines()
        .enumerate()
        .map(|(i, line)| if i == 3 { line.replacen(',', ",x", 1) } else { line.to_owned() })
        .collect();
    fs::write(path.join(ROUNDS), damaged.join("\n") + "\n").unwrap();
    let error = loaded(&path).unwrap_err().to_string();
    assert!(error.contains("rounds.csv:4: ") && error.contains("measure again"), "{error}");

    fs::write(path.join(ROUNDS), rounds.trim_end()).unwrap();
    let error = loaded(&path).unwrap_err().to_string();
    assert!(error.contains("rounds.csv:") && error.contains("cut short"), "{error}");

    fs::write(path.join(ROUNDS), rounds).unwrap();
    fs::write(path.join("samples/c01.commit.hdr"), b"half").unwrap();
    let error = loaded(&path).unwrap_err().to_string();
    assert!(error.contains("c01.commit.hdr"), "{error}");

    fs::write(path.join(MANIFEST), "{\n\"schema_version\": 1,\n}").unwrap();
    let error = loaded(&path).unwrap_err().to_string();
    assert!(error.contains("manifest.json:3: "), "{error}");
}

fn change_manifest(path: &Path, change: impl FnOnce(&mut Value)) {
    let file = path.join(MANIFEST);
    let mut manifest = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(&file, manifest.to_string()).unwrap();
}

#[test]
fn a_newer_schema_is_refused_before_anything_else_is_read() {
    let (_parent, path, _) = written();
    change_manifest(&path, |manifest| {
        manifest["schema_version"] = 2.into();
        manifest["highwater_version"] = "9.1.0".into();
        manifest.as_object_mut().unwrap().remove("machine");
    });
    let error = loaded(&path).unwrap_err().to_string();
    assert!(error.contains("schema version 2, this program reads up to 1"), "{error}");
    assert!(error.contains("9.1.0"), "{error}");
}

#[test]
fn a_case_id_cannot_lead_out_of_the_run() {
    let (_parent, path, data) = written();
    change_manifest(&path, |manifest| manifest["cases"][0]["id"] = "../../secret".into());
    assert!(matches!(loaded(&path), Err(RunError::BadName { .. })));
    let parent = TempDir::new().unwrap();
    let run = RunDir::create(parent.path(), "x", DATE).unwrap();
    let samples = BTreeMap::from([("../c01".to_owned(), Samples::default())]);
    let error = run.finish(data.outcome.as_ref().unwrap(), &[], &samples).unwrap_err();
    assert!(matches!(error, RunError::BadName { .. }), "{error}");
}

#[test]
fn a_directory_without_a_run_is_not_opened() {
    let parent = TempDir::new().unwrap();
    let error = RunDir::open(parent.path()).unwrap_err();
    assert!(matches!(error, RunError::NotARun(_)), "{error}");
}

#[test]
fn data_files_are_written_once() {
    let (_parent, path, data) = written();
    let mut run = RunDir::open(&path).unwrap();
    let before = fs::read(path.join(ROUNDS)).unwrap();
    assert!(run.write_manifest(&data.manifest).is_err());
    assert!(run.append_round(&data.rounds[0]).is_err());
    assert!(run.finish(data.outcome.as_ref().unwrap(), &[], &BTreeMap::new()).is_err());
    for name in [MANIFEST, ROUNDS, SERIES, SAMPLES, OUTCOME] {
        assert!(run.replace_derived(name, b"x").is_err(), "{name}");
    }
    assert_eq!(fs::read(path.join(ROUNDS)).unwrap(), before);
    loaded(&path).unwrap();
}

#[test]
fn derived_files_can_be_rebuilt_and_leave_nothing_behind() {
    let (_parent, path, _) = written();
    let run = RunDir::open(&path).unwrap();
    run.write_derived(REPORT, b"old").unwrap();
    let error = run.write_derived(REPORT, b"new").unwrap_err().to_string();
    assert!(error.contains("never overwritten"), "{error}");
    let count = || fs::read_dir(&path).unwrap().count();
    let before = count();
    run.replace_derived(REPORT, b"new").unwrap();
    assert_eq!(fs::read(path.join(REPORT)).unwrap(), b"new");
    assert_eq!(count(), before);
    run.replace_derived(PROFILE, b"fresh").unwrap();
    assert_eq!(count(), before + 1);
    assert!(run.replace_derived("../report.html", b"x").is_err());
}
