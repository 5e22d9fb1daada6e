//! Finds the hub of a stream: there is one as long as anybody follows it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use highwater_log::ids::StreamId;

use super::hub::{Hub, ReaderId};
use super::relay::{self, Waiting};
use crate::path::StreamPath;
use crate::service::Streams;

/// Hubs by stream. Each holds the streams, and so its registry, as long as it has readers.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    hubs: Mutex<HashMap<StreamId, Arc<Hub>>>,
}

impl Registry {
    /// Joins the hub of a stream, making one if there is none; gives the new reader's number there.
    pub fn join(&self, streams: &Streams, id: StreamId, path: &StreamPath) -> (Arc<Hub>, ReaderId) {
        let mut hubs = self.lock();
        let new = || Arc::new(Hub::new(id, path.clone(), streams.clone()));
        let hub = hubs.entry(id).or_insert_with(new);
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
        if hubs.get(&id).is_some_and(|hub| hub.is_idle()) {
            hubs.remove(&id);
        }
    }

    /// Wakes the readers of hubs whose news nobody has looked at since the last call.
    pub fn nudge(&self) {
        let woken: Vec<Waiting> = self.lock().values().flat_map(|hub| hub.overdue()).collect();
        relay::wake(woken);
    }

    /// Number of hubs.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, Arc<Hub>>> {
        self.hubs.lock().expect("nobody panics while holding the registry of hubs")
    }
}
