//! What is counted, for Prometheus. Counters of the request path are looked up once, at start.

mod engine;
mod followed;
mod histogram;

use std::sync::Arc;
use std::time::Duration;

use highwater_log::Log;
use highwater_streams::subscriptions::Subscriptions;
use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use self::engine::Engine;
use self::followed::Followed;
pub(crate) use self::histogram::Durations;
use crate::files::Plan;

/// What kind of work a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// PUT of a stream.
    Create,
    /// POST to a stream.
    Append,
    /// GET of a stream.
    Read,
    /// GET of a stream that waits.
    LongPoll,
    /// GET of a stream that goes on.
    Sse,
    /// HEAD of a stream.
    Head,
    /// DELETE of a stream.
    Delete,
    /// What lies below `__ds`.
    Subscription,
    /// Everything else.
    Other,
}

const OPERATIONS: [&str; 9] =
    ["create", "append", "read", "long-poll", "sse", "head", "delete", "subscription", "other"];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl Operation {
    /// Names the operation that a method on a stream is, as long as nothing else is known.
    pub fn of(method: &Method) -> Self {
        match *method {
            Method::PUT => Self::Create,
            Method::POST => Self::Append,
            Method::GET => Self::Read,
            Method::HEAD => Self::Head,
            Method::DELETE => Self::Delete,
            _ => Self::Other,
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Create => 0,
            Self::Append => 1,
            Self::Read => 2,
            Self::LongPoll => 3,
            Self::Sse => 4,
            Self::Head => 5,
            Self::Delete => 6,
            Self::Subscription => 7,
            Self::Other => 8,
        }
    }
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    status: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OperationLabels {
    operation: &'static str,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LimitLabels {
    limit: &'static str,
}

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $limit:ident = $label:literal,)+) => {
        /// A limit that was hit.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Limit { $( $(#[doc = $doc])+ $limit, )+ }

        /// Their names, in order.
        const LIMITS: &[&str] = &[$($label),+];
    };
}

limits! {
    /// Requests per second.
    Rate = "rate",
    /// Size of a head.
    Head = "head",
    /// Size of a body.
    Body = "body",
    /// Bodies in memory.
    Bodies = "bodies",
    /// Time for a body.
    BodyTime = "body-time",
    /// Length of a path.
    Name = "name",
    /// Size of what is kept of a stream beside its content.
    Metadata = "metadata",
    /// Requests of HTTP/2 at once, and their heads.
    Requests = "requests",
    /// Answers in memory.
    Answers = "answers",
    /// What waits for the disk.
    Staged = "staged",
    /// What waits for a checkpoint, in segments.
    Wal = "wal",
    /// What waits for a checkpoint, in memory.
    Images = "images",
    /// Open files for the log.
    Files = "files",
    /// Room in the log.
    Full = "full",
    /// Connections at once.
    Connections = "connections",
    /// Connections of one address.
    ConnectionsPerAddress = "connections-per-address",
    /// What the system has for connections: open files, memory.
    System = "system",
    /// A connection that was cut.
    Cut = "cut",
    /// An answer of HTTP/2 of which nothing was taken.
    Untaken = "untaken",
}

/// Everything that is counted.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Vec<[Counter; CLASSES.len()]>,
    durations: Vec<Durations>,
    limits: Vec<Counter>,
    /// Connections that are open.
    pub connections: Gauge,
    /// Connections that were accepted.
    pub accepted: Counter,
    /// Live readers that are waiting, of both kinds.
    pub subscribers: Gauge,
    /// Bytes of content taken in.
    pub bytes_in: Counter,
    /// Bytes of content sent, live events not counted.
    pub bytes_out: Counter,
    /// Requests that ended in a panic.
    pub request_panics: Counter,
    /// Webhooks that were answered with success.
    pub webhooks_done: Counter,
    /// Webhooks that were not.
    pub webhooks_failed: Counter,
}

impl Metrics {
    /// Begins at zero; what the log counts is read from it.
    pub fn new(log: &Arc<Log>, files: &Plan, subscriptions: &Arc<Subscriptions>) -> Self {
        let mut registry = Registry::with_prefix("highwater");
        let requests = Family::<RequestLabels, Counter>::default();
        let durations = Family::<OperationLabels, Durations>::default();
        let limits = Family::<LimitLabels, Counter>::default();
        let request = |operation: &&'static str| {
            CLASSES.map(|status| requests.get_or_create_owned(&RequestLabels { operation, status }))
        };
        let duration = |operation: &&'static str| {
            durations.get_or_create_owned(&OperationLabels { operation })
        };
        let limit = |limit: &&'static str| limits.get_or_create_owned(&LimitLabels { limit });
        let mut metrics = Self {
            requests: OPERATIONS.iter().map(request).collect(),
            durations: OPERATIONS.iter().map(duration).collect(),
            limits: LIMITS.iter().map(limit).collect(),
            connections: Gauge::default(),
            accepted: Counter::default(),
            subscribers: Gauge::default(),
            bytes_in: Counter::default(),
            bytes_out: Counter::default(),
            request_panics: Counter::default(),
            webhooks_done: Counter::default(),
            webhooks_failed: Counter::default(),
            registry: Registry::default(),
        };
        registry.register("requests", "Requests answered", requests);
        registry.register("request_duration_seconds", "Time to the answer's head", durations);
        registry.register("limits_hit", "Requests or connections that hit a limit", limits);
        metrics.register(&mut registry);
        let bounds = [
            ("connections_limit", "Connections at once, at most", u64::from(files.connections)),
            ("open_files_limit", "Open files that the system allows", files.most),
        ];
        for (name, help, bound) in bounds {
            let gauge = Gauge::<i64>::default();
            gauge.set(i64::try_from(bound).unwrap_or(i64::MAX));
            registry.register(name, help, gauge);
        }
        registry.register_collector(Box::new(Engine::new(log)));
        registry.register_collector(Box::new(Followed::new(subscriptions)));
        metrics.registry = registry;
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        let gauges = [
            ("connections", "Connections that are open", &self.connections),
            ("subscribers", "Live readers that are waiting", &self.subscribers),
        ];
        for (name, help, gauge) in gauges {
            registry.register(name, help, gauge.clone());
        }
        let counters = [
            ("connections_accepted", "Connections accepted", &self.accepted),
            ("content_in_bytes", "Bytes of content taken in", &self.bytes_in),
            ("content_out_bytes", "Bytes of content sent to readers", &self.bytes_out),
            ("request_panics", "Requests that ended in a panic", &self.request_panics),
            ("webhooks_delivered", "Webhooks answered with success", &self.webhooks_done),
            ("webhooks_failed", "Webhooks not answered with success", &self.webhooks_failed),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
    }

    /// Counts a request.
    pub fn answered(&self, operation: Operation, status: StatusCode, took: Duration) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(CLASSES.len() - 1);
        self.requests[operation.index()][class].inc();
        self.durations[operation.index()].observe(took);
    }

    /// Counts a limit that was hit.
    pub fn hit(&self, limit: Limit) {
        self.limits[limit as usize].inc();
    }

    /// Writes everything as Prometheus reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }
}

/// Something that is there, and counts as long as it is.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    /// Counts one more.
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
