//! Tells somebody of what changes: once it is durable, and also when whoever asked for it has gone.

use std::sync::{Arc, OnceLock, Weak};

use highwater_log::ids::Offset;

use super::Streams;
use crate::path::StreamPath;

/// Somebody who wants to know of changes.
pub trait Observer: std::fmt::Debug + Send + Sync {
    /// Hears that a stream may have changed. Quick, and calls nothing back.
    fn noted(&self, path: &StreamPath, expected: Expected);
}

/// What can be seen of a stream that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Whatever it is.
    Anything,
    /// A tail from here on: it may not be visible yet where more is promised than is durable.
    Tail(Offset),
    /// Something more, perhaps, sooner or later: nobody waited for it.
    Later,
}

/// The observer, where there is one.
pub(super) type Place = Arc<OnceLock<Weak<dyn Observer>>>;

/// A change under way: tells of it when it is dropped.
pub(super) struct Note<'a> {
    streams: &'a Streams,
    path: &'a StreamPath,
    expected: Option<Expected>,
}

impl Streams {
    /// Tells an observer of every change from now on; there can be one.
    pub fn observe(&self, observer: &Arc<dyn Observer>) {
        // The first one stays.
        self.observer.set(Arc::downgrade(observer)).ok();
    }

    /// Notes that a change is staged.
    pub(super) fn note<'a>(&'a self, path: &'a StreamPath) -> Note<'a> {
        Note { streams: self, path, expected: Some(Expected::Later) }
    }
}

impl Note<'_> {
    /// The change is done, and this can be seen.
    pub fn done(mut self, expected: Expected) {
        self.expected = Some(expected);
    }

    /// There is no change.
    pub fn cancel(mut self) {
        self.expected = None;
    }
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        if let Some(expected) = self.expected
            && let Some(observer) = self.streams.observer.get().and_then(Weak::upgrade)
        {
            observer.noted(self.path, expected);
        }
    }
}
