//! Finds the hub of a stream: there is one as long as anybody follows it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use highwater_log::ids::StreamId;

use super::hub::{Hub, ReaderId};
use super::relay::{self, Waiting};
use crate::path::StreamPath;
use crate::service::{Streams, View};

/// Hubs by stream. Each holds the streams, and so its registry, as long as it has readers.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    hubs: Mutex<Hubs>,
}

#[derive(Debug, Default)]
struct Hubs {
    all: HashMap<StreamId, Arc<Hub>>,
    /// Those whose streams end some time.
    ending: HashSet<StreamId>,
}

impl Registry {
    /// Joins the hub of a stream, making one if there is none; gives the new reader's number there.
    pub fn join(&self, streams: &Streams, view: &View, path: &StreamPath) -> (Arc<Hub>, ReaderId) {
        let mut hubs = self.lock();
        if view.ttl().is_some() || view.until().is_some() {
            hubs.ending.insert(view.id);
        }
        let new = || Arc::new(Hub::new(view, path.clone(), streams.clone()));
        let hub = hubs.all.entry(view.id).or_insert_with(new);
        loop {
            // Under the registry's lock, so that nobody forgets the hub meanwhile.
            if let Some(reader) = hub.join() {
                return (Arc::clone(hub), reader);
            }
            // The readers of one that is broken end by themselves.
            *hub = new();
        }
    }

    /// Forgets a hub that nobody needs.
    pub fn tidy(&self, id: StreamId) {
        let mut hubs = self.lock();
        if hubs.all.get(&id).is_some_and(|hub| hub.is_idle()) {
            hubs.all.remove(&id);
            hubs.ending.remove(&id);
        }
    }

    /// Gives the hubs whose streams have to be used again, so that they do not end while they are
    /// followed, and those whose streams have ended.
    pub fn due(&self, wall: Duration) -> Vec<Arc<Hub>> {
        let hubs = self.lock();
        let ending = hubs.ending.iter().filter_map(|id| hubs.all.get(id));
        ending.filter(|hub| hub.is_due(wall)).map(Arc::clone).collect()
    }

    /// Wakes the readers of hubs whose news nobody has looked at since the last call.
    pub fn nudge(&self) {
        let woken: Vec<Waiting> = self.lock().all.values().flat_map(|hub| hub.overdue()).collect();
        relay::wake(woken);
    }

    /// Number of hubs.
    pub fn len(&self) -> usize {
        self.lock().all.len()
    }

    fn lock(&self) -> MutexGuard<'_, Hubs> {
        self.hubs.lock().expect("nobody panics while holding the registry of hubs")
    }
}
