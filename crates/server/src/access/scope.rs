//! What a caller may do: actions on paths.
//!
//! A scope is `ACTIONS` or `ACTIONS:PATTERN`. Actions are `read`, `append`, `create`, `delete` and
//! `admin` (all of them, and what only admins may), joined by `+`. In a pattern `*` is any text
//! within one segment and `**` any number of segments, as in those of subscriptions; without a
//! pattern a scope is for every stream. Control paths (`__ds/..`, of which `__ds/metrics` stands
//! for the metrics) match only patterns that spell their first segment out, but for `admin`
//! without a pattern.

use std::fmt;

use highwater_streams::subscriptions::glob::Glob;

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
    pattern: Glob,
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
        Some(Self { actions, pattern: Glob::of(pattern) })
    }

    /// Whether it allows the action on the path.
    pub fn allows(&self, action: Action, path: &str) -> bool {
        self.has(action) && self.covers(path)
    }

    /// Whether it allows the action on every stream whose name begins so.
    pub fn allows_all(&self, action: Action, prefix: &str) -> bool {
        // The last segment may go on as it likes.
        let mut whole: Vec<&str> = prefix.split('/').collect();
        whole.pop();
        self.has(action) && self.pattern.covers_below(&whole)
    }

    /// Whether it allows the action on every stream that matches a pattern.
    pub fn allows_matching(&self, action: Action, pattern: &Glob) -> bool {
        self.has(action) && self.pattern.covers_all_of(pattern)
    }

    fn has(&self, action: Action) -> bool {
        self.actions.iter().any(|own| *own == action || *own == Action::Admin)
    }

    fn covers(&self, path: &str) -> bool {
        let segments: Vec<&str> = path.split('/').collect();
        let is_control = segments.first() == Some(&crate::http::route::CONTROL);
        let spells_it_out = self.pattern.first() == segments.first().copied();
        let is_for_all = self.actions.contains(&Action::Admin) && self.pattern.is_everything();
        if is_control && !spells_it_out && !is_for_all {
            return false;
        }
        self.pattern.covers(&segments)
    }
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
            ("ev*", "events", true),
            ("ev*", "events/a", false),
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
        for (scope, path, is_allowed) in [
            ("admin", "__ds/subscriptions/s", true),
            ("admin:**", "__ds/metrics", true),
            ("admin:__ds/metrics", "__ds/metrics", true),
            ("admin:__ds/metrics", "metrics", false),
            ("admin:metrics", "__ds/metrics", false),
            ("admin:*/subscriptions/s", "__ds/subscriptions/s", false),
            ("admin:**/s", "__ds/subscriptions/s", false),
            ("admin:*/**", "__ds/subscriptions/s", false),
            ("admin:__ds/**", "__ds/subscriptions/s", true),
            ("admin:__ds/**", "s", false),
        ] {
            assert_eq!(allows(scope, Action::Admin, path), is_allowed, "{scope} {path}");
        }
    }

    #[test]
    fn what_is_no_scope_is_refused() {
        for text in ["", "write", "read+", "read:a//b", "read:/a", "READ", "read append"] {
            assert_eq!(Scope::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_list_needs_a_scope_for_every_name_that_may_be_in_it() {
        let lists = |scope: &str, prefix| {
            let scope = Scope::parse(scope).unwrap();
            scope.allows_all(Action::Admin, prefix)
        };
        for prefix in ["", "a", "a/", "a/b/c"] {
            assert!(lists("admin", prefix), "{prefix}");
            assert!(!lists("admin:*", prefix) && !lists("read", prefix), "{prefix}");
        }
        assert!(lists("admin:events/**", "events/") && lists("admin:events/", "events/a/b"));
        assert!(!lists("admin:events/**", "events"), "eventsx begins so, too");
        assert!(!lists("admin:events/*", "events/"), "events/a/b begins so, too");
    }
}
