//! PUT, POST and DELETE of a stream.

use highwater_log::request::{CreateOutcome, End};
use highwater_streams::content::ContentType;
use highwater_streams::error::Problem;
use highwater_streams::fields::{self as protocol, ForkFrom, Lifetime};
use highwater_streams::path::StreamPath;
use highwater_streams::service::{Append, Appended, Create, Created, Taken};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use hyper::body::Incoming;

use super::failure::{offset, text};
use super::reply::Reply;
use super::{Answer, Asked, body, cold, fields, names};
use crate::access::scope::Action;

/// Whether an append brings any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    None,
    Some,
}

impl Asked<'_> {
    /// Makes a stream.
    pub(super) async fn create(&self, path: &StreamPath, body: Incoming) -> Answer {
        let headers = &self.parts.headers;
        let field = |name: HeaderName| fields::text(headers, &name);
        let lifetime = Lifetime::parse(field(names::TTL)?, field(names::EXPIRES_AT)?)?;
        let fork = ForkFrom::parse(
            &self.app.mount,
            field(names::FORKED_FROM)?,
            field(names::FORK_OFFSET)?,
            field(names::FORK_SUB_OFFSET)?,
        )?;
        if let Some(fork) = &fork {
            // Whoever forks a stream can read it.
            self.who.may(Action::Read, fork.source.as_str())?;
        }
        let end = protocol::closes(fields::text_or_none(headers, &names::CLOSED));
        let content_type = content_type(headers)?;
        let body = body::collect(self.app, headers, body).await?;
        let create = Create { content_type, lifetime, end, body: &[], fork };
        let created = cold::create(&self.app.streams, path, create, body).await?;
        Ok(self.created(path, &created))
    }

    fn created(&self, path: &StreamPath, created: &Created) -> Response<Reply> {
        let mut response = Response::new(Reply::default());
        let content_type = content_value(&created.content_type);
        if created.outcome == CreateOutcome::New {
            *response.status_mut() = StatusCode::CREATED;
            let url =
                self.app.origins.base_url(self.peer, self.parts) + &self.app.mount.url_path(path);
            response.headers_mut().insert(header::LOCATION, text(&url));
        }
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, content_type);
        headers.insert(names::NEXT_OFFSET, offset(created.tail));
        if created.is_closed {
            headers.insert(names::CLOSED, names::TRUE);
        }
        response
    }

    /// Appends to a stream, closes it, or both.
    pub(super) async fn append(&self, path: &StreamPath, body: Incoming) -> Answer {
        let headers = &self.parts.headers;
        let field = |name: HeaderName| fields::text(headers, &name);
        let producer = protocol::producer(
            field(names::PRODUCER_ID)?,
            field(names::PRODUCER_EPOCH)?,
            field(names::PRODUCER_SEQ)?,
        )?;
        let sequence = protocol::sequence(fields::bytes(headers, &names::SEQ)?)?;
        let end = protocol::closes(fields::text_or_none(headers, &names::CLOSED));
        let body = body::collect(self.app, headers, body).await?;
        let content = if body.bytes.is_empty() { Content::None } else { Content::Some };
        let content_type = match (content, end) {
            (Content::None, End::Close) => None,
            _ => content_type(headers)?,
        };
        let append = Append { content_type, body: &body.bytes, end, producer, sequence };
        let appended = self.app.streams.append(path, &append).await?;
        Ok(answer_append(&appended, content))
    }

    /// Deletes a stream.
    pub(super) async fn delete(&self, path: &StreamPath) -> Answer {
        self.app.streams.delete(path).await?;
        let mut response = Response::new(Reply::default());
        *response.status_mut() = StatusCode::NO_CONTENT;
        Ok(response)
    }
}

fn answer_append(appended: &Appended, content: Content) -> Response<Reply> {
    let mut response = Response::new(Reply::default());
    // Only a producer's new content is told apart from what was there already.
    *response.status_mut() = match (appended.producer, appended.taken, content) {
        (Some(_), Taken::Now, Content::Some) => StatusCode::OK,
        _ => StatusCode::NO_CONTENT,
    };
    let headers = response.headers_mut();
    headers.insert(names::NEXT_OFFSET, offset(appended.tail));
    if appended.is_closed {
        headers.insert(names::CLOSED, names::TRUE);
    }
    if let Some((epoch, sequence)) = appended.producer {
        headers.insert(names::PRODUCER_EPOCH, HeaderValue::from(epoch));
        headers.insert(names::PRODUCER_SEQ, HeaderValue::from(sequence));
    }
    response
}

/// Reads `Content-Type`.
fn content_type(headers: &HeaderMap) -> Result<Option<ContentType>, Problem> {
    let given = fields::text(headers, &header::CONTENT_TYPE)?;
    given.filter(|given| !given.trim().is_empty()).map(ContentType::parse).transpose()
}

/// Writes a stream's `Content-Type` as it was given.
pub(super) fn content_value(content_type: &ContentType) -> HeaderValue {
    let given = HeaderValue::from_str(content_type.as_given());
    given.expect("a stored content type came in a header")
}
