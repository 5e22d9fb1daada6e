//! Makes forks: finds the place in the source, and what a fork inherits.

use highwater_log::error::Rejection;
use highwater_log::ids::Offset;
use highwater_log::request::{self, CreateOutcome, End};

use super::create::{Create, Created, config, existing, refused};
use super::metadata::ForkMetadata;
use super::{Expected, Streams, View, encode};
use crate::content::{ContentType, Kind};
use crate::error::{Outcome, Problem};
use crate::fields::{ForkFrom, Lifetime};
use crate::json;
use crate::path::StreamPath;

impl Streams {
    /// Makes a stream that begins as a prefix of another.
    pub(super) async fn create_fork(
        &self,
        path: &StreamPath,
        request: &Create<'_>,
        from: &ForkFrom,
    ) -> Outcome<Created> {
        // What is there decides first: it may outlive its source.
        if let Some(view) = self.find(path)? {
            return existing(view, request);
        }
        let source = self.source(&from.source)?;
        let content_type = inherited_type(&source, request.content_type.as_ref())?;
        let offset = self.fork_point(&from.source, &source, from)?;
        let (lifetime, inherits_expiry) = match &request.lifetime {
            Lifetime::Unsaid => (&source.lifetime, true),
            own => (own, false),
        };
        let kept = ForkMetadata {
            source: from.source.as_str().to_owned(),
            offset: from.offset.map(|offset| offset.0),
            sub_offset: from.sub_offset,
            inherits_expiry,
        };
        let config = config(&content_type, lifetime, Some(kept));
        let mut room = Vec::new();
        let payload = encode(content_type.kind(), request.body, &mut room)?;
        let fork = request::Fork {
            name: path.as_str(),
            source: from.source.as_str(),
            offset: Some(offset),
            config: &config,
            payload,
            end: request.end,
        };
        let staged = self.log.fork(&fork).map_err(refused)?;
        let note = self.note(path);
        let created = staged.await?;
        note.done(Expected::Tail(created.tail));
        if created.outcome == CreateOutcome::New {
            self.check_source(path, &source).await?;
        }
        Ok(Created {
            outcome: created.outcome,
            content_type,
            tail: created.tail,
            is_closed: request.end == End::Close,
        })
    }

    fn source(&self, path: &StreamPath) -> Outcome<View> {
        match self.find(path)? {
            Some(view) => Ok(view),
            None => Err(match self.why_not(path) {
                Problem::Gone => Problem::SourceGone,
                _ => Problem::SourceNotFound,
            }),
        }
    }

    /// Takes a fork back whose source was another stream by the time it was forked: it may hold
    /// another type.
    async fn check_source(&self, path: &StreamPath, source: &View) -> Outcome<()> {
        let made = self.log.info(path.as_str()).and_then(|info| info.fork);
        if made.is_none_or(|fork| fork.source == source.id) {
            return Ok(());
        }
        self.delete(path).await?;
        Err(Problem::SourceNotFound)
    }

    /// Finds the place in the source where a fork begins.
    fn fork_point(&self, path: &StreamPath, source: &View, from: &ForkFrom) -> Outcome<Offset> {
        let tail = source.tail;
        let anchor = from.offset.unwrap_or(tail);
        let beyond = Problem::ForkBeyondTail { tail };
        if anchor > tail {
            return Err(beyond);
        }
        if from.sub_offset > self.limits.append_bytes {
            return Err(beyond);
        }
        if source.kind() == Kind::Json {
            return self.message_point(path, source, (anchor, from.sub_offset));
        }
        let point = Offset(anchor.0 + from.sub_offset);
        if point > tail { Err(beyond) } else { Ok(point) }
    }

    /// Finds the end of so many messages behind an offset, which has to be at a message's end, too.
    fn message_point(
        &self,
        path: &StreamPath,
        source: &View,
        (anchor, count): (Offset, u64),
    ) -> Outcome<Offset> {
        let tail = source.tail;
        let mut at = self.message_start(path, anchor)?;
        // No append is longer, so a place further on lies behind the next one.
        let end = anchor.0.saturating_add(self.limits.append_bytes).min(tail.0);
        let mut left = count;
        while left > 0 {
            if at.0 >= end {
                return Err(Problem::ForkBeyondTail { tail });
            }
            let answer = self.log.read(path.as_str(), at, self.limits.chunk_bytes)?;
            for slice in &answer.slices {
                match json::nth_end(slice.bytes(), left) {
                    Ok(len) => return Ok(Offset(at.0 + to_u64(len))),
                    Err(found) => left -= found,
                }
                at = Offset(at.0 + to_u64(slice.bytes().len()));
            }
        }
        Ok(at)
    }

    /// Checks that an offset lies between messages.
    pub(crate) fn message_start(&self, path: &StreamPath, offset: Offset) -> Outcome<Offset> {
        let Some(before) = offset.0.checked_sub(1) else { return Ok(offset) };
        let answer = self.log.read(path.as_str(), Offset(before), 1)?;
        let byte = answer.slices.first().and_then(|slice| slice.bytes().first());
        if byte == json::ENDING.last() { Ok(offset) } else { Err(Problem::InsideMessage) }
    }
}

/// A fork holds what its source holds.
fn inherited_type(source: &View, asked: Option<&ContentType>) -> Outcome<ContentType> {
    match asked {
        Some(asked) if asked.plain() != source.content_type.plain() => {
            let stored = source.content_type.as_given().to_owned();
            Err(Rejection::ContentType { stored }.into())
        }
        Some(asked) => Ok(asked.clone()),
        None => Ok(source.content_type.clone()),
    }
}

fn to_u64(len: usize) -> u64 {
    u64::try_from(len).expect("lengths have 64 bits at most")
}
