//! Numbers that must not be mixed up: streams, lanes, segments, epochs, and places in the log.

use std::fmt;

/// Declares a number with a meaning of its own.
macro_rules! number {
    ($(#[$meta:meta])* $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number!(
    /// An independent log with one committer.
    LaneId(u16)
);
number!(
    /// A segment's place in the order of its lane's log, from 0. Files are used again, numbers are
    /// not.
    SegmentNo(u64)
);
number!(
    /// Counts the openings of a lane: frames of an older epoch behind an epoch's start are dead.
    Epoch(u32)
);
number!(
    /// A byte position in a lane's log: segment number x segment bytes + offset in the segment.
    Lsn(u64)
);
number!(
    /// A place in a stream: payload bytes before it.
    Offset(u64)
);
number!(
    /// A stream. Never used again. The upper 16 bits are its lane's, the rest counts within it.
    StreamId(u64)
);

impl StreamId {
    const LANE_SHIFT: u32 = 48;
    /// Largest number within a lane.
    pub const MAX_IN_LANE: u64 = (1 << Self::LANE_SHIFT) - 1;

    /// Joins a lane and a number within it.
    ///
    /// # Panics
    /// When the number is larger than [`StreamId::MAX_IN_LANE`]: no store lives that long.
    pub fn new(lane: LaneId, in_lane: u64) -> Self {
        assert!(in_lane <= Self::MAX_IN_LANE, "stream numbers of a lane have 48 bits");
        Self(u64::from(lane.0) << Self::LANE_SHIFT | in_lane)
    }

    /// Its lane.
    pub fn lane(self) -> LaneId {
        LaneId(u16::try_from(self.0 >> Self::LANE_SHIFT).expect("16 bits are left"))
    }

    /// Its number within the lane.
    pub const fn in_lane(self) -> u64 {
        self.0 & Self::MAX_IN_LANE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_id_is_its_lane_and_its_number() {
        for (lane, number) in [(0, 0), (3, 17), (u16::MAX, StreamId::MAX_IN_LANE)] {
            let id = StreamId::new(LaneId(lane), number);
            assert_eq!((id.lane(), id.in_lane()), (LaneId(lane), number));
        }
    }
}
