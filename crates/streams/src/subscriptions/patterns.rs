//! Many patterns at once: which of them match a name. Literal segments are looked up, so that what
//! a name costs does not grow with the patterns that begin otherwise.

use std::collections::{BTreeMap, HashMap};

use super::glob::{DEEP, Glob, segment_matches};

/// Patterns, each with a value; equal values of one pattern count once.
#[derive(Debug)]
pub(super) struct Patterns<T> {
    root: Node<T>,
}

/// What can follow what was matched so far.
#[derive(Debug)]
struct Node<T> {
    literal: HashMap<String, Node<T>>,
    /// Segments with stars in them.
    wild: BTreeMap<String, Node<T>>,
    /// Behind `**`.
    deep: Option<Box<Node<T>>>,
    /// Of the patterns that end here.
    values: Vec<T>,
}

impl<T> Default for Node<T> {
    fn default() -> Self {
        Self { literal: HashMap::new(), wild: BTreeMap::new(), deep: None, values: Vec::new() }
    }
}

impl<T> Default for Patterns<T> {
    fn default() -> Self {
        Self { root: Node::default() }
    }
}

/// A node that is reached; one behind `**` takes any more segments.
#[derive(Debug)]
struct Reached<'a, T> {
    node: &'a Node<T>,
    is_deep: bool,
}

impl<T: PartialEq> Patterns<T> {
    /// Adds a pattern.
    pub fn add(&mut self, glob: &Glob, value: T) {
        let mut node = &mut self.root;
        for segment in glob.segments() {
            node = match segment {
                DEEP => node.deep.get_or_insert_default(),
                segment if segment.contains('*') => {
                    node.wild.entry(segment.to_owned()).or_default()
                }
                segment => node.literal.entry(segment.to_owned()).or_default(),
            };
        }
        if !node.values.contains(&value) {
            node.values.push(value);
        }
    }

    /// Takes a pattern away.
    pub fn remove(&mut self, glob: &Glob, value: &T) {
        let segments: Vec<&str> = glob.segments().collect();
        self.root.remove(&segments, value);
    }

    /// Gives the values of all patterns that match a name.
    pub fn matching(&self, name: &str) -> Vec<&T> {
        let mut reached = Vec::new();
        reach(&mut reached, &self.root, false);
        for segment in name.split('/') {
            let mut next = Vec::new();
            for Reached { node, is_deep } in reached {
                if is_deep {
                    reach(&mut next, node, true);
                }
                if let Some(node) = node.literal.get(segment) {
                    reach(&mut next, node, false);
                }
                for (wild, node) in &node.wild {
                    if segment_matches(wild, segment) {
                        reach(&mut next, node, false);
                    }
                }
            }
            reached = next;
        }
        // A node is reached as deep and as not deep at most, never twice as either.
        let mut ends: Vec<&Node<T>> = Vec::new();
        for Reached { node, .. } in reached {
            if !ends.iter().any(|end| std::ptr::eq(*end, node)) {
                ends.push(node);
            }
        }
        ends.into_iter().flat_map(|node| &node.values).collect()
    }
}

/// Adds a node, with what `**` lets begin at once, unless it is there.
fn reach<'a, T>(reached: &mut Vec<Reached<'a, T>>, node: &'a Node<T>, is_deep: bool) {
    let is_there = |one: &Reached<'_, T>| std::ptr::eq(one.node, node) && one.is_deep == is_deep;
    if reached.iter().any(is_there) {
        return;
    }
    reached.push(Reached { node, is_deep });
    if let Some(deep) = &node.deep {
        reach(reached, deep, true);
    }
}

impl<T: PartialEq> Node<T> {
    fn remove(&mut self, segments: &[&str], value: &T) {
        let Some((first, rest)) = segments.split_first() else {
            self.values.retain(|one| one != value);
            return;
        };
        // What nothing hangs on goes too.
        if *first == DEEP {
            if let Some(node) = &mut self.deep {
                node.remove(rest, value);
                if node.is_empty() {
                    self.deep = None;
                }
            }
        } else if first.contains('*') {
            if let Some(node) = self.wild.get_mut(*first) {
                node.remove(rest, value);
                if node.is_empty() {
                    self.wild.remove(*first);
                }
            }
        } else if let Some(node) = self.literal.get_mut(*first) {
            node.remove(rest, value);
            if node.is_empty() {
                self.literal.remove(*first);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.values.is_empty()
            && self.deep.is_none()
            && self.wild.is_empty()
            && self.literal.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::path::StreamPath;

    fn glob(text: &str) -> Glob {
        Glob::parse(text).unwrap()
    }

    #[test]
    fn a_pattern_that_is_taken_away_leaves_nothing_behind() {
        let mut patterns = Patterns::default();
        let all = ["a/*/c", "**/c", "a/**", "a/b*/c", "a/b/c", "**/**/c"].map(glob);
        for (number, pattern) in all.iter().enumerate() {
            patterns.add(pattern, number);
            patterns.add(pattern, number);
        }
        let mut found: Vec<usize> = patterns.matching("a/b/c").into_iter().copied().collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 2, 3, 4, 5], "each once");
        for (number, pattern) in all.iter().enumerate() {
            patterns.remove(pattern, &number);
        }
        assert!(patterns.matching("a/b/c").is_empty() && patterns.root.is_empty());
    }

    #[test]
    fn patterns_of_many_stars_cost_little_together() {
        let mut patterns = Patterns::default();
        for number in 0..50 {
            patterns.add(&glob(&vec!["**/a"; number + 1].join("/")), number);
        }
        assert!(patterns.matching(&["a/".repeat(60), "b".to_owned()].concat()).is_empty());
        assert_eq!(patterns.matching(&"/a".repeat(60)[1..]).len(), 50);
    }

    proptest! {
        /// Point 49.
        #[test]
        fn many_patterns_match_what_each_of_them_does(
            patterns in prop::collection::vec(
                prop::collection::vec("a|b|a\\*|\\*|\\*\\*", 1..6), 1..8),
            gone in prop::collection::vec(any::<bool>(), 8),
            name in prop::collection::vec("a|b|ab", 1..6),
        ) {
            let globs: Vec<Glob> = patterns.iter().map(|text| glob(&text.join("/"))).collect();
            let mut together = Patterns::default();
            for (number, glob) in globs.iter().enumerate() {
                together.add(glob, number);
            }
            for (number, glob) in globs.iter().enumerate().filter(|(number, _)| gone[*number]) {
                together.remove(glob, &number);
            }
            let name = name.join("/");
            let path = StreamPath::relative(&name).unwrap();
            let mut found: Vec<usize> = together.matching(&name).into_iter().copied().collect();
            found.sort_unstable();
            let each = (0..globs.len()).filter(|at| !gone[*at] && globs[*at].matches(&path));
            prop_assert_eq!(found, each.collect::<Vec<_>>());
        }
    }
}
