//! Opening: makes a new store, or finds where each lane ended and goes on from there.
//!
//! Nothing is changed until the log has been judged. What is changed then, the start of a new
//! epoch, is one frame at the end; a crash in between is a normal start (I7).

mod find;
mod lane;
#[cfg(feature = "planted")]
mod planted;
mod scan;
mod store;
mod table;

pub(crate) use find::{is_outrun, is_part_of};
pub(crate) use lane::{Replay, begins_with, lane_of, open_lane};
pub(crate) use scan::{NoFrame, Reading, Stands, Stretch, headers};
pub(crate) use store::{check_label, directories, lock_directories, open_store, refuse_orphans};
pub(crate) use table::{Loader, partitions};
