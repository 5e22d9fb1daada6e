//! Header fields of requests as text: one value each.

use highwater_streams::error::Problem;
use http::{HeaderMap, HeaderName};

/// Gives the only value of a field as text.
///
/// # Errors
/// [`Problem::BadField`] when it is given twice, or is not visible ASCII.
pub(crate) fn text<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, Problem> {
    let Some(value) = bytes(headers, name)? else { return Ok(None) };
    match std::str::from_utf8(value) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(Problem::BadField { name: shown(name), why: "it is not UTF-8" }),
    }
}

/// Gives the only value of a field as text, where it has one: anything else is as good as none.
pub(crate) fn text_or_none<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    text(headers, name).ok().flatten()
}

/// Gives the only value of a field as bytes.
///
/// # Errors
/// [`Problem::BadField`] when it is given twice.
pub(crate) fn bytes<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a [u8]>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Problem::BadField { name: shown(name), why: "it is given more than once" });
    }
    Ok(first.map(http::HeaderValue::as_bytes))
}

/// Names of fields as the protocol writes them.
const SHOWN: [&str; 10] = [
    "Content-Type",
    "Stream-Seq",
    "Stream-TTL",
    "Stream-Expires-At",
    "Stream-Forked-From",
    "Stream-Fork-Offset",
    "Stream-Fork-Sub-Offset",
    "Producer-Id",
    "Producer-Epoch",
    "Producer-Seq",
];

fn shown(name: &HeaderName) -> &'static str {
    let known = SHOWN.iter().find(|known| known.eq_ignore_ascii_case(name.as_str()));
    known.copied().unwrap_or("a header")
}

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::*;

    #[test]
    fn a_field_that_is_given_twice_is_refused_by_its_name() {
        let mut headers = HeaderMap::new();
        assert_eq!(text(&headers, &names::SEQ), Ok(None));
        headers.append(names::SEQ, "1".parse().unwrap());
        assert_eq!(text(&headers, &names::SEQ), Ok(Some("1")));
        headers.append(names::SEQ, "2".parse().unwrap());
        let refused = text(&headers, &names::SEQ).unwrap_err();
        assert!(refused.to_string().contains("Stream-Seq"), "{refused}");
        assert_eq!(text_or_none(&headers, &names::SEQ), None);
    }
}
