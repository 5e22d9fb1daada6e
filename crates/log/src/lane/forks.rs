//! Forks: streams that begin as another's prefix. The source may live in another lane.
//!
//! A source counts its forks in memory; the count is taken anew when the log is opened. A source
//! with forks is never deleted, only hidden; when its last fork is durably gone it follows. So a
//! fork that is there always finds its source (I8).

use std::sync::Arc;

use super::commit::Ticket;
use super::streams::NewStream;
use super::{Lane, State};
use crate::error::{LogError, LogResult, Rejection};
use crate::ids::StreamId;
use crate::request::{Created, Fork};
use crate::table::SlotNo;
use crate::table::rare::Parent;
use crate::table::slot::{Flags, Slot};

impl Lane {
    /// Counts one fork more of a source, and says what it forks: nobody deletes the source from now
    /// on.
    ///
    /// # Errors
    /// [`Rejection::NotFound`], [`Rejection::SourceDeleted`], [`Rejection::BeyondTail`].
    pub(crate) fn reserve_fork(&self, request: &Fork<'_>) -> LogResult<Parent> {
        let mut state = self.lock();
        let at = match self.visible(&state, request.source) {
            Err(Rejection::SoftDeleted) => return Err(Rejection::SourceDeleted.into()),
            found => found?,
        };
        let slot = state.table.slot(at);
        let (stream, tail) = (slot.id, slot.durable);
        if request.source_id.is_some_and(|id| id != stream) {
            return Err(Rejection::NotFound.into());
        }
        let offset = request.offset.unwrap_or(tail);
        if offset > tail {
            return Err(Rejection::BeyondTail { offset, tail }.into());
        }
        state.table.rare_mut(at).forks += 1;
        Ok(Parent { stream, offset })
    }

    /// Puts what another lane's fork reads behind a barrier.
    ///
    /// # Errors
    /// The disk's, and final.
    pub(crate) fn sync_shared(&self) -> LogResult<()> {
        if planted!(self.options, ForkUnsynced) { Ok(()) } else { self.sync_segments() }
    }

    /// Makes a fork of what was reserved.
    ///
    /// # Errors
    /// As creating a stream.
    pub(crate) fn create_fork(
        self: &Arc<Self>,
        request: &Fork<'_>,
        parent: Parent,
    ) -> LogResult<Ticket<Created>> {
        let new = NewStream {
            name: request.name,
            config: request.config,
            payload: request.payload,
            end: request.end,
            parent: Some(parent),
        };
        let mut state = self.lock();
        if let Some(at) = self.living(&mut state, request.name)? {
            let is_same = |other: Option<Parent>| {
                other.is_some_and(|other| {
                    other.stream == parent.stream
                        // Without an offset the tail was meant, which may have moved on.
                        && (request.offset.is_none() || other.offset == parent.offset)
                })
            };
            return self.existing(&state, at, &new, is_same);
        }
        self.make(&mut state, &new)
    }

    /// Counts one fork less of a source; the last one takes a hidden source with it, now or as
    /// soon as that can be logged.
    pub(crate) fn release_fork(&self, source: StreamId) {
        let mut state = self.lock();
        let Some(at) = state.table.by_id(source) else { return };
        let rare = state.table.rare_mut(at);
        // Once for each fork: a count that is too low loses what another fork reads.
        rare.forks = rare.forks.checked_sub(1).expect("I8: a fork is counted before it is gone");
        if is_unread(&state, at) && !planted!(self.options, UnreadForgotten) {
            state.unread.push(source);
        }
        drop(state);
        self.end_unread();
    }

    /// Deletes hidden sources that nobody forks any more; those that cannot be deleted now (the
    /// log is full, say) wait for the next occasion.
    pub(crate) fn end_unread(&self) {
        let mut state = self.lock();
        let before = state.unread.len();
        while let Some(source) = state.unread.last().copied() {
            if let Some(at) = state.table.by_id(source)
                && self.stage_end(&mut state, at).is_err()
            {
                break;
            }
            state.unread.pop();
        }
        let has_ended_some = state.unread.len() < before;
        let woken = std::mem::take(&mut state.ended);
        drop(state);
        woken.into_iter().for_each(super::Waiter::wake);
        if has_ended_some {
            self.kick();
        }
    }

    /// Takes the sources whose fork is durably gone.
    pub(crate) fn take_released(&self) -> Vec<StreamId> {
        std::mem::take(&mut self.lock().released)
    }

    /// Gives sources back that could not be released now.
    pub(crate) fn return_released(&self, sources: Vec<StreamId>) {
        self.lock().released.extend(sources);
    }

    /// Lists the sources of this lane's streams: once for each fork.
    pub(crate) fn sources(&self) -> Vec<StreamId> {
        let state = self.lock();
        let parent = |(at, _): (SlotNo, &Slot)| state.table.rare(at)?.parent;
        state.table.iter().filter_map(parent).map(|parent| parent.stream).collect()
    }

    /// Counts a fork that was found when the log was opened.
    ///
    /// # Errors
    /// When its source is not there: the log is damaged.
    pub(crate) fn count_fork(&self, source: StreamId) -> Result<(), LogError> {
        let mut state = self.lock();
        let at = state.table.by_id(source).ok_or(Rejection::SourceDeleted)?;
        state.table.rare_mut(at).forks += 1;
        Ok(())
    }

    /// Ends hidden sources whose last fork went while the log was closing, once all forks are
    /// counted.
    pub(crate) fn end_all_unread(&self) {
        let mut state = self.lock();
        let unread = |(at, slot): (SlotNo, &Slot)| is_unread(&state, at).then_some(slot.id);
        let all: Vec<StreamId> = state.table.iter().filter_map(unread).collect();
        state.unread = all;
        drop(state);
        self.end_unread();
    }
}

/// Whether a stream is hidden, and nobody forks it.
fn is_unread(state: &State, at: SlotNo) -> bool {
    let has_forks = state.table.rare(at).is_some_and(|rare| rare.forks > 0);
    state.table.slot(at).flags.has(Flags::SOFT_DELETED) && !has_forks
}
