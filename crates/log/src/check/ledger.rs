//! Holds records against each other, and against the table that a checkpoint made of them.
//!
//! Replay checks what it needs to build the table. This goes further: it also looks at records
//! that the table has already, at the chain of a stream's records, and at producers.

use std::collections::HashMap;

use crate::format::{Extensions, RecordHeader, RecordKind};
use crate::ids::{Lsn, Offset, StreamId};
use crate::table::Table;
use crate::table::slot::Flags;

/// What the records read so far say.
pub(super) struct Ledger {
    /// The table of the checkpoint has the records before it.
    stamp: Lsn,
    streams: HashMap<StreamId, Stream>,
    /// Whether the table has been held against them.
    settled: bool,
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
    /// Begins, with a table that has the records before `stamp`.
    pub fn new(stamp: Lsn) -> Self {
        Self { stamp, streams: HashMap::new(), settled: false }
    }

    /// Enters a record; gives what is wrong with it. `table` has all records before it.
    pub fn enter(&mut self, line: &Line<'_>, table: &Table) -> Result<(), String> {
        let header = line.header;
        if header.kind == RecordKind::EpochStart {
            return Ok(());
        }
        let id = header.stream;
        let wrong = |what: String| Err(format!("record at {} of stream {id}: {what}", line.at));
        if let Some(stream) = self.streams.get(&id) {
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
        if let Err(what) = stream.enter_producer(line, table, self.stamp) {
            return wrong(what);
        }
        stream.enter(line);
        Ok(())
    }

    /// Holds the table of a checkpoint against the records that it was made of; once, when they
    /// have all been entered and no later one has been applied to it.
    pub fn settle(&mut self, table: &Table) -> Vec<String> {
        if std::mem::replace(&mut self.settled, true) {
            return Vec::new();
        }
        let mut wrong: Vec<(StreamId, String)> = Vec::new();
        for (id, stream) in &self.streams {
            let what = match table.by_id(*id).map(|at| table.slot(at)) {
                None if stream.gone => continue,
                None => "is not in the table, though its records are in the log".to_owned(),
                Some(_) if stream.gone => "is in the table, though it was deleted".to_owned(),
                Some(slot) if slot.tail != stream.next => {
                    format!("ends at {} in the table, at {} in the log", slot.tail, stream.next)
                }
                Some(slot) if stream.closed && !slot.flags.has(Flags::CLOSED) => {
                    "is open in the table, closed in the log".to_owned()
                }
                Some(_) => continue,
            };
            wrong.push((*id, format!("stream {id} {what}")));
        }
        wrong.sort();
        wrong.into_iter().map(|(_, what)| what).collect()
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
            producers: HashMap::new(),
            newcomers: 0,
        }
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
            RecordKind::EpochStart => {}
        }
    }

    /// A producer counts up within an epoch, and begins a newer one, or anew once forgotten, at 0.
    fn enter_producer(&mut self, line: &Line<'_>, table: &Table, stamp: Lsn) -> Result<(), String> {
        let Some(producer) = line.fields.producer else { return Ok(()) };
        let known = self.producers.get(producer.id).copied();
        let before = known.or_else(|| {
            // Before its stamp the table is ahead of the record.
            let id = (line.at >= stamp).then_some(line.header.stream)?;
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
