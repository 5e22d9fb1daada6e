//! What is known of one stream.

use std::time::Duration;

use highwater_disk::Clock;
use highwater_log::format::Expiry;
use highwater_log::ids::{Offset, StreamId};
use highwater_log::request::{ForkOf, Info};

use super::metadata::{ForkMetadata, Metadata};
use crate::content::{ContentType, Kind};
use crate::error::Outcome;
use crate::fields::Lifetime;

/// What is known of a stream, as far as it is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The stream.
    pub id: StreamId,
    /// What it holds.
    pub content_type: ContentType,
    /// Its tail.
    pub tail: Offset,
    /// Whether it is closed.
    pub is_closed: bool,
    /// How long it was asked to live.
    pub lifetime: Lifetime,
    /// First byte that is its own and not its source's.
    pub own_start: Offset,
    pub(super) expiry: Option<Expiry>,
    pub(super) fork: Option<ForkMetadata>,
}

impl View {
    /// Reads what the log knows.
    pub(super) fn new(info: &Info) -> Outcome<Self> {
        let config = &info.config;
        let metadata = Metadata::decode(&config.metadata)?;
        let lifetime = match config.expiry {
            None => Lifetime::Unsaid,
            Some(Expiry::Sliding { ttl_ms }) => Lifetime::Ttl { seconds: ttl_ms / 1000 },
            Some(Expiry::Absolute { at_ms }) => {
                Lifetime::Until { at_ms, text: metadata.expires_at.unwrap_or_default() }
            }
        };
        let given = metadata.content_type.as_deref();
        Ok(Self {
            id: info.id,
            content_type: ContentType::stored(&config.content_type, given),
            tail: info.tail,
            is_closed: info.is_closed,
            lifetime,
            own_start: info.fork.map_or(Offset(0), |ForkOf { offset, .. }| offset),
            expiry: config.expiry,
            fork: metadata.fork,
        })
    }

    /// How its content is treated.
    pub fn kind(&self) -> Kind {
        self.content_type.kind()
    }

    pub(super) fn is_sliding(&self) -> bool {
        self.ttl().is_some()
    }

    /// How long an answer that was just given may be kept: nobody is to read what has ended, and
    /// who reads by way of a cache uses the stream in time.
    pub(super) fn kept_for(&self, clock: &dyn Clock) -> Option<Duration> {
        let left = self.until().map(|until| until.saturating_sub(clock.wall()));
        left.or_else(|| self.ttl().map(|ttl| ttl / 2))
    }

    /// When it ends by the wall clock, where no use makes that later.
    pub(crate) fn until(&self) -> Option<Duration> {
        match self.expiry {
            Some(Expiry::Absolute { at_ms }) => Some(Duration::from_millis(at_ms)),
            _ => None,
        }
    }

    /// How long it lives after its last use, where it ends then.
    pub(crate) fn ttl(&self) -> Option<Duration> {
        match self.expiry {
            Some(Expiry::Sliding { ttl_ms }) => Some(Duration::from_millis(ttl_ms)),
            _ => None,
        }
    }
}
