//! What a record does to the table: the same when it is staged and when it is replayed.

use crate::error::OpenError;
use crate::format::{Expiry, Extensions, FormatError, RecordHeader, RecordKind, Structure};
use crate::ids::{Lsn, Offset};
use crate::request::Config;
use crate::table::rare::{ClosedBy, Mark, Parent, ProducerState};
use crate::table::slot::{Flags, Position};
use crate::table::{SlotNo, Table};

/// Records between two marks in a stream's chain: a reader walks back at most so many.
const MARK_EVERY_BYTES: u64 = 64 << 10;

/// A record as the table sees it.
#[derive(Debug, Clone, Copy)]
pub struct Effect<'a> {
    /// Where it begins.
    pub at: Lsn,
    /// Its header.
    pub header: &'a RecordHeader,
    /// Its fields.
    pub fields: &'a Extensions<'a>,
    /// Producers a stream remembers.
    pub max_producers: u32,
}

/// Changes the table as a record says; gives its stream's slot, where it still has one.
///
/// # Errors
/// When the record does not fit the table: it follows from no history.
pub fn apply(table: &mut Table, effect: &Effect<'_>) -> Result<Option<SlotNo>, OpenError> {
    let slot = table.by_id(effect.header.stream);
    apply_at(table, slot, effect)
}

/// Changes the table as a record says whose stream's slot is known, where it has one.
///
/// # Errors
/// As [`apply`].
pub fn apply_at(
    table: &mut Table,
    slot: Option<SlotNo>,
    effect: &Effect<'_>,
) -> Result<Option<SlotNo>, OpenError> {
    let is_its = |at: SlotNo| table.is_at(at, effect.header.stream);
    assert!(slot.is_none_or(is_its), "a record changes its own stream");
    let known = || slot.ok_or_else(|| misfit(effect, "stream of the record"));
    match effect.header.kind {
        RecordKind::EpochStart | RecordKind::Witness => Ok(None),
        RecordKind::Create | RecordKind::Fork => create(table, effect).map(Some),
        RecordKind::Append | RecordKind::Close => {
            let at = known()?;
            extend(table, at, effect)?;
            Ok(Some(at))
        }
        RecordKind::Delete => {
            let at = known()?;
            table.remove(at);
            Ok(None)
        }
        RecordKind::SoftDelete => {
            let at = known()?;
            table.slot_mut(at).flags.set(Flags::SOFT_DELETED);
            table.note_change(at);
            Ok(Some(at))
        }
        RecordKind::Touch => {
            let at = known()?;
            touch(table, at, effect)?;
            table.note_change(at);
            Ok(Some(at))
        }
    }
}

fn misfit(effect: &Effect<'_>, field: &'static str) -> OpenError {
    OpenError::Format {
        file: format!("lane {} at {}", effect.header.stream.lane(), effect.at),
        source: FormatError::Misfit { structure: Structure::Record, field },
    }
}

fn create(table: &mut Table, effect: &Effect<'_>) -> Result<SlotNo, OpenError> {
    let fields = effect.fields;
    let name = fields.name.ok_or_else(|| misfit(effect, "name"))?;
    if table.by_name(name).is_some() || table.by_id(effect.header.stream).is_some() {
        return Err(misfit(effect, "name or number of a new stream"));
    }
    let config = Config {
        content_type: fields.content_type.unwrap_or_default().to_owned(),
        expiry: fields.expiry,
        metadata: fields.metadata.unwrap_or_default().to_vec(),
    };
    let at = table.insert(name, effect.header.stream, &config);
    let start = effect.header.offset;
    let slot = table.slot_mut(at);
    (slot.tail, slot.durable, slot.absorbed) = (start, start, start);
    if let Some(parent) = fields.fork_parent {
        let parent = Parent { stream: parent.stream, offset: parent.offset };
        // Who forks whom is counted over all lanes, when the log is open.
        table.rare_mut(at).parent = Some(parent);
    }
    extend(table, at, effect)?;
    Ok(at)
}

/// Moves a stream's tail, its end, its producer and its sequence: all that one record says.
fn extend(table: &mut Table, at: SlotNo, effect: &Effect<'_>) -> Result<(), OpenError> {
    let header = effect.header;
    let slot = table.slot_mut(at);
    // I3: a record goes behind its stream's tail, or follows from no history.
    if header.offset != slot.tail || slot.flags.has(Flags::CLOSED) {
        return Err(misfit(effect, "offset of the payload"));
    }
    let tail = slot.tail.0.checked_add(u64::from(header.payload_len));
    let tail = tail.ok_or_else(|| misfit(effect, "length of the payload"))?;
    slot.last = Some(Position::new(effect.at));
    let closes = header.closes || header.kind == RecordKind::Close;
    if closes {
        slot.flags.set(Flags::CLOSED);
    }
    let is_far = tail - slot.absorbed.0 >= MARK_EVERY_BYTES;
    table.extend(at, Offset(tail));
    if is_far {
        mark(table, at, effect);
    }
    // I4: the producer's state is in the record that has its data.
    if let Some(producer) = effect.fields.producer {
        let id = std::str::from_utf8(producer.id).map_err(|_| misfit(effect, "producer"))?;
        let state = ProducerState { epoch: producer.epoch, sequence: producer.seq, at: effect.at };
        table.note_producer(at, id, state, effect.max_producers);
        if closes {
            let (epoch, sequence) = (producer.epoch, producer.seq);
            table.note_closed_by(at, ClosedBy { id: id.into(), epoch, sequence });
        }
    }
    if matches!(table.config(at).expiry, Some(Expiry::Sliding { .. })) {
        touch(table, at, effect)?;
    }
    if let Some(sequence) = effect.fields.sequence {
        table.note_sequence(at, sequence);
    }
    table.note_change(at);
    Ok(())
}

/// Notes a stream's use, as the log knows it.
fn touch(table: &mut Table, at: SlotNo, effect: &Effect<'_>) -> Result<(), OpenError> {
    let at_ms = effect.fields.touched_ms.ok_or_else(|| misfit(effect, "time of the use"))?;
    let rare = table.rare_mut(at);
    rare.touched_ms = rare.touched_ms.max(at_ms);
    rare.logged_touch_ms = rare.logged_touch_ms.max(at_ms);
    Ok(())
}

/// Leaves a mark where the last one is far back.
fn mark(table: &mut Table, at: SlotNo, effect: &Effect<'_>) {
    let offset = effect.header.offset;
    let rare = table.rare_mut(at);
    let last = rare.marks.last().map_or(0, |mark| mark.offset.0);
    if rare.marks.is_empty() || offset.0 - last >= MARK_EVERY_BYTES {
        rare.marks.push(Mark { offset, at: effect.at });
    }
}
