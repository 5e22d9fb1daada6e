//! Rules about the tree that no other tool checks.
//!
//! `sources` looks at Rust files, `docs` at Markdown (links, words), `invariants` at the numbers in
//! ARCHITECTURE.md, `tree` at what may be committed at all. `rust_text` and `markdown` take a file
//! apart. Every rule is a function from text to findings; only `check` reads the disk.

mod docs;
mod invariants;
mod markdown;
mod rust_text;
mod sources;
mod tree;

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// One file as the rules see it.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    /// Path from the root, with `/`.
    pub(crate) path: String,
    /// Size, bytes.
    pub(crate) size_bytes: u64,
    /// Content; absent where it is not UTF-8 text.
    pub(crate) text: Option<String>,
}

impl SourceFile {
    /// Whether the name ends so.
    fn has_extension(&self, extension: &str) -> bool {
        std::path::Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// Whether all of the file is test code.
    fn is_test_code(&self) -> bool {
        let in_tests = self.path.split('/').any(|part| part == "tests" || part == "benches");
        in_tests || self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs")
    }
}

/// What the rules found.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What must be mended, as `path:line: what`.
    pub(crate) findings: Vec<String>,
    /// Source files above the comfortable size, longest first.
    pub(crate) long_files: Vec<String>,
}

/// Checks the whole tree.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    let mut files = Vec::new();
    for path in workspace.files()? {
        let bytes = std::fs::read(workspace.root.join(&path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        files.push(SourceFile {
            path: path.to_string_lossy().into_owned(),
            size_bytes: u64::try_from(bytes.len()).context("file size")?,
            text: String::from_utf8(bytes).ok(),
        });
    }
    Ok(check_files(&files))
}

/// Applies every rule.
fn check_files(files: &[SourceFile]) -> Outcome {
    let mut outcome = Outcome::default();
    let rust: Vec<&SourceFile> = files.iter().filter(|file| file.has_extension("rs")).collect();
    let mut lengths = Vec::new();
    for file in &rust {
        let text = file.text.as_deref().unwrap_or_default();
        outcome.findings.extend(sources::check(file, text));
        lengths.push((sources::counted_lines(file, text), &file.path));
    }
    lengths.retain(|(lines, _)| *lines > sources::COMFORTABLE_LINES);
    lengths.sort_by(|a, b| b.cmp(a));
    outcome.long_files = lengths.iter().map(|(n, path)| format!("{path}: {n} lines")).collect();
    outcome.findings.extend(docs::check_links(files));
    outcome.findings.extend(docs::check_words(files));
    outcome.findings.extend(invariants::check(files));
    outcome.findings.extend(tree::check(files));
    outcome
}

/// Every path, and every folder that holds one.
fn paths_and_folders(files: &[SourceFile]) -> BTreeSet<String> {
    let mut known = BTreeSet::from([String::new()]);
    for file in files {
        known.insert(file.path.clone());
        let mut rest = file.path.as_str();
        while let Some((folder, _)) = rest.rsplit_once('/') {
            known.insert(folder.to_owned());
            rest = folder;
        }
    }
    known
}

/// Makes a file for tests of the rules.
#[cfg(test)]
fn file(path: &str, text: &str) -> SourceFile {
    let size_bytes = u64::try_from(text.len()).expect("test texts are short");
    SourceFile { path: path.to_owned(), size_bytes, text: Some(text.to_owned()) }
}
