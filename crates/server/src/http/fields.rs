//! Header fields of requests as text: one value each.

use highwater_streams::error::Problem;
use http::{HeaderMap, HeaderName, HeaderValue};

/// Most values of a request of which each is looked at to find a field: an append asks for ten
/// that are seldom there, and to hash a name costs as much as to look at all that there are.
const FEW: usize = 16;

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
    let (first, second) = first_two(headers, name);
    if second.is_some() {
        return Err(Problem::BadField { name: shown(name), why: "it is given more than once" });
    }
    Ok(first.map(HeaderValue::as_bytes))
}

/// Gives the first value of a field.
pub(crate) fn first<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    if headers.len() > FEW { headers.get(name) } else { named(headers, name).next() }
}

/// Gives the first value of a field, and another one where there is such.
pub(crate) fn first_two<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> (Option<&'a HeaderValue>, Option<&'a HeaderValue>) {
    if headers.len() > FEW {
        let mut values = headers.get_all(name).iter();
        return (values.next(), values.next());
    }
    let mut values = named(headers, name);
    (values.next(), values.next())
}

/// Looks at each field.
fn named<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a HeaderValue> {
    headers.iter().filter(move |(given, _)| *given == name).map(|(_, value)| value)
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
    fn fields_are_found_among_few_and_among_many_alike() {
        for others in [0, FEW - 3, FEW - 2, 3 * FEW] {
            let mut headers = HeaderMap::new();
            headers.append(names::SEQ, "1".parse().unwrap());
            for number in 0..others {
                let name: HeaderName = format!("x-{number}").parse().unwrap();
                headers.append(name, "v".parse().unwrap());
            }
            headers.append(names::SEQ, "2".parse().unwrap());
            headers.append(names::CLOSED, "true".parse().unwrap());
            let found = |name: &HeaderName| -> [Option<&str>; 3] {
                let (first, second) = first_two(&headers, name);
                let values = [super::first(&headers, name), first, second];
                values.map(|value| value.map(|value| value.to_str().unwrap()))
            };
            assert_eq!(found(&names::SEQ), [Some("1"), Some("1"), Some("2")], "{others}");
            assert_eq!(found(&names::CLOSED), [Some("true"), Some("true"), None], "{others}");
            assert_eq!(found(&names::TTL), [None; 3], "{others}");
        }
    }

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
