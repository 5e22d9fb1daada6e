//! What operators ask for: health and metrics.

use bytes::Bytes;
use highwater_streams::service::Reader;
use http::{Response, StatusCode, header};

use super::failure::Failure;
use super::reply::Reply;
use super::{Answer, Asked, names};
use crate::access::scope::Action;
use crate::operator::OperatorPath;

/// What a scope calls the metrics: no stream has such a name.
const METRICS: &str = "__ds/metrics";

impl Asked<'_> {
    /// Answers a request outside of the streams.
    pub(super) fn operate(&self, segments: &[String]) -> Answer {
        let path = OperatorPath::of(segments).ok_or(Failure::NoSuchPath)?;
        self.only_get()?;
        match path {
            OperatorPath::Health => Ok(plain(StatusCode::OK, "ok\n".into())),
            OperatorPath::Readiness => Ok(match self.app.readiness() {
                Ok(()) => plain(StatusCode::OK, "ready\n".into()),
                Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n").into()),
            }),
            OperatorPath::Metrics => {
                self.who.may(Action::Admin, METRICS)?;
                let text =
                    self.app.streams.hold(self.app.metrics.text().into(), Reader::Operator)?;
                let mut response = plain(StatusCode::OK, text);
                response.headers_mut().insert(header::CONTENT_TYPE, names::METRICS_TEXT);
                Ok(response)
            }
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
