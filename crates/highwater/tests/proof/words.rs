//! The words of the program: help, completions, man pages, and the comparison of runs.

use std::path::{Path, PathBuf};

use highwater_probe::analyse::runs::RunComparison;
use highwater_stats::Verdict;

use crate::program::{Place, entries, highwater, read};

const WORDS: [&str; 9] =
    ["probe", "bench", "compare", "report", "serve", "check", "torture", "completions", "man"];

#[test]
fn the_help_of_every_word_shows_an_example() {
    let all = highwater("--help").expect_code(0).stdout;
    for word in WORDS {
        assert!(all.contains(word), "{word} is not in: {all}");
        let help = highwater(&format!("{word} --help")).expect_code(0).stdout;
        assert!(help.contains("Example"), "{word}: {help}");
        assert!(help.contains(&format!("highwater {word}")), "{word}: {help}");
    }
    assert!(all.contains("Exit codes"));
}

#[test]
fn completions_know_every_word_in_three_shells() {
    for (shell, mark) in
        [("bash", "complete -F"), ("zsh", "#compdef highwater"), ("fish", "complete -c")]
    {
        let script = highwater(&format!("completions {shell}")).expect_code(0).stdout;
        assert!(script.contains(mark), "{shell}");
        for word in WORDS.into_iter().chain(["initialised", "rwf_dsync", "interval"]) {
            let known = script.contains(word);
            // Values of free lists are not completed; words and presets are.
            assert!(known || ["initialised", "rwf_dsync"].contains(&word), "{shell}: {word}");
        }
    }
    highwater("completions tcsh").expect_error(&["tcsh", "fish"]);
}

#[test]
fn a_man_page_is_written_for_every_word() {
    let place = Place::new();
    highwater(&format!("man {}", place.dir().display())).expect_code(0);
    let mut expected: Vec<PathBuf> =
        WORDS.iter().map(|word| place.dir().join(format!("highwater-{word}.1"))).collect();
    expected.push(place.dir().join("highwater.1"));
    expected.sort();
    let pages = entries(place.dir());
    assert!(expected.iter().all(|page| pages.contains(page)), "{pages:?}");
    for page in &expected {
        let text = read(page);
        assert!(text.contains(".TH") && text.contains(".SH NAME"), "{}", page.display());
    }
    let bench = read(&place.dir().join("highwater-bench.1"));
    assert!(bench.contains("sync\\-every") || bench.contains("every"), "{bench}");
}

#[test]
fn an_unknown_word_or_value_is_an_error_with_the_choices() {
    highwater("measure").expect_error(&["measure", "--help"]);
    highwater("bench --barrier flush .").expect_error(&["flush", "fdatasync", "rwf_dsync"]);
    highwater("bench --preset all .").expect_error(&["all", "interval"]);
    highwater("bench --block 4KB .").expect_error(&["4KB", "KiB"]);
    highwater("bench").expect_error(&["DIRECTORY"]);
    highwater("").expect_error(&["probe", "bench"]);
}

/// A run whose rounds can be compared.
fn measured(place: &Place) -> PathBuf {
    place.measure("bench --preset commit --iterations 10 --warmup 2 --rounds 6 --capacity 1M");
    place.newest_run()
}

fn compare(baseline: &Path, candidate: &Path) -> String {
    format!("compare {} {}", baseline.display(), candidate.display())
}

#[test]
fn a_run_compared_with_itself_shows_no_difference() {
    let place = Place::new();
    let run = measured(&place);
    for measure in ["p50", "mean", "p99", "throughput"] {
        let words = format!("{} --measure {measure}", compare(&run, &run));
        let text = highwater(&words).expect_code(0).stdout;
        assert_eq!(text.matches("no difference").count(), 9, "{text}");
        let json = highwater(&format!("{words} --json")).expect_code(0).stdout;
        let found: RunComparison = serde_json::from_str(&json).expect("a comparison");
        assert_eq!((found.cases.len(), found.left_out.len(), found.differences.len()), (9, 0, 0));
        for case in &found.cases {
            assert_eq!(case.comparison.verdict, Verdict::NoDifference, "{}", case.label);
            assert!((case.comparison.ratio.ratio - 1.0).abs() < 1e-12, "{}", case.label);
        }
    }
}

#[test]
fn a_run_that_is_plainly_slower_ends_with_one() {
    let place = Place::new();
    place.measure("bench --iterations 20 --warmup 2 --rounds 6");
    let fast = place.newest_run();
    let slow = place.runs().join("slow");
    copy_run(&fast, &slow, |row| {
        // Every time of the row ten times as long.
        let mut fields: Vec<String> = row.split(',').map(ToOwned::to_owned).collect();
        for field in &mut fields[COMMIT_TIMES] {
            let value: f64 = field.parse().expect("a time");
            *field =
                if field.contains('.') { format!("{}", value * 10.0) } else { format!("{field}0") };
        }
        fields.join(",")
    });
    let answer = highwater(&compare(&fast, &slow)).expect_code(1);
    assert!(answer.stdout.contains("SLOWER"), "{}", answer.stdout);
    let answer = highwater(&compare(&slow, &fast)).expect_code(0);
    assert!(answer.stdout.contains("faster"), "{}", answer.stdout);
}

/// Columns of `rounds.csv` from the mean of the commits to their maximum.
const COMMIT_TIMES: std::ops::Range<usize> = 9..15;

/// Copies a run, changing each row of its rounds.
fn copy_run(from: &Path, to: &Path, change: impl Fn(&str) -> String) {
    std::fs::create_dir_all(to.join("samples")).expect("a directory");
    for path in entries(from).into_iter().chain(entries(&from.join("samples"))) {
        let name = path.strip_prefix(from).expect("it lies there").to_owned();
        if path.is_dir() {
            continue;
        }
        if name == Path::new("rounds.csv") {
            let text = read(&path);
            let (head, rows) = text.split_once('\n').expect("a header");
            assert_eq!(head.split(',').nth(COMMIT_TIMES.start), Some("commit_mean_ns"));
            assert_eq!(head.split(',').nth(COMMIT_TIMES.end - 1), Some("commit_max_ns"));
            let rows: Vec<String> = rows.lines().map(&change).collect();
            std::fs::write(to.join(name), format!("{head}\n{}\n", rows.join("\n"))).expect("rows");
        } else {
            std::fs::copy(&path, to.join(name)).expect("a copy");
        }
    }
}

#[test]
fn runs_of_another_method_are_refused_with_the_reason() {
    let place = Place::new();
    place.measure("bench --iterations 5 --rounds 4");
    let run = place.newest_run();
    let other = place.runs().join("other");
    copy_run(&run, &other, ToOwned::to_owned);
    let manifest = read(&other.join("manifest.json"));
    let mut json: serde_json::Value = serde_json::from_str(&manifest).expect("the manifest");
    let version = json["method_version"].as_u64().expect("a version");
    json["method_version"] = (version + 1).into();
    std::fs::write(other.join("manifest.json"), json.to_string()).expect("the manifest");
    let answer = highwater(&compare(&run, &other)).expect_error(&["cannot be compared", "method"]);
    assert_eq!(answer.stdout, "");
    assert!(answer.stderr.contains(&format!("method {version} and method {}", version + 1)));
}

#[test]
fn runs_without_a_common_case_and_directories_without_a_run_are_refused() {
    let place = Place::new();
    place.measure("bench --barrier fsync --iterations 5 --rounds 4");
    let one = place.newest_run();
    place.measure("bench --barrier fdatasync --iterations 5 --rounds 4");
    let other = place.newest_run();
    highwater(&compare(&one, &other)).expect_error(&["cannot be compared", "only in"]);
    let empty = place.dir().to_owned();
    highwater(&compare(&one, &empty)).expect_error(&["cannot read the run"]);
    highwater(&format!("report {}", empty.display())).expect_error(&[&empty.display().to_string()]);
    highwater(&format!("{} --threshold -1", compare(&one, &one))).expect_code(2);
}

#[test]
fn a_run_written_by_a_newer_program_is_refused() {
    let place = Place::new();
    place.measure("bench --iterations 5 --rounds 1");
    let run = place.newest_run();
    let manifest = read(&run.join("manifest.json"));
    let mut json: serde_json::Value = serde_json::from_str(&manifest).expect("the manifest");
    json["schema_version"] = 1_000_000.into();
    std::fs::write(run.join("manifest.json"), json.to_string()).expect("the manifest");
    let before = read(&run.join("results.json"));
    highwater(&format!("report {}", run.display())).expect_error(&["1000000"]);
    assert_eq!(read(&run.join("results.json")), before);
}
