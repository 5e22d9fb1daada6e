//! Rules for Markdown files: links lead somewhere, and one thing has one name.

use super::rust_text::has_word;
use super::{SourceFile, markdown, paths_and_folders};

/// Where the project's words are fixed.
const GLOSSARY: &str = "docs/glossary.md";
/// What stands before the words that an entry replaces.
const NOT: &str = "Not: ";

/// Checks that relative links lead to a file, and to a heading where they name one.
pub(super) fn check_links(files: &[SourceFile]) -> Vec<String> {
    let known = paths_and_folders(files);
    let mut findings = Vec::new();
    for (file, text) in markdown_files(files) {
        for (number, target) in markdown::links(text) {
            if is_elsewhere(&target) {
                continue;
            }
            let place = format!("{}:{number}", file.path);
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path =
                if path.is_empty() { Some(file.path.clone()) } else { join(&file.path, path) };
            let Some(path) = path.filter(|path| known.contains(path)) else {
                findings.push(format!("{place}: link to {target}: no such file in the tree"));
                continue;
            };
            let headings = markdown_files(files)
                .find(|(other, _)| other.path == path)
                .map(|(_, text)| markdown::anchors(text));
            let leads_nowhere = |headings: Vec<String>| !headings.iter().any(|h| h == anchor);
            if !anchor.is_empty() && headings.is_some_and(leads_nowhere) {
                findings.push(format!("{place}: link to {target}: {path} has no such heading"));
            }
        }
    }
    findings
}

/// Markdown files with their text.
fn markdown_files(files: &[SourceFile]) -> impl Iterator<Item = (&SourceFile, &str)> {
    let markdown = files.iter().filter(|file| file.has_extension("md"));
    markdown.filter_map(|file| file.text.as_deref().map(|text| (file, text)))
}

/// Whether the target is a web or mail address.
fn is_elsewhere(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

/// Resolves a target from the file it stands in; absent where it leaves the tree.
fn join(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            // An absolute target names a place on some machine.
            "" => return None,
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Checks that no document uses a word that the glossary replaces by another.
pub(super) fn check_words(files: &[SourceFile]) -> Vec<String> {
    let glossary = files.iter().find(|file| file.path == GLOSSARY);
    let replaced = replaced_words(glossary.and_then(|f| f.text.as_deref()).unwrap_or_default());
    let mut findings = Vec::new();
    for (file, text) in markdown_files(files) {
        let exempt = file.path == GLOSSARY || file.path.starts_with("reports/");
        if exempt {
            continue;
        }
        for (line, number) in markdown::prose(text).lines().zip(1..) {
            let line = line.to_lowercase();
            for (word, term) in &replaced {
                if has_word(&line, word) || has_word(&line, &format!("{word}s")) {
                    let place = format!("{}:{number}", file.path);
                    findings.push(format!("{place}: {word:?}: the glossary's word is {term:?}"));
                }
            }
        }
    }
    findings
}

/// Reads the glossary: (word not to use, term to use), in lower case.
///
/// An entry is a list item `- **term**: meaning. Not: word, other word.`, over any number of lines.
fn replaced_words(glossary: &str) -> Vec<(String, String)> {
    let mut replaced = Vec::new();
    for entry in glossary.split("\n- **").skip(1) {
        let entry = entry.split("\n\n").next().unwrap_or_default().replace('\n', " ");
        let Some((term, meaning)) = entry.split_once("**") else { continue };
        let Some((_, words)) = meaning.split_once(NOT) else { continue };
        let words = words.split(['.', ';']).next().unwrap_or_default();
        let words = words.split(',').map(|word| word.split_whitespace().collect::<Vec<_>>());
        replaced.extend(words.map(|word| (word.join(" ").to_lowercase(), term.to_owned())));
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let files = [
            file("README.md", "[a](docs/a.md#part-two) [b](docs) [c](https://example.org/x)\n"),
            file("docs/a.md", "# Part two\n[up](../README.md) [self](#part-two)\n"),
        ];
        assert_eq!(check_links(&files), Vec::<String>::new());
        let broken = [
            file("README.md", "[a](docs/b.md)\n[b](docs/a.md#part)\n[c](../x)\n[d](/docs/a.md)\n"),
            file("docs/a.md", "# Part two\n"),
        ];
        assert_eq!(check_links(&broken).len(), 4);
        assert!(check_links(&broken)[1].contains("no such heading"));
    }

    #[test]
    fn replaced_words_are_found_in_prose_and_not_in_code_or_the_glossary() {
        let glossary = "# Words\n\n- **barrier**: what makes bytes\n  stable. Not: sync point,\n  \
                        fence.\n- **run**: one measurement.\n";
        let files = [
            file(GLOSSARY, glossary),
            file("docs/a.md", "A sync point and two Fences.\nA `fence`, fenced in.\n"),
        ];
        let findings = check_words(&files);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("\"barrier\""));
    }
}
