//! All subscriptions of a store: holds them, hears of appends, and knows what is due.
//!
//! Appends are only noted; what they mean is found out in turns ([`Subscriptions::turn`]), or when
//! a request asks. Every change is durable before anybody is told of it. A subscription's lock is
//! held for decisions and staging, never while something is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use super::glob::Glob;
use super::journal::{Journal, Staged};
use super::keys::{Entropy, Keys};
use super::machine::Turn;
use super::notes::Notes;
use super::refusal::Refusal;
use super::state::{Phase, Subscription};
use super::url_policy::UrlPolicy;
use crate::error::{Outcome, Problem};
use crate::path::StreamPath;
use crate::service::{Expected, Observer, Streams};

/// How long a subscription that could not be written is left alone, milliseconds.
pub(super) const PAUSE_MS: u64 = 1000;

/// Bounds of what clients can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriptionLimits {
    /// Subscriptions. Default 10 000.
    pub subscriptions: usize,
    /// Streams that one subscription follows when it is made, and names at most. Default 100 000.
    pub links: usize,
}

impl Default for SubscriptionLimits {
    fn default() -> Self {
        Self { subscriptions: 10_000, links: 100_000 }
    }
}

/// Settings of subscriptions.
#[derive(Debug)]
pub struct Settings {
    /// The store's keys.
    pub keys: Keys,
    /// Secret randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Where webhooks may be sent.
    pub policy: UrlPolicy,
    /// Bounds.
    pub limits: SubscriptionLimits,
}

/// The subscriptions of a store.
#[derive(Debug)]
pub struct Subscriptions {
    pub(super) streams: Streams,
    pub(super) settings: Settings,
    inner: Mutex<Inner>,
    bell: Mutex<Bell>,
    /// Number of subscriptions: without any, appends are not noted.
    pub(super) count: AtomicUsize,
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    pub entries: BTreeMap<String, Arc<Entry>>,
    /// When which subscription is to be looked at, milliseconds since 1970.
    pub due: BTreeMap<String, u64>,
    /// Those that are not as they are kept.
    pub stale: BTreeSet<String>,
}

/// What appends ring: apart from the rest, so that they wait for nothing.
#[derive(Debug, Default)]
pub(super) struct Bell {
    pub notes: Notes,
    driver: Option<Waker>,
    pub has_news: bool,
}

/// A subscription and where it is kept.
#[derive(Debug)]
pub(super) struct Entry {
    pub glob: Option<Glob>,
    held: Mutex<Held>,
}

#[derive(Debug)]
pub(super) struct Held {
    pub subscription: Subscription,
    pub journal: Journal,
    pub is_deleted: bool,
    /// What has changed could not be written: it has to be read again before it counts.
    pub is_stale: bool,
    /// It does nothing by itself before that, milliseconds since 1970.
    pub rests_until_ms: u64,
    /// Streams that were looked at while it was stale, since it was last begun to be read.
    pub missed: BTreeSet<StreamPath>,
    /// Links that there were when all of them were last looked at.
    pub links_then: usize,
}

impl Subscriptions {
    /// Opens the subscriptions of a store: what was on its way when it was closed is taken up
    /// again.
    ///
    /// # Errors
    /// What the log gives, and [`Problem::Damaged`].
    pub fn open(streams: Streams, settings: Settings) -> Outcome<Arc<Self>> {
        let loaded = Journal::load_all(&streams.log)?;
        let count = AtomicUsize::new(loaded.len());
        let (inner, bell) = (Mutex::default(), Mutex::default());
        let this = Arc::new(Self { streams, settings, inner, bell, count });
        for (journal, subscription) in loaded {
            let id = subscription.id.clone();
            let entry = Entry::new(subscription, journal);
            {
                let mut held = entry.lock();
                this.observe_all(&entry, &mut held.subscription);
                let mut turn = this.new_turn();
                held.subscription.resume(&mut turn);
                let Held { subscription, journal, .. } = &mut *held;
                if !turn.events.is_empty() {
                    // A restart that is cut off comes to the same when it is done again.
                    drop(journal.stage(&this.streams.log, subscription, &turn.events)?);
                }
            }
            this.lock().due.insert(id.clone(), 0);
            this.lock().entries.insert(id, Arc::new(entry));
        }
        let observer: Arc<dyn Observer> = Arc::<Self>::clone(&this);
        this.streams.observe(&observer);
        Ok(this)
    }

    /// When there is something to do, milliseconds since 1970; nothing while nothing happens.
    pub fn due_ms(&self) -> Option<u64> {
        let late_ms = {
            let bell = self.bell();
            if bell.has_news {
                return Some(0);
            }
            bell.notes.due_ms()
        };
        self.lock().due.values().copied().chain(late_ms).min()
    }

    /// Is done when [`Subscriptions::due_ms`] may have become earlier.
    pub async fn changed(&self) {
        std::future::poll_fn(|context| {
            let mut bell = self.bell();
            if bell.has_news {
                return Poll::Ready(());
            }
            bell.driver = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Changes a subscription, and is done when the change is durable.
    pub(super) async fn change<T>(
        &self,
        id: &str,
        decide: impl FnOnce(&Entry, &mut Subscription, &mut Turn) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let entry = self.entry(id)?;
        let (answer, staged) = self.stage_change(id, &entry, decide)?;
        if let Some(staged) = staged {
            staged.await.map_err(Problem::from)?;
        }
        Ok(answer)
    }

    /// Changes a subscription in memory and stages the change.
    pub(super) fn stage_change<T>(
        &self,
        id: &str,
        entry: &Entry,
        decide: impl FnOnce(&Entry, &mut Subscription, &mut Turn) -> Result<T, Refusal>,
    ) -> Result<(T, Option<Staged>), Refusal> {
        let mut turn = self.new_turn();
        let mut held = entry.lock();
        held.check()?;
        let Held { subscription, journal, .. } = &mut *held;
        let answer = decide(entry, subscription, &mut turn)?;
        let mut staged = None;
        if !turn.events.is_empty() {
            match journal.stage(&self.streams.log, subscription, &turn.events) {
                Ok(ticket) => {
                    staged = ticket;
                    held.rests_until_ms = 0;
                }
                Err(problem) => {
                    // What is not written has not happened.
                    held.is_stale = true;
                    held.rests_until_ms = turn.now_ms + PAUSE_MS;
                    self.lock().stale.insert(id.to_owned());
                    self.look_again(id.to_owned(), held.rests_until_ms);
                    return Err(problem.into());
                }
            }
        }
        self.schedule(id, &held);
        Ok((answer, staged))
    }

    /// Takes the ids of those that are to be looked at now.
    pub(super) fn take_due(&self) -> Vec<(String, Arc<Entry>)> {
        let now_ms = self.now_ms();
        let mut inner = self.lock();
        let due: Vec<String> = inner
            .due
            .iter()
            .filter(|(_, due_ms)| **due_ms <= now_ms)
            .map(|(id, _)| id.clone())
            .collect();
        let mut taken = Vec::new();
        for id in due {
            inner.due.remove(&id);
            if let Some(entry) = inner.entries.get(&id).cloned() {
                taken.push((id, entry));
            }
        }
        taken
    }

    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.streams.clock.wall().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn new_turn(&self) -> Turn {
        use base64::Engine as _;
        let mut bytes = [0; 24];
        self.settings.entropy.fill(&mut bytes);
        let (id, random) = bytes.split_at(16);
        let id = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(id);
        let random = random.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Turn { now_ms: self.now_ms(), wake_id: format!("w_{id}"), random, events: Vec::new() }
    }

    /// Notes when a subscription is to be looked at. One that is deleted has nothing to note: its
    /// name may be another one's by now.
    pub(super) fn schedule(&self, id: &str, held: &Held) {
        if held.is_deleted {
            return;
        }
        let subscription = &held.subscription;
        let wakes_now = subscription.phase == Phase::Idle && !subscription.pending.is_empty()
            || matches!(subscription.phase, Phase::Delivering { .. }) && !subscription.in_flight;
        let due_ms = if wakes_now { Some(0) } else { subscription.due_ms() };
        let mut inner = self.lock();
        match due_ms {
            Some(due_ms) => {
                inner.due.insert(id.to_owned(), due_ms.max(held.rests_until_ms));
            }
            None => {
                inner.due.remove(id);
            }
        }
        drop(inner);
        self.bell().ring();
    }

    /// Notes that a subscription is to be looked at later.
    pub(super) fn look_again(&self, id: String, at_ms: u64) {
        self.lock().due.insert(id, at_ms);
        self.bell().ring();
    }

    pub(super) fn entry(&self, id: &str) -> Result<Arc<Entry>, Refusal> {
        self.lock().entries.get(id).cloned().ok_or(Refusal::NotFound)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics while holding the subscriptions")
    }

    pub(super) fn bell(&self) -> MutexGuard<'_, Bell> {
        self.bell.lock().expect("nobody panics while holding the notes")
    }
}

impl Observer for Subscriptions {
    fn noted(&self, path: &StreamPath, expected: Expected) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut bell = self.bell();
            bell.notes.add(path, expected);
            bell.ring();
        }
    }
}

impl Bell {
    /// Wakes whoever drives.
    fn ring(&mut self) {
        self.has_news = true;
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

impl Held {
    /// Whether the subscription is there, and as it is kept.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], [`Problem::Busy`].
    pub fn check(&self) -> Result<(), Refusal> {
        if self.is_deleted {
            return Err(Refusal::NotFound);
        }
        if self.is_stale {
            let why = "a change of the subscription could not be written".to_owned();
            return Err(Problem::Busy(why).into());
        }
        Ok(())
    }
}

impl Entry {
    pub(super) fn new(subscription: Subscription, journal: Journal) -> Self {
        let (glob, links_then) = (subscription.config.glob(), subscription.links.len());
        let held = Held {
            subscription,
            journal,
            is_deleted: false,
            is_stale: false,
            rests_until_ms: 0,
            missed: BTreeSet::new(),
            links_then,
        };
        Self { glob, held: Mutex::new(held) }
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let path = StreamPath::relative(name).ok();
        self.glob.as_ref().zip(path).is_some_and(|(glob, path)| glob.matches(&path))
    }

    /// Whether a subscription of this entry follows a stream, and does not write it itself.
    pub(super) fn follows(&self, subscription: &Subscription, path: &StreamPath) -> bool {
        let is_followed = self.glob.as_ref().is_some_and(|glob| glob.matches(path))
            || subscription.links.contains_key(path.as_str());
        is_followed && !subscription.is_wake_stream(path.as_str())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("nobody panics while holding a subscription")
    }
}
