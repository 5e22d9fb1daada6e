//! Where webhooks may be sent: not into the network that the server stands in.
//!
//! Judged by the URL, and again by the addresses that its name has when it is used: a name can be
//! pointed anywhere later. Redirects are not followed, wherever they lead.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// What is allowed beside public targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UrlPolicy {
    /// Nothing.
    Production,
    /// `localhost` and 127.0.0.0/8, over HTTP too.
    Development,
}

/// Why a target is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// It is no URL with a host.
    #[error("it is not a URL with a host")]
    Malformed,
    /// It would be sent in the clear.
    #[error("only https is allowed")]
    Scheme,
    /// It carries a name and password.
    #[error("it has user information")]
    Credentials,
    /// It leads into a network of our own.
    #[error("it leads to a loopback, private, link-local or otherwise special address")]
    Address,
}

/// A target that is allowed by its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    is_local: bool,
}

impl Endpoint {
    /// Judges a URL.
    ///
    /// # Errors
    /// [`Rejected`].
    pub fn parse(text: &str, policy: UrlPolicy) -> Result<Self, Rejected> {
        let url = Url::parse(text).map_err(|_| Rejected::Malformed)?;
        let host = url.host().ok_or(Rejected::Malformed)?;
        let is_local = policy == UrlPolicy::Development && is_loopback(&host);
        match url.scheme() {
            "https" => {}
            "http" if is_local => {}
            "http" if is_special_host(&host) => return Err(Rejected::Address),
            _ => return Err(Rejected::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Rejected::Credentials);
        }
        if !is_local && is_special_host(&host) {
            return Err(Rejected::Address);
        }
        Ok(Self { url, is_local })
    }

    /// Judges the addresses that its host has at this moment; gives those to connect to. One that
    /// is refused refuses all: the name is not to be trusted.
    ///
    /// # Errors
    /// [`Rejected::Address`], also without any address.
    pub fn judge(&self, addresses: &[IpAddr]) -> Result<Vec<IpAddr>, Rejected> {
        let is_allowed = |address: &IpAddr| {
            if self.is_local { address.is_loopback() } else { !is_special(*address) }
        };
        if addresses.is_empty() || !addresses.iter().all(is_allowed) {
            return Err(Rejected::Address);
        }
        Ok(addresses.to_vec())
    }

    /// Gives the URL as it is to be used.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Gives host and port to connect to.
    pub fn host_and_port(&self) -> (&str, u16) {
        let port = self.url.port_or_known_default().unwrap_or(443);
        (self.url.host_str().unwrap_or_default(), port)
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => name.trim_end_matches('.') == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(_) => false,
    }
}

/// Whether a host is known not to be public without asking for its addresses.
fn is_special_host(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            let is_below = |top: &str| {
                name.strip_suffix(top).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            ["localhost", "local", "internal", "home.arpa", "lan"].into_iter().any(is_below)
                || !name.contains('.')
        }
        Host::Ipv4(address) => is_special_v4(*address),
        Host::Ipv6(address) => is_special_v6(*address),
    }
}

fn is_special(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_special_v4(address),
        IpAddr::V6(address) => is_special_v6(address),
    }
}

/// IANA's special-purpose registry, but for what is reachable everywhere.
fn is_special_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && b & 0b1100_0000 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && b & 0b1111_1110 == 18)
}

/// Global unicast is `2000::/3`; some of that is special, and some leads to IPv4 addresses.
fn is_special_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let is_global_unicast = a & 0xe000 == 0x2000;
    let is_documentation = (a == 0x2001 && b == 0x0db8) || (a == 0x3fff && b < 0x1000);
    // Teredo and others of `2001::/23`, and 6to4.
    let is_tunnel = (a == 0x2001 && b < 0x0200) || a == 0x2002;
    !is_global_unicast || is_documentation || is_tunnel
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(url: &str, policy: UrlPolicy) -> Result<(), Rejected> {
        Endpoint::parse(url, policy).map(|_| ())
    }

    /// Point 51.
    #[test]
    fn only_https_to_public_hosts_is_allowed_in_production() {
        for url in [
            "https://worker.example/hooks?x=1",
            "https://worker.example:8443/",
            "https://93.184.216.34/hook",
            "https://[2606:2800:220:1::1]/hook",
            "HTTPS://WORKER.EXAMPLE./",
        ] {
            assert_eq!(judged(url, UrlPolicy::Production), Ok(()), "{url}");
        }
        for (url, why) in [
            ("http://worker.example/", Rejected::Scheme),
            ("ftp://worker.example/", Rejected::Scheme),
            ("file:///etc/passwd", Rejected::Malformed),
            ("worker.example/hook", Rejected::Malformed),
            ("https://", Rejected::Malformed),
            ("https://user:secret@worker.example/", Rejected::Credentials),
        ] {
            assert_eq!(judged(url, UrlPolicy::Production), Err(why), "{url}");
        }
    }

    /// Point 51.
    #[test]
    fn special_addresses_are_refused_however_they_are_written() {
        for host in [
            "127.0.0.1",
            "127.1",
            "0x7f000001",
            "2130706433",
            "0177.0.0.1",
            "0.0.0.0",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "[::1]",
            "[::]",
            "[::ffff:10.0.0.1]",
            "[::ffff:93.184.216.34]",
            "[::7f00:1]",
            "[64:ff9b::a00:1]",
            "[2002:a00:1::]",
            "[2001::1]",
            "[fe80::1]",
            "[fec0::1]",
            "[fd00:ec2::254]",
            "[ff02::1]",
            "[2001:db8::1]",
            "localhost",
            "LOCALHOST.",
            "x.localhost",
            "printer.local",
            "metadata.google.internal",
            "intranet",
        ] {
            let url = format!("https://{host}/latest/meta-data");
            assert_eq!(judged(&url, UrlPolicy::Production), Err(Rejected::Address), "{host}");
            let url = format!("http://{host}/");
            assert_eq!(judged(&url, UrlPolicy::Production), Err(Rejected::Address), "{host}");
        }
    }

    /// Point 51.
    #[test]
    fn the_development_switch_allows_this_machine_and_nothing_else() {
        for url in ["http://localhost:3000/x", "http://127.0.0.1:9/", "https://127.8.9.1/"] {
            assert_eq!(judged(url, UrlPolicy::Development), Ok(()), "{url}");
            assert_eq!(judged(url, UrlPolicy::Production), Err(Rejected::Address), "{url}");
        }
        for url in ["http://10.0.0.1/hook", "http://[::1]/", "http://x.localhost/"] {
            assert_eq!(judged(url, UrlPolicy::Development), Err(Rejected::Address), "{url}");
        }
        assert_eq!(judged("http://worker.example/", UrlPolicy::Development), Err(Rejected::Scheme));
    }

    /// Point 51.
    #[test]
    fn addresses_are_judged_again_when_a_name_has_been_looked_up() {
        let public: IpAddr = "93.184.216.34".parse().unwrap();
        let private: IpAddr = "10.0.0.1".parse().unwrap();
        let mapped: IpAddr = "::ffff:169.254.169.254".parse().unwrap();
        let loopback: IpAddr = "127.0.0.1".parse().unwrap();
        let far = Endpoint::parse("https://worker.example/", UrlPolicy::Development).unwrap();
        assert_eq!(far.judge(&[public]), Ok(vec![public]));
        for addresses in [&[private][..], &[public, private], &[mapped], &[loopback], &[]] {
            assert_eq!(far.judge(addresses), Err(Rejected::Address), "{addresses:?}");
        }
        let near = Endpoint::parse("http://localhost:80/", UrlPolicy::Development).unwrap();
        assert_eq!(near.judge(&[loopback]), Ok(vec![loopback]));
        assert_eq!(near.judge(&[public]), Err(Rejected::Address), "localhost is this machine");
        assert_eq!(near.host_and_port(), ("localhost", 80));
    }
}
