//! A file `manifest/<n>`: where each lane's replay starts, and which sections of which files hold
//! its table.

mod lane_start;
mod section;

pub use lane_start::LaneStart;
pub use section::Section;

use crate::format::StoreId;
use crate::format::block::{BLOCK_BYTES, Block, BlockKind, FIELDS_AT};
use crate::format::bytes::{
    Bounds, array_at, check_len, check_zero, len_u64, len_usize, put, round_up, u32_at, u64_at,
};
use crate::format::error::{FormatError, Structure};
use crate::format::snapshot::SectionKind;
use crate::ids::StreamId;

const LANE_COUNT_AT: usize = FIELDS_AT;
const STORE_ID_AT: usize = LANE_COUNT_AT + 4;
const NUMBER_AT: usize = STORE_ID_AT + StoreId::LEN;
const SECTION_COUNT_AT: usize = NUMBER_AT + 8;
const BODY_CRC_AT: usize = SECTION_COUNT_AT + 4;
const CRC_AT: usize = BODY_CRC_AT + 4;
const _: () = assert!(CRC_AT + 4 == 52, "a manifest's header has 52 bytes");

const KIND: BlockKind = BlockKind {
    structure: Structure::Manifest,
    magic: *b"HWMANI\0\x01",
    version: 1,
    crc_at: CRC_AT,
};

/// Most sections of one manifest.
pub const MAX_SECTIONS: usize = 1 << 20;

/// The root of the table and of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The store.
    pub store_id: StoreId,
    /// Its own number.
    pub number: u64,
    /// One for each lane, by lane.
    pub lanes: Vec<LaneStart>,
    /// The tables, by lane, partition and file; a lane's first partition begins with stream 0, a
    /// partition's first section is its base.
    pub sections: Vec<Section>,
}

impl Manifest {
    /// Returns the length of the file, bytes: a multiple of 4096.
    pub fn encoded_len(&self) -> usize {
        file_len(self.lanes.len(), self.sections.len())
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
        for section in &self.sections {
            let (out, others) = rest.split_at_mut(Section::LEN);
            section.encode_into(out);
            rest = others;
        }
        let body_end = BLOCK_BYTES + body_len(self.lanes.len(), self.sections.len());
        let count = |len: usize| u32::try_from(len).expect("check_sense has bounded the lists");
        let counts = (count(self.lanes.len()), count(self.sections.len()));
        let mut block: Block = KIND.start();
        put(&mut block, LANE_COUNT_AT, &counts.0.to_le_bytes());
        put(&mut block, STORE_ID_AT, &self.store_id.0);
        put(&mut block, NUMBER_AT, &self.number.to_le_bytes());
        put(&mut block, SECTION_COUNT_AT, &counts.1.to_le_bytes());
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
        let (lanes, sections) = counts(header)?;
        check_len(file, structure, file_len(lanes, sections))?;
        let (body, pad) = rest.split_at(body_len(lanes, sections));
        let (stored, computed) = (u32_at(header, BODY_CRC_AT), crc32c::crc32c(body));
        if stored != computed {
            return Err(FormatError::WrongCrc { structure, stored, computed });
        }
        check_zero(pad, structure, "padding")?;
        // The file's length bounds both lists.
        let (lanes, sections) = body.split_at(lanes * LaneStart::LEN);
        let manifest = Self {
            store_id: StoreId(array_at(header, STORE_ID_AT)),
            number: u64_at(header, NUMBER_AT),
            lanes: lanes.chunks(LaneStart::LEN).map(LaneStart::decode).collect::<Result<_, _>>()?,
            sections: sections
                .chunks(Section::LEN)
                .map(Section::decode)
                .collect::<Result<_, _>>()?,
        };
        manifest.check_sense()?;
        Ok(manifest)
    }

    /// Checks what no writer ever writes.
    fn check_sense(&self) -> Result<(), FormatError> {
        let structure = Structure::Manifest;
        lane_bounds().check(len_u64(self.lanes.len()))?;
        section_bounds().check(len_u64(self.sections.len()))?;
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
        let mut before = None;
        for section in &self.sections {
            self.check_section(before, section)?;
            before = Some(section);
        }
        Ok(())
    }

    /// Checks a section, and that it follows the one before.
    fn check_section(
        &self,
        before: Option<&Section>,
        section: &Section,
    ) -> Result<(), FormatError> {
        let structure = Structure::Manifest;
        section.check_sense()?;
        let Ok(lane) = self.lanes.binary_search_by_key(&section.lane, |lane| lane.lane) else {
            let (field, stored) = ("lane of a section", u64::from(section.lane.0));
            return Err(FormatError::UnknownValue { structure, field, stored });
        };
        // A table is published only once the log is durable past its stamps.
        let (field, most) = ("stamp of a section", self.lanes[lane].durable_lsn.0);
        Bounds { structure, field, least: 0, most }.check(section.stamp.0)?;
        if before.is_some_and(|before| before.key() >= section.key()) {
            let (field, stored) = ("section", section.number);
            return Err(FormatError::OutOfOrder { structure, field, stored });
        }
        let same_lane = before.filter(|before| before.lane == section.lane);
        if same_lane.is_none() && section.first != 0 {
            return Err(FormatError::Misfit { structure, field: "first partition of a lane" });
        }
        let same_partition = same_lane.filter(|before| before.first == section.first);
        if same_partition.is_none() != (section.kind == SectionKind::Base) {
            return Err(FormatError::Misfit { structure, field: "base of a partition" });
        }
        if same_partition.is_some_and(|before| before.stamp > section.stamp) {
            let (field, stored) = ("stamp of a section", section.stamp.0);
            return Err(FormatError::OutOfOrder { structure, field, stored });
        }
        Ok(())
    }
}

/// Returns the length of the lists, bytes.
const fn body_len(lanes: usize, sections: usize) -> usize {
    lanes * LaneStart::LEN + sections * Section::LEN
}

/// Returns the length of the file, bytes.
const fn file_len(lanes: usize, sections: usize) -> usize {
    BLOCK_BYTES + round_up(body_len(lanes, sections), BLOCK_BYTES)
}

/// Reads how long the lists are.
fn counts(header: &[u8]) -> Result<(usize, usize), FormatError> {
    let (lanes, sections) = (u32_at(header, LANE_COUNT_AT), u32_at(header, SECTION_COUNT_AT));
    lane_bounds().check(u64::from(lanes))?;
    section_bounds().check(u64::from(sections))?;
    Ok((len_usize(lanes), len_usize(sections)))
}

/// How many lanes there can be.
const fn lane_bounds() -> Bounds {
    let (structure, field) = (Structure::Manifest, "number of lanes");
    Bounds { structure, field, least: 1, most: u16::MAX as u64 }
}

/// How many sections there can be.
const fn section_bounds() -> Bounds {
    let (structure, field) = (Structure::Manifest, "number of sections");
    Bounds { structure, field, least: 0, most: MAX_SECTIONS as u64 }
}

#[cfg(test)]
mod tests;
