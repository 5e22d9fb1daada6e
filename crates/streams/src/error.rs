//! What can be wrong with a request: a stable code for machines, a sentence for people, and what to
//! do about it.
//!
//! Codes are part of the contract and never change their meaning. Which HTTP status goes with which
//! problem is the server's matter.

use highwater_disk::ErrorKind;
use highwater_log::error::{Full, Holder, LogError, Rejection, Scarce};
use highwater_log::ids::Offset;

use crate::offset::Token;

/// Result of an operation on streams.
pub type Outcome<T> = Result<T, Problem>;

/// Why a request was turned down. Nothing has changed then, except where it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The target names no stream.
    #[error("the path is not usable: {why}")]
    BadPath {
        /// What is wrong with it.
        why: &'static str,
    },
    /// A header or parameter cannot be read, or does not go with another one.
    #[error("{name} is not usable: {why}")]
    BadField {
        /// The header or parameter.
        name: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An offset that was never given out.
    #[error("the offset is none that this server has given out")]
    InvalidOffset,
    /// A live read has to say where it begins.
    #[error("a live read needs an offset")]
    OffsetRequired,
    /// An offset inside a message.
    #[error("the offset lies inside a message")]
    InsideMessage,
    /// An append without content.
    #[error("the body is empty")]
    EmptyBody,
    /// A body without a type.
    #[error("the body has no Content-Type")]
    NoContentType,
    /// The body is not JSON.
    #[error("the body is not JSON: {what} at byte {at}")]
    InvalidJson {
        /// Where, from 0.
        at: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A JSON array without messages is no append.
    #[error("the body is an empty array")]
    EmptyArray,
    /// No such stream.
    #[error("there is no such stream")]
    NotFound,
    /// Deleted, and kept for its forks.
    #[error("the stream is deleted; its name is taken until its last fork is gone")]
    Gone,
    /// The name is taken by a stream of another configuration.
    #[error("a stream of this name exists with another {what}")]
    Exists {
        /// What differs.
        what: &'static str,
    },
    /// The name is taken by a deleted stream that is kept for its forks.
    #[error("the name is taken by a deleted stream that is kept for its forks")]
    NameTaken,
    /// Nothing can be appended behind the end.
    #[error("the stream is closed at {}", Token(*.tail))]
    Closed {
        /// Its final tail.
        tail: Offset,
    },
    /// The content type is not the stream's.
    #[error("the stream holds {stored}")]
    ContentTypeMismatch {
        /// The stream's.
        stored: String,
    },
    /// `Stream-Seq` is not greater than the last one.
    #[error("Stream-Seq has to be greater than the last one")]
    SequenceRegression,
    /// A producer skipped sequence numbers.
    #[error("the producer's next sequence number is {expected}, not {received}")]
    ProducerGap {
        /// What should have come.
        expected: u64,
        /// What came.
        received: u64,
    },
    /// A producer of an older epoch.
    #[error("the producer's epoch is {current} by now")]
    ProducerFenced {
        /// The newest epoch.
        current: u64,
    },
    /// A new epoch has to begin with sequence number 0.
    #[error("a new producer epoch begins with sequence number 0")]
    ProducerEpochStart,
    /// A fork's source does not exist.
    #[error("the stream to fork does not exist")]
    SourceNotFound,
    /// A fork's source is deleted.
    #[error("the stream to fork is deleted")]
    SourceGone,
    /// A fork beyond what its source has.
    #[error("the stream to fork ends at {}", Token(*.tail))]
    ForkBeyondTail {
        /// The source's tail.
        tail: Offset,
    },
    /// A fork beyond the append that it is to begin in.
    #[error("the sub-offset leads beyond the append behind the offset")]
    ForkBeyondAppend,
    /// Something in the request is larger than a limit.
    #[error("{what} has {size} bytes, {limit} at most")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// No room: on the disk, or within a limit.
    #[error("full: {0}")]
    Full(Full),
    /// No room for a moment.
    #[error("busy: {0}")]
    Busy(Busy),
    /// No room for an answer for a moment: others have not been taken.
    #[error("no room for the answer: {0}")]
    NoRoomForAnswer(&'static str),
    /// The log takes no changes; what it has can be read.
    #[error("nothing can be changed: {0}")]
    ReadOnly(String),
    /// The log is closed: the server is about to end.
    #[error("the server is stopping")]
    Stopping,
    /// The log has failed and takes nothing more.
    #[error("the log has failed: {0}")]
    Failed(String),
    /// Stored bytes cannot be read.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
}

impl Problem {
    /// Gives the code that machines tell problems apart by.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadPath { .. } => "BAD_PATH",
            Self::BadField { .. } => "BAD_FIELD",
            Self::InvalidOffset => "INVALID_OFFSET",
            Self::OffsetRequired => "OFFSET_REQUIRED",
            Self::InsideMessage => "OFFSET_INSIDE_MESSAGE",
            Self::EmptyBody => "EMPTY_BODY",
            Self::NoContentType => "CONTENT_TYPE_REQUIRED",
            Self::InvalidJson { .. } => "INVALID_JSON",
            Self::EmptyArray => "EMPTY_ARRAY",
            Self::NotFound => "STREAM_NOT_FOUND",
            Self::Gone => "STREAM_GONE",
            Self::Exists { .. } => "STREAM_EXISTS",
            Self::NameTaken => "STREAM_NAME_TAKEN",
            Self::Closed { .. } => "STREAM_CLOSED",
            Self::ContentTypeMismatch { .. } => "CONTENT_TYPE_MISMATCH",
            Self::SequenceRegression => "SEQUENCE_REGRESSION",
            Self::ProducerGap { .. } => "PRODUCER_SEQUENCE_GAP",
            Self::ProducerFenced { .. } => "PRODUCER_FENCED",
            Self::ProducerEpochStart => "PRODUCER_EPOCH_START",
            Self::SourceNotFound => "FORK_SOURCE_NOT_FOUND",
            Self::SourceGone => "FORK_SOURCE_GONE",
            Self::ForkBeyondTail { .. } => "FORK_BEYOND_TAIL",
            Self::ForkBeyondAppend => "FORK_BEYOND_APPEND",
            Self::TooLarge { .. } => "TOO_LARGE",
            Self::Full(_) => "FULL",
            Self::Busy(_) => "BUSY",
            Self::NoRoomForAnswer(_) => "NO_ROOM_FOR_ANSWER",
            Self::ReadOnly(_) => "LOG_READ_ONLY",
            Self::Stopping => "SERVER_STOPPING",
            Self::Failed(_) => "LOG_FAILED",
            Self::Damaged(_) => "DATA_DAMAGED",
        }
    }

    /// Says what whoever asked can do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::BadPath { .. } => "Use a path of UTF-8 segments below the stream root.",
            Self::BadField { .. } => "Correct or leave out the field and send again.",
            Self::InvalidOffset | Self::InsideMessage => {
                "Use -1, now, or an offset that came in Stream-Next-Offset."
            }
            Self::OffsetRequired => "Add offset=-1, offset=now, or the last Stream-Next-Offset.",
            Self::EmptyBody => "Send content, or close the stream with Stream-Closed: true.",
            Self::NoContentType => "Send the stream's Content-Type with the body.",
            Self::InvalidJson { .. } => "Send one JSON value, or an array of messages.",
            Self::EmptyArray => "Send at least one message.",
            Self::NotFound => "Create the stream with PUT, or check its path.",
            Self::Gone | Self::NameTaken => "Use another path, or delete the stream's forks first.",
            Self::Exists { .. } => "Use another path, or ask with the stream's own configuration.",
            Self::Closed { .. } => "Append to another stream: a closed one stays closed.",
            Self::ContentTypeMismatch { .. } => "Send content of the stream's type.",
            Self::SequenceRegression => "Read what was appended before, then go on behind it.",
            Self::ProducerGap { .. } => "Send what is missing first, in order.",
            Self::ProducerFenced { .. } => {
                "Stop, or take over with a higher epoch and sequence number 0."
            }
            Self::ProducerEpochStart => "Begin the epoch with sequence number 0.",
            Self::SourceNotFound => "Check the path in Stream-Forked-From.",
            Self::SourceGone => "Fork one of its living forks.",
            Self::ForkBeyondTail { .. } => "Fork at an offset that the source has given out.",
            Self::ForkBeyondAppend => {
                "Count from the last offset before the place where the fork is to begin."
            }
            Self::TooLarge { .. } => "Send less at once.",
            Self::Full(Full { of: Holder::Stream, .. }) => {
                "Go on in another stream, or raise max-stream-bytes."
            }
            Self::Full(_) => "Delete streams or add space.",
            Self::Busy(_) | Self::NoRoomForAnswer(_) => "Try again in a moment.",
            Self::ReadOnly(_) => "Mend the disk and restart the server: nothing is lost.",
            Self::Stopping => "Try again when the server is back.",
            Self::Failed(_) => "Restart the server: it reads what the disk has.",
            Self::Damaged(_) => "Restore from a copy, or read around it.",
        }
    }
}

/// What there is no room for at a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Busy {
    /// What the log has too little of; nothing where somebody else does the same just now.
    pub of: Option<Scarce>,
    /// Why.
    pub why: String,
}

impl From<String> for Busy {
    fn from(why: String) -> Self {
        Self { of: None, why }
    }
}

impl From<LogError> for Problem {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Rejected(rejection) => rejection.into(),
            LogError::Full(full) => Self::Full(full),
            LogError::Busy(busy) => Self::Busy(Busy { of: Some(busy.of), why: busy.why }),
            LogError::ReadOnly(why) => Self::ReadOnly(why),
            LogError::Closed => Self::Stopping,
            LogError::Poisoned(why) => Self::Failed(why),
            LogError::Open(error) => Self::Failed(error.to_string()),
            // Of the process or the system: some are closed before long.
            LogError::Disk(error) if error.kind == ErrorKind::TooManyFiles => {
                Self::Busy(Busy { of: Some(Scarce::Files), why: error.to_string() })
            }
            LogError::Disk(error) => Self::Failed(error.to_string()),
            damaged @ LogError::Damaged { .. } => Self::Damaged(damaged.to_string()),
        }
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::NotFound => Self::NotFound,
            Rejection::SoftDeleted => Self::Gone,
            Rejection::Exists => Self::Exists { what: "configuration" },
            Rejection::Closed { tail } => Self::Closed { tail },
            Rejection::ContentType { stored } => Self::ContentTypeMismatch { stored },
            Rejection::ProducerGap { expected, received } => {
                Self::ProducerGap { expected, received }
            }
            Rejection::ProducerFenced { current } => Self::ProducerFenced { current },
            Rejection::ProducerEpochStart => Self::ProducerEpochStart,
            Rejection::Sequence => Self::SequenceRegression,
            Rejection::BeyondTail { tail, .. } => Self::ForkBeyondTail { tail },
            Rejection::SourceDeleted => Self::SourceGone,
            Rejection::TooLarge { what, size, limit } => Self::TooLarge { what, size, limit },
            Rejection::Empty(_) => Self::EmptyBody,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Point 5.
    #[test]
    fn every_problem_has_a_code_a_sentence_and_advice() {
        let text = || "x".to_owned();
        let tail = Offset(9);
        let all = [
            Problem::BadPath { why: "x" },
            Problem::BadField { name: "Stream-TTL", why: "x" },
            Problem::InvalidOffset,
            Problem::OffsetRequired,
            Problem::InsideMessage,
            Problem::EmptyBody,
            Problem::NoContentType,
            Problem::InvalidJson { at: 3, what: "x" },
            Problem::EmptyArray,
            Problem::NotFound,
            Problem::Gone,
            Problem::Exists { what: "expiry" },
            Problem::NameTaken,
            Problem::Closed { tail },
            Problem::ContentTypeMismatch { stored: text() },
            Problem::SequenceRegression,
            Problem::ProducerGap { expected: 1, received: 3 },
            Problem::ProducerFenced { current: 4 },
            Problem::ProducerEpochStart,
            Problem::SourceNotFound,
            Problem::SourceGone,
            Problem::ForkBeyondTail { tail },
            Problem::ForkBeyondAppend,
            Problem::TooLarge { what: "the body", size: 2, limit: 1 },
            Problem::Full(Full::of_all(text())),
            Problem::Busy(text().into()),
            Problem::NoRoomForAnswer("x"),
            Problem::ReadOnly(text()),
            Problem::Stopping,
            Problem::Failed(text()),
            Problem::Damaged(text()),
        ];
        let mut codes: Vec<&str> = all.iter().map(Problem::code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all.len(), "one code for each problem");
        for problem in &all {
            let code = problem.code();
            assert!(code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{code}");
            assert!(!problem.to_string().is_empty() && problem.advice().ends_with('.'), "{code}");
        }
        let closed = Problem::Closed { tail }.to_string();
        assert!(closed.contains("0000000000000000_0000000000000009"), "{closed}");
    }
}
