//! Bugs on request, for a campaign that has to catch them. Compiled with the feature `planted`
//! only, and then off unless the options ask for one.

/// Whether a bug is asked for.
#[cfg(feature = "planted")]
macro_rules! planted {
    ($options:expr, $bug:ident) => {
        $options.planted == Some($crate::planted::Planted::$bug)
    };
}

/// Whether a bug is asked for: never.
#[cfg(not(feature = "planted"))]
macro_rules! planted {
    ($options:expr, $bug:ident) => {{
        _ = &$options;
        false
    }};
}

/// A bug.
#[cfg(feature = "planted")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// What is written is published before its barrier.
    AckBeforeBarrier,
    /// Replay checks neither the chain of frames nor their epoch.
    StaleFramesTaken,
    /// Segments are given back although no manifest names the table that replaces them.
    RecycledEarly,
    /// Bytes count as moved home although the home's barrier failed.
    HomeFailureIgnored,
    /// A bad frame always counts as the torn end of the log.
    EvidenceIgnored,
    /// Producers are not restored from the table.
    ProducersForgotten,
    /// A source is deleted although forks read it.
    SourceForgotten,
    /// A source counts a fork out before its deletion is durable.
    ReleasedEarly,
    /// A source that nobody forks any more stays hidden.
    UnreadForgotten,
    /// What a fork reads of another lane is not put behind a barrier.
    ForkUnsynced,
    /// A hidden stream that is read from the table can be seen.
    HiddenReturns,
    /// Replay passes over uses.
    UsesForgotten,
    /// An opening counts as a use.
    ExpiryBeginsAnew,
    /// Watchers of a stream that ends are not woken.
    WatchersForgotten,
    /// What becomes durable is noted of whichever stream has the slot by then.
    SlotMistaken,
    /// A table counts before the records are durable that it holds.
    TableAhead,
    /// The home forgets streams whose end may not be durable.
    DeadTooEarly,
    /// Nothing vouches for the last commit of a log that is closed.
    WitnessForgotten,
    /// The mark up to which operations are acknowledged moves before readers see what they did.
    MarkedBeforeShown,
    /// Whoever waits looks at the mark, lets go of the lock, and only then joins those who wait.
    JoinedLate,
    /// A thread that has committed leaves what was staged meanwhile to nobody.
    CommitterForgotten,
}
