//! Takes Rust source apart without parsing it: code without comments and literals, tests apart
//! from the rest. Good enough to count and to look for words; not a lexer for compilers.

/// Returns the source with the insides of comments, strings and characters blanked; every line
/// keeps its number.
pub(super) fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let literal = literal_length(rest, code.chars().next_back());
        if literal == 0 {
            code.push(next);
            rest = &rest[next.len_utf8()..];
        } else {
            code.extend(rest[..literal].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[literal..];
        }
    }
    code
}

/// Bytes of the comment or literal at the start of `rest`; 0 where there is none.
fn literal_length(rest: &str, before: Option<char>) -> usize {
    let end_of = |end: &str, from: usize| rest[from..].find(end).map(|at| from + at);
    if rest.starts_with("//") {
        return end_of("\n", 0).unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_length(rest);
    }
    let inside_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !inside_name {
        let raw = rest.strip_prefix("br").or_else(|| rest.strip_prefix('r'));
        if let Some(raw) = raw {
            let hashes = raw.len() - raw.trim_start_matches('#').len();
            let start = rest.len() - raw.len() + hashes + 1;
            if raw[hashes..].starts_with('"') {
                let close = format!("\"{}", "#".repeat(hashes));
                return end_of(&close, start).map_or(rest.len(), |at| at + close.len());
            }
        }
    }
    match rest.chars().next() {
        Some('"') => quoted_length(rest, '"'),
        Some('\'') if is_character(rest) => quoted_length(rest, '\''),
        _ => 0,
    }
}

/// Bytes of a block comment, which may hold others.
fn block_comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Whether the quote opens a character and not a lifetime.
fn is_character(rest: &str) -> bool {
    let mut after = rest.chars().skip(1);
    match (after.next(), after.next()) {
        (Some('\\'), _) => true,
        (Some(_), Some(close)) => close == '\'',
        _ => false,
    }
}

/// Bytes up to the closing quote, escapes skipped.
fn quoted_length(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    rest.len()
}

/// A file's lines, its `#[cfg(test)] mod ... { }` blocks apart from the rest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    /// Everything else.
    pub(super) code: Vec<&'a str>,
    /// Lines of test modules.
    pub(super) tests: Vec<&'a str>,
}

/// Takes test modules out: from `#[cfg(test)]` before a `mod` with a body, both at the left
/// margin, to the closing brace at the left margin.
pub(super) fn split_tests(source: &str) -> Parts<'_> {
    let lines: Vec<&str> = source.lines().collect();
    let mut parts = Parts::default();
    let mut inside = false;
    for (at, line) in lines.iter().enumerate() {
        inside |= *line == "#[cfg(test)]" && opens_module(&lines[at + 1..]);
        if inside { &mut parts.tests } else { &mut parts.code }.push(line);
        inside &= *line != "}";
    }
    parts
}

/// Whether the next item, behind its attributes, is a module with a body.
fn opens_module(lines: &[&str]) -> bool {
    let item = lines.iter().find(|line| !line.starts_with("#["));
    item.is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
}

/// Whether the text holds the word, not as a part of a longer one.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_keep_their_numbers() {
        let source = "a /* b /* c */\n d */ e // f\n\"g\\\"h\" i r#\"j\"k\"# l 'm' n '\\'' o";
        let code = code_only(source);
        let words: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(words, ["a", "e", "i", "l", "n", "o"]);
        assert_eq!(code.lines().count(), source.lines().count());
    }

    #[test]
    fn lifetimes_and_names_that_end_in_r_are_code() {
        assert_eq!(code_only("fn f<'a>(x: &'a str)"), "fn f<'a>(x: &'a str)");
        assert_eq!(code_only("br\"x\" for r in r#type").trim(), "for r in r#type");
        let code = code_only("bar(b'x', 'ä', \"unclosed");
        assert_eq!(code.split_whitespace().collect::<String>(), "bar(b,,");
    }

    #[test]
    fn a_test_module_is_apart_wherever_it_stands() {
        let source = "a\n#[cfg(test)]\nmod tests {\n    b\n}\nc\n#[cfg(test)]\nmod more;\n";
        let parts = split_tests(source);
        assert_eq!(parts.code, ["a", "c", "#[cfg(test)]", "mod more;"]);
        assert_eq!(parts.tests, ["#[cfg(test)]", "mod tests {", "    b", "}"]);
    }

    #[test]
    fn a_word_is_not_found_inside_a_longer_one() {
        assert!(has_word("(M1): x", "M1"));
        assert!(!has_word("M12 and unsafe_M1", "M1"));
    }
}
