//! A span for each request, named as the conventions of OpenTelemetry for HTTP servers have it: by
//! method and route, never by the path itself, which has names of streams.
//!
//! It ends with the head of the answer: how long events are sent is no property of the request.

use highwater_streams::path::{Mount, Target};
use http::request::Parts;
use http::{Method, StatusCode};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::operator::OperatorPath;

/// What spans of requests are told apart by from all others.
pub(crate) const TARGET: &str = "highwater::request";

/// Begins the span of a request, below the caller's where it names one.
pub(super) fn begin(parts: &Parts, mount: &Mount, root: &str) -> Span {
    let span = tracing::trace_span!(
        target: TARGET,
        "request",
        otel.name = Empty,
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = Empty,
        http.route = Empty,
        http.response.status_code = Empty,
        network.protocol.version = Empty,
        highwater.request_id = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    let parent = TraceContextPropagator::new().extract(&HeaderExtractor(&parts.headers));
    // It fails only where nobody takes spans.
    span.set_parent(parent).ok();
    let method = known(&parts.method);
    span.record("http.request.method", method);
    span.record("network.protocol.version", version(parts));
    match route(parts.uri.path(), mount, root) {
        Some(route) => {
            span.record("otel.name", format!("{method} {route}"));
            span.record("http.route", route);
        }
        None => {
            span.record("otel.name", method);
        }
    }
    span
}

/// Notes what became of a request.
pub(super) fn end(span: &Span, status: StatusCode, id: impl FnOnce() -> String) {
    if span.is_disabled() {
        return;
    }
    span.record("http.response.status_code", status.as_u16());
    span.record("highwater.request_id", id());
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}

/// Methods that anybody could make up are one.
fn known(method: &Method) -> &str {
    match *method {
        Method::GET
        | Method::HEAD
        | Method::POST
        | Method::PUT
        | Method::DELETE
        | Method::OPTIONS => method.as_str(),
        _ => "_OTHER",
    }
}

fn version(parts: &Parts) -> &'static str {
    match parts.version {
        http::Version::HTTP_2 => "2",
        http::Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}

/// Gives the path with a name for everything that differs from request to request.
fn route(path: &str, mount: &Mount, root: &str) -> Option<String> {
    let root = root.trim_end_matches('/');
    match mount.resolve(path).ok()? {
        Target::Stream(_) => Some(format!("{root}/{{path}}")),
        Target::Root => Some(root.to_owned()),
        Target::Control(segments) => {
            let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
            let rest = match segments.as_slice() {
                [what @ ("jwks.json" | "keys" | "streams")] => (*what).to_owned(),
                ["subscriptions", _] => "subscriptions/{id}".to_owned(),
                ["subscriptions", _, "streams", _, ..] => {
                    "subscriptions/{id}/streams/{path}".to_owned()
                }
                [
                    "subscriptions",
                    _,
                    what @ ("streams" | "callback" | "ack" | "claim" | "release"),
                ] => format!("subscriptions/{{id}}/{what}"),
                _ => return None,
            };
            Some(format!("{root}/{}/{rest}", super::route::CONTROL))
        }
        Target::Elsewhere(segments) => OperatorPath::of(&segments).map(|it| it.path().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_no_name_that_a_client_chose() {
        let mount = Mount::new("/v1/stream").unwrap();
        for (path, expected) in [
            ("/v1/stream/a/b", Some("/v1/stream/{path}")),
            ("/v1/stream", Some("/v1/stream")),
            ("/v1/stream/__ds/subscriptions/s", Some("/v1/stream/__ds/subscriptions/{id}")),
            (
                "/v1/stream/__ds/subscriptions/s/streams/a/b",
                Some("/v1/stream/__ds/subscriptions/{id}/streams/{path}"),
            ),
            ("/v1/stream/__ds/subscriptions/s/ack", Some("/v1/stream/__ds/subscriptions/{id}/ack")),
            ("/v1/stream/__ds/what", None),
            ("/metrics", Some("/metrics")),
            ("/anything", None),
            ("/v1/stream/%ff", None),
        ] {
            assert_eq!(route(path, &mount, "/v1/stream/").as_deref(), expected, "{path}");
        }
        assert_eq!(known(&Method::from_bytes(b"SECRET").unwrap()), "_OTHER");
    }
}
