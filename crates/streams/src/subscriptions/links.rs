//! Which streams subscriptions follow, and what is seen of those.

use highwater_log::ids::Offset;

use super::glob::Glob;
use super::hub::{Entry, Held, Subscriptions};
use super::refusal::Refusal;
use super::state::{Event, Seen, Subscription};
use super::wire;
use crate::error::Problem;
use crate::path::StreamPath;

/// Fewer links than this are not worth a look.
const LEAST_SWEPT: usize = 64;

impl Subscriptions {
    /// Links what a new subscription follows: each stream at its tail.
    pub(super) fn link_all(&self, subscription: &mut Subscription) -> Result<(), Refusal> {
        let glob = subscription.config.glob();
        let names = glob.as_ref().map_or_else(Vec::new, |glob| self.matching(glob));
        if names.len() > self.settings.limits.links {
            let limit = self.settings.limits.links;
            let why = format!("the pattern matches {} streams, {limit} at most", names.len());
            return Err(Problem::Full(why).into());
        }
        for (path, explicit) in names
            .into_iter()
            .map(|name| (name, false))
            .chain(subscription.config.streams.clone().into_iter().map(|name| (name, true)))
        {
            if subscription.is_wake_stream(&path) {
                continue;
            }
            let seen = self.seen(&path);
            let is_known = subscription.links.contains_key(&path);
            subscription.apply(&Event::Linked {
                stream: seen.map(|seen| seen.stream.0),
                acked: seen.map_or(0, |seen| seen.tail.0),
                explicit,
                glob: !explicit || is_known,
                path,
            });
        }
        Ok(())
    }

    pub(super) fn link_by_name(
        &self,
        entry: &Entry,
        subscription: &Subscription,
        name: &str,
    ) -> Event {
        let (stream, acked) = if let Some(link) = subscription.links.get(name) {
            (link.stream.map(|stream| stream.0), link.acked.0)
        } else {
            let seen = self.seen(name);
            (seen.map(|seen| seen.stream.0), seen.map_or(0, |seen| seen.tail.0))
        };
        let (path, glob) = (name.to_owned(), entry.matches(name));
        Event::Linked { path, stream, acked, explicit: true, glob }
    }

    /// Looks at every stream that a subscription follows.
    pub(super) fn observe_all(&self, entry: &Entry, subscription: &mut Subscription) {
        let mut names: Vec<String> = subscription.links.keys().cloned().collect();
        if let Some(glob) = &entry.glob {
            names.extend(self.matching(glob));
        }
        for name in names {
            if !subscription.is_wake_stream(&name) {
                self.observe(subscription, &name);
            }
        }
    }

    /// Looks at what is pending, as far as one wake goes: a stream may be gone by now.
    pub(super) fn observe_pending(&self, subscription: &mut Subscription) {
        for (name, _) in wire::tails(subscription) {
            self.observe(subscription, &name);
        }
    }

    /// Drops links to streams that are gone, whenever there are twice as many as there were: nobody
    /// tells when a stream's time is over.
    pub(super) fn sweep(&self, held: &mut Held) {
        if held.subscription.links.len() < 2 * held.links_then + LEAST_SWEPT {
            return;
        }
        let names: Vec<String> = held.subscription.links.keys().cloned().collect();
        for name in names {
            self.observe(&mut held.subscription, &name);
        }
        held.links_then = held.subscription.links.len();
    }

    pub(super) fn observe(&self, subscription: &mut Subscription, name: &str) {
        subscription.observe(name, self.seen(name));
    }

    fn matching(&self, glob: &Glob) -> Vec<String> {
        let mut names = self.streams.log.list(&glob.prefix(), None, usize::MAX);
        names.retain(|name| StreamPath::relative(name).is_ok_and(|path| glob.matches(&path)));
        names
    }

    fn seen(&self, name: &str) -> Option<Seen> {
        let info = self.streams.log.info(name)?;
        let own_start = info.fork.map_or(Offset(0), |fork| fork.offset);
        Some(Seen { stream: info.id, own_start, tail: info.tail })
    }
}
