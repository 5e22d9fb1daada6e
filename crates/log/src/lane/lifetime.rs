//! Who is there: names that mean a stream, streams whose time is over, and what becomes of them.

use std::cmp::Reverse;
use std::sync::Arc;

use super::segment::to_u64;
use super::{Lane, State, Waiter, Wanted};
use crate::error::{LogResult, Rejection};
use crate::format::{Expiry, Extensions, NewRecord, RecordKind};
use crate::request::Config;
use crate::table::SlotNo;
use crate::table::slot::Flags;

/// A use is logged when it is later than the last logged one by this share of the time to live.
const TOUCH_SHARE: u64 = 8;
/// And by so much at least, ms.
const TOUCH_LEAST_MS: u64 = 1000;
/// Entries of streams that are gone may stay among so many.
const EXPIRIES_KEPT: u64 = 1024;
/// Streams that one step ends.
const EXPIRED_PER_STEP: usize = 1000;

impl Lane {
    /// Finds a stream that requests may change; one whose time is over is ended first, and its
    /// name is free again. Its watchers are woken with the next commit.
    pub(super) fn living(&self, state: &mut State, name: &str) -> LogResult<Option<SlotNo>> {
        let Some(at) = state.table.by_name(name) else { return Ok(None) };
        if state.table.slot(at).flags.has(Flags::SOFT_DELETED) {
            return Err(Rejection::SoftDeleted.into());
        }
        if !self.is_expired(state, at) {
            return Ok(Some(at));
        }
        let is_kept = state.table.rare(at).is_some_and(|rare| rare.forks > 0);
        self.stage_end(state, at)?;
        // Whatever becomes of the request, somebody has to commit this.
        state.wanted = Wanted::Yes;
        self.work.notify_one();
        if is_kept { Err(Rejection::SoftDeleted.into()) } else { Ok(None) }
    }

    /// Finds a stream that readers may see.
    ///
    /// # Errors
    /// [`Rejection::NotFound`], [`Rejection::SoftDeleted`].
    pub(super) fn visible(&self, state: &State, name: &str) -> Result<SlotNo, Rejection> {
        let at = state.table.by_name(name).ok_or(Rejection::NotFound)?;
        let flags = state.table.slot(at).flags;
        if !flags.has(Flags::VISIBLE) {
            return Err(Rejection::NotFound);
        }
        if flags.has(Flags::SOFT_DELETED) {
            return Err(Rejection::SoftDeleted);
        }
        if !self.is_expired(state, at) {
            return Ok(at);
        }
        // The same before and after its end is logged.
        let is_kept = state.table.rare(at).is_some_and(|rare| rare.forks > 0);
        Err(if is_kept { Rejection::SoftDeleted } else { Rejection::NotFound })
    }

    /// When a stream's time is over, ms since 1970.
    fn ends_at(state: &State, at: SlotNo) -> Option<u64> {
        match state.table.config(at).expiry? {
            Expiry::Absolute { at_ms } => Some(at_ms),
            Expiry::Sliding { ttl_ms } => {
                let touched_ms = state.table.rare(at).map_or(0, |rare| rare.touched_ms);
                Some(touched_ms.saturating_add(ttl_ms))
            }
        }
    }

    pub(super) fn is_expired(&self, state: &State, at: SlotNo) -> bool {
        Self::ends_at(state, at).is_some_and(|ends_ms| ends_ms <= self.now_ms())
    }

    /// What a record says of when it used a stream, where that matters. The frame's time will not
    /// do: it is sealed later, and replay must not give a stream more time than it had for readers.
    pub(super) fn use_of(&self, config: &Config) -> Option<u64> {
        matches!(config.expiry, Some(Expiry::Sliding { .. })).then(|| self.now_ms())
    }

    pub(super) fn schedule_expiry(state: &mut State, at: SlotNo) {
        if let Some(ends_ms) = Self::ends_at(state, at) {
            let id = state.table.slot(at).id;
            state.expiries.push(Reverse((ends_ms, at, id)));
        }
        // I11: streams that are deleted before their time leave theirs behind.
        if to_u64(state.expiries.len()) > EXPIRIES_KEPT.max(2 * state.table.len()) {
            let (table, expiries) = (&state.table, &mut state.expiries);
            expiries.retain(|Reverse((_, at, id))| table.is_at(*at, *id));
        }
    }

    /// Schedules every stream that has an expiry: once, when the lane is opened.
    pub(crate) fn schedule_all(&self) {
        let mut state = self.lock();
        let has_expiry = |at: &SlotNo| state.table.config(*at).expiry.is_some();
        let all: Vec<SlotNo> = state.table.iter().map(|(at, _)| at).filter(has_expiry).collect();
        for at in all {
            Self::schedule_expiry(&mut state, at);
        }
    }

    /// Notes that a stream was used, so that a sliding expiry begins anew. What the log knows of it
    /// lags by an eighth of its time to live: after a crash it may end that much early.
    ///
    /// # Errors
    /// [`Rejection::NotFound`], [`Rejection::SoftDeleted`], and what staging gives.
    pub fn touch(self: &Arc<Self>, name: &str) -> LogResult<()> {
        let mut state = self.lock();
        let at = self.visible(&state, name)?;
        let Some(Expiry::Sliding { ttl_ms }) = state.table.config(at).expiry else {
            return Ok(());
        };
        state.check_healthy()?;
        let now_ms = self.now_ms();
        let rare = state.table.rare_mut(at);
        let lag_ms = now_ms.saturating_sub(rare.logged_touch_ms);
        if lag_ms < (ttl_ms / TOUCH_SHARE).max(TOUCH_LEAST_MS) {
            rare.touched_ms = rare.touched_ms.max(now_ms);
            return Ok(());
        }
        let slot = state.table.slot(at);
        let record = NewRecord {
            kind: RecordKind::Touch,
            closes: false,
            stream: slot.id,
            offset: slot.tail,
            prev: 0,
            extensions: Extensions { touched_ms: Some(now_ms), ..Extensions::default() },
            payload: &[],
            payload_crc: None,
        };
        self.stage(&mut state, &record, Some(at))?;
        drop(state);
        self.kick();
        Ok(())
    }

    /// Has streams ended whose time is over, since somebody lacks the room that they take.
    pub(super) fn end_overdue(&self, state: &State) {
        let now_ms = self.now_ms();
        if state.expiries.peek().is_some_and(|Reverse((ends, ..))| *ends <= now_ms) {
            self.maintenance.ask();
        }
    }

    /// Ends streams whose time is over; gives whether there may be more.
    ///
    /// # Errors
    /// What staging gives.
    pub(crate) fn expire_step(&self) -> LogResult<bool> {
        let mut state = self.lock();
        let now_ms = self.now_ms();
        let mut ended = 0;
        let mut outcome = Ok(());
        while ended < EXPIRED_PER_STEP && outcome.is_ok() {
            let due = state.expiries.peek().filter(|Reverse((ends, ..))| *ends <= now_ms).copied();
            let Some(entry @ Reverse((_, at, id))) = due else { break };
            state.expiries.pop();
            let is_there = state.table.by_id(id) == Some(at);
            if !is_there || state.table.slot(at).flags.has(Flags::SOFT_DELETED) {
                continue;
            }
            if !self.is_expired(&state, at) {
                Self::schedule_expiry(&mut state, at);
                continue;
            }
            match self.stage_end(&mut state, at) {
                Ok(_) => ended += 1,
                Err(error) => {
                    // What cannot be logged now is due at the next step.
                    state.expiries.push(entry);
                    outcome = Err(error);
                }
            }
        }
        let woken = std::mem::take(&mut state.ended);
        drop(state);
        woken.into_iter().for_each(Waiter::wake);
        if ended > 0 {
            self.kick();
        }
        outcome.map(|()| ended == EXPIRED_PER_STEP)
    }
}
