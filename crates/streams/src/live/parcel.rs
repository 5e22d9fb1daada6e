//! A piece of a stream, encoded once for all who get it.

use bytes::Bytes;
use highwater_log::ids::Offset;

use super::framed::Framed;
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
    events: Framed,
    data_len: usize,
}

impl Parcel {
    /// Encodes it.
    pub fn new(kind: Kind, start: Offset, body: &Body, control: Control, cursor: Cursor) -> Self {
        let mut data_len = 0;
        let events = Framed::new(|out| {
            let before = out.len();
            write_data(kind, body, out);
            data_len = out.len() - before;
            write_control(&control, cursor, out);
        });
        Self { start, control, cursor, events, data_len }
    }

    /// Has its memory held by what is made of it.
    pub fn held(self, by: impl FnOnce(Bytes) -> Bytes) -> Self {
        Self { events: self.events.held(by), ..self }
    }

    /// Whether a reader whose cursor must not be below its own cannot share its bytes.
    pub fn is_too_early(&self, least: Option<Cursor>) -> bool {
        !self.control.is_closed && least.is_some_and(|least| least > self.cursor)
    }

    /// Gives the events for a reader whose cursor must not be below its own: the same bytes for
    /// all but those who brought a cursor from the future.
    pub fn events(&self, least: Option<Cursor>) -> Framed {
        match least {
            Some(least) if self.is_too_early(Some(least)) => {
                let data = self.events.bytes().slice(..self.data_len);
                Framed::new(|out| {
                    out.extend_from_slice(&data);
                    write_control(&self.control, least, out);
                })
            }
            _ => self.events.clone(),
        }
    }

    /// Bytes that it takes.
    pub fn len(&self) -> usize {
        self.events.len()
    }
}
