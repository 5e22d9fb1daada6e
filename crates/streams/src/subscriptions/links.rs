//! Which streams subscriptions follow, and what is seen of those.

use highwater_log::error::Full;
use highwater_log::ids::Offset;
use highwater_log::request::Walk;

use super::config::Delivery;
use super::entry::Entry;
use super::hub::Subscriptions;
use super::refusal::Refusal;
use super::state::{Event, Link, Room, Seen, Subscription};
use super::wire;
use crate::error::Problem;
use crate::path::RESERVED;

impl Subscriptions {
    /// Links what a new subscription follows: each stream at its tail. Looks at all names.
    pub(super) fn link_all(&self, entry: &Entry, new: &mut Subscription) -> Result<(), Refusal> {
        for name in new.config.streams.clone() {
            if !new.is_wake_stream(&name) {
                self.link(entry, new, &name)?;
            }
        }
        let Some(glob) = &entry.glob else { return Ok(()) };
        let (prefix, mut walk) = (glob.prefix(), Some(Walk::default()));
        while let Some(at) = walk {
            let (names, next) = self.streams.log.walk(&prefix, at);
            for name in names {
                let is_known = new.links.contains_key(name.as_str());
                if !is_known && entry.follows(new, &name) {
                    self.link(entry, new, &name)?;
                }
            }
            walk = next;
        }
        Ok(())
    }

    /// Links one stream to a new subscription.
    fn link(&self, entry: &Entry, new: &mut Subscription, name: &str) -> Result<(), Refusal> {
        let seen = self.seen(name);
        let explicit = new.config.streams.binary_search_by(|one| (**one).cmp(name)).is_ok();
        new.apply(&Event::Linked {
            path: name.to_owned(),
            stream: seen.map(|seen| seen.stream.0),
            acked: seen.map_or(0, |seen| seen.tail.0),
            explicit,
            glob: entry.matches(name),
        });
        // One that has nothing yet needs no cursor.
        new.observe(name, seen, Room::Free);
        self.check_room(new.sizes.kept)
    }

    /// Says whether there is room for so much more of links.
    ///
    /// # Errors
    /// [`Problem::Full`].
    fn check_room(&self, more: u64) -> Result<(), Refusal> {
        if self.budget.takes(more) { Ok(()) } else { Err(self.full()) }
    }

    /// Takes so much more for links, or nothing.
    ///
    /// # Errors
    /// [`Problem::Full`].
    pub(super) fn reserve(&self, more: u64) -> Result<(), Refusal> {
        if self.budget.reserve(more) { Ok(()) } else { Err(self.full()) }
    }

    fn full(&self) -> Refusal {
        let most = self.settings.limits.links_bytes;
        let why = format!("the streams that subscriptions follow take {most} bytes of memory");
        Problem::Full(Full::of_all(why)).into()
    }

    pub(super) fn link_by_name(
        &self,
        entry: &Entry,
        subscription: &Subscription,
        name: &str,
    ) -> Event {
        let (stream, acked) = match (subscription.links.get(name), self.seen(name)) {
            (Some(link), _) => (link.stream.map(|stream| stream.0), link.acked.0),
            // It is followed already, and nothing of it is acknowledged.
            (None, Some(seen)) if entry.matches(name) => (Some(seen.stream.0), seen.own_start.0),
            (None, seen) => (seen.map(|seen| seen.stream.0), seen.map_or(0, |seen| seen.tail.0)),
        };
        let (path, glob) = (name.to_owned(), entry.matches(name));
        Event::Linked { path, stream, acked, explicit: true, glob }
    }

    /// Looks at every stream to which there is a link.
    pub(super) fn observe_links(&self, subscription: &mut Subscription) {
        let names: Vec<_> = subscription.links.keys().cloned().collect();
        for name in names {
            self.observe(subscription, &name);
        }
    }

    /// Looks at a stream, if a subscription follows it.
    pub(super) fn observe_where_followed(
        &self,
        entry: &Entry,
        subscription: &mut Subscription,
        name: &str,
    ) {
        if entry.follows(subscription, name) {
            self.observe(subscription, name);
        }
    }

    /// Looks at what is pending, as far as one wake goes: a stream may be gone by now.
    pub(super) fn observe_pending(&self, subscription: &mut Subscription) {
        for (name, _) in wire::tails(subscription) {
            self.observe(subscription, &name);
        }
    }

    pub(super) fn observe(&self, subscription: &mut Subscription, name: &str) {
        subscription.observe(name, self.seen(name), self.budget.for_waiting());
    }

    /// Sees to it that what somebody speaks of has a link, if it is followed and has anything.
    pub(super) fn observe_named(&self, entry: &Entry, subscription: &mut Subscription, name: &str) {
        let (has_more, seen) = (subscription.has_more, self.seen(name));
        if entry.follows(subscription, name) {
            subscription.observe_named(name, seen);
        }
        subscription.has_more = has_more;
    }

    /// Gives a link as clients see it; nothing where no stream is followed.
    pub(super) fn shown(&self, subscription: &Subscription, name: &str) -> Option<Link> {
        let known = subscription.links.get(name).copied();
        known.or_else(|| self.seen(name).map(Link::implied))
    }

    pub(super) fn seen(&self, name: &str) -> Option<Seen> {
        let info = self.streams.log.info(name)?;
        let own_start = info.fork.map_or(Offset(0), |fork| fork.offset);
        Some(Seen { stream: info.id, own_start, tail: info.tail })
    }
}

impl Subscription {
    /// Whether a stream is the one that this subscription writes itself.
    pub(super) fn is_wake_stream(&self, path: &str) -> bool {
        matches!(&self.config.delivery,
            Delivery::PullWake { wake_stream } if wake_stream == path)
    }
}

/// Whether a name is the server's own.
pub(super) fn is_reserved(name: &str) -> bool {
    name.split('/').next() == Some(RESERVED)
}
