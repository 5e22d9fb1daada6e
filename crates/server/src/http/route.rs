//! Names of paths, what can be done there, and parameters behind the question mark.

use std::borrow::Cow;

use highwater_streams::path::Target;
use percent_encoding::percent_decode_str;

use super::failure::Failure;
use crate::operator::OperatorPath;

/// First segment of control paths.
pub(crate) const CONTROL: &str = highwater_streams::path::RESERVED;

/// What can be done to a stream, as `Allow` has it.
pub(crate) const ON_STREAM: &str = "GET, HEAD, POST, PUT, DELETE, OPTIONS";
/// To a subscription.
pub(crate) const ON_SUBSCRIPTION: &str = "GET, HEAD, PUT, DELETE, OPTIONS";
/// To what can only be read.
pub(crate) const ONLY_GET: &str = "GET, HEAD, OPTIONS";
/// To what only takes something.
pub(crate) const ONLY_POST: &str = "POST, OPTIONS";
/// To what can only be taken away.
pub(crate) const ONLY_DELETE: &str = "DELETE, OPTIONS";

/// Says what can be done at a target.
///
/// # Errors
/// [`Failure::NoSuchPath`].
pub(crate) fn methods(target: &Target) -> Result<&'static str, Failure> {
    match target {
        Target::Stream(_) => Ok(ON_STREAM),
        Target::Control(segments) => match names(segments).as_slice() {
            ["jwks.json" | "streams"] => Ok(ONLY_GET),
            ["keys"] => Ok(ONLY_POST),
            ["subscriptions", _] => Ok(ON_SUBSCRIPTION),
            ["subscriptions", _, "streams" | "callback" | "ack" | "claim" | "release"] => {
                Ok(ONLY_POST)
            }
            ["subscriptions", _, "streams", _, ..] => Ok(ONLY_DELETE),
            _ => Err(Failure::NoSuchPath),
        },
        Target::Elsewhere(segments) if OperatorPath::of(segments).is_some() => Ok(ONLY_GET),
        Target::Elsewhere(segments) => match names(segments).as_slice() {
            // The server as a whole (RFC 9110, section 9.3.7).
            ["*"] => Ok(ON_STREAM),
            _ => Err(Failure::NoSuchPath),
        },
        Target::Root => Err(Failure::NoSuchPath),
    }
}

fn names(segments: &[String]) -> Vec<&str> {
    segments.iter().map(String::as_str).collect()
}

/// Gives the parameters of a query, decoded, in order.
pub(crate) fn parameters(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(name), decode(value))
    })
}

fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let spaced = text.replace('+', " ");
    Cow::Owned(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_once_and_kept_in_order() {
        let pairs: Vec<_> = parameters("offset=-1&&live=s%73e&x&y=a+b%2B&y=%2526").collect();
        let expected = [("offset", "-1"), ("live", "sse"), ("x", ""), ("y", "a b+"), ("y", "%26")];
        let expected = expected.map(|(name, value)| (Cow::from(name), Cow::from(value)));
        assert_eq!(pairs, expected);
        assert_eq!(parameters("").count(), 0);
    }
}
