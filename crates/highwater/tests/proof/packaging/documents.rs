//! Commands, flags, settings and metrics that documents name.

use std::collections::BTreeSet;
use std::path::Path;

use super::files::{Dockerfile, file, run};
use crate::program::{highwater, temporary};
use crate::serve::serve;

const DOCUMENTS: [&str; 3] = ["README.md", "docs/operating.md", "docs/durability.md"];
const MANUAL: &str = "docs/operating.md";
const METRICS: &str = "docs/metrics.md";
/// Names in the manual that are made like settings: one that a feature brings.
const OTHER_NAMES: [&str; 3] = ["otlp-endpoint", "body-time", "connections-per-address"];
/// Flags in the manual that are other programs'.
const OTHER_FLAGS: [&str; 3] = ["--restart", "--rm", "--stop-timeout"];

/// Where a command of a document runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On the machine.
    Here,
    /// In a container, with what the image puts into the environment.
    Image,
}

/// Arguments of the program in each line of a document's blocks of code.
fn commands(text: &str) -> Vec<(Place, Vec<String>)> {
    let mut found = Vec::new();
    let mut in_block = false;
    let text = text.replace("\\\n", " ");
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            found.extend(command(line));
        }
    }
    found
}

/// The program's arguments in a line, if it starts the program.
fn command(line: &str) -> Option<(Place, Vec<String>)> {
    let line = line.split(" #").next().unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "sudo").collect();
    let from = |at: usize| words[at..].iter().map(|word| (*word).to_owned()).collect();
    match words.as_slice() {
        ["highwater", ..] => Some((Place::Here, from(1))),
        ["cargo", "run", "--release", "--", ..] => Some((Place::Here, from(4))),
        ["docker", "run", ..] => {
            let image = words.iter().rposition(|word| *word == "highwater")?;
            Some((Place::Image, from(image + 1)))
        }
        _ => None,
    }
}

/// Has the program read a command's arguments without doing what they ask for.
#[track_caller]
fn is_understood(document: &str, place: Place, words: &[String], folder: &Path) {
    let image = if place == Place::Image { Dockerfile::read().variables() } else { Vec::new() };
    let mut words: Vec<&str> =
        words.iter().map(String::as_str).take_while(|word| !word.starts_with('>')).collect();
    let serves = words.first() == Some(&"serve");
    words.push(if serves { "--print-config" } else { "--help" });
    let answer = run(folder, &image, &words);
    assert_eq!(answer.code, Some(0), "{document}: {words:?}: {}", answer.stderr);
    assert_eq!(answer.stderr, "", "{document}: {words:?}");
}

#[test]
fn every_command_of_the_documents_is_one_that_the_program_understands() {
    let folder = temporary();
    let mut places = Vec::new();
    for document in DOCUMENTS {
        for (place, words) in commands(&file(document)) {
            is_understood(document, place, &words, folder.path());
            places.push(place);
        }
    }
    assert!(places.contains(&Place::Here) && places.contains(&Place::Image));
}

#[test]
fn every_flag_and_setting_that_the_manual_names_is_one() {
    let printed = highwater("serve --print-config").expect_code(0).stdout;
    let settings = super::settings(&printed);
    let help = highwater("serve --help").expect_code(0).stdout;
    let mut flags: BTreeSet<&str> = help.split_whitespace().map(unadorned).collect();
    flags.extend(["--insecure-no-auth"]);
    let text = file(MANUAL);
    let mut seen = 0;
    for span in spans(&text) {
        let own = ["docker", "cargo", "curl", "openssl", "highwater", "printf", "install"];
        if own.iter().any(|program| span.starts_with(program)) {
            continue;
        }
        for word in span.split_whitespace().map(unadorned) {
            if word.starts_with("--") && !OTHER_FLAGS.contains(&word) {
                assert!(flags.contains(word), "{MANUAL}: `{span}`: {word} is no flag of serve");
                seen += 1;
            } else if let Some(name) = word.strip_prefix("HIGHWATER_") {
                let name = name.to_lowercase().replace('_', "-");
                // The file of settings is named by a flag that is none.
                let is_one = settings.contains_key(&name) || name == "config";
                assert!(is_one, "{MANUAL}: `{span}`: no such setting");
            }
        }
        if is_made_like_a_setting(span) && !OTHER_NAMES.contains(&span) {
            let accepted = highwater(&format!("serve --{span}=1 --print-config"));
            let is_none = accepted.stderr.contains("unexpected argument");
            assert!(!is_none, "{MANUAL}: {span} is no setting");
            seen += 1;
        }
    }
    assert!(seen > 30, "the manual names settings: {seen}");
}

/// A word without its value, and without what a help text puts around it.
fn unadorned(word: &str) -> &str {
    let word = word.split('=').next().unwrap_or_default();
    word.trim_matches(['[', ']', ',', '.', ')', '('])
}

/// What stands between backticks within a paragraph.
fn spans(text: &str) -> Vec<&str> {
    let blocks = text.split("```").step_by(2);
    let spans = blocks.flat_map(|prose| prose.split('`').skip(1).step_by(2));
    spans.filter(|span| !span.contains('\n')).collect()
}

fn is_made_like_a_setting(span: &str) -> bool {
    let of_words = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    span.contains('-') && span.split('-').all(|part| !part.is_empty() && part.chars().all(of_words))
}

/// What a server says of its metrics: for each its name, as it is asked for, its type, labels and
/// what it is, in the form of the document's rows.
fn rows_of(metrics: &str) -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    for line in metrics.lines() {
        let Some((family, help)) =
            line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let kind = format!("# TYPE {family} ");
        let kind = metrics.lines().find_map(|line| line.strip_prefix(&kind));
        let kind = kind.unwrap_or_else(|| panic!("{family} has no type"));
        let (name, sample) = match kind {
            "counter" => (format!("{family}_total"), format!("{family}_total")),
            "histogram" => (family.to_owned(), format!("{family}_count")),
            _ => (family.to_owned(), family.to_owned()),
        };
        let sample = metrics.lines().find_map(|line| line.strip_prefix(&sample));
        let sample = sample.unwrap_or_else(|| panic!("{family} has no sample to know labels by"));
        let labels = sample.strip_prefix('{').and_then(|rest| rest.split_once("\"}")).map(|all| {
            let names = all.0.split("\",").map(|one| one.split('=').next());
            names.flatten().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        });
        let (labels, help) = (labels.unwrap_or_default(), help.trim_end_matches('.'));
        rows.insert(format!("| `{name}` | {kind} | {labels} | {help} |"));
    }
    rows
}

#[test]
fn every_metric_is_in_the_list_as_the_server_says_it_is_and_no_other() {
    let folder = temporary();
    let server = serve(folder.path(), &[]);
    assert_eq!(server.ask("PUT", "/v1/stream/hello", "", "").0, 201);
    let told = rows_of(&server.ask("GET", "/metrics", "", "").1);
    assert_eq!(server.end("-TERM"), Some(0));
    let text = file(METRICS);
    let listed: BTreeSet<String> =
        text.lines().filter(|line| line.starts_with("| `")).map(ToOwned::to_owned).collect();
    assert!(told.len() > 50, "{told:?}");
    let missing: Vec<_> = told.difference(&listed).collect();
    let foreign: Vec<_> = listed.difference(&told).collect();
    assert!(missing.is_empty() && foreign.is_empty(), "missing {missing:#?}, foreign {foreign:#?}");
    // Names in its text are metrics, too.
    let known: BTreeSet<&str> = told.iter().filter_map(|row| row.split('`').nth(1)).collect();
    for document in [METRICS, MANUAL] {
        for span in spans(&file(document)) {
            let is_one = !span.starts_with("highwater_") || known.contains(span);
            assert!(is_one, "{document}: {span}");
        }
    }
}

#[test]
fn commands_are_found_in_blocks_and_a_wrong_one_is_not_understood() {
    let text = "highwater no\n```\ncurl x\nhighwater serve --nope # why\n\
                docker run -v a:/data highwater \\\n    check /data\n```\n";
    let found = commands(text);
    assert_eq!(found[0], (Place::Here, vec!["serve".to_owned(), "--nope".to_owned()]));
    assert_eq!(found[1], (Place::Image, vec!["check".to_owned(), "/data".to_owned()]));
    assert_eq!(found.len(), 2);
    let (folder, words) = (temporary(), ["serve", "--nope", "--print-config"]);
    assert_eq!(run(folder.path(), &[], &words).code, Some(2));
}
