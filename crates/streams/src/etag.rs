//! Entity tags: which range of which stream an answer has, and how far in the stream it reaches.

use std::fmt;

use highwater_log::ids::{Offset, StreamId};

/// What tells this store from another one that may have stood in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreTag(pub u64);

/// A strong entity tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ETag {
    /// The store.
    pub store: StoreTag,
    /// The stream; a stream that is made anew has another number.
    pub stream: StreamId,
    /// First byte of the answer.
    pub start: Offset,
    /// Behind the last one.
    pub end: Offset,
    /// How far that is.
    pub reach: Reach,
}

/// How far an answer reaches in its stream: answers say so in headers, and a cache that hears that
/// its answer is still good keeps the headers it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// There is more.
    Part,
    /// To the tail, as it was then.
    Tail,
    /// To the end: there will never be more.
    End,
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, stream, start, end, reach } = self;
        let mark = match reach {
            Reach::Part => ":p",
            Reach::Tail => "",
            Reach::End => ":c",
        };
        write!(f, "\"{:x}-{:x}:{start}:{end}{mark}\"", store.0, stream.0)
    }
}

impl ETag {
    /// Whether an `If-None-Match` names it: alone, in a list, as a weak tag, or by `*` (RFC 9110,
    /// section 13.1.2). What is no list of tags names nothing.
    pub fn is_named_by(&self, if_none_match: &str) -> bool {
        let own = self.to_string();
        let mut rest = if_none_match.trim();
        if rest == "*" {
            return true;
        }
        while !rest.is_empty() {
            let tag = rest.strip_prefix("W/").unwrap_or(rest);
            let Some(end) = tag.strip_prefix('"').and_then(|opened| opened.find('"')) else {
                return false;
            };
            let (tag, behind) = tag.split_at(end + 2);
            if tag == own {
                return true;
            }
            rest = behind.trim_start().trim_start_matches(',').trim_start();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TAG: ETag = ETag {
        store: StoreTag(0xab),
        stream: StreamId(17),
        start: Offset(0),
        end: Offset(9),
        reach: Reach::Tail,
    };

    /// Point 28.
    #[test]
    fn a_tag_changes_with_store_stream_range_and_reach() {
        let others = [
            ETag { store: StoreTag(0xac), ..TAG },
            ETag { stream: StreamId(18), ..TAG },
            ETag { start: Offset(1), ..TAG },
            ETag { end: Offset(8), ..TAG },
            ETag { reach: Reach::End, ..TAG },
            ETag { reach: Reach::Part, ..TAG },
        ];
        assert_eq!(TAG.to_string(), "\"ab-11:0:9\"");
        assert_eq!(others[4].to_string(), "\"ab-11:0:9:c\"");
        assert_eq!(others[5].to_string(), "\"ab-11:0:9:p\"");
        for other in others {
            assert_ne!(other.to_string(), TAG.to_string());
            assert!(!TAG.is_named_by(&other.to_string()));
        }
    }

    /// Point 28.
    #[test]
    fn lists_weak_tags_and_the_star_name_it() {
        for header in [
            "\"ab-11:0:9\"",
            " W/\"ab-11:0:9\" ",
            "*",
            "\"x\", \"ab-11:0:9\"",
            "\"with, comma\" ,W/\"ab-11:0:9\", \"y\"",
        ] {
            assert!(TAG.is_named_by(header), "{header}");
        }
        for header in ["", "ab-11:0:9", "\"ab-11:0:90\"", "\"x\", ab-11:0:9", "**", "\"ab-11:0:9"] {
            assert!(!TAG.is_named_by(header), "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_header_panics(header in "\\PC{0,40}|[W/\"*, a:0-9-]{0,40}") {
            TAG.is_named_by(&header);
        }
    }
}
