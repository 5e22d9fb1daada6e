//! Rule for numbered invariants: each is asserted in the code and held by a test.
//!
//! ARCHITECTURE.md states them as list items, `- **M3** ...`; the number then appears as a word in
//! an assertion's message or comment, and in a test.

use super::SourceFile;
use super::rust_text::{has_word, split_tests};

/// Where invariants are stated.
const HOME: &str = "ARCHITECTURE.md";

/// Checks every stated invariant.
pub(super) fn check(files: &[SourceFile]) -> Vec<String> {
    let home = files.iter().find(|file| file.path == HOME);
    let ids = stated(home.and_then(|file| file.text.as_deref()).unwrap_or_default());
    let (code, tests) = code_and_tests(files);
    let mut findings = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        if ids[..at].contains(id) {
            findings.push(format!("{HOME}: {id} is stated twice"));
        }
        if !code.iter().any(|line| has_word(line, id)) {
            findings.push(format!("{HOME}: {id} is asserted nowhere: no source line names it"));
        }
        if !tests.iter().any(|line| has_word(line, id)) {
            findings.push(format!("{HOME}: {id} is held by no test: none names it"));
        }
    }
    findings
}

/// Reads the numbers: a capital letter and digits, in bold, at the start of a list item.
fn stated(text: &str) -> Vec<String> {
    let items = text.lines().filter_map(|line| line.trim_start().strip_prefix("- **"));
    let ids = items.filter_map(|item| item.split_once("**").map(|(id, _)| id));
    ids.filter(|id| is_number(id)).map(ToOwned::to_owned).collect()
}

/// Whether this is the number of an invariant.
fn is_number(id: &str) -> bool {
    let digits = id.strip_prefix(|first: char| first.is_ascii_uppercase()).unwrap_or_default();
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

/// Splits the lines of all crates into code and tests.
fn code_and_tests(files: &[SourceFile]) -> (Vec<&str>, Vec<&str>) {
    let (mut code, mut tests) = (Vec::new(), Vec::new());
    let crates = files.iter().filter(|f| f.path.starts_with("crates/") && f.has_extension("rs"));
    for file in crates {
        let text = file.text.as_deref().unwrap_or_default();
        if file.is_test_code() {
            tests.extend(text.lines());
        } else {
            let parts = split_tests(text);
            code.extend(parts.code);
            tests.extend(parts.tests);
        }
    }
    (code, tests)
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const HOME_TEXT: &str = "# A\n- **M1** holds.\n- **M12** too.\n- **Mode** is no number.\n";

    #[test]
    fn an_invariant_needs_an_assertion_and_a_test() {
        let code = "assert!(a, \"M1: b\");\n// M12: c\n#[cfg(test)]\nmod tests {\n    // M1\n}\n";
        let files = [
            file(HOME, HOME_TEXT),
            file("crates/a/src/lib.rs", code),
            file("crates/a/tests/all.rs", "// M12\n"),
        ];
        assert_eq!(check(&files), Vec::<String>::new());
        let findings = check(&files[..2]);
        assert_eq!(findings, ["ARCHITECTURE.md: M12 is held by no test: none names it"]);
        assert_eq!(check(&files[..1]).len(), 4);
    }

    #[test]
    fn a_number_is_stated_once() {
        let files = [file(HOME, "- **M1** a\n- **M1** b\n"), file("crates/a/tests/x.rs", "M1")];
        assert!(check(&files).iter().any(|finding| finding.contains("twice")));
    }
}
