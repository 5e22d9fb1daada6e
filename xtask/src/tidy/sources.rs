//! Rules for Rust files: length, width, header, and code that has only one home or none.

use super::SourceFile;
use super::rust_text::{code_only, has_word, split_tests};

/// Lines a file may have, its test modules not counted.
pub(super) const MOST_LINES: usize = 500;
/// Lines above which a file is listed as one to split.
pub(super) const COMFORTABLE_LINES: usize = 250;
/// Columns a line may have.
const MOST_COLUMNS: usize = 100;
/// Words that the first line of a file has at least; fewer say nothing.
const HEADER_WORDS: usize = 3;
/// Macros that mark unfinished code.
const UNFINISHED: [&str; 3] = ["todo", "dbg", "unimplemented"];

/// Counts the lines that the length rule counts.
pub(super) fn counted_lines(file: &SourceFile, text: &str) -> usize {
    if file.is_test_code() { text.lines().count() } else { split_tests(text).code.len() }
}

/// Applies all rules to one file.
pub(super) fn check(file: &SourceFile, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let path = &file.path;
    let lines = counted_lines(file, text);
    if lines > MOST_LINES {
        findings.push(format!("{path}: {lines} lines, {MOST_LINES} at most: split it"));
    }
    let header = text.lines().next().and_then(|line| line.strip_prefix("//!")).unwrap_or_default();
    let says_nothing = header.split_whitespace().count() < HEADER_WORDS;
    if says_nothing && !path.contains("/tests/") {
        findings.push(format!("{path}:1: no `//!` header that says what the file is for"));
    }
    for (line, number) in text.lines().zip(1..) {
        let columns = line.chars().count();
        if columns > MOST_COLUMNS {
            findings.push(format!("{path}:{number}: {columns} columns, {MOST_COLUMNS} at most"));
        }
    }
    findings.extend(check_code(file, text));
    findings
}

/// Applies the rules that look at code only, not at comments or literals.
fn check_code(file: &SourceFile, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let path = &file.path;
    for (line, number) in code_only(text).lines().zip(1..) {
        if has_word(line, "unsafe") && !path.starts_with("crates/sys/") {
            findings.push(format!("{path}:{number}: unsafe code has one home: crates/sys"));
        }
        for name in UNFINISHED {
            let unfinished = line.contains(&format!("{name}!")) && has_word(line, name);
            if unfinished {
                findings.push(format!("{path}:{number}: {name}! marks unfinished code"));
            }
        }
        let reads_environment = has_word(line, "env::var") || has_word(line, "env::var_os");
        if reads_environment && !may_read_environment(file) && !is_in_tests(text, number) {
            findings.push(format!("{path}:{number}: only the binary reads environment variables"));
        }
    }
    findings
}

/// Whether the file belongs to a program, or to its tests.
fn may_read_environment(file: &SourceFile) -> bool {
    let program = ["crates/highwater/", "xtask/"].iter().any(|home| file.path.starts_with(home));
    program || file.is_test_code()
}

/// Whether the line stands in a test module.
fn is_in_tests(text: &str, number: usize) -> bool {
    let tests = split_tests(text).tests;
    let line = text.lines().nth(number - 1).unwrap_or_default();
    tests.iter().any(|test_line| std::ptr::eq(test_line.as_ptr(), line.as_ptr()))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        check(&file(path, text), text)
    }

    const HEADER: &str = "//! Says what this is.\n";

    #[test]
    fn a_file_in_order_has_no_findings() {
        assert_eq!(findings("crates/a/src/lib.rs", HEADER), Vec::<String>::new());
    }

    #[test]
    fn a_missing_or_empty_header_is_found() {
        for text in ["fn main() {}\n", "//! x\n", ""] {
            assert!(findings("crates/a/src/lib.rs", text)[0].contains("header"), "{text:?}");
            assert!(findings("crates/a/tests/claims/a.rs", text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn length_counts_code_and_not_its_test_module() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    // x\n".repeat(600));
        assert!(findings("crates/a/src/lib.rs", &format!("{HEADER}{tests}")).is_empty());
        let code = format!("{HEADER}{}", "// x\n".repeat(MOST_LINES));
        assert!(findings("crates/a/src/lib.rs", &code)[0].contains("501 lines"));
    }

    #[test]
    fn wide_lines_are_counted_in_characters() {
        let fits = format!("{HEADER}//{}\n", "ä".repeat(98));
        assert!(findings("crates/a/src/lib.rs", &fits).is_empty());
        let wide = format!("{HEADER}//{}\n", "ä".repeat(99));
        assert!(findings("crates/a/src/lib.rs", &wide)[0].starts_with("crates/a/src/lib.rs:2:"));
    }

    #[test]
    fn unsafe_code_is_found_outside_its_home_but_not_in_words_about_it() {
        let text = format!("{HEADER}fn f() {{ unsafe {{ g() }} }}\n");
        assert!(findings("crates/disk/src/lib.rs", &text)[0].contains("crates/sys"));
        assert!(findings("crates/sys/src/lib.rs", &text).is_empty());
        let words =
            format!("{HEADER}#![deny(unsafe_code)] // unsafe\nconst A: &str = \"unsafe\";\n");
        assert!(findings("crates/disk/src/lib.rs", &words).is_empty());
    }

    #[test]
    fn unfinished_code_is_found() {
        let text = format!("{HEADER}fn f() {{ todo!() }}\nfn g() {{ my_todo!() }}\n");
        assert_eq!(findings("crates/a/src/lib.rs", &text).len(), 1);
    }

    #[test]
    fn libraries_do_not_read_the_environment_but_tests_and_programs_do() {
        let code = format!("{HEADER}fn f() {{ std::env::var(\"A\"); }}\n");
        assert_eq!(findings("crates/a/src/lib.rs", &code).len(), 1);
        assert!(findings("crates/highwater/src/main.rs", &code).is_empty());
        assert!(findings("crates/a/tests/all.rs", &code).is_empty());
        let test = format!("{HEADER}#[cfg(test)]\nmod tests {{\n    env::var_os(\"A\");\n}}\n");
        assert!(findings("crates/a/src/lib.rs", &test).is_empty());
    }
}
