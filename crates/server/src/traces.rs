//! Spans for a collector: one for each request, by OTLP over HTTP, from a thread of their own.
//!
//! At most [`QUEUE`] of them wait to be sent; what comes then is left out, and no request waits
//! (I11). Sampling is the caller's, where the request says so (W3C `traceparent`), else all are
//! taken. What a span says is in `http::trace`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider,
};
use tokio::runtime::{Builder, Runtime};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{Filtered, Targets};
use tracing_subscriber::registry::LookupSpan;

use crate::error::ServeError;
use crate::http::trace::TARGET;
use crate::settings::Settings;

/// Spans that wait to be sent, at most.
const QUEUE: usize = 2048;
/// Longest time for sending some.
const SEND_WITHIN: Duration = Duration::from_secs(5);
/// Longest time for sending the last ones.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Spans on their way to a collector; the last ones are sent when this is dropped.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Begins to send spans, if the settings name a collector. Nothing is connected to yet.
    ///
    /// # Errors
    /// [`ServeError::System`] when there is no thread for it.
    pub fn start(settings: &Settings) -> Result<Option<Self>, ServeError> {
        let Some(endpoint) = &settings.otlp_endpoint else { return Ok(None) };
        let failed = |source| ServeError::System { what: "sending of spans", source };
        let client = Sender {
            runtime: Builder::new_current_thread().enable_all().build().map_err(failed)?,
            inner: HyperClient::with_default_connector(SEND_WITHIN, None),
            is_failing: AtomicBool::new(false),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .with_timeout(SEND_WITHIN)
            .build()
            .map_err(|error| failed(std::io::Error::other(error)))?;
        let config = BatchConfigBuilder::default().with_max_queue_size(QUEUE).build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
        let resource = Resource::builder_empty().with_service_name("highwater").build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource)
            .build();
        Ok(Some(Self { provider }))
    }

    /// Gives the layer that takes the spans of requests, and nothing else.
    pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(
        &self,
    ) -> Filtered<OpenTelemetryLayer<S, SdkTracer>, Targets, S> {
        let tracer = self.provider.tracer("highwater");
        let targets = Targets::new().with_target(TARGET, LevelFilter::TRACE);
        // Where in the code a span begins, and on which thread, says nothing of a request.
        let layer = tracing_opentelemetry::layer().with_location(false).with_threads(false);
        layer.with_tracked_inactivity(false).with_tracer(tracer).with_filter(targets)
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown_with_timeout(END_WITHIN) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// Sends from the thread that has the spans: that one may block.
#[derive(Debug)]
struct Sender {
    runtime: Runtime,
    inner: HyperClient,
    is_failing: AtomicBool,
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.runtime.block_on(self.inner.send_bytes(request));
        let why = match &sent {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(answer.status().to_string()),
            Err(error) => Some(error.to_string()),
        };
        let was_failing = self.is_failing.swap(why.is_some(), Ordering::Relaxed);
        if let Some(why) = why.filter(|_| !was_failing) {
            tracing::warn!(why, "spans are not taken by the collector, and are lost");
        }
        sent
    }
}
