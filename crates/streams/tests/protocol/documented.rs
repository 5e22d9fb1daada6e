//! Holds docs/protocol.md against the code and the tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The protocol asks for so many things of a server.
const POINTS: u32 = 54;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn collect(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// All code and tests of some crates, one behind the other.
fn code_of(is_meant: impl Fn(&str) -> bool) -> String {
    let mut code = String::new();
    for package in std::fs::read_dir(root().join("crates")).unwrap() {
        let package = package.unwrap();
        let folders = ["src", "tests"].map(|folder| package.path().join(folder));
        let folders = folders.iter().filter(|folder| folder.is_dir());
        if is_meant(package.file_name().to_str().unwrap()) {
            folders.for_each(|folder| collect(folder, &mut code));
        }
    }
    code
}

fn document() -> String {
    std::fs::read_to_string(root().join("docs/protocol.md")).unwrap()
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What the document says about each point.
fn points(document: &str) -> BTreeMap<u32, String> {
    let (_, list) = document.split_once("## Point by point").unwrap();
    let (list, _) = list.split_once("Without a number").unwrap();
    let mut points = BTreeMap::new();
    for item in list.split("\n- **").skip(1) {
        let (number, text) = item.split_once("** ").unwrap();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let before = points.insert(number.parse().unwrap(), text);
        assert_eq!(before, None, "point {number} is there twice");
    }
    points
}

/// Points that tests say they hold, each with the test's name.
fn claims(code: &str) -> Vec<(u32, &str)> {
    let mut claims = Vec::new();
    let marks = code.match_indices("/// Point");
    for (at, mark) in marks {
        let text = code[at + mark.len()..].trim_start_matches('s');
        let name = text.split_once("fn ").and_then(|(_, rest)| rest.split_once('(')).unwrap().0;
        claims.extend(numbers(text).into_iter().map(|number| (number, name)));
    }
    claims
}

/// Reads `52`, `1, 2 and 4` and `52 to 54`, up to the first other word or the end of a sentence.
fn numbers(text: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = Vec::new();
    let mut is_range = false;
    for word in text.split_whitespace() {
        if let Ok(number) = word.trim_end_matches(['.', ',', ':']).parse() {
            let first = numbers.last().copied().filter(|_| is_range);
            numbers.extend(first.map_or(number..=number, |first| first + 1..=number));
        } else if word != "and" && word != "to" {
            break;
        }
        is_range = word == "to";
        if word.ends_with(['.', ':']) {
            break;
        }
    }
    numbers
}

#[test]
fn every_point_is_in_the_document_with_its_code_and_its_tests() {
    let document = document();
    let points = points(&document);
    assert!(points.keys().copied().eq(1..=POINTS), "{:?}", points.keys());
    let code = code_of(|_| true);
    for (number, text) in &points {
        let (_, rest) = text.split_once(" In ").unwrap_or_else(|| panic!("{number}: no code"));
        let (modules, tests) = rest
            .split_once(". Held by ")
            .unwrap_or_else(|| panic!("point {number} has no tests: {text}"));
        for part in modules.split("; ") {
            let (package, names) = part.split_once(": `").unwrap_or(("streams", part));
            for module in quoted(&format!("`{}`", names.trim_matches('`'))) {
                let file = format!("crates/{package}/src/{}", module.replace("::", "/"));
                let is_there = root().join(&file).is_dir() || root().join(file + ".rs").is_file();
                assert!(is_there, "point {number}: there is no module {module} in {package}");
            }
        }
        assert!(quoted(tests).count() > 0, "point {number}");
        for test in quoted(tests) {
            assert!(code.contains(&format!("fn {test}(")), "point {number}: no test {test}");
        }
    }
}

#[test]
fn every_test_that_names_a_point_is_in_the_document_under_it() {
    let document = document();
    let points = points(&document);
    let code = code_of(|package| matches!(package, "streams" | "server" | "log"));
    let claims = claims(&code);
    assert!(claims.len() > 150, "{}", claims.len());
    let mut missing: Vec<String> = Vec::new();
    for (number, name) in claims {
        let text = points.get(&number).map_or("", String::as_str);
        if !quoted(text).any(|test| test == name) {
            missing.push(format!("{number}: {name}"));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_test_that_the_document_names_is_there() {
    let document = document();
    let code = code_of(|_| true);
    let names: Vec<&str> = quoted(&document).filter(|name| name.matches('_').count() > 2).collect();
    assert!(names.len() > 150, "{}", names.len());
    let missing: Vec<&&str> =
        names.iter().filter(|name| !code.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn numbers_of_points_are_read_up_to_the_end_of_their_sentence() {
    assert_eq!(numbers(" 40.\n #[test]\n fn x() { 7 }"), [40]);
    assert_eq!(numbers("s 1, 2 and 4.".trim_start_matches('s')), [1, 2, 4]);
    assert_eq!(numbers(" 52 to 54, in any order"), [52, 53, 54]);
    assert_eq!(numbers(" 49 and 52: 3 cursors"), [49, 52]);
    assert_eq!(numbers(" 21, without a crash: 7"), [21]);
}
