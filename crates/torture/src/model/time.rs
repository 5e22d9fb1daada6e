//! Which streams are over.

use highwater_log::request::Expiry;

use super::Stream;

/// A use is in the log when it is later than the last one there by this share of the time to live,
/// and by so much at least, ms.
const LAG_SHARE: u64 = 8;
const LAG_LEAST_MS: u64 = 1000;

/// A moment that is known to lie between two others, both included; ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Not before.
    pub least_ms: u64,
    /// Not after.
    pub most_ms: u64,
}

/// An answer that may not be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Is {
    /// It is so.
    So,
    /// It is not.
    Not,
    /// It may be.
    Unsure,
}

impl Span {
    /// Just then.
    pub const fn at(ms: u64) -> Self {
        Self { least_ms: ms, most_ms: ms }
    }

    fn not_before(self, ms: u64) -> Self {
        Self { least_ms: self.least_ms.max(ms), most_ms: self.most_ms.max(ms) }
    }
}

impl Stream {
    /// Whether its time is over, when it was last used in this span.
    pub fn is_over(&self, used: Span, now_ms: u64) -> Is {
        match self.config.expiry {
            Some(Expiry::Absolute { at_ms }) if at_ms <= now_ms => Is::So,
            None | Some(Expiry::Absolute { .. }) => Is::Not,
            Some(Expiry::Sliding { ttl_ms }) => {
                if used.most_ms.saturating_add(ttl_ms) <= now_ms {
                    Is::So
                } else if used.least_ms.saturating_add(ttl_ms) > now_ms {
                    Is::Not
                } else {
                    Is::Unsure
                }
            }
        }
    }

    /// A record that says when it used the stream.
    pub(super) fn used_by_record(&mut self, at_ms: u64) {
        self.used = self.used.not_before(at_ms);
        self.kept = self.kept.not_before(at_ms);
    }

    /// A use that may not have reached the log: what did lags by less than the least that is
    /// logged.
    pub(super) fn touched(&mut self, at_ms: u64) {
        let Some(Expiry::Sliding { ttl_ms }) = self.config.expiry else { return };
        self.used = self.used.not_before(at_ms);
        let lag_ms = (ttl_ms / LAG_SHARE).max(LAG_LEAST_MS) - 1;
        let least_ms = self.kept.least_ms.max(at_ms.saturating_sub(lag_ms));
        self.kept = Span { least_ms, most_ms: self.kept.most_ms.max(at_ms) };
    }

    /// It was seen alive, or over: what its last use cannot have been is left out.
    pub fn seen(&mut self, is_over: bool, now_ms: u64) {
        let Some(Expiry::Sliding { ttl_ms }) = self.config.expiry else { return };
        let last_ms = now_ms.saturating_sub(ttl_ms);
        if is_over {
            self.used.most_ms = self.used.most_ms.min(last_ms);
        } else {
            self.used.least_ms = self.used.least_ms.max(last_ms + 1);
        }
    }
}
