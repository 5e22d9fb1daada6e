//! Operations on streams: decided and staged under one lock, acknowledged by tickets.

use std::sync::Arc;

use super::apply::{Effect, apply};
use super::commit::Ticket;
use super::segment::to_u64;
use super::staging::Touched;
use super::{Lane, State};
use crate::error::{LogError, LogResult, Rejection};
use crate::format::{Extensions, NewRecord, Producer, RecordHeader, RecordKind};
use crate::ids::{Lsn, Offset, StreamId};
use crate::request::{Append, AppendOutcome, Appended, Create, CreateOutcome, Created, End, Info};
use crate::table::decide::{self, Decision};
use crate::table::slot::{Flags, Position};
use crate::table::{SlotNo, Table};

impl Lane {
    /// Makes a stream, with its first content and its end if asked, in one record.
    ///
    /// # Errors
    /// [`Rejection::Exists`] when the name is taken by another configuration, [`LogError::Full`]
    /// when there are as many streams as may be, and what staging gives.
    pub fn create(self: &Arc<Self>, request: &Create<'_>) -> LogResult<Ticket<Created>> {
        let mut state = self.lock();
        state.check_healthy()?;
        self.check_payload(request.payload)?;
        let config = request.config;
        if let Some(at) = state.table.by_name(request.name) {
            return self.existing(&state, at, request);
        }
        if state.table.len() >= self.options.max_streams {
            return Err(LogError::Full(format!(
                "{} streams are the limit",
                self.options.max_streams
            )));
        }
        let id = StreamId::new(self.identity.lane, state.next_stream);
        let text = Some(config.content_type.as_str()).filter(|text| !text.is_empty());
        let metadata = Some(config.metadata.as_slice()).filter(|bytes| !bytes.is_empty());
        let fields = Extensions {
            name: Some(request.name),
            content_type: text,
            expiry: config.expiry,
            metadata,
            ..Extensions::default()
        };
        let record = NewRecord {
            kind: RecordKind::Create,
            closes: request.end == End::Close,
            stream: id,
            offset: Offset(0),
            prev: 0,
            extensions: fields,
            payload: request.payload,
            payload_crc: None,
        };
        let at = self.stage(&mut state, &record)?;
        state.next_stream += 1;
        let tail = Offset(to_u64(request.payload.len()));
        Ok(Ticket::new(self, at, Created { id, tail, outcome: CreateOutcome::New }))
    }

    /// A stream of this name is there: the same again is no change.
    fn existing(
        self: &Arc<Self>,
        state: &State,
        at: SlotNo,
        request: &Create<'_>,
    ) -> LogResult<Ticket<Created>> {
        let slot = state.table.slot(at);
        if slot.flags.has(Flags::SOFT_DELETED) {
            return Err(Rejection::SoftDeleted.into());
        }
        let is_closed = slot.flags.has(Flags::CLOSED);
        if *slot.config != *request.config || is_closed != (request.end == End::Close) {
            return Err(Rejection::Exists.into());
        }
        let created = Created { id: slot.id, tail: slot.tail, outcome: CreateOutcome::Existing };
        // It may not be durable itself yet.
        Ok(Ticket::new(self, slot.last.map_or(Lsn(0), Position::lsn), created))
    }

    /// Appends, closes, or both, in one record.
    ///
    /// # Errors
    /// The [`Rejection`] that says what does not fit, and what staging gives.
    pub fn append(self: &Arc<Self>, request: &Append<'_>) -> LogResult<Ticket<Appended>> {
        let mut state = self.lock();
        state.check_healthy()?;
        self.check_payload(request.payload)?;
        let at = state.table.by_name(request.name).ok_or(Rejection::NotFound)?;
        let slot = state.table.slot(at);
        match decide::append(slot, state.table.rare(at), request)? {
            Decision::Known { outcome, at, tail } => {
                return Ok(Ticket::new(self, at, Appended { tail, outcome }));
            }
            Decision::Stage => {}
        }
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
                ..Extensions::default()
            },
            payload: request.payload,
            payload_crc: None,
        };
        let lsn = self.stage(&mut state, &record)?;
        let tail = state.table.slot(at).tail;
        Ok(Ticket::new(self, lsn, Appended { tail, outcome: AppendOutcome::New }))
    }

    /// Deletes a stream. Its name is free at once, its bytes are gone when the ticket is done.
    ///
    /// # Errors
    /// [`Rejection::NotFound`], and what staging gives.
    pub fn delete(self: &Arc<Self>, name: &str) -> LogResult<Ticket<()>> {
        let mut state = self.lock();
        state.check_healthy()?;
        let at = state.table.by_name(name).ok_or(Rejection::NotFound)?;
        let slot = state.table.slot(at);
        let record = NewRecord {
            kind: RecordKind::Delete,
            closes: false,
            stream: slot.id,
            offset: slot.tail,
            prev: 0,
            extensions: Extensions::default(),
            payload: &[],
            payload_crc: None,
        };
        let lsn = self.stage(&mut state, &record)?;
        let woken = state.watchers.remove(&at).unwrap_or_default();
        drop(state);
        woken.into_iter().for_each(super::Waiter::wake);
        Ok(Ticket::new(self, lsn, ()))
    }

    /// Says what is known of a stream, as far as it is durable.
    pub fn info(&self, name: &str) -> Option<Info> {
        let state = self.lock();
        let at = visible(&state.table, name)?;
        let slot = state.table.slot(at);
        let parent = state.table.rare(at).and_then(|rare| rare.parent);
        Some(Info {
            id: slot.id,
            start: parent.map_or(Offset(0), |_| Offset(0)),
            tail: slot.durable,
            is_closed: slot.flags.has(Flags::CLOSED_VISIBLE),
            config: Arc::clone(&slot.config),
        })
    }

    /// Streams of this lane whose names begin so, after a name, in order; durable ones only.
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let state = self.lock();
        let mut names: Vec<&str> = state
            .table
            .iter()
            .filter(|(_, slot)| slot.flags.has(Flags::VISIBLE) && !slot.flags.has(Flags::NAMELESS))
            .map(|(_, slot)| &*slot.name)
            .filter(|name| name.starts_with(prefix) && after.is_none_or(|after| *name > after))
            .collect();
        names.sort_unstable();
        names.truncate(limit);
        names.into_iter().map(str::to_owned).collect()
    }

    fn check_payload(&self, payload: &[u8]) -> LogResult<()> {
        let (size, limit) = (to_u64(payload.len()), self.options.max_payload_bytes);
        if size > limit {
            return Err(Rejection::TooLarge { what: "the payload", size, limit }.into());
        }
        Ok(())
    }

    /// Stages a record: into the open frame, and into the table. Gives where it begins.
    fn stage(&self, state: &mut State, record: &NewRecord<'_>) -> LogResult<Lsn> {
        let len = record.encoded_len().map_err(too_large)?;
        if state.staged_bytes.saturating_add(to_u64(len)) > self.options.max_staged_bytes {
            return Err(LogError::Full(format!(
                "{} bytes wait for the disk: try again when it has caught up",
                state.staged_bytes
            )));
        }
        self.make_room(state, len)?;
        let at = state.staging.next_record();
        let known = state.table.by_id(record.stream);
        let last = known.and_then(|slot| state.table.slot(slot).last);
        let prev = last.map_or(0, |last| RecordHeader::distance(at, last.lsn()));
        let record = NewRecord { prev, ..*record };
        let header = planned_header(&record);
        let time_ms = self.now_ms();
        let max_producers = self.options.max_producers;
        let effect =
            Effect { at, header: &header, fields: &record.extensions, time_ms, max_producers };
        let slot = apply(&mut state.table, &effect)
            .expect("what was decided under this lock fits the table");
        let touched = Touched {
            slot: slot.or(known).unwrap_or(SlotNo(0)),
            id: record.stream,
            at,
            tail: slot.map_or(Offset(0), |slot| state.table.slot(slot).tail),
            deletes: record.kind == RecordKind::Delete,
            closes: slot.is_some_and(|slot| state.table.slot(slot).flags.has(Flags::CLOSED)),
        };
        state.staging.add(&record, len, touched);
        state.staged_bytes += to_u64(len);
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
        other => LogError::Full(other.to_string()),
    }
}

/// Finds a stream that readers may see.
pub(super) fn visible(table: &Table, name: &str) -> Option<SlotNo> {
    table.by_name(name).filter(|at| table.slot(*at).flags.has(Flags::VISIBLE))
}
