//! A file `manifest/<n>`: where each lane's replay starts, and which snapshot files hold the table.

mod lane_start;
mod snapshot_file;

pub use lane_start::LaneStart;
pub use snapshot_file::SnapshotFile;

use crate::format::StoreId;
use crate::format::block::{BLOCK_BYTES, Block, BlockKind, FIELDS_AT};
use crate::format::bytes::{
    Bounds, array_at, check_len, check_zero, len_u64, len_usize, put, round_up, u32_at, u64_at,
};
use crate::format::error::{FormatError, Structure};
use crate::format::snapshot::SnapshotKind;
use crate::ids::StreamId;

const LANE_COUNT_AT: usize = FIELDS_AT;
const STORE_ID_AT: usize = LANE_COUNT_AT + 4;
const NUMBER_AT: usize = STORE_ID_AT + StoreId::LEN;
const SNAPSHOT_COUNT_AT: usize = NUMBER_AT + 8;
const BODY_CRC_AT: usize = SNAPSHOT_COUNT_AT + 4;
const CRC_AT: usize = BODY_CRC_AT + 4;
const _: () = assert!(CRC_AT + 4 == 52, "a manifest's header has 52 bytes");

const KIND: BlockKind = BlockKind {
    structure: Structure::Manifest,
    magic: *b"HWMANI\0\x01",
    version: 1,
    crc_at: CRC_AT,
};

/// Most files of one manifest.
pub const MAX_SNAPSHOTS: usize = 1 << 20;

/// The root of the table and of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The store.
    pub store_id: StoreId,
    /// Its own number.
    pub number: u64,
    /// One for each lane, by lane.
    pub lanes: Vec<LaneStart>,
    /// The table, by lane, partition and number; a partition's first file is its base.
    pub snapshots: Vec<SnapshotFile>,
}

impl Manifest {
    /// Returns the length of the file, bytes: a multiple of 4096.
    pub fn encoded_len(&self) -> usize {
        file_len(self.lanes.len(), self.snapshots.len())
    }

    /// Encodes the file.
    ///
    /// # Errors
    /// When the lists are too long, not sorted, or make no sense.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        self.check_sense()?;
        let mut file = vec![0; self.encoded_len()];
        let (header, mut rest) = file.split_at_mut(BLOCK_BYTES);
        for lane in &self.lanes {
            let (out, others) = rest.split_at_mut(LaneStart::LEN);
            lane.encode_into(out);
            rest = others;
        }
        for snapshot in &self.snapshots {
            let (out, others) = rest.split_at_mut(SnapshotFile::LEN);
            snapshot.encode_into(out);
            rest = others;
        }
        let body_end = BLOCK_BYTES + body_len(self.lanes.len(), self.snapshots.len());
        let count = |len: usize| u32::try_from(len).expect("check_sense has bounded the lists");
        let counts = (count(self.lanes.len()), count(self.snapshots.len()));
        let mut block: Block = KIND.start();
        put(&mut block, LANE_COUNT_AT, &counts.0.to_le_bytes());
        put(&mut block, STORE_ID_AT, &self.store_id.0);
        put(&mut block, NUMBER_AT, &self.number.to_le_bytes());
        put(&mut block, SNAPSHOT_COUNT_AT, &counts.1.to_le_bytes());
        header.fill(0);
        let body_crc = crc32c::crc32c(&file[BLOCK_BYTES..body_end]);
        put(&mut block, BODY_CRC_AT, &body_crc.to_le_bytes());
        KIND.seal(&mut block);
        put(&mut file, 0, &block);
        Ok(file)
    }

    /// Decodes exactly one file.
    ///
    /// # Errors
    /// When the bytes are not one that this release has written.
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        let structure = Structure::Manifest;
        let Some((header, rest)) = file.split_at_checked(BLOCK_BYTES) else {
            let (needed, got) = (len_u64(BLOCK_BYTES), len_u64(file.len()));
            return Err(FormatError::WrongLength { structure, needed, got });
        };
        KIND.check(header)?;
        let (lanes, snapshots) = counts(header)?;
        check_len(file, structure, file_len(lanes, snapshots))?;
        let (body, pad) = rest.split_at(body_len(lanes, snapshots));
        let (stored, computed) = (u32_at(header, BODY_CRC_AT), crc32c::crc32c(body));
        if stored != computed {
            return Err(FormatError::WrongCrc { structure, stored, computed });
        }
        check_zero(pad, structure, "padding")?;
        // The file's length bounds both lists.
        let (lanes, snapshots) = body.split_at(lanes * LaneStart::LEN);
        let manifest = Self {
            store_id: StoreId(array_at(header, STORE_ID_AT)),
            number: u64_at(header, NUMBER_AT),
            lanes: lanes.chunks(LaneStart::LEN).map(LaneStart::decode).collect::<Result<_, _>>()?,
            snapshots: snapshots
                .chunks(SnapshotFile::LEN)
                .map(SnapshotFile::decode)
                .collect::<Result<_, _>>()?,
        };
        manifest.check_sense()?;
        Ok(manifest)
    }

    /// Checks what no writer ever writes.
    fn check_sense(&self) -> Result<(), FormatError> {
        let structure = Structure::Manifest;
        lane_bounds().check(len_u64(self.lanes.len()))?;
        snapshot_bounds().check(len_u64(self.snapshots.len()))?;
        for pair in self.lanes.windows(2) {
            if pair[0].lane >= pair[1].lane {
                let (field, stored) = ("lane", u64::from(pair[1].lane.0));
                return Err(FormatError::OutOfOrder { structure, field, stored });
            }
        }
        for lane in &self.lanes {
            let (field, most) = ("start of the replay", lane.durable_lsn.0);
            Bounds { structure, field, least: 0, most }.check(lane.replay_from.0)?;
            let (field, most) = ("next stream", StreamId::MAX_IN_LANE + 1);
            Bounds { structure, field, least: 0, most }.check(lane.next_stream)?;
        }
        let mut before: Option<&SnapshotFile> = None;
        for file in &self.snapshots {
            if self.lanes.binary_search_by_key(&file.lane, |lane| lane.lane).is_err() {
                let (field, stored) = ("lane of a snapshot", u64::from(file.lane.0));
                return Err(FormatError::UnknownValue { structure, field, stored });
            }
            let key = |file: &SnapshotFile| (file.lane, file.partition, file.number);
            if before.is_some_and(|before| key(before) >= key(file)) {
                let (field, stored) = ("snapshot", file.number);
                return Err(FormatError::OutOfOrder { structure, field, stored });
            }
            let part = |file: &SnapshotFile| (file.lane, file.partition);
            let is_first = before.is_none_or(|before| part(before) != part(file));
            if is_first != (file.kind == SnapshotKind::Base) {
                return Err(FormatError::Misfit { structure, field: "base of a partition" });
            }
            before = Some(file);
        }
        Ok(())
    }
}

/// Returns the length of the lists, bytes.
const fn body_len(lanes: usize, snapshots: usize) -> usize {
    lanes * LaneStart::LEN + snapshots * SnapshotFile::LEN
}

/// Returns the length of the file, bytes.
const fn file_len(lanes: usize, snapshots: usize) -> usize {
    BLOCK_BYTES + round_up(body_len(lanes, snapshots), BLOCK_BYTES)
}

/// Reads how long the lists are.
fn counts(header: &[u8]) -> Result<(usize, usize), FormatError> {
    let (lanes, snapshots) = (u32_at(header, LANE_COUNT_AT), u32_at(header, SNAPSHOT_COUNT_AT));
    lane_bounds().check(u64::from(lanes))?;
    snapshot_bounds().check(u64::from(snapshots))?;
    Ok((len_usize(lanes), len_usize(snapshots)))
}

/// How many lanes there can be.
const fn lane_bounds() -> Bounds {
    let (structure, field) = (Structure::Manifest, "number of lanes");
    Bounds { structure, field, least: 1, most: u16::MAX as u64 }
}

/// How many snapshots there can be.
const fn snapshot_bounds() -> Bounds {
    let (structure, field) = (Structure::Manifest, "number of snapshots");
    Bounds { structure, field, least: 0, most: MAX_SNAPSHOTS as u64 }
}

#[cfg(test)]
mod tests;
