//! Which combinations of settings cannot be meant.

use highwater_log::error::OpenError;
use highwater_log::options::{Durability, Options};
use highwater_streams::subscriptions::url_policy::UrlPolicy;

use super::{CachePolicy, Settings, Size, Span, text};
use crate::operator::OperatorPath;

/// How the names of streams begin that the server keeps for itself: keys, and subscriptions, which
/// have to be acknowledged also when clients have filled all that they may.
const OWN_STREAMS: &str = "__ds/";
/// What the server may append to them at once, however little clients may: more than it does.
const OWN_BYTES: u64 = 64 << 10;
/// Room for the names that it needs to start.
const LEAST_NAME: Size = Size(32);

/// Why settings are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A value that the setting cannot have.
    #[error("{name}: {text:?} is not {why}")]
    Value {
        /// The setting.
        name: &'static str,
        /// What was given.
        text: String,
        /// What would have done.
        why: String,
    },
    /// No such setting.
    #[error("{place}: there is no setting {name:?}{}", suggestion(.name))]
    Unknown {
        /// Where it stands.
        place: String,
        /// What stands there.
        name: String,
    },
    /// Settings that do not go together, or that cannot be meant.
    #[error("{0}")]
    Refused(String),
}

/// Names the setting that was probably meant.
fn suggestion(name: &str) -> String {
    let close = super::KEYS
        .iter()
        .find(|key| key.name.replace('-', "") == name.to_ascii_lowercase().replace(['-', '_'], ""));
    close.map(|key| format!("; did you mean {:?}?", key.name)).unwrap_or_default()
}

impl Settings {
    /// Checks that the settings go together.
    ///
    /// # Errors
    /// [`SettingsError::Refused`] with what to do instead.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.check_access()?;
        self.check_tls()?;
        self.check_limits()?;
        self.check_texts()?;
        if self.cold_tier.is_some() {
            let text = if self.durability.0 == Durability::Memory {
                "durability=memory and a cold tier do not go together: what was acknowledged in \
                 memory must not be moved before it is durable"
            } else {
                "cold-tier: this server has none; leave it away"
            };
            return refuse(text);
        }
        let options = self.log_options();
        options.check().map_err(|error| SettingsError::Refused(as_settings(error).to_string()))
    }

    /// Whether requests have to say who they come from.
    pub fn has_auth(&self) -> bool {
        self.auth.is_some() || self.auth_jwks.is_some() || self.auth_hs256.is_some()
    }

    /// Who may keep what is read. Where not everybody may read, shared caches would give it to
    /// those who may not (RFC 9111, section 3.5), unless somebody wants just that.
    pub fn cache_policy(&self) -> CachePolicy {
        let unsaid = if self.has_auth() { CachePolicy::Private } else { CachePolicy::Public };
        self.cache.unwrap_or(unsaid)
    }

    /// Whether TLS is served.
    pub fn has_tls(&self) -> bool {
        self.tls_self_signed || self.tls_cert.is_some()
    }

    /// Says where webhooks may go.
    pub fn webhook_policy(&self) -> UrlPolicy {
        if self.webhook_localhost { UrlPolicy::Development } else { UrlPolicy::Production }
    }

    /// Gives the log's settings.
    pub fn log_options(&self) -> Options {
        let segment = self.segment_bytes.0;
        // What clients send is bounded before it comes to the log.
        let own = OWN_BYTES
            .min(segment.saturating_sub(4096 + Options::RECORD_ROOM))
            .min(self.max_staged_bytes.0 / 2);
        Options {
            lanes: self.wal_lanes,
            stream_lanes: self.stream_lanes,
            segment_bytes: segment,
            max_payload_bytes: self.max_body_bytes.0.max(own),
            frame_bytes: Options::default().frame_bytes.min(segment.saturating_sub(4096)),
            max_staged_bytes: self.max_staged_bytes.0,
            checkpoint_wal_bytes: self.checkpoint_wal_bytes.0,
            max_wal_bytes: self.max_wal_bytes.0,
            checkpoint_interval: self.checkpoint_interval.0,
            max_streams: self.max_streams,
            max_stream_bytes: self.max_stream_bytes.or_none(),
            max_total_bytes: self.max_total_bytes.or_none(),
            unbounded_prefix: Some(OWN_STREAMS),
            max_table_bytes: self.max_table_bytes.0,
            max_name_bytes: self.max_name_bytes.in_u32(),
            max_metadata_bytes: self.max_metadata_bytes.in_u32(),
            max_producers: self.max_producers,
            max_open_files: self.max_open_files,
            file_barrier: self.checkpoint_barrier.into(),
            durability: self.durability.0,
            write_path: self.write_path.choice(),
            max_image_bytes: self.max_image_bytes.0,
            ..Options::default()
        }
    }

    /// What ends up in URLs and headers.
    fn check_texts(&self) -> Result<(), SettingsError> {
        if !text::is_plain_path(&self.stream_root) {
            return refuse("stream-root: a path that begins with / and needs no escapes");
        }
        let root = self.stream_root.trim_end_matches('/');
        if root.is_empty() || OperatorPath::at(root).is_some() {
            return refuse(
                "stream-root: /healthz, /readyz and /metrics would be streams, and nobody could \
                 look after the server; choose a path such as /v1/stream",
            );
        }
        if self.public_url.as_ref().is_some_and(|url| !text::is_base_url(url)) {
            return refuse(
                "public-url: http:// or https://, a host, and perhaps a port and a path, as in \
                 https://streams.example.org",
            );
        }
        let is_known = |origin: &String| origin == "*" || text::is_origin(origin);
        if let Some(odd) = self.cors_origins.iter().find(|origin| !is_known(origin)) {
            return refuse(&format!(
                "cors-origins: {odd:?} is neither * nor an origin as browsers send it, as in \
                 https://app.example.org"
            ));
        }
        #[cfg(feature = "otlp")]
        if let Some(url) = &self.otlp_endpoint
            && !(url.starts_with("http://") && text::is_base_url(url))
        {
            return refuse("otlp-endpoint: a URL that begins with http://; TLS is a collector's");
        }
        Ok(())
    }

    fn check_access(&self) -> Result<(), SettingsError> {
        if self.has_auth() && self.insecure_no_auth {
            return refuse("insecure-no-auth and an access file do not go together");
        }
        let is_open = !self.has_auth() && !self.insecure_no_auth;
        if is_open && !self.listen.ip().is_loopback() {
            return refuse(&format!(
                "listen={}: everybody who reaches this address could read and delete every \
                 stream. Give --auth FILE (see docs/operating.md), or --insecure-no-auth if that \
                 is what you want",
                self.listen
            ));
        }
        let needs_jwt = self.auth_issuer.is_some() || self.auth_audience.is_some();
        if needs_jwt && self.auth_jwks.is_none() && self.auth_hs256.is_none() {
            return refuse("auth-issuer and auth-audience need auth-jwks or auth-hs256");
        }
        Ok(())
    }

    fn check_tls(&self) -> Result<(), SettingsError> {
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return refuse("tls-cert and tls-key go together");
        }
        if self.tls_cert.is_some() && self.tls_self_signed {
            return refuse("tls-self-signed and tls-cert do not go together");
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), SettingsError> {
        for (name, span) in [
            ("head-timeout", self.head_timeout),
            ("body-timeout", self.body_timeout),
            ("idle-timeout", self.idle_timeout),
            ("write-timeout", self.write_timeout),
            ("connection-age", self.connection_age),
            ("long-poll-timeout", self.long_poll_timeout),
            ("sse-lifetime", self.sse_lifetime),
            ("sse-keep-alive", self.sse_keep_alive),
            ("webhook-timeout", self.webhook_timeout),
        ] {
            if span == Span::seconds(0) {
                return refuse(&format!("{name}: longer than nothing"));
            }
        }
        if self.max_head_bytes < Size::kib(8) || self.max_head_bytes > Size::mib(1) {
            return refuse("max-head-bytes: 8KiB to 1MiB");
        }
        if self.chunk_bytes < Size(1) || self.chunk_bytes > Size::mib(1024) {
            return refuse("chunk-bytes: 1 to 1GiB");
        }
        if self.max_body_bytes < Size(1) {
            return refuse("max-body-bytes: at least 1");
        }
        if self.max_name_bytes < LEAST_NAME {
            return refuse("max-name-bytes: 32 to 4096; the server has streams of its own");
        }
        if self.max_bodies_bytes < self.max_body_bytes {
            return refuse("max-bodies-bytes: at least max-body-bytes");
        }
        if self.webhook_deliveries.0 == 0 || self.webhook_deliveries_per_host.0 == 0 {
            return refuse("webhook-deliveries and webhook-deliveries-per-host: at least 1");
        }
        if self.max_connections.0 == 0 || self.max_h2_streams == 0 {
            return refuse("max-connections and max-h2-streams: at least 1");
        }
        if self.rate_limit.0 > 0 && self.rate_burst.0 == 0 {
            return refuse("rate-burst: at least 1 where there is a rate-limit");
        }
        if !(1..=128).contains(&self.rate_ipv6_prefix) {
            return refuse("rate-ipv6-prefix: 1 to 128");
        }
        Ok(())
    }
}

fn refuse<T>(text: &str) -> Result<T, SettingsError> {
    Err(SettingsError::Refused(text.to_owned()))
}

/// Says what the log refuses in the names that settings have here.
pub(crate) fn as_settings(refused: OpenError) -> OpenError {
    match refused {
        OpenError::Settings(why) => {
            let why = why.replace("max_payload_bytes", "max-body-bytes").replace('_', "-");
            let is_of_logs = why.starts_with("lanes:");
            OpenError::Settings(if is_of_logs { format!("wal-{why}") } else { why })
        }
        OpenError::Mismatch { what, stored, asked } => {
            let names = [
                ("lanes", "wal-lanes"),
                ("stream_lanes", "stream-lanes"),
                ("segment_bytes", "segment-bytes"),
            ];
            let known = names.iter().find(|(its, _)| *its == what);
            OpenError::Mismatch { what: known.map_or(what, |(_, ours)| ours), stored, asked }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::key;
    use super::*;

    fn refused(changes: &[(&str, &str)]) -> String {
        let mut settings = Settings::default();
        for (name, text) in changes {
            key(name).unwrap().set(&mut settings, text).unwrap();
        }
        settings.check().map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn defaults_can_be_meant() {
        assert_eq!(refused(&[]), "");
    }

    #[test]
    fn an_open_server_listens_on_loopback_only_unless_it_is_told_twice() {
        for address in ["0.0.0.0:4437", "[::]:4437", "192.168.1.5:1"] {
            assert!(refused(&[("listen", address)]).contains("--insecure-no-auth"), "{address}");
            assert_eq!(refused(&[("listen", address), ("insecure-no-auth", "true")]), "");
            assert_eq!(refused(&[("listen", address), ("auth", "tokens.toml")]), "");
        }
        assert_eq!(refused(&[("listen", "127.0.0.9:1")]), "");
        assert_eq!(refused(&[("listen", "[::1]:1")]), "");
    }

    #[test]
    fn memory_and_a_cold_tier_are_refused_together_and_a_cold_tier_alone_too() {
        let cold = ("cold-tier", "s3://bucket");
        assert!(refused(&[cold, ("durability", "memory")]).contains("do not go together"));
        assert!(refused(&[cold]).contains("has none"));
    }

    #[test]
    fn halves_of_pairs_and_contradictions_are_refused() {
        assert!(refused(&[("tls-cert", "a.pem")]).contains("go together"));
        let both = [("tls-cert", "a"), ("tls-key", "b"), ("tls-self-signed", "true")];
        assert!(refused(&both).contains("tls-self-signed"));
        assert!(refused(&[("auth-issuer", "x")]).contains("auth-jwks"));
        assert!(refused(&[("idle-timeout", "0s")]).contains("idle-timeout"));
        assert!(refused(&[("max-wal-bytes", "1MiB")]).contains("max-wal-bytes"));
    }

    #[test]
    fn a_value_that_is_refused_is_refused_under_the_name_that_it_is_set_by() {
        let is_setting = |name: &str| super::super::KEYS.iter().any(|key| key.name == name);
        let mut refusals = 0;
        for number in super::super::KEYS {
            for text in ["0", "1", "2", "9", "100", "64KiB", "1MiB", "1GiB", "256", "65535", "0s"] {
                let mut settings = Settings::default();
                if number.set(&mut settings, text).is_err() {
                    continue;
                }
                let Err(refused) = settings.check() else { continue };
                let refused = refused.to_string();
                refusals += 1;
                let named = refused.split([':', ' ']).next().unwrap();
                let named = named.split('=').next().unwrap();
                assert!(is_setting(named), "{}={text}: {refused}", number.name);
                assert!(!refused.contains('_'), "{}={text}: {refused}", number.name);
            }
        }
        assert!(refusals > 20, "{refusals}");
    }

    #[test]
    fn segments_may_be_as_small_as_is_said_and_bodies_too() {
        let small = [("segment-bytes", "64KiB"), ("max-body-bytes", "12KiB")];
        assert_eq!(refused(&small), "");
        assert_eq!(refused(&[("segment-bytes", "1MiB"), ("max-body-bytes", "256KiB")]), "");
        assert_eq!(refused(&[("max-body-bytes", "1")]), "");
        let staged = [("max-body-bytes", "12KiB"), ("max-staged-bytes", "24KiB")];
        assert_eq!(refused(&staged), "");
        assert!(refused(&[("segment-bytes", "64KiB")]).contains("max-body-bytes: 1 to 12288"));
    }

    #[test]
    fn text_that_cannot_stand_in_a_url_or_header_is_refused_at_the_start() {
        for (name, texts) in [
            ("public-url", &["https://x.org\n", "javascript:alert(1)", "https://x/a#b"][..]),
            ("stream-root", &["v1", "/a b", "/a\n", "/a//b", "/%61"]),
            ("cors-origins", &["a.org", "https://a.org/", "https://a.org,null"]),
        ] {
            for text in texts {
                assert!(refused(&[(name, text)]).contains(name), "{name}={text:?}");
            }
        }
        assert_eq!(refused(&[("public-url", "https://x.org/base/"), ("stream-root", "/s")]), "");
        assert_eq!(refused(&[("cors-origins", "https://a.org,http://localhost:3000")]), "");
    }

    #[test]
    fn a_stream_root_that_would_hide_health_or_metrics_is_refused() {
        for root in ["/", "/healthz", "/readyz", "/metrics", "/metrics/"] {
            assert!(refused(&[("stream-root", root)]).contains("stream-root"), "{root}");
        }
        for root in ["/v1/stream", "/s/", "/healthz/streams", "/metrics2"] {
            assert_eq!(refused(&[("stream-root", root)]), "", "{root}");
        }
    }

    #[test]
    fn shared_caches_keep_what_is_read_only_where_everybody_may_read_it_or_that_is_wanted() {
        let policy = |changes: &[(&str, &str)]| {
            let mut settings = Settings::default();
            for (name, text) in changes {
                key(name).unwrap().set(&mut settings, text).unwrap();
            }
            settings.cache_policy()
        };
        assert_eq!(policy(&[]), CachePolicy::Public);
        for access in ["auth", "auth-jwks", "auth-hs256"] {
            assert_eq!(policy(&[(access, "file")]), CachePolicy::Private);
            assert_eq!(policy(&[(access, "file"), ("cache", "public")]), CachePolicy::Public);
        }
        assert_eq!(policy(&[("cache", "private")]), CachePolicy::Private);
    }

    #[test]
    fn a_name_with_the_wrong_separators_is_recognised() {
        let unknown = SettingsError::Unknown { place: "x".to_owned(), name: "data_dir".to_owned() };
        assert!(unknown.to_string().contains("did you mean \"data-dir\"?"));
    }
}
