//! Frames that vouch for those before them and hold nothing of a stream: the start of an epoch, and
//! the witness of a lane that is idle or closed.
//!
//! Every frame says how far the log was durable when it was sealed, so that damage before it can be
//! told from a torn end (I6). Nothing says so of the last frame until another one is behind it. A
//! witness is that other one where no request brings it. It has nothing that could be lost, so
//! nothing vouches for a witness, and a lane writes one for each end at most.

use std::sync::Arc;
use std::time::Duration;

use super::staging::Touched;
use super::waiters::Waiter;
use super::{Claim, Lane, PANICKED, State, Vouched};
use crate::error::{LogError, LogResult};
use crate::format::{Extensions, NewRecord, RecordKind};
use crate::ids::{Offset, StreamId};
use crate::table::SlotNo;

impl Lane {
    /// Stages the record that begins the epoch.
    ///
    /// # Errors
    /// The disk's; where there is no room for another segment, the epoch begins with the next
    /// record.
    pub(crate) fn start_epoch(&self) -> LogResult<()> {
        let mut state = self.lock();
        let is_staged = self.stage_of_no_stream(&mut state, RecordKind::EpochStart)?;
        state.vouched = if is_staged { Vouched::Yes } else { Vouched::No };
        Ok(())
    }

    /// Commits everything and has a witness vouch for it: what an orderly end leaves behind. A log
    /// without room for the witness ends without one.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] when a write or barrier failed, or a thread panicked.
    pub(crate) fn finish(&self) -> LogResult<()> {
        if self.state.lock().is_err() {
            return Err(LogError::Poisoned(PANICKED.to_owned()));
        }
        self.commit_all()?;
        // Where commits have no barrier, the end gets one: an orderly end loses nothing.
        self.sync_segments()?;
        let is_staged = self.stage_witness(&mut self.lock());
        if !is_staged {
            self.wake_left();
            return self.check();
        }
        self.commit_all()?;
        self.sync_segments()
    }

    /// Commits until nothing is staged and nobody is at it.
    fn commit_all(&self) -> LogResult<()> {
        loop {
            let mut state = self.lock();
            state.check_healthy()?;
            if state.is_idle() {
                return Ok(());
            }
            if !state.is_committing {
                drop(state);
                self.commit_step();
                continue;
            }
            let under_way = state.durable;
            let (gate, is_lower) = state.gates.join(under_way);
            if is_lower {
                state.waiters.add(under_way, Waiter::Gate(Arc::clone(&gate)));
            }
            drop(state);
            gate.wait();
        }
    }

    /// Stages a witness if the lane has been idle for long enough; gives whether it did.
    pub(crate) fn stage_due_witness(&self) -> bool {
        let mut state = self.lock();
        if !self.until_witness(&state).is_zero() {
            return false;
        }
        let is_staged = self.stage_witness(&mut state);
        drop(state);
        if !is_staged {
            self.wake_left();
        }
        is_staged
    }

    /// How long it takes at least until a witness is due; nothing where one is.
    pub(super) fn until_witness(&self, state: &State) -> Duration {
        let after = self.options.witness_after;
        if !state.needs_witness() {
            return after;
        }
        let idle = self.clock.monotonic().saturating_sub(state.last_commit);
        after.saturating_sub(idle)
    }

    /// Stages a witness where it has something to vouch for; gives whether it did. An error turns
    /// the lane down, and is told to whoever asks next.
    pub(super) fn stage_witness(&self, state: &mut State) -> bool {
        if !state.needs_witness() {
            return false;
        }
        // Whatever becomes of it: where there is no room, the checkpoint that makes some vouches.
        state.vouched = Vouched::Yes;
        if planted!(self.options, WitnessForgotten) {
            return false;
        }
        self.stage_of_no_stream(state, RecordKind::Witness).is_ok_and(|is_staged| is_staged)
    }

    /// Stages a record that belongs to no stream; gives false where there is no room for it.
    fn stage_of_no_stream(&self, state: &mut State, kind: RecordKind) -> LogResult<bool> {
        let record = NewRecord {
            kind,
            closes: false,
            stream: StreamId::new(self.identity.lane, 0),
            offset: Offset(0),
            prev: 0,
            extensions: Extensions::default(),
            payload: &[],
            payload_crc: None,
        };
        let len = record.encoded_len().expect("a record without anything is small");
        match self.make_room(state, len, Claim::of(kind)) {
            Err(error) if error.is_lack_of_room() => return Ok(false),
            other => other?,
        }
        let touched = Touched {
            slot: SlotNo(u32::MAX),
            id: StreamId(u64::MAX),
            at: state.staging.next_record(),
            tail: Offset(0),
            closes: false,
            deletes: false,
            releases: None,
        };
        state.note_waiting(self.clock.monotonic());
        state.staging.add(&record, len, touched);
        Ok(true)
    }
}

impl State {
    /// Whether nothing is staged and nobody commits.
    fn is_idle(&self) -> bool {
        self.staging.is_empty() && !self.is_committing
    }

    /// Whether the last frame is behind a barrier, holds something of a stream, and nothing says
    /// that it was durable.
    fn needs_witness(&self) -> bool {
        self.vouched == Vouched::No
            && self.is_idle()
            && self.poisoned.is_none()
            && self.synced == self.durable
    }
}
