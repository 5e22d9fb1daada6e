//! A subscription: what it follows, how far it is acknowledged, and the wake under way. It is what
//! its events make of it; `machine` decides which events come next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use highwater_log::ids::{Offset, StreamId};
use serde::{Deserialize, Serialize};

use super::config::Config;

/// A subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Its name.
    pub id: String,
    /// Tells it from others that had its name before.
    pub incarnation: u64,
    /// When it was made, milliseconds since 1970.
    pub created_ms: u64,
    /// The stream root's URL, as its client used it.
    pub root: String,
    /// What it was asked as.
    pub config: Config,
    /// Streams it follows, by name; of those that the pattern matches and of which nothing is
    /// acknowledged only some that are pending. The others are what their streams say.
    pub links: BTreeMap<Arc<str>, Link>,
    /// Counts wakes.
    pub generation: u64,
    /// The wake under way.
    pub phase: Phase,
    /// Streams that have more than is acknowledged. Not kept: it is seen again.
    pub pending: BTreeSet<Arc<str>>,
    /// Whether streams that match may be pending and are in no link. Not kept.
    pub has_more: bool,
    /// Whether they are being looked for. Not kept.
    pub is_searched: bool,
    /// Memory that its links take.
    pub sizes: Sizes,
    /// Whether somebody is delivering or announcing. Not kept: nobody is after a restart.
    pub flight: Flight,
}

/// How far somebody is with telling a wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flight {
    /// Nobody is.
    Grounded,
    /// Somebody has taken it as a task.
    Taken,
    /// Its webhook is being sent.
    Sent,
}

/// A stream that a subscription follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The stream; absent while there is none of this name.
    pub stream: Option<StreamId>,
    /// Everything before this is done with.
    pub acked: Offset,
    /// Whether it was named.
    pub is_explicit: bool,
    /// Whether the pattern matches it.
    pub is_glob: bool,
    /// Whether the pattern and the stream say all of it: then it is not kept.
    pub is_implied: bool,
    /// Its tail as it was last seen. Not kept.
    pub tail: Offset,
}

/// Memory of links, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Of those that are kept: cursors.
    pub kept: u64,
    /// Of those that are implied, and pending.
    pub implied: u64,
}

/// Whether there is room for another link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// There is.
    Free,
    /// There is none but for what cannot be done without.
    Full,
}

/// Streams that one wake has at most, and that wait for one in memory; others are looked for.
pub const MOST_STREAMS_OF_A_WAKE: usize = 1000;
/// Memory of a link without its name, about: what 218 000 of them took, measured.
const LINK_BYTES: u64 = 320;

/// What is known of a stream at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The stream.
    pub stream: StreamId,
    /// First byte that is its own.
    pub own_start: Offset,
    /// Its tail.
    pub tail: Offset,
}

/// Where a wake is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "name", deny_unknown_fields)]
pub enum Phase {
    /// There is none.
    Idle,
    /// A webhook is on its way.
    Delivering {
        /// The wake.
        wake_id: String,
        /// Failed attempts before.
        attempt: u32,
        /// End of the lease, milliseconds since 1970.
        until_ms: u64,
    },
    /// A webhook failed and is sent again.
    Retrying {
        /// The wake.
        wake_id: String,
        /// Failed attempts.
        attempt: u32,
        /// When, milliseconds since 1970.
        next_ms: u64,
    },
    /// A worker is to claim it.
    Waiting {
        /// The wake.
        wake_id: String,
        /// When the wake event is to be written; absent once it is.
        announce_ms: Option<u64>,
        /// Failed attempts to write it.
        attempt: u32,
    },
    /// Somebody works on it.
    Leased {
        /// The wake.
        wake_id: String,
        /// The worker that claimed it; a webhook's receiver has no name.
        holder: Option<String>,
        /// End of the lease, milliseconds since 1970.
        until_ms: u64,
    },
}

/// What happened to a subscription: one line in its journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event", deny_unknown_fields)]
pub enum Event {
    /// It was made.
    Created {
        /// Its name.
        id: String,
        /// Tells it from others of that name.
        incarnation: u64,
        /// When, milliseconds since 1970.
        created_ms: u64,
        /// The stream root's URL.
        root: String,
        /// What it was asked as.
        config: Config,
    },
    /// It was confirmed, by another URL perhaps.
    Root {
        /// The stream root's URL.
        root: String,
    },
    /// It follows a stream, in this way.
    Linked {
        /// The stream's name.
        path: String,
        /// Its number.
        stream: Option<u64>,
        /// Everything before this is done with.
        acked: u64,
        /// Whether it was named.
        explicit: bool,
        /// Whether the pattern matches it.
        glob: bool,
    },
    /// It follows a stream no more.
    Unlinked {
        /// The stream's name.
        path: String,
    },
    /// Part of a stream is done with.
    Acked {
        /// The stream's name.
        path: String,
        /// Its number.
        stream: u64,
        /// Everything before this.
        acked: u64,
    },
    /// A wake begins, goes on or ends.
    Wake {
        /// Its generation.
        generation: u64,
        /// Where it is.
        phase: Phase,
    },
    /// Everything before is complete: what was written anew is whole.
    Complete,
    /// What follows happened at once: it counts when its end is there. One that begins again
    /// before that drops what it has: it could not be written whole.
    Begin,
    /// What has followed the last beginning counts.
    End,
}

impl Phase {
    /// Gives the wake's id.
    pub fn wake_id(&self) -> Option<&str> {
        match self {
            Self::Idle => None,
            Self::Delivering { wake_id, .. }
            | Self::Retrying { wake_id, .. }
            | Self::Waiting { wake_id, .. }
            | Self::Leased { wake_id, .. } => Some(wake_id),
        }
    }
}

impl Subscription {
    /// Rebuilds a subscription from its journal; none where that is not complete.
    pub fn replay(events: &[Event]) -> Option<Self> {
        let (first, rest) = events.split_first()?;
        let Event::Created { id, incarnation, created_ms, root, config } = first else {
            return None;
        };
        let mut subscription = Self {
            id: id.clone(),
            incarnation: *incarnation,
            created_ms: *created_ms,
            root: root.clone(),
            config: config.clone(),
            links: BTreeMap::new(),
            generation: 0,
            phase: Phase::Idle,
            pending: BTreeSet::new(),
            has_more: false,
            is_searched: false,
            sizes: Sizes::default(),
            flight: Flight::Grounded,
        };
        let mut begun: Option<Vec<&Event>> = None;
        for event in rest {
            match (event, &mut begun) {
                (Event::Begin, _) => begun = Some(Vec::new()),
                (Event::End, _) => {
                    begun.take().into_iter().flatten().for_each(|event| subscription.apply(event));
                }
                (event, Some(begun)) => begun.push(event),
                (event, None) => subscription.apply(event),
            }
        }
        rest.contains(&Event::Complete).then_some(subscription)
    }

    /// Gives events that make this subscription of nothing.
    pub fn snapshot(&self) -> Vec<Event> {
        let mut events = vec![Event::Created {
            id: self.id.clone(),
            incarnation: self.incarnation,
            created_ms: self.created_ms,
            root: self.root.clone(),
            config: self.config.clone(),
        }];
        let kept = self.links.iter().filter(|(_, link)| !link.is_implied);
        events.extend(kept.map(|(path, link)| Event::Linked {
            path: path.to_string(),
            stream: link.stream.map(|stream| stream.0),
            acked: link.acked.0,
            explicit: link.is_explicit,
            glob: link.is_glob,
        }));
        events.push(Event::Wake { generation: self.generation, phase: self.phase.clone() });
        events.push(Event::Complete);
        events
    }

    /// Takes an event in.
    pub fn apply(&mut self, event: &Event) {
        match event {
            // One is the first, and only that; the others say what counts.
            Event::Created { .. } | Event::Complete | Event::Begin | Event::End => {}
            Event::Root { root } => self.root.clone_from(root),
            Event::Linked { path, stream, acked, explicit, glob } => {
                let acked = Offset(*acked);
                let tail = self.links.get(&**path).map_or(acked, |link| link.tail);
                let stream = stream.map(StreamId);
                let (is_explicit, is_glob, is_implied) = (*explicit, *glob, false);
                let link = Link { stream, acked, is_explicit, is_glob, is_implied, tail };
                self.set(path, Some(link));
            }
            Event::Unlinked { path } => self.set(path, None),
            Event::Acked { path, stream, acked } => {
                let (stream, acked) = (Some(StreamId(*stream)), Offset(*acked));
                let link = self.links.get(&**path).copied();
                let link = link.unwrap_or(Link { tail: acked, ..Link::matched(stream, acked) });
                self.set(path, Some(Link { stream, acked, is_implied: false, ..link }));
            }
            Event::Wake { generation, phase } => {
                self.generation = *generation;
                self.phase = phase.clone();
                self.flight = Flight::Grounded;
            }
        }
    }

    /// Takes in what is known of a stream of a name that it follows. A stream that was made anew is
    /// followed from its start; one that matches and was not there when the subscription was made
    /// is, too: what wakes comes behind its link. Where there is no room for that link, it is known
    /// that there is more.
    pub fn observe(&mut self, path: &str, seen: Option<Seen>, room: Room) {
        let known = self.links.get(path).copied();
        let Some(seen) = seen else {
            let named = known.filter(|link| link.is_explicit);
            let nothing = Offset(0);
            let named =
                named.map(|link| Link { stream: None, acked: nothing, tail: nothing, ..link });
            return self.set(path, named);
        };
        let start = Link::matched(Some(seen.stream), seen.own_start);
        let mut link = match known {
            Some(link) if link.stream == Some(seen.stream) => link,
            Some(Link { is_explicit, is_glob, .. }) => Link { is_explicit, is_glob, ..start },
            None if seen.tail > seen.own_start && !self.takes_more(room) => {
                self.has_more = true;
                return;
            }
            None => start,
        };
        link.tail = seen.tail;
        // A log that promises less than durability can have lost what was acknowledged.
        link.acked = link.acked.min(seen.tail);
        link.is_implied = !link.is_explicit && link.acked == seen.own_start;
        let says_nothing = link.is_implied && link.tail == link.acked;
        self.set(path, Some(link).filter(|_| !says_nothing));
    }

    /// Takes in what is known of a stream that somebody speaks of, whatever room there is.
    pub fn observe_named(&mut self, path: &str, seen: Option<Seen>) {
        self.observe(path, seen, Room::Free);
        if let Some(seen) = seen.filter(|_| !self.links.contains_key(path)) {
            self.set(path, Some(Link::implied(seen)));
        }
    }

    /// Whether it was told to follow a stream by name.
    pub fn names(&self, path: &str) -> bool {
        self.links.get(path).is_some_and(|link| link.is_explicit)
    }

    /// Whether a link is here that says only what its stream does.
    pub fn implies(&self, path: &str) -> bool {
        self.links.get(path).is_some_and(|link| link.is_implied)
    }

    /// Drops a link that says only what its stream does.
    pub fn drop_implied(&mut self, path: &str) {
        if self.implies(path) {
            self.set(path, None);
        }
    }

    /// Gives the memory of the cursors that acknowledgements of implied links make, bytes.
    pub fn bytes_of_new(&self, acks: &[(String, Offset)]) -> u64 {
        let moves = |(path, offset): &&(String, Offset)| {
            let link = self.links.get(&**path).filter(|link| link.is_implied);
            link.is_some_and(|link| *offset > link.acked && *offset <= link.tail)
        };
        acks.iter().filter(moves).map(|(path, _)| bytes_of_matched(path)).sum()
    }

    /// Whether nothing would change if a stream is looked at: it is to be looked for anyway.
    pub fn knows_of_more_than(&self, path: &str) -> bool {
        self.has_more && !self.pending.is_empty() && !self.links.contains_key(path)
    }

    /// Whether there may be a pending stream, and none is known.
    pub fn looks_for_more(&self) -> bool {
        (self.has_more || self.is_searched) && self.pending.is_empty()
    }

    /// Whether somebody is to look for one.
    pub fn is_to_be_searched(&self) -> bool {
        self.has_more && !self.is_searched && self.pending.is_empty()
    }

    /// Whether another link may be added that is implied; a first one is always.
    fn takes_more(&self, room: Room) -> bool {
        let is_free = room == Room::Free && self.pending.len() < MOST_STREAMS_OF_A_WAKE;
        is_free || self.pending.is_empty()
    }

    /// Puts a link in its place, and keeps count.
    fn set(&mut self, path: &str, link: Option<Link>) {
        let old = self.links.get_key_value(path).map(|(name, link)| (Arc::clone(name), *link));
        let name = old.as_ref().map(|(name, _)| Arc::clone(name));
        if let Some((_, old)) = old {
            *self.size_of(&old) -= bytes_of(path, &old);
        }
        let Some(link) = link else {
            self.links.remove(path);
            self.pending.remove(path);
            return;
        };
        *self.size_of(&link) += bytes_of(path, &link);
        let name = name.unwrap_or_else(|| path.into());
        if link.tail > link.acked {
            self.pending.insert(Arc::clone(&name));
        } else {
            self.pending.remove(path);
        }
        self.links.insert(name, link);
    }

    fn size_of(&mut self, link: &Link) -> &mut u64 {
        if link.is_implied { &mut self.sizes.implied } else { &mut self.sizes.kept }
    }
}

impl Link {
    /// Follows a stream of which nothing is acknowledged.
    pub fn implied(seen: Seen) -> Self {
        let link = Self::matched(Some(seen.stream), seen.own_start);
        Self { is_implied: true, tail: seen.tail, ..link }
    }

    /// Follows a stream that the pattern matches, from a place on.
    fn matched(stream: Option<StreamId>, acked: Offset) -> Self {
        let (is_explicit, is_glob, is_implied, tail) = (false, true, false, acked);
        Self { stream, acked, is_explicit, is_glob, is_implied, tail }
    }
}

/// Memory of a link that was named, bytes, about: it is looked up by its name, too.
pub fn bytes_of_named(path: &str) -> u64 {
    2 * bytes_of_matched(path)
}

fn bytes_of_matched(path: &str) -> u64 {
    LINK_BYTES + u64::try_from(path.len()).expect("lengths have 64 bits at most")
}

fn bytes_of(path: &str, link: &Link) -> u64 {
    if link.is_explicit { bytes_of_named(path) } else { bytes_of_matched(path) }
}

#[cfg(test)]
#[path = "state_tests.rs"]
pub(super) mod tests;
