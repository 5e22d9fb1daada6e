//! Patterns over stream names, for subscriptions and for who may do what: `*` is any text within
//! one segment, `**` is any number of segments.

use crate::error::Problem;
use crate::path::{RESERVED, StreamPath};

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    segments: Vec<String>,
}

/// Longest pattern, bytes: no name is longer.
const MOST_BYTES: usize = 4096;
/// A segment that is any number of them.
pub(super) const DEEP: &str = "**";

impl Glob {
    /// Reads a pattern; slashes at its ends and doubled ones mean nothing.
    ///
    /// # Errors
    /// [`Problem::BadField`] for one that is empty or reaches into reserved names.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let segments: Vec<String> =
            text.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect();
        let bad = |why| Err(Problem::BadField { name: "pattern", why });
        match segments.first().map(String::as_str) {
            None => bad("it is empty"),
            Some(RESERVED) => bad("its first segment, __ds, is reserved"),
            Some(_) if text.len() > MOST_BYTES => bad("it has more than 4096 bytes"),
            Some(_) if segments.iter().any(|segment| segment == "." || segment == "..") => {
                bad("it has dot segments, which no stream has")
            }
            Some(_) => Ok(Self { segments }),
        }
    }

    /// Takes segments as they are: they may be reserved.
    pub fn of(segments: Vec<String>) -> Self {
        Self { segments }
    }

    /// Gives its segments.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().map(String::as_str)
    }

    /// Gives its first segment.
    pub fn first(&self) -> Option<&str> {
        self.segments.first().map(String::as_str)
    }

    /// Whether it is the pattern that matches every name.
    pub fn is_everything(&self) -> bool {
        self.segments.as_slice() == [DEEP]
    }

    /// Whether a stream's name matches.
    pub fn matches(&self, path: &StreamPath) -> bool {
        let names: Vec<&str> = path.segments().collect();
        self.covers(&names)
    }

    /// Whether every name matches that begins with these segments, however it goes on.
    pub fn covers_below(&self, names: &[&str]) -> bool {
        // What the last segment has taken in, it takes in with more behind it.
        self.segments.last().is_some_and(|last| last == DEEP) && self.covers(names)
    }

    /// Whether every name matches that another pattern matches, as far as one can see segment by
    /// segment: what is covered is, but some of what is not said to be is, too.
    pub fn covers_all_of(&self, other: &Self) -> bool {
        let others: Vec<&str> = other.segments().collect();
        // A star of the other's is a letter here, which only a star takes in.
        self.covers_by(&others, |own, other| other != DEEP && segment_matches(own, other))
    }

    /// Whether a name of these segments matches. The cost is the product of both lengths at most.
    pub fn covers(&self, names: &[&str]) -> bool {
        self.covers_by(names, segment_matches)
    }

    fn covers_by(&self, names: &[&str], matches: impl Fn(&str, &str) -> bool) -> bool {
        let (mut at, mut name) = (0, 0);
        // Where the last `**` stands, and the first name it has not taken.
        let mut deep: Option<(usize, usize)> = None;
        while name < names.len() {
            match self.segments.get(at) {
                Some(segment) if segment == DEEP => {
                    deep = Some((at, name));
                    at += 1;
                }
                Some(segment) if matches(segment, names[name]) => {
                    (at, name) = (at + 1, name + 1);
                }
                _ => {
                    let Some((star, taken)) = deep else { return false };
                    deep = Some((star, taken + 1));
                    (at, name) = (star + 1, taken + 1);
                }
            }
        }
        self.segments[at..].iter().all(|segment| segment == DEEP)
    }

    /// How every name that matches begins.
    pub fn prefix(&self) -> String {
        let literal = self.segments.iter().take_while(|segment| !segment.contains('*'));
        literal.map(String::as_str).collect::<Vec<_>>().join("/")
    }
}

impl std::fmt::Display for Glob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.segments.join("/"))
    }
}

/// Whether a name matches a segment, in which each `*` is any text.
pub(super) fn segment_matches(segment: &str, name: &str) -> bool {
    let mut parts = segment.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Glob::parse(pattern).unwrap().matches(&StreamPath::relative(name).unwrap())
    }

    /// Point 49.
    #[test]
    fn one_star_is_one_segment_and_two_are_any_number() {
        for (pattern, yes, no) in [
            ("events/*", &["events/a"][..], &["events", "events/a/b", "x/events/a"][..]),
            ("events/**", &["events", "events/a", "events/a/b"], &["event", "eventsx/a"]),
            ("**", &["a", "a/b/c"], &[]),
            ("**/x", &["x", "a/x", "a/b/x"], &["x/a", "ax"]),
            ("a/**/b/*", &["a/b/c", "a/x/b/c", "a/b/b/b"], &["a/b", "a/c/c"]),
            ("a/**/b/**/c", &["a/b/c", "a/x/b/y/z/c"], &["a/c/b", "a/b"]),
            ("user-*", &["user-", "user-7"], &["user", "user-7/x"]),
            ("a*b*c", &["abc", "axxbyyc"], &["ab", "acb", "abcd"]),
            ("*.log", &["x.log", ".log"], &["x.log2"]),
            ("/events//a/", &["events/a"], &["events"]),
        ] {
            for name in yes {
                assert!(matches(pattern, name), "{pattern} {name}");
            }
            for name in no {
                assert!(!matches(pattern, name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn patterns_that_no_stream_can_match_are_refused() {
        for pattern in ["", "/", "__ds/**", "/__ds", "a/../b", "./a", &"a".repeat(4097)] {
            assert!(Glob::parse(pattern).is_err(), "{pattern}");
        }
        assert!(Glob::parse(&"a".repeat(4096)).is_ok());
        assert_eq!(Glob::parse("a/b/*/c").unwrap().prefix(), "a/b");
        assert_eq!(Glob::parse("a*/b").unwrap().prefix(), "");
    }

    #[test]
    fn a_pattern_covers_another_where_it_matches_all_that_the_other_does() {
        let covers = |wide: &str, narrow: &str| {
            Glob::parse(wide).unwrap().covers_all_of(&Glob::parse(narrow).unwrap())
        };
        for (wide, yes, no) in [
            ("**", &["**", "*", "a", "a/**/b", "*/a*"][..], &[][..]),
            ("events/**", &["events", "events/*", "events/**", "events/a*/**"], &["**", "*", "e*"]),
            ("events/*", &["events/*", "events/a", "events/a*"], &["events/**", "events", "*/a"]),
            ("a*", &["a*", "ab*", "a*b", "abc"], &["*", "*a", "**", "a*/b"]),
            ("**/log", &["log", "a/log", "**/log", "a/**/log"], &["**", "a/**", "**/l*"]),
            ("*/**", &["a", "*", "*/**", "a/**"], &["**"]),
        ] {
            for narrow in yes {
                assert!(covers(wide, narrow), "{wide} {narrow}");
            }
            for narrow in no {
                assert!(!covers(wide, narrow), "{wide} {narrow}");
            }
        }
    }

    #[test]
    fn a_pattern_of_many_stars_costs_little() {
        let deep = Glob::parse(&vec!["**/a"; 40].join("/")).unwrap();
        assert!(!deep.covers(&[&["a"; 60][..], &["b"]].concat()));
        let wide = Glob::parse(&"*a".repeat(40)).unwrap();
        assert!(!wide.covers(&[&("a".repeat(4000) + "b")]));
    }

    /// A plain, slow way to say the same.
    fn slowly(pattern: &[&str], name: &[&str]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((&"**", rest)), _) => {
                slowly(rest, name) || (!name.is_empty() && slowly(pattern, &name[1..]))
            }
            (Some((&first, rest)), Some((&segment, names))) => {
                (first == "*" || first == segment) && slowly(rest, names)
            }
            _ => false,
        }
    }

    proptest! {
        /// Point 49.
        #[test]
        fn matching_is_what_the_rules_say(
            pattern in prop::collection::vec("a|b|\\*|\\*\\*", 1..7),
            name in prop::collection::vec("a|b", 1..7)
        ) {
            let patterns: Vec<&str> = pattern.iter().map(String::as_str).collect();
            let names: Vec<&str> = name.iter().map(String::as_str).collect();
            let is_match = matches(&pattern.join("/"), &name.join("/"));
            prop_assert_eq!(is_match, slowly(&patterns, &names));
        }

        #[test]
        fn what_is_covered_below_a_name_matches_however_it_goes_on(
            pattern in prop::collection::vec("a|b|\\*|\\*\\*", 1..5),
            name in prop::collection::vec("a|b", 0..4),
            more in prop::collection::vec("a|b", 0..4),
        ) {
            let glob = Glob::of(pattern);
            let names: Vec<&str> = name.iter().map(String::as_str).collect();
            let all: Vec<&str> = name.iter().chain(&more).map(String::as_str).collect();
            prop_assert!(!glob.covers_below(&names) || glob.covers(&all));
        }

        #[test]
        fn what_covers_a_pattern_matches_all_that_it_does(
            wide in prop::collection::vec("a|b|a\\*|\\*b|\\*|\\*\\*", 1..5),
            narrow in prop::collection::vec("a|b|ab|a\\*|\\*|\\*\\*", 1..5),
            name in prop::collection::vec("a|b|ab|aab", 1..5),
        ) {
            let (wide, narrow) = (Glob::of(wide), Glob::of(narrow));
            let names: Vec<&str> = name.iter().map(String::as_str).collect();
            let is_covered = wide.covers_all_of(&narrow) && narrow.covers(&names);
            prop_assert!(!is_covered || wide.covers(&names));
        }

        /// Point 49.
        #[test]
        fn every_name_that_matches_begins_with_the_prefix(
            pattern in "[ab*/]{1,8}", name in "[ab/]{1,8}"
        ) {
            if let (Ok(glob), Ok(path)) = (Glob::parse(&pattern), StreamPath::relative(&name))
                && glob.matches(&path)
            {
                prop_assert!(path.as_str().starts_with(&glob.prefix()));
            }
        }
    }
}
