//! Who follows a stream: found by its name, without asking every subscription.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry::Entry;
use super::patterns::Patterns;
use super::state::Subscription;

/// Subscriptions by what they follow.
#[derive(Debug, Default)]
pub(super) struct Index {
    by_pattern: Patterns<Arc<Entry>>,
    by_name: HashMap<String, Vec<Arc<Entry>>>,
}

impl Index {
    /// Adds a subscription by its pattern.
    pub fn add(&mut self, entry: &Arc<Entry>) {
        if let Some(glob) = &entry.glob {
            self.by_pattern.add(glob, Arc::clone(entry));
        }
    }

    /// Takes a subscription out; names have to be taken out apart.
    pub fn remove(&mut self, entry: &Arc<Entry>) {
        if let Some(glob) = &entry.glob {
            self.by_pattern.remove(glob, entry);
        }
    }

    /// Adds a stream that a subscription names.
    pub fn add_name(&mut self, entry: &Arc<Entry>, name: &str) {
        if let Some(entries) = self.by_name.get_mut(name) {
            if !entries.contains(entry) {
                entries.push(Arc::clone(entry));
            }
        } else {
            self.by_name.insert(name.to_owned(), vec![Arc::clone(entry)]);
        }
    }

    /// Takes out a stream that a subscription no longer names.
    pub fn remove_name(&mut self, entry: &Arc<Entry>, name: &str) {
        let Some(entries) = self.by_name.get_mut(name) else { return };
        entries.retain(|one| one != entry);
        if entries.is_empty() {
            self.by_name.remove(name);
        }
    }

    /// Gives those that may follow a stream, each once.
    pub fn following(&self, name: &str) -> Vec<Arc<Entry>> {
        let mut found: Vec<Arc<Entry>> =
            self.by_pattern.matching(name).into_iter().map(Arc::clone).collect();
        if let Some(named) = self.by_name.get(name) {
            found.extend(named.iter().filter(|entry| !entry.matches(name)).map(Arc::clone));
        }
        found
    }
}

/// Streams that a subscription names.
pub(super) fn named(subscription: &Subscription) -> impl Iterator<Item = &str> {
    let named = subscription.links.iter().filter(|(_, link)| link.is_explicit);
    named.map(|(name, _)| &**name)
}
