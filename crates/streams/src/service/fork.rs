//! Makes forks: finds the place in the source, and what a fork inherits.

use highwater_log::error::Rejection;
use highwater_log::ids::Offset;
use highwater_log::request::{self, End};

use super::create::{Create, Created, config, existing, refused};
use super::metadata::ForkMetadata;
use super::{Expected, Streams, View, encode};
use crate::content::{ContentType, Kind};
use crate::error::{Outcome, Problem};
use crate::fields::{ForkFrom, Lifetime};
use crate::json::{self, Counted};
use crate::offset::Place;
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
        let offset = self.fork_point(&from.source, &source, from).map_err(of_source)?;
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
            // Another one under its name may hold another type.
            source_id: Some(source.id),
            offset: Some(offset),
            config: &config,
            payload,
            end: request.end,
        };
        let staged = self.log.fork(&fork).map_err(refused)?;
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

    fn source(&self, path: &StreamPath) -> Outcome<View> {
        self.head(path).map_err(of_source)
    }

    /// Says whether finding the place where a fork begins would read from the disk.
    pub fn is_fork_cold(&self, from: &ForkFrom) -> bool {
        let Some(offset) = from.offset else { return false };
        let holds_messages =
            || matches!(self.find(&from.source), Ok(Some(view)) if view.kind() == Kind::Json);
        self.is_cold(&from.source, Place::At(offset)) && holds_messages()
    }

    /// Finds the place in the source where a fork begins.
    fn fork_point(&self, path: &StreamPath, source: &View, from: &ForkFrom) -> Outcome<Offset> {
        let tail = source.tail;
        // Nothing ends in the middle there.
        let Some(anchor) = from.offset else { return Ok(tail) };
        if anchor > tail {
            return Err(Problem::ForkBeyondTail { tail });
        }
        if source.kind() == Kind::Json {
            self.message_start(path, anchor)?;
        }
        if from.sub_offset == 0 {
            return Ok(anchor);
        }
        let end = self.log.append_end(path.as_str(), anchor)?.unwrap_or(anchor);
        let reached = if source.kind() == Kind::Json {
            self.messages_end(path, (anchor, end), from.sub_offset)?
        } else {
            self.bytes_end((anchor, end), from.sub_offset)
        };
        reached.map_err(|end| {
            if end < tail { Problem::ForkBeyondAppend } else { Problem::ForkBeyondTail { tail } }
        })
    }

    /// Goes so many messages on, or to the end of their append, which is stored with them; where a
    /// fork begins an append ends, too.
    fn messages_end(
        &self,
        path: &StreamPath,
        (start, end): (Offset, Offset),
        messages: u64,
    ) -> Outcome<Result<Offset, Offset>> {
        let (mut at, mut count) = (start, json::Count::new(messages));
        while at < end {
            let most = self.limits.chunk_bytes.min(end.0 - at.0);
            let answer = self.log.read(path.as_str(), at, most)?;
            for slice in &answer.slices {
                let behind = |len| Offset(at.0 + to_u64(len));
                match count.piece(slice.bytes()) {
                    Counted::Whole(len) => return Ok(Ok(behind(len))),
                    Counted::AppendEnds(len) => return Ok(Err(behind(len))),
                    Counted::Unfinished => at = behind(slice.bytes().len()),
                }
            }
        }
        Ok(Err(end))
    }

    /// Goes so many bytes on, or to the end of their append. A home does not keep where appends
    /// end: there it is the nearest end behind that is known, and none is longer than the limit.
    fn bytes_end(&self, (start, end): (Offset, Offset), bytes: u64) -> Result<Offset, Offset> {
        let end = end.min(Offset(start.0.saturating_add(self.limits.append_bytes)));
        let point = Offset(start.0.saturating_add(bytes));
        if point <= end { Ok(point) } else { Err(end) }
    }

    /// Checks that an offset lies between messages.
    pub(crate) fn message_start(&self, path: &StreamPath, offset: Offset) -> Outcome<Offset> {
        let Some(before) = offset.0.checked_sub(1) else { return Ok(offset) };
        let answer = self.log.read(path.as_str(), Offset(before), 1)?;
        let byte = answer.slices.first().and_then(|slice| slice.bytes().first());
        if byte == json::ENDING.last() { Ok(offset) } else { Err(Problem::InsideMessage) }
    }
}

/// What is said of a stream that is read in order to fork it.
fn of_source(problem: Problem) -> Problem {
    match problem {
        Problem::Gone => Problem::SourceGone,
        Problem::NotFound => Problem::SourceNotFound,
        other => other,
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
