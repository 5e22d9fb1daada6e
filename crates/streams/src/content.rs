//! Content types: compared by type and subtype alone, given back exactly as they were stored.

use std::borrow::Cow;

use highwater_log::format::extension::MAX_CONTENT_TYPE_LEN;

use crate::error::Problem;

/// What a stream holds when nothing was said.
pub const DEFAULT: &str = "application/octet-stream";

/// How content is stored and served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `application/json`: messages.
    Json,
    /// `text/*`: bytes that live readers get as text.
    Text,
    /// Anything else: bytes.
    Bytes,
}

/// A content type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentType {
    plain: Cow<'static, str>,
    given: Option<String>,
}

/// Types that most streams have: they are told by looking, without memory of their own.
const COMMON: [&str; 4] = ["application/json", DEFAULT, "text/plain", "text/event-stream"];

impl ContentType {
    /// Reads a `Content-Type` (RFC 9110, section 8.3.1).
    ///
    /// # Errors
    /// [`Problem::BadField`] where there is no `type/subtype`, and [`Problem::TooLarge`].
    pub fn parse(text: &str) -> Result<Self, Problem> {
        if let Some(common) = COMMON.iter().find(|common| **common == text) {
            return Ok(Self { plain: Cow::Borrowed(common), given: None });
        }
        let given = text.trim();
        let plain = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_token = |part: &str| !part.is_empty() && part.bytes().all(is_token_byte);
        let is_type = plain.split_once('/').is_some_and(|(a, b)| is_token(a) && is_token(b));
        // Parameters may be set off by tabs.
        if !is_type || given.chars().any(|c| c.is_control() && c != '\t') {
            return Err(Problem::BadField { name: "Content-Type", why: "it is no type/subtype" });
        }
        let limit = u64::try_from(MAX_CONTENT_TYPE_LEN).expect("a small constant");
        let size = u64::try_from(given.len()).expect("lengths have 64 bits at most");
        if size > limit {
            return Err(Problem::TooLarge { what: "Content-Type", size, limit });
        }
        let given = (given != plain).then(|| given.to_owned());
        Ok(Self { plain: Cow::Owned(plain), given })
    }

    /// Puts together what was stored: the plain type, and how it was given where that differs.
    pub(crate) fn stored(plain: &str, given: Option<&str>) -> Self {
        let common = COMMON.iter().find(|common| **common == plain);
        let plain =
            common.map_or_else(|| Cow::Owned(plain.to_owned()), |common| Cow::Borrowed(*common));
        Self { plain, given: given.map(str::to_owned) }
    }

    /// Gives type and subtype in lower case: equal for equal types.
    pub fn plain(&self) -> &str {
        &self.plain
    }

    /// Gives what was written, where that is not the plain type.
    pub fn given(&self) -> Option<&str> {
        self.given.as_deref()
    }

    /// Gives what was written.
    pub fn as_given(&self) -> &str {
        self.given.as_deref().unwrap_or(&self.plain)
    }

    /// Says how content of this type is treated.
    pub fn kind(&self) -> Kind {
        kind_of(&self.plain)
    }
}

/// Says how content of a plain type is treated.
pub fn kind_of(plain: &str) -> Kind {
    match plain {
        "application/json" => Kind::Json,
        text if text.starts_with("text/") => Kind::Text,
        _ => Kind::Bytes,
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Point 3.
    #[test]
    fn types_are_equal_whatever_their_case_and_parameters_and_come_back_as_given() {
        let plain = ContentType::parse("text/plain").unwrap();
        let other = ContentType::parse("Text/PLAIN; charset=UTF-8").unwrap();
        assert_eq!(plain.plain(), other.plain());
        assert_eq!(plain.as_given(), "text/plain");
        assert_eq!(other.as_given(), "Text/PLAIN; charset=UTF-8");
        let tabbed = ContentType::parse("text/plain\t;\tcharset=UTF-8").unwrap();
        assert_eq!(tabbed.plain(), "text/plain");
        let again = ContentType::stored(other.plain(), other.given());
        assert_eq!(again, other);
    }

    /// Point 37.
    #[test]
    fn json_and_text_are_told_from_bytes() {
        for (text, kind) in [
            ("application/json", Kind::Json),
            ("Application/JSON;charset=utf-8", Kind::Json),
            ("text/event-stream", Kind::Text),
            ("application/json-seq", Kind::Bytes),
            ("application/ld+json", Kind::Bytes),
            ("textual/x", Kind::Bytes),
            (DEFAULT, Kind::Bytes),
        ] {
            assert_eq!(ContentType::parse(text).unwrap().kind(), kind, "{text}");
        }
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for text in
            ["", "text", "/plain", "text/", "te xt/plain", "text/plain, text/html", "a/b\n;c\r"]
        {
            let refused = ContentType::parse(text);
            assert!(matches!(refused, Err(Problem::BadField { .. })), "{text:?}");
        }
        let long = format!("text/plain; x={}", "y".repeat(MAX_CONTENT_TYPE_LEN));
        assert!(matches!(ContentType::parse(&long), Err(Problem::TooLarge { .. })));
    }
}
