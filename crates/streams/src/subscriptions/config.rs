//! What a subscription was asked as, in a form in which equal means the same.

use serde::{Deserialize, Serialize};

use super::glob::Glob;
use super::refusal::Refusal;
use super::url_policy::{Endpoint, UrlPolicy};
use crate::path::StreamPath;

/// Leases that may be asked for, milliseconds.
pub(super) const LEASES_MS: std::ops::RangeInclusive<u64> = 1_000..=600_000;
/// Lease where none is asked for, milliseconds.
const DEFAULT_LEASE_MS: u64 = 30_000;
/// Longest description, bytes.
const MOST_DESCRIPTION: usize = 4096;

/// Configuration of a subscription. Names are normalised and sorted, so that comparing two is
/// comparing what they mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How it is told that there is something.
    pub delivery: Delivery,
    /// Streams whose names match.
    pub pattern: Option<String>,
    /// Streams by name.
    pub streams: Vec<String>,
    /// Lease, milliseconds.
    pub lease_ttl_ms: u64,
    /// For people.
    pub description: Option<String>,
}

/// How a subscription is told that there is something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// By a request.
    Webhook {
        /// Where to.
        url: String,
    },
    /// By a message in a stream.
    PullWake {
        /// Which.
        wake_stream: String,
    },
}

/// A body as it comes.
#[derive(Deserialize)]
struct Body {
    r#type: Option<String>,
    pattern: Option<String>,
    streams: Option<Vec<String>>,
    webhook: Option<Webhook>,
    wake_stream: Option<String>,
    lease_ttl_ms: Option<u64>,
    description: Option<String>,
}

#[derive(Deserialize)]
struct Webhook {
    url: String,
}

impl Config {
    /// Reads the body of a PUT.
    ///
    /// # Errors
    /// [`Refusal::BadRequest`], [`Refusal::UrlRejected`].
    pub fn parse(body: &[u8], policy: UrlPolicy) -> Result<Self, Refusal> {
        let body: Body = parse_body(body)?;
        let streams = names(&body.streams.unwrap_or_default())?;
        let pattern = match &body.pattern {
            Some(text) => Some(Glob::parse(text).map_err(|p| bad(&p.to_string()))?.to_string()),
            None => None,
        };
        if pattern.is_none() && streams.is_empty() {
            return Err(bad("there is neither pattern nor streams"));
        }
        let delivery = match body.r#type.as_deref() {
            Some("webhook") => {
                let url = body.webhook.ok_or_else(|| bad("webhook.url is missing"))?.url;
                Endpoint::parse(&url, policy)?;
                Delivery::Webhook { url }
            }
            Some("pull-wake") => {
                let stream = body.wake_stream.ok_or_else(|| bad("wake_stream is missing"))?;
                Delivery::PullWake { wake_stream: name(&stream)? }
            }
            _ => return Err(bad("type is neither webhook nor pull-wake")),
        };
        let lease_ttl_ms = body.lease_ttl_ms.unwrap_or(DEFAULT_LEASE_MS);
        if !LEASES_MS.contains(&lease_ttl_ms) {
            return Err(bad("lease_ttl_ms is not between 1000 and 600000"));
        }
        if body.description.as_ref().is_some_and(|text| text.len() > MOST_DESCRIPTION) {
            return Err(bad("description has more than 4096 bytes"));
        }
        Ok(Self { delivery, pattern, streams, lease_ttl_ms, description: body.description })
    }

    /// Gives the pattern, ready to match.
    pub fn glob(&self) -> Option<Glob> {
        self.pattern.as_deref().and_then(|text| Glob::parse(text).ok())
    }
}

/// Reads a JSON body.
pub(super) fn parse_body<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| bad(&error.to_string()))
}

/// Reads names of streams, normalised, sorted, each once.
pub(super) fn names(texts: &[String]) -> Result<Vec<String>, Refusal> {
    let mut names = texts.iter().map(|text| name(text)).collect::<Result<Vec<_>, _>>()?;
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Reads a stream's name.
pub(super) fn name(text: &str) -> Result<String, Refusal> {
    let path = StreamPath::relative(text).map_err(|problem| bad(&problem.to_string()))?;
    Ok(path.as_str().to_owned())
}

pub(super) fn bad(why: &str) -> Refusal {
    Refusal::BadRequest(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<Config, Refusal> {
        Config::parse(body.as_bytes(), UrlPolicy::Production)
    }

    /// Point 48.
    #[test]
    fn spellings_of_one_configuration_are_equal() {
        let one = parse(
            r#"{"type":"webhook","pattern":"/events//*","streams":["b","/a/","b"],
                "webhook":{"url":"https://worker.example/h"},"unknown":1}"#,
        );
        let other = parse(
            r#"{"streams":["a","b"],"webhook":{"url":"https://worker.example/h","x":2},
                "lease_ttl_ms":30000,"pattern":"events/*","type":"webhook","wake_stream":"w"}"#,
        );
        assert_eq!(one, other);
        let config = one.unwrap();
        assert_eq!(config.streams, ["a", "b"]);
        assert_eq!(config.pattern.as_deref(), Some("events/*"));
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
    }

    /// Point 48.
    #[test]
    fn what_is_no_configuration_is_refused() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"type":"webhook","pattern":"a"}"#,
            r#"{"type":"pull-wake","pattern":"a"}"#,
            r#"{"type":"other","pattern":"a","wake_stream":"w"}"#,
            r#"{"type":"pull-wake","wake_stream":"w"}"#,
            r#"{"type":"pull-wake","wake_stream":"w","streams":[]}"#,
            r#"{"type":"pull-wake","wake_stream":"__ds/w","pattern":"a"}"#,
            r#"{"type":"pull-wake","wake_stream":"w","pattern":"__ds/**"}"#,
            r#"{"type":"pull-wake","wake_stream":"w","streams":["__ds/keys"]}"#,
            r#"{"type":"pull-wake","wake_stream":"w","pattern":"a","lease_ttl_ms":999}"#,
            r#"{"type":"pull-wake","wake_stream":"w","pattern":"a","lease_ttl_ms":600001}"#,
            r#"{"type":"pull-wake","wake_stream":"w","pattern":"a","lease_ttl_ms":1.5}"#,
            r#"{"type":"pull-wake","wake_stream":"w","pattern":7}"#,
        ] {
            assert!(matches!(parse(body), Err(Refusal::BadRequest(_))), "{body}");
        }
        let unsafe_url = r#"{"type":"webhook","pattern":"a","webhook":{"url":"http://10.0.0.1/"}}"#;
        assert_eq!(parse(unsafe_url).unwrap_err().code(), "WEBHOOK_URL_REJECTED");
    }
}
