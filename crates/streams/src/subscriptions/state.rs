//! A subscription: what it follows, how far it is acknowledged, and the wake under way. It is what
//! its events make of it; `machine` decides which events come next.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Streams it follows, by name.
    pub links: BTreeMap<String, Link>,
    /// Counts wakes.
    pub generation: u64,
    /// The wake under way.
    pub phase: Phase,
    /// Streams that have more than is acknowledged. Not kept: it is seen again.
    pub pending: BTreeSet<String>,
    /// Whether somebody is delivering or announcing. Not kept: nobody is after a restart.
    pub in_flight: bool,
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
    /// Its tail as it was last seen. Not kept.
    pub tail: Offset,
}

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
            in_flight: false,
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
        events.extend(self.links.iter().map(|(path, link)| Event::Linked {
            path: path.clone(),
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
                let tail = self.links.get(path).map_or(Offset(*acked), |link| link.tail);
                let link = Link {
                    stream: stream.map(StreamId),
                    acked: Offset(*acked),
                    is_explicit: *explicit,
                    is_glob: *glob,
                    tail,
                };
                self.links.insert(path.clone(), link);
                self.update_pending(path);
            }
            Event::Unlinked { path } => {
                self.links.remove(path);
                self.pending.remove(path);
            }
            Event::Acked { path, stream, acked } => {
                let (stream, acked) = (StreamId(*stream), Offset(*acked));
                let link = self.links.entry(path.clone()).or_insert(Link {
                    stream: None,
                    acked,
                    is_explicit: false,
                    is_glob: true,
                    tail: acked,
                });
                (link.stream, link.acked) = (Some(stream), acked);
                self.update_pending(path);
            }
            Event::Wake { generation, phase } => {
                self.generation = *generation;
                self.phase = phase.clone();
                self.in_flight = false;
            }
        }
    }

    /// Takes in what is known of a stream of a name that it follows. A stream that was made anew is
    /// followed from its start; one that matches and was not there when the subscription was made
    /// is, too: what wakes comes behind its link.
    pub fn observe(&mut self, path: &str, seen: Option<Seen>) {
        match seen {
            Some(seen) => {
                let link = self.links.entry(path.to_owned()).or_insert(Link {
                    stream: Some(seen.stream),
                    acked: seen.own_start,
                    is_explicit: false,
                    is_glob: true,
                    tail: seen.tail,
                });
                if link.stream != Some(seen.stream) {
                    (link.stream, link.acked) = (Some(seen.stream), seen.own_start);
                }
                link.tail = seen.tail;
                // A log that promises less than durability can have lost what was acknowledged.
                link.acked = link.acked.min(seen.tail);
            }
            None => match self.links.get_mut(path) {
                Some(link) if link.is_explicit => {
                    (link.stream, link.acked, link.tail) = (None, Offset(0), Offset(0));
                }
                Some(_) => drop(self.links.remove(path)),
                None => {}
            },
        }
        self.update_pending(path);
    }

    fn update_pending(&mut self, path: &str) {
        if self.links.get(path).is_some_and(|link| link.tail > link.acked) {
            self.pending.insert(path.to_owned());
        } else {
            self.pending.remove(path);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::subscriptions::config::Delivery;

    pub fn subscription(delivery: Delivery) -> Subscription {
        let config = Config {
            delivery,
            pattern: Some("events/*".to_owned()),
            streams: Vec::new(),
            lease_ttl_ms: 1000,
            description: None,
        };
        let created = Event::Created {
            id: "s".to_owned(),
            incarnation: 7,
            created_ms: 1,
            root: "http://here/v1/stream".to_owned(),
            config,
        };
        Subscription::replay(&[created, Event::Complete]).unwrap()
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is given to what takes an option")]
    pub fn seen(stream: u64, tail: u64) -> Option<Seen> {
        Some(Seen { stream: StreamId(stream), own_start: Offset(0), tail: Offset(tail) })
    }

    fn webhook() -> Subscription {
        subscription(Delivery::Webhook { url: "https://worker.example/".to_owned() })
    }

    /// Point 49.
    #[test]
    fn a_stream_that_comes_later_is_followed_from_its_own_start() {
        let mut subscription = webhook();
        subscription.observe("events/a", seen(1, 5));
        let fork = Seen { stream: StreamId(2), own_start: Offset(9), tail: Offset(9) };
        subscription.observe("events/f", Some(fork));
        assert_eq!(subscription.links["events/a"].acked, Offset(0));
        assert_eq!(subscription.pending.iter().collect::<Vec<_>>(), ["events/a"]);
        subscription.observe("events/f", Some(Seen { tail: Offset(12), ..fork }));
        assert!(subscription.pending.contains("events/f"));
    }

    /// Point 49.
    #[test]
    fn a_stream_that_is_made_anew_is_followed_anew_and_a_gone_one_is_not() {
        let mut subscription = webhook();
        subscription.observe("events/a", seen(1, 50));
        let acked = Event::Acked { path: "events/a".to_owned(), stream: 1, acked: 50 };
        subscription.apply(&acked);
        assert!(subscription.pending.is_empty());
        subscription.observe("events/a", seen(2, 3));
        assert!(subscription.pending.contains("events/a"), "3 bytes of another stream");
        subscription.observe("events/a", None);
        assert!(subscription.links.is_empty() && subscription.pending.is_empty());
        let named = Event::Linked {
            path: "x".to_owned(),
            stream: None,
            acked: 0,
            explicit: true,
            glob: false,
        };
        subscription.apply(&named);
        subscription.observe("x", seen(3, 9));
        subscription.observe("x", None);
        assert_eq!(subscription.links["x"].acked, Offset(0), "what was named stays named");
    }

    /// Point 54.
    #[test]
    fn a_snapshot_makes_the_same_subscription_and_a_torn_one_makes_none() {
        let mut subscription = webhook();
        subscription.observe("events/a", seen(1, 50));
        for event in [
            Event::Acked { path: "events/a".to_owned(), stream: 1, acked: 20 },
            Event::Linked {
                path: "x".to_owned(),
                stream: None,
                acked: 0,
                explicit: true,
                glob: false,
            },
            Event::Wake {
                generation: 9,
                phase: Phase::Retrying { wake_id: "w".to_owned(), attempt: 3, next_ms: 77 },
            },
            Event::Root { root: "https://there".to_owned() },
        ] {
            subscription.apply(&event);
        }
        let events = subscription.snapshot();
        let lines: Vec<String> =
            events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
        let read: Vec<Event> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut again = Subscription::replay(&read).unwrap();
        again.observe("events/a", seen(1, 50));
        assert_eq!(again, subscription);
        assert_eq!(Subscription::replay(&read[..read.len() - 1]), None);
        assert_eq!(Subscription::replay(&read[1..]), None);
        assert_eq!(Subscription::replay(&[]), None);
    }

    /// Point 54.
    #[test]
    fn what_happened_at_once_counts_whole_or_not_at_all() {
        let before = webhook();
        let acked = |path: &str| Event::Acked { path: path.to_owned(), stream: 1, acked: 5 };
        let paths = |events: &[Event]| {
            let all = [before.snapshot().as_slice(), events].concat();
            let subscription = Subscription::replay(&all).unwrap();
            subscription.links.into_keys().collect::<Vec<_>>()
        };
        let (begin, end) = (Event::Begin, Event::End);
        assert_eq!(paths(&[begin.clone(), acked("a"), acked("b"), end.clone()]), ["a", "b"]);
        assert!(paths(&[begin.clone(), acked("a"), acked("b")]).is_empty());
        let again = [begin.clone(), acked("a"), begin, acked("c"), end.clone(), acked("d")];
        assert_eq!(paths(&again), ["c", "d"], "the first was given up");
        assert_eq!(paths(&[end, acked("a")]), ["a"]);
    }
}
