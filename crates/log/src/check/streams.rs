//! Checks the streams of a lane: their bytes in the home, and that home and log meet.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use highwater_disk::ReadOnly;

use super::root::Whole;
use super::walk::Walked;
use super::{CheckError, CheckReport, Damage, Reach};
use crate::format::SuperBlock;
use crate::home::Extent;
use crate::home::files::Files;
use crate::ids::{LaneId, Offset, StreamId};
use crate::recover::lane_of;
use crate::table::rare::Parent;

/// Streams that there are, as far as that is known.
#[derive(Default)]
pub(super) struct Alive {
    pub streams: HashMap<StreamId, Offset>,
    /// Forks, with the stream and the offset that they were forked at.
    forks: Vec<(StreamId, Parent)>,
    /// Streams whose bytes the next checkpoint removes.
    pub dead: HashSet<StreamId>,
    /// Lanes whose table is not all there: anything may be theirs.
    pub unsure: HashSet<LaneId>,
}

impl Alive {
    /// Checks that each fork has its source, and the source all that the fork reads (I8).
    pub fn check_forks(&self, report: &mut CheckReport) {
        for (fork, Parent { stream, offset }) in &self.forks {
            let what = match self.streams.get(stream) {
                Some(tail) if tail >= offset => continue,
                _ if self.unsure.contains(&stream.lane()) => continue,
                Some(tail) => format!("which ends at {tail}"),
                None => "which is not there".to_owned(),
            };
            let what = format!("stream {fork} is a fork of stream {stream} at {offset}, {what}");
            let place = format!("lane {}", fork.lane());
            report.damage.push(Damage::serious(&place, (0, 0), what));
        }
    }
}

/// Checks them, and enters the lane into the report.
pub(super) fn check(
    disk: &ReadOnly,
    block: &SuperBlock,
    walked: Walked,
    (alive, report): (&mut Alive, &mut CheckReport),
) -> Result<(), CheckError> {
    let Walked { mut lane, table, whole, ledger, dead } = walked;
    alive.dead.extend(dead);
    let files = Files::existing(Arc::new(disk.clone()), block.stream_lanes);
    if whole == Whole::No {
        alive.unsure.insert(lane.lane);
    }
    for (at, slot) in table.iter() {
        let name = table.name(at);
        let named = || format!("stream {} ({name:?})", slot.id);
        alive.streams.insert(slot.id, slot.tail);
        if whole == Whole::Yes {
            let what = if slot.id.lane() != lane.lane || lane_of(name, block.lanes) != lane.lane {
                Some(format!("{} is in the table of lane {}, not its own", named(), lane.lane))
            } else if slot.tail > slot.absorbed
                && ledger.first(slot.id).is_none_or(|first| first > slot.absorbed)
            {
                let (absorbed, tail) = (slot.absorbed, slot.tail);
                Some(format!(
                    "{} ends at {tail}, its home has bytes up to {absorbed}, and the log does not \
                     have those behind",
                    named()
                ))
            } else {
                None
            };
            let place = format!("lane {}", lane.lane);
            let damage = what.map(|what| Damage::serious(&place, (0, 0), what));
            report.damage.extend(damage);
        }
        let parent = table.rare(at).and_then(|rare| rare.parent);
        alive.forks.extend(parent.map(|parent| (slot.id, parent)));
        let start = parent.map_or(Offset(0), |parent| parent.offset);
        if slot.absorbed <= start {
            continue;
        }
        lane.home_bytes += slot.absorbed.0 - start.0;
        let (stream, end) = (slot.id, slot.absorbed);
        let extent = Extent { stream, start, end, region_crc: slot.region_crc };
        for fault in files.verify(extent)? {
            let of = named();
            let doubt = match whole {
                Whole::Yes => "",
                Whole::No => "; unless the damaged part of the log deletes it",
            };
            report.damage.push(Damage {
                file: fault.path,
                offset: fault.offset,
                len_bytes: fault.len,
                what: format!("{of}: {}{doubt}", fault.what),
                reach: Reach::Acknowledged,
                advice: "restore the file from a copy; until then reads of this range give an \
                         error, and everything else can be read",
            });
        }
    }
    report.lanes.push(lane);
    Ok(())
}
