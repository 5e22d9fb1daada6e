//! A subscription in memory, behind its lock.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};

use super::budget::Budget;
use super::glob::Glob;
use super::journal::Journal;
use super::refusal::Refusal;
use super::state::{Sizes, Subscription};
use crate::error::Problem;
use crate::path::StreamPath;

/// A subscription and where it is kept.
#[derive(Debug)]
pub(super) struct Entry {
    pub id: String,
    pub glob: Option<Glob>,
    held: Mutex<Held>,
    budget: Arc<Budget>,
}

#[derive(Debug)]
pub(super) struct Held {
    pub subscription: Subscription,
    pub journal: Journal,
    pub standing: Standing,
    pub is_deleted: bool,
    /// It does nothing by itself before that, milliseconds since 1970.
    pub rests_until_ms: u64,
    /// Streams that were looked at while it was not as it is kept, since it was last begun to be
    /// read or made.
    pub missed: BTreeSet<StreamPath>,
    /// Links that there were when all of them were last looked at.
    pub links_then: usize,
    /// What the budget knows of.
    counted: Sizes,
}

/// How far what is in memory is what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is.
    Kept,
    /// It is being made.
    Begun,
    /// What has changed could not be written: it has to be read again before it counts.
    Stale,
}

/// A subscription whose lock is held; what its links take is counted when it is given back.
#[derive(Debug)]
pub(super) struct Guard<'a> {
    held: MutexGuard<'a, Held>,
    budget: &'a Budget,
}

impl Entry {
    /// Takes a subscription.
    pub fn new(
        subscription: Subscription,
        journal: Journal,
        standing: Standing,
        budget: &Arc<Budget>,
    ) -> Self {
        let (id, glob) = (subscription.id.clone(), subscription.config.glob());
        let held = Held {
            links_then: subscription.links.len(),
            subscription,
            journal,
            standing,
            is_deleted: false,
            rests_until_ms: 0,
            missed: BTreeSet::new(),
            counted: Sizes::default(),
        };
        let entry = Self { id, glob, held: Mutex::new(held), budget: Arc::clone(budget) };
        drop(entry.lock());
        entry
    }

    /// Whether the pattern matches a name.
    pub fn matches(&self, name: &str) -> bool {
        let path = StreamPath::relative(name).ok();
        self.glob.as_ref().zip(path).is_some_and(|(glob, path)| glob.matches(&path))
    }

    /// Whether a subscription of this entry follows a stream, and does not write it itself.
    pub fn follows(&self, subscription: &Subscription, name: &str) -> bool {
        let is_followed = subscription.names(name) || self.matches(name);
        is_followed && !subscription.is_wake_stream(name)
    }

    /// Takes the lock.
    pub fn lock(&self) -> Guard<'_> {
        let held = self.held.lock().expect("nobody panics while holding a subscription");
        Guard { held, budget: &self.budget }
    }
}

/// Entries are the same when they are one.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let counted = self.lock().counted;
        self.budget.count(counted, Sizes::default());
    }
}

impl Held {
    /// Counts what was reserved of the budget: what is not used of it is given back with the lock.
    pub fn count_reserved(&mut self, bytes: u64) {
        self.counted.kept += bytes;
    }

    /// Whether the subscription is there, and as it is kept.
    ///
    /// # Errors
    /// [`Refusal::NotFound`], [`Problem::Busy`].
    pub fn check(&self) -> Result<(), Refusal> {
        let why = match self.standing {
            _ if self.is_deleted => return Err(Refusal::NotFound),
            Standing::Kept => return Ok(()),
            Standing::Begun => "the subscription is being made",
            Standing::Stale => "a change of the subscription could not be written",
        };
        Err(Problem::Busy(why.to_owned().into()).into())
    }
}

impl Deref for Guard<'_> {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Held {
        &mut self.held
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let (before, now) = (self.held.counted, self.held.subscription.sizes);
        if before != now {
            self.budget.count(before, now);
            self.held.counted = now;
        }
    }
}
