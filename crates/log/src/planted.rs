//! Bugs on request, for a campaign that has to catch them. Compiled with the feature `planted`
//! only, and then off unless the options ask for one.

/// A bug.
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
}
