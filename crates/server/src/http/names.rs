//! Names and fixed values of headers.

use http::{HeaderName, HeaderValue};

macro_rules! names {
    ($($constant:ident = $name:literal),+ $(,)?) => { $(
        #[doc = concat!("`", $name, "`")]
        pub(crate) const $constant: HeaderName = HeaderName::from_static($name);
    )+ };
}

names! {
    NEXT_OFFSET = "stream-next-offset",
    UP_TO_DATE = "stream-up-to-date",
    CURSOR = "stream-cursor",
    CLOSED = "stream-closed",
    SEQ = "stream-seq",
    TTL = "stream-ttl",
    EXPIRES_AT = "stream-expires-at",
    FORKED_FROM = "stream-forked-from",
    FORK_OFFSET = "stream-fork-offset",
    FORK_SUB_OFFSET = "stream-fork-sub-offset",
    PRODUCER_ID = "producer-id",
    PRODUCER_EPOCH = "producer-epoch",
    PRODUCER_SEQ = "producer-seq",
    PRODUCER_EXPECTED_SEQ = "producer-expected-seq",
    PRODUCER_RECEIVED_SEQ = "producer-received-seq",
    SSE_ENCODING = "stream-sse-data-encoding",
    ACCEL_BUFFERING = "x-accel-buffering",
    RESOURCE_POLICY = "cross-origin-resource-policy",
    REQUEST_ID = "x-request-id",
}

macro_rules! values {
    ($($constant:ident = $value:literal),+ $(,)?) => { $(
        #[doc = concat!("`", $value, "`")]
        pub(crate) const $constant: HeaderValue = HeaderValue::from_static($value);
    )+ };
}

values! {
    TRUE = "true",
    NO_STORE = "no-store",
    NO_CACHE = "no-cache",
    NOSNIFF = "nosniff",
    CROSS_ORIGIN = "cross-origin",
    PUBLIC_MINUTE = "public, max-age=60, stale-while-revalidate=300",
    PRIVATE_MINUTE = "private, max-age=60, stale-while-revalidate=300",
    JWKS_CACHE = "public, max-age=300",
    JSON = "application/json",
    JWKS = "application/jwk-set+json",
    PROBLEM_JSON = "application/problem+json",
    EVENT_STREAM = "text/event-stream",
    METRICS_TEXT = "application/openmetrics-text; version=1.0.0; charset=utf-8",
    PLAIN_TEXT = "text/plain; charset=utf-8",
    BASE64 = "base64",
    NO = "no",
    GZIP = "gzip",
    CLOSE = "close",
    ANY = "*",
    BEARER = "Bearer",
}

/// What pages of other origins may send.
pub(crate) const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "content-type, authorization, if-none-match, accept, cache-control, x-request-id, stream-seq, \
     stream-ttl, stream-expires-at, stream-closed, stream-forked-from, stream-fork-offset, \
     stream-fork-sub-offset, producer-id, producer-epoch, producer-seq",
);
/// What pages of other origins may see.
pub(crate) const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "stream-next-offset, stream-up-to-date, stream-cursor, stream-closed, stream-seq, stream-ttl, \
     stream-expires-at, stream-forked-from, stream-fork-offset, stream-fork-sub-offset, \
     stream-sse-data-encoding, producer-id, producer-epoch, producer-seq, producer-expected-seq, \
     producer-received-seq, etag, location, retry-after, www-authenticate, x-request-id, \
     content-type, content-encoding, date",
);
