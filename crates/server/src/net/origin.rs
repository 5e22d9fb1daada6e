//! Who a request comes from and which URL it was sent to, behind proxies that are trusted.

use std::net::{IpAddr, SocketAddr};

use highwater_streams::error::Problem;
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Version, header};
use ipnet::IpNet;

use crate::http::fields;
use crate::settings::Settings;

/// What is known of a connection when it begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// The other end.
    pub address: SocketAddr,
    /// Whether TLS is spoken.
    pub is_tls: bool,
}

/// What is believed of forwarded headers.
#[derive(Debug)]
pub(crate) struct Origins {
    trusted: Vec<IpNet>,
    public_url: Option<String>,
    listen: SocketAddr,
}

impl Origins {
    /// Takes the settings.
    pub fn new(settings: &Settings, listen: SocketAddr) -> Self {
        let public_url = settings.public_url.as_deref();
        Self {
            trusted: settings.trusted_proxies.clone(),
            public_url: public_url.map(|url| url.trim_end_matches('/').to_owned()),
            listen,
        }
    }

    /// Gives the client's address: the last one in `X-Forwarded-For` that no trusted proxy has.
    pub fn client(&self, peer: Peer, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.address.ip().to_canonical();
        if !self.trusts(client) {
            return client;
        }
        let forwarded = headers.get_all("x-forwarded-for").iter();
        let lines: Vec<&str> = forwarded.filter_map(|value| value.to_str().ok()).collect();
        for hop in lines.iter().flat_map(|line| line.split(',')).rev() {
            let Some(hop) = address(hop) else { break };
            client = hop;
            if !self.trusts(client) {
                break;
            }
        }
        client
    }

    /// Gives scheme and authority that the client used, without a slash at the end.
    pub fn base_url(&self, peer: Peer, parts: &Parts) -> String {
        if let Some(url) = &self.public_url {
            return url.clone();
        }
        let is_trusted = self.trusts(peer.address.ip().to_canonical());
        let forwarded = |name: &str| {
            let value = parts.headers.get(name).filter(|_| is_trusted)?.to_str().ok()?;
            value.split(',').next().map(str::trim)
        };
        let scheme = match forwarded("x-forwarded-proto") {
            Some(scheme @ ("http" | "https")) => scheme,
            _ if peer.is_tls => "https",
            _ => "http",
        };
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = forwarded("x-forwarded-host")
            .or_else(|| parts.uri.authority().map(Authority::as_str))
            .or(host)
            .filter(|host| is_authority(host));
        match host {
            Some(host) => format!("{scheme}://{host}"),
            None => format!("{scheme}://{}", self.listen),
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

/// Refuses a request that does not name one host: a proxy may have looked at another one, or taken
/// it for something else (RFC 9112, section 3.2; RFC 9113, section 8.3.1).
///
/// # Errors
/// [`Problem::BadField`].
pub(crate) fn check_host(parts: &Parts) -> Result<(), Problem> {
    let bad = |why| Err(Problem::BadField { name: "Host", why });
    match fields::first_two(&parts.headers, &header::HOST) {
        (_, Some(_)) => bad("it is given twice"),
        (None, _) if parts.version == Version::HTTP_11 => bad("it is missing"),
        (None, _) => Ok(()),
        (Some(host), _) if !host.as_bytes().iter().copied().all(is_of_host) => bad("it is no host"),
        // A target that names a host goes before the field (RFC 9112, section 3.2.2).
        (Some(_), _) if parts.version != Version::HTTP_2 => Ok(()),
        (Some(host), _) => match parts.uri.authority().map(Authority::as_str) {
            Some(named) if !host.as_bytes().eq_ignore_ascii_case(named.as_bytes()) => {
                bad("it is another one than :authority")
            }
            _ => Ok(()),
        },
    }
}

/// Whether the byte may be in a host and its port (RFC 3986, section 3.2).
fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte)
}

/// Reads an address that may have a port.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let parsed = text.parse::<IpAddr>().or_else(|_| text.parse().map(|with: SocketAddr| with.ip()));
    parsed.ok().map(|address| address.to_canonical())
}

/// Whether the text is a host with perhaps a port, and nothing that would change a URL's meaning.
fn is_authority(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 255
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(trusted: &str) -> Origins {
        let mut settings = Settings::default();
        crate::settings::key("trusted-proxies").unwrap().set(&mut settings, trusted).unwrap();
        Origins::new(&settings, "127.0.0.1:4437".parse().unwrap())
    }

    fn peer(address: &str) -> Peer {
        Peer { address: format!("{address}:999").parse().unwrap(), is_tls: false }
    }

    fn parts(headers: &[(&'static str, &str)]) -> Parts {
        let mut request = http::Request::new(());
        for (name, value) in headers {
            request.headers_mut().append(*name, value.parse().unwrap());
        }
        request.into_parts().0
    }

    #[test]
    fn forwarded_addresses_count_only_from_trusted_proxies_and_only_the_last_untrusted_one() {
        let headers =
            parts(&[("x-forwarded-for", "6.6.6.6, 8.8.8.8"), ("x-forwarded-for", "10.0.0.2")]);
        let client = |trusted, from| origins(trusted).client(peer(from), &headers.headers);
        assert_eq!(client("", "10.0.0.1").to_string(), "10.0.0.1");
        assert_eq!(client("10.0.0.0/8", "10.0.0.1").to_string(), "8.8.8.8", "6.6.6.6 is a claim");
        assert_eq!(client("10.0.0.0/8", "9.9.9.9").to_string(), "9.9.9.9");
    }

    #[test]
    fn a_forwarded_address_that_is_none_ends_the_search() {
        let headers = parts(&[("x-forwarded-for", "6.6.6.6, unknown, 10.0.0.7")]);
        let client = origins("10.0.0.0/8").client(peer("10.0.0.1"), &headers.headers);
        assert_eq!(client.to_string(), "10.0.0.7");
    }

    #[test]
    fn a_request_names_one_host_or_is_refused() {
        let why = |version, uri: &'static str, hosts: &[&str]| {
            let hosts: Vec<_> = hosts.iter().map(|host| ("host", *host)).collect();
            let mut parts = parts(&hosts);
            (parts.version, parts.uri) = (version, uri.parse().unwrap());
            match check_host(&parts) {
                Err(Problem::BadField { name: "Host", why }) => why,
                other => other.map(|()| "").unwrap(),
            }
        };
        let (h10, h11, h2) = (Version::HTTP_10, Version::HTTP_11, Version::HTTP_2);
        for version in [h10, h11, h2] {
            for host in ["t", "t:80", "[::1]:80", "xn--a.b_c", "a%20b", ""] {
                assert_eq!(why(version, "/", &[host]), "", "{host}");
            }
            for host in ["a b", "a/b", "a@b", "a\"", "a\\b", "http://a", "a?", "a#"] {
                assert_eq!(why(version, "/", &[host]), "it is no host", "{host}");
            }
            assert_eq!(why(version, "/", &["t", "t"]), "it is given twice");
        }
        assert_eq!(why(h11, "/", &[]), "it is missing");
        assert_eq!((why(h10, "/", &[]), why(h2, "http://t/", &[])), ("", ""));
        assert_eq!((why(h11, "http://t/", &["u"]), why(h2, "http://t/", &["T"])), ("", ""));
        assert_eq!(why(h2, "http://t/", &["u"]), "it is another one than :authority");
    }

    #[test]
    fn urls_are_made_of_what_the_client_used() {
        let url = |trusted, headers: &[(&'static str, &str)]| {
            origins(trusted).base_url(peer("10.0.0.1"), &parts(headers))
        };
        let forwarded =
            [("host", "inside:1"), ("x-forwarded-proto", "https"), ("x-forwarded-host", "a.org")];
        assert_eq!(url("10.0.0.0/8", &forwarded), "https://a.org");
        assert_eq!(url("", &forwarded), "http://inside:1");
        assert_eq!(url("", &[]), "http://127.0.0.1:4437");
        for odd in ["a.org/evil", "a.org@evil", "a b", "x?y", ""] {
            assert_eq!(url("10.0.0.0/8", &[("x-forwarded-host", odd)]), "http://127.0.0.1:4437");
        }
        let mut public = origins("");
        public.public_url = Some("https://public.example".to_owned());
        assert_eq!(public.base_url(peer("10.0.0.1"), &parts(&forwarded)), "https://public.example");
    }
}
