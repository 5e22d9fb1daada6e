//! Looks for streams that are pending and not in memory: one walk over all names for all
//! subscriptions that want it, a few names at a time. It takes as long as there are streams, so it
//! is for a thread that serves nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use highwater_log::request::Walk;

use super::entry::Entry;
use super::hub::Subscriptions;
use super::links::is_reserved;
use super::patterns::Patterns;

/// Links that are looked at while a subscription's lock is held.
const HELD: usize = 256;

impl Subscriptions {
    /// Whether [`Subscriptions::search`] has anything to do.
    pub fn wants_search(&self) -> bool {
        let inner = self.lock();
        !inner.searching.is_empty() || !inner.sweeping.is_empty()
    }

    /// Looks for pending streams where none is known, and drops links to streams that are gone.
    pub fn search(&self) {
        let (searching, sweeping) = {
            let mut inner = self.lock();
            (std::mem::take(&mut inner.searching), std::mem::take(&mut inner.sweeping))
        };
        let entries = |ids: BTreeSet<String>| -> Vec<Arc<Entry>> {
            ids.iter().filter_map(|id| self.entry(id).ok()).collect()
        };
        for entry in entries(sweeping) {
            self.sweep(&entry);
        }
        let searched = Self::begin_search(entries(searching));
        self.walk_for(&searched);
        self.end_search(&searched);
    }

    /// Begins to search for those that want it.
    pub(super) fn begin_search(mut searched: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
        searched.retain(|entry| {
            let mut held = entry.lock();
            let is_wanted = held.check().is_ok() && held.subscription.is_to_be_searched();
            if is_wanted {
                held.subscription.has_more = false;
                held.subscription.is_searched = true;
            }
            is_wanted
        });
        searched
    }

    /// Ends a search: those that want another one are noted.
    pub(super) fn end_search(&self, searched: &[Arc<Entry>]) {
        for entry in searched {
            let mut held = entry.lock();
            held.subscription.is_searched = false;
            self.schedule(&entry.id, &held);
        }
    }

    /// Walks over all names, from where the last walk ended, until nobody takes any more.
    pub(super) fn walk_for(&self, entries: &[Arc<Entry>]) {
        let mut patterns = Patterns::default();
        for entry in entries {
            if let Some(glob) = &entry.glob {
                patterns.add(glob, Arc::clone(entry));
            }
        }
        let mut left = entries.len();
        let begun = *self.searched.lock().expect("nobody panics while a search ends");
        // To the end, and then from the start to where it began.
        let (mut walk, mut is_round) = (begun, begun == Walk::default());
        while left > 0 {
            let (names, next) = self.streams.log.walk("", walk);
            for name in names.iter().filter(|name| !is_reserved(name)) {
                let matching: Vec<Arc<Entry>> =
                    patterns.matching(name).into_iter().map(Arc::clone).collect();
                for entry in matching {
                    if self.find(&entry, name) == Found::Enough {
                        left -= 1;
                        let glob = entry.glob.as_ref().expect("it matched by its pattern");
                        patterns.remove(glob, &entry);
                    }
                }
            }
            if left > 0 {
                walk = match next {
                    Some(next) => next,
                    None if is_round => break,
                    None => {
                        is_round = true;
                        Walk::default()
                    }
                };
                if is_round && walk >= begun && begun > Walk::default() {
                    break;
                }
            }
        }
        // What is left of this step is looked at again.
        *self.searched.lock().expect("nobody panics while a search ends") = walk;
    }

    fn find(&self, entry: &Entry, name: &str) -> Found {
        let mut held = entry.lock();
        if held.check().is_err() {
            // It may come back, read again or not deleted after all: not all was looked at then.
            held.subscription.has_more = true;
            return Found::Enough;
        }
        let subscription = &mut held.subscription;
        if !subscription.has_more && !subscription.is_wake_stream(name) {
            // What is seen without the lock may be older than what is known.
            self.observe(subscription, name);
        }
        if subscription.has_more { Found::Enough } else { Found::NotAll }
    }

    /// Drops links to streams that are gone: nobody tells when a stream's time is over.
    fn sweep(&self, entry: &Entry) {
        let names: Vec<_> = entry.lock().subscription.links.keys().cloned().collect();
        for some in names.chunks(HELD) {
            let mut held = entry.lock();
            for name in some {
                self.observe_where_followed(entry, &mut held.subscription, name);
            }
        }
        let mut held = entry.lock();
        held.links_then = held.subscription.links.len();
    }
}

/// What a search has found for a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// As much as it takes, or it is not to be searched any more.
    Enough,
    /// There may be more.
    NotAll,
}
