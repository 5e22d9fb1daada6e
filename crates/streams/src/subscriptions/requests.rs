//! Requests about subscriptions: each is durable when its answer is given.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_log::error::{Full, LogError, Rejection};
use serde_json::Value;

use super::config::{Config, bad};
use super::entry::{Entry, Standing};
use super::hub::Subscriptions;
use super::journal::{Journal, Staged};
use super::keys::Claims;
use super::machine::{Turn, WakeRef};
use super::page::Page;
use super::refusal::Refusal;
use super::state::{Event, Subscription, bytes_of_named};
use super::wire;
use crate::error::{Outcome, Problem};

/// How long a token means something, seconds; a wake that is over fences it earlier.
const TOKEN_LIFE_S: u64 = 7 * 24 * 3600;
/// Longest id, bytes.
const MOST_ID: usize = 256;

/// Reads the names of streams that [`Subscriptions::add_streams`] is asked to follow.
///
/// # Errors
/// [`Refusal::BadRequest`].
pub fn named_streams(body: &[u8]) -> Result<Vec<String>, Refusal> {
    wire::streams(body)
}

impl Subscriptions {
    /// Reads what [`Subscriptions::put`] is asked for.
    ///
    /// # Errors
    /// [`Refusal::BadRequest`], [`Refusal::UrlRejected`].
    pub fn config(&self, body: &[u8]) -> Result<Config, Refusal> {
        Config::parse(body, self.settings.policy)
    }

    /// Makes a subscription, or confirms that it is there: body of the answer, and whether it is
    /// new. `root` is the URL of the stream root as the client used it. Looks at all names, so it
    /// is for a thread that serves nobody, when [`Subscriptions::settle_streams`] is done.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn put(
        &self,
        id: &str,
        config: Config,
        root: &str,
    ) -> Result<(Value, bool), Refusal> {
        if id.is_empty() || id.len() > MOST_ID || id.contains('/') {
            return Err(bad("an id has 1 to 256 bytes and no slash"));
        }
        if let Some(staged) = self.confirm(id, &config, root)? {
            staged.await.map_err(Problem::from)?;
            return Ok((self.get(id, root, &Page::default())?, false));
        }
        self.make(id, config, root)?.await.map_err(Problem::from)?;
        Ok((self.get(id, root, &Page::default())?, true))
    }

    /// Whether there is a subscription of this id, and not only begun: then [`Subscriptions::put`]
    /// makes none.
    pub fn is_there(&self, id: &str) -> bool {
        self.entry(id).is_ok_and(|entry| entry.lock().standing != Standing::Begun)
    }

    /// Deletes a subscription: what is under way for it fails from now on. Not to be dropped before
    /// it is done: until then its id is taken, and names nothing.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], and what the log gives.
    pub async fn delete(&self, id: &str) -> Result<(), Refusal> {
        let entry = self.entry(id)?;
        let names = {
            let mut held = entry.lock();
            if held.is_deleted {
                return Err(Refusal::NotFound);
            }
            if held.standing == Standing::Begun {
                held.check()?;
            }
            held.is_deleted = true;
            held.journal.names()
        };
        for name in names {
            if let Err(problem) = self.delete_journal(&name).await {
                self.keep(&entry);
                return Err(problem.into());
            }
        }
        self.forget(&entry);
        Ok(())
    }

    /// Keeps what could not be deleted. Whatever was under way has passed it over meanwhile, so it
    /// is read again, and nobody is at work for it then.
    pub(super) fn keep(&self, entry: &Entry) {
        let mut held = entry.lock();
        held.is_deleted = false;
        held.standing = Standing::Stale;
        self.lock().stale.insert(entry.id.clone());
        self.look_again(entry.id.clone(), self.now_ms());
    }

    /// Follows streams by name, from their tails on.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn add_streams(&self, id: &str, names: &[String]) -> Result<(), Refusal> {
        self.settle_streams().await;
        self.settle_acknowledged().await;
        let entry = self.entry(id)?;
        let decide = |entry: &Entry, subscription: &mut Subscription, turn: &mut Turn| {
            let events: Vec<Event> =
                names.iter().map(|name| self.link_by_name(entry, subscription, name)).collect();
            let new = names.iter().filter(|name| !subscription.names(name));
            let more = new.map(|name| bytes_of_named(name)).sum();
            self.reserve(more)?;
            turn.room_bytes = more;
            for event in events {
                subscription.apply(&event);
                turn.events.push(event);
            }
            for name in names {
                self.observe(subscription, name);
            }
            Ok(())
        };
        {
            // It hears of them before they are looked at.
            let mut index = self.index();
            for name in names {
                index.add_name(&entry, name);
            }
        }
        let changed = self.stage_change(id, &entry, decide);
        self.forget_names(&entry, names);
        if let ((), Some(staged)) = changed? {
            staged.await.map_err(Problem::from)?;
        }
        Ok(())
    }

    /// Takes those names out of the index that a subscription does not have.
    fn forget_names(&self, entry: &Arc<Entry>, names: &[String]) {
        let held = entry.lock();
        let mut index = self.index();
        for name in names.iter().filter(|name| held.is_deleted || !held.subscription.names(name)) {
            index.remove_name(entry, name);
        }
    }

    /// Follows a stream no more by name; it may be followed by pattern still.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn remove_stream(&self, id: &str, path: &str) -> Result<(), Refusal> {
        let name = super::config::name(path)?;
        self.change(id, |entry, subscription, turn| {
            let Some(link) = subscription.links.get(&*name).filter(|link| link.is_explicit) else {
                return Ok(());
            };
            let event = if entry.matches(&name) {
                Event::Linked {
                    path: name.clone(),
                    stream: link.stream.map(|stream| stream.0),
                    acked: link.acked.0,
                    explicit: false,
                    glob: true,
                }
            } else {
                Event::Unlinked { path: name.clone() }
            };
            subscription.apply(&event);
            turn.events.push(event);
            Ok(())
        })
        .await?;
        if let Ok(entry) = self.entry(id) {
            self.forget_names(&entry, &[name]);
        }
        Ok(())
    }

    /// Says whether there is a subscription of this id.
    ///
    /// # Errors
    /// [`Refusal::NotFound`].
    pub fn check_there(&self, id: &str) -> Result<(), Refusal> {
        self.entry(id).map(drop)
    }

    /// Says whether a callback, an ack or a release with this token can mean anything, before it is
    /// read: whether it was given out for a wake, whichever, of a subscription of this id, also of
    /// one that is gone.
    ///
    /// # Errors
    /// [`Refusal::Unauthorized`].
    pub fn check_given_out(&self, id: &str, token: Option<&str>) -> Result<(), Refusal> {
        self.claims_of(id, token).map(drop)
    }

    /// Takes a callback of a webhook's receiver, or an ack of a worker: gives whether another wake
    /// follows.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn ack(&self, id: &str, token: Option<&str>, body: &[u8]) -> Result<bool, Refusal> {
        self.entry(id)?;
        let report = wire::report(body)?;
        self.settle_acknowledged().await;
        self.change(id, |entry, subscription, turn| {
            self.check_token(subscription, token, &report.wake)?;
            let mut added = Vec::new();
            for (path, _) in &report.acks {
                let is_known = subscription.links.contains_key(&**path);
                self.observe_named(entry, subscription, path);
                added.extend((!is_known).then_some(path));
            }
            let more = subscription.bytes_of_new(&report.acks);
            if self.budget.reserve(more) {
                turn.room_bytes = more;
            }
            let answer = subscription.ack(&report.wake, &report.acks, report.progress, turn);
            // What got no cursor takes the room of what waits, or is looked for.
            for path in added {
                subscription.drop_implied(path);
            }
            for (path, _) in &report.acks {
                let has_link = subscription.links.contains_key(&**path);
                if subscription.implies(path) || !has_link && entry.follows(subscription, path) {
                    self.observe(subscription, path);
                }
            }
            answer
        })
        .await
    }

    /// Gives the wake under way to a worker: body of the answer.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn claim(&self, id: &str, body: &[u8]) -> Result<Value, Refusal> {
        self.entry(id)?;
        let worker = wire::worker(body)?;
        self.settle_acknowledged().await;
        self.change(id, |_, subscription, turn| {
            subscription.claim(&worker, turn)?;
            let wake = subscription.wake().expect("a claim has a wake");
            Ok(serde_json::json!({
                "wake_id": wake.wake_id,
                "generation": wake.generation,
                "token": self.token(subscription),
                "streams": wire::wake_streams(subscription, &wire::tails(subscription)),
                "lease_ttl_ms": subscription.config.lease_ttl_ms,
            }))
        })
        .await
    }

    /// Takes a wake back from a worker that does not work on it.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn release(&self, id: &str, token: Option<&str>, body: &[u8]) -> Result<(), Refusal> {
        self.entry(id)?;
        let report = wire::report(body)?;
        self.settle_acknowledged().await;
        self.change(id, |_, subscription, turn| {
            self.check_token(subscription, token, &report.wake)?;
            subscription.release(&report.wake, turn)
        })
        .await
    }

    /// Makes the token of the wake under way.
    pub(super) fn token(&self, subscription: &Subscription) -> String {
        self.keys().token(&Claims {
            sub: subscription.id.clone(),
            inc: subscription.incarnation,
            generation: subscription.generation,
            exp: self.now_s() + TOKEN_LIFE_S,
        })
    }

    fn check_token(
        &self,
        subscription: &Subscription,
        token: Option<&str>,
        wake: &WakeRef,
    ) -> Result<(), Refusal> {
        let claims = self.claims_of(&subscription.id, token)?;
        let is_current = claims.inc == subscription.incarnation
            && claims.generation == subscription.generation
            && claims.generation == wake.generation;
        if is_current { Ok(()) } else { Err(Refusal::Fenced) }
    }

    fn claims_of(&self, id: &str, token: Option<&str>) -> Result<Claims, Refusal> {
        let token = token.ok_or(Refusal::Unauthorized)?;
        let claims = self.keys().claims(token, self.now_s());
        claims.filter(|claims| claims.sub == id).ok_or(Refusal::Unauthorized)
    }

    async fn delete_journal(&self, name: &str) -> Outcome<()> {
        match self.streams.log.delete(name) {
            Ok(ticket) => Ok(ticket.await?),
            Err(LogError::Rejected(Rejection::NotFound)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Confirms a subscription, where there is one.
    fn confirm(&self, id: &str, config: &Config, root: &str) -> Result<Option<Staged>, Refusal> {
        let Ok(entry) = self.entry(id) else { return Ok(None) };
        let ((), staged) = self.stage_change(id, &entry, |_, subscription, turn| {
            if subscription.config != *config {
                return Err(Refusal::Exists);
            }
            // Also when nothing changes: it is durable only behind what made it.
            let event = Event::Root { root: root.to_owned() };
            subscription.apply(&event);
            turn.events.push(event);
            Ok(())
        })?;
        Ok(staged)
    }

    fn make(&self, id: &str, config: Config, root: &str) -> Result<Staged, Refusal> {
        let created = Event::Created {
            id: id.to_owned(),
            incarnation: self.new_turn().random,
            created_ms: self.now_ms(),
            root: root.to_owned(),
            config,
        };
        let mut subscription = Subscription::replay(&[created, Event::Complete])
            .expect("what is created and complete is a subscription");
        let entry = self.take_place(&subscription)?;
        let linked = self.link_all(&entry, &mut subscription);
        let kept = subscription.sizes.kept;
        let made = linked.and_then(|()| self.reserve(kept)).and_then(|()| {
            let created = Journal::create(&self.streams.log, &subscription);
            Ok(created.inspect_err(|_| self.budget.give_back(kept))?)
        });
        let (journal, staged) = match made {
            Ok(made) => made,
            Err(refusal) => {
                entry.lock().is_deleted = true;
                self.forget(&entry);
                return Err(refusal);
            }
        };
        let mut held = entry.lock();
        held.count_reserved(kept);
        held.links_then = subscription.links.len();
        (held.subscription, held.journal, held.standing) = (subscription, journal, Standing::Kept);
        for path in std::mem::take(&mut held.missed) {
            self.observe_where_followed(&entry, &mut held.subscription, path.as_str());
        }
        self.schedule(id, &held);
        Ok(staged)
    }

    /// Takes a place for a subscription, which hears of appends from here on.
    fn take_place(&self, subscription: &Subscription) -> Result<Arc<Entry>, Refusal> {
        let (id, journal) = (&subscription.id, Journal::unwritten(&subscription.id));
        let entry = Entry::new(subscription.clone(), journal, Standing::Begun, &self.budget);
        let entry = Arc::new(entry);
        let mut inner = self.lock();
        if inner.entries.contains_key(id) {
            return Err(Problem::Busy("the subscription is being made".to_owned().into()).into());
        }
        if inner.entries.len() >= self.settings.limits.subscriptions {
            let limit = self.settings.limits.subscriptions;
            let why = format!("{limit} subscriptions are the limit");
            return Err(Problem::Full(Full::of_all(why)).into());
        }
        inner.entries.insert(id.clone(), Arc::clone(&entry));
        self.count.store(inner.entries.len(), Ordering::Release);
        drop(inner);
        let mut index = self.index();
        index.add(&entry);
        for name in &subscription.config.streams {
            index.add_name(&entry, name);
        }
        Ok(entry)
    }
}
