//! What all requests share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use highwater_disk::Clock;
use highwater_log::Log;
use highwater_streams::path::Mount;
use highwater_streams::service::Streams;
use highwater_streams::subscriptions::Subscriptions;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::files::Plan;
use crate::http::budget::Budget;
use crate::http::cors::Cors;
use crate::lines::{Kind, Lines};
use crate::metrics::Metrics;
use crate::net::origin::Origins;
use crate::rate::Limiter;
use crate::settings::Settings;

/// What all requests share.
#[derive(Debug)]
pub(crate) struct App {
    pub settings: Settings,
    /// How open files are shared out.
    pub files: Plan,
    pub log: Arc<Log>,
    pub streams: Streams,
    pub subscriptions: Arc<Subscriptions>,
    /// Is held by who makes a subscription.
    pub making: Arc<Semaphore>,
    pub mount: Mount,
    pub origins: Origins,
    pub access: Access,
    pub cors: Cors,
    pub limiter: Option<Limiter>,
    pub metrics: Metrics,
    pub bodies: Arc<Budget>,
    pub requests: Arc<Budget>,
    pub clock: Arc<dyn Clock>,
    /// Of the log, that clients can cause.
    pub lines: Arc<Lines<Kind>>,
    /// Is cancelled when the server stops.
    pub stopping: CancellationToken,
    /// Connections so far.
    pub connections: AtomicU64,
}

impl App {
    /// Says whether requests can be carried out.
    ///
    /// # Errors
    /// Why not.
    pub fn readiness(&self) -> Result<(), String> {
        if self.stopping.is_cancelled() {
            return Err("stopping".to_owned());
        }
        self.log.check().map_err(|error| error.to_string())
    }
}
