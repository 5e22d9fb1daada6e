//! What a caller may do: actions on paths.
//!
//! A scope is `ACTIONS` or `ACTIONS:PATTERN`. Actions are `read`, `append`, `create`, `delete` and
//! `admin` (all of them, and what only admins may), joined by `+`. In a pattern `*` is one segment
//! and `**` any number of them; without a pattern a scope is for every stream. Control paths
//! (`__ds/..`) match only patterns that spell their first segment out.

use std::fmt;

/// What is done to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Its bytes or properties are read.
    Read,
    /// Bytes are added, or it is closed.
    Append,
    /// It is made.
    Create,
    /// It is deleted.
    Delete,
    /// Something that is no stream's: lists, metrics, subscriptions.
    Admin,
}

const ACTIONS: [(&str, Action); 5] = [
    ("read", Action::Read),
    ("append", Action::Append),
    ("create", Action::Create),
    ("delete", Action::Delete),
    ("admin", Action::Admin),
];

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ACTIONS.iter().find(|(_, action)| action == self).map(|(name, _)| *name);
        f.write_str(name.expect("every action is listed"))
    }
}

/// Actions on the paths of one pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scope {
    actions: Vec<Action>,
    pattern: Vec<String>,
}

impl Scope {
    /// Reads a scope; nothing where it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let (actions, pattern) = text.split_once(':').unwrap_or((text, "**"));
        let action = |name| ACTIONS.iter().find(|(known, _)| *known == name).map(|(_, it)| *it);
        let actions: Option<Vec<Action>> = actions.split('+').map(action).collect();
        let mut pattern: Vec<String> = pattern.split('/').map(str::to_owned).collect();
        if pattern.last().is_some_and(String::is_empty) {
            pattern.pop();
            pattern.push("**".to_owned());
        }
        let is_sound = pattern.iter().all(|segment| !segment.is_empty());
        let actions = actions.filter(|_| is_sound)?;
        Some(Self { actions, pattern })
    }

    /// Whether it allows the action on the path.
    pub fn allows(&self, action: Action, path: &str) -> bool {
        let has_action = self.actions.iter().any(|own| *own == action || *own == Action::Admin);
        has_action && self.covers(path)
    }

    fn covers(&self, path: &str) -> bool {
        let segments: Vec<&str> = path.split('/').collect();
        let is_control = segments.first() == Some(&crate::http::route::CONTROL);
        let spells_it_out = self.pattern.first().map(String::as_str) == segments.first().copied();
        let is_admin = self.actions.contains(&Action::Admin);
        if is_control && !spells_it_out && !is_admin {
            return false;
        }
        matches(&self.pattern, &segments)
    }
}

/// Whether the pattern's segments match the path's. The cost is their product at most.
fn matches(pattern: &[String], path: &[&str]) -> bool {
    // reached[n]: the pattern so far matches the first n segments.
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for part in pattern {
        let mut next = vec![false; path.len() + 1];
        for at in 0..=path.len() {
            if part == "**" {
                next[at] = reached[at] || (at > 0 && next[at - 1]);
            } else if at > 0 && (part == "*" || part == path[at - 1]) {
                next[at] = reached[at - 1];
            }
        }
        reached = next;
    }
    reached[path.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(scope: &str, action: Action, path: &str) -> bool {
        Scope::parse(scope).unwrap().allows(action, path)
    }

    #[test]
    fn patterns_match_whole_segments() {
        for (pattern, path, matches) in [
            ("events/*", "events/a", true),
            ("events/*", "events/a/b", false),
            ("events/*", "events", false),
            ("events/**", "events/a/b", true),
            ("events/**", "events", true),
            ("events/", "events/a", true),
            ("events", "events", true),
            ("events", "eventsx", false),
            ("**/log", "a/b/log", true),
            ("**/log", "a/b/log/c", false),
            ("a/**/b/*", "a/b/b/c", true),
            ("ev*", "events", false),
        ] {
            let scope = format!("read:{pattern}");
            assert_eq!(allows(&scope, Action::Read, path), matches, "{scope} {path}");
        }
    }

    #[test]
    fn actions_are_those_named_and_admin_is_all_of_them() {
        assert!(allows("read+append:a", Action::Append, "a"));
        assert!(!allows("read+append:a", Action::Delete, "a"));
        for (_, action) in ACTIONS {
            assert!(allows("admin", action, "any/thing"));
            assert!(!allows("admin:a/**", action, "b"));
        }
        assert!(!allows("read", Action::Admin, "a"));
    }

    #[test]
    fn control_paths_need_to_be_spelled_out() {
        assert!(!allows("read", Action::Read, "__ds/subscriptions/s"));
        assert!(!allows("read:*/subscriptions/s", Action::Read, "__ds/subscriptions/s"));
        assert!(allows("read:__ds/subscriptions/*", Action::Read, "__ds/subscriptions/s"));
        assert!(allows("admin", Action::Create, "__ds/subscriptions/s"));
    }

    #[test]
    fn what_is_no_scope_is_refused() {
        for text in ["", "write", "read+", "read:a//b", "read:/a", "READ", "read append"] {
            assert_eq!(Scope::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_costs_little() {
        let pattern = vec!["**/a"; 40].join("/");
        let path = vec!["a"; 60].join("/") + "/b";
        assert!(!allows(&format!("read:{pattern}"), Action::Read, &path));
    }
}
