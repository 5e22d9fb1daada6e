//! Operations on streams: decided and staged under one lock, acknowledged by tickets.

use std::sync::Arc;

use super::apply::{Effect, apply_at};
use super::commit::Ticket;
use super::segment::to_u64;
use super::staging::Touched;
use super::{Amount, Claim, Lane, State, Vouched};
use crate::error::{Busy, Full, Holder, LogError, LogResult, Rejection, Scarce};
use crate::format::{Extensions, ForkParent, NewRecord, Producer, RecordHeader, RecordKind};
use crate::ids::{Lsn, Offset, StreamId};
use crate::metrics::{CommitMetrics, nanos};
use crate::request::{
    Append, AppendOutcome, Appended, Config, Create, CreateOutcome, Created, End, ForkOf, Info,
};
use crate::table::SlotNo;
use crate::table::decide::{self, Decision};
use crate::table::rare::{Parent, Rare};
use crate::table::slot::{Flags, Position, Slot};

/// A stream to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewStream<'a> {
    pub name: &'a str,
    pub config: &'a Config,
    pub payload: &'a [u8],
    pub end: End,
    pub parent: Option<Parent>,
}

impl Lane {
    /// Makes a stream, with its first content and its end if asked, in one record.
    ///
    /// # Errors
    /// [`Rejection::Exists`] when the name is taken by another configuration, [`LogError::Full`]
    /// when there are as many streams as may be, and what staging gives.
    pub fn create(self: &Arc<Self>, request: &Create<'_>) -> LogResult<Ticket<Created>> {
        let new = NewStream {
            name: request.name,
            config: request.config,
            payload: request.payload,
            end: request.end,
            parent: None,
        };
        let mut state = self.lock();
        if let Some(at) = self.living(&mut state, request.name)? {
            return self.existing(&state, at, &new, |_| true);
        }
        self.make(&mut state, &new)
    }

    /// A stream of this name is there: the same again is no change.
    pub(super) fn existing(
        self: &Arc<Self>,
        state: &State,
        at: SlotNo,
        new: &NewStream<'_>,
        is_same_parent: impl FnOnce(Option<Parent>) -> bool,
    ) -> LogResult<Ticket<Created>> {
        let slot = state.table.slot(at);
        let is_closed = slot.flags.has(Flags::CLOSED);
        let parent = state.table.rare(at).and_then(|rare| rare.parent);
        let is_same = **state.table.config(at) == *new.config
            && is_closed == (new.end == End::Close)
            && parent.is_some() == new.parent.is_some()
            && is_same_parent(parent);
        if !is_same {
            return Err(Rejection::Exists.into());
        }
        let created = Created { id: slot.id, tail: slot.tail, outcome: CreateOutcome::Existing };
        // It may not be durable itself yet.
        Ok(Ticket::new(self, slot.last.map_or(Lsn(0), Position::lsn), created))
    }

    /// Stages a stream that is not there.
    pub(super) fn make(
        self: &Arc<Self>,
        state: &mut State,
        new: &NewStream<'_>,
    ) -> LogResult<Ticket<Created>> {
        state.check_healthy()?;
        self.check_payload(new.payload)?;
        self.check_config(new)?;
        let start = new.parent.map_or(Offset(0), |parent| parent.offset);
        self.check_memory_of(
            state,
            Slot::bytes_of(new.name.as_bytes()) + new.config.bytes() + Rare::BYTES,
        )?;
        self.reserve(state, (new.name, start), 1, new.payload)?;
        let id = StreamId::new(self.identity.lane, state.next_stream);
        let config = new.config;
        let text = Some(config.content_type.as_str()).filter(|text| !text.is_empty());
        let metadata = Some(config.metadata.as_slice()).filter(|bytes| !bytes.is_empty());
        let record = NewRecord {
            kind: if new.parent.is_some() { RecordKind::Fork } else { RecordKind::Create },
            closes: new.end == End::Close,
            stream: id,
            offset: start,
            prev: 0,
            extensions: Extensions {
                name: Some(new.name),
                content_type: text,
                expiry: config.expiry,
                fork_parent: new
                    .parent
                    .map(|parent| ForkParent { stream: parent.stream, offset: parent.offset }),
                touched_ms: self.use_of(config),
                metadata,
                ..Extensions::default()
            },
            payload: new.payload,
            payload_crc: None,
        };
        let lsn = self.stage_reserved(state, &record, None)?;
        state.next_stream += 1;
        let at = state.table.by_id(id).expect("it was just staged");
        Self::schedule_expiry(state, at);
        let tail = Offset(start.0 + to_u64(new.payload.len()));
        Ok(Ticket::new(self, lsn, Created { id, tail, outcome: CreateOutcome::New }))
    }

    /// Appends, closes, or both, in one record.
    ///
    /// # Errors
    /// The [`Rejection`] that says what does not fit, and what staging gives.
    pub fn append(self: &Arc<Self>, request: &Append<'_>) -> LogResult<Ticket<Appended>> {
        let mut state = self.lock();
        state.check_healthy()?;
        self.check_payload(request.payload)?;
        let at = self.living(&mut state, request.name)?.ok_or(Rejection::NotFound)?;
        let slot = state.table.slot(at);
        let config = state.table.config(at);
        match decide::append((slot, config), state.table.rare(at), request)? {
            Decision::Known { outcome, at, tail } => {
                return Ok(Ticket::new(self, at, Appended { tail, outcome }));
            }
            Decision::Stage => {}
        }
        if request.producer.is_some() || request.sequence.is_some() {
            self.check_memory_of(&state, Rare::growth(state.table.rare(at), request))?;
        }
        self.reserve(&state, (request.name, slot.tail), 0, request.payload)?;
        let closes = request.end == End::Close;
        let is_empty = request.payload.is_empty();
        let producer = request.producer.as_ref();
        let record = NewRecord {
            kind: if is_empty { RecordKind::Close } else { RecordKind::Append },
            closes: closes && !is_empty,
            stream: slot.id,
            offset: slot.tail,
            prev: 0,
            extensions: Extensions {
                producer: producer.map(|p| Producer {
                    id: p.id.as_bytes(),
                    epoch: p.epoch,
                    seq: p.sequence,
                }),
                sequence: request.sequence,
                touched_ms: self.use_of(config),
                ..Extensions::default()
            },
            payload: request.payload,
            payload_crc: None,
        };
        let lsn = self.stage_reserved(&mut state, &record, Some(at))?;
        let tail = state.table.slot(at).tail;
        Ok(Ticket::new(self, lsn, Appended { tail, outcome: AppendOutcome::New }))
    }

    /// Deletes a stream: done when the ticket is. Its name is free at once, unless forks read it:
    /// then it is kept for them, and its name stays taken.
    ///
    /// # Errors
    /// [`Rejection::NotFound`], [`Rejection::SoftDeleted`], and what staging gives.
    pub fn delete(self: &Arc<Self>, name: &str) -> LogResult<Ticket<()>> {
        let mut state = self.lock();
        state.check_healthy()?;
        let at = self.living(&mut state, name)?.ok_or(Rejection::NotFound)?;
        let lsn = self.stage_end(&mut state, at)?;
        let woken = std::mem::take(&mut state.ended);
        drop(state);
        woken.into_iter().for_each(super::Waiter::wake);
        Ok(Ticket::new(self, lsn, ()))
    }

    /// Stages a stream's deletion, or that only its forks may read it from now on. Its watchers
    /// are left to be woken.
    pub(super) fn stage_end(&self, state: &mut State, at: SlotNo) -> LogResult<Lsn> {
        let has_forks = state.table.rare(at).is_some_and(|rare| rare.forks > 0);
        let has_forks = has_forks && !planted!(self.options, SourceForgotten);
        let slot = state.table.slot(at);
        let record = NewRecord {
            kind: if has_forks { RecordKind::SoftDelete } else { RecordKind::Delete },
            closes: false,
            stream: slot.id,
            offset: slot.tail,
            prev: 0,
            extensions: Extensions::default(),
            payload: &[],
            payload_crc: None,
        };
        let lsn = self.stage(state, &record, Some(at))?;
        // The slot may be another stream's by the time this is durable.
        if !planted!(self.options, WatchersForgotten) {
            state.end_watches(at);
        }
        Ok(lsn)
    }

    /// Says what is known of a stream, as far as it is durable.
    pub fn info(&self, name: &str) -> Option<Info> {
        let state = self.lock();
        let at = self.visible(&state, name).ok()?;
        let slot = state.table.slot(at);
        let parent = state.table.rare(at).and_then(|rare| rare.parent);
        Some(Info {
            id: slot.id,
            fork: parent.map(|p| ForkOf { source: p.stream, offset: p.offset }),
            tail: slot.durable,
            is_closed: slot.flags.has(Flags::CLOSED_VISIBLE),
            config: Arc::clone(state.table.config(at)),
        })
    }

    pub(super) fn check_payload(&self, payload: &[u8]) -> LogResult<()> {
        let (size, limit) = (to_u64(payload.len()), self.options.max_payload_bytes);
        if size > limit {
            return Err(Rejection::TooLarge { what: "the payload", size, limit }.into());
        }
        Ok(())
    }

    /// Refuses what would lead a stream, or all of them, beyond what they may have; what is not
    /// refused is held from here on.
    fn reserve(
        &self,
        state: &State,
        (name, tail): (&str, Offset),
        streams: u64,
        payload: &[u8],
    ) -> LogResult<()> {
        let (bytes, most) = (to_u64(payload.len()), self.options.max_stream_bytes);
        let is_bounded = bytes > 0
            && self.options.unbounded_prefix.is_none_or(|prefix| !name.starts_with(prefix));
        if is_bounded && tail.0.saturating_add(bytes) > most {
            self.end_overdue(state);
            let why = format!("a stream has {most} bytes at most");
            return Err(LogError::Full(Full { of: Holder::Stream, why }));
        }
        let most = Amount {
            streams: if streams > 0 { self.options.max_streams } else { u64::MAX },
            bytes: if is_bounded { self.options.max_total_bytes } else { u64::MAX },
        };
        let more = Amount { streams, bytes };
        self.holdings
            .reserve(self.identity.lane, Amount::of(&state.table), more, most)
            .inspect_err(|_| self.end_overdue(state))
    }

    fn check_config(&self, new: &NewStream<'_>) -> LogResult<()> {
        let name = ("the name", new.name.len(), self.options.max_name_bytes);
        let metadata = &new.config.metadata;
        let metadata = ("the metadata", metadata.len(), self.options.max_metadata_bytes);
        for (what, size, limit) in [name, metadata] {
            let (size, limit) = (to_u64(size), u64::from(limit));
            if size > limit {
                return Err(Rejection::TooLarge { what, size, limit }.into());
            }
        }
        Ok(())
    }

    /// Refuses what would take the table beyond its memory (I11).
    fn check_memory_of(&self, state: &State, growth: u64) -> LogResult<()> {
        let (bytes, limit) = (state.table.bytes(), self.options.lane_table_bytes());
        if growth > 0 && bytes + growth > limit {
            return Err(LogError::Full(Full::of_all(format!(
                "streams of this lane take {bytes} bytes of memory, and {limit} may be: delete \
                 some, or raise max_table_bytes"
            ))));
        }
        Ok(())
    }

    /// Stages what was reserved; what is not staged is held no more.
    fn stage_reserved(
        &self,
        state: &mut State,
        record: &NewRecord<'_>,
        known: Option<SlotNo>,
    ) -> LogResult<Lsn> {
        let staged = self.stage(state, record, known);
        if staged.is_err() {
            self.holdings.set(self.identity.lane, Amount::of(&state.table));
        }
        staged
    }

    /// Stages a record of a stream whose slot is known, where it has one: into the open frame, and
    /// into the table. Gives where it begins.
    pub(super) fn stage(
        &self,
        state: &mut State,
        record: &NewRecord<'_>,
        known: Option<SlotNo>,
    ) -> LogResult<Lsn> {
        state.check_writable()?;
        let len = record.encoded_len().map_err(too_large)?;
        if state.staged_bytes.saturating_add(to_u64(len)) > self.options.max_staged_bytes {
            let waiting = state.staged_bytes;
            let why = format!("{waiting} bytes wait for the disk: try again when it has caught up");
            return Err(LogError::Busy(Busy { of: Scarce::Staged, why }));
        }
        self.make_room(state, len, Claim::of(record.kind))?;
        // One record in so many is timed; the clock is also read for a batch's first.
        let is_timed = state.commits.staged.is_multiple_of(CommitMetrics::STAGE_SAMPLE);
        let is_first = state.staging.is_empty();
        let begun = (is_timed || is_first).then(|| self.clock.monotonic());
        let at = state.staging.next_record();
        let parent = known.and_then(|slot| state.table.rare(slot)).and_then(|rare| rare.parent);
        let last = known.and_then(|slot| state.table.slot(slot).last);
        let prev = last.map_or(0, |last| RecordHeader::distance(at, last.lsn()));
        let record = NewRecord { prev, ..*record };
        let header = planned_header(&record);
        let max_producers = self.options.max_producers;
        let effect = Effect { at, header: &header, fields: &record.extensions, max_producers };
        let slot = apply_at(&mut state.table, known, &effect)
            .expect("what was decided under this lock fits the table");
        self.holdings.set(self.identity.lane, Amount::of(&state.table));
        let touched = Touched {
            slot: slot.or(known).unwrap_or(SlotNo(0)),
            id: record.stream,
            at,
            tail: slot.map_or(Offset(0), |slot| state.table.slot(slot).tail),
            deletes: record.kind == RecordKind::Delete,
            releases: parent.map(|parent| parent.stream),
            closes: slot.is_some_and(|slot| state.table.slot(slot).flags.has(Flags::CLOSED)),
        };
        if let Some(now) = begun {
            state.note_waiting(now);
        }
        if touched.deletes && planted!(self.options, ReleasedEarly) {
            state.released.extend(touched.releases);
        }
        let is_watched = slot.is_some_and(|at| state.table.slot(at).flags.has(Flags::WATCHED));
        state.staging.add(&record, len, touched);
        state.vouched = Vouched::No;
        if is_watched {
            self.hurry(state);
        }
        state.staged_bytes += to_u64(len);
        state.commits.staged += 1;
        if let Some(begun) = begun.filter(|_| is_timed) {
            let took = self.clock.monotonic().saturating_sub(begun);
            state.commits.stage_ns.record(nanos(took));
        }
        Ok(at)
    }
}

/// The header as it will be encoded, but for the checksum, which the table does not look at.
fn planned_header(record: &NewRecord<'_>) -> RecordHeader {
    RecordHeader {
        kind: record.kind,
        closes: record.closes,
        ext_len: 0,
        payload_len: u32::try_from(record.payload.len()).expect("encoded_len has checked it"),
        stream: record.stream,
        offset: record.offset,
        payload_crc: 0,
        prev: record.prev,
    }
}

fn too_large(error: crate::format::FormatError) -> LogError {
    match error {
        crate::format::FormatError::OutOfRange { field, stored, most, .. } if stored > most => {
            Rejection::TooLarge { what: field, size: stored, limit: most }.into()
        }
        crate::format::FormatError::OutOfRange { field, .. } => Rejection::Empty(field).into(),
        other => LogError::Full(Full::of_all(other.to_string())),
    }
}
