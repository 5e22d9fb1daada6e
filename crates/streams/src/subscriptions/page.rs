//! What clients see of a subscription: its streams a page at a time, in the order of their names.

use std::collections::BTreeSet;

use serde_json::Value;

use super::entry::Entry;
use super::hub::Subscriptions;
use super::index::named;
use super::links::is_reserved;
use super::refusal::Refusal;
use super::wire;

/// Streams of a page at most, and where nothing is said.
pub const MOST_STREAMS_OF_A_PAGE: usize = 1000;
/// Names that are looked at for one page, about; one that matches may be far behind.
const MOST_LOOKED_AT: usize = 100_000;
/// Names that are looked at together.
const TOGETHER: usize = 10_000;

/// Which streams of a subscription are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Those behind this name.
    pub after: Option<String>,
    /// How many at most.
    pub limit: usize,
}

impl Default for Page {
    fn default() -> Self {
        Self { after: None, limit: MOST_STREAMS_OF_A_PAGE }
    }
}

/// Names that are followed, in order, and the last name looked at where there are more.
struct Found {
    names: BTreeSet<String>,
    until: Option<String>,
}

impl Subscriptions {
    /// Tells what a subscription is, with some of its streams. May look at all names, so it is for
    /// a thread that serves nobody.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], [`crate::error::Problem::Busy`].
    pub fn get(&self, id: &str, root: &str, page: &Page) -> Result<Value, Refusal> {
        self.settle_now();
        let entry = self.entry(id)?;
        entry.lock().check()?;
        let mut found = self.matching(&entry, page);
        let held = entry.lock();
        held.check()?;
        let subscription = &held.subscription;
        let is_here = |name: &&str| {
            page.after.as_deref().is_none_or(|after| *name > after)
                && found.until.as_deref().is_none_or(|until| *name <= until)
        };
        let named: Vec<String> = named(subscription).filter(is_here).map(str::to_owned).collect();
        found.names.extend(named);
        let mut streams = Vec::new();
        for name in found.names {
            let shown = self.shown(subscription, &name);
            let Some(link) = shown.filter(|_| !subscription.is_wake_stream(&name)) else {
                continue;
            };
            if streams.len() == page.limit {
                found.until = streams.last().map(|(name, _): &(String, _)| name.clone());
                break;
            }
            streams.push((name, link));
        }
        let shown = wire::Shown { streams, next_after: found.until };
        Ok(wire::subscription(subscription, &self.keys().active_kid(self.now_s()), root, &shown))
    }

    /// Finds streams that the pattern matches: a few more than are shown.
    fn matching(&self, entry: &Entry, page: &Page) -> Found {
        let mut found = Found { names: BTreeSet::new(), until: None };
        let Some(glob) = &entry.glob else { return found };
        let (prefix, mut after, mut looked_at) = (glob.prefix(), page.after.clone(), 0);
        // Often every name matches that begins so.
        let mut together = page.limit + 2;
        loop {
            let names = self.streams.log.list(&prefix, after.as_deref(), together);
            looked_at += names.len();
            let is_last = names.len() < together;
            together = TOGETHER;
            after = names.last().cloned();
            let followed = names.into_iter();
            let followed = followed.filter(|name| !is_reserved(name) && entry.matches(name));
            found.names.extend(followed);
            if is_last {
                return found;
            }
            // One more may be the wake stream, and one says that there are more.
            if found.names.len() >= page.limit + 2 || looked_at >= MOST_LOOKED_AT {
                found.until = after;
                return found;
            }
        }
    }
}
