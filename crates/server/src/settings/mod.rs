//! Settings of the server: one list, from which the struct, the configuration file's keys, the
//! environment's names and the flags are made.
//!
//! `value` reads and writes single values, `check` says which combinations cannot be meant, and
//! `text` what cannot stand in a URL. Reading
//! files, the environment and flags is the program's business: it calls [`Key::set`] in rising
//! order of precedence.

mod check;
mod text;
mod value;

pub use check::SettingsError;
pub(crate) use check::as_settings;
pub use value::{
    Amount, Barrier, CachePolicy, DurabilityMode, LogFormat, Rate, Runtime, Size, Span, Threads,
    Value, ValueKind, WritePathMode, text_of,
};

use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;

/// One setting, as all of its spellings share it.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Name: `long-poll-timeout` in the file and as a flag, `HIGHWATER_LONG_POLL_TIMEOUT` in the
    /// environment.
    pub name: &'static str,
    /// What stands for the value in help texts.
    pub unit: &'static str,
    /// What it does, in a sentence or two.
    pub help: &'static str,
    /// What it belongs to.
    pub group: &'static str,
    /// How its value is written in TOML.
    pub kind: ValueKind,
    set: fn(&mut Settings, &str) -> Result<(), String>,
    get: fn(&Settings) -> String,
}

impl Key {
    /// Sets the setting from text.
    ///
    /// # Errors
    /// [`SettingsError::Value`] that names the setting, what was given and what would do.
    pub fn set(&self, settings: &mut Settings, text: &str) -> Result<(), SettingsError> {
        (self.set)(settings, text).map_err(|why| SettingsError::Value {
            name: self.name,
            text: text.to_owned(),
            why,
        })
    }

    /// Writes the setting as text that [`Key::set`] reads.
    pub fn get(&self, settings: &Settings) -> String {
        (self.get)(settings)
    }

    /// Writes the setting as TOML, `name = value`.
    pub fn line(&self, settings: &Settings) -> String {
        format!("{} = {}", self.name, self.kind.toml(&self.get(settings)))
    }

    /// Name of its environment variable.
    pub fn variable(&self) -> String {
        format!("HIGHWATER_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }
}

/// Finds a setting by its name.
pub fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// A name from elsewhere that means one of these settings.
#[derive(Debug, Clone, Copy)]
pub struct Alias {
    /// The name.
    pub name: &'static str,
    /// The setting it means.
    pub means: &'static str,
    /// Unit to be put behind a bare number.
    pub suffix: &'static str,
}

/// Names that other servers of this protocol use.
pub const ALIASES: [Alias; 2] = [
    Alias { name: "wal-checkpoint-interval-ms", means: "checkpoint-interval", suffix: "ms" },
    Alias { name: "wal-checkpoint-wal-bytes", means: "checkpoint-wal-bytes", suffix: "" },
];

/// A setting that is accepted, warned about, and does nothing.
#[derive(Debug, Clone, Copy)]
pub struct Removed {
    /// Its name.
    pub name: &'static str,
    /// Why it does nothing.
    pub why: &'static str,
}

/// Settings that do nothing.
pub const REMOVED: [Removed; 1] = [Removed {
    name: "wal-fsync-parallel",
    why: "parallel barriers per file are slower than one syncfs per stream lane, and are not done",
}];

macro_rules! settings {
    ($( $group:literal { $(
        $(#[doc = $doc:literal])+
        $(#[cfg($cfg:meta)])?
        $field:ident ($name:literal, $unit:literal): $type:ty = $default:expr;
    )+ } )+) => {
        /// Every setting, with its value.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings { $( $(
            $(#[doc = $doc])+
            $(#[cfg($cfg)])?
            pub $field: $type,
        )+ )+ }

        impl Default for Settings {
            fn default() -> Self {
                Self { $( $( $(#[cfg($cfg)])? $field: $default, )+ )+ }
            }
        }

        /// Every setting, in the order of the documentation.
        pub static KEYS: &[Key] = &[ $( $( $(#[cfg($cfg)])? Key {
            name: $name,
            unit: $unit,
            help: concat!($($doc),+),
            group: $group,
            kind: <$type as Value>::KIND,
            set: |settings, text| {
                settings.$field = <$type as Value>::read(text)?;
                Ok(())
            },
            get: |settings| settings.$field.show(),
        }, )+ )+ ];
    };
}

const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4437);

settings! {
    "Where" {
        /// Address and port to listen on; port 0 takes a free one.
        listen("listen", "ADDR:PORT"): SocketAddr = LOOPBACK;
        /// Directory of the data; made when it is not there.
        data_dir("data-dir", "DIR"): PathBuf = PathBuf::from("./highwater-data");
        /// Path below which streams are.
        stream_root("stream-root", "PATH"): String = "/v1/stream".to_owned();
        /// URL that clients reach this server by, where no trusted proxy tells it.
        public_url("public-url", "URL"): Option<String> = None;
    }
    "Durability" {
        /// When an append is acknowledged: wal (after the barrier), relaxed=TIME (at once, durable
        /// about so much later), memory (after a write that a power cut can take).
        durability("durability", "MODE"): DurabilityMode = DurabilityMode::WAL;
        /// Independent logs, each with its committer; fixed when the data directory is made.
        wal_lanes("wal-lanes", "N"): u16 = 1;
        /// Directories over which streams are spread, one for each device; fixed when the data
        /// directory is made.
        stream_lanes("stream-lanes", "N"): u16 = 1;
        /// How a checkpoint makes streams durable: one syncfs per stream lane, or file by file.
        checkpoint_barrier("checkpoint-barrier", "syncfs|files"): Barrier = Barrier::Syncfs;
        /// Longest time between checkpoints of a lane that has something to move.
        checkpoint_interval("checkpoint-interval", "TIME"): Span = Span::seconds(60);
        /// Log of a lane not yet moved home beyond which a checkpoint begins.
        checkpoint_wal_bytes("checkpoint-wal-bytes", "SIZE"): Size = Size::mib(256);
        /// The same, beyond which appends are 503 until a checkpoint has freed some, and 507 while
        /// there is no space for what they would move.
        max_wal_bytes("max-wal-bytes", "SIZE"): Size = Size::mib(1024);
        /// Segments of the log in memory, all lanes together; beyond it appends are 503.
        max_image_bytes("max-image-bytes", "SIZE"): Size = Size::mib(2048);
        /// Bytes of a log segment; fixed when the data directory is made.
        segment_bytes("segment-bytes", "SIZE"): Size = Size::mib(64);
        /// How the log is written: default (direct, fdatasync), measured (at each start, for a
        /// moment), or access-barrier as in direct-rwf_dsync.
        write_path("write-path", "PATH"): WritePathMode = WritePathMode(None);
        /// Write path for this disk, as highwater probe wrote it (profile.toml).
        profile("profile", "FILE"): Option<PathBuf> = None;
        /// Object storage for old bytes. There is none in this server: any value is refused.
        cold_tier("cold-tier", "URL"): Option<String> = None;
    }
    "Limits" {
        /// Largest request body; beyond it 413.
        max_body_bytes("max-body-bytes", "SIZE"): Size = Size::mib(8);
        /// What has come of request bodies, all together; beyond it 503.
        max_bodies_bytes("max-bodies-bytes", "SIZE"): Size = Size::mib(256);
        /// Records waiting for the disk; beyond it 503.
        max_staged_bytes("max-staged-bytes", "SIZE"): Size = Size::mib(128);
        /// Most bytes of one answer to a read.
        chunk_bytes("chunk-bytes", "SIZE"): Size = Size::mib(1);
        /// Answers in memory that clients have not taken yet, all together: the more there are, the
        /// shorter are the next chunks, down to 64KiB, and 4KiB beyond it; what cannot be so short
        /// is 503 then.
        max_answers_bytes("max-answers-bytes", "SIZE"): Size = Size::mib(256);
        /// Streams, those included that the server keeps for itself: one, and some for each
        /// subscription; beyond it 507.
        max_streams("max-streams", "N"): u64 = 4_000_000;
        /// Bytes of one stream, what a fork inherits included: what would lead beyond it is 507. 0
        /// is no limit.
        max_stream_bytes("max-stream-bytes", "SIZE"): Size = Size(0);
        /// Bytes of all streams together, what a deleted one keeps for its forks included, and what
        /// the server keeps for itself, which is not refused; what would lead beyond it is 507
        /// until others are deleted. 0 is no limit.
        max_total_bytes("max-total-bytes", "SIZE"): Size = Size(0);
        /// Memory for what is known of streams: names, types, producers; about. Beyond it new
        /// streams, and producers that are new to their stream, are 507.
        max_table_bytes("max-table-bytes", "SIZE"): Size = Size::mib(2048);
        /// Longest path of a stream, 4096 at most; beyond it 414.
        max_name_bytes("max-name-bytes", "SIZE"): Size = Size::kib(4);
        /// Most that is kept with a stream beside its content, 16KiB at most: its type and expiry
        /// as they were given, and what it is a fork of; beyond it 413.
        max_metadata_bytes("max-metadata-bytes", "SIZE"): Size = Size::kib(16);
        /// Producers remembered for each stream, 1024 at most. A new one beyond them makes the
        /// stream forget the one unused for longest: what that sends again is taken for new.
        max_producers("max-producers", "N"): u32 = 128;
        /// Files of streams that are open at once.
        max_open_files("max-open-files", "N"): u32 = 256;
        /// Requests per second for each token, or each address without one; beyond it 429. 0 is
        /// no limit.
        rate_limit("rate-limit", "N"): Rate = Rate(0);
        /// Requests that may come at once before the rate counts.
        rate_burst("rate-burst", "N"): Rate = Rate(200);
        /// Leading bits of IPv6 addresses that count as one, for the rate and for connections.
        rate_ipv6_prefix("rate-ipv6-prefix", "BITS"): u16 = 64;
    }
    "Connections" {
        /// Connections at once; there are fewer where the system allows too few open files: the log
        /// has its own first. A few more are answered: 503 and the end, but for health and metrics.
        max_connections("max-connections", "N"): Amount = Amount(20_000);
        /// Connections at once from one address; more are closed. 0 is no limit.
        max_connections_per_address("max-connections-per-address", "N"): Amount = Amount(0);
        /// Buffer of the system for each connection, for what its client has not taken yet; it also
        /// bounds what goes out in one round trip. 0 leaves it to the system.
        send_buffer_bytes("send-buffer-bytes", "SIZE"): Size = Size::kib(512);
        /// Largest head of a request, bytes.
        max_head_bytes("max-head-bytes", "SIZE"): Size = Size::kib(64);
        /// Requests of HTTP/2 under way, all together: 12KiB and its head for each beyond the first
        /// four of its connection, and heads of those where they take more than 8KiB; beyond it
        /// 503.
        max_requests_bytes("max-requests-bytes", "SIZE"): Size = Size::mib(256);
        /// Requests at once on one HTTP/2 connection.
        max_h2_streams("max-h2-streams", "N"): u32 = 256;
        /// Longest time for the head of a request, from its first byte, and for a TLS handshake.
        head_timeout("head-timeout", "TIME"): Span = Span::seconds(10);
        /// Longest time for the body of a request; beyond it 408.
        body_timeout("body-timeout", "TIME"): Span = Span::seconds(60);
        /// Longest time between requests of a connection.
        idle_timeout("idle-timeout", "TIME"): Span = Span::seconds(75);
        /// Longest time in which a client takes nothing of an answer.
        write_timeout("write-timeout", "TIME"): Span = Span::seconds(30);
        /// Age at which a connection is asked to end; at twice this age it is cut.
        connection_age("connection-age", "TIME"): Span = Span::seconds(3600);
        /// Longest time for requests to end when the server stops.
        shutdown_timeout("shutdown-timeout", "TIME"): Span = Span::seconds(10);
        /// Proxies whose X-Forwarded-For, -Proto and -Host are believed.
        trusted_proxies("trusted-proxies", "NETWORKS"): Vec<IpNet> = Vec::new();
        /// Threads that serve; 0 is one for each core.
        threads("threads", "N"): Threads = Threads(0);
        /// How threads share connections: per-core (each keeps its own) or shared (any takes work).
        runtime("runtime", "per-core|shared"): Runtime = Runtime::PerCore;
    }
    "Live reads" {
        /// How long a long-poll waits for data.
        long_poll_timeout("long-poll-timeout", "TIME"): Span = Span::seconds(30);
        /// When an SSE connection is ended, so that clients reconnect and caches can collapse them.
        sse_lifetime("sse-lifetime", "TIME"): Span = Span::seconds(60);
        /// Silence after which an SSE connection gets a comment, so that proxies keep it.
        sse_keep_alive("sse-keep-alive", "TIME"): Span = Span::seconds(15);
        /// Whether shared caches may keep what is read: public or private. Where it is not set,
        /// private with access control, and public without.
        cache("cache", "public|private"): Option<CachePolicy> = None;
        /// Answers from so many bytes on are compressed for clients that accept it. 0 is never.
        gzip_from_bytes("gzip-from-bytes", "SIZE"): Size = Size(0);
    }
    "TLS" {
        /// Certificate chain, PEM; read again when it changes and on SIGHUP.
        tls_cert("tls-cert", "FILE"): Option<PathBuf> = None;
        /// Its private key, PEM.
        tls_key("tls-key", "FILE"): Option<PathBuf> = None;
        /// Serve TLS with a certificate made at start, for development.
        tls_self_signed("tls-self-signed", "true|false"): bool = false;
    }
    "Access" {
        /// File of bearer tokens, hashed, with scopes; read again when it changes and on SIGHUP.
        auth("auth", "FILE"): Option<PathBuf> = None;
        /// JSON Web Key Set that JWTs are checked against (Ed25519, HS256).
        auth_jwks("auth-jwks", "FILE"): Option<PathBuf> = None;
        /// Secret that JWTs are checked against (HS256), the file's bytes without a last newline.
        auth_hs256("auth-hs256", "FILE"): Option<PathBuf> = None;
        /// Issuer that JWTs must name.
        auth_issuer("auth-issuer", "TEXT"): Option<String> = None;
        /// Audience that JWTs must name; without it, they must name none.
        auth_audience("auth-audience", "TEXT"): Option<String> = None;
        /// Listen on an address that is not loopback, and let anybody do everything.
        insecure_no_auth("insecure-no-auth", "true|false"): bool = false;
        /// Origins of pages that may call: `*`, or a list.
        cors_origins("cors-origins", "ORIGINS"): Vec<String> = vec!["*".to_owned()];
    }
    "Webhooks" {
        /// Accept webhooks over plain HTTP on localhost and 127.x, for development.
        webhook_localhost("webhook-localhost", "true|false"): bool = false;
        /// Longest time for one delivery.
        webhook_timeout("webhook-timeout", "TIME"): Span = Span::seconds(30);
        /// Deliveries at once; half of them at most are such that failed before.
        webhook_deliveries("webhook-deliveries", "N"): Amount = Amount(64);
        /// Deliveries at once to one host and port.
        webhook_deliveries_per_host("webhook-deliveries-per-host", "N"): Amount = Amount(16);
        /// Subscriptions at most.
        max_subscriptions("max-subscriptions", "N"): Amount = Amount(10_000);
        /// Memory for what subscriptions have acknowledged, stream by stream, and for streams they
        /// name; about. Beyond it 507, and what is acknowledged of further streams comes again. A
        /// quarter as much is used beside it for streams that wait for a wake.
        max_links_bytes("max-links-bytes", "SIZE"): Size = Size::mib(256);
    }
    "Logs" {
        /// What is logged: a level, or a list of module=level.
        log("log", "FILTER"): String = "info".to_owned();
        /// How: text or json, a line each.
        log_format("log-format", "text|json"): LogFormat = LogFormat::Text;
        /// Collector that gets a span for each request, by OTLP over plain HTTP, as in
        /// `http://127.0.0.1:4318`: it takes them below that at /v1/traces.
        #[cfg(feature = "otlp")]
        otlp_endpoint("otlp-endpoint", "URL"): Option<String> = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_can_be_written_and_read_back() {
        let defaults = Settings::default();
        for key in KEYS {
            let mut settings = Settings::default();
            key.set(&mut settings, &key.get(&defaults)).unwrap();
            assert_eq!(settings, defaults, "{}", key.name);
        }
    }

    #[test]
    fn every_line_of_a_printed_configuration_is_toml_with_the_same_meaning() {
        let defaults = Settings::default();
        for key in KEYS {
            let line = key.line(&defaults);
            let table: toml::Table = line.parse().unwrap();
            let (name, value) = table.iter().next().unwrap();
            assert_eq!(name, key.name);
            assert_eq!(text_of(value).unwrap(), key.get(&defaults), "{line}");
        }
    }

    #[test]
    fn names_are_unique_and_aliases_mean_something() {
        for (at, one) in KEYS.iter().enumerate() {
            assert!(KEYS[..at].iter().all(|other| other.name != one.name), "{}", one.name);
            assert!(!one.help.is_empty() && one.name.len() < 30);
        }
        assert!(ALIASES.iter().all(|alias| key(alias.means).is_some()));
        assert!(REMOVED.iter().all(|removed| key(removed.name).is_none()));
    }
}
