//! Holds records against each other, and against the snapshots that checkpoints made of them.
//!
//! Replay checks what it needs to build the table. This goes further: it also looks at records
//! that the snapshots have already, at the chain of a stream's records, and at producers.

use std::collections::HashMap;

use crate::format::{Extensions, RecordHeader, RecordKind};
use crate::ids::{Lsn, Offset, StreamId};
use crate::table::Table;
use crate::table::slot::Flags;

/// What the records read so far say.
#[derive(Default)]
pub(super) struct Ledger {
    streams: HashMap<StreamId, Stream>,
    /// Streams that are not in the table as their records say.
    wrong: Vec<(StreamId, String)>,
}

/// What the records of a stream say.
struct Stream {
    /// Offset of the first byte that the log still has.
    first: Offset,
    /// Behind the last.
    next: Offset,
    /// The last record that later ones point back to.
    last: Option<Lsn>,
    closed: bool,
    gone: bool,
    /// Whether the table has been held against the records that its snapshot has.
    settled: bool,
    producers: HashMap<Box<[u8]>, Place>,
    /// Counts the producers that came: each may have pushed out another.
    newcomers: u64,
}

/// Where a producer stands.
#[derive(Clone, Copy)]
struct Place {
    epoch: u64,
    sequence: u64,
    newcomers: u64,
}

/// A record, and where it begins.
pub(super) struct Line<'a> {
    pub at: Lsn,
    pub header: &'a RecordHeader,
    pub fields: &'a Extensions<'a>,
}

impl Ledger {
    /// Enters a record; gives what is wrong with it. `table` has all frames before its own.
    pub fn enter(&mut self, line: &Line<'_>, table: &Table) -> Result<(), String> {
        let header = line.header;
        if header.kind.is_of_no_stream() {
            return Ok(());
        }
        let id = header.stream;
        let wrong = |what: String| Err(format!("record at {} of stream {id}: {what}", line.at));
        let is_later = line.at >= table.stamp(id);
        if let Some(stream) = self.streams.get_mut(&id) {
            if is_later {
                // What the snapshot has ends here.
                self.wrong.extend(stream.settle(id, table));
            }
            if stream.gone {
                return wrong("the stream was deleted before".to_owned());
            }
            let is_placed = !matches!(header.kind, RecordKind::Touch | RecordKind::SoftDelete);
            if is_placed && header.offset != stream.next {
                return wrong(format!("offset {}, expected {}", header.offset, stream.next));
            }
            if stream.closed && (header.kind.adds_bytes() || header.kind == RecordKind::Close) {
                return wrong("the stream was closed before".to_owned());
            }
            let back = header.prev_lsn(line.at);
            if back.is_some() && stream.last.is_some() && back != stream.last {
                return wrong("it does not point back to the stream's record before".to_owned());
            }
        }
        let stream = self.streams.entry(id).or_insert_with(|| Stream::new(header.offset));
        stream.settled |= is_later;
        if let Err(what) = stream.enter_producer(line, table) {
            return wrong(what);
        }
        stream.enter(line);
        Ok(())
    }

    /// Gives the streams that the table does not have as their records say, once all records have
    /// been entered: each is held against the snapshot that its partition was loaded from.
    pub fn settle(&mut self, table: &Table) -> Vec<(StreamId, String)> {
        for (id, stream) in &mut self.streams {
            self.wrong.extend(stream.settle(*id, table));
        }
        self.wrong.sort();
        std::mem::take(&mut self.wrong)
    }

    /// First offset of a stream that the log still has.
    pub fn first(&self, id: StreamId) -> Option<Offset> {
        self.streams.get(&id).map(|stream| stream.first)
    }
}

impl Stream {
    fn new(first: Offset) -> Self {
        Self {
            first,
            next: first,
            last: None,
            closed: false,
            gone: false,
            settled: false,
            producers: HashMap::new(),
            newcomers: 0,
        }
    }

    /// Holds the table against the records so far, which its snapshot has; once.
    fn settle(&mut self, id: StreamId, table: &Table) -> Option<(StreamId, String)> {
        if std::mem::replace(&mut self.settled, true) {
            return None;
        }
        let what = match table.by_id(id).map(|at| table.slot(at)) {
            None if self.gone => return None,
            None => "is not in the table, though its records are in the log".to_owned(),
            Some(_) if self.gone => "is in the table, though it was deleted".to_owned(),
            Some(slot) if slot.tail != self.next => {
                format!("ends at {} in the table, at {} in the log", slot.tail, self.next)
            }
            Some(slot) if self.closed && !slot.flags.has(Flags::CLOSED) => {
                "is open in the table, closed in the log".to_owned()
            }
            Some(_) => return None,
        };
        Some((id, format!("stream {id} {what}")))
    }

    fn enter(&mut self, line: &Line<'_>) {
        let header = line.header;
        match header.kind {
            RecordKind::Create | RecordKind::Fork | RecordKind::Append | RecordKind::Close => {
                self.next = Offset(header.offset.0.saturating_add(header.payload_len.into()));
                self.closed |= header.closes || header.kind == RecordKind::Close;
                self.last = Some(line.at);
            }
            RecordKind::Delete => self.gone = true,
            // Whether later records point back to these depends on an opening in between.
            RecordKind::SoftDelete | RecordKind::Touch => self.last = None,
            RecordKind::EpochStart | RecordKind::Witness => {}
        }
    }

    /// A producer counts up within an epoch, and begins a newer one, or anew once forgotten, at 0.
    fn enter_producer(&mut self, line: &Line<'_>, table: &Table) -> Result<(), String> {
        let Some(producer) = line.fields.producer else { return Ok(()) };
        let known = self.producers.get(producer.id).copied();
        let before = known.or_else(|| {
            // Before its stamp the table is ahead of the record.
            let id = line.header.stream;
            let id = (line.at >= table.stamp(id)).then_some(id)?;
            let rare = table.by_id(id).and_then(|at| table.rare(at))?;
            let state = rare.producers.get(std::str::from_utf8(producer.id).ok()?)?;
            Some(Place { epoch: state.epoch, sequence: state.sequence, newcomers: 0 })
        });
        let follows = before.is_none_or(|before| {
            let next = before.epoch == producer.epoch
                && before.sequence.checked_add(1) == Some(producer.seq);
            let newer = producer.epoch > before.epoch && producer.seq == 0;
            let anew = producer.seq == 0 && self.newcomers > before.newcomers;
            next || newer || anew
        });
        if let (false, Some(before)) = (follows, before) {
            return Err(format!(
                "producer at epoch {} sequence {}, after epoch {} sequence {}",
                producer.epoch, producer.seq, before.epoch, before.sequence
            ));
        }
        if before.is_none() || producer.seq == 0 {
            self.newcomers += 1;
        }
        let (epoch, sequence) = (producer.epoch, producer.seq);
        let place = Place { epoch, sequence, newcomers: self.newcomers };
        self.producers.insert(producer.id.into(), place);
        Ok(())
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
