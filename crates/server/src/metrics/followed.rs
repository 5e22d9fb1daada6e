//! Numbers of subscriptions, read when they are asked for.

use std::fmt;
use std::sync::{Arc, Weak};

use highwater_streams::subscriptions::Subscriptions;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads the numbers of subscriptions. It does not keep them.
#[derive(Debug)]
pub(crate) struct Followed(Weak<Subscriptions>);

impl Followed {
    /// Takes the subscriptions.
    pub fn new(subscriptions: &Arc<Subscriptions>) -> Self {
        Self(Arc::downgrade(subscriptions))
    }
}

impl Collector for Followed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(subscriptions) = self.0.upgrade() else { return Ok(()) };
        let sizes = subscriptions.sizes();
        let count = u64::try_from(subscriptions.len()).unwrap_or(u64::MAX);
        let numbers = [
            ("subscriptions", "Subscriptions", count),
            ("links_bytes", "Memory for cursors of subscriptions and streams named", sizes.kept),
            ("links_waiting_bytes", "Memory for streams that wait for a wake", sizes.implied),
        ];
        for (name, help, value) in numbers {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}
