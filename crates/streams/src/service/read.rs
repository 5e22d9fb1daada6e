//! Reads chunks of streams: whole messages, whole characters, and where the next chunk begins.

use std::time::Duration;

use highwater_log::error::{LogError, Rejection};
use highwater_log::ids::Offset;

use super::room::Lease;
use super::{Body, Streams, View};
use crate::content::{ContentType, Kind};
use crate::error::{Outcome, Problem};
use crate::etag::{ETag, Reach};
use crate::json;
use crate::offset::Place;
use crate::path::StreamPath;

/// A chunk of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Content, as a client gets it.
    pub body: Body,
    /// What it is.
    pub content_type: ContentType,
    /// Where the next chunk begins.
    pub next: Offset,
    /// Whether there is nothing more, as of now.
    pub is_up_to_date: bool,
    /// Whether there will never be anything more.
    pub is_closed: bool,
    /// Names exactly this answer; a read of what comes from now on has no name.
    pub etag: Option<ETag>,
    /// How long it may be kept and given to others at most, where the stream's life bounds that.
    pub kept_for: Option<Duration>,
}

/// Bytes of a stream as they are stored.
#[derive(Debug)]
pub(crate) struct Range {
    pub body: Body,
    pub next: Offset,
    pub tail: Offset,
    /// Whether the stream is closed at its tail.
    pub is_closed: bool,
    /// What of the memory for answers was taken for it.
    pub lease: Lease,
}

/// Why a range is not read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// There is no room for so many bytes of a message that is longer than a chunk.
    NoRoom { bytes: u64 },
    /// It cannot be.
    Failed(Problem),
}

impl From<Problem> for Unread {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

impl From<Unread> for Problem {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::NoRoom { .. } => {
                Self::NoRoomForAnswer("the next message is longer than what others leave")
            }
            Unread::Failed(problem) => problem,
        }
    }
}

impl Streams {
    /// Reads the chunk that begins at a place. A use of the stream.
    ///
    /// # Errors
    /// [`Problem::NotFound`], [`Problem::Gone`], [`Problem::InsideMessage`],
    /// [`Problem::NoRoomForAnswer`] for a message longer than a chunk while answers fill their
    /// memory, and what the log gives.
    pub fn read(&self, path: &StreamPath, place: Place) -> Outcome<Chunk> {
        loop {
            let view = self.head(path)?;
            let chunk = self.read_of(path, &view, place)?;
            // A stream that was deleted and made anew meanwhile must not lend its bytes to this
            // one's name.
            if self.log.info(path.as_str()).is_some_and(|info| info.id == view.id) {
                self.touch(path, &view)?;
                return Ok(chunk);
            }
        }
    }

    pub(crate) fn read_of(&self, path: &StreamPath, view: &View, place: Place) -> Outcome<Chunk> {
        let start = match place {
            Place::Start => Offset(0),
            Place::Now => return Ok(self.chunk(view, None, self.nothing(view))),
            // Beyond the tail nothing is missing.
            Place::At(offset) => offset.min(view.tail),
        };
        // With the byte before, which is looked at.
        let there_is = (view.tail.0 - start.0).saturating_add(1);
        let room = self.room.chunk(self.limits.chunk_bytes.min(there_is));
        let range = self.range(path, (view.kind(), start), room)?;
        Ok(self.chunk(view, Some(start), range))
    }

    fn chunk(&self, view: &View, start: Option<Offset>, range: Range) -> Chunk {
        let is_up_to_date = range.next == range.tail;
        let is_closed = range.is_closed && is_up_to_date;
        let etag = start.map(|start| ETag {
            store: self.store,
            stream: view.id,
            start,
            end: range.next,
            reach: match (is_up_to_date, is_closed) {
                (_, true) => Reach::End,
                (true, false) => Reach::Tail,
                (false, false) => Reach::Part,
            },
        });
        let is_json = view.kind() == Kind::Json;
        let mut body = if is_json { range.body.into_array() } else { range.body };
        range.lease.count(body.parts_mut());
        let content_type = view.content_type.clone();
        let kept_for = view.kept_for(&*self.clock);
        Chunk { body, content_type, next: range.next, is_up_to_date, is_closed, etag, kept_for }
    }

    /// Reads stored bytes from an offset, about so many, for which that was taken of the memory for
    /// answers; ends where a message or character does.
    pub(crate) fn range(
        &self,
        path: &StreamPath,
        (kind, start): (Kind, Offset),
        (most, lease): (u64, Lease),
    ) -> Result<Range, Unread> {
        let is_json = kind == Kind::Json;
        // The byte before says whether a message begins here.
        let from = if is_json { Offset(start.0.saturating_sub(1)) } else { start };
        let mut range = self.fill(path, from, most)?;
        range.lease = lease;
        if from < start {
            let before = range.body.parts().first().and_then(|part| part.first());
            if before != json::ENDING.last() {
                return Err(Problem::InsideMessage.into());
            }
            range.body.drop_front(1);
        }
        if range.next == range.tail {
            return Ok(range);
        }
        if is_json {
            self.end_at_message(path, range, most)
        } else {
            if kind == Kind::Text {
                range.end_at_character();
            }
            Ok(range)
        }
    }

    /// Reads until a chunk is full or the tail is reached.
    fn fill(&self, path: &StreamPath, from: Offset, most: u64) -> Outcome<Range> {
        let end = from.0.saturating_add(most.max(1));
        let mut range = self.more(path, from, most)?;
        while range.next < range.tail && range.next.0 < end {
            let next = self.more(path, range.next, end - range.next.0)?;
            range.append(next);
        }
        Ok(range)
    }

    /// Cuts a chunk behind its last whole message; reads on where it has none.
    fn end_at_message(
        &self,
        path: &StreamPath,
        mut range: Range,
        most: u64,
    ) -> Result<Range, Unread> {
        loop {
            if let Some(end) = range.body.end_of_last_message() {
                let rest = range.body.len() - end;
                range.body.drop_back(rest);
                let rest = u64::try_from(rest).expect("lengths have 64 bits at most");
                range.next = Offset(range.next.0 - rest);
                return Ok(range);
            }
            if range.next == range.tail {
                return Err(Problem::Damaged("a stored message has no end".to_owned()).into());
            }
            // By a part of it each time: the longest message is looked through a few times only.
            let len = u64::try_from(range.body.len()).expect("lengths have 64 bits at most");
            let more = most.max(len / 4);
            let bytes = len + more;
            if !range.lease.grow_to(bytes) {
                return Err(Unread::NoRoom { bytes });
            }
            let next = self.more(path, range.next, more)?;
            range.append(next);
        }
    }

    fn more(&self, path: &StreamPath, from: Offset, most: u64) -> Outcome<Range> {
        match self.log.read(path.as_str(), from, most) {
            Ok(answer) => Ok(Range {
                body: Body::from_slices(answer.slices),
                next: answer.next,
                tail: answer.tail,
                is_closed: answer.is_closed,
                lease: self.room.lease(),
            }),
            // Only a stream that was made anew is shorter than before.
            Err(LogError::Rejected(Rejection::BeyondTail { .. })) => Err(Problem::NotFound),
            Err(error) => Err(error.into()),
        }
    }

    /// What is at the tail.
    fn nothing(&self, view: &View) -> Range {
        let (tail, is_closed) = (view.tail, view.is_closed);
        Range { body: Body::default(), next: tail, tail, is_closed, lease: self.room.lease() }
    }
}

impl Range {
    fn append(&mut self, other: Self) {
        self.body.extend(other.body);
        (self.next, self.tail, self.is_closed) = (other.next, other.tail, other.is_closed);
    }

    /// Cuts off a character or line end that may not be complete, but never everything.
    fn end_at_character(&mut self) {
        let rest = unfinished_len(&self.body.last(4));
        if rest < self.body.len() {
            self.body.drop_back(rest);
            let rest = u64::try_from(rest).expect("at most three bytes");
            self.next = Offset(self.next.0 - rest);
        }
    }
}

/// Number of bytes at the end of a text that what follows may belong to: a character whose other
/// bytes are missing, or a CR, which is one line end with an LF behind it.
pub(crate) fn unfinished_len(bytes: &[u8]) -> usize {
    if bytes.last() == Some(&b'\r') { 1 } else { incomplete_len(bytes) }
}

/// Number of bytes at the end that begin a UTF-8 character whose other bytes are missing.
fn incomplete_len(bytes: &[u8]) -> usize {
    match std::str::from_utf8(&bytes[start_of_last(bytes)..]) {
        Err(error) if error.error_len().is_none() => {
            bytes.len() - start_of_last(bytes) - error.valid_up_to()
        }
        _ => 0,
    }
}

/// Where the last character begins, whole or not: at the last byte that is no continuation.
fn start_of_last(bytes: &[u8]) -> usize {
    let is_start = |byte: &u8| byte & 0b1100_0000 != 0b1000_0000;
    bytes.iter().rposition(is_start).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Point 37.
    #[test]
    fn exactly_the_bytes_of_a_character_that_is_cut_are_incomplete() {
        for text in ["a", "ä", "€", "𝄞", ""] {
            let bytes = [b"x", text.as_bytes()].concat();
            for len in 1..=bytes.len() {
                let expected = if len == bytes.len() { 0 } else { len - 1 };
                assert_eq!(incomplete_len(&bytes[..len]), expected, "{text} {len}");
            }
        }
        assert_eq!(incomplete_len(b"x\x80\x80"), 0, "what is wrong is not incomplete");
        assert_eq!(incomplete_len(b"\xff"), 0);
        assert_eq!(incomplete_len(b"\xc3("), 0);
    }

    /// Point 36.
    #[test]
    fn a_cr_at_the_end_waits_for_what_follows() {
        for (bytes, expected) in
            [(&b"a\r"[..], 1), (b"\r", 1), (b"\r\r", 1), (b"\r\n", 0), (b"\ra", 0), (b"\r\xe2", 1)]
        {
            assert_eq!(unfinished_len(bytes), expected, "{bytes:?}");
        }
    }
}
