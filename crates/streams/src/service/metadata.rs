//! What is kept with a stream beside what the log knows: docs/formats.md, "Metadata of streams".
//!
//! Most streams have none: their content type is plain, and they have no end and no source.

use serde::{Deserialize, Serialize};

use crate::error::{Outcome, Problem};

/// Metadata of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metadata {
    /// `Content-Type` as it was given, where that is not the plain type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// `Stream-Expires-At` as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// What a fork was asked as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<ForkMetadata>,
}

/// What a fork was asked as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkMetadata {
    /// Name of the source.
    pub source: String,
    /// The offset that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The sub-offset that was given.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sub_offset: u64,
    /// Whether nothing was said of an end, so that it is the source's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub inherits_expiry: bool,
}

impl Metadata {
    /// Encodes it; what is empty has no bytes.
    pub fn encode(&self) -> Vec<u8> {
        if *self == Self::default() {
            return Vec::new();
        }
        serde_json::to_vec(self).expect("text and numbers can be written as JSON")
    }

    /// Decodes it.
    ///
    /// # Errors
    /// [`Problem::Damaged`].
    pub fn decode(bytes: &[u8]) -> Outcome<Self> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_slice(bytes)
            .map_err(|error| Problem::Damaged(format!("metadata of a stream: {error}")))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_comes_back_as_it_was_and_is_kept_as_it_is_documented() {
        let fork = ForkMetadata {
            source: "a/b".to_owned(),
            offset: Some(7),
            sub_offset: 3,
            inherits_expiry: true,
        };
        let whole = Metadata {
            content_type: Some("Text/Plain".to_owned()),
            expires_at: Some("2030-01-01T00:00:00Z".to_owned()),
            fork: Some(fork),
        };
        let text = concat!(
            r#"{"content_type":"Text/Plain","expires_at":"2030-01-01T00:00:00Z","#,
            r#""fork":{"source":"a/b","offset":7,"sub_offset":3,"inherits_expiry":true}}"#
        );
        assert_eq!(String::from_utf8(whole.encode()).unwrap(), text);
        assert_eq!(Metadata::decode(text.as_bytes()).unwrap(), whole);
        assert!(Metadata::default().encode().is_empty());
        assert_eq!(Metadata::decode(b"").unwrap(), Metadata::default());
        for damaged in [&b"{"[..], b"{\"x\":1}", b"\xff"] {
            assert!(matches!(Metadata::decode(damaged), Err(Problem::Damaged(_))));
        }
    }
}
