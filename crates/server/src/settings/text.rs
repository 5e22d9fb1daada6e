//! Text that ends up in URLs and headers: what cannot stand there is refused at the start, not at
//! each request.

use http::uri::Authority;

/// Bytes of a URL's path that stand for themselves, beside letters and digits (RFC 3986, section
/// 3.3).
const IN_SEGMENT: &[u8] = b"-._~!$&'()*+,;=:@";

/// Whether it is the URL of a server, perhaps with a path in front of all others: nothing behind a
/// question mark or hash, no user, no escapes.
pub(super) fn is_base_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else { return false };
    match rest.find('/') {
        None => is_authority(rest),
        Some(at) => is_authority(&rest[..at]) && is_plain_path(&rest[at..]),
    }
}

/// Whether it is an origin as browsers write it: scheme, host, and a port other than the scheme's.
pub(super) fn is_origin(text: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else { return false };
    let is_in_scheme =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    scheme.starts_with(|letter: char| letter.is_ascii_lowercase())
        && scheme.bytes().all(is_in_scheme)
        && !authority.contains(|letter: char| letter.is_ascii_uppercase())
        && is_authority(authority)
        // Browsers leave it out (RFC 6454, section 6.2): it would be listed and never let in.
        && !own_port(scheme).is_some_and(|port| authority.ends_with(port))
}

/// Gives the port that a scheme has where none is named, as it would stand behind a host.
fn own_port(scheme: &str) -> Option<&'static str> {
    match scheme {
        "http" => Some(":80"),
        "https" => Some(":443"),
        _ => None,
    }
}

/// Whether it is a path of which no byte has to be escaped and no segment means another. A slash
/// may end it.
pub(super) fn is_plain_path(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('/') else { return false };
    let whole = rest.strip_suffix('/').unwrap_or(rest);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || IN_SEGMENT.contains(&byte);
    let is_segment =
        |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(is_plain);
    rest.is_empty() || whole.split('/').all(is_segment)
}

/// Whether it is a host, perhaps with a port.
fn is_authority(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let Ok(authority) = text.parse::<Authority>() else { return false };
    let host = authority.host();
    let is_whole = match authority.port_u16() {
        None => host == text,
        Some(port) => text == format!("{host}:{port}"),
    };
    !host.is_empty() && is_whole && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_has_a_host_and_nothing_that_would_change_what_follows() {
        for text in [
            "https://x.org",
            "http://localhost:4437",
            "https://x.org/",
            "https://x.org/a/b",
            "http://[::1]:80",
            "http://10.0.0.1",
        ] {
            assert!(is_base_url(text), "{text:?}");
        }
        for text in [
            "",
            "x.org",
            "https://",
            "https:///a",
            "https://x.org\n",
            "https://x.org/a\r\nSet-Cookie: a",
            "javascript:alert(1)",
            "ftp://x.org",
            "HTTPS://x.org",
            "https://x.org/a#b",
            "https://x.org?a",
            "https://user@x.org",
            "https://x.org:",
            "https://x.org:99999",
            "https://x.org:080",
            "https://x y.org",
            "https://x.org/a b",
            "https://x.org/a//b",
            "https://x.org/../b",
            "https://x.org/%2e",
            "https://x.org/\"",
            "https://\u{e9}.org",
        ] {
            assert!(!is_base_url(text), "{text:?}");
        }
    }

    #[test]
    fn an_origin_is_one_that_a_browser_could_send() {
        for text in [
            "https://a.org",
            "http://localhost:3000",
            "capacitor://localhost",
            "https://a.org:80",
            "http://a.org:443",
            "https://a.org:8443",
            "http://[::1]:3000",
        ] {
            assert!(is_origin(text), "{text:?}");
        }
        for text in [
            "a.org",
            "https://a.org/",
            "https://A.org",
            "null",
            "https://",
            "https://a.org\n",
            "*",
            "https://a.org:443",
            "http://localhost:80",
        ] {
            assert!(!is_origin(text), "{text:?}");
        }
    }

    #[test]
    fn a_plain_path_needs_no_escapes_and_has_no_segment_that_means_another() {
        for text in ["/", "/v1/stream", "/v1/stream/", "/a~b"] {
            assert!(is_plain_path(text), "{text:?}");
        }
        for text in ["", "a", "//", "/a//b", "/./a", "/..", "/a b", "/a\n", "/%61", "/\u{e9}", "/?"]
        {
            assert!(!is_plain_path(text), "{text:?}");
        }
    }
}
