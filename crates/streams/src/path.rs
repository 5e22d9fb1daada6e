//! Paths: every spelling of a target is brought to one name, once, here.
//!
//! A target is decoded completely, one time, and then cut at its slashes: `a%2Fb`, `a//b`, `a/./b`
//! and `x/../a/b` all name the stream `a/b`, for routing, for access control and in the log. A
//! [`StreamPath`] is already such a name and is never decoded again.

use std::fmt;

use highwater_log::format::extension::MAX_NAME_LEN;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::error::Problem;

/// First segment of the paths that are not streams.
pub const RESERVED: &str = "__ds";

/// What a path's segment may not show as it is (RFC 3986, section 3.3).
const NOT_IN_SEGMENT: AsciiSet = CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A stream's name: segments joined by `/`, none of them empty, `.` or `..`, the first one not
/// [`RESERVED`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamPath(String);

/// Where streams are below a server's root, such as `/v1/stream`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    segments: Vec<String>,
    /// The segments as a plain target has them, with a slash at both ends; none where no target
    /// has them so.
    prefix: Option<String>,
}

/// What a request's target means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A stream.
    Stream(StreamPath),
    /// The control paths of this protocol: the segments behind [`RESERVED`].
    Control(Vec<String>),
    /// The mount itself.
    Root,
    /// Something outside of the mount: the segments from the server's root.
    Elsewhere(Vec<String>),
}

impl Mount {
    /// Takes the mount's path.
    ///
    /// # Errors
    /// [`Problem::BadPath`].
    pub fn new(path: &str) -> Result<Self, Problem> {
        let segments = segments(path)?;
        let mut prefix = "/".to_owned();
        for segment in &segments {
            prefix.push_str(segment);
            prefix.push('/');
        }
        let is_plain = segments.iter().all(|segment| are_plain(segment));
        Ok(Self { segments, prefix: is_plain.then_some(prefix) })
    }

    /// Finds out what a request's target means, in origin form (`/a/b?x`) or absolute form
    /// (`http://host/a/b?x`). The query is not looked at.
    ///
    /// # Errors
    /// [`Problem::BadPath`] and [`Problem::TooLarge`].
    pub fn resolve(&self, target: &str) -> Result<Target, Problem> {
        match self.plain_name(target) {
            Some(name) => Ok(Target::Stream(StreamPath(name.to_owned()))),
            None => self.resolve_any(target),
        }
    }

    fn resolve_any(&self, target: &str) -> Result<Target, Problem> {
        let all = segments(path_of(target))?;
        let Some(rest) = all.strip_prefix(self.segments.as_slice()) else {
            return Ok(Target::Elsewhere(all));
        };
        match rest.split_first() {
            None => Ok(Target::Root),
            Some((first, rest)) if first == RESERVED => Ok(Target::Control(rest.to_vec())),
            Some(_) => StreamPath::joined(rest).map(Target::Stream),
        }
    }

    /// Gives the name in a target that is in the one form already, as most are.
    fn plain_name<'a>(&self, target: &'a str) -> Option<&'a str> {
        let name = target.strip_prefix(self.prefix.as_deref()?)?;
        let is_reserved = name
            .strip_prefix(RESERVED)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        (name.len() <= MAX_NAME_LEN && !is_reserved && are_plain(name)).then_some(name)
    }

    /// Finds the stream that a header names by its URL's path, as `Stream-Forked-From` does.
    ///
    /// # Errors
    /// [`Problem::BadPath`] when it names no stream of this server.
    pub fn stream(&self, target: &str) -> Result<StreamPath, Problem> {
        if !target.starts_with('/') {
            // A URL may be another server's, whose streams are not here.
            return Err(Problem::BadPath { why: "it is no path from the server's root on" });
        }
        match self.resolve(target)? {
            Target::Stream(path) => Ok(path),
            _ => Err(Problem::BadPath { why: "it is not the path of a stream on this server" }),
        }
    }

    /// Writes the path that names a stream from the server's root, encoded.
    pub fn url_path(&self, path: &StreamPath) -> String {
        let mut url = String::new();
        for segment in self.segments.iter().map(String::as_str).chain(path.segments()) {
            url.push('/');
            url.push_str(&encode_segment(segment));
        }
        url
    }
}

/// Whether segments with slashes between them are as they would be after decoding, and none of
/// them empty, `.` or `..`.
fn are_plain(segments: &str) -> bool {
    let (mut len, mut dots) = (0, 0);
    for byte in segments.bytes() {
        match byte {
            b'/' if dots == len && len <= 2 => return false,
            b'/' => (len, dots) = (0, 0),
            b'.' => (len, dots) = (len + 1, dots + 1),
            b'%' | b'?' | b'#' => return false,
            _ if byte.is_ascii_graphic() => len += 1,
            _ => return false,
        }
    }
    dots < len || len > 2
}

/// Writes one segment of a URL's path.
pub(crate) fn encode_segment(segment: &str) -> String {
    utf8_percent_encode(segment, &NOT_IN_SEGMENT).to_string()
}

impl StreamPath {
    /// Takes a path from the mount on that is not encoded, as the bodies of subscriptions have it.
    ///
    /// # Errors
    /// [`Problem::BadPath`] and [`Problem::TooLarge`].
    pub fn relative(path: &str) -> Result<Self, Problem> {
        let segments = cut(path)?;
        if segments.first().is_some_and(|first| first == RESERVED) {
            return Err(Problem::BadPath { why: "its first segment, __ds, is reserved" });
        }
        Self::joined(&segments)
    }

    /// Gives the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Gives the segments.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }

    fn joined(segments: &[String]) -> Result<Self, Problem> {
        let name = segments.join("/");
        if name.is_empty() {
            return Err(Problem::BadPath { why: "it names nothing" });
        }
        let (size, limit) = (to_u64(name.len()), to_u64(MAX_NAME_LEN));
        if size > limit {
            return Err(Problem::TooLarge { what: "the path", size, limit });
        }
        Ok(Self(name))
    }
}

impl fmt::Display for StreamPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Cuts scheme, authority, query and fragment off a target.
fn path_of(target: &str) -> &str {
    let target = target.split(['?', '#']).next().unwrap_or_default();
    if target.starts_with('/') {
        return target;
    }
    match target.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
        None => target,
    }
}

/// Decodes a path, once, and cuts it.
fn segments(path: &str) -> Result<Vec<String>, Problem> {
    if has_broken_escape(path) {
        return Err(Problem::BadPath { why: "a % is not followed by two hexadecimal digits" });
    }
    let decoded = percent_decode_str(path).decode_utf8();
    cut(&decoded.map_err(|_| Problem::BadPath { why: "it is not UTF-8" })?)
}

/// Cuts a decoded path at its slashes; segments that are empty or dots are gone after it.
fn cut(path: &str) -> Result<Vec<String>, Problem> {
    if path.chars().any(char::is_control) {
        return Err(Problem::BadPath { why: "it has control characters" });
    }
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment.to_owned()),
        }
    }
    Ok(segments)
}

fn has_broken_escape(path: &str) -> bool {
    let bytes = path.as_bytes();
    let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    path.match_indices('%').any(|(at, _)| !is_hex(at + 1) || !is_hex(at + 2))
}

fn to_u64(len: usize) -> u64 {
    u64::try_from(len).expect("lengths have 64 bits at most")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mount() -> Mount {
        Mount::new("/v1/stream/").unwrap()
    }

    fn stream(target: &str) -> String {
        match mount().resolve(target).unwrap() {
            Target::Stream(path) => path.as_str().to_owned(),
            other => panic!("{target}: {other:?}"),
        }
    }

    #[test]
    fn every_spelling_of_a_path_is_one_stream() {
        for target in [
            "/v1/stream/a/b",
            "/v1/stream//a///b/",
            "/v1/stream/a%2Fb",
            "/v1/stream/a%2fb?offset=-1&live=sse",
            "/v1/./stream/x/../a/b",
            "/v1/stream/%61/%62",
            "/v1/stream/x/%2e%2E/a/b",
            "/%761/stream/a/b",
            "http://host:4437/v1/stream/a/b?x=/v1/stream/c",
            "https://user@host/v1/stream/a/b#c",
        ] {
            assert_eq!(stream(target), "a/b", "{target}");
        }
        assert_eq!(stream("/v1/stream/caf%C3%A9 x"), "café x");
        assert_eq!(stream("/v1/stream/%252F"), "%2F", "decoded once, not twice");
    }

    #[test]
    fn most_targets_are_plain_also_below_the_root() {
        assert_eq!(mount().plain_name("/v1/stream/a/b"), Some("a/b"));
        assert_eq!(Mount::new("/").unwrap().plain_name("/a/b"), Some("a/b"));
        for target in ["/v1/stream/", "/v1/stream/a/", "/v1/stream/a//b", "/v1/stream/a/../b"] {
            assert_eq!(mount().plain_name(target), None, "{target}");
        }
        let odd = Mount::new("/a%25b").unwrap();
        assert!(odd.resolve("/a%b/c").is_err(), "what is decoded is not a target");
    }

    #[test]
    fn dots_do_not_lead_out_of_the_mount_unnoticed() {
        for target in ["/v1/stream/../admin", "/v1/stream/%2e%2e/admin", "/v1/stream/..%2Fadmin"] {
            let elsewhere = Target::Elsewhere(vec!["v1".to_owned(), "admin".to_owned()]);
            assert_eq!(mount().resolve(target).unwrap(), elsewhere, "{target}");
        }
        let top = mount().resolve("/../../../etc").unwrap();
        assert_eq!(top, Target::Elsewhere(vec!["etc".to_owned()]));
        assert_eq!(mount().resolve("/v1/stream").unwrap(), Target::Root);
        assert!(matches!(mount().resolve("/v1/streams/a").unwrap(), Target::Elsewhere(_)));
    }

    /// Point 47.
    #[test]
    fn the_reserved_first_segment_is_never_a_stream_however_it_is_written() {
        for target in ["/v1/stream/__ds/jwks.json", "/v1/stream/%5F_ds%2Fjwks.json?x"] {
            let control = Target::Control(vec!["jwks.json".to_owned()]);
            assert_eq!(mount().resolve(target).unwrap(), control, "{target}");
        }
        assert_eq!(mount().resolve("/v1/stream/__ds").unwrap(), Target::Control(Vec::new()));
        assert_eq!(stream("/v1/stream/a/__ds"), "a/__ds");
        assert!(StreamPath::relative("x/../__ds/a").is_err());
        assert!(mount().stream("/v1/stream/__ds/a").is_err());
    }

    /// Point 42.
    #[test]
    fn a_stream_of_another_server_is_not_taken_for_the_one_of_this_name_here() {
        for target in ["http://other/v1/stream/a", "//other/v1/stream/a", "v1/stream/a", "a", ""] {
            assert!(matches!(mount().stream(target), Err(Problem::BadPath { .. })), "{target}");
        }
        assert_eq!(mount().stream("/v1/stream//a%2Fb").unwrap().as_str(), "a/b");
    }

    #[test]
    fn what_cannot_be_a_name_is_refused() {
        for target in ["/v1/stream/%zz", "/v1/stream/a%0Ab", "/v1/stream/%00", "/v1/stream/%ff%fe"]
        {
            assert!(matches!(mount().resolve(target), Err(Problem::BadPath { .. })), "{target}");
        }
        let long = format!("/v1/stream/{}", "x".repeat(MAX_NAME_LEN + 1));
        assert!(matches!(mount().resolve(&long), Err(Problem::TooLarge { .. })));
        assert!(StreamPath::relative("/./").is_err());
    }

    proptest! {
        #[test]
        fn a_target_that_is_plain_already_means_what_it_means_when_it_is_cut(
            target in "(/v1/stream/|/v1/|/)([ab.%_?#é]{0,3}|__ds)(/[ab.%_2F]{0,3}){0,3}"
        ) {
            if let Some(name) = mount().plain_name(&target) {
                let stream = Target::Stream(StreamPath(name.to_owned()));
                prop_assert_eq!(mount().resolve_any(&target).unwrap(), stream);
            }
        }

        #[test]
        fn a_streams_url_leads_back_to_it(name in "[^\\p{Cc}]{1,40}") {
            if let Ok(path) = StreamPath::relative(&name) {
                let url = mount().url_path(&path);
                prop_assert_eq!(mount().stream(&url).unwrap(), path);
                prop_assert!(url.is_ascii());
            }
        }

        #[test]
        fn no_target_panics_and_no_name_has_empty_or_dotted_segments(target in "\\PC{0,60}") {
            if let Ok(Target::Stream(path)) = mount().resolve(&format!("/v1/stream/{target}")) {
                prop_assert!(path.segments().all(|s| !matches!(s, "" | "." | "..")));
                prop_assert!(path.segments().next() != Some(RESERVED));
            }
        }
    }
}
