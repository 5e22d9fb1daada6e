//! Appends to streams and closes them: data, producer state and end are one durable step.

use highwater_log::ids::Offset;
use highwater_log::request::{self, AppendOutcome, End, Producer};

use super::{Expected, Streams, encode};
use crate::content::{ContentType, Kind};
use crate::error::{Outcome, Problem};
use crate::path::StreamPath;

/// Asks for an append, a close, or both at once.
#[derive(Debug, Clone)]
pub struct Append<'a> {
    /// What the body is; not looked at without one.
    pub content_type: Option<ContentType>,
    /// Content; without it the stream is closed only.
    pub body: &'a [u8],
    /// Whether the stream is closed with it.
    pub end: End,
    /// Who sends it, where it may be sent again.
    pub producer: Option<Producer<'a>>,
    /// `Stream-Seq`: has to be greater than the last, byte by byte; one order for each stream.
    pub sequence: Option<&'a [u8]>,
}

/// What became of an append; durable by now, whenever it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The tail behind it.
    pub tail: Offset,
    /// Whether it was taken in now or before.
    pub taken: Taken,
    /// Whether the stream is closed.
    pub is_closed: bool,
    /// The producer's epoch and the highest sequence number taken from it.
    pub producer: Option<(u64, u64)>,
}

/// When an append was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// By this request.
    Now,
    /// By an earlier one: nothing was added.
    Before,
}

impl Streams {
    /// Appends to a stream, closes it, or both.
    ///
    /// # Errors
    /// What does not fit, in this order: the stream's life, its end, the type, the body, the
    /// producer, the sequence; and what the log gives.
    pub async fn append(&self, path: &StreamPath, request: &Append<'_>) -> Outcome<Appended> {
        let mut room = Vec::new();
        let payload = match prepare(request, &mut room) {
            Ok(payload) => payload,
            Err(problem) => {
                self.settle(path).await?;
                return Err(self.rather(path, request, problem));
            }
        };
        let has_body = !payload.is_empty();
        let plain = request.content_type.as_ref().map(ContentType::plain);
        let append = request::Append {
            name: path.as_str(),
            payload,
            end: request.end,
            content_type: plain.filter(|_| has_body),
            producer: request.producer,
            sequence: request.sequence,
        };
        let staged = self.log.append(&append)?;
        let note = self.note(path);
        let appended = staged.await?;
        let tail = appended.tail;
        if has_body {
            note.done(Expected::Tail(tail));
        } else {
            note.cancel();
        }
        let epoch = |sequence| request.producer.map(|producer| (producer.epoch, sequence));
        let own = request.producer.map_or(0, |producer| producer.sequence);
        Ok(match appended.outcome {
            AppendOutcome::New => {
                let is_closed = request.end == End::Close;
                Appended { tail, taken: Taken::Now, is_closed, producer: epoch(own) }
            }
            AppendOutcome::Duplicate { highest } => {
                let is_closed = self.used_again(path).await?;
                Appended { tail, taken: Taken::Before, is_closed, producer: epoch(highest) }
            }
            AppendOutcome::AlreadyClosed => {
                self.used_again(path).await?;
                Appended { tail, taken: Taken::Before, is_closed: true, producer: None }
            }
        })
    }

    /// What changed nothing is a use all the same; gives whether the stream is closed.
    pub(super) async fn used_again(&self, path: &StreamPath) -> Outcome<bool> {
        self.settle(path).await?;
        let Some(view) = self.find(path)? else { return Ok(false) };
        self.touch(path, &view)?;
        Ok(view.is_closed)
    }

    /// Gives the problem with the stream, where there is one, rather than that with the body.
    fn rather(&self, path: &StreamPath, request: &Append<'_>, problem: Problem) -> Problem {
        let view = match self.head(path) {
            Ok(view) => view,
            Err(own) => return own,
        };
        if view.is_closed {
            return Problem::Closed { tail: view.tail };
        }
        match &request.content_type {
            Some(given) if given.plain() != view.content_type.plain() && has_content(&problem) => {
                Problem::ContentTypeMismatch { stored: view.content_type.as_given().to_owned() }
            }
            _ => problem,
        }
    }
}

/// Checks a body and brings it into its stored form.
fn prepare<'a>(request: &Append<'a>, room: &'a mut Vec<u8>) -> Outcome<&'a [u8]> {
    if request.body.is_empty() {
        return if request.end == End::Close { Ok(&[]) } else { Err(Problem::EmptyBody) };
    }
    let content_type = request.content_type.as_ref().ok_or(Problem::NoContentType)?;
    let payload = encode(content_type.kind(), request.body, room)?;
    if payload.is_empty() && content_type.kind() == Kind::Json {
        return Err(Problem::EmptyArray);
    }
    Ok(payload)
}

/// Whether there was content whose type could be wrong.
fn has_content(problem: &Problem) -> bool {
    !matches!(problem, Problem::EmptyBody | Problem::NoContentType)
}
