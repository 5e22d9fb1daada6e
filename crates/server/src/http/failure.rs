//! The one place where what went wrong becomes a status, headers and a body (RFC 9457).

use std::time::Duration;

use highwater_log::error::{Full, Holder, Scarce};
use highwater_log::ids::Offset;
use highwater_streams::error::Problem;
use highwater_streams::offset::Token;
use highwater_streams::subscriptions::Refusal as Unsubscribed;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};

use super::names;
use super::reply::Reply;
use crate::access::Refusal;
use crate::metrics::Limit;

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Failure {
    /// It does not fit a stream, or the log cannot take it.
    Problem(Problem),
    /// It does not fit a subscription.
    Subscription(Unsubscribed),
    /// The caller may not.
    Refused(Refusal),
    /// The caller asks too often.
    TooOften {
        /// When to ask again.
        after: Duration,
    },
    /// The body is larger than the limit.
    BodyTooLarge {
        /// The limit, bytes.
        limit: u64,
    },
    /// The body took too long.
    BodyTooSlow,
    /// The body ended before its end, or was not framed as it should be.
    BodyBroken,
    /// The body is encoded.
    Encoded,
    /// There is no memory for it at the moment.
    Busy,
    /// The log is being opened.
    Opening,
    /// There are as many at the moment as there may be.
    Crowded {
        /// Of what.
        what: &'static str,
    },
    /// The target has no such method.
    Method {
        /// Those it has.
        allow: &'static str,
    },
    /// Nothing is there.
    NoSuchPath,
    /// The server has a bug.
    Panicked,
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl From<Unsubscribed> for Failure {
    fn from(refusal: Unsubscribed) -> Self {
        match refusal {
            Unsubscribed::Streams(problem) => Self::Problem(problem),
            refusal => Self::Subscription(refusal),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Status of a problem with a stream.
fn status_of(problem: &Problem) -> StatusCode {
    match problem {
        Problem::BadPath { .. }
        | Problem::BadField { .. }
        | Problem::InvalidOffset
        | Problem::OffsetRequired
        | Problem::InsideMessage
        | Problem::EmptyBody
        | Problem::NoContentType
        | Problem::InvalidJson { .. }
        | Problem::EmptyArray
        | Problem::ProducerEpochStart
        | Problem::ForkBeyondTail { .. }
        | Problem::ForkBeyondAppend => StatusCode::BAD_REQUEST,
        Problem::ProducerFenced { .. } => StatusCode::FORBIDDEN,
        Problem::NotFound | Problem::SourceNotFound => StatusCode::NOT_FOUND,
        Problem::Exists { .. }
        | Problem::NameTaken
        | Problem::Closed { .. }
        | Problem::ContentTypeMismatch { .. }
        | Problem::SequenceRegression
        | Problem::ProducerGap { .. }
        | Problem::SourceGone => StatusCode::CONFLICT,
        Problem::Gone => StatusCode::GONE,
        Problem::TooLarge { what: "the path" | "the name", .. } => StatusCode::URI_TOO_LONG,
        Problem::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Problem::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
        Problem::Busy(_)
        | Problem::NoRoomForAnswer(_)
        | Problem::ReadOnly(_)
        | Problem::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        Problem::Failed(_) | Problem::Damaged(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Status of a refusal of a subscription.
fn status_of_refusal(refusal: &Unsubscribed) -> StatusCode {
    match refusal {
        Unsubscribed::NotFound => StatusCode::NOT_FOUND,
        Unsubscribed::Unauthorized => StatusCode::UNAUTHORIZED,
        Unsubscribed::BadRequest(_) | Unsubscribed::UrlRejected(_) | Unsubscribed::WrongType(_) => {
            StatusCode::BAD_REQUEST
        }
        Unsubscribed::Exists
        | Unsubscribed::Fenced
        | Unsubscribed::AlreadyClaimed { .. }
        | Unsubscribed::NothingPending => StatusCode::CONFLICT,
        Unsubscribed::Streams(problem) => status_of(problem),
    }
}

/// What clients of subscriptions look for, beside the fields of all problems.
fn error_of(refusal: &Unsubscribed) -> Value {
    let mut error = json!({ "code": refusal.code(), "message": refusal.to_string() });
    if let Unsubscribed::AlreadyClaimed { holder, generation } = refusal {
        error["current_holder"] = json!(holder);
        error["generation"] = json!(generation);
    }
    error
}

impl Failure {
    /// Gives the status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Problem(problem) => status_of(problem),
            Self::Subscription(refusal) => status_of_refusal(refusal),
            Self::Refused(Refusal::Unknown) => StatusCode::UNAUTHORIZED,
            Self::Refused(Refusal::Forbidden(_)) => StatusCode::FORBIDDEN,
            Self::TooOften { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::BodyBroken => StatusCode::BAD_REQUEST,
            Self::Encoded => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Busy | Self::Crowded { .. } | Self::Opening => StatusCode::SERVICE_UNAVAILABLE,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether the next request may find room: no failure of the server.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Busy | Self::Crowded { .. } | Self::Opening => true,
            Self::Problem(problem) => {
                matches!(problem, Problem::Busy(_) | Problem::NoRoomForAnswer(_))
            }
            _ => false,
        }
    }

    /// Whether the server failed: whoever looks after it is to know. One stream that has all that
    /// it may have is the affair of whoever appends to it.
    pub fn is_of_the_server(&self) -> bool {
        let of_one_stream =
            matches!(self, Self::Problem(Problem::Full(Full { of: Holder::Stream, .. })));
        self.status().is_server_error() && !self.is_passing() && !of_one_stream
    }

    /// Names the limit that the request hit, if it did.
    pub fn limit(&self) -> Option<Limit> {
        match self {
            Self::Problem(Problem::Full(_)) => Some(Limit::Full),
            Self::Problem(Problem::Busy(busy)) => busy.of.map(|of| match of {
                Scarce::Staged => Limit::Staged,
                Scarce::Wal => Limit::Wal,
                Scarce::Images => Limit::Images,
                Scarce::Files => Limit::Files,
            }),
            Self::Problem(Problem::NoRoomForAnswer(_)) => Some(Limit::Answers),
            Self::Problem(Problem::TooLarge { what: "the path" | "the name", .. }) => {
                Some(Limit::Name)
            }
            Self::Problem(Problem::TooLarge { .. }) => Some(Limit::Metadata),
            Self::TooOften { .. } => Some(Limit::Rate),
            Self::BodyTooLarge { .. } => Some(Limit::Body),
            Self::BodyTooSlow => Some(Limit::BodyTime),
            Self::Busy => Some(Limit::Bodies),
            Self::Crowded { what: "requests" } => Some(Limit::Requests),
            _ => None,
        }
    }

    /// Gives the code that machines tell failures apart by.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Problem(problem) => problem.code(),
            Self::Subscription(refusal) => refusal.code(),
            Self::Refused(Refusal::Unknown) => "UNAUTHORIZED",
            Self::Refused(Refusal::Forbidden(_)) => "FORBIDDEN",
            Self::TooOften { .. } => "RATE_LIMITED",
            Self::BodyTooLarge { .. } => "BODY_TOO_LARGE",
            Self::BodyTooSlow => "BODY_TIMEOUT",
            Self::BodyBroken => "BODY_BROKEN",
            Self::Encoded => "CONTENT_ENCODING",
            Self::Busy | Self::Crowded { .. } => "BUSY",
            Self::Opening => "OPENING",
            Self::Method { .. } => "METHOD_NOT_ALLOWED",
            Self::NoSuchPath => "NO_SUCH_PATH",
            Self::Panicked => "PANICKED",
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Problem(problem) => problem.to_string(),
            Self::Subscription(refusal) => refusal.to_string(),
            Self::Refused(Refusal::Unknown) => "the request has no valid bearer token".to_owned(),
            Self::Refused(Refusal::Forbidden(action)) => {
                format!("the token does not allow to {action} here")
            }
            Self::TooOften { .. } => "there are too many requests from here".to_owned(),
            Self::BodyTooLarge { limit } => format!("the body has more than {limit} bytes"),
            Self::BodyTooSlow => "the body did not come in time".to_owned(),
            Self::BodyBroken => "the body is cut off or badly framed".to_owned(),
            Self::Encoded => "the body has a Content-Encoding".to_owned(),
            Self::Busy => "there is no memory for the body at the moment".to_owned(),
            Self::Opening => "the server is being started".to_owned(),
            Self::Crowded { what } => format!("there are too many {what} at the moment"),
            Self::Method { allow } => format!("only {allow} are possible here"),
            Self::NoSuchPath => "there is nothing at this path".to_owned(),
            Self::Panicked => "the server has a bug, and may have done it or not".to_owned(),
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::Problem(problem) => problem.advice(),
            Self::Subscription(refusal) => refusal.advice(),
            Self::Refused(Refusal::Unknown) => "Send Authorization: Bearer with a valid token.",
            Self::Refused(Refusal::Forbidden(_)) => "Ask for a token with a wider scope.",
            Self::TooOften { .. } | Self::Busy | Self::Crowded { .. } | Self::Opening => {
                "Try again after the time in Retry-After."
            }
            Self::BodyTooLarge { .. } => "Send less at once.",
            Self::BodyTooSlow | Self::BodyBroken => "Send the request again.",
            Self::Encoded => "Send the body as it is.",
            Self::Method { .. } => "Use one of these methods.",
            Self::Panicked => "Tell who runs the server: its log has the place.",
            Self::NoSuchPath => "Streams are below the stream root, /v1/stream/ by default.",
        }
    }

    /// Makes the answer. The status line and the headers say all that programs need.
    pub fn into_response(self, request_id: &str) -> Response<Reply> {
        let status = self.status();
        let fields = json!({
            "type": "about:blank",
            "title": status.canonical_reason().unwrap_or("Error"),
            "status": status.as_u16(),
            "code": self.code(),
            "detail": self.detail(),
            "advice": self.advice(),
            "request_id": request_id,
        });
        let Value::Object(mut fields) = fields else { unreachable!("an object was written") };
        if let Self::Subscription(refusal) = &self {
            fields.insert("error".to_owned(), error_of(refusal));
        }
        let mut response = problem(status, &fields);
        if matches!(self, Self::Crowded { what: "requests" }) {
            // There is no room for the answer either.
            *response.body_mut() = Reply::default();
        }
        self.add_headers(&mut response);
        response
    }

    fn add_headers(&self, response: &mut Response<Reply>) {
        let headers = response.headers_mut();
        match self {
            Self::Problem(Problem::Closed { tail }) => {
                headers.insert(names::CLOSED, names::TRUE);
                headers.insert(names::NEXT_OFFSET, offset(*tail));
            }
            Self::Problem(Problem::ProducerGap { expected, received }) => {
                headers.insert(names::PRODUCER_EXPECTED_SEQ, HeaderValue::from(*expected));
                headers.insert(names::PRODUCER_RECEIVED_SEQ, HeaderValue::from(*received));
            }
            Self::Problem(Problem::ProducerFenced { current }) => {
                headers.insert(names::PRODUCER_EPOCH, HeaderValue::from(*current));
            }
            Self::Refused(Refusal::Unknown) | Self::Subscription(Unsubscribed::Unauthorized) => {
                headers.insert(header::WWW_AUTHENTICATE, names::BEARER);
            }
            Self::TooOften { after } => {
                let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)));
            }
            passing if passing.is_passing() => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(1));
            }
            Self::Method { allow } => {
                headers.insert(header::ALLOW, HeaderValue::from_static(allow));
            }
            // What is left of the body would be taken for the next request.
            Self::BodyTooSlow | Self::BodyBroken => {
                headers.insert(header::CONNECTION, names::CLOSE);
            }
            _ => {}
        }
    }
}

/// Makes an answer that tells of a problem.
pub(crate) fn problem(status: StatusCode, fields: &Map<String, Value>) -> Response<Reply> {
    let body = serde_json::to_vec(fields).expect("text and numbers can be written as JSON");
    let mut response = Response::new(Reply::bytes(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, names::PROBLEM_JSON);
    headers.insert(header::CACHE_CONTROL, names::NO_STORE);
    response
}

/// Makes a header of an offset.
pub(crate) fn offset(offset: Offset) -> HeaderValue {
    HeaderValue::from_bytes(&Token(offset).to_bytes()).expect("tokens are visible ASCII")
}

/// Makes a header of text that is known to be one.
pub(crate) fn text(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("tokens, tags and paths are visible ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_log::error::{Busy, LogError};

    fn busy(of: Scarce) -> Busy {
        Busy { of, why: "why".to_owned() }
    }

    #[test]
    fn what_the_log_cannot_do_is_told_apart_by_whether_it_passes() {
        let text = || "why".to_owned();
        for (error, status, retry_after) in [
            (LogError::Full(Full::of_all(text())), 507, None),
            (LogError::Busy(busy(Scarce::Wal)), 503, Some("1")),
            (LogError::ReadOnly(text()), 503, None),
            (LogError::Closed, 503, None),
            (LogError::Poisoned(text()), 500, None),
        ] {
            let failure = Failure::from(Problem::from(error));
            let response = failure.clone().into_response("id");
            assert_eq!(response.status().as_u16(), status, "{failure:?}");
            let told = response.headers().get(header::RETRY_AFTER);
            assert_eq!(told.map(|value| value.to_str().unwrap()), retry_after, "{failure:?}");
        }
        let busy = Failure::Busy.into_response("id");
        assert_eq!(busy.status().as_u16(), 503);
        assert_eq!(busy.headers()[header::RETRY_AFTER], "1");
    }

    #[test]
    fn what_hits_a_limit_is_counted_by_its_name() {
        let text = || "why".to_owned();
        for (failure, limit) in [
            (Failure::from(Problem::Full(Full::of_all(text()))), Limit::Full),
            (Problem::from(LogError::Busy(busy(Scarce::Staged))).into(), Limit::Staged),
            (Problem::from(LogError::Busy(busy(Scarce::Wal))).into(), Limit::Wal),
            (Problem::from(LogError::Busy(busy(Scarce::Images))).into(), Limit::Images),
            (Problem::from(LogError::Busy(busy(Scarce::Files))).into(), Limit::Files),
            (Problem::NoRoomForAnswer("why").into(), Limit::Answers),
            (Problem::TooLarge { what: "the name", size: 2, limit: 1 }.into(), Limit::Name),
            (Failure::Crowded { what: "requests" }, Limit::Requests),
            (Failure::Busy, Limit::Bodies),
        ] {
            assert_eq!(failure.limit(), Some(limit), "{failure:?}");
        }
        // It was counted when it was let in.
        assert_eq!(Failure::Crowded { what: "connections" }.limit(), None);
        assert_eq!(Failure::NoSuchPath.limit(), None);
        // Somebody else does the same just now: that is no limit.
        assert_eq!(Failure::from(Problem::Busy(text().into())).limit(), None);
    }
}
