//! All subscriptions of a store: holds them, hears of appends, and knows what is due.
//!
//! Appends are only noted; what they mean is found out in turns ([`Subscriptions::turn`]), or when
//! a request asks. Every change is durable before anybody is told of it. A subscription's lock is
//! held for decisions and staging, never while something is waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

use highwater_log::request::Walk;

use super::budget::Budget;
use super::config::LEASES_MS;
use super::entry::{Entry, Held, Standing};
use super::index::{Index, named};
use super::journal::{Journal, Staged};
use super::keys::{Entropy, Keys};
use super::machine::Turn;
use super::moment;
use super::notes::Notes;
use super::refusal::Refusal;
use super::state::{Flight, Phase, Sizes, Subscription};
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
    /// Memory for cursors of all subscriptions together, bytes, about; a quarter as much is beside
    /// it for streams that wait for a wake. Default 256 MiB.
    pub links_bytes: u64,
}

impl Default for SubscriptionLimits {
    fn default() -> Self {
        Self { subscriptions: 10_000, links_bytes: 256 << 20 }
    }
}

/// Settings of subscriptions.
#[derive(Debug)]
pub struct Settings {
    /// The store's keys, as they are when it is opened.
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
    pub(super) keys: Mutex<Arc<Keys>>,
    /// Whether somebody makes another key.
    pub(super) rotating: AtomicBool,
    pub(super) budget: Arc<Budget>,
    inner: Mutex<Inner>,
    index: Mutex<Index>,
    bell: Mutex<Bell>,
    /// Where the last search ended.
    pub(super) searched: Mutex<Walk>,
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
    /// Those for which pending streams are to be looked for.
    pub searching: BTreeSet<String>,
    /// Those whose links are to be looked at.
    pub sweeping: BTreeSet<String>,
}

/// What appends ring: apart from the rest, so that they wait for nothing.
#[derive(Debug, Default)]
pub(super) struct Bell {
    pub notes: Notes,
    driver: Option<Waker>,
    pub has_news: bool,
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
        let budget = Arc::new(Budget::new(settings.limits.links_bytes));
        let (inner, bell, index) = (Mutex::default(), Mutex::default(), Mutex::default());
        let searched = Mutex::default();
        let keys = Mutex::new(Arc::new(settings.keys.clone()));
        let rotating = AtomicBool::new(false);
        let this = Arc::new(Self {
            streams,
            settings,
            keys,
            rotating,
            budget,
            inner,
            index,
            bell,
            searched,
            count,
        });
        for (journal, subscription) in loaded {
            let id = subscription.id.clone();
            let entry = Entry::new(subscription, journal, Standing::Kept, &this.budget);
            {
                let mut held = entry.lock();
                this.observe_links(&mut held.subscription);
                // Streams that match are looked for when nothing else is pending.
                held.subscription.has_more = entry.glob.is_some();
                let mut turn = this.new_turn();
                held.subscription.resume(&mut turn);
                let Held { subscription, journal, .. } = &mut *held;
                if !turn.events.is_empty() {
                    // A restart that is cut off comes to the same when it is done again.
                    drop(journal.stage(&this.streams.log, subscription, &turn.events)?);
                }
            }
            this.schedule(&id, &entry.lock());
            let entry = Arc::new(entry);
            this.enlist(&entry);
            let mut inner = this.lock();
            inner.due.insert(id.clone(), 0);
            inner.entries.insert(id, entry);
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
        let first_ms = self.lock().due.values().copied().chain(late_ms).min()?;
        let is_misplaced = moment::is_misplaced(first_ms, self.now_ms(), *LEASES_MS.end());
        Some(if is_misplaced { 0 } else { first_ms })
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
        let answer = decide(entry, &mut held.subscription, &mut turn);
        held.count_reserved(turn.room_bytes);
        let answer = answer?;
        let Held { subscription, journal, .. } = &mut *held;
        let mut staged = None;
        if !turn.events.is_empty() {
            match journal.stage(&self.streams.log, subscription, &turn.events) {
                Ok(ticket) => {
                    staged = ticket;
                    held.rests_until_ms = 0;
                }
                Err(problem) => {
                    // What is not written has not happened.
                    held.standing = Standing::Stale;
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
            .filter(|(_, due_ms)| moment::has_come(**due_ms, now_ms, *LEASES_MS.end()))
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

    pub(super) fn now_s(&self) -> u64 {
        self.now_ms() / 1000
    }

    pub(super) fn new_turn(&self) -> Turn {
        use base64::Engine as _;
        let mut bytes = [0; 24];
        self.settings.entropy.fill(&mut bytes);
        let (id, random) = bytes.split_at(16);
        let id = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(id);
        let random = random.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (now_ms, wake_id) = (self.now_ms(), format!("w_{id}"));
        Turn { now_ms, wake_id, random, room_bytes: 0, events: Vec::new() }
    }

    /// Notes when a subscription is to be looked at. One that is deleted has nothing to note: its
    /// name may be another one's by now.
    pub(super) fn schedule(&self, id: &str, held: &Held) {
        if held.is_deleted {
            return;
        }
        let subscription = &held.subscription;
        let wakes = match &subscription.phase {
            Phase::Idle => !subscription.pending.is_empty(),
            Phase::Delivering { .. } => true,
            _ => false,
        };
        let wakes_now = wakes && subscription.flight == Flight::Grounded;
        let due_ms = if wakes_now { Some(0) } else { subscription.due_ms() };
        let mut inner = self.lock();
        if subscription.is_to_be_searched() {
            inner.searching.insert(id.to_owned());
        }
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

    /// Lets it be found by what it follows.
    pub(super) fn enlist(&self, entry: &Arc<Entry>) {
        let held = entry.lock();
        let mut index = self.index();
        index.add(entry);
        for name in named(&held.subscription) {
            index.add_name(entry, name);
        }
    }

    /// Forgets a subscription.
    pub(super) fn forget(&self, entry: &Arc<Entry>) {
        {
            let held = entry.lock();
            let mut index = self.index();
            index.remove(entry);
            let asked_for = held.subscription.config.streams.iter().map(String::as_str);
            for name in named(&held.subscription).chain(asked_for) {
                index.remove_name(entry, name);
            }
        }
        let mut inner = self.lock();
        let id = &entry.id;
        inner.entries.remove(id);
        inner.due.remove(id);
        inner.stale.remove(id);
        inner.searching.remove(id);
        inner.sweeping.remove(id);
        self.count.store(inner.entries.len(), Ordering::Release);
    }

    /// Number of subscriptions.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory of all links.
    pub fn sizes(&self) -> Sizes {
        self.budget.sizes()
    }

    pub(super) fn entry(&self, id: &str) -> Result<Arc<Entry>, Refusal> {
        self.lock().entries.get(id).cloned().ok_or(Refusal::NotFound)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics while holding the subscriptions")
    }

    /// Gives the keys in use.
    pub(super) fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.lock().expect("nobody panics while the keys are exchanged"))
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().expect("nobody panics while holding the index")
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
    pub fn ring(&mut self) {
        self.has_news = true;
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}
