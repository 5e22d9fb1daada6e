//! A stream as an entry of a snapshot, and back.

use super::rare::{ClosedBy, Parent, ProducerState};
use super::slot::{Flags, Slot};
use super::{ConfigNo, SlotNo, Table};
use crate::format::snapshot::EntryFlags;
use crate::format::{Entry, ForkParent, FormatError, Producer, Structure};
use crate::ids::{Lsn, StreamId};
use crate::request::Config;

/// The entry of a stream.
pub fn entry(table: &Table, at: SlotNo) -> Entry<'_> {
    let (slot, rare) = (table.slot(at), table.rare(at));
    let mut flags = EntryFlags::default();
    if slot.flags.has(Flags::CLOSED) {
        flags = flags | EntryFlags::CLOSED;
    }
    if slot.flags.has(Flags::SOFT_DELETED) {
        flags = flags | EntryFlags::SOFT_DELETED;
    }
    let config = table.config(at);
    let parent = rare.and_then(|rare| rare.parent);
    let mut by_use: Vec<_> = rare.into_iter().flat_map(|rare| &rare.producers).collect();
    by_use.sort_by_key(|(_, state)| state.at);
    let producers = by_use.into_iter();
    let producers = producers.map(|(id, state)| Producer {
        id: id.as_bytes(),
        epoch: state.epoch,
        seq: state.sequence,
    });
    let closed_by = rare.and_then(|rare| rare.closed_by.as_ref());
    Entry {
        stream: slot.id,
        flags,
        absorbed: slot.absorbed,
        tail: slot.tail,
        region_crc: slot.region_crc,
        last_touched_ms: rare.map_or(0, |rare| rare.touched_ms),
        name: Some(table.name(at)),
        content_type: Some(config.content_type.as_str()).filter(|text| !text.is_empty()),
        expiry: config.expiry,
        fork_parent: parent.map(|p| ForkParent { stream: p.stream, offset: p.offset }),
        sequence: rare.and_then(|rare| rare.sequence.as_deref()),
        closed_by: closed_by.map(|closed_by| Producer {
            id: closed_by.id.as_bytes(),
            epoch: closed_by.epoch,
            seq: closed_by.sequence,
        }),
        metadata: Some(config.metadata.as_slice()).filter(|bytes| !bytes.is_empty()),
        producers: producers.collect(),
    }
}

/// The entry of a stream that is gone.
pub fn gone(stream: StreamId) -> Entry<'static> {
    Entry { stream, flags: EntryFlags::DELETED, ..Entry::default() }
}

/// Puts entries into a table, section by section.
#[derive(Debug, Default)]
pub struct Restorer {
    /// The last stream: mostly the next one has the same configuration.
    last: Option<SlotNo>,
}

impl Restorer {
    /// Puts a stream into the table as a section of this level has it, in place of what an older
    /// one had.
    ///
    /// # Errors
    /// When the entry is no stream's.
    pub fn restore(
        &mut self,
        table: &mut Table,
        entry: &Entry<'_>,
        level: u8,
    ) -> Result<(), FormatError> {
        let misfit = |field| FormatError::Misfit { structure: Structure::SnapshotEntry, field };
        let number = entry.stream.in_lane();
        if let Some(older) = table.partitions.slot(number) {
            if level == 0 {
                return Err(misfit("stream, which is there twice"));
            }
            table.vacate(older);
        }
        let part = table.partitions.of_mut(number);
        if !part.can_hold(number) {
            return Err(misfit("stream of a partition"));
        }
        if entry.flags.contains(EntryFlags::DELETED) {
            part.restore_gone(number, level);
            return Ok(());
        }
        let name = entry.name.ok_or_else(|| misfit("name"))?;
        let config = self.config(table, entry);
        let at = table.fill(name, slot(entry, config));
        table.partitions.of_mut(number).restore(number, at, level);
        self.last = Some(at);
        restore_rare(table, at, entry).ok_or_else(|| misfit("producer"))?;
        table.content_bytes += table.own_bytes(at);
        Ok(())
    }

    fn config(&self, table: &mut Table, entry: &Entry<'_>) -> ConfigNo {
        let content_type = entry.content_type.unwrap_or_default();
        let metadata = entry.metadata.unwrap_or_default();
        let last = self.last.map(|last| table.slot(last));
        let last = last.filter(|slot| !slot.flags.has(Flags::VACANT)).map(|slot| slot.config);
        let is_same = |number: &ConfigNo| {
            let config = table.configs.get(*number);
            config.content_type == content_type
                && config.expiry == entry.expiry
                && config.metadata == metadata
        };
        if let Some(number) = last.filter(is_same) {
            table.configs.share_again(number);
            return number;
        }
        table.configs.share(&Config {
            content_type: content_type.to_owned(),
            expiry: entry.expiry,
            metadata: metadata.to_vec(),
        })
    }
}

fn slot(entry: &Entry<'_>, config: ConfigNo) -> Slot {
    let mut slot = Slot::new(entry.stream, config);
    (slot.tail, slot.durable, slot.absorbed) = (entry.tail, entry.tail, entry.absorbed);
    slot.region_crc = entry.region_crc;
    slot.flags.set(Flags::VISIBLE);
    if entry.flags.contains(EntryFlags::CLOSED) {
        slot.flags.set(Flags::CLOSED | Flags::CLOSED_VISIBLE);
    }
    if entry.flags.contains(EntryFlags::SOFT_DELETED) {
        slot.flags.set(Flags::SOFT_DELETED);
    }
    slot
}

/// Restores what few streams have; gives nothing where a producer's name is no text.
fn restore_rare(table: &mut Table, at: SlotNo, entry: &Entry<'_>) -> Option<()> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    // They stand in the order of their last use, and every record lies behind these numbers.
    for (producer, at_least) in entry.producers.iter().zip(0..) {
        let (epoch, sequence) = (producer.epoch, producer.seq);
        let state = ProducerState { epoch, sequence, at: Lsn(at_least) };
        table.note_producer(at, text(producer.id)?, state, u32::MAX);
    }
    if let Some(by) = entry.closed_by {
        let (id, epoch, sequence) = (text(by.id)?.into(), by.epoch, by.seq);
        table.note_closed_by(at, ClosedBy { id, epoch, sequence });
    }
    if let Some(sequence) = entry.sequence {
        table.note_sequence(at, sequence);
    }
    if let Some(parent) = entry.fork_parent {
        let parent = Parent { stream: parent.stream, offset: parent.offset };
        table.rare_mut(at).parent = Some(parent);
    }
    if entry.last_touched_ms > 0 {
        let rare = table.rare_mut(at);
        (rare.touched_ms, rare.logged_touch_ms) = (entry.last_touched_ms, entry.last_touched_ms);
    }
    Some(())
}
