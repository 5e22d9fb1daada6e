//! What can go wrong: a request that is turned down changes nothing, and a log that failed stays
//! so.

use highwater_disk::DiskError;

use crate::format::FormatError;
use crate::ids::{LaneId, Lsn, Offset};

/// Result of a log operation.
pub type LogResult<T> = Result<T, LogError>;

/// Why an operation did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The request does not fit the state of its stream; nothing changed.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// A write or barrier failed; the log takes nothing more until it is opened again.
    #[error("the log is poisoned: {0}; nothing at risk was acknowledged; open it again")]
    Poisoned(String),
    /// Bytes can no longer move home; the log has them, and takes nothing more until it is opened
    /// again.
    #[error(
        "the log takes no changes: {0}; everything acknowledged is safe and can be read; mend the \
         disk and open the log again"
    )]
    ReadOnly(String),
    /// [`crate::Log::close`] was called: the log takes nothing more. What it has can be read.
    #[error("the log is closed; open it again to change anything")]
    Closed,
    /// No room: on the disk, or within a limit. It lasts until something is deleted, or there is
    /// more space.
    #[error("full: {0}")]
    Full(Full),
    /// No room for a moment: what was taken in before has not reached the disk, or its home. It
    /// passes by itself.
    #[error("busy: {0}")]
    Busy(Busy),
    /// The directory cannot be opened as it is.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// The disk failed on a read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Stored bytes are not what was written.
    #[error("{place}: {source}; restore from a copy, or read around it")]
    Damaged {
        /// Which bytes.
        place: String,
        /// What is wrong with them.
        source: FormatError,
    },
}

impl LogError {
    /// Whether there was no room: for a moment, or until somebody makes some. Nothing else is wrong
    /// with the log then.
    pub fn is_lack_of_room(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Busy(_))
    }
}

/// What there is no room in, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Full {
    /// What has all that it may have.
    pub of: Holder,
    /// How much that is.
    pub why: String,
}

impl Full {
    /// No room for anything more of a kind, in any stream.
    pub fn of_all(why: impl Into<String>) -> Self {
        Self { of: Holder::All, why: why.into() }
    }
}

/// What may have all that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// One stream, which is the affair of whoever appends to it.
    Stream,
    /// The disk, or all streams together.
    All,
}

/// What there is no room in for a moment, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Busy {
    /// What there is too little of.
    pub of: Scarce,
    /// How it came, and what to wait for.
    pub why: String,
}

/// What there may be too little of for a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scarce {
    /// Room for what waits for the disk.
    Staged,
    /// Segments: what waits for a checkpoint.
    Wal,
    /// Memory for segments that are not home yet.
    Images,
    /// Open files.
    Files,
}

/// Why a request was turned down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// No such stream.
    #[error("no such stream")]
    NotFound,
    /// Deleted, but forks still read it.
    #[error("the stream is deleted, and kept for its forks")]
    SoftDeleted,
    /// The name is taken by a stream of another configuration.
    #[error("a stream of this name exists with another configuration")]
    Exists,
    /// Nothing can be appended behind the end.
    #[error("the stream is closed at {tail}")]
    Closed {
        /// Its final tail.
        tail: Offset,
    },
    /// The content type is not the stream's.
    #[error("the stream holds {stored:?}")]
    ContentType {
        /// The stream's.
        stored: String,
    },
    /// A producer skipped sequence numbers.
    #[error("the producer's next sequence number is {expected}, not {received}")]
    ProducerGap {
        /// What should have come.
        expected: u64,
        /// What came.
        received: u64,
    },
    /// A producer of an older epoch: another one has taken over.
    #[error("the producer's epoch is {current} by now")]
    ProducerFenced {
        /// The newest epoch.
        current: u64,
    },
    /// A new epoch has to begin with sequence number 0.
    #[error("a new producer epoch begins with sequence number 0")]
    ProducerEpochStart,
    /// The sequence is not greater than the last.
    #[error("the sequence has to be greater than the last one")]
    Sequence,
    /// An offset that the stream does not have.
    #[error("offset {offset} is beyond the tail {tail}")]
    BeyondTail {
        /// What was asked.
        offset: Offset,
        /// What there is.
        tail: Offset,
    },
    /// A fork's source is gone or going.
    #[error("the source of the fork is deleted")]
    SourceDeleted,
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
    /// Something in the request is empty that must not be.
    #[error("{0} is empty")]
    Empty(&'static str),
}

/// Why a log could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Settings that cannot be meant.
    #[error("{0}")]
    Settings(String),
    /// Another process has it open.
    #[error("another process has this log open")]
    Locked,
    /// A number fixed at creation differs from what was asked.
    #[error(
        "this log was made with {what} = {stored}, and {asked} was asked: set {what} to {stored}. \
         To move to {asked}, make a new log with it elsewhere, and append to its streams what is \
         read from this one"
    )]
    Mismatch {
        /// Which setting.
        what: &'static str,
        /// As made.
        stored: u64,
        /// As asked.
        asked: u64,
    },
    /// A directory is not the one that this log had: its device is not mounted, perhaps.
    #[error(
        "{dir} is not this log's directory: {why}. Mount its device, or put the link right; \
         nothing was changed"
    )]
    Elsewhere {
        /// Which directory.
        dir: String,
        /// How it shows.
        why: String,
    },
    /// A directory is in use by a log that has another root.
    #[error(
        "{dir} leads to a directory that another log has open. Its store has been copied with the \
         links in it, perhaps: copy what they lead to as well; nothing was changed"
    )]
    InUse {
        /// Which directory.
        dir: String,
    },
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A file is not readable as what it should be.
    #[error("{file}: {source}; restore it from a copy")]
    Format {
        /// The file.
        file: String,
        /// What is wrong.
        source: FormatError,
    },
    /// Acknowledged bytes are damaged.
    #[error(
        "lane {lane}: acknowledged bytes from {from} on are damaged ({why}), although the log was \
         durable to {durable}: nothing was changed. Restore from a copy; opening it as \
         it is would lose that range"
    )]
    Damaged {
        /// The lane.
        lane: LaneId,
        /// First position that cannot be read.
        from: Lsn,
        /// A later frame proves that the log was durable to here.
        durable: Lsn,
        /// Why the frame there was turned down.
        why: String,
    },
}
