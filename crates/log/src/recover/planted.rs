//! What planted bugs do to an opening.

use highwater_disk::Clock;

use super::scan::Bad;
use super::table::Known;
use crate::format::FrameContext;
use crate::ids::{Epoch, Lsn};
use crate::options::Options;
use crate::planted::Planted;
use crate::table::Table;
use crate::table::slot::Flags;

/// Loses what the table says of producers.
pub(super) fn forget_producers(mut known: Known, options: &Options) -> Known {
    if options.planted == Some(Planted::ProducersForgotten) {
        let slots: Vec<_> = known.table.iter().map(|(at, _)| at).collect();
        for at in slots {
            if known.table.rare(at).is_some() {
                known.table.rare_mut(at).producers.clear();
            }
        }
    }
    known
}

/// Shows what the table says is hidden.
pub(super) fn unhide(mut known: Known, options: &Options) -> Known {
    if options.planted == Some(Planted::HiddenReturns) {
        let slots: Vec<_> = known.table.iter().map(|(at, _)| at).collect();
        for at in slots {
            known.table.slot_mut(at).flags.clear(Flags::SOFT_DELETED);
        }
    }
    known
}

/// Takes the opening for a use of every stream.
pub(super) fn use_all(table: &mut Table, options: &Options, clock: &dyn Clock) {
    if options.planted == Some(Planted::ExpiryBeginsAnew) {
        let now_ms = u64::try_from(clock.wall().as_millis()).unwrap_or(u64::MAX);
        let slots: Vec<_> = table.iter().map(|(at, _)| at).collect();
        for at in slots {
            table.rare_mut(at).touched_ms = now_ms;
        }
    }
}

/// Lets any frame follow that stands at its place.
pub(super) fn take_stale(context: &mut FrameContext, options: &Options) {
    if options.planted == Some(Planted::StaleFramesTaken) {
        (context.prev_crc, context.epoch_at_least) = (None, Epoch(0));
    }
}

/// Lets nothing prove that acknowledged bytes are damaged.
pub(super) fn without_evidence<'a>(bad: Bad<'a>, options: &Options) -> Bad<'a> {
    let ignored = options.planted == Some(Planted::EvidenceIgnored);
    Bad { at: if ignored { Lsn(u64::MAX) } else { bad.at }, ..bad }
}
