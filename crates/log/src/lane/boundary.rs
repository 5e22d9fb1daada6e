//! Where appends end, as far as that is known: the log has a record for each, a home has bytes.

use std::sync::Arc;

use super::{Lane, State, Target};
use crate::error::{LogResult, Rejection};
use crate::ids::{Offset, StreamId};
use crate::table::SlotNo;

/// What a lane can say of an append's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// The nearest one that is known; none at the tail.
    Here(Option<Offset>),
    /// The byte is the source's, which has bytes of the stream up to `to`.
    Inherited {
        /// The source.
        source: StreamId,
        /// Where the stream's own appends begin.
        to: Offset,
    },
}

impl Lane {
    /// Finds the end of the append that has the byte at an offset: of bytes in the log that very
    /// end, of bytes at home the nearest end behind them that is known.
    ///
    /// # Errors
    /// [`Rejection::NotFound`], [`crate::error::LogError::Damaged`].
    pub(crate) fn append_end(
        self: &Arc<Self>,
        target: Target<'_>,
        from: Offset,
    ) -> LogResult<Boundary> {
        let state = self.lock();
        let at = match target {
            Target::Name(name) => self.visible(&state, name)?,
            Target::Id(id) => state.table.by_id(id).ok_or(Rejection::NotFound)?,
        };
        let (durable, absorbed) = (state.table.slot(at).durable, state.table.slot(at).absorbed);
        if from >= durable {
            return Ok(Boundary::Here(None));
        }
        let parent = state.table.rare(at).and_then(|rare| rare.parent);
        if let Some(parent) = parent.filter(|parent| from < parent.offset) {
            return Ok(Boundary::Inherited { source: parent.stream, to: parent.offset });
        }
        // Bytes move home up to where an append ends.
        let end = if from < absorbed { absorbed } else { state.record_end(at, from)? };
        Ok(Boundary::Here(Some(end)))
    }
}

impl State {
    /// Finds the end of the record that has the byte at an offset.
    fn record_end(&self, at: SlotNo, from: Offset) -> LogResult<Offset> {
        let mut next = self.chain_start(at, Offset(from.0 + 1));
        while let Some(lsn) = next {
            let (record, _) = self.record(lsn)?;
            if record.offset <= from.0 {
                let end = Offset(record.offset + record.len);
                assert!(end > from, "I1: the record before the next one's offset reaches to it");
                return Ok(end);
            }
            next = record.prev;
        }
        Err(self.no_chain(at, from))
    }
}
