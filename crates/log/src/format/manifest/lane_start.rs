//! Where a lane's replay starts, as a manifest says it.

use crate::format::bytes::{check_zero, put, u16_at, u32_at, u64_at};
use crate::format::error::{FormatError, Structure};
use crate::ids::{Epoch, LaneId, Lsn};

const LANE_AT: usize = 0;
const CHAIN_KNOWN_AT: usize = LANE_AT + 2;
const EPOCH_AT: usize = CHAIN_KNOWN_AT + 2;
const REPLAY_FROM_AT: usize = EPOCH_AT + 4;
const DURABLE_LSN_AT: usize = REPLAY_FROM_AT + 8;
const NEXT_STREAM_AT: usize = DURABLE_LSN_AT + 8;
const PREV_CRC_AT: usize = NEXT_STREAM_AT + 8;
const ZERO_AT: usize = PREV_CRC_AT + 4;
const LEN: usize = ZERO_AT + 4;
const _: () = assert!(LEN == 40, "a lane's start has 40 bytes");

/// Where a lane's replay starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneStart {
    /// The lane.
    pub lane: LaneId,
    /// Its epoch.
    pub epoch: Epoch,
    /// The first frame to replay.
    pub replay_from: Lsn,
    /// Everything before it was durable when the manifest was written.
    pub durable_lsn: Lsn,
    /// Smallest number within the lane that no stream has had.
    pub next_stream: u64,
    /// `prev_crc` of the first frame to replay; absent when it is not known.
    pub prev_crc: Option<u32>,
}

impl LaneStart {
    /// Length, bytes.
    pub const LEN: usize = LEN;

    pub(super) fn encode_into(&self, out: &mut [u8]) {
        let chain_known = u16::from(self.prev_crc.is_some());
        put(out, LANE_AT, &self.lane.0.to_le_bytes());
        put(out, CHAIN_KNOWN_AT, &chain_known.to_le_bytes());
        put(out, EPOCH_AT, &self.epoch.0.to_le_bytes());
        put(out, REPLAY_FROM_AT, &self.replay_from.0.to_le_bytes());
        put(out, DURABLE_LSN_AT, &self.durable_lsn.0.to_le_bytes());
        put(out, NEXT_STREAM_AT, &self.next_stream.to_le_bytes());
        put(out, PREV_CRC_AT, &self.prev_crc.unwrap_or(0).to_le_bytes());
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let structure = Structure::Manifest;
        check_zero(&bytes[ZERO_AT..], structure, "padding")?;
        let prev_crc = u32_at(bytes, PREV_CRC_AT);
        let prev_crc = match u16_at(bytes, CHAIN_KNOWN_AT) {
            0 if prev_crc != 0 => {
                return Err(FormatError::NotZero { structure, field: "unknown chain" });
            }
            0 => None,
            1 => Some(prev_crc),
            other => {
                let (field, stored) = ("mark of a known chain", u64::from(other));
                return Err(FormatError::UnknownValue { structure, field, stored });
            }
        };
        Ok(Self {
            lane: LaneId(u16_at(bytes, LANE_AT)),
            epoch: Epoch(u32_at(bytes, EPOCH_AT)),
            replay_from: Lsn(u64_at(bytes, REPLAY_FROM_AT)),
            durable_lsn: Lsn(u64_at(bytes, DURABLE_LSN_AT)),
            next_stream: u64_at(bytes, NEXT_STREAM_AT),
            prev_crc,
        })
    }
}
