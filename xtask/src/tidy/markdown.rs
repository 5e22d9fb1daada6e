//! Takes Markdown apart: prose without code, links, and the anchors that headings make.

use std::collections::BTreeMap;

/// Returns the text with fenced blocks and code spans blanked; every line keeps its number.
pub(super) fn prose(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => prose.push_str(&without_code_spans(line)),
            _ => {}
        }
        prose.push('\n');
    }
    prose
}

/// Blanks what stands between backticks on one line.
fn without_code_spans(line: &str) -> String {
    let pieces: Vec<&str> = line.split('`').collect();
    let closed = pieces.len() - usize::from(pieces.len().is_multiple_of(2));
    let shown = pieces.iter().enumerate().map(|(at, piece)| {
        let is_code = at % 2 == 1 && at < closed;
        if is_code { " ".repeat(piece.chars().count()) } else { (*piece).to_owned() }
    });
    shown.collect::<Vec<_>>().join("`")
}

/// A link: the line it stands on, from 1, and its target.
pub(super) type Link = (usize, String);

/// Finds the targets of `[text](target)` and `[name]: target`.
pub(super) fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, number) in prose(text).lines().zip(1..) {
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let end = rest.find([')', ' ']).unwrap_or(rest.len());
            links.push((number, rest[..end].trim_matches(['<', '>']).to_owned()));
        }
        let definition =
            line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((_, target)) = definition {
            let target = target.split_whitespace().next().unwrap_or_default();
            links.push((number, target.to_owned()));
        }
    }
    links
}

/// Lists the anchors of a document, as code hosts make them from headings.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    let mut in_fence = false;
    for line in text.lines() {
        in_fence ^= line.trim_start().starts_with("```");
        let hashes = line.len() - line.trim_start_matches('#').len();
        let is_heading = !in_fence && (1..=6).contains(&hashes) && line[hashes..].starts_with(' ');
        if is_heading {
            let slug = slug(&line[hashes..]);
            let count = seen.entry(slug.clone()).or_default();
            anchors.push(if *count == 0 { slug } else { format!("{slug}-{count}") });
            *count += 1;
        }
        for (at, mark) in line.match_indices("id=\"") {
            let rest = &line[at + mark.len()..];
            anchors.extend(rest.split_once('"').map(|(id, _)| id.to_owned()));
        }
    }
    anchors
}

/// Makes a heading's anchor.
fn slug(heading: &str) -> String {
    let lower = heading.trim().to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_not_prose() {
        let text = "a `b` c\n```\nd\n```\ne `f\n";
        let prose = prose(text);
        let words: Vec<&str> = prose.split_whitespace().collect();
        assert_eq!(words, ["a", "`", "`", "c", "e", "`f"]);
        assert_eq!(prose.lines().count(), 5);
    }

    #[test]
    fn links_are_found_with_their_lines() {
        let text = "[a](b.md#c) and [d](<e.md> \"title\")\n\n[f]: g.md\n`[h](i)`\n";
        let expected = [(1, "b.md#c"), (1, "e.md"), (3, "g.md")];
        assert_eq!(links(text), expected.map(|(line, to)| (line, to.to_owned())));
    }

    #[test]
    fn anchors_are_made_as_code_hosts_make_them() {
        let text = "# The `log`, in short\n## Part\n## Part\n```\n# no\n```\n<a id=\"x\"></a>\n";
        assert_eq!(anchors(text), ["the-log-in-short", "part", "part-1", "x"]);
    }
}
