//! Turns a partition of a table into a section of a snapshot.

use crate::catalog::Place;
use crate::format::{FormatError, Section, SectionHeader, SectionKind, SectionWriter};
use crate::ids::{Lsn, StreamId};
use crate::table::partition::Write;
use crate::table::{Table, stored};

/// Writes a partition as it is now into a section, and notes that it is there. Gives the number
/// from which the next partition is looked for.
///
/// A delta that grows too long becomes a base. A base that does is cut: what is left over is a
/// partition of its own from then on, without any section.
///
/// # Errors
/// When a stream cannot be encoded.
pub fn write(
    table: &mut Table,
    (mut index, mut write): (usize, Write),
    (stamp, place): (Lsn, &Place),
    out: &mut SectionWriter,
) -> Result<u64, FormatError> {
    if write != Write::Base && fill(table, (index, write), place, out)?.is_some() {
        write = Write::Base;
    }
    if write == Write::Base {
        index = table.partitions_mut().join(index);
        if let Some(rest) = fill(table, (index, write), place, out)? {
            table.partitions_mut().cut(index, rest);
        }
    }
    let first = table.partitions().at(index).first();
    let kind = if write == Write::Base { SectionKind::Base } else { SectionKind::Delta };
    // The writer has counted the rest.
    let header = SectionHeader { first, stamp, kind, entries: 0, body_len: 0 };
    let crc = out.finish(&header, place.chain);
    let section = Section {
        number: place.number,
        position: place.position,
        lane: place.lane,
        first,
        kind,
        stamp,
        entries: out.entries(),
        len: u32::try_from(out.bytes().len()).expect("a section has at most 2 MiB"),
        crc,
    };
    table.note_written(index, write, section);
    Ok(first + 1)
}

/// Fills a section; gives the stream that it has no room for.
fn fill(
    table: &Table,
    (index, write): (usize, Write),
    place: &Place,
    out: &mut SectionWriter,
) -> Result<Option<u64>, FormatError> {
    out.clear();
    for (number, slot) in table.partitions().at(index).to_write(write) {
        if out.is_full() {
            return Ok(Some(number));
        }
        match slot {
            Some(at) => out.push(&stored::entry(table, at))?,
            None => out.push(&stored::gone(StreamId::new(place.lane, number)))?,
        }
    }
    Ok(None)
}
