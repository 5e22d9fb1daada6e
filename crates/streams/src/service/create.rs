//! Makes streams. The same again is no change; anything else under a name that is taken is refused.

use highwater_log::error::{LogError, Rejection};
use highwater_log::ids::Offset;
use highwater_log::request::{self, Config, CreateOutcome, End};

use super::metadata::{ForkMetadata, Metadata};
use super::{Expected, Streams, View, encode};
use crate::content::{self, ContentType};
use crate::error::{Outcome, Problem};
use crate::fields::{ForkFrom, Lifetime};
use crate::path::StreamPath;

/// Asks for a stream.
#[derive(Debug, Clone)]
pub struct Create<'a> {
    /// What it is to hold.
    pub content_type: Option<ContentType>,
    /// How long it is to live.
    pub lifetime: Lifetime,
    /// Whether it is closed from the start.
    pub end: End,
    /// First content.
    pub body: &'a [u8],
    /// What it is to be a fork of.
    pub fork: Option<ForkFrom>,
}

/// A stream that is there, durably.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Whether it was made by this request.
    pub outcome: CreateOutcome,
    /// What it holds, as given when it was made.
    pub content_type: ContentType,
    /// Its tail.
    pub tail: Offset,
    /// Whether it is closed.
    pub is_closed: bool,
}

impl Streams {
    /// Makes a stream, with first content and end if asked, in one durable step. To ask for one
    /// that is there is a use of it.
    ///
    /// # Errors
    /// [`Problem::Exists`], [`Problem::NameTaken`], what is wrong with body or fork, and what the
    /// log gives.
    pub async fn create(&self, path: &StreamPath, request: &Create<'_>) -> Outcome<Created> {
        let created = self.make(path, request).await?;
        if created.outcome == CreateOutcome::Existing {
            // Who sees to it that a stream is there wants it to stay. One whose time is over in
            // this very moment was there.
            self.used_again(path).await.ok();
        }
        Ok(created)
    }

    async fn make(&self, path: &StreamPath, request: &Create<'_>) -> Outcome<Created> {
        self.settle(path).await?;
        if let Some(from) = &request.fork {
            self.settle(&from.source).await?;
        }
        loop {
            let made = match &request.fork {
                Some(from) => self.create_fork(path, request, from).await,
                None => self.create_plain(path, request).await,
            };
            match made {
                Err(Problem::Exists { .. }) => {}
                Err(Problem::Gone) => return Err(Problem::NameTaken),
                made => return made,
            }
            // The log compares configurations as they are written; here it is decided whether they
            // mean the same.
            if let Some(view) = self.find(path)? {
                return existing(view, request);
            }
            // It is gone again, or not durable yet: whoever made it has not been told either.
            if let Some(seen) = self.log.unseen(path.as_str()) {
                seen.await?;
            }
        }
    }

    async fn create_plain(&self, path: &StreamPath, request: &Create<'_>) -> Outcome<Created> {
        let content_type = match &request.content_type {
            Some(given) => given.clone(),
            None => ContentType::parse(content::DEFAULT)?,
        };
        let config = config(&content_type, &request.lifetime, None);
        let mut room = Vec::new();
        let payload = encode(content_type.kind(), request.body, &mut room)?;
        let create =
            request::Create { name: path.as_str(), config: &config, payload, end: request.end };
        let staged = self.log.create(&create)?;
        let note = self.note(path);
        let created = staged.await?;
        note.done(Expected::Tail(created.tail));
        Ok(Created {
            outcome: created.outcome,
            content_type,
            tail: created.tail,
            is_closed: request.end == End::Close,
        })
    }
}

/// Puts together what the log keeps of a configuration.
pub(super) fn config(
    content_type: &ContentType,
    lifetime: &Lifetime,
    fork: Option<ForkMetadata>,
) -> Config {
    let expires_at = match lifetime {
        Lifetime::Until { text, .. } => Some(text.clone()),
        _ => None,
    };
    let content_given = content_type.given().map(str::to_owned);
    let metadata = Metadata { content_type: content_given, expires_at, fork };
    Config {
        content_type: content_type.plain().to_owned(),
        expiry: lifetime.expiry(),
        metadata: metadata.encode(),
    }
}

/// Answers for a stream that is there, if the request means that one.
pub(super) fn existing(view: View, request: &Create<'_>) -> Outcome<Created> {
    if let Some(what) = difference(&view, request) {
        return Err(Problem::Exists { what });
    }
    Ok(Created {
        outcome: CreateOutcome::Existing,
        content_type: view.content_type,
        tail: view.tail,
        is_closed: view.is_closed,
    })
}

/// What makes a request mean another stream than the one that is there.
fn difference(view: &View, request: &Create<'_>) -> Option<&'static str> {
    let asked_type = request.content_type.as_ref().map(ContentType::plain);
    let default_type = if request.fork.is_some() { None } else { Some(content::DEFAULT) };
    if asked_type.or(default_type).is_some_and(|plain| plain != view.content_type.plain()) {
        return Some("content type");
    }
    let inherits = view.fork.as_ref().is_some_and(|fork| fork.inherits_expiry);
    let says_nothing = request.lifetime == Lifetime::Unsaid && request.fork.is_some();
    let is_same_expiry =
        if says_nothing { inherits } else { request.lifetime.expiry() == view.expiry };
    if !is_same_expiry {
        return Some("expiry");
    }
    if view.is_closed != (request.end == End::Close) {
        return Some("closed state");
    }
    let is_same_fork = match (&view.fork, &request.fork) {
        (None, None) => true,
        (Some(is), Some(asked)) => {
            is.source == asked.source.as_str()
                && is.offset == asked.offset.map(|offset| offset.0)
                && is.sub_offset == asked.sub_offset
        }
        _ => false,
    };
    if is_same_fork { None } else { Some("source or fork offset") }
}

/// Tells a log's refusal to make a stream apart from one that concerns a fork's source.
pub(super) fn refused(error: LogError) -> Problem {
    match error {
        LogError::Rejected(Rejection::NotFound) => Problem::SourceNotFound,
        other => other.into(),
    }
}
