//! Names of paths, and parameters behind the question mark.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// First segment of control paths.
pub(crate) const CONTROL: &str = highwater_streams::path::RESERVED;

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
