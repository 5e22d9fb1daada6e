//! What operators ask for: health and metrics.

use bytes::Bytes;
use highwater_streams::service::Reader;
use http::{Response, StatusCode, header};

use super::failure::Failure;
use super::reply::Reply;
use super::{Answer, Asked, names};
use crate::access::scope::Action;

/// What a scope calls the metrics: no stream has such a name.
const METRICS: &str = "__ds/metrics";

/// Whether a path is looked at by those who see to it that a server runs.
pub(super) fn is_probe(segments: &[String]) -> bool {
    matches!(segments, [only] if only == "healthz" || only == "readyz")
}

impl Asked<'_> {
    /// Answers a request outside of the streams.
    pub(super) fn operate(&self, segments: &[String]) -> Answer {
        let path: Vec<&str> = segments.iter().map(String::as_str).collect();
        match path.as_slice() {
            ["healthz"] => {
                self.only_get()?;
                Ok(plain(StatusCode::OK, "ok\n".into()))
            }
            ["readyz"] => {
                self.only_get()?;
                Ok(match self.app.readiness() {
                    Ok(()) => plain(StatusCode::OK, "ready\n".into()),
                    Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n").into()),
                })
            }
            ["metrics"] => {
                self.only_get()?;
                self.who.may(Action::Admin, METRICS)?;
                let text =
                    self.app.streams.hold(self.app.metrics.text().into(), Reader::Operator)?;
                let mut response = plain(StatusCode::OK, text);
                response.headers_mut().insert(header::CONTENT_TYPE, names::METRICS_TEXT);
                Ok(response)
            }
            _ => Err(Failure::NoSuchPath),
        }
    }
}

/// Makes an answer of plain text.
pub(crate) fn plain(status: StatusCode, text: Bytes) -> Response<Reply> {
    let mut response = Response::new(Reply::bytes(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, names::PLAIN_TEXT);
    response.headers_mut().insert(header::CACHE_CONTROL, names::NO_STORE);
    response
}
