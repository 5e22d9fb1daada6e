//! A piece of a stream, encoded once for all who get it.

use bytes::Bytes;
use highwater_log::ids::Offset;

use crate::content::Kind;
use crate::cursor::Cursor;
use crate::service::Body;
use crate::sse::{Control, write_control, write_data};

/// A data event, if there is data, and its control event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    /// First byte of its data.
    pub start: Offset,
    /// What its control event says.
    pub control: Control,
    cursor: Cursor,
    events: Bytes,
    data_len: usize,
}

impl Parcel {
    /// Encodes it.
    pub fn new(kind: Kind, start: Offset, body: &Body, control: Control, cursor: Cursor) -> Self {
        let mut events = Vec::new();
        write_data(kind, body, &mut events);
        let data_len = events.len();
        write_control(&control, cursor, &mut events);
        Self { start, control, cursor, events: events.into(), data_len }
    }

    /// Gives the events for a reader whose cursor must not be below its own: the same bytes for
    /// all but those who brought a cursor from the future.
    pub fn events(&self, least: Option<Cursor>) -> Bytes {
        match least {
            Some(least) if least > self.cursor && !self.control.is_closed => {
                let mut own = self.events[..self.data_len].to_vec();
                write_control(&self.control, least, &mut own);
                own.into()
            }
            _ => self.events.clone(),
        }
    }

    /// Bytes that it takes.
    pub fn len(&self) -> usize {
        self.events.len()
    }
}
